"""Configuration of the client runtime: frozen values; each default with its unit and its reason or source.

Names follow the Java client's setters in snake_case, with the unit last. Nothing here reads the environment.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from brokerd.remoting.message.names import TRACE_TOPIC
from brokerd.remoting.signature import AccessKeys
from consumers.errors import MQClientError

# DefaultMQAdminExt and the remoting client use 3 s and 5 s; 3 s keeps a page with one dead broker bearable.
INVOKE_TIMEOUT_MS = 3_000
# ClientConfig.heartbeatBrokerInterval; a broker drops a client after 120 s (ConsumerManager).
HEARTBEAT_INTERVAL_MS = 30_000
# ClientConfig.pollNameServerInterval
ROUTE_REFRESH_INTERVAL_MS = 30_000


# LocalFileOffsetStore.LOCAL_OFFSET_STORE_DIR
LOCAL_OFFSET_STORE_DIR = os.path.join("~", ".rocketmq_offsets")
SPAN_MAX = 65_535
# What names may have, without the % behind it.
NAMESPACE = re.compile(r"[|a-zA-Z0-9_-]*")


class InvalidClientConfig(MQClientError, ValueError):
    """A setting is outside its range; the message names it."""


@dataclass(frozen=True, slots=True)
class RemotingClientConfig:
    """How one process talks to name servers and brokers (NettyClientConfig)."""

    connect_timeout_ms: int = 3_000
    invoke_timeout_ms: int = INVOKE_TIMEOUT_MS
    # Requests of one connection that wait for an answer (clientAsyncSemaphoreValue).
    outstanding_requests_max: int = 65_535
    # Requests a broker may have pushed to us and that we still work on; more are answered SYSTEM_BUSY.
    server_requests_max: int = 256
    # After a failed connect the next attempt waits: doubled from the least to the greatest delay. A restarted
    # broker is found again within the greatest.
    reconnect_delay_min_ms: int = 100
    reconnect_delay_max_ms: int = 1_000
    # Bytes that may wait in our socket buffer before senders are held back.
    write_buffer_bytes_max: int = 4 * 1024 * 1024
    # None: without TLS. `consumers.tls_context` makes one.
    ssl_context: ssl.SSLContext | None = None
    # None: requests are not signed. For brokers and name servers with ACL.
    keys: AccessKeys | None = None


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What producers and consumers share (ClientConfig)."""

    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    route_refresh_interval_ms: int = ROUTE_REFRESH_INTERVAL_MS
    # Part of the client id; empty means `pid#nanoseconds`, unique for every instance of every process.
    instance_name: str = ""
    # Prefix of the topics and groups of the producer or consumer that has this configuration, also where it shares a
    # ClientInstance (namespace of 4.x clients).
    namespace: str = ""
    # Named in the header of every request of the connections, as 5.x clients do (namespaceV2); names stay as they are.
    namespace_v2: str = ""
    remoting: RemotingClientConfig = field(default_factory=RemotingClientConfig)

    def __post_init__(self) -> None:
        if not NAMESPACE.fullmatch(self.namespace):
            raise InvalidClientConfig(
                f"namespace {self.namespace!r} has characters other than | a-z A-Z 0-9 _ -"
            )


class CompressionType(StrEnum):
    """How bodies are compressed. Clients before 5.0 read ZLIB only."""

    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """DefaultMQProducer."""

    send_timeout_ms: int = 3_000
    # Attempts after the first (retryTimesWhenSendFailed).
    retry_times_when_send_failed: int = 2
    # True: after FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE the message is sent to another broker
    # too, and so may be stored twice.
    retry_another_broker_when_not_store_ok: bool = False
    # Brokers that are slow or fail get no messages for 2 to 30 s, as long as there are others.
    send_latency_fault_enable: bool = False
    # Bodies of this size or more are compressed (compressMsgBodyOverHowmuch); LZ4 has no levels.
    compress_body_over_bytes: int = 4_096
    compress_type: CompressionType = CompressionType.ZLIB
    compress_level: int = 5
    # Sends of `send_async` that wait for their answers: messages and body bytes (backPressureForAsyncSend…).
    async_in_flight_messages_max: int = 1_024
    async_in_flight_bytes_max: int = 100 * 1024 * 1024
    max_message_bytes: int = 4 * 1024 * 1024
    create_topic_key: str = "TBW102"
    default_topic_queue_nums: int = 4
    # Pause between two attempts when a broker cannot be reached: an immediate retry would use up all of them
    # while it restarts.
    retry_pause_ms: int = 100
    # Message trace: what is sent or consumed is recorded in `trace_topic` (enableMsgTrace, customizedTraceTopic).
    enable_msg_trace: bool = False
    trace_topic: str = TRACE_TOPIC
    client: ClientConfig = field(default_factory=ClientConfig)

    def __post_init__(self) -> None:
        check_ranges(self, PRODUCER_RANGES)


