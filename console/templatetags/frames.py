"""Frames of pages as block tags: what stands around contents that differ. Built in: no page loads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from django import template
from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, Token, token_kwargs
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.figures import icon

register = template.Library()

# Full-width punctuation has its space within, also where it ends what is bold or a link.
FULL_WIDTH = "|".join(
    rf"(?<=[，、。；：）！？]{end})\s+" for end in ("", "</a>", "</b>", "</code>", "</span>", "</strong>")
)
AFTER_FULL_WIDTH = re.compile(FULL_WIDTH)
NO_SPACE = re.compile(r"\s+(?=(?:<[a-z][^>]*>\s*)?[,.;:)，、。；：）（])|(?<=[≥≤≈]</span>)\s+|" + FULL_WIDTH)
KEYWORD = re.compile(r"\w+=")
# Tables whose rows are blocks on a phone: their roles are written out.
STACKED = frozenset({"dt--stack", "diff--offsets"})


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


class FrameNode(Node):
    """A frame around contents: `draw` gets both parts, rendered, and what the tag gives."""

    child_nodelists = ("first", "second")

    def __init__(
        self,
        draw: Callable[..., SafeString],
        values: list[FilterExpression],
        given: Mapping[str, FilterExpression],
        first: NodeList,
        second: NodeList,
    ) -> None:
        self.draw, self.values, self.given, self.first, self.second = draw, values, given, first, second

    def render(self, context: Context) -> SafeString:
        values = [value.resolve(context) for value in self.values]
        given = {name: value.resolve(context) for name, value in self.given.items()}
        return self.draw(self.first.render(context), self.second.render(context), *values, **given)


def frame(divider: str, *, alone: str) -> Callable[[Callable[..., SafeString]], Callable[..., SafeString]]:
    """Make a block tag of a function: `{% card "a" %}first{% under %}second{% endcard %}`.

    Where the divider is missing, the contents are the part that `alone` names, and the other one is empty.
    """

    def registered(draw: Callable[..., SafeString]) -> Callable[..., SafeString]:
        name = draw.__name__

        def parsed(parser: Parser, token: Token) -> FrameNode:
            _, *bits = token.split_contents()
            values = []
            while bits and not KEYWORD.match(bits[0]):
                values.append(parser.compile_filter(bits.pop(0)))
            given = token_kwargs(bits, parser)
            if bits:
                raise TemplateSyntaxError(f"{name}: {bits[0]} stands behind a keyword")
            first, second = parser.parse((divider, f"end{name}")), NodeList()
            if parser.next_token().contents == divider:
                second = parser.parse((f"end{name}",))
                parser.delete_first_token()
            elif alone == "second":
                first, second = second, first
            return FrameNode(draw, values, given, first, second)

        register.tag(name, parsed)
        return draw

    return registered


def _attributes(values: Mapping[str, object]) -> SafeString:
    """Render the attributes of a frame: `data_key` is `data-key`, one that is None is left out, True has no value."""
    given = ((name.replace("_", "-"), value) for name, value in values.items() if value is not None)
    return format_html_join("", ' {}="{}"', ((name, "" if value is True else value) for name, value in given))


@frame("action", alone="first")
def banner(
    body: SafeString, action: SafeString, kind: str, *, shape: str | None = None, **attributes: object
) -> SafeString:
    """Frame a text across the page: `{% banner "warn" %}…{% action %}<form>…{% endbanner %}`.

    The action may be missing. The kind is one of `BANNERS`; `shape="stopped"` is another shape of the sprite, and every
    other keyword an attribute, left out when it is None: `role="alert"`, `data_key=job.id`.
    """
    look = BANNERS[kind]
    return format_html(
        '<div{}><svg class="{}" aria-hidden="true"><use href="#{}"/></svg><div>{}</div>{}</div>',
        _attributes({"class": look.classes, "role": look.role} | attributes),
        look.glyph,
        f"s-{shape}" if shape else look.picture,
        SafeString(AFTER_FULL_WIDTH.sub("", body)),
        action,
    )


@frame("under", alone="second")
def card(
    beside: SafeString, body: SafeString, heading_id: str, title: str, *, note: str = "", **attributes: object
) -> SafeString:
    """Frame a part of a page: `{% card "q-h" _("Queues") %}<a …>{% under %}<table>…{% endcard %}`.

    The id of its heading, the heading, what stands beside it (before `under`, which may be missing) and the rest.
    `note=_("newest first")` is a text beside the heading, every other keyword an attribute: `class="card card--form"`.
    """
    return format_html(
        '<section{}><div class="card__head"><h2 id="{}">{}</h2>{}{}</div>{}</section>',
        _attributes({"class": "card", "aria_labelledby": heading_id} | attributes),
        heading_id,
        title,
        format_html('<span class="note">{}</span>', note) if note else "",
        beside,
        body,
    )


@frame("actions", alone="first")
def pagehead(title: SafeString, actions: SafeString, **attributes: object) -> SafeString:
    """Frame the head of a page: `{% pagehead %}<h1>…</h1><p>…</p>{% actions %}<a …>…{% endpagehead %}`.

    The actions stand beside it and may be missing; every keyword is an attribute.
    """
    return format_html(
        '<div{}><div class="page__title">{}</div>{}</div>',
        _attributes({"class": "page__head"} | attributes),
        SafeString(AFTER_FULL_WIDTH.sub("", title)),
        format_html('<div class="actions">{}</div>', actions) if actions.strip() else "",
    )


@frame("rows", alone="first")
def table(
    heads: SafeString,
    rows: SafeString,
    classes: str = "dt",
    *,
    label: str | None = None,
    **attributes: object,
) -> SafeString:
    """Frame a table: `{% table "dt dt--stack" label=_("Queues") %}<th …>…{% rows %}<tbody>…{% endtable %}`.

    Its classes, `dt` by default; what it is called, where no heading says so; the cells of its head; and its rows.
    """
    is_stacked = not STACKED.isdisjoint(classes.split())
    return format_html(
        '<div class="tablewrap"><table{}><thead{}><tr{}>{}</tr></thead>{}</table></div>',
        _attributes(
            {"class": classes, "role": "table" if is_stacked else None, "aria_label": label} | attributes
        ),
        SafeString(' role="rowgroup"' if is_stacked else ""),
        SafeString(' role="row"' if is_stacked else ""),
        heads,
        rows,
    )


@frame("sub", alone="first")
def stat(
    value: SafeString, sub: SafeString, title: str, *, css: str | None = None, **attributes: object
) -> SafeString:
    """Frame one figure of a strip: `{% stat _("Groups") %}{{ groups|count }}{% sub %}of 12{% endstat %}`.

    Its title, the figure, and a line below that may be missing; `css` are classes of the figure.
    """
    return format_html(
        "<div{}><dt>{}</dt><dd{}>{}</dd>{}</div>",
        _attributes(attributes),
        title,
        _attributes({"class": css}),
        value,
        format_html('<dd class="sub">{}</dd>', sub) if sub else "",
    )


@register.simple_tag
def chart(kind: str, label: str, *, waits: bool = False, **attributes: object) -> SafeString:
    """Render the place of a chart: `{% chart "low" label id="topic-chart" data_history="?part=traffic" %}`.

    Its size in the style sheet and what it shows, for those who do not see it; the script that draws it finds it by the
    attributes of its canvas. `waits`: its figures are still requested.
    """
    return format_html(
        '<div class="card__body"><div class="chart chart--{}{}"><canvas{}></canvas></div></div>',
        kind,
        " is-waiting" if waits else "",
        _attributes({"role": "img", "aria_label": label} | attributes),
    )


@register.simple_block_tag
def sentence(content: str) -> SafeString:
    """Join what a sentence is made of, on lines of its own: no space before punctuation and after a bound (≥)."""
    return SafeString(NO_SPACE.sub("", content.strip()))


@register.simple_block_tag
def note(content: str) -> SafeString:
    """Frame a sentence beside a heading."""
    return format_html('<span class="note">{}</span>', sentence(content))


@register.simple_tag(takes_context=True)
def post_button(
    context: Context,
    url: str,
    word: str,
    look: str = "",
    picture: str = "",
    small: bool = False,
    **attributes: object,
) -> SafeString:
    """Render a form that is one button: `{% post_button url _("Release") "sm" "undo" %}`.

    Its address, word, kinds of button and icon; every keyword is an attribute of the button, `form_class="row"` one of
    the form.
    """
    of_form = {
        name.removeprefix("form_"): value for name, value in attributes.items() if name.startswith("form_")
    }
    of_button = {name: value for name, value in attributes.items() if not name.startswith("form_")}
    return format_html(
        '<form{}><input type="hidden" name="csrfmiddlewaretoken" value="{}"><button{}>{}{}</button></form>',
        _attributes({"method": "post", "action": url} | of_form),
        context["csrf_token"],
        _attributes(
            {"class": " ".join(["btn", *(f"btn--{kind}" for kind in look.split())]), "type": "submit"}
            | of_button
        ),
        icon(picture, small) if picture else "",
        word,
    )


@register.simple_tag
def nothing(title: str, text: str = "") -> SafeString:
    """Render what stands in the place of rows that are not there: `{% nothing _("No queue") why %}`."""
    return format_html(
        '<div class="empty empty--low"><h3>{}</h3>{}</div>',
        title,
        format_html("<p>{}</p>", text) if text else "",
    )


@register.filter
def banner_kind(level_tag: str) -> str:
    """Return the kind of banner around a message of Django."""
    return MESSAGES[level_tag]
