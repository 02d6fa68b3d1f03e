"""Collect what happened to a group in a window, for charts and episodes.

Offsets that were set, messages lost, members that joined, left or restarted, brokers that restarted or were silent.
Facts only; pages render them (`console.lag.past.mark_words`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields

import msgspec
from django.db.models import Q

from console.lag.models import Episode, HistoryGap, LagEvent
from console.lag.rows import queues
from console.text import JsonObject, Text
from console.text.value import kept_text

SILENT = "SILENT"
NO_CAUSE = Text()
# Of one episode: a longer list is not read.
IN_EPISODE_MAX = 12
# Of all episodes of a page together.
READ_MAX = 20_000
# The cause of an episode comes just before it.
BEFORE_EPISODE_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Who:
    """Hold how many clients, and the ids of the first of them."""

    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Members:
    """Hold what `LagEvent.members` has."""

    joined: Who | None = None
    left: Who | None = None
    restarted: Who | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """Describe one event. `kind` is a LagEvent's or SILENT; `to_ms` is the end of a silence, null: it lasts.

    `cause` is the change of this console that set offsets, empty when none did, or why a broker is silent.
    `clients_before` and `clients` are the numbers of members.
    """

    at_ms: int
    kind: str
    to_ms: int | None = None
    topic: str = ""
    broker_name: str = ""
    queues: int = 0
    messages: int = 0
    cause: Text = NO_CAUSE
    clients_before: int | None = None
    clients: int | None = None
    joined: Who | None = None
    left: Who | None = None
    restarted: Who | None = None

    def as_json(self) -> JsonObject:
        """Return its fields that differ from the defaults, to be stored in a row of a report."""
        usual = {one.name: one.default for one in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @classmethod
    def from_json(cls, kept: object) -> Mark:
        """Return the mark of a stored row; fields of a later version are ignored."""
        return msgspec.convert(kept, cls, dec_hook=lambda _, words: kept_text(words))


@dataclass(frozen=True, slots=True)
class Marks:
    """Hold marks of a window, oldest first; with `is_cut` only the newest are here."""

    marks: tuple[Mark, ...] = ()
    is_cut: bool = False


@dataclass(slots=True)
class _Found:
    """Hold the marks read of a cluster, by group and by broker."""

    of_group: dict[str, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    of_broker: dict[str, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    # Older ones were not read.
    since_ms: int = 0


def of_group(
    cluster: str, group: str, brokers: Collection[str], from_ms: int, to_ms: int, most: int
) -> Marks:
    """Return the newest `most` marks of a group in [from_ms, to_ms); `brokers` are those of its queues."""
    found = _read(cluster, [group], brokers, from_ms, to_ms, most + 1)
    own = [*found.of_group[group], *(mark for name in brokers for mark in found.of_broker[name])]
    return _newest(own, from_ms, to_ms, most, is_cut=found.since_ms > from_ms)


def of_episodes(cluster: str, episodes: Sequence[Episode]) -> dict[str, Marks]:
    """Return the marks of each episode by its id: from shortly before it began until it ended."""
    if not episodes:
        return {}
    from_ms = min(one.start_ms for one in episodes) - BEFORE_EPISODE_MS
    to_ms = max(one.end_ms for one in episodes) + 1
    groups = {one.group for one in episodes}
    homes = queues.brokers_of(cluster, groups)
    names = {name for own in homes.values() for name in own}
    read = _read(cluster, groups, names, from_ms, to_ms, READ_MAX)
    found = {}
    for one in episodes:
        first_ms = one.start_ms - BEFORE_EPISODE_MS
        own = [mark for mark in read.of_group[one.group] if mark.topic in ("", one.topic)]
        own += [mark for name in homes.get(one.group, ()) for mark in read.of_broker[name]]
        is_cut = read.since_ms > first_ms
        found[one.id] = _newest(own, first_ms, one.end_ms + 1, IN_EPISODE_MAX, is_cut=is_cut)
    return found


def _newest(marks: Iterable[Mark], from_ms: int, to_ms: int, most: int, *, is_cut: bool) -> Marks:
    inside = [
        mark
        for mark in marks
        if mark.at_ms < to_ms
        and (mark.at_ms >= from_ms or (mark.kind == SILENT and _ends_after(mark, from_ms)))
    ]
    inside.sort(key=lambda mark: (mark.at_ms, mark.kind, mark.topic, mark.broker_name))
    return Marks(tuple(inside[-most:]), is_cut or len(inside) > most)


def _ends_after(mark: Mark, at_ms: int) -> bool:
    return mark.to_ms is None or mark.to_ms > at_ms


def _read(
    cluster: str, groups: Collection[str], brokers: Collection[str], from_ms: int, to_ms: int, most: int
) -> _Found:
    """Read the newest `most` events and silences of a window; brokers have events of their own."""
    found = _Found()
    events = LagEvent.objects.filter(
        Q(group__in=groups) | Q(group="", kind=LagEvent.Kind.BROKER_RESTART, broker_name__in=brokers),
        cluster=cluster,
        at_ms__gte=from_ms,
        at_ms__lt=to_ms,
    )
    rows = list(events.order_by("-at_ms", "-pk")[:most])
    for row in rows:
        if row.kind == LagEvent.Kind.BROKER_RESTART:
            found.of_broker[row.broker_name].append(_of_event(row))
        else:
            found.of_group[row.group].append(_of_event(row))
    still = Q(to_ms__isnull=True) | Q(to_ms__gt=from_ms)
    silences = HistoryGap.objects.filter(still, cluster=cluster, broker_name__in=brokers, from_ms__lt=to_ms)
    gaps = list(silences.order_by("-from_ms", "-pk")[:most])
    for gap in gaps:
        if gap.broker_name:
            mark = Mark(gap.from_ms, SILENT, to_ms=gap.to_ms, broker_name=gap.broker_name, cause=gap.reason)
            found.of_broker[gap.broker_name].append(mark)
    oldest_ms = [rows[-1].at_ms] if len(rows) == most else []
    oldest_ms += [gaps[-1].from_ms] if len(gaps) == most else []
    found.since_ms = max(oldest_ms, default=0)
    return found


def _of_event(row: LagEvent) -> Mark:
    if row.kind != LagEvent.Kind.MEMBERS:
        return Mark(
            row.at_ms,
            row.kind,
            topic=row.topic,
            broker_name=row.broker_name,
            queues=row.queues,
            messages=row.messages,
            cause=row.cause,
        )
    who = msgspec.convert(row.members, _Members)
    return Mark(
        row.at_ms,
        row.kind,
        clients_before=row.from_offset,
        clients=row.messages,
        joined=who.joined,
        left=who.left,
        restarted=who.restarted,
    )
