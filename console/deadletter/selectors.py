"""Dead letters for pages and REST, from the rows of the last round and the ledger; no broker is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Count, Max, Min
from django.db.models.expressions import OrderBy

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import DLQ_TOPIC_PREFIX, MessageQueue, dead_letter_topic
from console.deadletter.models import NAME_LENGTH_MAX, DeadLetterSurvey, LedgerState, ReplayLedger
from console.lag.models import ClientRow, GroupRow, TopicRow
from console.lag.rows import queues
from console.lists.page import Page, cut, cut_after
from console.lists.query import ListQuery
from console.lists.spec import Column, ListSpec
from console.operation.models import FINAL_STATES, Job, JobState
from console.text import Text
from console.text.storable import storable

DLQ_KIND = "DLQ"  # TopicRow.kind
KIND = "dead_letter_replay"
PERM_READ = 4
MEMBERS_MAX = 200  # offered as targets of one message
SPEED_JOBS, SPEED_SENT_MIN = 10, 1_000  # jobs read, and the copies a speed needs to be meaningful


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """A cause of death and how many letters have it; "" is "no cause given"."""

    cause: str
    letters: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """Dead letters of one group. None is unknown, never zero. Times in ms since 1970 UTC.

    ``growth_per_h``: letters that arrived in the last hour and are still stored, as far as it was observed
    (``growth_minutes`` of 60): means of minutes do not add up to more than there are. ``expires_ms``: when a broker may
    delete the oldest. ``causes`` are those of the ``sampled`` newest; ``settled`` letters were replayed or marked as
    handled, as of ``surveyed_ms``.
    """

    group: str
    topic: str
    count: int | None
    lower_bound: bool
    growth_per_h: float | None
    growth_minutes: int
    oldest_ms: int | None
    expires_ms: int | None
    readable: bool  # False: the topic is write-only (perm 2), as brokers up to 4.9.0 create it
    causes: tuple[Cause, ...]
    sampled: int
    settled: int | None
    problem: str  # why the survey could not read them
    surveyed_ms: int | None
    last_replay_ms: int | None
    last_replay_sent: int | None
    last_replay_plan: str
    active_job: str  # id of a replay that is not finished, "" when none
    read_at_ms: int
    reason: str

    @property
    def growth_lower_bound(self) -> bool:
        """Whether a part of the last hour was not observed; the running minute never is."""
        return self.growth_minutes < 59


DEAD_LETTERS = ListSpec(
    name="dead-letters",
    key="group",
    default="expires",
    columns=(
        Column(
            "group", Text("Group"), css="", order=lambda row: row.group, ascending=True, fields=("group",)
        ),
        Column("count", Text("Dead letters"), order=lambda row: row.count, fields=("count", "lower_bound")),
        Column(
            "growth",
            Text("Growth"),
            Text("/h"),
            order=lambda row: row.growth_per_h,
            fields=("growth_per_h", "growth_minutes"),
        ),
        Column(
            "oldest",
            Text("Oldest"),
            css="num p2",
            order=lambda row: row.oldest_ms,
            ascending=True,
            fields=("oldest_ms",),
        ),
        Column(
            "expires",
            Text("First expires in"),
            order=lambda row: row.expires_ms,
            ascending=True,
            fields=("expires_ms",),
        ),
        Column("cause", Text("Most frequent cause"), css=""),
        Column(
            "last_replay",
            Text("Last replay"),
            css="p2",
            order=lambda row: row.last_replay_ms,
            fields=("last_replay_ms", "last_replay_sent", "last_replay_plan"),
        ),
        Column("read", Text("Read"), fields=("read_at_ms",)),
        Column("next", Text("Next step"), css="", is_bare=True),
    ),
    file_fields=("reason", "problem"),
)
TOPIC_FIELDS = (
    "topic",
    "messages",
    "messages_lower_bound",
    "trend",
    "retained_ms",
    "perm",
    "read_at_ms",
    "reason",
)


def dead_letter_page(cluster: str, *, scope: NameScope = EVERYTHING, query: str = "") -> list[DeadLetterRow]:
    """Return every group that has a dead-letter topic, unknown counts first, then most dead letters first.

    Makes four queries.
    """
    topics = scope.filter(TopicRow.objects.filter(cluster=cluster, kind=DLQ_KIND), "topic", DLQ_TOPIC_PREFIX)
    if query:
        topics = topics.filter(topic__icontains=query)
    surveys = {row.group: row for row in DeadLetterSurvey.objects.filter(cluster=cluster)}
    replays = _last_replays(cluster)
    active = dict(
        Job.objects.filter(cluster=cluster, kind=KIND)
        .exclude(state__in=FINAL_STATES)
        .values_list("subject", "pk")
    )
    rows = []
    for topic in topics.only(*TOPIC_FIELDS):
        group = topic.topic.removeprefix(DLQ_TOPIC_PREFIX)
        rows.append(_row(group, topic, surveys.get(group), replays.get(group), active.get(group, "")))
    return sorted(rows, key=lambda row: (row.count is not None, -(row.count or 0), row.group))


def dead_letter_groups(
    cluster: str,
    list_query: ListQuery | None = None,
    *,
    scope: NameScope = EVERYTHING,
    with_empty: bool = False,
    every: Sequence[DeadLetterRow] | None = None,
) -> Page[DeadLetterRow]:
    """Return one page of the list; unknown values sort last in both directions.

    ``counts_by_status``: {"letters", "empty"}. Sorted in Python: three columns are computed, and a cluster has at most
    one row per group. ``every``: all rows of the scope, where the caller has read them.
    """
    list_query = list_query or ListQuery()
    every = dead_letter_page(cluster, scope=scope) if every is None else every
    query = list_query.query.casefold()
    matching = [row for row in every if query in row.group.casefold()]
    empty = sum(row.count == 0 for row in matching)
    wanted = sorted((row for row in matching if with_empty or row.count != 0), key=lambda row: row.group)
    topics = TopicRow.objects.filter(cluster=cluster, kind=DLQ_KIND)
    return cut(
        DEAD_LETTERS.in_order(wanted, list_query.sort, list_query.descending),
        page=list_query.page,
        per_page=list_query.per_page,
        is_whole=list_query.is_whole,
        all_total=len(every),
        counts_by_status={"letters": len(matching) - empty, "empty": empty},
        not_shown=0 if scope.is_everything else topics.count() - len(every),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetterSums:
    """Sums over all groups the user may see; ``first`` expires first, None when no time is known."""

    letters: int
    is_lower_bound: bool
    groups: int
    first: DeadLetterRow | None


def dead_letter_sums(every: Sequence[DeadLetterRow]) -> DeadLetterSums:
    """Return the sums at the top of the page: letters, groups, and what expires first."""
    rows = [row for row in every if row.count != 0]
    known = [row.count for row in rows if row.count is not None]
    timed = [row for row in rows if row.expires_ms is not None]
    return DeadLetterSums(
        letters=sum(known),
        is_lower_bound=len(known) < len(rows) or any(row.lower_bound for row in rows),
        groups=len(rows),
        first=min(timed, key=lambda row: (row.expires_ms or 0, row.group), default=None),
    )


def members(cluster: str, group: str) -> list[str]:
    """Return the client ids of the group's members, from the last sweep."""
    rows = ClientRow.objects.filter(cluster=cluster, group=group).order_by("client_id")
    return list(rows.values_list("client_id", flat=True)[:MEMBERS_MAX])


