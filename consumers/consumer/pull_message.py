"""Pulling for a push consumer: may this queue pull now, one pull, and what follows from its answer.

Semantics reference 9.3, 9.6 (DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper). One PullLoop task per
queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from brokerd.remoting.body.client import SubscriptionData
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.names import MessageProperty, SysFlag, retry_topic
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.client.route import MASTER_ID
from consumers.client.subscription import TAG, matching
from consumers.clock import Clock
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.offset_store import OffsetStore
from consumers.consumer.process_queue import ProcessQueue
from consumers.consumer.pull_result import PullResult, PullStatus, pull_request, pull_result
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

FLOW_CONTROL_DELAY_MS = 50  # PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
BROKER_FLOW_CONTROL_DELAY_MS = 20  # PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
SUSPENDED_DELAY_MS = 1_000  # PULL_TIME_DELAY_MILLS_WHEN_SUSPEND

# The broker does not have our subscription (yet, or any more): a heartbeat brings it.
UNKNOWN_SUBSCRIPTION = frozenset({ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST})


class PullHold(StrEnum):
    """Why a queue must not pull now."""

    SUSPENDED = "suspended"
    MESSAGES = "messages"
    BYTES = "bytes"
    SPAN = "span"
    NOT_LOCKED = "not_locked"


def hold_pull(
    queue: ProcessQueue,
    config: PushConsumerConfig,
    *,
    orderly: bool,
    suspended: bool,
    now_ms: int,
    topic_queues: int = 1,
) -> PullHold | None:
    """Return the first reason of the sequence in 9.3, or None: pull. `topic_queues` of its topic are ours.

    Sizes are compared as whole MiB there, as bytes here.
    """
    if suspended:
        return PullHold.SUSPENDED
    messages_max, bytes_max = config.thresholds(topic_queues)
    if queue.cached_count > messages_max:
        return PullHold.MESSAGES
    if queue.cached_bytes > bytes_max:
        return PullHold.BYTES
    if not orderly and queue.max_span > config.consume_concurrently_max_span:
        return PullHold.SPAN
    if orderly and config.message_model is MessageModel.CLUSTERING and not queue.is_locked(now_ms):
        return PullHold.NOT_LOCKED
    return None


def hold_delay_ms(hold: PullHold, config: PushConsumerConfig) -> int:
    if hold is PullHold.SUSPENDED:
        return SUSPENDED_DELAY_MS
    if hold is PullHold.NOT_LOCKED:
        return config.pull_delay_when_exception_ms
    return FLOW_CONTROL_DELAY_MS


def prepare_message(message: MessageRecord, group: str) -> MessageRecord:
    """Return what the handler sees: the body decompressed, and a repetition under the topic it was first sent to."""
    topic = message.topic
    if topic == retry_topic(group):
        topic = message.properties.get(MessageProperty.RETRY_TOPIC, topic)
    if message.sys_flag & SysFlag.COMPRESSED:
        try:
            body = message.decoded_body()
        except BodyError as error:
            # Given as it is stored: the handler can refuse one message, we could only refuse the whole queue.
            logger.warning("body not decompressed message_id=%s: %s", message.message_id, error)
        else:
            plain = message.sys_flag & ~(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK)
            return replace(message, topic=topic, body=body, sys_flag=plain)
    return message if topic == message.topic else replace(message, topic=topic)


def prepare_messages(messages: list[MessageRecord], group: str) -> list[MessageRecord]:
    """As `prepare_message`, at no cost for each where all are as the handler sees them."""
    repeated = retry_topic(group)
    return [
        prepare_message(message, group)
        if message.sys_flag & SysFlag.COMPRESSED or message.topic == repeated
        else message
        for message in messages
    ]


@dataclass(frozen=True, slots=True)
class PullContext:
    """What the pull loops of one consumer share."""

    group: str
    config: PushConsumerConfig
    client: ClientInstance
    offset_store: OffsetStore
    orderly: bool
    clock: Clock
    subscription: Callable[[str], SubscriptionData | None]
    is_suspended: Callable[[MessageQueue], bool]
    submit: Callable[[ProcessQueue, list[MessageRecord]], None]
    # Nothing is cached, and the filter left out everything before this offset.
    pass_over: Callable[[MessageQueue, int], None]
    correct_offset: Callable[[MessageQueue, int], Awaitable[None]]
    count_pulled: Callable[[str, int, int], None]  # topic, messages, round trip in ms
    queues_of_topic: Callable[[str], int]  # how many of a topic are ours
    # Each request carries the filter, so that brokers need no heartbeat with it (postSubscriptionWhenPull).
    post_subscription_when_pull: bool = False


class PullLoop:
    """Pulls one queue until it is dropped.

    Every wait is a sleep or a long poll, so cancelling it ends it at once.
    """

    def __init__(self, queue: ProcessQueue, next_offset: int, context: PullContext) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self._context = context
        self._broker_id = MASTER_ID
        self._held_by: PullHold | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Root of the task: whatever happens to one pull, the queue is pulled again after a pause."""
        context = self._context
        while not self.queue.is_dropped:
            self.queue.last_pull_ms = context.clock()
            hold = hold_pull(
                self.queue,
                context.config,
                orderly=context.orderly,
                suspended=context.is_suspended(self.queue.message_queue),
                now_ms=self.queue.last_pull_ms,
                topic_queues=context.queues_of_topic(self.queue.message_queue.topic),
            )
            self._note_hold(hold)
            if hold is not None:
                await asyncio.sleep(hold_delay_ms(hold, context.config) / 1000)
                continue
            try:
                result = await self._pull()
                self._note_success()
                if not self.queue.is_dropped:
                    await self._follow(result)
            except (MQClientError, MQBrokerError) as error:
                await asyncio.sleep(self._delay_after_ms(error) / 1000)
            except Exception:
                logger.exception("pull failed %s", self._where())
                await asyncio.sleep(context.config.pull_delay_when_exception_ms / 1000)

    async def _pull(self) -> PullResult:
        context, config = self._context, self._context.config
        message_queue = self.queue.message_queue
        subscription = context.subscription(message_queue.topic)
        if subscription is None:
            raise MQClientError(f"topic {message_queue.topic} is not subscribed any more")
        committed = context.offset_store.read_memory(message_queue)
        is_known = subscription.expression_type == TAG and not context.post_subscription_when_pull
        addr = context.client.find_addr(message_queue.broker_name, self._broker_id)
        may_commit = config.message_model is MessageModel.CLUSTERING and self._broker_id == MASTER_ID
        request = pull_request(
            message_queue,
            context.group,
            self.next_offset,
            config.pull_batch_size,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
            subscription=None if is_known else subscription.sub_string,
            commit_offset=committed if may_commit and committed else None,
            suspend_ms=config.broker_suspend_max_ms,
        )
        started_ms = context.clock()
        result = pull_result(await context.client.remoting.invoke(addr, request, config.pull_timeout_ms))
        self._broker_id = result.suggest_which_broker_id
        if result.messages:
            context.count_pulled(message_queue.topic, len(result.messages), context.clock() - started_ms)
        return replace(result, messages=matching(subscription, result.messages))

    async def _follow(self, result: PullResult) -> None:
        """Act on an answer; the queue is still ours."""
        context = self._context
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning("offset illegal %s corrected=%d", self._where(), result.next_begin_offset)
            await context.correct_offset(self.queue.message_queue, result.next_begin_offset)
            return
        self.next_offset = result.next_begin_offset
        if result.messages:
            prepared = prepare_messages(result.messages, context.group)
            self.queue.put_messages(prepared)
            context.submit(self.queue, prepared)
            if context.config.pull_interval_ms:
                await asyncio.sleep(context.config.pull_interval_ms / 1000)
        elif self.queue.cached_count == 0:
            # Nothing is left to consume before this offset: progress over messages that the filter left out.
            context.pass_over(self.queue.message_queue, result.next_begin_offset)

    def _delay_after_ms(self, error: MQClientError | MQBrokerError) -> int:
        if isinstance(error, MQBrokerError):
            if error.code in UNKNOWN_SUBSCRIPTION:
                self._context.client.heartbeat_soon()
            if error.code == ResponseCode.FLOW_CONTROL:
                return BROKER_FLOW_CONTROL_DELAY_MS
        if not self._is_failing:
            logger.info("pull failed, trying again %s: %s", self._where(), error)
        self._is_failing = True
        return self._context.config.pull_delay_when_exception_ms

    def _note_success(self) -> None:
        if self._is_failing:
            logger.info("pulling again %s", self._where())
        self._is_failing = False

    def _note_hold(self, hold: PullHold | None) -> None:
        """One line when flow control begins and none while it lasts."""
        if hold is not None and hold is not self._held_by:
            logger.debug("pull held back by %s %s", hold, self._where())
        self._held_by = hold

    def _where(self) -> str:
        queue, group = self.queue.message_queue, self._context.group
        return f"group={group} topic={queue.topic} queue_id={queue.queue_id} offset={self.next_offset}"
