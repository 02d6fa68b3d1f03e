"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): checks, offset piggyback, reading, holding, resets.

Source: semantics §2, protocol §3.5 (`PullMessageProcessor.java`). The checks keep the reference's order. A found pull
answers with slices of the mapped log, joined once (hot-path rules 16 and 22).
"""

from __future__ import annotations

import enum
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from brokerd.broker_stats import GROUP_GET_NUMS, GROUP_GET_SIZE
from brokerd.clients.consumer_manager import BROADCASTING, ConsumerGroupInfo
from brokerd.clients.pull_request_hold import HELD_A_CONNECTION_MAX, HELD_MAX, HeldPull
from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel, address_text
from brokerd.filter.property_filter import SQL92, record_filter
from brokerd.filter.sql_tokens import ExpressionError
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.client.client_notify import notify_consumer_ids_changed
from brokerd.processor.client.expression_type import TAG_TYPES, check_expression_type
from brokerd.processor.consumer.offset_reset import take_reset_on_pull
from brokerd.processor.route import FAQ
from brokerd.remoting.body.client import SubscriptionData
from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.codes import MQ_VERSION, Permission, RequestCode, ResponseCode
from brokerd.remoting.command import PREFIX, RemotingCommand
from brokerd.remoting.errors import MQBrokerError, NoPermission, error_for
from brokerd.remoting.header.headers import PullMessageRequestHeader
from brokerd.remoting.header.send_header import PullFields
from brokerd.remoting.message.java_hash import tag_code
from brokerd.store.cold_pages import FileRange
from brokerd.store.queue_reader import RecordFilter
from brokerd.store.results import GetMessageResult, GetMessageStatus

logger = logging.getLogger(__name__)

COMMIT_OFFSET_FLAG, SUSPEND_FLAG, SUBSCRIPTION_FLAG, CLASS_FILTER_FLAG = 1, 2, 4, 8
# A pull's header, whichever way it was read.
PullHeader = PullMessageRequestHeader | PullFields

MASTER_ID = 0
COLD_PASSES_MAX = 4  # units, then records; what was dropped meanwhile once more
SUBSCRIBE_ALL = "*"
SUSPEND_MAX_MS = 60_000  # clients request 15 to 20 s and give up after 30 s
NUDGE_EVERY_MS = 1_000  # Java clients repeat a refused pull every second, for each queue
TAGS_CHARACTERS_MAX = 16_384  # as many as an expression of SQL92; each pull that brings them reads them
MESSAGES_MAX = 1024  # Java clients may request up to 1024 (pullBatchSize)

# Store status → response code; the rows that depend on the requested offset are in code_of.
CODES = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


# A slave may lag behind, or begin later than its master: it moves no offset, the pull waits for the master or the log.
MASTERS_WORD = frozenset(
    {
        GetMessageStatus.NO_MATCHED_LOGIC_QUEUE,
        GetMessageStatus.NO_MESSAGE_IN_QUEUE,
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
        GetMessageStatus.OFFSET_TOO_SMALL,
    }
)


class PullFilter(NamedTuple):
    """What a message must have. Both None: everything matches."""

    tags_codes: frozenset[int] | None = None  # one of these tag hashes
    record_filter: RecordFilter | None = None  # SQL92


EVERYTHING = PullFilter()


@dataclass(slots=True)
class Pull:
    """A checked pull, ready to be run again when it was held."""

    opaque: int
    header: PullHeader
    filter: PullFilter
    topic_sys_flag: int
    group_sys_flag: int
    offset: int  # the header's, or how far a held pull with a SQL92 filter has looked


REPLY_TEMPLATE = (
    b'{"code":%%d,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d","minOffset":"%%d","maxOffset":"%%d",'
    b'"topicSysFlag":"%%d","groupSysFlag":"%%d"},"flag":1,"language":"JAVA","opaque":%%d,"remark":"%%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % MQ_VERSION
)


class ForbiddenType(enum.IntEnum):
    """Why a pull is refused with NO_PERMISSION, in addition to the remark."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING_DISABLED = 4
    SUBSCRIPTION = 5


