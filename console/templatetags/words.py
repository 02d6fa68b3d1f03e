"""Sentences on pages: their times and figures as markup, explanations in popovers, and stored values as text."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console.access.activity_list import REPORT_VERBS, actor_words, field_name, sentence_of
from console.access.models import AuditEvent
from console.deadletter.replay.params import ReplayParams
from console.deadletter.replay.words import TARGET_WORDS, target_address
from console.operation import selectors as operation_selectors
from console.operation.config.row import DONE, SECRET_KEYS, SECRET_WORDS, Action, row_words
from console.operation.models import Plan
from console.operation.selectors import AuditedPlan
from console.report.jobs import JOBS
from console.templatetags.cells import value_of
from console.text import JsonObject, Moment, Text
from console.text.figures import count, duration
from console.text.language import figure_words
from console.topic.topic_config import permission_word

register = template.Library()


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


@register.filter
def words(text: Text | str, style: str = "") -> SafeString:
    """Render a sentence with popovers on its times; `{{ plan.summary|words:"strong" }}`: figures and names in bold.

    Attributes and other places without markup take the text itself.
    """
    return text.html(strong=style == "strong") if isinstance(text, Text) else escape(text)


@register.filter
def as_sentence(text: Text | str) -> SafeString:
    """Render words that another sentence follows, ended by a full stop if they have none."""
    is_ended = local(text).rstrip().endswith((".", "!", "?", "。", "！", "？"))
    return words(text) if is_ended else format_html("{}{}", words(text), gettext(". ").rstrip())


@register.filter
def moment(at: dt.datetime) -> str:
    """Return a time of the database as words, where no markup can stand: an option of a form."""
    return Moment(round(at.timestamp() * 1000)).local()


@register.simple_tag
def tip(text: Text | str, label: str = "") -> SafeString:
    """Render a mark that opens an explanation on hover, focus and touch, which a `title` cannot do."""
    return format_html(
        '<button class="tip" type="button" data-tip="{}" aria-label="{}">'
        '<svg class="icon icon--sm" aria-hidden="true"><use href="#i-info"/></svg></button>',
        text,
        f"{label or gettext('Explanation')}: {local(text)}",
    )


@register.filter
def expression(parts: Sequence[tuple[str, bool]]) -> SafeString:
    """Render the parts of a filter's expression, with a mark on those that only this one has."""
    marks = (
        (SafeString("<mark>") if is_own else "", part, SafeString("</mark>") if is_own else "")
        for part, is_own in parts
    )
    return format_html_join("||", "{}{}{}", marks)


@register.simple_tag
def query(**parameters: object) -> str:
    """Return the query of an address without what is empty: `{% url … %}{% query topic=row.topic at=row|place %}`."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"?{urlencode(given, quote_via=quote, safe='')}" if given else ""


@register.filter
def place(row: object, mark: str = ":") -> str:
    """Return where a queue or a message is, as addresses have it: `broker-a:3`, `broker-a:3:1204`."""
    parts = (value_of(row, name) for name in ("broker_name", "queue_id", "queue_offset"))
    return mark.join(str(part) for part in parts if part is not None)


# Verb of an audit event → the page of its object; a plan's page links to the object of a plan.
OBJECT_PAGES = {
    "change SLO": "group",
    "set body schema": "topic",
    "remove body schema": "topic",
    **dict.fromkeys(REPORT_VERBS, "report"),
}


# What the page of a plan shows of a row, besides its broker.
SHOWN_OF_A_CHANGE = ("deed", "what", "name", "note", "changes")


@register.simple_tag
def audited_plans(events: Sequence[AuditEvent]) -> dict[str, AuditedPlan]:
    """Return the plans of the events by id, for `event_sentence`."""
    return operation_selectors.audited_plans(event.plan_id for event in events)


@register.simple_tag
def event_sentence(event: AuditEvent, plans: Mapping[str, AuditedPlan] | None = None) -> SafeString:
    """Render what an event did, its object as a link where it has a page, else in bold type."""
    plan = (plans or {}).get(event.plan_id)
    kind = plan.kind.local() if plan else ""
    if plan and kind == plan.kind:  # English, whose titles begin with a capital letter
        kind = kind[:1].lower() + kind[1:]
    before, mark, after = sentence_of(event.verb, "\0", kind).local().partition("\0")
    page = OBJECT_PAGES.get(event.verb)
    url = plan.object.url if plan else ""
    if page and event.cluster and event.subject:
        url = reverse(page, args=[event.cluster, event.subject])
    name = JOBS.get(event.subject, event.subject) if page == "report" else actor_words(event.subject)
    shown = format_html("<b>{}</b>", name) if mark else ""
    if mark and url:
        shown = format_html('<a href="{}">{}</a>', url, name)
    return format_html("{}{}{}", before, shown, after)


@register.filter
def actor(name: str) -> str:
    """Return who acted, in the reader's language where it was no person."""
    return actor_words(name)


