"""The matrix of a topic: clients down, queues across, in three views. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from console.brokers.mqadmin import MessageQueue
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.ownership import Member, Owned, State
from console.text import Text

QUEUES_MAX = 64  # columns; more do not fit a screen
MEMBERS_MAX = 50  # rows


class View(StrEnum):
    """What the cells show."""

    NOW = "now"
    STRATEGY = "strategy"
    DIFFERENCE = "difference"


VIEWS: Mapping[View, Text] = {
    View.NOW: Text("Now"),
    View.STRATEGY: Text("By the strategy"),
    View.DIFFERENCE: Text("Difference"),
}


class Mark(StrEnum):
    """What a cell shows; its value is the class of the style sheet."""

    OWNS = "own"
    TWO = "two"
    LAST_KNOWN = "asof"
    DUE = "due"
    NONE = "none"
    UNKNOWN = "unknown"
    TAKES = "takes"
    LOSES = "loses"


# The legend and the words of a cell for screen readers; its letter.
MARKS: Mapping[Mark, tuple[Text, str]] = {
    Mark.OWNS: (Text("owns"), ""),
    Mark.TWO: (Text("two owners"), "2"),
    Mark.NONE: (Text("no owner"), "!"),
    Mark.DUE: (Text("assigned by the strategy, not taken"), ""),
    Mark.LAST_KNOWN: (Text("last known, client silent"), "?"),
    Mark.UNKNOWN: (Text("owner unknown"), "?"),
    Mark.TAKES: (Text("should own it, does not"), "+"),
    Mark.LOSES: (Text("owns it, should not"), "−"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One client and queue; `mark` None is nothing. `is_edge`: its broker begins here."""

    mark: Mark | None
    is_edge: bool

    @property
    def words(self) -> Text:
        return MARKS[self.mark][0] if self.mark is not None else Text()

    @property
    def letter(self) -> str:
        return MARKS[self.mark][1] if self.mark is not None else ""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A client, its cells, how many queues of the topic it owns; `total` None: it did not report."""

    member: Member
    cells: tuple[Cell, ...]
    total: int | None
    due: int | None


@dataclass(frozen=True, slots=True)
class QueueColumn:
    """A queue, with lag and growth as of the last round, null where unknown. `is_hot`: something is wrong."""

    queue: MessageQueue
    is_edge: bool
    is_hot: bool
    lag: int | None
    growth: float | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Clients and queues; of very many those in trouble first. `brokers`: name and number of columns."""

    view: View
    brokers: tuple[tuple[str, int], ...]
    columns: tuple[QueueColumn, ...]
    rows: tuple[MatrixRow, ...]
    without_owner: tuple[Cell, ...]
    unknown_owner: tuple[Cell, ...]
    queues_total: int
    members_total: int
    marks: tuple[tuple[Mark, Text, str], ...]

    @property
    def no_owner_count(self) -> int:
        return sum(one.mark is not None for one in self.without_owner)

    @property
    def unknown_count(self) -> int:
        return sum(one.mark is not None for one in self.unknown_owner)

    @property
    def lag(self) -> int | None:
        """Return the sum of the known lags, None where no lag is known."""
        known = [one.lag for one in self.columns if one.lag is not None]
        return sum(known) if known else None

    @property
    def is_lag_partial(self) -> bool:
        return any(one.lag is None for one in self.columns)

    @property
    def growth(self) -> float | None:
        known = [one.growth for one in self.columns if one.growth is not None]
        return sum(known) if len(known) == len(self.columns) else None


