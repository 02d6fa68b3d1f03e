"""The parameters of a message to send: read and checked, as far as that needs no broker."""

from __future__ import annotations

from collections.abc import Mapping

from console.brokers.mqadmin import MessageProperty
from console.message.search.lanes import Hit
from console.operation.errors import PlanRejected
from console.operation.plan.params import Given, Params
from console.operation.plan.places import BrokerQueuePlace, MessagePlace, read_place
from console.text import Names, Text
from console.text.stored import Stored

PLAN_PROPERTY = "TIDEMARK_PLAN"  # on every message this console sends: the plan that sent it
COPY_PROPERTY = "TIDEMARK_COPY_OF"  # on copies: unique key, topic, broker, queue and offset of the original

TYPED_BODY_BYTES_MAX = 256 * 1024  # of a body kept in the plan itself; a copy may keep a larger one
PROPERTIES_MAX = 100
PROPERTY_BYTES_MAX = 30_000  # of all together; RocketMQ keeps their length in 15 bits

# Names with a meaning for brokers and clients: written by them, never by hand.
RESERVED = frozenset(
    value for name, value in vars(MessageProperty).items() if name.isupper() and isinstance(value, str)
) | {PLAN_PROPERTY, COPY_PROPERTY, "TRACE_ON", "WAIT", "1ST_POP_TIME", "PUSH_REPLY_TIME", "MSG_TYPE"}
# Names that a copy may keep: they belong to the message, not to its delivery.
KEPT = frozenset({MessageProperty.SHARDING_KEY, "traceparent"})


def own_properties(hit: Hit) -> dict[str, str]:
    """Return the producer's own properties of a stored message: a copy starts with them."""
    return {
        name: value for name, value in hit.record.properties.items() if name not in RESERVED or name in KEPT
    }


def original_place(hit: Hit) -> MessagePlace:
    """Return the place of a stored message."""
    record = hit.record
    return MessagePlace(
        topic=record.topic,
        broker_name=hit.broker_name,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        message_id=record.message_id,
    )


class MessagePart(Stored, frozen=True, kw_only=True):
    """A part of the message in the diff; ``before`` is None without an original."""

    field: str
    before: str | None
    after: str | None
    differs: bool

    @classmethod
    def of(cls, field: str, before: str | None, after: str | None) -> MessagePart:
        """Compare a part with the original's."""
        return cls(field=field, before=before, after=after, differs=(before or "") != (after or ""))


class SendParams(Params, frozen=True, kw_only=True):
    """A message; one of ``body``, ``body_base64`` and, for a copy, ``keep_body`` is given.

    ``queue`` None: the original's, or any. ``source`` is what is copied.
    """

    tags: str
    keys: str
    properties: Mapping[str, str]
    body: str | None = None
    body_base64: str | None = None
    keep_body: bool = False
    queue: BrokerQueuePlace | None = None
    source: MessagePlace | None = None


def read_params(given: Given) -> SendParams:
    """Read a message and check what needs no broker; raises PlanRejected naming the field."""
    source, queue = given.get("source"), given.get("queue")
    properties = given.get("properties") or {}
    if not isinstance(properties, Mapping) or len(properties) > PROPERTIES_MAX:
        raise PlanRejected(
            Text("Enter at most %(most)s properties, each a name and a text value.", most=PROPERTIES_MAX),
            field="properties",
        )
    params = SendParams(
        tags=str(given.get("tags") or "").strip(),
        keys=str(given.get("keys") or "").strip(),
        properties={str(name): str(value) for name, value in properties.items()},
        body=_typed_body(given.get("body")),
        body_base64=_typed_body(given.get("body_base64")),
        keep_body=bool(given.get("keep_body")),
        queue=None if queue in (None, {}, "") else read_place(BrokerQueuePlace, queue, "queue"),
        source=None if source in (None, {}, "") else read_place(MessagePlace, source, "source"),
    )
    _check_properties(params)
    if (params.body is not None) + (params.body_base64 is not None) + params.keep_body != 1:
        raise PlanRejected(Text("Send exactly one of body, body_base64 and keep_body."), field="body")
    if params.keep_body and params.source is None:
        raise PlanRejected(Text("keep_body is for copies only."), field="body")
    return params


def _typed_body(text: object) -> str | None:
    if text in (None, False):
        return None
    if not isinstance(text, str):
        raise PlanRejected(Text("The body must be a string."), field="body")
    return text


def _check_properties(params: SendParams) -> None:
    tags, keys, properties = params.tags, params.keys, params.properties
    if "||" in tags or len(tags) > 255:
        raise PlanRejected(Text("Enter one tag of at most 255 characters."), field="tags")
    for name, text in {**properties, "TAGS": tags, "KEYS": keys}.items():
        if not name or any(mark in name + text for mark in "\x00\x01\x02"):
            raise PlanRejected(
                Text("Names and values must not contain the control characters 0, 1 and 2."),
                field="properties",
            )
    reserved = sorted(name for name in properties if name in RESERVED and name not in KEPT)
    if reserved:
        raise PlanRejected(
            Text("RocketMQ sets %(names)s; remove it.", names=Names(reserved)),
            field="properties",
        )
    size = sum(len(name.encode()) + len(text.encode()) + 2 for name, text in properties.items())
    if size + len(keys.encode()) + len(tags.encode()) > PROPERTY_BYTES_MAX:
        raise PlanRejected(
            Text("The properties have more than %(number)s bytes.", number=PROPERTY_BYTES_MAX),
            field="properties",
        )
