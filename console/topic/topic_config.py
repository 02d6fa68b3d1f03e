"""Allowed configuration of a topic, and its effect on each broker. Pure.

Names and limits are RocketMQ's (TopicValidator, TopicConfig); every refusal names the parameter at fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    TopicConfig,
    is_system_topic,
    validate_topic,
)
from console.operation.config.change import ConfigParams
from console.operation.config.row import Config
from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Parameter
from console.text import Text, text_of

READ, WRITE, INHERIT, PRIORITY = 4, 2, 1, 8  # PermName
QUEUES_MAX = 1_024  # per topic and broker: each queue is an open file, and part of every rebalance
QUEUES_DEFAULT = 8  # BrokerConfig.defaultTopicQueueNums
PERMISSIONS = {6: Text("read and write"), 4: Text("read only"), 2: Text("write only"), 0: Text("no access")}
MESSAGE_TYPE = "message.type"
MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")  # TopicMessageType


KEYS = {"read_queues": "readQueueNums", "write_queues": "writeQueueNums", "order": "order"}  # of TopicConfig
KEY_MEANINGS = {
    "readQueueNums": Text("queues that consumers read"),
    "writeQueueNums": Text("queues that producers write to"),
    "perm": Text("what clients may do"),
    "order": Text("clients send messages of one key to one queue"),
    MESSAGE_TYPE: Text("the type that clients of RocketMQ 5 check"),
    "topicFilterType": Text("SINGLE_TAG: a message has at most one tag"),
    "topicSysFlag": Text("flags of units: 0 without units"),
}
SETTINGS = (
    Parameter("read_queues", int, least=1, most=QUEUES_MAX),
    Parameter("write_queues", int, least=1, most=QUEUES_MAX),
    Parameter("perm", int, choices=PERMISSIONS),
    Parameter("order", bool),
    Parameter("message_type", choices=MESSAGE_TYPES),
)
FIELDS = tuple(setting.name for setting in SETTINGS)
ACCEPTED = Accepted(
    "TopicParams",
    "Omitted fields stay as they are; a new topic gets RocketMQ's defaults.",
    (ACCEPTING, ON_BROKERS, *SETTINGS),
)


class TopicParams(ConfigParams, frozen=True, kw_only=True):
    """Settings of a topic; None: not named."""

    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    message_type: str | None = None

    @property
    def has_settings(self) -> bool:
        return any(getattr(self, name) is not None for name in FIELDS)


def check_new_name(name: str, own_names: Sequence[str] = ()) -> None:
    """Raise PlanRejected("topic") unless an application's topic may have this name.

    ``own_names``: of brokers and clusters, each of which is a topic of RocketMQ's own.
    """
    if name.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX)):
        prefix = name[: name.index("%", 1) + 1]
        raise PlanRejected(
            Text(
                "Topics that begin with %(prefix)s belong to consumer groups; brokers create them.",
                prefix=prefix,
            ),
            "topic",
        )
    try:
        validate_topic(name)
    except ValueError as error:
        raise PlanRejected(text_of(error), "topic") from error
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(Text("%(name)s is a system topic of RocketMQ.", name=name), "topic")


def check_changeable(name: str, own_names: Sequence[str] = ()) -> None:
    """Raise PlanRejected("topic") for topics that RocketMQ itself needs."""
    if is_system_topic(name) or name in own_names:
        raise PlanRejected(
            Text("%(name)s is a system topic of RocketMQ: it cannot be changed here.", name=name), "topic"
        )


def new_config(name: str, wanted: TopicParams) -> Config:
    """Return the configuration of a new topic."""
    write = wanted.write_queues or wanted.read_queues or QUEUES_DEFAULT
    config: Config = TopicConfig(
        topic_name=name,
        read_queue_nums=wanted.read_queues or write,
        write_queue_nums=write,
        perm=READ | WRITE if wanted.perm is None else wanted.perm,
        order=bool(wanted.order),
        attributes={MESSAGE_TYPE: wanted.message_type} if wanted.message_type else {},
    ).to_value()
    return config


def changed(before: Config, wanted: TopicParams) -> Config:
    """Return the configuration with the named settings; everything else stays unchanged."""
    named = {key: getattr(wanted, name) for name, key in KEYS.items()}
    after = {**before, **{key: value for key, value in named.items() if value is not None}}
    if wanted.perm is not None:  # keep the inherit and priority bits
        after["perm"] = wanted.perm | (before["perm"] & (INHERIT | PRIORITY))
    if wanted.message_type:
        after["attributes"] = {**before.get("attributes", {}), MESSAGE_TYPE: wanted.message_type}
    return after


def permission_word(perm: int) -> Text:
    """Return RocketMQ's permission bits in words."""
    word = PERMISSIONS[perm & (READ | WRITE)]
    return Text("%(permission)s, inherited", permission=word) if perm & INHERIT else word


def permission_letters(perm: int) -> str:
    """Return ``RW``, ``R``, ``W`` or ``none``, for a narrow column."""
    return {6: "RW", 4: "R", 2: "W"}.get(perm & (READ | WRITE), "none")
