"""What a request does with which resources: 5.x's rules (`DefaultAuthorizationContextBuilder.java` and the headers).

Stricter than 5.3.3, where these need nothing: 18, 25, 200, 225, 306, 316, 329, 361, 401, 200151; docs/reference/acl.md
lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from brokerd.acl.policy import Resource
from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    SetMessageRequestModeRequestBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.client import HeartbeatData
from brokerd.remoting.body.group import SubscriptionGroupConfig, SubscriptionGroupList
from brokerd.remoting.body.pop import BatchAckMessageRequestBody
from brokerd.remoting.body.topic import CreateTopicListRequestBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.names import DLQ_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

SPLIT_TOPICS = ";"
SPLIT_GROUPS = ","


@dataclass(frozen=True, slots=True)
class Access:
    """One of `actions` is needed on the resource."""

    resource: Resource
    actions: tuple[str, ...]


Rule = Callable[[RemotingCommand, str], list[Access]]


def needed_accesses(command: RemotingCommand, cluster: str) -> list[Access]:
    """Return what the sender must be allowed. Raises BodyError for a body that cannot be read."""
    rule = RULES.get(command.code)
    return rule(command, cluster) if rule is not None else []


def topic_access(topic: str, *actions: str) -> Access:
    """A retry topic stands for its group."""
    if topic.startswith(RETRY_TOPIC_PREFIX):
        return group_access(topic, *actions)
    return Access(Resource("Topic", topic), actions)


def group_access(group: str, *actions: str) -> Access:
    name = group.removeprefix(RETRY_TOPIC_PREFIX).removeprefix(DLQ_TOPIC_PREFIX)
    return Access(Resource("Group", name), actions)


def _named(actions: str, *, topic: str = "", group: str = "", required: str = "") -> Rule:
    """Resources are the values of these fields; `required`: those without which the request means nothing."""
    needed = tuple(actions.split())

    def rule(command: RemotingCommand, cluster: str) -> list[Access]:
        fields = command.ext_fields
        accesses = []
        if topic and (topic in fields or topic in required.split()):
            accesses.append(topic_access(fields.get(topic, ""), *needed))
        if group and (group in fields or group in required.split()):
            accesses.append(group_access(fields.get(group, ""), *needed))
        return accesses

    return rule


def _cluster(action: str) -> Rule:
    return lambda command, cluster: [Access(Resource("Cluster", cluster), (action,))]


def _send(topic_field: str, group_field: str) -> Rule:
    def rule(command: RemotingCommand, cluster: str) -> list[Access]:
        topic = command.ext_fields.get(topic_field, "")
        if topic.startswith(RETRY_TOPIC_PREFIX):  # a consumer that sends a message back
            return [group_access(command.ext_fields.get(group_field) or topic, "Sub")]
        return [topic_access(topic, "Pub")]

    return rule


def _read(*actions: str) -> Rule:
    """A group that reads a topic: the topic too, unless it is the group's own."""

    def rule(command: RemotingCommand, cluster: str) -> list[Access]:
        fields = command.ext_fields
        return _of_group(fields.get("consumerGroup", ""), [fields.get("topic", "")], *actions)

    return rule


def _of_group(group: str, topics: Iterable[str], *actions: str) -> list[Access]:
    own = [topic for topic in topics if not topic.startswith(RETRY_TOPIC_PREFIX)]
    return [*(topic_access(topic, *actions) for topic in own), group_access(group, *actions)]


def _heart_beat(command: RemotingCommand, cluster: str) -> list[Access]:
    accesses = []
    for group in HeartbeatData.from_request(command.body).consumer_data_set:
        accesses += _of_group(group.group_name, [each.topic for each in group.subscription_data_set], "Sub")
    return accesses


def _unregister(command: RemotingCommand, cluster: str) -> list[Access]:
    group = command.ext_fields.get("consumerGroup", "")
    return [group_access(group, "Sub")] if group.strip() else []


def _lock(command: RemotingCommand, cluster: str) -> list[Access]:
    body = LockBatchRequestBody.from_request(command.body)
    return _of_group(body.consumer_group, [queue.topic for queue in body.mq_set], "Sub")


def _unlock(command: RemotingCommand, cluster: str) -> list[Access]:
    body = UnlockBatchRequestBody.from_request(command.body)
    return _of_group(body.consumer_group, [queue.topic for queue in body.mq_set], "Sub")


def _batch_ack(command: RemotingCommand, cluster: str) -> list[Access]:
    acks = BatchAckMessageRequestBody.from_request(command.body).acks
    return [access for ack in acks for access in _of_group(ack.group, [ack.topic], "Sub")]


def _consume_stats(command: RemotingCommand, cluster: str) -> list[Access]:
    fields = command.ext_fields
    topics = [fields["topic"]] if fields.get("topic") else []
    topics += [topic for topic in fields.get("topicList", "").split(SPLIT_TOPICS) if topic]
    return [
        group_access(fields.get("consumerGroup", ""), "Get"),
        *(topic_access(topic, "Get") for topic in topics),
    ]


def _correction_offset(command: RemotingCommand, cluster: str) -> list[Access]:
    fields = command.ext_fields
    groups = [group for group in fields.get("filterGroups", "").split(SPLIT_GROUPS) if group]
    groups += [fields["compareGroup"]] if fields.get("compareGroup") else []
    return [*(group_access(group, "Get") for group in groups), topic_access(fields.get("topic", ""), "Get")]


def _create_topics(command: RemotingCommand, cluster: str) -> list[Access]:
    topics = CreateTopicListRequestBody.from_request(command.body).topic_config_list
    return [topic_access(topic.topic_name, "Create") for topic in topics]


