"""Allowed configuration of a topic, and its effect on each broker. Pure.

Names and limits are RocketMQ's (TopicValidator, TopicConfig); every refusal names the parameter at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    TopicConfig,
    is_system_topic,
    validate_topic,
)
from console.operation.config.change import Config
from console.operation.errors import PlanRejected
from console.text import Text

READ, WRITE, INHERIT, PRIORITY = 4, 2, 1, 8  # PermName
QUEUES_MAX = 1_024  # per topic and broker: each queue is an open file, and part of every rebalance
QUEUES_DEFAULT = 8  # BrokerConfig.defaultTopicQueueNums
PERMISSIONS = {6: Text("read and write"), 4: Text("read only"), 2: Text("write only"), 0: Text("nobody")}
MESSAGE_TYPE = "message.type"
MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")  # TopicMessageType


KEYS = {"read_queues": "readQueueNums", "write_queues": "writeQueueNums", "order": "order"}  # of TopicConfig
FIELDS = ("read_queues", "write_queues", "perm", "order", "message_type")  # parameters of create and change


def read_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the named settings, each checked. Raises PlanRejected(field)."""
    perm = params.get("perm")
    if perm is not None and perm not in PERMISSIONS:
        words = ", ".join(f"{value} ({word})" for value, word in PERMISSIONS.items())
        raise PlanRejected(
            Text("The permission %(perm)s is none of %(words)s.", perm=repr(perm), words=words), "perm"
        )
    order = params.get("order")
    if order is not None and not isinstance(order, bool):
        raise PlanRejected(Text("Order is true or false."), "order")
    message_type = params.get("message_type")
    if message_type is not None and message_type not in MESSAGE_TYPES:
        raise PlanRejected(
            Text("The message type is one of %(names)s.", names=", ".join(MESSAGE_TYPES)), "message_type"
        )
    _check_queues(params, "read_queues", "read")
    _check_queues(params, "write_queues", "write")
    return {name: params[name] for name in FIELDS if params.get(name) is not None}


def _check_queues(params: Mapping[str, Any], field: str, word: str) -> None:
    value = params.get(field)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= QUEUES_MAX:
        raise PlanRejected(
            Text("The number of %(what)s queues per broker is 1 to %(most)s.", what=word, most=QUEUES_MAX),
            field,
        )


def check_new_name(name: str, own_names: Sequence[str] = ()) -> None:
    """Raise PlanRejected("topic") unless an application's topic may have this name.

    ``own_names``: of brokers and clusters, each of which is a topic of RocketMQ's own.
    """
    if name.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX)):
        prefix = name[: name.index("%", 1) + 1]
        raise PlanRejected(
            Text(
                "Topics that begin with %(prefix)s belong to consumer groups; brokers make them.",
                prefix=prefix,
            ),
            "topic",
        )
    try:
        validate_topic(name)
    except ValueError as error:
        raise PlanRejected(Text.foreign(f"{str(error)[:1].upper()}{str(error)[1:]}."), "topic") from error
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(Text("%(name)s is a topic of RocketMQ's own.", name=name), "topic")


def check_changeable(name: str, own_names: Sequence[str] = ()) -> None:
    """Raise PlanRejected("topic") for topics that RocketMQ itself needs."""
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(
            Text("%(name)s is a topic of RocketMQ's own: brokers refuse to change it.", name=name), "topic"
        )


def new_config(name: str, values: Mapping[str, Any]) -> Config:
    """Return the configuration of a new topic."""
    write = values.get("write_queues") or values.get("read_queues") or QUEUES_DEFAULT
    return TopicConfig(
        topic_name=name,
        read_queue_nums=values.get("read_queues") or write,
        write_queue_nums=write,
        perm=values.get("perm", READ | WRITE),
        order=values.get("order", False),
        attributes={MESSAGE_TYPE: values["message_type"]} if "message_type" in values else {},
    ).to_value()


def changed(before: Config, values: Mapping[str, Any]) -> Config:
    """Return the configuration with the named values; everything else stays unchanged."""
    after = {**before, **{key: values[name] for name, key in KEYS.items() if name in values}}
    if "perm" in values:  # keep the inherit and priority bits
        after["perm"] = values["perm"] | (before["perm"] & (INHERIT | PRIORITY))
    if "message_type" in values:
        after["attributes"] = {**before.get("attributes", {}), MESSAGE_TYPE: values["message_type"]}
    return after


def permission_word(perm: int) -> str:
    """Return RocketMQ's permission bits in words."""
    word = {6: Text("read, write"), 4: "read", 2: "write"}.get(perm & (READ | WRITE), "none")
    return f"{word}, inherit" if perm & INHERIT else word


def permission_letters(perm: int) -> str:
    """Return ``RW``, ``R``, ``W`` or ``none``, for a narrow column."""
    return {6: "RW", 4: "R", 2: "W"}.get(perm & (READ | WRITE), "none")
