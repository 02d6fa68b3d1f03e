"""The headers that clients send and read, one class per layout, under RocketMQ's names (protocol sections 3 and 5).

Those of other requests are in a module per noun; tests/brokerd/processor/test_handlers.py lists them all by code.
"""

from __future__ import annotations

from dataclasses import dataclass

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
class ReplyMessageRequestHeader(HeaderFields):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326), of a broker; `born_host` is the replier's address."""

    producer_group: str = of("producerGroup", "s")
    topic: str = of("topic", "s")
    default_topic: str | None = of("defaultTopic", "s", None, kw_only=True)
    default_topic_queue_nums: int | None = of("defaultTopicQueueNums", "i", None, kw_only=True)
    queue_id: int = of("queueId", "i")
    sys_flag: int = of("sysFlag", "i")
    born_timestamp: int = of("bornTimestamp", "l")
    flag: int = of("flag", "i")
    born_host: str = of("bornHost", "s")
    store_host: str = of("storeHost", "s")
    store_timestamp: int = of("storeTimestamp", "l")
    properties: str | None = of("properties", "s", None)
    reconsume_times: int | None = of("reconsumeTimes", "i", None)
    unit_mode: bool | None = of("unitMode", "b", None)


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


@dataclass(slots=True)
class RecallMessageRequestHeader(HeaderFields):
    """RECALL_MESSAGE (370); the handle is that of the send's answer."""

    topic: str = of("topic", "s")
    recall_handle: str = of("recallHandle", "s")
    producer_group: str | None = of("producerGroup", "s", None)
    broker_name: str | None = of("bname", "s", None)


# Transactions (protocol section 3.7)


@dataclass(slots=True)
class EndTransactionRequestHeader(HeaderFields):
    """END_TRANSACTION (37): `commit_or_rollback` is 8, 12 or 0 for a state that is unknown yet.

    `tran_state_table_offset` and `commit_log_offset` are those of the half message.
    """

    producer_group: str = of("producerGroup", "s")
    tran_state_table_offset: int = of("tranStateTableOffset", "l")
    commit_log_offset: int = of("commitLogOffset", "l")
    commit_or_rollback: int = of("commitOrRollback", "i")
    from_transaction_check: bool | None = of("fromTransactionCheck", "b", None)
    msg_id: str | None = of("msgId", "s", None)
    transaction_id: str | None = of("transactionId", "s", None)
    topic: str | None = of("topic", "s", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class CheckTransactionStateRequestHeader(HeaderFields):
    """CHECK_TRANSACTION_STATE (39), of a broker; `topic` is the half topic's name, as 5.3.3 has it."""

    tran_state_table_offset: int = of("tranStateTableOffset", "l")
    commit_log_offset: int = of("commitLogOffset", "l")
    topic: str | None = of("topic", "s", None)
    msg_id: str | None = of("msgId", "s", None)
    transaction_id: str | None = of("transactionId", "s", None)
    offset_msg_id: str | None = of("offsetMsgId", "s", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class ResumeCheckHalfMessageRequestHeader(HeaderFields):
    """RESUME_CHECK_HALF_MESSAGE (323). `msg_id` is an offset message id."""

    msg_id: str = of("msgId", "s")


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


# POP (protocol section 3.9)


@dataclass(slots=True)
class PopMessageRequestHeader(HeaderFields):
    """POP_MESSAGE (200050). `queue_id` -1: any; times in ms; `init_mode` 0: a new group begins at the first message."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    max_msg_nums: int = of("maxMsgNums", "i")
    invisible_time: int = of("invisibleTime", "l")
    poll_time: int = of("pollTime", "l")
    born_time: int = of("bornTime", "l", 0, kw_only=True)
    init_mode: int = of("initMode", "i")
    exp_type: str | None = of("expType", "s", None)
    exp: str | None = of("exp", "s", None)
    order: bool | None = of("order", "b", None)
    attempt_id: str | None = of("attemptId", "s", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class PopMessageResponseHeader(HeaderFields):
    """The answer to 200050 and 200052, whatever its code."""

    pop_time: int = of("popTime", "l", 0)
    invisible_time: int = of("invisibleTime", "l", 0)
    revive_qid: int = of("reviveQid", "i", 0)
    rest_num: int = of("restNum", "l", 0)
    start_offset_info: str | None = of("startOffsetInfo", "s", None)
    msg_offset_info: str | None = of("msgOffsetInfo", "s", None)
    order_count_info: str | None = of("orderCountInfo", "s", None)


@dataclass(slots=True)
class AckMessageRequestHeader(HeaderFields):
    """ACK_MESSAGE (200051). `topic` is the one the message lies in; `extra_info` is its handle."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    extra_info: str = of("extraInfo", "s")
    offset: int = of("offset", "l")
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class ChangeInvisibleTimeRequestHeader(HeaderFields):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    extra_info: str = of("extraInfo", "s")
    offset: int = of("offset", "l")
    invisible_time: int = of("invisibleTime", "l")
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class PollRequestHeader(HeaderFields):
    """NOTIFICATION (200054), and POLLING_INFO (200055), which has no times."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    poll_time: int = of("pollTime", "l", 0)
    born_time: int = of("bornTime", "l", 0)
    order: bool | None = of("order", "b", None)
    attempt_id: str | None = of("attemptId", "s", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class PeekMessageRequestHeader(HeaderFields):
    """PEEK_MESSAGE (200052)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    max_msg_nums: int = of("maxMsgNums", "i")
    broker_name: str | None = of("bname", "s", None)


# Offsets (protocol section 3.6)


@dataclass(slots=True)
class OffsetResponseHeader(HeaderFields):
    """The answer to 14, 29, 30 and 31 (four equal classes in Java)."""

    offset: int = of("offset", "l")