def _update_group(command: RemotingCommand, cluster: str) -> list[Access]:
    return [group_access(SubscriptionGroupConfig.from_request(command.body).group_name, "Create", "Update")]


def _update_groups(command: RemotingCommand, cluster: str) -> list[Access]:
    groups = SubscriptionGroupList.from_request(command.body).group_config_list
    return [group_access(group.group_name, "Create", "Update") for group in groups]


def _set_mode(command: RemotingCommand, cluster: str) -> list[Access]:
    return [
        group_access(SetMessageRequestModeRequestBody.from_request(command.body).consumer_group, "Update")
    ]


READ_AS_CONSUMER = _read("Sub")
RULES: Mapping[int, Rule] = {
    RequestCode.SEND_MESSAGE: _send("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: _send("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b", "a"),
    RequestCode.RECALL_MESSAGE: _named("Pub", topic="topic", required="topic"),
    RequestCode.END_TRANSACTION: _named("Pub", topic="topic"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _named("Sub", group="group", required="group"),
    RequestCode.PULL_MESSAGE: READ_AS_CONSUMER,
    RequestCode.LITE_PULL_MESSAGE: READ_AS_CONSUMER,
    RequestCode.POP_MESSAGE: READ_AS_CONSUMER,
    RequestCode.PEEK_MESSAGE: READ_AS_CONSUMER,
    RequestCode.NOTIFICATION: READ_AS_CONSUMER,
    RequestCode.ACK_MESSAGE: READ_AS_CONSUMER,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: READ_AS_CONSUMER,
    RequestCode.BATCH_ACK_MESSAGE: _batch_ack,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: READ_AS_CONSUMER,
    RequestCode.POLLING_INFO: _read("Get"),
    RequestCode.QUERY_CONSUMER_OFFSET: _read("Sub", "Get"),
    RequestCode.UPDATE_CONSUMER_OFFSET: _read("Sub", "Update"),
    RequestCode.QUERY_MESSAGE: _named("Sub Get", topic="topic", required="topic"),
    RequestCode.VIEW_MESSAGE_BY_ID: _named("Get", topic="topic"),
    RequestCode.HEART_BEAT: _heart_beat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _named(
        "Sub Get", group="consumerGroup", required="consumerGroup"
    ),
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _unlock,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _named("Create", topic="topic", required="topic"),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _create_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: _named("Delete", topic="topic", required="topic"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _update_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _update_groups,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _named("Delete", group="groupName", required="groupName"),
    RequestCode.SET_MESSAGE_REQUEST_MODE: _set_mode,
    RequestCode.GET_TOPIC_CONFIG: _named("Get", topic="topic"),
    RequestCode.GET_TOPIC_STATS_INFO: _named("Get", topic="topic"),
    RequestCode.GET_MAX_OFFSET: _named("Get", topic="topic"),
    RequestCode.GET_MIN_OFFSET: _named("Get", topic="topic"),
    RequestCode.GET_EARLIEST_MSG_STORETIME: _named("Get", topic="topic"),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _named("Get", topic="topic"),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _named("Get", topic="topic"),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _named("Update", topic="topic"),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _named("Get", group="group"),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _named("Get", group="consumerGroup"),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _named("Get", group="consumerGroup"),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _named("Get", group="group"),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _named("Get", topic="topic", group="group"),
    RequestCode.QUERY_CONSUME_TIME_SPAN: _named("Get", topic="topic", group="group"),
    RequestCode.QUERY_CONSUME_QUEUE: _named("Get", topic="topic", group="consumerGroup"),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _named("Get", topic="topic", group="group"),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _named("Update", topic="topic", group="group"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _named("Update", topic="topic", group="group"),
    RequestCode.CLONE_GROUP_OFFSET: _named("Update", topic="topic", group="destGroup"),
    RequestCode.GET_CONSUME_STATS: _consume_stats,
    RequestCode.QUERY_CORRECTION_OFFSET: _correction_offset,
    RequestCode.UPDATE_BROKER_CONFIG: _cluster("Update"),
    RequestCode.TIDEMARK_PUT_ASSIGNMENT: _cluster("Update"),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _cluster("Update"),
    RequestCode.CLEAN_UNUSED_TOPIC: _cluster("Update"),
    RequestCode.DELETE_EXPIRED_COMMITLOG: _cluster("Update"),
    RequestCode.GET_ALL_PRODUCER_INFO: _cluster("Get"),
    RequestCode.GET_BROKER_CONSUME_STATS: _cluster("Get"),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _cluster("Get"),
    RequestCode.QUERY_DATA_VERSION: _cluster("Get"),
    RequestCode.VIEW_BROKER_STATS_DATA: _cluster("Get"),
    RequestCode.AUTH_CREATE_USER: _cluster("Update"),
    RequestCode.AUTH_UPDATE_USER: _cluster("Update"),
    RequestCode.AUTH_DELETE_USER: _cluster("Update"),
    RequestCode.AUTH_GET_USER: _cluster("Get"),
    RequestCode.AUTH_LIST_USER: _cluster("Get"),
    RequestCode.AUTH_CREATE_ACL: _cluster("Update"),
    RequestCode.AUTH_UPDATE_ACL: _cluster("Update"),
    RequestCode.AUTH_DELETE_ACL: _cluster("Update"),
    RequestCode.AUTH_GET_ACL: _cluster("Get"),
    RequestCode.AUTH_LIST_ACL: _cluster("Get"),
}
