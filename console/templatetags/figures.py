"""Tags and filters of figures, times, statuses and their words; the cells of a row are in `cells`."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable
from html import escape
from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.template import Context, Node
from django.template.base import FilterExpression, Parser, Token
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.operation import selectors as operation_selectors
from console.templatetags.cells import (
    CELLS,
    NOT_APPLICABLE,
    badge,
    duration,
    latency,
    moment,
    sparkline,
    ticking,
    value_of,
)
from console.templatetags.statuses import named_badge, named_glyph, status_parts
from console.text import JsonObject, Names
from console.text.figures import clock, compact, count, percent, rate, size, zone_offset

register = template.Library()
# For text between tags only, where quotes may stand as they are: a body in JSON is a fifth smaller.
register.filter("between_tags", lambda text: SafeString(escape(str(text), quote=False)))

register.simple_tag(sparkline)


def _now_ms(context: Context) -> int:
    return int(context.get("now_ms") or time.time() * 1000)


class CellNode(Node):
    """A figure of a row that updates live. A list has hundreds: what is known of one when it is parsed is made then."""

    def __init__(self, row: FilterExpression, name: str, kind: str, variable: str) -> None:
        self._row = row
        self.variable = variable
        self._name = name
        self._figure = CELLS[kind]
        self._begin = format_html('<span data-field="{}" data-as="{}">', name, kind)

    def render(self, context: Context) -> SafeString:
        inner = self._figure(self._row.resolve(context), self._name, _now_ms(context))
        markup = SafeString(f"{self._begin}{inner}</span>")
        if not self.variable:
            return markup
        context[self.variable] = markup
        return SafeString("")


class _Compact(DjangoJSONEncoder):
    """JSON without spaces: a seventh of the numbers of a chart."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"separators": (",", ":")})


@register.filter
def series(chart: object, element_id: str) -> SafeString:
    """`{{ chart|series:"lag-history" }}`: what a chart draws, for its script."""
    return json_script(chart, element_id, _Compact)


@register.tag
def cell(parser: Parser, token: Token) -> CellNode:
    """Render a figure of a row that updates live: `{% cell row "lag" "count" %}`, with `as name` into a variable."""
    _tag, row, name, kind, *variable = token.split_contents()
    return CellNode(parser.compile_filter(row), name.strip('"'), kind.strip('"'), "".join(variable[1:]))


@register.simple_tag(takes_context=True)
def column(context: Context, row: object, name: str) -> SafeString:
    """Render all of a cell of a declared list that updates live: its head has the field and how it is shown.

    `list` in the context is the ListSpec.
    """
    field, kind = context["list"].live(name)
    return CELLS[kind](row, field, _now_ms(context))


@register.simple_tag(takes_context=True)
def figure(context: Context, row: object, name: str, kind: str) -> SafeString:
    """Render a figure of a row that does not update."""
    return CELLS[kind](row, name, _now_ms(context))


@register.simple_tag(takes_context=True)
def ago(context: Context, milliseconds: int | None, never: str = "") -> SafeString:
    """An age that ticks: `4 s`."""
    if milliseconds is None:
        return format_html('<span class="muted">{}</span>', never or _("never"))
    return ticking(milliseconds, _now_ms(context))


@register.simple_tag(takes_context=True)
def at(context: Context, milliseconds: int | None, style: str = "moment") -> SafeString:
    """Render a moment in the person's zone, with UTC and its age in a popover.

    Styles: `moment`, `clock`, `clock_ms`, `moment_ms`.
    """
    if milliseconds is None:
        return NOT_APPLICABLE
    zone, with_ms = get_current_timezone(), style.endswith("_ms")
    text = (
        clock(milliseconds, zone, with_ms=with_ms)
        if style.startswith("clock")
        else moment(milliseconds, zone, now_ms=_now_ms(context), with_ms=with_ms)
    )
    return format_html(
        '<time data-at="{}" data-as="{}" datetime="{}">{}</time>',
        milliseconds,
        style,
        _iso(milliseconds),
        text,
    )


