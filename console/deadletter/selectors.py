"""Dead letters as pages and REST list them: from the rows of the last round and the ledger, no broker
asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from django.db.models import Count, Max, Min

from console.deadletter.models import LedgerState, ReplayLedger
from console.lag.models import GroupRow, TopicQueueRow, TopicRow
from console.mqadmin import MessageQueue
from console.operation.models import Job, JobState
from console.operation.selectors import Page, paged

DLQ_PREFIX = "%DLQ%"
KIND = "dead_letter_replay"
PERM_READ = 4
SPEED_JOBS, SPEED_SENT_MIN = 10, 1_000  # jobs looked at, and copies below which a speed says nothing
GROUPS_MAX = 5_000  # rows of one page's list; beyond that the page says so


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """Dead letters of one group. None is unknown, never zero. Times in ms since 1970 UTC, growth in letters
    per hour."""

    group: str
    topic: str
    count: int | None
    lower_bound: bool
    growth_per_h: float | None
    oldest_ms: int | None
    readable: bool  # False: the topic is write-only (perm 2), as brokers up to 4.9.0 create it
    last_replay_ms: int | None
    last_replay_sent: int | None
    last_replay_plan: str
    active_job: str  # id of a replay that is not finished, "" when none
    read_at_ms: int
    reason: str


def dead_letter_page(cluster: str, *, query: str = "") -> list[DeadLetterRow]:
    """Every group of the cluster that has a dead-letter topic, most dead letters first; unknown counts on
    top."""
    topics = {
        row.topic.removeprefix(DLQ_PREFIX): row
        for row in TopicRow.objects.filter(
            cluster=cluster, topic__startswith=DLQ_PREFIX, topic__icontains=query
        )[:GROUPS_MAX]
    }
    growth = _growth(cluster)
    replays = _last_replays(cluster)
    active = dict(
        Job.objects.filter(cluster=cluster, kind=KIND)
        .exclude(state__in=(JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED))
        .values_list("subject", "pk")
    )
    rows = [_row(group, topic, growth, replays, active) for group, topic in topics.items()]
    return sorted(rows, key=lambda row: (row.count is not None, -(row.count or 0), row.group))


def dead_letters_of(cluster: str, group: str) -> DeadLetterRow | None:
    """The row of one group, or None when it has no dead-letter topic."""
    found = [row for row in dead_letter_page(cluster, query=DLQ_PREFIX + group) if row.group == group]
    return found[0] if found else None


def _row(
    group: str,
    topic: TopicRow,
    growth: dict[str, float],
    replays: dict[str, tuple[int, int, str]],
    active: dict[str, str],
) -> DeadLetterRow:
    last_ms, sent, plan_id = replays.get(group, (None, None, ""))
    return DeadLetterRow(
        group=group,
        topic=topic.topic,
        count=topic.messages,
        lower_bound=topic.messages_lower_bound,
        growth_per_h=growth.get(topic.topic),
        oldest_ms=topic.read_at_ms - topic.retained_ms
        if topic.messages and topic.retained_ms is not None
        else None,
        readable=bool(topic.perm & PERM_READ),
        last_replay_ms=last_ms,
        last_replay_sent=sent,
        last_replay_plan=plan_id,
        active_job=active.get(group, ""),
        read_at_ms=topic.read_at_ms,
        reason=topic.reason,
    )


def _growth(cluster: str) -> dict[str, float]:
    """Dead letters per hour and topic, where every queue of it has a known rate."""
    sums: dict[str, float] = {}
    unknown: set[str] = set()
    queues = TopicQueueRow.objects.filter(cluster=cluster, topic__startswith=DLQ_PREFIX)
    for topic, rate in queues.values_list("topic", "in_rate"):
        if rate is None:
            unknown.add(topic)
        else:
            sums[topic] = sums.get(topic, 0.0) + rate * 3600
    return {topic: per_h for topic, per_h in sums.items() if topic not in unknown}


def _last_replays(cluster: str) -> dict[str, tuple[int, int, str]]:
    """Group → (when, how many, plan) of its newest replay that sent anything."""
    sums = (
        ReplayLedger.objects.filter(cluster=cluster, state=LedgerState.SENT)
        .values("group", "plan_id")
        .annotate(at=Max("updated_at_ms"), sent=Count("pk"))
        .order_by("at")
    )
    return {each["group"]: (each["at"], each["sent"], each["plan_id"]) for each in sums}


def ledger_page(
    plan_id: str, *, states: Iterable[str] = (), page: int = 1, per_page: int = 50
) -> Page[ReplayLedger]:
    """Ledger rows of one replay, newest first."""
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by("-id")
    wanted = list(states)
    return paged(rows.filter(state__in=wanted) if wanted else rows, page=page, per_page=per_page)


def ledger_counts(plan_id: str) -> dict[str, int]:
    """State → number of ledger rows of one replay; every state is present."""
    counts = dict.fromkeys(LedgerState.values, 0)
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by().values_list("state")
    counts.update(dict(rows.annotate(number=Count("pk"))))
    return counts


def spot_checks(plan_id: str, number: int) -> list[ReplayLedger]:
    """Up to ``number`` sent rows of a replay, spread over all of them, without reading all of them."""
    sent = ReplayLedger.objects.filter(plan_id=plan_id, state=LedgerState.SENT).order_by("id")
    span = sent.aggregate(low=Min("id"), high=Max("id"))
    if span["low"] is None:
        return []
    step = max(1, (span["high"] - span["low"]) // number)
    found = {
        row.pk: row
        for start in range(span["low"], span["high"] + 1, step)
        if (row := sent.filter(id__gte=start).first())
    }
    return list(found.values())[:number]


def sent_before(cluster: str, queue: MessageQueue, message_ids: Mapping[int, str]) -> dict[int, str]:
    """Offset → newest plan that sent this letter or marked it as handled.

    ``message_ids``: offset → id, so that a queue that was deleted and made anew is not taken for the old one.
    """
    if not message_ids:
        return {}
    rows = ReplayLedger.objects.filter(
        cluster=cluster,
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        queue_offset__range=(min(message_ids), max(message_ids)),
        state__in=(LedgerState.SENT, LedgerState.HANDLED),
    ).order_by("id")
    found: dict[int, str] = {}
    for offset, message_id, plan_id in rows.values_list("queue_offset", "message_id", "plan_id"):
        if message_ids.get(offset) == message_id:
            found[offset] = plan_id
    return found


def usual_speed(cluster: str) -> float | None:
    """Copies per second of the newest finished replay without a limit; None when there was none."""
    jobs = Job.objects.filter(cluster=cluster, kind=KIND, state=JobState.SUCCEEDED, rate_per_s__isnull=True)
    for result in jobs.values_list("result", flat=True)[:SPEED_JOBS]:
        if result.get("sent_per_s") and result.get("sent", 0) >= SPEED_SENT_MIN:
            return float(result["sent_per_s"])
    return None


def group_row(cluster: str, group: str) -> GroupRow | None:
    """The group as the last round saw it, for the page's header."""
    return GroupRow.objects.filter(cluster=cluster, group=group).first()
