"""Sentences on pages: times in the reader's zone, explanations in popovers, and stored values as text.

One rule for times in texts: a stored sentence (a plan's summary, a broker's reason, an error) has its times in UTC,
marked as such, because audits, REST and other zones read it; a page shows them in the reader's zone.
`static/js/figures.js` does so for live text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console.access.activity_list import sentence_of
from console.access.models import AuditEvent
from console.templatetags.figures import zone_of
from console.text import Text
from console.text.figures import clock, moment, zone_offset
from console.text.language import figure_words
from spark.lag.local_time import DAY_MS

register = template.Library()

_TIME = r"(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d:\d\d)"
TIMES = re.compile(rf"{_TIME}(?:(–| to ){_TIME})? UTC")
# Figures with what they count, for bold type; in Chinese the word that counts has no blank before it.
FIGURES = (
    r"(?<![\w.:-])\d[\d,]*(?:\.\d+)?(?: (?:ms|[dhms]|messages?|queues?)\b| ?(?:条消息|个队列))?(?![\w:])"
)


@register.filter
def local(text: Any) -> Any:
    """Return a text in the reader's language, for string filters: `{{ view.role|local|capfirst }}`.

    Elsewhere a text in a template is in the reader's language by itself.
    """
    return text.local() if isinstance(text, Text) else text


@register.filter
def units(text: str) -> str:
    """Return a figure that was rendered without a reader with the units of this one's language."""
    return text.local() if isinstance(text, Text) else figure_words(text)


# What a plan's summary begins with, in each language.
FUTURE = ("This will ", "将")


def _without_future(text: str) -> str:
    opener = next((one for one in FUTURE if text.startswith(one)), "")
    rest = text.removeprefix(opener)
    return rest[:1].upper() + rest[1:] if opener else text


@register.simple_tag(takes_context=True)
def words(
    context: Context,
    source: Text | str,
    written_ms: int | None = None,
    *,
    strong: bool = False,
    timeless: bool = False,
) -> SafeString:
    """Render a stored sentence in the reader's language, its UTC times in the reader's zone.

    A time without a day is of the day of ``written_ms``; without that, the last such time before now. ``strong``:
    figures, names and times in bold type. ``timeless``: a plan's summary without *This will*, for one that may be done.
    """
    bold = _bold(source) if strong else None
    zone, text = zone_of(context), str(local(source))
    # A person's own words, such as a reason, stay as they are.
    if timeless and isinstance(source, Text):
        text = _without_future(text)
    now_ms = int(context.get("now_ms") or dt.datetime.now(dt.UTC).timestamp() * 1000)

    def shown(at_ms: int, style: str) -> SafeString:
        text = clock(at_ms, zone) if style == "clock" else moment(at_ms, zone, now_ms=now_ms)
        return format_html('<time data-at="{}" data-as="{}">{}</time>', at_ms, style, figure_words(text))

    parts: list[str] = []
    end = 0
    for found in TIMES.finditer(text):
        day, time, between, last_day, last_time = found.groups()
        first_ms = _at_ms(day, time, written_ms, now_ms)
        last_ms = _at_ms(last_day or day, last_time or time, written_ms, now_ms)
        if first_ms is None or last_ms is None:
            continue
        parts += [
            _plain(text[end : found.start()], bold),
            "<strong>" if strong else "",
            shown(first_ms, "moment"),
        ]
        if between:
            days = {dt.datetime.fromtimestamp(ms / 1000, zone).date() for ms in (first_ms, last_ms)}
            parts += [between, shown(last_ms, "clock" if len(days) == 1 else "moment")]
        parts.append("</strong>" if strong else "")
        parts.append(format_html(" <span data-zone-name>{}</span>", zone_offset(zone, last_ms)))
        end = found.end()
    parts.append(_plain(text[end:], bold))
    return SafeString("".join(parts))


def _bold(text: Text | str) -> re.Pattern[str]:
    """Return what is set in bold type: figures, and the names in the places of a text."""
    names = sorted(map(re.escape, _names(text)), key=len, reverse=True)
    return re.compile("|".join([*(rf"(?<![\w-]){name}(?![\w-])" for name in names), FIGURES]))


def _names(text: object) -> set[str]:
    """Return the names in the places of a text: words without a blank or a colon, so neither times nor phrases."""
    if isinstance(text, tuple):
        return {name for part in text for name in _names(part)}
    if isinstance(text, Text):
        return {name for value in text.values.values() for name in _names(value)}
    return {text} if isinstance(text, str) and re.fullmatch(r"[^\s:]{2,}", text) else set()


def _plain(text: str, bold: re.Pattern[str] | None) -> str:
    """Return a piece of a sentence as HTML."""
    if bold is None:
        return escape(text)
    parts, end = [], 0
    for found in bold.finditer(text):
        parts += [escape(text[end : found.start()]), format_html("<strong>{}</strong>", found[0])]
        end = found.end()
    return "".join([*parts, escape(text[end:])])


def _at_ms(day: str | None, time: str, written_ms: int | None, now_ms: int) -> int | None:
    """Return the moment of a day and a time of day in UTC; None for 25:61:00."""
    base_ms = now_ms if written_ms is None else written_ms
    date = day or f"{dt.datetime.fromtimestamp(base_ms / 1000, dt.UTC):%Y-%m-%d}"
    try:
        at_ms = int(dt.datetime.fromisoformat(f"{date}T{time}+00:00").timestamp() * 1000)
    except ValueError:
        return None
    return at_ms - DAY_MS if day is None and written_ms is None and at_ms > now_ms else at_ms


@register.simple_tag
def tip(text: Text | str, label: str = "") -> SafeString:
    """Render a mark that opens an explanation on hover, focus and touch, which a `title` cannot do."""
    return format_html(
        '<button class="tip" type="button" data-tip="{}" aria-label="{}">'
        '<svg class="icon icon--sm" aria-hidden="true"><use href="#i-info"/></svg></button>',
        text,
        f"{label or gettext('Explanation')}: {local(text)}",
    )


# Verb of an audit event → the page of its object; a plan's page links to the object of a plan.
OBJECT_PAGES = {"change SLO": "group", "set body schema": "topic", "remove body schema": "topic"}


@register.simple_tag
def event_sentence(event: AuditEvent) -> SafeString:
    """Render what an event did, its object in bold type or as a link."""
    before, mark, after = sentence_of(event.verb, "\0").local().partition("\0")
    page = OBJECT_PAGES.get(event.verb)
    shown = format_html("<b>{}</b>", event.subject) if mark else ""
    if page and event.cluster and event.subject:
        url = reverse(page, args=[event.cluster, event.subject])
        shown = format_html('<a href="{}">{}</a>', url, event.subject)
    return format_html("{}{}{}", before, shown, after)


@register.filter
def json_value(value: object) -> str:
    """Return a short stored value: text as it is, the rest as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value)


@register.filter
def pretty(value: object) -> str:
    """Format a stored value for people: text as it is, the rest as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def quoted_json(value: object) -> str:
    """Return JSON for single quotes in a shell: an apostrophe in it is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("'", "\\u0027")


@register.filter
def config_value(value: object) -> str:
    """Format a configuration value: `true`, `8`, `message.type=FIFO`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "{}"
    return str(value)
