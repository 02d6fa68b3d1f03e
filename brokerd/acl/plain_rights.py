"""Which topics and groups a request touches, and with which right: 4.x's rules (`PlainAccessResource.java`).

A retry topic stands for its group. Stricter than 4.9.7, where these need no right: batches (320), pulls by 361, POP,
and the administration codes in ADMIN_CODES that it forgets; docs/reference/acl.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntFlag

from brokerd.remoting.body.client import HeartbeatData
from brokerd.remoting.body.pop import BatchAckMessageRequestBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX, TRACE_TOPIC


class Perm(IntFlag):
    """Permission.java."""

    DENY = 1
    PUB = 4
    SUB = 8


# As `topicPerms`, `groupPerms` and the defaults spell them; what is spelt otherwise denies, as in Java.
PERMS: Mapping[str, Perm] = {
    "DENY": Perm.DENY,
    "PUB": Perm.PUB,
    "SUB": Perm.SUB,
    "PUB|SUB": Perm.PUB | Perm.SUB,
    "SUB|PUB": Perm.PUB | Perm.SUB,
}


@dataclass(frozen=True, slots=True)
class Right:
    """`perm` on a topic or a group."""

    is_group: bool
    name: str
    perm: Perm

    def __str__(self) -> str:
        return f"{'group' if self.is_group else 'topic'}:{self.name}"


TRACE_RIGHT = Right(is_group=False, name=TRACE_TOPIC, perm=Perm.PUB)

# Those of 4.9.7 are 17, 25, 200, 207, 215.
ADMIN_CODES = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,  # its answer holds the secret keys
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.TIDEMARK_PUT_ASSIGNMENT,
        *range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1),
    }
)

Rights = list[Right]


def needed_rights(command: RemotingCommand) -> Rights:
    """Return what the sender must be allowed. Raises BodyError for a heart beat that cannot be read."""
    rule = RULES.get(command.code)
    return rule(command) if rule is not None else []


def on_topic(topic: str, perm: Perm) -> Right:
    if topic.startswith(RETRY_TOPIC_PREFIX):
        return Right(is_group=True, name=topic.removeprefix(RETRY_TOPIC_PREFIX), perm=perm)
    return Right(is_group=False, name=topic, perm=perm)


def on_group(group: str) -> Right:
    return Right(is_group=True, name=group.removeprefix(RETRY_TOPIC_PREFIX), perm=Perm.SUB)


def _send(topic_field: str, group_field: str) -> Callable[[RemotingCommand], Rights]:
    def rule(command: RemotingCommand) -> Rights:
        topic = command.ext_fields.get(topic_field, "")
        if topic.startswith(RETRY_TOPIC_PREFIX):  # a consumer that sends a message back
            return [on_group(command.ext_fields.get(group_field, ""))]
        return [on_topic(topic, Perm.PUB)]

    return rule


def _subscribe(group_field: str = "", topic_field: str = "") -> Callable[[RemotingCommand], Rights]:
    """The fields that must be readable; one that is absent is a group or topic without a name."""

    def rule(command: RemotingCommand) -> Rights:
        fields = command.ext_fields
        rights = [on_topic(fields.get(topic_field, ""), Perm.SUB)] if topic_field else []
        return [*rights, on_group(fields.get(group_field, ""))] if group_field else rights

    return rule


def _heart_beat(command: RemotingCommand) -> Rights:
    rights = []
    for group in HeartbeatData.from_request(command.body).consumer_data_set:
        rights.append(on_group(group.group_name))
        rights += [on_topic(each.topic, Perm.SUB) for each in group.subscription_data_set]
    return rights


def _unregister(command: RemotingCommand) -> Rights:
    group = command.ext_fields.get("consumerGroup")
    return [on_group(group)] if group is not None else []


def _batch_ack(command: RemotingCommand) -> Rights:
    acks = BatchAckMessageRequestBody.from_request(command.body).acks
    return [right for ack in acks for right in (on_topic(ack.topic, Perm.SUB), on_group(ack.group))]


READ = _subscribe("consumerGroup", "topic")
RULES: Mapping[int, Callable[[RemotingCommand], Rights]] = {
    RequestCode.SEND_MESSAGE: _send("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: _send("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b", "a"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _subscribe("group"),
    RequestCode.PULL_MESSAGE: READ,
    RequestCode.LITE_PULL_MESSAGE: READ,
    RequestCode.QUERY_MESSAGE: _subscribe(topic_field="topic"),
    RequestCode.HEART_BEAT: _heart_beat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _subscribe("consumerGroup"),
    RequestCode.UPDATE_CONSUMER_OFFSET: READ,
    RequestCode.POP_MESSAGE: READ,
    RequestCode.PEEK_MESSAGE: READ,
    RequestCode.NOTIFICATION: READ,
    RequestCode.ACK_MESSAGE: READ,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: READ,
    RequestCode.BATCH_ACK_MESSAGE: _batch_ack,
}