class PullForbidden(NoPermission):
    """`forbidden_type` is answered in the header."""

    def __init__(self, forbidden_type: ForbiddenType, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.forbidden_type = forbidden_type


def handle(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> bytes | None:
    """Pull the plain way: any form of header. The answer has a JSON header, as every 5.x broker's."""
    header = PullMessageRequestHeader.from_ext_fields(command.ext_fields)
    return pull_message(broker, channel, header, command.code, command.opaque, now_ms)


def pull_message(
    broker: Broker, channel: Channel, header: PullHeader, code: int, opaque: int, now_ms: int
) -> bytes | None:
    """Return the answer's frame; None while the pull is held."""
    try:
        pull = checked(broker, channel, header, code, opaque, now_ms)
    except MQBrokerError as error:
        return refusal(error, opaque)
    if header.sys_flag & COMMIT_OFFSET_FLAG:
        commit_piggyback(broker, header, now_ms)
    target = take_reset_on_pull(
        broker, channel, header.consumer_group, header.topic, header.queue_id, header.queue_offset
    )
    if target is not None:
        return moved(broker, pull, target)
    cold = cold_pages(broker, pull)
    if cold:
        broker.spawn(read_and_answer(broker, channel, pull, cold))
        return None
    result = read(broker, pull)
    status_code = code_of(result.status, header.queue_offset)
    if status_code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_FLAG:
        if not broker.hold.has_room(channel):
            return refusal(too_many_held(), opaque)
        if hold(broker, channel, pull, steady_ms()):
            return None
    return respond(broker, pull, result, status_code)


def cold_pages(broker: Broker, pull: Pull) -> list[FileRange]:
    header = pull.header
    return broker.store.cold_pages(
        header.topic, header.queue_id, pull.offset, header.max_msg_nums, *pull.filter
    )


async def read_and_answer(broker: Broker, channel: Channel, pull: Pull, cold: list[FileRange]) -> None:
    """Answer a pull of messages that are not in memory: others are served while the disk reads."""
    try:
        for _ in range(COLD_PASSES_MAX):
            if not cold:
                break
            await broker.cold_reads.read(cold)
            cold = cold_pages(broker, pull)
    except OSError as error:
        logger.error("messages cannot be read topic=%s offset=%d: %s", pull.header.topic, pull.offset, error)  # noqa: TRY400
        channel.write(
            refusal(
                error_for(ResponseCode.SYSTEM_ERROR, f"the broker cannot read this: {error}"), pull.opaque
            )
        )
        return
    if channel.is_open:
        resume(broker, channel, pull, 0, steady_ms())


def too_many_held() -> MQBrokerError:
    return error_for(
        ResponseCode.SYSTEM_BUSY,
        f"too many pulls wait for messages: {HELD_A_CONNECTION_MAX} of one connection, {HELD_MAX} of all: "
        "pull fewer queues with one client",
    )


def refusal(error: MQBrokerError, opaque: int) -> bytes:
    """Return an answer with empty extFields: clients read a pull response's header whatever the code."""
    response = RemotingCommand(error.code, "JAVA", opaque=opaque, flag=1, remark=error.remark)
    if isinstance(error, PullForbidden):
        response.ext_fields = {"forbiddenType": str(int(error.forbidden_type))}
    return response.encode()


def checked(
    broker: Broker,
    channel: Channel,
    header: PullHeader,
    code: int,
    opaque: int,
    now_ms: int,
) -> Pull:
    """Run the checks of semantics §2.2, in order. Raises MQBrokerError."""
    settings = broker.config.broker
    if not settings.broker_permission & Permission.READ:
        raise PullForbidden(
            ForbiddenType.BROKER, f"the broker[{broker.address}] pulling message is forbidden"
        )
    if code == RequestCode.LITE_PULL_MESSAGE and not settings.lite_pull_message_enable:
        raise PullForbidden(
            ForbiddenType.BROKER, f"the broker[{broker.address}] for lite pull consumer is forbidden"
        )
    group_config = broker.groups.find_or_create(header.consumer_group, now_ms)
    if group_config is None:
        raise error_for(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{header.consumer_group}] does not exist, {FAQ.strip()}",
        )
    check_enabled(group_config)
    topic = broker.topics.get(header.topic)
    if topic is None:
        raise error_for(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please! {FAQ}"
        )
    if not topic.perm & Permission.READ:
        raise PullForbidden(ForbiddenType.TOPIC, f"the topic[{header.topic}] pulling message is forbidden")
    if header.topic in broker.topics.unserved:
        raise PullForbidden(ForbiddenType.TOPIC, broker.topics.unserved[header.topic])
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] topicConfig.readQueueNums:"
            f"[{topic.read_queue_nums}] consumer:[/{address_text(channel.remote_address)}]",
        )
    try:
        pull_filter = subscription_filter(broker, header, group_config)
    except MQBrokerError as error:
        if error.code == ResponseCode.SUBSCRIPTION_NOT_LATEST:
            nudge(broker, channel, header.consumer_group, steady_ms())
        raise
    return Pull(
        opaque, header, pull_filter, topic.topic_sys_flag, group_config.group_sys_flag, header.queue_offset
    )


