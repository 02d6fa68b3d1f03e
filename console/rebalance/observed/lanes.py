"""Who owned the queues of a topic over time: a lane for each client that took some or gave some up.

The facts are the history of owners, written by each sweep: a change is as exact as the time between two sweeps. Before
its first record, and while members are not known, the owner of a queue is unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import pairwise
from operator import attrgetter

from console.brokers.mqadmin import MessageQueue
from console.rebalance.observed.overlaps import names_of
from console.text import Moment, Text
from console.text.figures import MINUS
from spark.lag.folds.owners import Queue, Tenure, cuts_of
from spark.lag.local_time import DAY_MS, HOUR_MS, MINUTE_MS

SPANS: Mapping[str, int] = {"1h": HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS}
# A drawing begins with the first record, and is at least so long.
SPAN_MIN_MS = 10 * MINUTE_MS
TICKS_MS = (2 * MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, DAY_MS)
TICKS_MAX = 8
LANES_MAX = 12  # those with the newest changes; the others are counted
CHANGES_MAX = 30  # marks on one lane, the newest
# A change of members or brokers is a cause until clients have read routes, divided queues and reported them.
CAUSE_MS = 90_000
LEFT_PCT, RIGHT_PCT = 1.0, 99.0
AREA_PCT = 60.0  # of the lane of queues without owner: their number stands above
LABEL_PCT = 6.0  # what a label such as "+12 −8" takes of a lane


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a client had queues, from and to as shares of the width ("12.5%")."""

    x: str
    to: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a client took and gave up at a moment, and what had happened just before.

    `label`: "" without room; at the lane's end it stands left of the moment (`is_late`).
    """

    at_ms: int
    x: str
    label: str
    is_late: bool
    words: Text


@dataclass(frozen=True, slots=True)
class Lane:
    """`claimed`: the times in which another client reported one of its queues too."""

    client_id: str
    stretches: list[Stretch]
    claimed: list[Stretch]
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class Step:
    """How many queues had no known owner for a time; `height`: the share of all queues, of the lane below its label."""

    x: str
    width: str
    y: str
    height: str
    queues: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """`since_ms`: the first record of the topic where it lies in the window, else None. `moves`: queues taken.

    `steady` and `left_out` count the clients without a lane: without a change, and with older ones.
    """

    ticks: list[tuple[str, datetime]]
    tick_format: str
    since_ms: int | None
    lanes: list[Lane]
    steady: int
    left_out: int
    without_owner: list[Step]
    moves: int


@dataclass(frozen=True, slots=True)
class Window:
    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        share = (min(max(at_ms, self.from_ms), self.to_ms) - self.from_ms) / (self.to_ms - self.from_ms)
        return LEFT_PCT + (RIGHT_PCT - LEFT_PCT) * share

    def place(self, at_ms: int) -> str:
        return _percent(self.x(at_ms))


def lanes_of(
    tenures: Iterable[Tenure],
    queues: Sequence[MessageQueue],
    span: str,
    now_ms: int,
    causes: Sequence[tuple[int, str]] = (),
    claims: Iterable[Tenure] = (),
) -> Lanes | None:
    """Return the lanes of a topic in the time before `now_ms`; None where no owner of its queues was recorded.

    `queues` are those of the topic now; `causes`: when and what happened to members and brokers; `claims`: of queues
    that several clients reported, which are none of `tenures`.
    """
    keys = {(queue.topic, queue.broker_name, queue.queue_id) for queue in queues}
    shared = [one for one in claims if one.queue in keys]
    own = _joined([*(one for one in tenures if one.queue in keys), *shared])
    if not own:
        return None
    begun_ms = max(own[0].from_ms, now_ms - SPANS[span])
    is_cut = begun_ms > own[0].from_ms
    window = Window(min(begun_ms, now_ms - SPAN_MIN_MS), now_ms)
    tick_ms = next((each for each in TICKS_MS if now_ms - window.from_ms <= TICKS_MAX * each), TICKS_MS[-1])
    newest = _newest_changes(own, begun_ms, now_ms)
    changing = [client for client, at_ms in newest.items() if at_ms]
    shown = nsmallest(LANES_MAX, changing, key=lambda client: (-newest[client], client))
    by_client: dict[str, list[Tenure]] = {client: [] for client in shown}
    for one in own:
        if one.owner in by_client:
            by_client[one.owner].append(one)
    first_tick = -(-window.from_ms // tick_ms) * tick_ms
    return Lanes(
        ticks=[
            (window.place(at_ms), datetime.fromtimestamp(at_ms / 1000, UTC))
            for at_ms in range(first_tick, now_ms, tick_ms)
        ],
        tick_format="H:i" if tick_ms < DAY_MS else "m-d",
        since_ms=None if is_cut else begun_ms,
        lanes=[
            Lane(
                client,
                _stretches(theirs, window),
                _stretches(_of_client(shared, client), window),
                _changes(_moved(theirs, begun_ms, now_ms), window, causes),
            )
            for client, theirs in by_client.items()
        ],
        steady=len(newest) - len(changing),
        left_out=len(changing) - len(shown),
        without_owner=_without_owner(own, keys, begun_ms, window),
        moves=sum(begun_ms < one.from_ms <= now_ms for one in own),
    )


def _joined(tenures: Iterable[Tenure]) -> list[Tenure]:
    """Return tenures by time; one that a client had alone and then beside others, or the reverse, is one."""
    found: list[Tenure] = []
    latest: dict[tuple[Queue, str], int] = {}
    for one in sorted(tenures, key=attrgetter("from_ms")):
        key = one.queue, one.owner
        at = latest.get(key)
        if at is not None and one.from_ms <= found[at].to_ms:
            found[at] = found[at]._replace(to_ms=max(found[at].to_ms, one.to_ms))
        else:
            latest[key] = len(found)
            found.append(one)
    return found


def _of_client(tenures: Iterable[Tenure], client_id: str) -> list[Tenure]:
    return sorted((one for one in tenures if one.owner == client_id), key=lambda one: one.from_ms)


def _newest_changes(tenures: Iterable[Tenure], begun_ms: int, now_ms: int) -> dict[str, int]:
    """Return when each client last took or gave up a queue; 0: not behind the beginning (see `_moved`)."""
    found: dict[str, int] = {}
    for _, client, from_ms, to_ms in tenures:
        known_ms = found.get(client, 0)
        for at_ms in (from_ms, to_ms):
            if begun_ms < at_ms <= now_ms and at_ms > known_ms:
                known_ms = at_ms
        found[client] = known_ms
    return found


Moved = Mapping[int, tuple[list[Queue], list[Queue]]]  # when → queues taken, queues given up


def _moved(tenures: Sequence[Tenure], begun_ms: int, now_ms: int) -> Moved:
    """Return what a client took and gave up behind the beginning, which shows what there was and no change."""
    found: dict[int, tuple[list[Queue], list[Queue]]] = defaultdict(lambda: ([], []))
    for one in tenures:
        if begun_ms < one.from_ms <= now_ms:
            found[one.from_ms][0].append(one.queue)
        if begun_ms < one.to_ms <= now_ms:
            found[one.to_ms][1].append(one.queue)
    return found


def _changes(moved: Moved, window: Window, causes: Sequence[tuple[int, str]]) -> list[Change]:
    times = sorted(moved)[-CHANGES_MAX:]
    found = []
    for at_ms, next_ms in zip(times, [*times[1:], None], strict=True):
        took, gave = moved[at_ms]
        x = window.x(at_ms)
        has_room = next_ms is None or _label(x)[1] <= _label(window.x(next_ms))[0]
        counts = [f"+{len(took)}"] * bool(took) + [f"{MINUS}{len(gave)}"] * bool(gave)
        label = " ".join(counts) if has_room else ""
        words = [Text("takes %(queues)s", queues=names_of(sorted(took)))] if took else []
        words += [Text("releases %(queues)s", queues=names_of(sorted(gave)))] if gave else []
        if cause := _cause(at_ms, causes):
            words.append(Text("after: %(cause)s", cause=Text.foreign(cause)))
        text = Text("%(at)s: %(what)s", at=Moment(at_ms), what=Text.of_parts(words))
        found.append(Change(at_ms, window.place(at_ms), label, _label(x)[0] < x, text))
    return found


def _label(x: float) -> tuple[float, float]:
    """Return where the label of a change at `x` begins and ends: right of it, or left where the lane ends."""
    return (x - LABEL_PCT, x) if x > RIGHT_PCT - LABEL_PCT else (x, x + LABEL_PCT)


def _cause(at_ms: int, causes: Sequence[tuple[int, str]]) -> str:
    """Return the last thing that happened before a change: the sweep that saw the change may have seen it too."""
    near = [cause for cause in causes if at_ms - CAUSE_MS <= cause[0] <= at_ms]
    return max(near, key=lambda cause: cause[0])[1] if near else ""


def _stretches(tenures: Sequence[Tenure], window: Window) -> list[Stretch]:
    """Return the times in which a client had queues; those that touch are one."""
    found: list[tuple[int, int]] = []
    for one in tenures:
        if found and one.from_ms <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], one.to_ms)
        else:
            found.append((one.from_ms, one.to_ms))
    return [Stretch(window.place(a), window.place(b)) for a, b in found if b > window.from_ms]


def _without_owner(
    tenures: Sequence[Tenure], queues: set[Queue], begun_ms: int, window: Window
) -> list[Step]:
    owned = Counter[int]()  # when → how many more queues have an owner
    until_ms: dict[Queue, int] = {}
    for queue, _, from_ms, to_ms in tenures:  # in the order of their beginning
        known_ms = until_ms.get(queue)
        if known_ms is None or known_ms < from_ms:
            owned[max(from_ms, begun_ms)] += 1
            if known_ms is not None:
                owned[max(known_ms, begun_ms)] -= 1
        if known_ms is None or known_ms < to_ms:
            until_ms[queue] = to_ms
    owned.subtract(max(at_ms, begun_ms) for at_ms in until_ms.values())
    edges = [begun_ms, *cuts_of(tenures, begun_ms, window.to_ms), window.to_ms]
    lacking, found = len(queues), []
    for a, b in pairwise(edges):
        lacking -= owned[a]
        if lacking:
            height = AREA_PCT * lacking / len(queues)
            found.append(
                Step(
                    window.place(a),
                    _percent(window.x(b) - window.x(a)),
                    _percent(100 - height),
                    _percent(height),
                    lacking,
                )
            )
    return found


def _percent(share: float) -> str:
    return f"{share:.2f}%"