def dead_letters_of(cluster: str, group: str) -> DeadLetterRow | None:
    """Return the row of one group, or None when it has no dead-letter topic."""
    found = [row for row in dead_letter_page(cluster, query=dead_letter_topic(group)) if row.group == group]
    return found[0] if found else None


def _row(
    group: str,
    topic: TopicRow,
    survey: DeadLetterSurvey | None,
    replay: tuple[int, int, str] | None,
    active_job: str,
) -> DeadLetterRow:
    last_ms, sent, plan_id = replay or (None, None, "")
    growth, minutes = _growth(topic.trend)
    oldest_ms = None
    if topic.messages:
        retained_ms = topic.retained_ms
        oldest_ms = None if retained_ms is None else topic.read_at_ms - retained_ms
        oldest_ms = survey.oldest_ms if survey is not None and survey.oldest_ms is not None else oldest_ms
    kept_ms = survey.retention_ms if survey is not None else None
    return DeadLetterRow(
        group=group,
        topic=topic.topic,
        count=topic.messages,
        lower_bound=topic.messages_lower_bound,
        growth_per_h=growth if growth is None or topic.messages is None else min(growth, topic.messages),
        growth_minutes=minutes,
        oldest_ms=oldest_ms,
        expires_ms=None if oldest_ms is None or kept_ms is None else oldest_ms + kept_ms,
        readable=bool(topic.perm & PERM_READ),
        causes=tuple(Cause(**each) for each in survey.causes) if survey is not None else (),
        sampled=survey.sampled if survey is not None else 0,
        settled=survey.settled if survey is not None else None,
        problem=survey.problem if survey is not None else "",
        surveyed_ms=survey.read_at_ms if survey is not None else None,
        last_replay_ms=last_ms,
        last_replay_sent=sent,
        last_replay_plan=plan_id,
        active_job=active_job,
        read_at_ms=topic.read_at_ms,
        reason=topic.reason,
    )


