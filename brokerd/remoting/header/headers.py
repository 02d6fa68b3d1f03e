"""The headers of requests and responses, one class per layout, under RocketMQ's names (protocol sections 3 and 5).

A request whose code is in neither table has no header fields: everything is in its body.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.header.fields import HeaderFields, of

# Sending (protocol section 3.3)


@dataclass(slots=True)
class SendMessageRequestHeader(HeaderFields):
    """SEND_MESSAGE (10): long names. `born_timestamp` is ms; `properties` as in protocol section 4.4.

    The template of a new topic may be missing: an existing topic needs none (4.9.7 and 5.3.3 store such a send).
    """

    producer_group: str = of("producerGroup", "s")
    topic: str = of("topic", "s")
    default_topic: str | None = of("defaultTopic", "s", None, kw_only=True)
    default_topic_queue_nums: int | None = of("defaultTopicQueueNums", "i", None, kw_only=True)
    queue_id: int = of("queueId", "i")
    sys_flag: int = of("sysFlag", "i")
    born_timestamp: int = of("bornTimestamp", "l")
    flag: int = of("flag", "i")
    properties: str | None = of("properties", "s", None)
    reconsume_times: int | None = of("reconsumeTimes", "i", None)
    unit_mode: bool | None = of("unitMode", "b", None)
    max_reconsume_times: int | None = of("maxReconsumeTimes", "i", None)
    batch: bool | None = of("batch", "b", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class SendMessageRequestHeaderV2(HeaderFields):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the same fields under single letters."""

    producer_group: str = of("a", "s")
    topic: str = of("b", "s")
    default_topic: str | None = of("c", "s", None, kw_only=True)
    default_topic_queue_nums: int | None = of("d", "i", None, kw_only=True)
    queue_id: int = of("e", "i")
    sys_flag: int = of("f", "i")
    born_timestamp: int = of("g", "l")
    flag: int = of("h", "i")
    properties: str | None = of("i", "s", None)
    reconsume_times: int | None = of("j", "i", None)
    unit_mode: bool | None = of("k", "b", None)
    max_reconsume_times: int | None = of("l", "i", None)
    batch: bool | None = of("m", "b", None)
    broker_name: str | None = of("n", "s", None)


@dataclass(slots=True)
class SendMessageResponseHeader(HeaderFields):
    """The answer to 10, 310, 320. `msg_id`: offset message ids, comma-separated; `transaction_id`: UNIQ_KEY."""

    msg_id: str = of("msgId", "s")
    queue_id: int = of("queueId", "i")
    queue_offset: int = of("queueOffset", "l")
    transaction_id: str | None = of("transactionId", "s", None)
    batch_uniq_id: str | None = of("batchUniqId", "s", None)
    recall_handle: str | None = of("recallHandle", "s", None)
    msg_region: str | None = of("MSG_REGION", "s", None)
    trace_on: str | None = of("TRACE_ON", "s", None)


@dataclass(slots=True)
class ConsumerSendMsgBackRequestHeader(HeaderFields):
    """CONSUMER_SEND_MSG_BACK (36): `offset` is the commit-log offset; `delay_level` 0 lets the broker choose."""

    offset: int = of("offset", "l")
    group: str = of("group", "s")
    delay_level: int = of("delayLevel", "i")
    origin_msg_id: str | None = of("originMsgId", "s", None)
    origin_topic: str | None = of("originTopic", "s", None)
    unit_mode: bool | None = of("unitMode", "b", None)
    max_reconsume_times: int | None = of("maxReconsumeTimes", "i", None)
    broker_name: str | None = of("bname", "s", None)


# Reading (protocol sections 3.5, 3.14)


