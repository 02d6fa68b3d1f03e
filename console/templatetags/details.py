"""What an audit event stored, as small tables: fields in words, values with units, times in the reader's zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from console.access.activity_list import field_name
from console.access.models import AuditEvent
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


@register.simple_tag
def event_detail(event: AuditEvent) -> SafeString:
    """Render before and after: side by side where they are the same fields, else one below the other.

    Side by side, the fields that changed come first and marked, the others are under a closed line.
    """
    before, after = event.before, None if event.note else event.after
    if isinstance(before, Mapping) and isinstance(after, Mapping) and _are_alike(before, after):
        names = sorted({*before, *after}, key=field_name)  # a database keeps them in an order of its own
        same = {name: before[name] for name in before if name in after and before[name] == after[name]}
        return _changes(before, after, [name for name in names if name not in same]) + _unchanged(same)
    parts = ((gettext("Before"), before), (gettext("After"), after))
    return format_html_join(
        "",
        '<p class="label">{}</p>{}',
        ((words, _value("", value)) for words, value in parts if value not in (None, "", {}, [])),
    )


def _changes(before: Mapping[str, object], after: Mapping[str, object], names: Sequence[str]) -> SafeString:
    if not names:
        return SafeString("")
    rows = format_html_join(
        "",
        '<tr><th scope="row">{}</th><td class="wrap">{}</td><td class="wrap differs strong">{}</td></tr>',
        ((field_name(name), _cell(before, name), _cell(after, name)) for name in names),
    )
    return format_html(
        '<table class="dt dt--detail"><thead><tr><th scope="col">{}</th><th scope="col">{}</th>'
        '<th scope="col">{}</th></tr></thead><tbody>{}</tbody></table>',
        gettext("Field"),
        gettext("Before"),
        gettext("After"),
        rows,
    )


def _unchanged(values: Mapping[str, object]) -> SafeString:
    if not values:
        return SafeString("")
    words = ngettext("%(number)s unchanged field", "%(number)s unchanged fields", len(values))
    return format_html(
        '<details class="same"><summary>{}</summary>{}</details>',
        words % {"number": count(len(values))},
        _fields(values),
    )


def _are_alike(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether most fields are in both: the state a plan was made from has few in common with its result."""
    return 2 * len(before.keys() & after.keys()) > len(before.keys() | after.keys())


def _cell(values: Mapping[str, object], name: str) -> SafeString:
    return _value(name, values[name]) if name in values else SafeString('<span class="na">–</span>')


def _value(name: str, value: object) -> SafeString:
    """Render one stored value of the field ``name``."""
    if isinstance(value, Text):
        return value.html()
    if isinstance(value, Mapping):
        return _fields(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _list(name, value)
    if value is None or value == "":
        return format_html('<span class="muted">{}</span>', gettext("none"))
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
        return f"{rate(value)} /s"
    if name.endswith("_s"):
        return figure_words(duration(value * 1000))
    if name.endswith("_bytes"):
        return size(value)
    if name in IDS:
        return str(value)
    return count(value) if isinstance(value, int) else f"{value:,.4g}"


def _fields(values: Mapping[str, object]) -> SafeString:
    if not values:
        return _value("", None)
    rows = format_html_join(
        "",
        '<tr><th scope="row">{}</th><td class="wrap">{}</td></tr>',
        ((field_name(name), _value(name, value)) for name, value in values.items()),
    )
    return format_html('<table class="dt dt--detail"><tbody>{}</tbody></table>', rows)


def _list(name: str, values: Sequence[object]) -> SafeString:
    """Render rows as a table, anything else in one line; of many the first."""
    if not values:
        return _value("", None)
    shown, more = values[:ROWS_MAX], len(values) - ROWS_MAX
    rest = gettext("and %(number)s more") % {"number": count(more)} if more > 0 else ""
    rows = [row for row in shown if isinstance(row, Mapping)]
    if len(rows) < len(shown):
        line = format_html_join(", ", "{}", ((_value(name, value),) for value in shown))
        return format_html("{} {}", line, rest) if rest else line
    names = list(dict.fromkeys(key for row in rows for key in row))
    heads = format_html_join("", '<th scope="col">{}</th>', ((field_name(key),) for key in names))
    body = format_html_join(
        "",
        "<tr>{}</tr>",
        (
            (format_html_join("", '<td class="wrap">{}</td>', ((_cell(row, key),) for key in names)),)
            for row in rows
        ),
    )
    return format_html(
        '<table class="dt dt--detail"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}',
        heads,
        body,
        format_html('<p class="small muted">{}</p>', rest) if rest else "",
    )
