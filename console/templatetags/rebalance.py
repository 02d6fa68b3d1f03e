"""How owners of queues look: the state of a group, a count of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.rebalance.models import ServerSideGroup
from console.rebalance.observed.group_list import GroupState, RebalancedGroup
from console.rebalance.observed.matrix import Cell
from console.rebalance.observed.ownership import Source
from console.templatetags.statuses import named_badge
from console.text import Text
from console.text.figures import MINUS, count, rate

register = template.Library()

# Family and shape of the sprite.
LOOKS: Mapping[str, tuple[str, str]] = {
    GroupState.NO_OWNER: ("bad", "stopped"),
    GroupState.TWO_OWNERS: ("bad", "lost"),
    GroupState.UNKNOWN: ("unknown", "unknown"),
    GroupState.IDLE: ("warn", "behind"),
    GroupState.SHARED: ("offline", "ok"),
    GroupState.OFFLINE: ("offline", "offline"),
    GroupState.OK: ("ok", "ok"),
}
# Of an assignment: family, shape and word.
ASSIGNED: Mapping[str, tuple[str, str, Text]] = {
    ServerSideGroup.State.PENDING: ("catch", "never", Text("Being stored")),
    ServerSideGroup.State.STORED: ("catch", "catch", Text("Stored")),
    ServerSideGroup.State.APPLIED: ("ok", "ok", Text("Followed")),
    ServerSideGroup.State.IDLE: ("offline", "offline", Text("Idle")),
    ServerSideGroup.State.FAILED: ("bad", "lost", Text("Failed")),
}
SOURCES: Mapping[str, Text] = {
    Source.SERVER: Text("set by this console"),
    Source.REPORTED: Text("reported by the clients"),
    Source.FITS: Text("not reported; it fits what the clients hold"),
    Source.ASSUMED: Text("not reported; the default of clients is assumed"),
}


@register.simple_tag
def owners_badge(state: str, words: Text) -> SafeString:
    """Render who reads a group's queues as a badge."""
    return named_badge(*LOOKS[state], words)


@register.simple_tag
def assigned_badge(state: str) -> SafeString:
    """Render how far an assignment is followed as a badge."""
    return named_badge(*ASSIGNED[state])


@register.simple_tag
def queue_count(row: RebalancedGroup, number: int, tone: str = "") -> SafeString:
    """Render a count of a group's queues or clients; a dash where no queue has an owner."""
    if row.state is GroupState.SHARED:
        return SafeString('<span class="na">–</span>')
    if number and tone and row.state is not GroupState.OFFLINE:
        return format_html('<span class="t-{}">{}</span>', tone, count(number))
    return SafeString(count(number) if number else '<span class="zero">0</span>')


@register.simple_tag
def owner_cells(cells: Sequence[Cell]) -> SafeString:
    """Render the cells of a row of the matrix: a page has thousands, nearly all empty and without an end tag."""
    return SafeString("".join(_cell(one) for one in cells))


def _cell(cell: Cell) -> str:
    edge = ' class="edge"' if cell.is_edge else ""
    if cell.mark is None:
        return f"<td{edge}>"
    return format_html(
        '<td{}><i role="img" aria-label="{}" class="cell--{}">{}</i>',
        SafeString(edge),
        cell.words,
        cell.mark,
        cell.letter,
    )


@register.filter
def growth(per_second: float) -> str:
    """Return how a lag grows: `+1.2`, `−0.4`, `0`."""
    if abs(per_second) < 0.05:
        return "0"
    return f"+{rate(per_second)}" if per_second > 0 else f"{MINUS}{rate(-per_second)}"


@register.filter
def source_words(source: str) -> Text:
    """Return how a strategy is known."""
    return SOURCES[source]