@dataclass(slots=True)
class PullMessageRequestHeader(HeaderFields):
    """PULL_MESSAGE (11), LITE_PULL_MESSAGE (361). `sys_flag`: 1 commit offset, 2 suspend, 4 subscription included."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    queue_offset: int = of("queueOffset", "l")
    max_msg_nums: int = of("maxMsgNums", "i")
    sys_flag: int = of("sysFlag", "i")
    commit_offset: int = of("commitOffset", "l")
    suspend_timeout_millis: int = of("suspendTimeoutMillis", "l")
    sub_version: int = of("subVersion", "l")
    subscription: str | None = of("subscription", "s", None)
    expression_type: str | None = of("expressionType", "s", None)
    max_msg_bytes: int | None = of("maxMsgBytes", "i", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class PullMessageResponseHeader(HeaderFields):
    """The answer to 11 and 361 with 0, 19, 20 or 21. Broker id 0 is the master."""

    suggest_which_broker_id: int = of("suggestWhichBrokerId", "l")
    next_begin_offset: int = of("nextBeginOffset", "l")
    min_offset: int = of("minOffset", "l")
    max_offset: int = of("maxOffset", "l")
    offset_delta: int | None = of("offsetDelta", "l", None)
    topic_sys_flag: int | None = of("topicSysFlag", "i", None)
    group_sys_flag: int | None = of("groupSysFlag", "i", None)
    forbidden_type: int | None = of("forbiddenType", "i", None)


@dataclass(slots=True)
class QueryMessageRequestHeader(HeaderFields):
    """QUERY_MESSAGE (12): times of storing in ms, both ends included."""

    topic: str = of("topic", "s")
    key: str = of("key", "s")
    max_num: int = of("maxNum", "i")
    begin_timestamp: int = of("beginTimestamp", "l")
    end_timestamp: int = of("endTimestamp", "l")
    is_unique_key: bool | None = of("_UNIQUE_KEY_QUERY", "b", None)


@dataclass(slots=True)
class QueryMessageResponseHeader(HeaderFields):
    """The answer to 12: up to where the index reaches (ms, commit-log offset)."""

    index_last_update_timestamp: int = of("indexLastUpdateTimestamp", "l")
    index_last_update_phyoffset: int = of("indexLastUpdatePhyoffset", "l")


@dataclass(slots=True)
class ViewMessageRequestHeader(HeaderFields):
    """VIEW_MESSAGE_BY_ID (33): `offset` is the commit-log offset."""

    offset: int = of("offset", "l")
    topic: str | None = of("topic", "s", None)


# Offsets (protocol section 3.6)


@dataclass(slots=True)
class QueryConsumerOffsetRequestHeader(HeaderFields):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    set_zero_if_not_found: bool | None = of("setZeroIfNotFound", "b", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class UpdateConsumerOffsetRequestHeader(HeaderFields):
    """UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    commit_offset: int = of("commitOffset", "l")
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class SearchOffsetRequestHeader(HeaderFields):
    """SEARCH_OFFSET_BY_TIMESTAMP (29): `timestamp` in ms; `boundary_type` LOWER (also when absent) or UPPER."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    timestamp: int = of("timestamp", "l")
    boundary_type: str | None = of("boundaryType", "s", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class GetMaxOffsetRequestHeader(HeaderFields):
    """GET_MAX_OFFSET (30)."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    committed: bool | None = of("committed", "b", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class GetMinOffsetRequestHeader(HeaderFields):
    """GET_MIN_OFFSET (31)."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class GetEarliestMsgStoretimeRequestHeader(HeaderFields):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class OffsetResponseHeader(HeaderFields):
    """The answer to 14, 29, 30 and 31 (four equal classes in Java)."""

    offset: int = of("offset", "l")


@dataclass(slots=True)
class GetEarliestMsgStoretimeResponseHeader(HeaderFields):
    """The answer to 32: ms, -1 for an empty queue."""

    timestamp: int = of("timestamp", "l")


# Clients and groups (protocol sections 3.13, 6)


@dataclass(slots=True)
class UnregisterClientRequestHeader(HeaderFields):
    """UNREGISTER_CLIENT (35)."""

    client_id: str = of("clientID", "s")
    producer_group: str | None = of("producerGroup", "s", None)
    consumer_group: str | None = of("consumerGroup", "s", None)


@dataclass(slots=True)
class HeartbeatResponseHeader(HeaderFields):
    """The answer to 34 (ext fields without a class in Java)."""

    is_support_heart_beat_v2: bool | None = of("IS_SUPPORT_HEART_BEAT_V2", "b", None)
    is_sub_change: bool | None = of("IS_SUB_CHANGE", "b", None)


@dataclass(slots=True)
class ConsumerGroupRequestHeader(HeaderFields):
    """38, 40 and 203: what names a consumer group (three equal classes in Java)."""

    consumer_group: str = of("consumerGroup", "s")


@dataclass(slots=True)
class GetProducerConnectionListRequestHeader(HeaderFields):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str = of("producerGroup", "s")


@dataclass(slots=True)
class GetConsumeStatsRequestHeader(HeaderFields):
    """GET_CONSUME_STATS (208): `topic_list` joined with `;`."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str | None = of("topic", "s", None)
    topic_list: str | None = of("topicList", "s", None)


