"""A send plan as a person may see it: without the values that mask rules hide in messages of its topics."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable

from msgspec import structs

from console.brokers.masking import HIDDEN, Masks
from console.brokers.mqadmin import MessageRecord
from console.message.sending.params import MessagePart, SendParams
from console.operation.models import Plan
from console.text.stored import as_json, of_json

BODY = "Body"  # the field of a diff that is no tag, key or property


def without_hidden(plan: Plan, masks: Masks, made_by: Callable[[SendParams], object]) -> Plan:
    """Return a plan, never to be saved, in which parameters, diff and the ways to repeat it have no hidden value.

    ``made_by``: how the same plan is made by hand, from its parameters.
    """
    params = of_json(SendParams, plan.params)
    topics = [plan.subject, *([params.source.topic] if params.source is not None else [])]
    properties = frozenset[str]().union(*(masks.properties_of(topic) for topic in topics))

    def body(text: str) -> str:
        for topic in topics:
            text = masks.masked(_record(topic, text.encode())).body.decode()
        return text

    def part(row: MessagePart) -> MessagePart:
        hide = body if row.field == BODY else (lambda text: HIDDEN if row.field in properties else text)
        before, after = (text and hide(text) for text in (row.before, row.after))
        return structs.replace(row, before=before, after=after)

    kept = {name: HIDDEN if name in properties else value for name, value in params.properties.items()}
    shown = structs.replace(params, properties=kept, body=params.body and body(params.body))
    if params.body_base64 is not None:
        typed = base64.b64decode(params.body_base64)
        record = _record(plan.subject, typed)
        if masks.hides(record):
            shown = structs.replace(shown, body=masks.masked(record).body.decode(), body_base64=None)
    found = copy.copy(plan)
    found.params, found.diff = as_json(shown), [as_json(part(of_json(MessagePart, row))) for row in plan.diff]
    if shown != params:
        found.equivalent = {**plan.equivalent, "made_by": as_json(made_by(shown))}
    return found


def _record(topic: str, body: bytes) -> MessageRecord:
    nowhere = ("", 0)
    return MessageRecord(topic, 0, 0, 0, 0, body, 0, 0, 0, 0, nowhere, 0, nowhere, 0, 0, {})
