"""What a topic may be asked to become, and what that means on each broker. Pure.

Names and limits are RocketMQ's (TopicValidator, TopicConfig); every refusal names the parameter at fault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from console.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    TopicConfig,
    is_system_topic,
    validate_topic,
)
from console.operation.config_change import TOPIC, Config, ConfigRow
from console.operation.errors import PlanRejected

READ, WRITE, INHERIT, PRIORITY = 4, 2, 1, 8  # PermName
QUEUES_MAX = 1_024  # of one topic on one broker: each is a file that is open, and a share of every rebalance
QUEUES_DEFAULT = 8  # BrokerConfig.defaultTopicQueueNums
PERMISSIONS = {6: "read and write", 4: "read only", 2: "write only", 0: "nobody"}
MESSAGE_TYPE = "message.type"
MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")  # TopicMessageType


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """Parameters of topic_create and topic_change; None = leave as it is. ``brokers`` empty: all of them."""

    brokers: tuple[str, ...] = ()
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    message_type: str | None = None

    @property
    def is_empty(self) -> bool:
        return all(getattr(self, field.name) in (None, ()) for field in dataclasses.fields(self)[1:])


def read_wish(params: Mapping[str, Any]) -> Wish:
    """Raises PlanRejected(field)."""
    known = {field.name for field in dataclasses.fields(Wish)}
    unknown = sorted(set(params) - known)
    if unknown:
        raise PlanRejected(
            f"There is no parameter {unknown[0]!r}; there is {', '.join(sorted(known))}.", unknown[0]
        )
    perm = params.get("perm")
    if perm is not None and perm not in PERMISSIONS:
        words = ", ".join(f"{value} ({word})" for value, word in PERMISSIONS.items())
        raise PlanRejected(f"The permission {perm!r} is none of {words}.", "perm")
    order = params.get("order")
    if order is not None and not isinstance(order, bool):
        raise PlanRejected("Order is true or false.", "order")
    message_type = params.get("message_type")
    if message_type is not None and message_type not in MESSAGE_TYPES:
        raise PlanRejected(f"The message type is one of {', '.join(MESSAGE_TYPES)}.", "message_type")
    brokers = params.get("brokers") or ()
    if isinstance(brokers, str) or not all(isinstance(name, str) for name in brokers):
        raise PlanRejected("Brokers is a list of broker names.", "brokers")
    return Wish(
        brokers=tuple(brokers),
        read_queues=_queues(params, "read_queues", "read"),
        write_queues=_queues(params, "write_queues", "write"),
        perm=perm,
        order=order,
        message_type=message_type,
    )


def _queues(params: Mapping[str, Any], field: str, word: str) -> int | None:
    value = params.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= QUEUES_MAX:
        raise PlanRejected(f"The number of {word} queues per broker is 1 to {QUEUES_MAX:,}.", field)
    return value


def check_new_name(name: str, own_names: Sequence[str] = ()) -> None:
    """Raises PlanRejected("topic") with the reason when no topic of an application may be called so.
    ``own_names``: of brokers and clusters, each of which is a topic of RocketMQ's own.
    """
    if name.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX)):
        prefix = name[: name.index("%", 1) + 1]
        raise PlanRejected(
            f"Topics that begin with {prefix} belong to consumer groups; brokers make them.", "topic"
        )
    try:
        validate_topic(name)
    except ValueError as error:
        raise PlanRejected(f"{str(error)[:1].upper()}{str(error)[1:]}.", "topic") from error
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(f"{name} is a topic of RocketMQ's own.", "topic")


def check_changeable(name: str, own_names: Sequence[str] = ()) -> None:
    """Raises PlanRejected("topic") for topics that RocketMQ needs as they are."""
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(f"{name} is a topic of RocketMQ's own: brokers refuse to change it.", "topic")


def create_rows(
    name: str, wish: Wish, addrs: Mapping[str, str], found: Mapping[str, Config | None]
) -> list[ConfigRow]:
    """A row per chosen broker. A broker that has the topic stays as it is; raises PlanRejected if all do."""
    write = wish.write_queues or wish.read_queues or QUEUES_DEFAULT
    config = TopicConfig(
        topic_name=name,
        read_queue_nums=wish.read_queues or write,
        write_queue_nums=write,
        perm=READ | WRITE if wish.perm is None else wish.perm,
        order=bool(wish.order),
        attributes={MESSAGE_TYPE: wish.message_type} if wish.message_type else {},
    ).to_value()
    rows = [
        ConfigRow(TOPIC, name, broker, addrs[broker], before, config)
        if before is None
        else ConfigRow(TOPIC, name, broker, addrs[broker], before, before, "has the topic already")
        for broker, before in found.items()
    ]
    if all(row.before is not None for row in rows):
        raise PlanRejected(f"There is a topic {name} already; change it instead.", "topic")
    return rows


def change_rows(
    name: str, wish: Wish, addrs: Mapping[str, str], found: Mapping[str, Config | None]
) -> list[ConfigRow]:
    """A row per broker that has the topic; those not chosen stay. Raises PlanRejected."""
    if all(config is None for config in found.values()):
        raise PlanRejected(f"There is no topic {name}.", "topic")
    missing = [broker for broker in wish.brokers if found.get(broker) is None]
    if missing:
        raise PlanRejected(f"{missing[0]} does not have the topic {name}; create it there first.", "brokers")
    if wish.is_empty:
        raise PlanRejected("Say what shall change: queues, permission, order or message type.")
    return [
        ConfigRow(
            TOPIC,
            name,
            broker,
            addrs[broker],
            before,
            changed(before, wish) if not wish.brokers or broker in wish.brokers else before,
        )
        for broker, before in found.items()
        if before is not None
    ]


def changed(before: Config, wish: Wish) -> Config:
    """The configuration with the wish's values in it; everything else stays to the letter."""
    values = {
        "readQueueNums": wish.read_queues,
        "writeQueueNums": wish.write_queues,
        # The inherit and priority bits are RocketMQ's business.
        "perm": None if wish.perm is None else wish.perm | (before["perm"] & (INHERIT | PRIORITY)),
        "order": wish.order,
    }
    after = {**before, **{key: value for key, value in values.items() if value is not None}}
    if wish.message_type is not None:
        after["attributes"] = {**before.get("attributes", {}), MESSAGE_TYPE: wish.message_type}
    return after


def permission_word(perm: int) -> str:
    """RocketMQ's permission bits in words."""
    word = {6: "read, write", 4: "read", 2: "write"}.get(perm & (READ | WRITE), "none")
    return f"{word}, inherit" if perm & INHERIT else word


def permission_letters(perm: int) -> str:
    """``RW``, ``R``, ``W``, ``none``: for a narrow column."""
    return {6: "RW", 4: "R", 2: "W"}.get(perm & (READ | WRITE), "none")
