"""Record what happened between two rounds, and when none took place: events and gaps beside the history.

An event is derived from two rows of the same queue; one that a change of this console explains within a minute carries
that change as its cause (lag.md 1.3). Events of one kind on one topic of a group are one row: a reset of 64 queues is
one event.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db.models import Max, QuerySet

from console.access.models import AuditEvent
from console.lag.history.member_changes import MemberChange
from console.lag.models import GroupMembers, HistoryGap, LagEvent, Round
from console.lag.round.figures import BrokerFigures, BrokerKey
from console.lag.round.series import QueueKey
from console.lag.round.view import RoundView, Silence
from console.lag.rows.queue_row import QueueRow
from console.text import Text
from spark.lag.folds.rounds import GAP_INTERVALS
from spark.lag.round.status import LagStatus
from spark.lag.round.window import is_lost_tail

logger = logging.getLogger(__name__)

# A reset takes effect at most this long after it was applied.
EXPLAINED_WITHIN_S = 60
# Of a disaster on every topic the first five hundred are enough.
EVENTS_PER_ROUND_MAX = 500
CAUSE_LENGTH_MAX = 300
EXPLAINABLE = {LagEvent.Kind.REWIND, LagEvent.Kind.SKIPPED}


@dataclass(frozen=True, slots=True)
class Happening:
    """Describe an event of one queue of a group."""

    kind: LagEvent.Kind
    key: QueueKey
    from_offset: int
    to_offset: int
    messages: int


def happenings(before: Mapping[QueueKey, QueueRow], after: Mapping[QueueKey, QueueRow]) -> list[Happening]:
    """Return the events between two rounds, of queues that are in both. Pure."""
    found = []
    for key, row in after.items():
        previous = before.get(key)
        if previous is None or row.status == LagStatus.UNKNOWN:
            continue
        happened = _happening(key, previous, row)
        if happened is not None:
            found.append(happened)
    return found


def _happening(key: QueueKey, before: QueueRow, row: QueueRow) -> Happening | None:
    low, high = before.min_offset, before.max_offset
    if row.min_offset is None or row.max_offset is None:
        return None
    if low is not None and high is not None and row.max_offset < high:
        kept_tail = is_lost_tail((low, high), (row.min_offset, row.max_offset))
        kind = LagEvent.Kind.HEAD_REGRESSION if kept_tail else LagEvent.Kind.RECREATED
        return Happening(kind, key, high, row.max_offset, high - row.max_offset)
    was, now = before.committed_offset, row.committed_offset
    if was is None or now is None or (high is not None and was > high):
        # Beyond the end was no valid position to move from.
        return None
    if now < was:
        return Happening(LagEvent.Kind.REWIND, key, was, now, was - now)
    lost = (row.lost or 0) - (before.lost or 0)
    if lost > 0:
        return Happening(LagEvent.Kind.LOST, key, row.min_offset - lost, row.min_offset, lost)
    if row.moved and now > was:
        return Happening(LagEvent.Kind.SKIPPED, key, was, now, now - was)
    return None


def record(
    view: RoundView, before: Mapping[QueueKey, QueueRow], after: Mapping[QueueKey, QueueRow]
) -> list[LagEvent]:
    """Record what happened between the round before and this one; return the rows."""
    bundles: dict[tuple[LagEvent.Kind, str, str], list[Happening]] = {}
    for one in happenings(before, after):
        bundles.setdefault((one.kind, one.key.group, one.key.topic), []).append(one)
    causes: dict[str, Text] = {}
    rows = []
    for (kind, group, topic), own in sorted(bundles.items())[:EVENTS_PER_ROUND_MAX]:
        if kind in EXPLAINABLE and group not in causes:
            causes[group] = cause_of(view.cluster, group, view.now_ms)
        largest = max(own, key=lambda one: one.messages)
        rows.append(
            LagEvent(
                cluster=view.cluster,
                kind=kind,
                group=group,
                topic=topic,
                broker_name=largest.key.broker_name,
                queue_id=largest.key.queue_id,
                queues=len(own),
                at_ms=view.now_ms,
                from_offset=largest.from_offset,
                to_offset=largest.to_offset,
                messages=sum(one.messages for one in own),
                cause=causes.get(group, Text()) if kind in EXPLAINABLE else Text(),
            )
        )
    LagEvent.objects.bulk_create(rows)
    for row in rows:
        logger.info(
            "happened kind=%s group=%s topic=%s queues=%d messages=%d cause=%s",
            row.kind, row.group, row.topic, row.queues, row.messages, row.cause,
        )  # fmt: skip
    return rows


def cause_of(cluster: str, group: str, now_ms: int) -> Text:
    """Return the change of this console applied to a group in the last minute; empty if there is none."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    applied = AuditEvent.objects.filter(
        cluster=cluster,
        subject=group,
        verb="apply",
        at__gt=now - timedelta(seconds=EXPLAINED_WITHIN_S),
        at__lte=now + timedelta(seconds=EXPLAINED_WITHIN_S),
    ).first()
    if applied is None:
        return Text()
    plan = Text("plan %(id)s, applied by %(person)s", id=str(applied.plan_id), person=applied.actor)
    reason = applied.after[:CAUSE_LENGTH_MAX] if isinstance(applied.after, str) else ""
    return Text("%(plan)s: %(reason)s", plan=plan, reason=reason) if reason else plan


