"""What an audit event stored, one line a field or row: words, values with units, times in the reader's zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from django import template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from console.access.activity_list import field_name
from console.access.models import AuditEvent
from console.operation.config.row import DONE
from console.templatetags.looks import ROWS, WAITING
from console.text import Moment, Text
from console.text.figures import count, duration, rate, size
from console.text.language import figure_words

register = template.Library()

# Of a list in a value; a plan has a row for each queue of a topic.
ROWS_MAX = 20
# From here on milliseconds are a time since 1970 (March 1973), below a duration.
MOMENT_FROM_MS = 100_000_000_000
# Numbers that are names: they have no separators.
IDS = frozenset({"queue_id", "broker_id", "port", "pk", "id"})
# Fields that name a row of a list, in this order: what a row was before and after is one line.
ROW_NAMES = ("cluster", "group", "topic", "broker_name", "broker", "addr", "queue_id", "queue", "key", "name")
# A queue's offset as plans store it, a list.
OFFSET_NAMES = ("topic", "broker_name", "queue_id", "offset")
# Rows that are read in one line, by fields that no other has: `ConfigWrite`, `QueueMove` and `ImpactRow`. The page of
# the job and REST have all of their fields.
CONFIG_ROW = frozenset({"changes", "deed", "state"})
OFFSET_ROW = frozenset({"before", "target", "planned", "state"})
IMPACT_ROW = frozenset({"value", "words", "is_lower_bound"})


@dataclass(frozen=True, slots=True)
class Line:
    """A stored value under the names it lies in: one field, or the fields of a row of a list."""

    head: str
    fields: Mapping[str, object]
    is_row: bool = False
    # What the row did or says, where its fields are more than a reader wants.
    words: SafeString | None = None


@register.simple_tag
def event_detail(event: AuditEvent) -> SafeString:
    """Render before and after as lines: what changed first, then what one side has; the unchanged is folded."""
    before = {line.head: line for line in _lines("", "", event.before)}
    after = {line.head: line for line in _lines("", "", None if event.note else event.after)}
    common = {head for head in before.keys() & after.keys() if _is_comparable(before[head], after[head])}
    both = [(line, after[head]) for head, line in before.items() if head in common]
    parts = (
        (gettext("Before"), [_alone(line) for head, line in before.items() if head not in common]),
        (gettext("After"), [_alone(line) for head, line in after.items() if head not in common]),
    )
    only = ((words, _list(lines)) for words, lines in parts if lines)
    return (
        _list([_change(old, new) for old, new in both if old != new])
        + format_html_join("", '<p class="label">{}</p>{}', only)
        + _unchanged([_alone(old) for old, new in both if old == new])
    )


def _lines(head: str, name: str, value: object) -> list[Line]:
    """Return the lines of a stored value; fields in the order of their words: a database has one of its own."""
    if isinstance(value, Mapping) and value:
        if name == "coverage" and value.get("covered") == value.get("expected") and not value.get("absent"):
            return []
        found: list[Line] = []
        for field in sorted(value, key=field_name):
            found += _lines(_under(head, field_name(field)), field, value[field])
        return found
    if _is_list(value):
        rows = [row for row in map(_with_names, value) if isinstance(row, Mapping)]
        if rows and len(rows) == len(value):
            return _rows(head, rows)
    return [Line(head, {name: value})] if name or not _is_empty(value) else []


def _rows(head: str, rows: Sequence[Mapping[str, object]]) -> list[Line]:
    """Return a line for each row of a list; of many the first, and how many more there are."""
    found: dict[str, Line] = {}
    for number, row in enumerate(rows[:ROWS_MAX], 1):
        names = [name for name in ROW_NAMES if isinstance(row.get(name), str | int)]
        if "broker_name" in names and "addr" in names:
            names.remove("addr")
        words = [f"{field_name(name)} {row[name]}" if name in IDS else _local(row[name]) for name in names]
        label = _under(head, " · ".join(words or [str(number)]))
        label = _under(label, str(number)) if label in found else label
        rest = {name: row[name] for name in sorted(row, key=field_name) if name not in names}
        found[label] = Line(label, rest, is_row=True, words=_row_words(row))
    more = len(rows) - ROWS_MAX
    if more > 0:
        label = _under(head, gettext("and %(number)s more") % {"number": count(more)})
        found[label] = Line(label, {}, is_row=True)
    return list(found.values())


def _is_comparable(old: Line, new: Line) -> bool:
    """Whether no list stands against one value, such as names of clients against their number."""
    return all(
        _is_list(value) is _is_list(new.fields[name])
        for name, value in old.fields.items()
        if new.fields.get(name) is not None and value is not None
    )


def _with_names(row: object) -> object:
    if _is_list(row) and len(row) == len(OFFSET_NAMES) and isinstance(row[2], int):
        return dict(zip(OFFSET_NAMES, row, strict=True))
    return row


def _local(value: object) -> str:
    return value.local() if isinstance(value, Text) else str(value)


def _row_words(row: Mapping[str, object]) -> SafeString | None:
    """Return what a row did or says in one line; None where its fields do."""
    if row.keys() >= IMPACT_ROW:
        return _impact(row)
    if row.keys() >= CONFIG_ROW:
        looks = ROWS["config"]
        changes = [one for one in _listed(row["changes"]) if isinstance(one, Mapping)]
        parts = [_arrow(f"{one['key']} ", one["key"], one["before"], one["after"]) for one in changes]
        if row["deed"] in DONE:
            parts = [DONE[str(row["deed"])].html()]
    elif row.keys() >= OFFSET_ROW:
        looks, parts = ROWS["offsets"], [_arrow("", "", row["before"], row["target"])]
    else:
        return None
    parts.append(format_html("{}", gettext(looks.get(str(row["state"]), WAITING).word)))
    if row.get("error"):
        parts.append(_value("", row["error"]))
    return format_html_join(gettext(", "), "{}", ((part,) for part in parts))


def _impact(row: Mapping[str, object]) -> SafeString:
    """Render a figure, or a moment in its place; without both it is unknown, or never was."""
    name, missing = ("moment_ms", gettext("never")) if "moment_ms" in row else ("value", gettext("unknown"))
    figure = missing if row[name] is None else _value(name, row[name])
    bound = "≥ " if row["is_lower_bound"] else ""
    words = format_html(" ({})", _value("", row["words"])) if row["words"] else ""
    return format_html("{}{}{}", bound, figure, words)


def _arrow(head: str, name: str, before: object, after: object) -> SafeString:
    return format_html(
        '{}{} → <span class="differs strong">{}</span>', head, _value(name, before), _value(name, after)
    )


def _under(head: str, name: str) -> str:
    return f"{head} · {name}" if head else name


def _change(old: Line, new: Line) -> SafeString:
    """Render a line of both sides; of a row the fields that differ."""
    if new.words is not None:
        return _with_head(new, new.words)
    names = [name for name in {**old.fields, **new.fields} if old.fields.get(name) != new.fields.get(name)]
    values = (
        _arrow(
            f"{field_name(name)} " if old.is_row else "",
            name,
            old.fields.get(name),
            new.fields.get(name),
        )
        for name in names
    )
    return _with_head(old, format_html_join(gettext(", "), "{}", ((value,) for value in values)))


def _alone(line: Line) -> SafeString:
    """Render a line that one side has, or both the same."""
    if line.words is not None:
        return _with_head(line, line.words)
    if line.is_row:
        return _with_head(line, _named(line.fields))
    return _with_head(line, format_html_join("", "{}", ((_value(*field),) for field in line.fields.items())))


def _with_head(line: Line, values: SafeString) -> SafeString:
    if not line.head:
        return values
    head = format_html("<b>{}</b>", line.head)
    return format_html("{}{}{}", head, gettext(": "), values) if values else head


def _list(lines: Sequence[SafeString]) -> SafeString:
    """Render lines below each other."""
    items = format_html_join("", "<li>{}</li>", ((line,) for line in lines))
    return format_html('<ul class="facts">{}</ul>', items) if lines else SafeString("")


def _unchanged(lines: Sequence[SafeString]) -> SafeString:
    if not lines:
        return SafeString("")
    words = ngettext("%(number)s unchanged field", "%(number)s unchanged fields", len(lines))
    return format_html(
        '<details class="same"><summary>{}</summary>{}</details>',
        words % {"number": count(len(lines))},
        _list(lines),
    )


def _listed(value: object) -> Sequence[object]:
    return value if _is_list(value) else ()


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_empty(value: object) -> bool:
    return value is None or value in ("", {}, [])


def _named(values: Mapping[str, object]) -> SafeString:
    """Render fields in one line, each with its name."""
    pairs = ((field_name(name), _value(name, value)) for name, value in values.items())
    return format_html_join(gettext(", "), "{} {}", pairs)


def _value(name: str, value: object) -> SafeString:
    """Render one stored value of the field ``name`` in a line."""
    if isinstance(value, Text):
        return value.html()
    if _is_empty(value):
        return format_html('<span class="muted">{}</span>', gettext("none"))
    if isinstance(value, Mapping):
        return format_html("({})", _named(value))
    if _is_list(value):
        more = len(value) - ROWS_MAX
        line = format_html_join(gettext(", "), "{}", ((_value(name, one),) for one in value[:ROWS_MAX]))
        rest = gettext("and %(number)s more") % {"number": count(more)}
        return format_html("{} {}", line, rest) if more > 0 else line
    return conditional_escape(_number(name, value) if isinstance(value, int | float) else str(value))


def _number(name: str, value: float) -> str | SafeString:
    """Return a number with the unit that its name ends with."""
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name.endswith("_ms"):
        if value >= MOMENT_FROM_MS:
            return SafeString(Moment(round(value)).html())
        return figure_words(duration(value))
    if name.endswith("_per_s"):
        return gettext("%(rate)s /s") % {"rate": rate(value)}
    if name.endswith("_s"):
        return figure_words(duration(value * 1000))
    if name.endswith("_bytes"):
        return size(value)
    if name in IDS:
        return str(value)
    return count(value) if isinstance(value, int) else f"{value:,.4g}"
