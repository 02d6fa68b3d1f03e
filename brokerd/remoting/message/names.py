"""Names that mean something to RocketMQ: properties, flags, system topics and groups, and which names are legal."""

import re

RETRY_TOPIC_PREFIX = "%RETRY%"
DLQ_TOPIC_PREFIX = "%DLQ%"
LIGHT_PREFIX = "%LMQ%"  # of light queues and of groups that read them; neither has settings
LIGHT_QUEUE_ID = 0  # the only queue of a light queue's topic
TOPIC_LENGTH_MAX = 127
# Retry and dead-letter topics carry a group's name: TopicValidator allows them more.
LONG_NAME_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 255
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


class InvalidName(ValueError):
    """A name that no topic or no group may have.

    ``text`` and ``values``: the reason as a sentence of pages.
    """

    def __init__(self, reason: str, text: str, **values: int) -> None:
        super().__init__(reason)
        self.text = text
        self.values = values


class MessageProperty:
    """MessageConst.java: the keys of properties that brokers and clients act on."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT_STORE_MSG_OK = "WAIT"
    DELAY = "DELAY"
    RETRY_TOPIC = "RETRY_TOPIC"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    TRANSACTION_PREPARED = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME = "RECONSUME_TIME"
    MSG_REGION = "MSG_REGION"
    TRACE_SWITCH = "TRACE_ON"
    UNIQ_KEY = "UNIQ_KEY"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME = "CONSUME_START_TIME"
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    TRANSACTION_ID = "__transactionId__"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    REPLY_TTL = "TTL"
    MESSAGE_TYPE = "MSG_TYPE"
    CLUSTER = "CLUSTER"
    POP_CK = "POP_CK"
    FIRST_POP_TIME = "1ST_POP_TIME"
    SHARDING_KEY = "__SHARDINGKEY"
    INSTANCE_ID = "INSTANCE_ID"
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TRACE_CONTEXT = "TRACE_CONTEXT"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"


# A message with one of these is delivered later.
DELAY_PROPERTIES = (
    MessageProperty.DELAY,
    MessageProperty.TIMER_DELAY_SEC,
    MessageProperty.TIMER_DELAY_MS,
    MessageProperty.TIMER_DELIVER_MS,
)


class TimerProperty:
    """What the broker adds to a message that waits for an arbitrary time (MessageConst.java)."""

    OUT_MS = "TIMER_OUT_MS"
    ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    ROLL_TIMES = "TIMER_ROLL_TIMES"
    DELETE_UNIQUE_KEY = "TIMER_DEL_UNIQKEY"


class SysFlag:
    """MessageSysFlag.java: bits of a message's sysFlag (protocol section 4.3)."""

    COMPRESSED = 0x01
    MULTI_TAGS = 0x02
    TRANSACTION_PREPARED = 0x04
    TRANSACTION_COMMIT = 0x08
    TRANSACTION_ROLLBACK = 0x0C
    TRANSACTION_MASK = 0x0C
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_MASK = 0x700
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300


REPLY_TYPE = "reply"  # of the property MSG_TYPE
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # delayed messages: a queue for each level
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"  # messages of transactions that have not ended
TIMER_TOPIC = "rmq_sys_wheel_timer"  # messages for an arbitrary time
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # which of them have
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"  # reads both; its offset shows which have ended
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"  # its offsets show which checkpoints of POP are done with
REVIVE_QUEUES = 8  # reviveQueueNum: queues of the topic of POP's checkpoints
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"  # half messages whose producers never answered
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"  # what clients with message trace record
# TopicValidator.java and TopicConfigManager.java; the cluster's and broker's own names are topics too.
SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUPS = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        TRANSACTION_GROUP,
    }
)
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# ProxyConfig.heartbeatSyncerTopicName and AbstractSystemMessageSyncer.java: proxies make this topic and read it in a
# broadcasting group, to know each other's clients.
PROXY_TOPIC = "DefaultHeartBeatSyncerTopic"
PROXY_GROUP = f"CID_{PROXY_TOPIC}"


def retry_topic(group: str) -> str:
    """Return where a group's messages wait to be consumed again."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return where messages go that a group has failed to consume too often."""
    return DLQ_TOPIC_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic that replies to requests go to."""
    return f"{cluster}{REPLY_TOPIC_SUFFIX}"


def revive_topic(cluster: str) -> str:
    """Return the topic of POP's checkpoints and acknowledgements."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


def is_retry_topic(topic: str) -> bool:
    """Return whether a group's failed messages are delivered again from it."""
    return topic.startswith(RETRY_TOPIC_PREFIX)


def is_light(name: str) -> bool:
    """Return whether it is the name of a light queue, or of a group of one."""
    return name.startswith(LIGHT_PREFIX)


def is_broker_topic(name: str) -> bool:
    """Return whether only brokers create and delete the topic."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_topic(name: str) -> bool:
    """Return whether the topic is RocketMQ's own, of brokers or proxies. Retry and dead-letter topics are not."""
    return name == PROXY_TOPIC or is_broker_topic(name)


def is_system_group(name: str) -> bool:
    """Return whether the group is RocketMQ's own, of brokers or proxies."""
    return name == PROXY_GROUP or name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


def validate_topic(name: str) -> None:
    """Raise ValueError with the reason when no topic may have this name (semantics §1.2)."""
    is_of_group = name.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX))
    _validate("topic", name, LONG_NAME_LENGTH_MAX if is_of_group else TOPIC_LENGTH_MAX)


def validate_group(name: str) -> None:
    """Raise ValueError with the reason when no group may have this name (semantics §1.2)."""
    _validate("group", name, GROUP_LENGTH_MAX)


def _validate(kind: str, name: str, length_max: int) -> None:
    if not name.strip():
        raise InvalidName(f"the {kind} name is blank", "Enter a name.")
    if len(name) > length_max:
        reason = f"the {kind} name has {len(name)} characters; at most {length_max} are allowed"
        raise InvalidName(
            reason, "The name has %(number)s characters; at most %(most)s.", number=len(name), most=length_max
        )
    if not _LEGAL.fullmatch(name):
        reason = f"the {kind} name {name!r} has characters other than % | a-z A-Z 0-9 _ -"
        raise InvalidName(reason, "Use only letters, digits, %% | - and _.")
