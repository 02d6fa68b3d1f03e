"""Tags of the message pages: the search as text, chips, the progress bar of a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.forms.utils import ErrorDict
from django.template import Context
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.message.selectors import BrokerQueues
from console.templatetags.cells import duration, latency
from console.templatetags.lists import link, toggle
from console.templatetags.statuses import named_badge
from console.text.figures import count, percent

register = template.Library()

register.filter("latency", lambda value: latency(value))
register.filter("duration", lambda value: duration(value))
register.filter("words", lambda value: str(value).split())


@register.filter
def item(errors: ErrorDict, name: str) -> Any:
    """`{{ form.errors|item:name }}`."""
    return errors.get(name)


@register.simple_tag
def scan_bar(figures: Any) -> SafeString:
    """Render shares read, to go and unreadable: of messages in answering queues, of queues for the rest."""
    queues = figures.queues + max(0, figures.queues_silent)
    answering = 1 - figures.queues_silent / queues if queues and figures.queues_silent else 1.0
    total = figures.scanned + figures.to_go
    read = (figures.scanned / total if total else 1.0) * answering * 100
    return format_html(
        '<svg class="progress progress--thin" role="img" aria-label="{}">'
        '<rect class="sent" width="{}%" height="100%"/><rect class="hatch" x="{}%" width="{}%" height="100%"/></svg>',
        _("%(share)s of the range read") % {"share": percent(figures.scanned / total if total else 1.0)},
        f"{read:.2f}",
        f"{answering * 100:.2f}",
        f"{(1 - answering) * 100:.2f}",
    )


@register.simple_tag
def scan_line(found: Any, is_running: bool) -> SafeString:
    """Render the head of a page's results: how many messages were read for it."""
    context = {"figures": found.figures, "is_running": is_running, "stop_reason": found.stop_reason}
    return mark_safe(render_to_string("message/_scan.html", context))  # noqa: S308 - a template of ours


@register.simple_tag(takes_context=True)
def broker_chips(context: Context, brokers: Sequence[BrokerQueues]) -> SafeString:
    """Render one chip per broker with its number of queues; none pressed means all."""
    chosen = context["request"].GET.getlist("broker")
    everything = format_html(
        '<a class="chip" href="{}"{}>{} <b>{}</b></a>',
        link(context, broker=None, queue=None, cursor=None),
        SafeString(' aria-current="true"') if not chosen else "",
        _("All"),
        count(sum(row.queues for row in brokers)),
    )
    chips = format_html_join(
        "",
        '<a class="chip{}" href="{}"{}>{}{} <b>{}</b>{}</a>',
        (
            (
                " chip--unknown" if row.is_silent else "",
                toggle(context, "broker", row.broker_name),
                SafeString(' aria-current="true"') if row.broker_name in chosen else "",
                SafeString('<svg aria-hidden="true"><use href="#s-unknown"/></svg>') if row.is_silent else "",
                row.broker_name,
                count(row.queues),
                " " + _("silent") if row.is_silent else "",
            )
            for row in brokers
        ),
    )
    kept = format_html_join(
        "", '<input type="hidden" name="broker" value="{}">', ((name,) for name in chosen)
    )
    return format_html("{}{}{}", everything if brokers else "", chips, kept)


@register.simple_tag(takes_context=True)
def tag_chips(context: Context, found: Any, expression: str) -> SafeString:
    """Render tags of the messages read, with shares; pressing a chosen one again removes it."""
    chosen = [tag for part in expression.split("||") if (tag := part.strip())]
    tags = [] if found is None else list(found.tags)
    total = 0 if found is None or found.figures is None else sum(number for _, number in tags)
    shares = {tag: f"{round(number * 100 / total)} %" for tag, number in tags} if total and not chosen else {}
    names = [*chosen, *(tag for tag, _ in tags if tag not in chosen)]
    chips = format_html_join(
        "",
        '<a class="chip" href="{}"{}>{}{}</a>',
        (
            (
                link(context, tag=_toggled(chosen, tag), cursor=None),
                SafeString(' aria-current="true"') if tag in chosen else "",
                tag,
                format_html(" <b>{}</b>", shares[tag]) if tag in shares else "",
            )
            for tag in names
        ),
    )
    note = (
        format_html(
            '<span class="small muted">{}</span>',
            _("shares of the %(number)s read") % {"number": count(total)},
        )
        if shares
        else ""
    )
    return format_html("{}{}", chips, note)


def _toggled(chosen: list[str], tag: str) -> str:
    return (
        " || ".join(each for each in chosen if each != tag) if tag in chosen else " || ".join([*chosen, tag])
    )


@register.simple_tag
def search_words(form: Any, read: str) -> SafeString:
    """Return the search in one line, for phones: `orders from 12:02:00, tag paid, $.city == "x"`."""
    value = form.data.get
    begin = {
        "tail": _("as they arrive"),
        "time": _("from %(time)s") % {"time": value("since", "").replace("T", " ")},
        "offset": _("from offset %(offset)s") % {"offset": value("offset", "")},
        "key": _("with the key %(key)s") % {"key": value("key", "")},
        "unique": _("with the unique key %(key)s") % {"key": value("id", "")},
    }.get(read, _("newest first"))
    filters = [
        _("tag %(tag)s") % {"tag": value("tag")} if value("tag") else "",
        value("sql", ""),
        value("find", ""),
        _("queue %(queue)s") % {"queue": value("queue")} if value("queue") else "",
        _("on %(broker)s") % {"broker": value("broker")} if value("broker") else "",
    ]
    return format_html("<b>{}</b> {}", value("topic", ""), ", ".join([begin, *filter(None, filters)]))


# State of a group on a life line → colour family, shape, word (as the statuses of `figures`).
LIFE_STATES: Mapping[str, tuple[str, str, str]] = {
    "CONSUMED": ("ok", "ok", gettext_noop("Consumed")),
    "RETRYING": ("warn", "behind", gettext_noop("Retrying")),
    "DEAD": ("bad", "lost", gettext_noop("Dead letter")),
    "REPLAYED": ("catch", "catch", gettext_noop("Replayed")),
    "NOT_YET": ("offline", "never", gettext_noop("Not yet")),
    "FILTERED": ("offline", "offline", gettext_noop("Filtered out")),
    "UNKNOWN": ("unknown", "unknown", gettext_noop("Unknown")),
}


@register.simple_tag
def life_badge(state: str) -> SafeString:
    """Render what became of a message in a group."""
    family, shape, word = LIFE_STATES[state]
    return named_badge(family, shape, _(word))


@register.simple_tag
def life_word(state: str) -> str:
    """The same as a word in a sentence."""
    return _(LIFE_STATES[state][2]).lower()


@register.filter
def minus(value: int, other: int) -> str:
    """A difference of milliseconds, grouped."""
    return count(value - other)