def _growth(trend: Sequence[float | None]) -> tuple[float | None, int]:
    """Return (letters that arrived in the minutes observed, number of these minutes).

    ``trend`` has the rate per second of each minute; the current minute counts only while there is no other.
    """
    known = [rate for rate in (trend[:-1] or trend) if rate is not None]
    return (round(sum(known) * 60, 1), len(known)) if known else (None, 0)


def _last_replays(cluster: str) -> dict[str, tuple[int, int, str]]:
    """Return group → (end, letters sent, plan) of its newest finished replay that sent anything."""
    jobs = Job.objects.filter(cluster=cluster, kind=KIND, finished_at__isnull=False).order_by("finished_at")
    return {
        group: (round(at.timestamp() * 1_000), result["sent"], plan_id)
        for group, at, result, plan_id in jobs.values_list("subject", "finished_at", "result", "plan_id")
        if at is not None and result.get("sent")
    }


def shown_replay(cluster: str, *, group: str = "", scope: NameScope = EVERYTHING) -> Job | None:
    """Return the newest replay that is not finished or, without one, the newest: of a group, or of those in scope."""
    jobs = scope.filter(Job.objects.filter(cluster=cluster, kind=KIND), "subject").select_related("plan")
    newest = (jobs.filter(subject=group) if group else jobs).order_by("-created_at", "-pk")
    return newest.exclude(state__in=FINAL_STATES).first() or newest.first()


def survey_candidates(cluster: str, *, before_ms: int, limit: int) -> list[tuple[str, int, int]]:
    """Return (group, begin, end) of readable, non-empty dead-letter topics that need a survey, oldest first.

    That is: their ends moved since the last survey, the last survey is from before ``before_ms``, or a replay
    ended after it.
    """
    topics = TopicRow.objects.filter(cluster=cluster, kind=DLQ_KIND).exclude(messages=0)
    readable = {name for name, perm in topics.values_list("topic", "perm") if perm & PERM_READ}
    ends: dict[str, tuple[int, int]] = {}
    for row in queues.topic_queues(cluster, readable):
        begin, end = ends.get(row.topic, (0, 0))
        ends[row.topic] = begin + row.min_offset, end + row.max_offset
    surveys = {row.group: row for row in DeadLetterSurvey.objects.filter(cluster=cluster)}
    replays = _last_replays(cluster)
    found: list[tuple[int, str, int, int]] = []
    for topic, (begin, end) in ends.items():
        group = topic.removeprefix(DLQ_TOPIC_PREFIX)
        survey = surveys.get(group)
        if end == begin:
            continue
        at_ms = survey.read_at_ms if survey is not None else 0
        is_same = survey is not None and (survey.begin_offset, survey.end_offset) == (begin, end)
        if not is_same or at_ms < before_ms or replays.get(group, (0,))[0] > at_ms:
            found.append((at_ms, group, begin, end))
    return [(group, begin, end) for _, group, begin, end in sorted(found)[:limit]]


def settled_letters(cluster: str, queue: MessageQueue, low: int, high: int) -> int:
    """Return how many letters of this range were replayed or marked as handled, each counted once."""
    rows = ReplayLedger.objects.filter(
        cluster=cluster,
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        queue_offset__range=(low, high - 1),
        state__in=(LedgerState.SENT, LedgerState.HANDLED),
    )
    return rows.order_by().aggregate(number=Count("queue_offset", distinct=True))["number"] or 0


LEDGER = ListSpec(
    name="ledger",
    key="-pk",
    default="-added",
    columns=(),
    orders={
        "added": ("pk",),
        "state": ("state",),
        "updated": ("updated_at_ms",),
        "letter": ("topic", "broker_name", "queue_id", "queue_offset"),
    },
)