def matrix(topic: TopicOwnership, members: Sequence[Member], view: View) -> Matrix:
    """Return the matrix of a topic in one view; without an expected division it shows what is now."""
    view = view if topic.expected is not None else View.NOW
    shown = _shown(topic.owned)
    due = topic.expected.owner_of() if topic.expected is not None else {}
    places = _Places(shown)
    owns = Counter(client_id for one in topic.owned for client_id in one.clients)
    rows = [
        _row(topic, member, shown, due, view, places, owns[member.client_id])
        for member in _shown_members(members, shown, due, view)
    ]
    no_owner = _single(shown, State.NONE, Mark.NONE, view, places)
    unknown = _single(shown, State.UNKNOWN, Mark.UNKNOWN, view, places)
    used = {cell.mark for row in rows for cell in row.cells} | {cell.mark for cell in (*no_owner, *unknown)}
    figures = [topic.figures.get(one.queue) for one in shown]
    return Matrix(
        view=view,
        brokers=places.brokers,
        columns=tuple(
            QueueColumn(
                one.queue,
                is_edge=places.edges[index],
                is_hot=one.state in (State.NONE, State.TWO),
                lag=None if each is None else each.lag,
                growth=None if each is None else each.growth,
            )
            for index, (one, each) in enumerate(zip(shown, figures, strict=True))
        ),
        rows=tuple(rows),
        without_owner=no_owner,
        unknown_owner=unknown,
        queues_total=len(topic.owned),
        members_total=len(members),
        marks=tuple((mark, words, letter) for mark, (words, letter) in MARKS.items() if mark in used),
    )


def _shown(owned: Sequence[Owned]) -> list[Owned]:
    """Return the queues that are shown, in the order of `owned`; of very many those without one owner come first."""
    chosen = sorted(range(len(owned)), key=lambda at: owned[at].state is State.ONE)[:QUEUES_MAX]
    return [owned[at] for at in sorted(chosen)]


def _shown_members(
    members: Sequence[Member], shown: Sequence[Owned], due: Mapping[MessageQueue, str], view: View
) -> Sequence[Member]:
    """Return the members that are shown; of very many those with most marks. Others than owners have none."""
    if len(members) <= MEMBERS_MAX:
        return members
    marks: Counter[str] = Counter()
    for one in shown:
        falls_to = due.get(one.queue, "")
        for client_id in {*one.clients, falls_to}:
            marks[client_id] += _mark(one, client_id, falls_to, view) is not None
    most = sorted(members, key=lambda member: -marks[member.client_id])[:MEMBERS_MAX]
    return sorted(most, key=lambda member: member.client_id)


class _Places:
    """Where brokers begin."""

    def __init__(self, shown: Sequence[Owned]) -> None:
        names = [one.queue.broker_name for one in shown]
        self.edges = [index == 0 or names[index - 1] != name for index, name in enumerate(names)]
        self.brokers = tuple((name, names.count(name)) for name in dict.fromkeys(names))


def _row(
    topic: TopicOwnership,
    member: Member,
    shown: Sequence[Owned],
    due: Mapping[MessageQueue, str],
    view: View,
    places: _Places,
    owns: int,
) -> MatrixRow:
    marks = [_mark(one, member.client_id, due.get(one.queue), view) for one in shown]
    expected = topic.expected.shares.get(member.client_id, ()) if topic.expected is not None else None
    return MatrixRow(
        member,
        tuple(Cell(mark, places.edges[index]) for index, mark in enumerate(marks)),
        owns if member.queues is not None else None,
        None if expected is None else len(expected),
    )


def _mark(one: Owned, client_id: str, due: str | None, view: View) -> Mark | None:
    is_due, owns = due == client_id, client_id in one.clients
    if view is View.STRATEGY:
        return Mark.OWNS if is_due else None
    if view is View.DIFFERENCE and one.state is not State.UNKNOWN:
        if is_due and not owns:
            return Mark.TAKES
        if owns and not is_due:
            return Mark.LOSES
    if owns:
        return {State.TWO: Mark.TWO, State.LAST_KNOWN: Mark.LAST_KNOWN}.get(one.state, Mark.OWNS)
    return Mark.DUE if is_due and one.state is State.NONE else None


def _single(
    shown: Sequence[Owned], state: State, mark: Mark, view: View, places: _Places
) -> tuple[Cell, ...]:
    """Return the row of queues in a state; the strategy's own view has none."""
    return tuple(
        Cell(mark if one.state is state and view is not View.STRATEGY else None, places.edges[index])
        for index, one in enumerate(shown)
    )