class MessageModel(StrEnum):
    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(StrEnum):
    """Where a queue without a committed offset is begun."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class RebalanceMode(StrEnum):
    """Who computes which queues are ours."""

    CLIENT = "client"  # every member by the same formula (4.x and 5.x default)
    SERVER = "server"  # the broker, by QUERY_ASSIGNMENT (5.x, clientRebalance=false)
    AUTO = "auto"  # the broker if it announces stored assignments (brokerd), else every member


@dataclass(frozen=True, slots=True)
class PushConsumerConfig:
    """DefaultMQPushConsumer; defaults of 5.3.3 unless noted (semantics reference 9.1)."""

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    # Only for TIMESTAMP: store time in ms since the epoch.
    consume_timestamp_ms: int | None = None
    allocate_strategy: str = "AVG"
    rebalance_mode: RebalanceMode = RebalanceMode.AUTO
    # Handlers running at once (consumeThreadMax).
    consume_concurrency: int = 20
    consume_message_batch_max_size: int = 1
    pull_batch_size: int = 32
    pull_interval_ms: int = 0
    # Flow control, per queue: cached messages, their body bytes, last minus first offset.
    pull_threshold_messages: int = 1_000
    pull_threshold_bytes: int = 100 * 1024 * 1024
    # The same for all our queues of a topic, in equal parts and in the place of those (pullThresholdForTopic,
    # pullThresholdSizeForTopic). None: each queue for itself.
    topic_threshold_messages: int | None = None
    topic_threshold_bytes: int | None = None
    consume_concurrently_max_span: int = 2_000
    # Messages given to handlers, a second and in all; None: as fast as they are. `limit_rate` changes it.
    consume_rate_max: float | None = None
    # -1: 16 for concurrent consumers, no limit for orderly ones.
    max_reconsume_times: int = -1
    # Delay level requested when a message is sent back; 0 lets the broker decide (3 + times), -1 means dead
    # letter.
    delay_level_when_next_consume: int = 0
    suspend_current_queue_time_ms: int = 1_000
    consume_timeout_ms: int = 15 * 60 * 1_000
    persist_consumer_offset_interval_ms: int = 5_000
    rebalance_interval_ms: int = 20_000
    lock_interval_ms: int = 20_000
    # The broker holds an empty pull this long; the request waits twice as long.
    broker_suspend_max_ms: int = 15_000
    pull_timeout_ms: int = 30_000
    pull_delay_when_exception_ms: int = 1_000
    # Where the broker assigns and the group's mode is POP: how long a popped message is ours, messages of one
    # request, and how many may wait for their acknowledgement per queue before it pops no more.
    pop_invisible_time_ms: int = 60_000
    pop_batch_nums: int = 32
    pop_threshold_messages: int = 96
    # How long closing waits for handlers that are running (awaitTerminationMillisWhenShutdown).
    await_termination_ms: int = 500
    # Broadcasting only: where offsets are kept.
    local_offset_store_dir: str = LOCAL_OFFSET_STORE_DIR
    # Message trace: what is sent or consumed is recorded in `trace_topic` (enableMsgTrace, customizedTraceTopic).
    enable_msg_trace: bool = False
    trace_topic: str = TRACE_TOPIC
    client: ClientConfig = field(default_factory=ClientConfig)

    def __post_init__(self) -> None:
        check_ranges(self, PUSH_CONSUMER_RANGES)
        if self.consume_from_where is ConsumeFromWhere.TIMESTAMP and self.consume_timestamp_ms is None:
            raise InvalidClientConfig("consume_timestamp_ms must be given to consume from a timestamp")
        if self.consume_rate_max is not None and not self.consume_rate_max > 0:
            raise InvalidClientConfig(f"consume_rate_max must be above 0, not {self.consume_rate_max}")

    def thresholds(self, topic_queues: int) -> tuple[int, int]:
        """Return how many messages and body bytes a queue may cache, one of `topic_queues` of its topic that are ours.

        Source: RebalancePushImpl.messageQueueChanged, which divides by the queues of all topics.
        """
        messages, size = self.topic_threshold_messages, self.topic_threshold_bytes
        return (
            self.pull_threshold_messages if messages is None else max(1, messages // max(1, topic_queues)),
            self.pull_threshold_bytes if size is None else max(1, size // max(1, topic_queues)),
        )

    def max_reconsume_times_for(self, orderly: bool) -> int:
        """Return the limit that counts: after so many repetitions a message becomes a dead letter."""
        if self.max_reconsume_times >= 0:
            return self.max_reconsume_times
        return ORDERLY_RECONSUME_TIMES if orderly else CONCURRENT_RECONSUME_TIMES


@dataclass(frozen=True, slots=True)
class PullConsumerConfig:
    """DefaultLitePullConsumer; its defaults."""

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    # Only for TIMESTAMP: store time in ms since the epoch.
    consume_timestamp_ms: int | None = None
    allocate_strategy: str = "AVG"
    rebalance_mode: RebalanceMode = RebalanceMode.AUTO
    # True: what earlier calls of `poll` returned is committed every auto_commit_interval_ms and at the end.
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    # How long `poll` waits for a first message, and how many messages it returns at most.
    poll_timeout_ms: int = 5_000
    poll_batch_size: int = 32
    # Messages of one request to a broker (Java asks for 10).
    pull_batch_size: int = 32
    # Read ahead, per queue: messages and their body bytes.
    pull_threshold_messages: int = 1_000
    pull_threshold_bytes: int = 100 * 1024 * 1024
    rebalance_interval_ms: int = 20_000
    # The broker holds an empty pull this long; the request waits longer.
    broker_suspend_max_ms: int = 20_000
    pull_timeout_ms: int = 30_000
    pull_delay_when_exception_ms: int = 1_000
    # Broadcasting only: where offsets are kept.
    local_offset_store_dir: str = LOCAL_OFFSET_STORE_DIR
    # Message trace: what is sent or consumed is recorded in `trace_topic` (enableMsgTrace, customizedTraceTopic).
    enable_msg_trace: bool = False
    trace_topic: str = TRACE_TOPIC
    client: ClientConfig = field(default_factory=ClientConfig)

    def __post_init__(self) -> None:
        check_ranges(self, PULL_CONSUMER_RANGES)
        self.reading()

    def reading(self) -> PushConsumerConfig:
        """Return the part that rebalancing and reading share with push consumers. Raises InvalidClientConfig."""
        return PushConsumerConfig(
            message_model=self.message_model,
            consume_from_where=self.consume_from_where,
            consume_timestamp_ms=self.consume_timestamp_ms,
            allocate_strategy=self.allocate_strategy,
            rebalance_mode=self.rebalance_mode,
            pull_batch_size=self.pull_batch_size,
            pull_threshold_messages=self.pull_threshold_messages,
            pull_threshold_bytes=self.pull_threshold_bytes,
            # Messages are given in order: none is stuck while others run ahead, and a gap costs nothing.
            consume_concurrently_max_span=SPAN_MAX,
            rebalance_interval_ms=self.rebalance_interval_ms,
            broker_suspend_max_ms=self.broker_suspend_max_ms,
            pull_timeout_ms=self.pull_timeout_ms,
            pull_delay_when_exception_ms=self.pull_delay_when_exception_ms,
        )


CONCURRENT_RECONSUME_TIMES = 16
ORDERLY_RECONSUME_TIMES = 2**31 - 1  # Integer.MAX_VALUE

# (setting, least, greatest) as DefaultMQPushConsumerImpl.checkConfig
PUSH_CONSUMER_RANGES = (
    ("consume_concurrency", 1, 1_000),
    ("consume_message_batch_max_size", 1, 1_024),
    ("pull_batch_size", 1, 1_024),
    ("pull_interval_ms", 0, 65_535),
    ("pull_threshold_messages", 1, 65_535),
    ("pull_threshold_bytes", 1, 1_024 * 1024 * 1024),
    ("topic_threshold_messages", 1, 6_553_500),
    ("topic_threshold_bytes", 1, 100 * 1_024 * 1024 * 1024),
    ("consume_concurrently_max_span", 1, SPAN_MAX),
    ("max_reconsume_times", -1, ORDERLY_RECONSUME_TIMES),
    ("delay_level_when_next_consume", -1, 18),
    ("consume_timeout_ms", 1, 2**31 - 1),
    ("pop_invisible_time_ms", 5_000, 300_000),
    ("pop_batch_nums", 1, 32),
    ("pop_threshold_messages", 1, 65_535),
)
PRODUCER_RANGES = (
    ("retry_times_when_send_failed", 0, 1_000),
    # Levels that both zlib and Zstandard have.
    ("compress_level", 1, 9),
    ("async_in_flight_messages_max", 1, 2**31 - 1),
    ("async_in_flight_bytes_max", 1, 2**31 - 1),
)
# DefaultLitePullConsumerImpl.checkConfig; the others are checked as a push consumer's
PULL_CONSUMER_RANGES = (
    ("auto_commit_interval_ms", 1_000, 2**31 - 1),
    ("poll_timeout_ms", 0, 2**31 - 1),
    ("poll_batch_size", 1, 65_535),
)


def check_ranges(config: object, ranges: Sequence[tuple[str, int, int]]) -> None:
    """Raise InvalidClientConfig for the first (setting, least, greatest) that does not hold; None is no setting."""
    for name, low, high in ranges:
        value: int | None = getattr(config, name)
        if value is not None and not low <= value <= high:
            raise InvalidClientConfig(f"{name} must be {low} to {high}, not {value}")
