"""Place the moments of a life line on its axis as SVG percentages, on a log or linear scale. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from console.message.life_line.events import GroupLife, LifeLine, Mark, State
from console.text import Latency, Text

LEFT, RIGHT = 2.0, 95.0  # per cent; the rest is room for the labels at both ends
FINEST_MS = 20.0  # smaller differences coincide on the log scale
TICKS_MS = (
    100,
    1_000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    21_600_000,
    86_400_000,
    604_800_000,
    2_592_000_000,
)
EVEN_PARTS = 6
ENDS = frozenset({"dead", "replay"})
# Per cent of the axis: width of a letter of a label at 1280 px, and its distance from the mark.
LETTER_WIDTH, LABEL_GAP = (
    0.8,
    1.5,
)
TICK_GAP = 6.5  # per cent between the labels of two ticks


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedMark:
    """A mark with its position.

    ``label`` is "" where it would overlap another. ``anchor``: start | end of the label.
    """

    x: str
    kind: str
    label: str
    anchor: str
    words: str
    at_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedLane:
    """One group's lane: marks, the line to the last of them, and how it continues to now."""

    life: GroupLife
    marks: list[PlacedMark]
    line_to: str
    onward: str  # "" | wait | gone | hope | dark: the class of the line to now
    note: Text  # text in the lane if no event has a known time


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """Everything the drawing needs. ``ticks``: (position, label in the reader's language)."""

    ticks: list[tuple[str, str]]
    now: str
    start: str
    born: list[PlacedMark]
    lanes: list[PlacedLane]


ONWARD = {
    State.NOT_YET: "hope",
    State.RETRYING: "wait",
    State.DEAD: "gone",
    State.UNKNOWN: "dark",
}


NOTES = {
    State.CONSUMED: Text("handled or skipped; no trace of the time"),
    State.FILTERED: Text("skipped: the tag does not match"),
    State.NOT_YET: Text("waiting"),
}


def axis_of(life: LifeLine, *, even: bool = False) -> Axis:
    """Place a life line. ``even``: a linear scale instead of the log one."""
    span_ms = max(1, life.now_ms - life.stored_ms)

    def place(at_ms: int) -> float:
        elapsed = min(max(0, at_ms - life.stored_ms), span_ms)
        share = (
            elapsed / span_ms if even else math.log1p(elapsed / FINEST_MS) / math.log1p(span_ms / FINEST_MS)
        )
        return LEFT + (RIGHT - LEFT) * share

    even_ticks = tuple(round(span_ms * part / EVEN_PARTS) for part in range(1, EVEN_PARTS))
    ticks: list[tuple[str, str]] = []
    last = LEFT
    for tick in even_ticks if even else TICKS_MS:
        x = place(life.stored_ms + tick)
        if tick < span_ms and x - last >= TICK_GAP and RIGHT - x >= TICK_GAP:
            ticks.append((_percent(x), Latency(tick).local()))
            last = x
    lanes = [
        PlacedLane(
            each,
            _placed(each.marks, place),
            _percent(max((place(mark.at_ms) for mark in each.marks), default=LEFT)),
            ONWARD.get(each.state, ""),
            Text() if each.marks else NOTES.get(each.state, Text()),
        )
        for each in life.groups
    ]
    return Axis(ticks, _percent(RIGHT), _percent(LEFT), _placed(life.sent, place), lanes)


def _placed(marks: Sequence[Mark], place: Callable[[int], float]) -> list[PlacedMark]:
    """Place the marks; where labels collide, dead letters and replays keep theirs, the latest first."""
    taken: list[tuple[float, float]] = []
    labels: dict[int, tuple[str, str]] = {}
    for index in sorted(range(len(marks)), key=lambda each: (marks[each].kind in ENDS, each), reverse=True):
        x, width = place(marks[index].at_ms), len(marks[index].text) * LETTER_WIDTH + LABEL_GAP
        anchor = "end" if x + width > RIGHT else "start"
        span = (x - width, x) if anchor == "end" else (x, x + width)
        if span[0] >= 0 and all(span[1] <= low or span[0] >= high for low, high in taken):
            taken.append(span)
            labels[index] = (marks[index].text, anchor)
    return [
        PlacedMark(
            _percent(place(mark.at_ms)), mark.kind, *labels.get(index, ("", "start")), mark.text, mark.at_ms
        )
        for index, mark in enumerate(marks)
    ]


def _percent(value: float) -> str:
    return f"{value:.2f}%"
