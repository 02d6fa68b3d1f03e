"""Frames of pages as block tags: what stands around contents that differ. Built in: no page loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django import template
from django.template import Context, Node, NodeList
from django.template.base import FilterExpression, Parser, Token, token_kwargs
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


class BannerLook(NamedTuple):
    """How a banner of a kind looks, and how a screen reader takes it."""

    classes: str
    role: str
    glyph: str  # classes of its picture
    picture: str  # of the sprite


BANNERS: Mapping[str, BannerLook] = {
    "bad": BannerLook("banner banner--bad", "alert", "glyph", "s-lost"),
    "warn": BannerLook("banner banner--warn", "status", "glyph", "s-behind"),
    "ok": BannerLook("banner banner--ok", "status", "glyph", "s-ok"),
    "unknown": BannerLook("banner banner--unknown", "status", "glyph", "s-unknown"),
    "running": BannerLook("banner", "status", "glyph g-catch", "s-catch"),
    "waiting": BannerLook("banner", "status", "glyph g-offline", "s-never"),
    "over": BannerLook("banner", "status", "glyph g-offline", "s-offline"),
    "note": BannerLook("banner", "note", "icon", "i-info"),
    "scope": BannerLook("banner banner--scope", "note", "icon", "i-access"),
}


# Levels of Django's messages, what an action has led to → kind.
MESSAGES: Mapping[str, str] = {"error": "bad", "warning": "warn", "success": "ok", "info": "ok"}


def _attributes(values: Mapping[str, object]) -> SafeString:
    """Render the attributes of a frame: `data_key` is `data-key`, one that is None is left out, True has no value."""
    given = ((name.replace("_", "-"), value) for name, value in values.items() if value is not None)
    return format_html_join("", ' {}="{}"', ((name, "" if value is True else value) for name, value in given))


class BannerNode(Node):
    """`body` is its text, `action` what stands beside it: a form or a row of buttons."""

    child_nodelists = ("body", "action")

    def __init__(
        self, kind: FilterExpression, given: Mapping[str, FilterExpression], body: NodeList, action: NodeList
    ) -> None:
        self.kind, self.given, self.body, self.action = kind, given, body, action

    def render(self, context: Context) -> SafeString:
        look = BANNERS[self.kind.resolve(context)]
        given = {name: value.resolve(context) for name, value in self.given.items()}
        shape = given.pop("shape", None)
        return format_html(
            '<div{}><svg class="{}" aria-hidden="true"><use href="#{}"/></svg><div>{}</div>{}</div>',
            _attributes({"class": look.classes, "role": look.role} | given),
            look.glyph,
            f"s-{shape}" if shape else look.picture,
            self.body.render(context),
            self.action.render(context),
        )


class CardNode(Node):
    """`head` is what stands beside the heading, `body` the rest of the card."""

    child_nodelists = ("head", "body")

    def __init__(
        self,
        heading: tuple[FilterExpression, FilterExpression],
        given: Mapping[str, FilterExpression],
        head: NodeList,
        body: NodeList,
    ) -> None:
        self.heading, self.given, self.head, self.body = heading, given, head, body

    def render(self, context: Context) -> SafeString:
        heading_id, title = (value.resolve(context) for value in self.heading)
        given = {name: value.resolve(context) for name, value in self.given.items()}
        note = given.pop("note", None)
        return format_html(
            '<section{}><div class="card__head"><h2 id="{}">{}</h2>{}{}</div>{}</section>',
            _attributes({"class": "card", "aria_labelledby": heading_id} | given),
            heading_id,
            title,
            format_html('<span class="note">{}</span>', note) if note else "",
            self.head.render(context),
            self.body.render(context),
        )


@register.tag
def banner(parser: Parser, token: Token) -> BannerNode:
    """Frame a text across the page: `{% banner "warn" %}…{% action %}<form>…{% endbanner %}`.

    The action may be missing. The kind is one of `BANNERS`; `shape="stopped"` is another shape of the sprite, and every
    other keyword an attribute, left out when it is None: `role="alert"`, `data_key=job.id`.
    """
    _, kind, *bits = token.split_contents()
    given = token_kwargs(bits, parser)
    body, action = _two_parts(parser, "action", "endbanner")
    return BannerNode(parser.compile_filter(kind), given, body, action)


@register.tag
def card(parser: Parser, token: Token) -> CardNode:
    """Frame a part of a page: `{% card "q-h" _("Queues") %}<a …>{% under %}<table>…{% endcard %}`.

    The id of its heading, the heading, what stands beside it (before `under`, which may be missing) and the rest.
    `note=_("newest first")` is a text beside the heading, every other keyword an attribute: `class="card card--form"`.
    """
    _, heading_id, title, *bits = token.split_contents()
    given = token_kwargs(bits, parser)
    head, body = _two_parts(parser, "under", "endcard")
    heading = parser.compile_filter(heading_id), parser.compile_filter(title)
    return CardNode(heading, given, *((head, body) if body else (body, head)))


def _two_parts(parser: Parser, between: str, end: str) -> tuple[NodeList, NodeList]:
    """Parse up to the end of a block that a tag may divide; the second part is empty without it."""
    first, second = parser.parse((between, end)), NodeList()
    if parser.next_token().contents == between:
        second = parser.parse((end,))
        parser.delete_first_token()
    return first, second


@register.filter
def banner_kind(level_tag: str) -> str:
    """Return the kind of banner around a message of Django."""
    return MESSAGES[level_tag]