@register.simple_tag(takes_context=True)
def zone_name(context: Context) -> SafeString:
    """Render `UTC+8`; shell.js corrects it if the cookie was not set yet."""
    return format_html(
        "<span data-zone-name>{}</span>", zone_offset(get_current_timezone(), _now_ms(context))
    )


@register.filter
def ms(value: dt.datetime | None) -> int | None:
    """A datetime as epoch milliseconds, for `at` and `ago`."""
    return None if value is None else round(value.timestamp() * 1000)


def _iso(milliseconds: int) -> str:
    return (
        dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


@register.simple_tag
def icon(name: str, small: bool = False) -> SafeString:
    classes = "icon icon--sm" if small else "icon"
    return format_html('<svg class="{}" aria-hidden="true"><use href="#i-{}"/></svg>', classes, name)


@register.simple_tag
def legend(*parts: str) -> SafeString:
    """Render the key of a chart: `{% legend "" _("in") "c2" _("out") %}`, the class of each line and its name."""
    return format_html_join(
        "", '<span><i class="{}"></i>{}</span>', zip(parts[::2], parts[1::2], strict=True)
    )


@register.simple_tag
def glyph(code: str) -> SafeString:
    """Render a status as its shape alone, with its word for screen readers."""
    return named_glyph(*status_parts(code))


@register.simple_tag
def status(code: str, style: str = "") -> SafeString:
    """A badge: `{% status plan.state "large" %}`; styles `plain`, `large`, `pill`, `large pill`."""
    return badge(code, plain="plain" in style, large="large" in style, pill="pill" in style)


register.simple_tag(named_badge)


@register.simple_tag(name="unknown")
def unknown_because(reason: str) -> SafeString:
    """Render an unknown value that is no column of a row."""
    return format_html('<span class="unknown" tabindex="0" data-why="{}">{}</span>', reason, _("unknown"))


@register.simple_tag
def meter(ratio: float | None, tone: str = "", label: str = "") -> SafeString:
    """Render a bar of a ratio 0..1; its width is an SVG attribute, as the CSP allows no style."""
    share = min(1.0, max(0.0, ratio or 0.0)) * 100
    return format_html(
        '<svg class="meter" role="img" aria-label="{}"><rect class="{}" width="{}%" height="100%"/></svg>',
        label or percent(ratio or 0.0),
        tone,
        f"{share:.2f}",
    )


LANGUAGES = {
    # Language codes of clients → their usual names; others are shown unchanged.
    "JAVA": "Java",
    "CPP": "C++",
    "DOTNET": ".NET",
    "PYTHON": "Python",
    "GO": "Go",
    "RUST": "Rust",
    "NODE_JS": "Node.js",
    "RUBY": "Ruby",
    "ERLANG": "Erlang",
    "DELPHI": "Delphi",
    "OTHER": "unnamed language",
}


@register.filter
def client_language(code: str) -> str:
    """`Java` of JAVA."""
    return LANGUAGES.get(code, code)


register.filter("count", lambda value: NOT_APPLICABLE if value is None else count(value))
register.filter("compact", lambda value: NOT_APPLICABLE if value is None else compact(value))
register.filter("rate", lambda value: NOT_APPLICABLE if value is None else rate(value))
register.filter(
    "duration",
    lambda value: (
        NOT_APPLICABLE if value is None else format_html('<span class="nowrap">{}</span>', duration(value))
    ),
)
register.filter("latency", lambda value: NOT_APPLICABLE if value is None else latency(value))
register.filter("size", lambda value: NOT_APPLICABLE if value is None else size(value))
register.filter("percent", lambda value: NOT_APPLICABLE if value is None else percent(value))
register.filter("status_word", lambda code: status_parts(code)[2])


@register.simple_tag
def progress_bar(progress: JsonObject) -> SafeString:
    """sent | skipped | failed | to go as one bar; the widths are SVG attributes."""
    total = progress.get("total") or 0
    parts = (("sent", "sent"), ("skip", "skipped"), ("fail", "failed"))
    widths = [(css, 100 * (progress.get(key) or 0) / total if total else 0.0) for css, key in parts]
    if total and not any(width for _, width in widths):
        widths = [("sent", 100 * (progress.get("done") or 0) / total)]
    rects, x = [], 0.0
    for css, width in widths:
        rects.append(
            format_html(
                '<rect class="{}" x="{}%" width="{}%" height="100%"/>', css, f"{x:.2f}", f"{width:.2f}"
            )
        )
        x += width
    return format_html(
        '<svg class="progress" role="img" aria-label="{}">{}</svg>',
        _("%(share)s done") % {"share": percent(x / 100)},
        SafeString("".join(rects)),
    )


@register.simple_tag
def share_of(part: int | None, whole: int | None) -> str:
    return percent((part or 0) / whole) if whole else "0 %"


@register.simple_tag
def between(first: dt.datetime, last: dt.datetime) -> str:
    return duration((last - first).total_seconds() * 1000)


@register.simple_tag
def seconds(value: float) -> str:
    """A duration that is kept in seconds."""
    return duration(value * 1000)


@register.simple_tag(takes_context=True)
def expires_in(context: Context, at_ms: int) -> SafeString:
    """How long something stays: red under an hour, amber under half a day; ticks in the browser."""
    left_ms = at_ms - _now_ms(context)
    css = "t-bad" if left_ms < 3_600_000 else "t-warn" if left_ms < 12 * 3_600_000 else ""
    return format_html(
        '<time class="{}" data-at="{}" data-as="left">{}</time>', css, at_ms, duration(left_ms)
    )


@register.simple_tag
def time_left(left: int, per_second: int) -> str:
    return duration(left / per_second * 1000)


@register.filter
def kind_words(kind: str) -> str:
    """Return the name of a plan's kind."""
    found = operation_selectors.plan_kinds().get(kind)
    return kind if found is None else found.title.local()


@register.filter
def signed(value: float | None) -> str:
    """A delta with its sign: `+18`, `−101,785`, `0`."""
    if value is None:
        return "–"
    return f"+{count(value)}" if value > 0 else count(value)


@register.filter
def direction(delta: int | None) -> str:
    """Return the class of a delta: back, forward or neither."""
    return "delta-back" if delta and delta < 0 else "delta-fwd" if delta else ""


MODELS = {"CLUSTERING": gettext_noop("Clustering"), "BROADCASTING": gettext_noop("Broadcast")}
CONSUME_MODES = {"CONCURRENTLY": gettext_noop("Clustering"), "ORDERLY": gettext_noop("Orderly"), "POP": "POP"}


@register.simple_tag
def model_words(row: object) -> SafeString | str:
    """Render broadcast, or how the group consumes; – while never seen online."""
    model, mode = value_of(row, "model"), value_of(row, "consume_mode")
    if model == "BROADCASTING":
        return _(MODELS[model])
    word = CONSUME_MODES.get(mode or "", "") or MODELS.get(model or "", "")
    return _(word) if word else NOT_APPLICABLE


@register.simple_tag
def difference(more: int, less: int) -> str:
    return count(more - less)


TOPIC_KINDS = {
    "NORMAL": gettext_noop("Normal"),
    "RETRY": gettext_noop("Retry"),
    "DLQ": gettext_noop("Dead letters"),
    "SYSTEM": gettext_noop("System"),
    # message types of ordinary topics
    "FIFO": gettext_noop("FIFO"),
    "DELAY": gettext_noop("Delay"),
    "TRANSACTION": gettext_noop("Transaction"),
    "MIXED": gettext_noop("Mixed"),
}


@register.filter
def names(several: Iterable[object]) -> str:
    """Return names with the reader's sign between them."""
    return Names(map(str, several)).local()


@register.filter
def topic_kind(kind: str) -> str:
    return _(TOPIC_KINDS[kind]) if kind in TOPIC_KINDS else kind


@register.filter
def topic_type(row: object) -> str:
    """Return the word for the message type of an ordinary topic, where it has one of its own, else for its kind."""
    kind, message_type = value_of(row, "kind"), value_of(row, "message_type")
    return topic_kind(message_type if kind == "NORMAL" and message_type in TOPIC_KINDS else kind)