def ledger_page(
    plan_id: str,
    *,
    states: Iterable[str] = (),
    order: Sequence[OrderBy] = (),
    page: int = 1,
    per_page: int = 50,
    after: str = "",
) -> Page[ReplayLedger]:
    """Return ledger rows of one replay, newest first without an order."""
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by(*order or ("-id",))
    wanted = list(states)
    rows = rows.filter(state__in=wanted) if wanted else rows
    return cut_after(rows, page=page, per_page=per_page, after=after)


class NumberedRow(NamedTuple):
    """A row of a ledger with its number."""

    number: int
    row: ReplayLedger

    @property
    def state(self) -> str:
        return self.row.state


def numbered(page: Page[ReplayLedger]) -> list[NumberedRow]:
    """Return the rows of a page with their numbers: the first that was recorded is 1, the newest stands on top."""
    top = page.total - (page.page - 1) * page.per_page
    return [NumberedRow(top - place, row) for place, row in enumerate(page.rows)]


LEDGER_COLUMNS = (
    "broker_name",
    "queue_id",
    "queue_offset",
    "message_id",
    "keys",
    "state",
    "replay_key",
    "target_topic",
    "target_broker_name",
    "target_queue_id",
    "target_offset",
    "reason",
    "updated_at_ms",
)


def ledger_rows(plan_id: str, most: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of a replay as LEDGER_COLUMNS, oldest first, streamed; all, or the first ``most``."""
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by("id")[:most]
    return rows.values_list(*LEDGER_COLUMNS).iterator(chunk_size=2_000)


def ledger_counts(plan_id: str) -> dict[str, int]:
    """Return state → number of ledger rows of one replay; every state is present."""
    counts = dict.fromkeys(LedgerState.values, 0)
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by().values_list("state")
    counts.update(dict(rows.annotate(number=Count("pk"))))
    return counts


def last_decided(plan_id: str) -> dict[tuple[str, int], int]:
    """Return (broker name, queue id) → the highest dead-letter offset that has a row in this replay."""
    rows = ReplayLedger.objects.filter(plan_id=plan_id).order_by().values_list("broker_name", "queue_id")
    return {
        (broker, queue_id): offset for broker, queue_id, offset in rows.annotate(last=Max("queue_offset"))
    }


def spot_checks(plan_id: str, number: int) -> list[ReplayLedger]:
    """Return up to ``number`` sent rows, spread over the whole replay, without reading all of them."""
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
    """Return offset → newest plan that sent this letter or marked it as handled.

    ``message_ids``: offset → id, so that a recreated queue is not taken for the old one.
    """
    return _plans_before(cluster, queue, message_ids, (LedgerState.SENT, LedgerState.HANDLED))


def in_doubt_before(cluster: str, queue: MessageQueue, message_ids: Mapping[int, str]) -> dict[int, str]:
    """Return offset → newest plan that may have sent this letter: its outcome is unknown."""
    return _plans_before(cluster, queue, message_ids, (LedgerState.UNKNOWN,))


def _plans_before(
    cluster: str, queue: MessageQueue, message_ids: Mapping[int, str], states: Sequence[LedgerState]
) -> dict[int, str]:
    if not message_ids:
        return {}
    rows = ReplayLedger.objects.filter(
        cluster=cluster,
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        queue_offset__range=(min(message_ids), max(message_ids)),
        state__in=states,
    ).order_by("id")
    found: dict[int, str] = {}
    for offset, message_id, plan_id in rows.values_list("queue_offset", "message_id", "plan_id"):
        if storable(message_ids.get(offset, ""), NAME_LENGTH_MAX) == message_id:
            found[offset] = plan_id
    return found


def usual_speed(cluster: str) -> float | None:
    """Return copies per second of the newest finished replay without a limit; None when there was none."""
    jobs = Job.objects.filter(cluster=cluster, kind=KIND, state=JobState.SUCCEEDED, rate_per_s__isnull=True)
    for result in jobs.values_list("result", flat=True)[:SPEED_JOBS]:
        if result.get("sent_per_s") and result.get("sent", 0) >= SPEED_SENT_MIN:
            return float(result["sent_per_s"])
    return None


def group_row(cluster: str, group: str) -> GroupRow | None:
    """Return the group as of the last round, for the header of the page."""
    return GroupRow.objects.filter(cluster=cluster, group=group).first()