def record_restarts(
    cluster: str,
    before: Mapping[BrokerKey, BrokerFigures],
    after: Mapping[BrokerKey, BrokerFigures],
    now_ms: int,
) -> None:
    """Record the brokers whose process has restarted since they last answered."""
    names = {
        key.broker_name
        for key, row in after.items()
        if (was := before.get(key)) is not None
        and None not in (was.boot_ms, row.boot_ms)
        and was.boot_ms != row.boot_ms
    }
    LagEvent.objects.bulk_create(
        LagEvent(cluster=cluster, kind=LagEvent.Kind.BROKER_RESTART, broker_name=name, at_ms=now_ms)
        for name in sorted(names)
    )


def record_members(
    cluster: str,
    before: Mapping[str, GroupMembers],
    after: Sequence[GroupMembers],
    changes: Mapping[str, MemberChange],
) -> None:
    """Record which members joined, left or restarted.

    Unknown members are no change; the next known ones are compared with those known before.
    """
    silent_before = [row.group for row in after if row.group in before and before[row.group].clients is None]
    last = {
        event.group: event.messages
        for event in _member_events(cluster).filter(group__in=silent_before).order_by("at_ms", "pk")
    }
    events = []
    for row in after:
        previous = before.get(row.group)
        was = None if previous is None else previous.clients
        was = last.get(row.group) if was is None else was
        change = changes.get(row.group, MemberChange())
        if was is not None and row.clients is not None and (was != row.clients or change):
            events.append(
                LagEvent(
                    cluster=cluster,
                    kind=LagEvent.Kind.MEMBERS,
                    group=row.group,
                    at_ms=row.read_at_ms,
                    from_offset=was,
                    to_offset=row.clients,
                    messages=row.clients,
                    members=change.as_json(),
                    cause=Text("%(before)s → %(after)s clients", before=was, after=row.clients)
                    if was != row.clients
                    else Text(),
                )
            )
    LagEvent.objects.bulk_create(events[:EVENTS_PER_ROUND_MAX])