def check_enabled(group_config: SubscriptionGroupConfig) -> None:
    """Raise PullForbidden while the whole group may not consume."""
    if not group_config.consume_enable:
        raise PullForbidden(
            ForbiddenType.GROUP, f"subscription group no permission, {group_config.group_name}"
        )


def check_readable(broker: Broker, group: str, topic: str) -> None:
    """Raise PullForbidden while the group may not read this topic (353)."""
    if broker.groups.is_read_forbidden(group, topic):
        raise PullForbidden(
            ForbiddenType.SUBSCRIPTION, f"the consumer group[{group}] is forbidden for topic[{topic}]"
        )


def subscription_filter(
    broker: Broker, header: PullHeader, group_config: SubscriptionGroupConfig
) -> PullFilter:
    """Return what matches, by the request itself or by the group's heartbeats. Raises MQBrokerError."""
    if header.sys_flag & SUBSCRIPTION_FLAG:
        if header.expression_type not in TAG_TYPES:
            return filter_of_request(broker, str(header.expression_type), header.subscription)
        return PullFilter(codes_of_expression(header.subscription))
    info = broker.consumers.get(header.consumer_group)
    if info is None:
        raise error_for(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
    subscription = subscription_of(broker, info, header, group_config)
    if subscription.expression_type not in TAG_TYPES:
        return filter_of_heartbeat(broker, subscription)
    if subscription.sub_string == SUBSCRIBE_ALL or not subscription.code_set:
        return EVERYTHING
    return PullFilter(frozenset(subscription.code_set))


def filter_of_request(broker: Broker, expression_type: str, expression: str | None) -> PullFilter:
    """A filter that comes with the pull. One that cannot be read is refused, where Java lets everything through."""
    check_expression_type(broker, expression_type)
    try:
        return PullFilter(record_filter=record_filter(expression or ""))
    except ExpressionError as error:
        raise error_for(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from error


def filter_of_heartbeat(broker: Broker, subscription: SubscriptionData) -> PullFilter:
    """Return the filter of a heartbeat. An error in it comes before enablePropertyFilter, as in Java."""
    if subscription.expression_type != SQL92:
        check_expression_type(broker, subscription.expression_type)
    try:
        found = record_filter(subscription.sub_string)
    except ExpressionError as error:
        raise error_for(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            f"The broker's consumer filter data is not exist! Your expression may be wrong: {error}",
        ) from error
    check_expression_type(broker, SQL92)
    return PullFilter(record_filter=found)


def nudge(broker: Broker, channel: Channel, group: str, now_ms: int) -> None:
    """Request a rebalance from a member whose heartbeats lag behind its pulls: it then sends the next heartbeat.

    A Java client's first rebalance and its first scheduled heartbeat fall into the same millisecond; when the
    rebalance loses, its news waits for the next one, 20 s away, and every pull until then is refused.
    """
    info = broker.consumers.get(group)
    member = info.members.get(channel) if info is not None else None
    if member is not None and now_ms - member.nudged_ms >= NUDGE_EVERY_MS:
        member.nudged_ms = now_ms
        notify_consumer_ids_changed(channel, group)


def subscription_of(
    broker: Broker, info: ConsumerGroupInfo, header: PullHeader, group_config: SubscriptionGroupConfig
) -> SubscriptionData:
    if info.message_model == BROADCASTING and not group_config.consume_broadcast_enable:
        raise PullForbidden(
            ForbiddenType.BROADCASTING_DISABLED,
            f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
        )
    check_readable(broker, header.consumer_group, header.topic)
    subscription = info.subscriptions.get(header.topic)
    if subscription is None:
        raise error_for(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
    if subscription.sub_version < header.sub_version:
        raise error_for(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return subscription


def codes_of_expression(expression: str | None) -> frozenset[int] | None:
    """`"a || b"` → the hashes of both; empty or `*` → None. Raises SUBSCRIPTION_PARSE_FAILED for `||` alone."""
    if not expression or expression.strip() == SUBSCRIBE_ALL:
        return None
    if len(expression) > TAGS_CHARACTERS_MAX:
        raise error_for(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"the consumer's subscription has {len(expression)} characters, at most {TAGS_CHARACTERS_MAX}: "
            "use fewer tags",
        )
    tags = [tag for tag in (part.strip() for part in expression.split("||")) if tag]
    if not tags:
        raise error_for(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return frozenset(tag_code(tag) for tag in tags)


def commit_piggyback(broker: Broker, header: PullHeader, now_ms: int) -> None:
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if broker.offsets.pending_reset(group, topic, queue_id) is None:
        broker.offsets.commit(group, topic, queue_id, header.commit_offset, now_ms)


def read(broker: Broker, pull: Pull) -> GetMessageResult:
    header = pull.header
    tags_codes, properties_filter = pull.filter
    started_ns = time.perf_counter_ns()
    result = broker.store.get_message(
        header.topic,
        header.queue_id,
        pull.offset,
        min(header.max_msg_nums, MESSAGES_MAX),
        tags_codes=tags_codes,
        record_filter=properties_filter,
    )
    if broker.store_config.is_slave and result.status in MASTERS_WORD:
        result.status, result.next_begin_offset = GetMessageStatus.OFFSET_OVERFLOW_ONE, pull.offset
    took_ns = time.perf_counter_ns() - started_ns
    if took_ns > broker.stats.get_longest_ns:
        broker.stats.get_longest_ns = took_ns
    if properties_filter is not None:
        broker.filtered_entries += max(0, result.next_begin_offset - pull.offset)
    broker.offsets.note_pull(header.consumer_group, header.topic, header.queue_id, result.next_begin_offset)
    return result


def code_of(status: GetMessageStatus, offset: int) -> ResponseCode:
    if status in (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, GetMessageStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return CODES[status]


def hold(broker: Broker, channel: Channel, pull: Pull, now_ms: int) -> bool:
    """Keep the request until a message arrives or its time is over (semantics §2.6)."""
    settings = broker.config.broker
    wait_ms = pull.header.suspend_timeout_millis
    if not settings.long_polling_enable:
        wait_ms = settings.short_polling_time_mills
    if wait_ms <= 0:
        return False
    return keep(broker, channel, pull, now_ms + min(wait_ms, SUSPEND_MAX_MS))


def keep(broker: Broker, channel: Channel, pull: Pull, deadline_ms: int) -> bool:
    return broker.hold.hold(
        pull.header.topic,
        pull.header.queue_id,
        HeldPull(
            channel=channel,
            group=pull.header.consumer_group,
            offset=pull.offset,
            tags_codes=pull.filter.tags_codes,
            deadline_ms=deadline_ms,
            resume=partial(resume, broker, channel, pull, deadline_ms),
        ),
    )


def resume(broker: Broker, channel: Channel, pull: Pull, deadline_ms: int, now_ms: int) -> None:
    """Run a held pull again and answer it, whatever there is now. Offsets are not committed a second time.

    What arrived may not match a SQL92 filter: the pull then waits for what follows, as in Java. A group that was
    stopped meanwhile gets none of it.
    """
    header = pull.header
    try:
        check_allowed_still(broker, header)
    except PullForbidden as error:
        channel.write(refusal(error, pull.opaque))
        return
    target = take_reset_on_pull(
        broker, channel, header.consumer_group, header.topic, header.queue_id, header.queue_offset
    )
    if target is not None:
        channel.write(moved(broker, pull, target))
        return
    result = read(broker, pull)
    if (
        pull.filter.record_filter is not None
        and result.status is GetMessageStatus.NO_MATCHED_MESSAGE
        and result.next_begin_offset == result.max_offset
        and now_ms < deadline_ms
    ):
        pull.offset = result.next_begin_offset
        if keep(broker, channel, pull, deadline_ms):
            return
    channel.write(respond(broker, pull, result, code_of(result.status, header.queue_offset)))


def check_allowed_still(broker: Broker, header: PullHeader) -> None:
    """Check what may have been forbidden while a pull was held. Raises PullForbidden."""
    group_config = broker.groups.get(header.consumer_group)
    if group_config is not None:
        check_enabled(group_config)
    if not header.sys_flag & SUBSCRIPTION_FLAG:
        check_readable(broker, header.consumer_group, header.topic)


def respond(broker: Broker, pull: Pull, result: GetMessageResult, code: ResponseCode) -> bytes:
    """Hot path: header from a template and the records' views in one join (rules 3 and 16)."""
    views: list[memoryview] = []
    if code == ResponseCode.SUCCESS:
        views = result.views
        count_found(broker, pull.header, result)
    else:
        broker.stats.get_miss_times += 1
    return reply(
        pull,
        code,
        result.status,
        suggested_broker_id(broker, pull.header.consumer_group, result),
        result.next_begin_offset,
        result.min_offset,
        result.max_offset,
        views,
        result.size_bytes,
    )


def suggested_broker_id(broker: Broker, group: str, result: GetMessageResult) -> int:
    """Return the broker the group is to pull from next: of messages that left the memory a slave (`slaveReadEnable`).

    Source: semantics §2.4 (`DefaultPullMessageResultHandler.java`).
    """
    if not broker.config.broker.slave_read_enable:
        return MASTER_ID
    config = broker.groups.get(group)
    if config is None or (broker.store_config.is_slave and not result.suggest_pulling_from_slave):
        return MASTER_ID
    return config.which_broker_when_consume_slowly if result.suggest_pulling_from_slave else config.broker_id


def reply(
    pull: Pull,
    code: int,
    remark: str,
    broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    views: list[memoryview],
    body_bytes: int,
) -> bytes:
    header = REPLY_TEMPLATE % (
        code,
        broker_id,
        next_begin_offset,
        min_offset,
        max_offset,
        pull.topic_sys_flag,
        pull.group_sys_flag,
        pull.opaque,
        remark.encode(),
    )
    prefix = PREFIX.pack(4 + len(header) + body_bytes, len(header))
    return b"".join((prefix, header, *views))


def count_found(broker: Broker, header: PullHeader, result: GetMessageResult) -> None:
    key = f"{header.topic}@{header.consumer_group}"
    broker.stats.item(GROUP_GET_NUMS, key).add(result.message_count)
    broker.stats.item(GROUP_GET_SIZE, key).add(result.size_bytes)
    broker.stats.broker_get.add(result.message_count)
    broker.stats.get_found_times += 1


def moved(broker: Broker, pull: Pull, target: int) -> bytes:
    """21 with the target of a reset: the client drops the queue and starts there."""
    topic, queue_id, store = pull.header.topic, pull.header.queue_id, broker.store
    low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    return reply(pull, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", MASTER_ID, target, low, high, [], 0)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.PULL_MESSAGE: handle,
    RequestCode.LITE_PULL_MESSAGE: handle,
}
