"""Reset a group's offsets (222) so that its clients, online or not, new or old, follow within seconds.

The broker keeps the target as a pending reset: it answers offset queries, and commits are ignored until a client
took note (`useServerSideResetOffset`, semantics §6.1). How a client takes note depends on its release:

* from V5_0_0 on the next pull is answered 21 with the target, and a pull that is being held is woken for that; the
  client drops the queue, stores the target and rebalances at once.
* before, a client answers 21 (and the push 220) by waiting 10 s, and then up to 20 s for its rebalance. It is therefore
  set aside: it is notified that its group changed (40), then gets a member list without itself, so it gives its queues
  up; half a second later it is notified again, gets the true list, takes the queues and requests their offsets.
* offline groups find the target when they come.

With useServerSideResetOffset=false the 4.x way is used: 220 to every member, 206 when no member is online.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from brokerd.clients.consumer_manager import BROADCASTING, ConsumerGroupInfo
from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, Saved
from brokerd.processor.client.client_notify import notify_consumer_ids_changed
from brokerd.remoting.body.offset import ResetOffsetBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.offset import ResetOffsetRequestHeader
from brokerd.remoting.message.queue import MessageQueue
from brokerd.store.cold_pages import gathered
from brokerd.store.results import BoundaryType

logger = logging.getLogger(__name__)

FOLLOWS_OFFSET_MOVED_VERSION = 413  # V5_0_0: acts on 21 at once
RESET_PUSH_VERSION = 28  # V3_0_7_SNAPSHOT: understands 220
NO_MEMBER = "%SET_ASIDE%"  # the only member in the list a set-aside client gets; no client id can be that
SET_ASIDE_CHECK_MS = 100
SET_ASIDE_QUIET_MS = 400  # A rebalance sends one request per topic; after this long without one it is over.
SET_ASIDE_MAX_MS = 5_000  # a client that does not rebalance in that time keeps its queues and gets 21


def invoke_reset_offset(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """INVOKE_BROKER_TO_RESET_OFFSET (222): timestamp −1 means the end; with queueId ≥ 0 an offset may be given."""
    header = ResetOffsetRequestHeader.from_ext_fields(command.ext_fields)
    topic, group, timestamp_ms = header.topic, header.group, header.timestamp
    queue_id = -1 if header.queue_id is None else header.queue_id
    offset = -1 if header.offset is None else header.offset
    server_side = broker.config.broker.use_server_side_reset_offset
    config = broker.topics.get(topic)
    if config is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
    queue_count = max(config.read_queue_nums, config.write_queue_nums)
    if queue_id >= queue_count:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"Queue {queue_id} of topic {topic} does not exist: it has {queue_count}",
        )
    if server_side and broker.groups.get(group) is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
    targets = reset_targets(broker, topic, queue_id, offset, timestamp_ms)
    if server_side:
        broker.offsets.reset(group, topic, targets, now_ms)
        broker.offsets.save()
        make_members_follow(broker, topic, group, targets)
    else:
        targets = classic_targets(broker, topic, group, targets, is_force=header.is_force or False)
        push_reset(broker, topic, group, targets, timestamp_ms)
    logger.info("offsets reset group=%s topic=%s targets=%s", group, topic, targets)
    # Saved before it is answered: a kill must not bring the group's old offsets back.
    return Saved(command.response(ResponseCode.SUCCESS, body=reset_body(broker, topic, targets).to_body()))


def reset_body(broker: Broker, topic: str, targets: Mapping[int, int]) -> ResetOffsetBody:
    return ResetOffsetBody(
        offset_table={MessageQueue(topic, broker.broker_name, q): offset for q, offset in targets.items()}
    )


def reset_targets(
    broker: Broker, topic: str, queue_id: int, offset: int, timestamp_ms: int
) -> dict[int, int]:
    """Return the new offset of each queue. Raises MQBrokerError(1) for an offset outside of its queue."""
    store = broker.store
    if queue_id >= 0 and offset != -1:
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        if not low <= offset <= high + 1:
            raise error_for(
                ResponseCode.SYSTEM_ERROR, f"Target offset {offset} not in consume queue range [{low}-{high}]"
            )
        return {queue_id: offset}
    config = broker.topics.get(topic)
    assert config is not None
    queue_ids = [queue_id] if queue_id >= 0 else range(config.read_queue_nums)
    if timestamp_ms < 0:
        return {q: store.max_offset(topic, q) for q in queue_ids}
    found = gathered(
        partial(store.offset_by_time, topic, q, timestamp_ms, BoundaryType.LOWER) for q in queue_ids
    )
    return dict(zip(queue_ids, found, strict=True))


def make_members_follow(broker: Broker, topic: str, group: str, targets: Mapping[int, int]) -> None:
    """Bring the news to the live members (see the module's text)."""
    info = broker.consumers.get(group)
    if info is None or info.message_model == BROADCASTING:
        return
    old = {c for c, m in info.members.items() if m.version < FOLLOWS_OFFSET_MOVED_VERSION}
    broker.hold.wake_group(topic, group, targets, lambda channel: channel not in old)
    broker.hold.run_ready(steady_ms())
    for channel in old:
        logger.info("member set aside group=%s client_id=%s", group, info.members[channel].client_id)
        broker.consumers.set_aside(group, channel)
        notify_consumer_ids_changed(channel, group)
        _watch_set_aside(broker, group, channel, waited_ms=0, last_query_ms=0, quiet_ms=0)


def _watch_set_aside(
    broker: Broker, group: str, channel: Channel, *, waited_ms: int, last_query_ms: int, quiet_ms: int
) -> None:
    """Take a member back once its rebalance is over, or after SET_ASIDE_MAX_MS."""

    def look() -> None:
        if not broker.consumers.is_set_aside(group, channel):
            return
        queried_ms = broker.consumers.queried_ms(group, channel)
        is_quiet = queried_ms > 0 and queried_ms == last_query_ms
        new_quiet_ms = quiet_ms + SET_ASIDE_CHECK_MS if is_quiet else 0
        total_ms = waited_ms + SET_ASIDE_CHECK_MS
        if new_quiet_ms >= SET_ASIDE_QUIET_MS or total_ms >= SET_ASIDE_MAX_MS:
            broker.consumers.take_back(group, channel)
            notify_consumer_ids_changed(channel, group)
            return
        _watch_set_aside(
            broker, group, channel, waited_ms=total_ms, last_query_ms=queried_ms, quiet_ms=new_quiet_ms
        )

    broker.later(SET_ASIDE_CHECK_MS, look)


def member_list_for(broker: Broker, group: str, channel: Channel, now_ms: int) -> list[str]:
    """Return the members of a group as the requesting client is to see them."""
    info = broker.consumers.get(group)
    if info is None:
        return []
    if not broker.consumers.ask_members(group, channel, now_ms):
        return [NO_MEMBER]
    return info.client_ids()


def take_reset_on_pull(
    broker: Broker, channel: Channel, group: str, topic: str, queue_id: int, offset: int
) -> int | None:
    """Return the offset a pull must be answered with (code 21) because of a reset, or None to serve it.

    A client of before V5_0_0 that pulls exactly from the target has queried it: it is served.
    """
    target = broker.offsets.pending_reset(group, topic, queue_id)
    if target is None or broker.consumers.is_set_aside(group, channel):
        return None
    info = broker.consumers.get(group)
    member = info.members.get(channel) if info is not None else None
    broker.offsets.take_reset(group, topic, queue_id)
    is_old = member is not None and member.version < FOLLOWS_OFFSET_MOVED_VERSION
    return None if is_old and offset == target else target


def classic_targets(
    broker: Broker, topic: str, group: str, targets: Mapping[int, int], *, is_force: bool
) -> dict[int, int]:
    """4.x: without isForce a queue only moves backwards. Raises MQBrokerError when a queue has no offset yet."""
    chosen = {}
    for queue_id, target in targets.items():
        committed = broker.offsets.committed(group, topic, queue_id)
        if committed is None:
            raise error_for(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
        chosen[queue_id] = target if is_force or target < committed else committed
    return chosen


def push_reset(broker: Broker, topic: str, group: str, targets: Mapping[int, int], timestamp_ms: int) -> None:
    """RESET_CONSUMER_CLIENT_OFFSET (220) to every member. Raises CONSUMER_NOT_ONLINE (206) without members."""
    info = broker.consumers.get(group)
    if info is None:
        raise error_for(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp_ms}",
        )
    for member in _pushable(info, group):
        member.send(
            RemotingCommand.request(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                {
                    "topic": topic,
                    "group": group,
                    "timestamp": str(timestamp_ms),
                    "queueId": "-1",
                    "isForce": "false",
                },
                reset_body(broker, topic, targets).to_body(),
                oneway=True,
            )
        )


def _pushable(info: ConsumerGroupInfo, group: str) -> list[Channel]:
    too_old = [m.client_id for m in info.members.values() if m.version < RESET_PUSH_VERSION]
    if too_old:
        raise error_for(
            ResponseCode.SYSTEM_ERROR, f"the client of group {group} does not support this feature: {too_old}"
        )
    return list(info.members)