@register.simple_tag
def event_done(event: AuditEvent, plans: Mapping[str, AuditedPlan] | None = None) -> Text:
    """Return what a verified job has done, in a sentence; empty for other events."""
    plan = (plans or {}).get(event.plan_id)
    return plan.done if plan and event.verb == "job verified" else Text()


@register.filter
def alike(diff: Sequence[Any]) -> list[tuple[list[str], Any]]:
    """Return each change of a diff of configurations once, after the names of the brokers that get it."""
    found: list[tuple[list[str], Any]] = []
    for row in diff:
        same = (
            names for names, one in found if all(one.get(key) == row.get(key) for key in SHOWN_OF_A_CHANGE)
        )
        names = next(same, [])
        if not names:
            found.append((names, row))
        names.append(row["broker_name"])
    return found


@register.filter
def config_words(row: JsonObject) -> Text | str:
    """Return what a row of a diff of configurations does on its broker."""
    return row_words(row["deed"], row["what"], row["name"])


@register.filter
def config_done(action: str) -> Text:
    """Return what a job did with an object on a broker, in a word."""
    return DONE[action]


@register.filter
def replay_target(plan: Plan) -> Text:
    """Return where the copies of a replay go."""
    return TARGET_WORDS[plan.params["target"]]


@register.filter
def replay_address(plan: Plan) -> Text | str:
    """Return the topic or the client that gets the copies of a replay."""
    return target_address(ReplayParams.of(plan), plan.subject)


@register.filter
def field_words(name: str) -> str:
    """Return the name of a changed field."""
    return field_name(name)


@register.filter
def field_value(value: object, name: str) -> str:
    """Return a short stored value of a field: a duration, a number, yes or no, or the text itself."""
    if value is None or value == "":
        return gettext("none")
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, int | float) and name.endswith("_ms"):
        return figure_words(duration(value))
    return count(value) if isinstance(value, int) else str(value)


@register.filter
def quoted_json(value: object) -> str:
    """Return JSON for single quotes in a shell: an apostrophe in it is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("'", "\\u0027")


@register.filter
def config_value(value: object, key: str = "") -> Text | str:
    """Format a configuration value: `true`, `8`, `message.type=FIFO`; a secret by what stands for it."""
    if key in SECRET_KEYS:
        return SECRET_WORDS.get(str(value), str(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "{}"
    return str(value)


@register.filter
def config_object(what: str, name: str) -> Text | str:
    """Return what a row of a job is about, `topic orders`: `{{ row.what|config_object:row.name }}`."""
    return row_words(Action.CHANGE, what, name)


@register.filter
def config_meaning(value: object, key: str) -> Text:
    """Return what a code in the configuration of a topic means: `{{ value|config_meaning:"perm" }}`; "" elsewhere."""
    return permission_word(value) if key == "perm" and isinstance(value, int) else Text()