def client_counts(
    cluster: str, from_ms: int, to_ms: int, groups: Collection[str] | None = None
) -> dict[str, list[tuple[int, int]]]:
    """Return for each group [(since when, how many clients)] in [from_ms, to_ms), the first as of `from_ms`.

    Only changes are recorded: before the first one the number is the one it changed from, and without any change it is
    the present one. A group with an unknown number is left out.
    """
    known = GroupMembers.objects.filter(cluster=cluster)
    changes = _member_events(cluster).order_by("at_ms", "pk")
    if groups is not None:
        known, changes = known.filter(group__in=groups), changes.filter(group__in=groups)
    found: dict[str, list[tuple[int, int]]] = {}
    for group, at_ms, was, count in changes.values_list("group", "at_ms", "from_offset", "messages"):
        if at_ms <= from_ms:
            found[group] = [(from_ms, count)]
        elif group not in found:
            found[group] = [(from_ms, count if was is None else was)]
        if from_ms < at_ms < to_ms and found[group][-1][1] != count:  # else some client restarted
            found[group].append((at_ms, count))
    for group, clients in known.values_list("group", "clients"):
        if clients is not None:
            found.setdefault(group, [(from_ms, clients)])
    return found


def _member_events(cluster: str) -> "QuerySet[LagEvent]":
    return LagEvent.objects.filter(cluster=cluster, kind=LagEvent.Kind.MEMBERS)


@dataclass(slots=True)
class Gaps:
    """Keep the lasting gaps of one cluster: broker name ("" for the collector itself) → row."""

    cluster: str
    interval_ms: int
    lasting: dict[str, HistoryGap] = field(default_factory=dict)

    def load(self) -> None:
        """Load the gaps that lasted when the process before this one ended."""
        rows = HistoryGap.objects.filter(cluster=self.cluster, to_ms__isnull=True)
        self.lasting = {row.broker_name: row for row in rows}

    def away(self, last_ms: int, now_ms: int) -> None:
        """Record that no round took place since `last_ms`, if that is long ago.

        Rounds of another host may be missing here only because its log is not uploaded: they took place.
        """
        late_ms = now_ms - GAP_INTERVALS * self.interval_ms
        if last_ms < late_ms:
            rounds = Round.objects.filter(cluster=self.cluster, started_at_ms__lt=now_ms)
            last_ms = max(last_ms, rounds.aggregate(last=Max("started_at_ms"))["last"] or 0)
        if 0 < last_ms < late_ms:
            HistoryGap.objects.create(
                cluster=self.cluster, from_ms=last_ms, to_ms=now_ms, reason=Text("no round took place")
            )

    def silent(self, silences: Mapping[str, Silence], read_ms: Mapping[str, int], now_ms: int) -> None:
        """Begin a gap for every broker that fell silent, end it for those that answer again.

        `read_ms` is when each broker was last read.
        """
        for name, silence in silences.items():
            if name not in self.lasting:
                from_ms = read_ms.get(name) or silence.since_ms
                self._begin(name, from_ms, silence.reason)
        for name in [name for name in self.lasting if name and name not in silences]:
            self._end(name, now_ms)

    def replaced(self, last_ms: int, now_ms: int, reason: Text) -> None:
        """Record that a round was read and not written, because another process had taken over."""
        HistoryGap.objects.create(
            cluster=self.cluster,
            from_ms=max(0, last_ms),
            to_ms=now_ms,
            reason=Text("round not written: %(reason)s", reason=reason),
        )

    def unwritten(self, reason: Text, last_ms: int, now_ms: int) -> None:
        """Record that a round could not be written, or with an empty `reason` that writing works again."""
        if reason and "" not in self.lasting:
            self._begin("", last_ms if last_ms > 0 else now_ms, reason)
        elif not reason and "" in self.lasting:
            self._end("", now_ms)

    def _begin(self, name: str, from_ms: int, reason: Text) -> None:
        self.lasting[name] = HistoryGap.objects.create(
            cluster=self.cluster, broker_name=name, from_ms=from_ms, reason=reason
        )

    def _end(self, name: str, now_ms: int) -> None:
        row = self.lasting.pop(name)
        HistoryGap.objects.filter(pk=row.pk).update(to_ms=now_ms)
