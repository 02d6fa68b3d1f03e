"""Tags of list pages: addresses with some parameters changed, sortable heads, filter chips, the pager."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import template
from django.template import Context, Node, NodeList
from django.template.base import Parser, Token
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.lists.export_size import ExportSize, of_list
from console.lists.page import PER_PAGE_CHOICES
from console.lists.spec import Column, ListSpec
from console.templatetags.statuses import status_parts
from console.text import Names
from console.text.figures import count

register = template.Library()


@register.simple_tag(takes_context=True)
def link(context: Context, **changes: object) -> SafeString:
    """Return the page's own address with some parameters changed; None or "" removes one."""
    request = context["request"]
    query = request.GET.copy()
    # A part of a page that is fetched again links to the page, not to the part.
    query.pop("part", None)
    for key, value in changes.items():
        query.pop(key, None)
        if value not in (None, "", False):
            query[key] = str(value)
    text = query.urlencode()
    return SafeString(escape(f"{request.path}?{text}" if text else request.path))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column; without a `url` it does not sort."""

    column: Column
    url: str = ""
    is_current: bool = False
    descending: bool = False


@register.inclusion_tag("_list_heads.html", takes_context=True)
def list_heads(context: Context, spec: ListSpec) -> dict[str, list[Head]]:
    """The head of a declared list: `{% list_heads list %}`; `query` in the context is a ListQuery."""
    return {
        "heads": [
            _sortable(context, column, column.ascending) if column.order else Head(column)
            for column in spec.columns
        ]
    }


@register.simple_tag
def cell_classes(spec: ListSpec) -> str:
    """Return the classes of a table whose cells have none: `num-3`, those of the third column are figures.

    The places are in `static/css/list.css`.
    """
    return " ".join(f"{one}-{at}" for at, column in enumerate(spec.columns, 1) for one in column.css.split())


@register.inclusion_tag("_sort_th.html", takes_context=True)
def sort_th(
    context: Context,
    key: str,
    label: str,
    unit: str = "",
    css: str = "num",
    first: str = "desc",
    tip: str = "",
) -> dict[str, Head]:
    """Render a sortable column head for an undeclared list: `{% sort_th "lag" "Lag" "msgs" %}`.

    `tip`: what the column means, in a popover.
    """
    column = Column(key, label, unit=unit, css=css, tip=tip)
    return {"head": _sortable(context, column, first == "asc")}


def _sortable(context: Context, column: Column, ascending: bool) -> Head:
    query = context["query"]
    is_current = query.sort == column.name
    is_next_ascending = query.descending if is_current else ascending
    url = link(context, sort=column.name, dir="asc" if is_next_ascending else "desc", page=None)
    return Head(column, url, is_current, query.descending)


REASON = re.compile(r'(?: tabindex="0")? data-why="([^"]+)"')
# Lines of the template that are no space on screen: within tags, and around cells.
LINE_END = re.compile(r"\n+(?=>|</?t[dhr]\b)|(?<=<td>)\n+")


class ReasonsOnce(Node):
    """The rows of a long list, small: each reason of an unknown once, beside them, and no line ends of the template."""

    def __init__(self, rows: NodeList) -> None:
        self._rows = rows

    def render(self, context: Context) -> SafeString:
        places: dict[str, int] = {}

        def refer(reason: re.Match[str]) -> str:
            return f' data-why-at="{places.setdefault(reason[1], len(places))}"'

        rows = REASON.sub(refer, LINE_END.sub("", self._rows.render(context)))
        texts = "".join(f"<p>{text}</p>" for text in places)
        # markup of the page as it was rendered, escaped there
        return SafeString(f"{rows}<template>{texts}</template>" if places else rows)


@register.tag
def reasons_once(parser: Parser, token: Token) -> ReasonsOnce:
    """`{% reasons_once %}<tbody>…</tbody>{% endreasons_once %}` in a table; `shell.js` looks the reasons up."""
    rows = parser.parse(("endreasons_once",))
    parser.delete_first_token()
    return ReasonsOnce(rows)


@dataclass(frozen=True, slots=True)
class Foot:
    """The foot of a list.

    `file` is the address of its CSV and `file_size` how large it is, `hidden` what a choice of size keeps.
    """

    page: Any
    noun: str
    note: str
    columns: bool
    file: str
    file_size: ExportSize | None
    first: int
    sizes: Sequence[int]
    hidden: Sequence[tuple[str, str]]
    previous: str
    next: str

    @property
    def last(self) -> int:
        return self.first - 1 + len(self.page.rows)


@register.inclusion_tag("_pager.html", takes_context=True)
def pager(
    context: Context,
    page: Any,
    noun: str,
    note: str = "",
    sized: bool = False,
    columns: bool = False,
    file: bool = False,
    newest: int = 0,
) -> dict[str, Foot]:
    """Render the foot of a list: rows shown, rows per page, previous and next. Works for any `Page`.

    ``columns``: with a chooser for the columns of the card's table, which is marked `data-columns="<list>"`;
    ``file``: with the same rows as CSV, all or the ``newest``; `list` in the context is the ListSpec.
    """
    start = (page.page - 1) * getattr(page, "per_page", len(page.rows)) if page.page < page.pages else None
    start = page.total - len(page.rows) if start is None else start
    return {
        "foot": Foot(
            page,
            noun,
            note,
            columns,
            file=link(context, format="csv", page=None, rows=None) if file else "",
            file_size=of_list(page, context["list"], newest) if file else None,
            first=start + 1,
            sizes=PER_PAGE_CHOICES if sized and page.is_long else (),
            hidden=[
                (key, value) for key, value in context["request"].GET.items() if key not in ("rows", "page")
            ],
            previous=link(context, page=page.page - 1 if page.page > 2 else None),
            next=link(context, page=page.page + 1),
        )
    }


@register.simple_tag(takes_context=True)
def chip(context: Context, code: str, number: int, current: str) -> SafeString:
    """Render a filter chip with its count; an empty one is hidden until a live count fills it."""
    family, shape, word = status_parts(code)
    is_current = code == current
    return format_html(
        '<a class="chip chip--{}" href="{}"{}{}><svg aria-hidden="true"><use href="#s-{}"/></svg>{} '
        '<b data-chip="{}">{}</b></a>',
        family,
        link(context, status=None if is_current else code, page=None),
        SafeString(' aria-current="true"') if is_current else "",
        SafeString(" hidden") if not number and not is_current else "",
        shape,
        word,
        code,
        count(number),
    )


@register.simple_tag(takes_context=True)
def filter_chip(context: Context, name: str, value: str, label: str, number: int) -> SafeString:
    """Render a list filter as a chip with its count: one value per name, a second press clears it."""
    is_current = context["request"].GET.get(name) == value
    return format_html(
        '<a class="chip" href="{}"{}>{} <b>{}</b></a>',
        link(context, **{name: None if is_current else value, "page": None}),
        SafeString(' aria-current="true"') if is_current else "",
        label,
        count(number),
    )


@register.simple_tag(takes_context=True)
def toggle(context: Context, key: str, value: str, default: str = "") -> SafeString:
    """Return the page's address with one value of a repeated parameter switched.

    `default` is the value that its absence means.
    """
    request = context["request"]
    query = request.GET.copy()
    values = query.getlist(key) or ([default] if default else [])
    query.pop("page", None)
    query.setlist(key, [one for one in values if one != value] if value in values else [*values, value])
    text = query.urlencode()
    return SafeString(escape(f"{request.path}?{text}" if text else request.path))


@register.simple_tag
def paused_tag(paused: Mapping[str, Sequence[str]], group: str) -> SafeString | str:
    """ "Paused" beside the name of a group that may not read some topics, which it names; "" for all others."""
    topics = paused.get(group)
    if topics is None:
        return ""
    # The empty name stands for the whole group (`console.group.pauses.WHOLE_GROUP`).
    where = _("Consumption is disabled for the whole group.") if "" in topics else Names(topics).local()
    tag = ' <span class="tag tag--warn" tabindex="0" data-tip="{}">{}</span>'
    return format_html(tag, where, _("Paused"))


@register.simple_tag
def steps(*words: str, now: int = 1) -> list[tuple[int, str, bool, bool]]:
    """Return (number, word, is done, is current) of each step."""
    return [(number, word, number < now, number == now) for number, word in enumerate(words, 1)]


@register.simple_tag
def message_url(cluster: str, message: Any) -> str:
    """Return a permalink by id, with topic and offset for brokers that report another address."""
    return _message_url(cluster, message, message.queue_offset, message.offset_message_id)


@register.simple_tag
def neighbour_url(cluster: str, message: Any, step: int) -> str:
    """Return the address of the message before or after in the same queue, by its offset."""
    offset = max(0, message.queue_offset + step)
    return _message_url(cluster, message, offset, f"{message.broker_name}-{message.queue_id}-{offset}")


def _message_url(cluster: str, message: Any, offset: int, name: str) -> str:
    place = f"{message.broker_name}:{message.queue_id}:{offset}"
    return f"{reverse('message', args=[cluster, name])}?{urlencode({'topic': message.topic, 'at': place})}"
