"""Allowed configuration of a consumer group. Pure.

Names and limits are RocketMQ's (SubscriptionGroupConfig); every refusal names the parameter at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from console.brokers.mqadmin import SubscriptionGroupConfig, is_system_group, validate_group
from console.operation.config.change import ConfigParams
from console.operation.config.row import Config
from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Parameter
from console.text import Text, text_of

NAME_LENGTH_MAX = 120  # Java clients refuse longer ones (Validators)
RETRY_QUEUES_MAX = 1_024
RETRY_TIMES_MAX = 100_000
TIMEOUT_MINUTES_MAX = 10_080  # a week
# Parameter → (key of SubscriptionGroupConfig, lowest, highest); None: true or false.
FIELDS: Mapping[str, tuple[str, int | None, int | None]] = {
    "retry_max_times": ("retryMaxTimes", -1, RETRY_TIMES_MAX),
    "retry_queues": ("retryQueueNums", 1, RETRY_QUEUES_MAX),
    "consume_enable": ("consumeEnable", None, None),
    "consume_broadcast_enable": ("consumeBroadcastEnable", None, None),
    "consume_from_min_enable": ("consumeFromMinEnable", None, None),
    "consume_message_orderly": ("consumeMessageOrderly", None, None),
    "notify_members": ("notifyConsumerIdsChangedEnable", None, None),
    "consume_timeout_minutes": ("consumeTimeoutMinute", 1, TIMEOUT_MINUTES_MAX),
}
# RocketMQ's default of each key.
DEFAULTS: Config = SubscriptionGroupConfig().to_value()
# What settings are about, for forms and tables.
AREAS: Sequence[tuple[Text, Sequence[str]]] = (
    (
        Text("Retries and dead letters"),
        ("retry_max_times", "retry_queues", "consume_timeout_minutes", "consume_message_orderly"),
    ),
    (
        Text("Who may consume"),
        ("consume_enable", "consume_broadcast_enable", "consume_from_min_enable", "notify_members"),
    ),
)
# Keys that brokers have and this console does not change.
FIXED: Mapping[str, Text] = {
    "groupRetryPolicy": Text("wait before each retry; CUSTOMIZED: the delay levels of the broker"),
    "brokerId": Text("member of the broker set to read from; 0: the master"),
    "whichBrokerWhenConsumeSlowly": Text("slave to read from while the group is far behind"),
    "groupSysFlag": Text("flags of clients; RocketMQ itself does not use it"),
}
ACCEPTED = Accepted(
    "GroupParams",
    "Omitted fields stay as they are; a new group gets RocketMQ's defaults.",
    (
        ACCEPTING,
        ON_BROKERS,
        *(
            Parameter(name, bool)
            if least is None or most is None
            else Parameter(name, int, least=least, most=most)
            for name, (_, least, most) in FIELDS.items()
        ),
    ),
)
OF_DELETION = Accepted(
    "GroupDeleteParams",
    "",
    (
        ACCEPTING,
        Parameter("keep_offsets", bool, help_text="its committed offsets stay"),
        Parameter("with_topics", bool, help_text="its retry and dead-letter topics go too"),
    ),
)
MEANING: Mapping[str, Text] = {
    "retry_max_times": Text("retries before a message becomes a dead letter; −1: the client decides"),
    "retry_queues": Text("queues of the group's %%RETRY%% topic on each broker"),
    "consume_enable": Text("clients may consume; off while in quarantine"),
    "consume_broadcast_enable": Text("clients may read in broadcast mode"),
    "consume_from_min_enable": Text("a new group may begin with the oldest message"),
    "consume_message_orderly": Text("POP clients get the messages of a queue in order"),
    "notify_members": Text("clients are notified at once when another joins or leaves"),
    "consume_timeout_minutes": Text("a message that takes longer is delivered again"),
}


class CommittedOffset(NamedTuple):
    """A committed offset of the group."""

    broker_name: str
    topic: str
    queue_id: int
    offset: int


class GroupParams(ConfigParams, frozen=True, kw_only=True):
    """Settings of a group; None: not named. Of a deletion its flags, of its undo the ``offsets`` to put back."""

    retry_max_times: int | None = None
    retry_queues: int | None = None
    consume_enable: bool | None = None
    consume_broadcast_enable: bool | None = None
    consume_from_min_enable: bool | None = None
    consume_message_orderly: bool | None = None
    notify_members: bool | None = None
    consume_timeout_minutes: int | None = None
    keep_offsets: bool = False
    with_topics: bool = False
    offsets: tuple[CommittedOffset, ...] = ()

    @property
    def settings(self) -> Config:
        """Return the named settings by the keys of SubscriptionGroupConfig."""
        named = {key: getattr(self, field) for field, (key, _, _) in FIELDS.items()}
        return {key: value for key, value in named.items() if value is not None}


def check_new_name(name: str) -> None:
    """Raise PlanRejected("group") unless an application's group may have this name."""
    if name.startswith(("%RETRY%", "%DLQ%")):
        raise PlanRejected(
            Text("A group's name does not begin with %%RETRY%% or %%DLQ%%: those are its topics."), "group"
        )
    check_name(name)
    if len(name) > NAME_LENGTH_MAX:
        raise PlanRejected(
            Text(
                "The group name has %(number)s characters; Java clients take at most %(most)s.",
                number=len(name),
                most=NAME_LENGTH_MAX,
            ),
            "group",
        )
    check_changeable(name)


def check_name(name: str) -> None:
    """Raise PlanRejected("group") for a name that brokers accept for no group."""
    try:
        validate_group(name)
    except ValueError as error:
        raise PlanRejected(text_of(error), "group") from error


def check_changeable(name: str) -> None:
    """Raise PlanRejected("group") for groups that RocketMQ itself needs."""
    if is_system_group(name):
        raise PlanRejected(Text("%(name)s is a group of RocketMQ's own.", name=name), "group")


def new_config(name: str, wanted: GroupParams) -> Config:
    """Return the configuration of a new group."""
    return {**SubscriptionGroupConfig(group_name=name).to_value(), **wanted.settings}