@dataclass(slots=True)
class ResetOffsetRequestHeader(HeaderFields):
    """INVOKE_BROKER_TO_RESET_OFFSET (222), RESET_CONSUMER_CLIENT_OFFSET (220): ms, -1 the end; `queue_id` -1: all."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")
    timestamp: int = of("timestamp", "l")
    is_force: bool = of("isForce", "b")
    queue_id: int | None = of("queueId", "i", None)
    offset: int | None = of("offset", "l", None)


@dataclass(slots=True)
class GetConsumerStatusRequestHeader(HeaderFields):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), GET_CONSUMER_STATUS_FROM_CLIENT (221)."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")
    client_addr: str | None = of("clientAddr", "s", None)


@dataclass(slots=True)
class QueryConsumeTimeSpanRequestHeader(HeaderFields):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")


@dataclass(slots=True)
class GetConsumerRunningInfoRequestHeader(HeaderFields):
    """GET_CONSUMER_RUNNING_INFO (307)."""

    consumer_group: str = of("consumerGroup", "s")
    client_id: str = of("clientId", "s")
    jstack_enable: bool | None = of("jstackEnable", "b", None)


@dataclass(slots=True)
class ConsumeMessageDirectlyResultRequestHeader(HeaderFields):
    """CONSUME_MESSAGE_DIRECTLY (309): the broker adds the last three."""

    consumer_group: str = of("consumerGroup", "s")
    client_id: str | None = of("clientId", "s", None)
    msg_id: str | None = of("msgId", "s", None)
    topic: str | None = of("topic", "s", None)
    broker_name: str | None = of("brokerName", "s", None)
    topic_sys_flag: int | None = of("topicSysFlag", "i", None)
    group_sys_flag: int | None = of("groupSysFlag", "i", None)


@dataclass(slots=True)
class GroupRequestHeader(HeaderFields):
    """343 and 352: what names a group as `group` (two equal classes in Java)."""

    group: str = of("group", "s")


@dataclass(slots=True)
class DeleteSubscriptionGroupRequestHeader(HeaderFields):
    """DELETE_SUBSCRIPTIONGROUP (207); tools of 4.x called the flag removeOffset."""

    group_name: str = of("groupName", "s")
    clean_offset: bool | None = of("cleanOffset", "b", None)
    remove_offset: bool | None = of("removeOffset", "b", None)


@dataclass(slots=True)
class GetBrokerConsumeStatsRequestHeader(HeaderFields):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool = of("isOrder", "b")


# Topics and the broker (protocol sections 3.11, 3.14)


@dataclass(slots=True)
class CreateTopicRequestHeader(HeaderFields):
    """UPDATE_AND_CREATE_TOPIC (17): `perm` is a sum of Permission, `attributes` reads `+k=v,-k`."""

    topic: str = of("topic", "s")
    default_topic: str = of("defaultTopic", "s")
    read_queue_nums: int = of("readQueueNums", "i")
    write_queue_nums: int = of("writeQueueNums", "i")
    perm: int = of("perm", "i")
    topic_filter_type: str = of("topicFilterType", "s")
    topic_sys_flag: int | None = of("topicSysFlag", "i", None)
    order: bool | None = of("order", "b", None)
    attributes: str | None = of("attributes", "s", None)
    force: bool | None = of("force", "b", None)


@dataclass(slots=True)
class TopicRequestHeader(HeaderFields):
    """202, 215 and 300: what names a topic (three equal classes in Java)."""

    topic: str = of("topic", "s")


@dataclass(slots=True)
class GetTopicConfigRequestHeader(HeaderFields):
    """GET_TOPIC_CONFIG (351): `lo` false says that no static topic is meant."""

    topic: str = of("topic", "s")
    lo: bool | None = of("lo", "b", None)


@dataclass(slots=True)
class GetBrokerConfigResponseHeader(HeaderFields):
    """The answer to 26: a DataVersion as JSON text."""

    version: str = of("version", "s")


@dataclass(slots=True)
class ViewBrokerStatsDataRequestHeader(HeaderFields):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str = of("statsName", "s")
    stats_key: str = of("statsKey", "s")


# The name server (protocol section 5.1)


@dataclass(slots=True)
class RegisterBrokerRequestHeader(HeaderFields):
    """REGISTER_BROKER (103): `body_crc32` 0 is not checked; `compressed` bodies are a zlib stream."""

    broker_name: str = of("brokerName", "s")
    broker_addr: str = of("brokerAddr", "s")
    cluster_name: str = of("clusterName", "s")
    ha_server_addr: str = of("haServerAddr", "s")
    broker_id: int = of("brokerId", "l")
    heartbeat_timeout_millis: int | None = of("heartbeatTimeoutMillis", "l", None)
    enable_acting_master: bool | None = of("enableActingMaster", "b", None)
    compressed: bool | None = of("compressed", "b", None)
    body_crc32: int | None = of("bodyCrc32", "i", None)


@dataclass(slots=True)
class RegisterBrokerResponseHeader(HeaderFields):
    """The answer to 103."""

    ha_server_addr: str | None = of("haServerAddr", "s", None)
    master_addr: str | None = of("masterAddr", "s", None)


@dataclass(slots=True)
class UnRegisterBrokerRequestHeader(HeaderFields):
    """UNREGISTER_BROKER (104)."""

    broker_name: str = of("brokerName", "s")
    broker_addr: str = of("brokerAddr", "s")
    cluster_name: str = of("clusterName", "s")
    broker_id: int = of("brokerId", "l")


@dataclass(slots=True)
class GetRouteInfoRequestHeader(HeaderFields):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str = of("topic", "s")
    accept_standard_json_only: bool | None = of("acceptStandardJsonOnly", "b", None)


@dataclass(slots=True)
class WipeWritePermOfBrokerRequestHeader(HeaderFields):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    broker_name: str = of("brokerName", "s")


@dataclass(slots=True)
class WipeWritePermOfBrokerResponseHeader(HeaderFields):
    """The answer to 205."""

    wipe_topic_count: int = of("wipeTopicCount", "i")


@dataclass(slots=True)
class DeleteTopicFromNamesrvRequestHeader(HeaderFields):
    """DELETE_TOPIC_IN_NAMESRV (216)."""

    topic: str = of("topic", "s")
    cluster_name: str | None = of("clusterName", "s", None)


@dataclass(slots=True)
class GetTopicsByClusterRequestHeader(HeaderFields):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str = of("cluster", "s")


# Request code → what its ext fields are.
REQUEST_HEADERS: dict[RequestCode, type[HeaderFields]] = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.QUERY_MESSAGE: QueryMessageRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader,
    RequestCode.UPDATE_AND_CREATE_TOPIC: CreateTopicRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: GetMinOffsetRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: ViewMessageRequestHeader,
    RequestCode.UNREGISTER_CLIENT: UnregisterClientRequestHeader,
    RequestCode.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBackRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ConsumerGroupRequestHeader,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: ConsumerGroupRequestHeader,
    RequestCode.REGISTER_BROKER: RegisterBrokerRequestHeader,
    RequestCode.UNREGISTER_BROKER: UnRegisterBrokerRequestHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: GetRouteInfoRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: TopicRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerGroupRequestHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: GetProducerConnectionListRequestHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermOfBrokerRequestHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: DeleteSubscriptionGroupRequestHeader,
    RequestCode.GET_CONSUME_STATS: GetConsumeStatsRequestHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: TopicRequestHeader,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: DeleteTopicFromNamesrvRequestHeader,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetRequestHeader,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusRequestHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusRequestHeader,
    RequestCode.GET_TOPICS_BY_CLUSTER: GetTopicsByClusterRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: TopicRequestHeader,
    RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanRequestHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: GetConsumerRunningInfoRequestHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResultRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    RequestCode.VIEW_BROKER_STATS_DATA: ViewBrokerStatsDataRequestHeader,
    RequestCode.GET_BROKER_CONSUME_STATS: GetBrokerConsumeStatsRequestHeader,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: GroupRequestHeader,
    RequestCode.GET_TOPIC_CONFIG: GetTopicConfigRequestHeader,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: GroupRequestHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageRequestHeader,
}


# Request code → the ext fields of a successful answer.
RESPONSE_HEADERS: dict[RequestCode, type[HeaderFields]] = {
    RequestCode.SEND_MESSAGE: SendMessageResponseHeader,
    RequestCode.PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.QUERY_MESSAGE: QueryMessageResponseHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: OffsetResponseHeader,
    RequestCode.GET_BROKER_CONFIG: GetBrokerConfigResponseHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: OffsetResponseHeader,
    RequestCode.GET_MAX_OFFSET: OffsetResponseHeader,
    RequestCode.GET_MIN_OFFSET: OffsetResponseHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeResponseHeader,
    RequestCode.HEART_BEAT: HeartbeatResponseHeader,
    RequestCode.REGISTER_BROKER: RegisterBrokerResponseHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermOfBrokerResponseHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageResponseHeader,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageResponseHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageResponseHeader,
}
