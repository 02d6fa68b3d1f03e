"""Requests about the running broker: runtime table, settings, statistics, and questions relayed to clients.

Source: semantics §12, protocol §3.13, §3.14 (`AdminBrokerProcessor.java`, `Broker2Client.java`).
"""

from __future__ import annotations

import logging
import shutil

from brokerd.broker_stats import snapshot
from brokerd.clients.consumer_manager import ClientChannelInfo
from brokerd.clock import steady_ms
from brokerd.config import HOT_KEYS, ConfigError, check, read_changes, replaced, to_properties
from brokerd.connections.channel import Channel, ChannelClosed
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.processor.send.send_back import look
from brokerd.remoting.body.broker import BrokerStatsData, BrokerStatsItem, KVTable
from brokerd.remoting.body.client import ProducerInfo, ProducerTableInfo
from brokerd.remoting.codes import MQ_VERSION, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, RemotingError, error_for
from brokerd.remoting.header.broker import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    ViewBrokerStatsRequestHeader,
)
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.store.store_config import STORE_HOT_KEYS

logger = logging.getLogger(__name__)

RELAY_TIMEOUT_MS = 10_000
RELAY_VERSION = 62  # V3_1_8_SNAPSHOT: clients from there on answer 307 and 309
VERSION_DESC = "V5_3_3"
# Queues of a Java broker's thread pools. This broker has none; mqadmin and dashboards fail without the keys.
POOLS = ("send", "pull", "litePull", "query", "ack")
# What mqadmin's exportConfigs fails without, and no setting here stands for.
FIXED_SETTINGS = {
    "filterServerNums": "0",
    "useTLS": "false",
}


def get_runtime_info(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_BROKER_RUNTIME_INFO (28)."""
    return command.response(ResponseCode.SUCCESS, body=KVTable(table=runtime_table(broker)).to_body())


def runtime_table(broker: Broker) -> dict[str, str]:
    table = {**store_table(broker), **counter_table(broker), **loop_table(broker)}
    stats = broker.stats
    table |= {
        "brokerActive": "true",
        "brokerVersion": str(MQ_VERSION),
        "brokerVersionDesc": VERSION_DESC,
        "bootTimestamp": str(stats.boot_timestamp_ms),
        "runtime": duration_text(steady_ms() - stats.boot_timestamp_ms),
        "startAcceptSendRequestTimeStamp": str(broker.config.broker.start_accept_send_request_time_stamp),
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
        "timerReadBehind": str(broker.timer.behind_ms // 1000),
        "timerOffsetBehind": str(broker.timer.behind_messages),
        "timerCongestNum": str(broker.timer.files.waiting_count),
        "timerEnqueueTps": f"{broker.timer.rates.enqueue_tps:.1f}",
        "timerDequeueTps": f"{broker.timer.rates.dequeue_tps:.1f}",
    }
    for pool in POOLS:
        table |= {
            f"{pool}ThreadPoolQueueSize": "0",
            f"{pool}ThreadPoolQueueCapacity": "0",
            f"{pool}ThreadPoolQueueHeadWaitTimeMills": "0",
        }
    if broker.schedule.damaged_count:  # ours
        table["delayedMessagesDamaged"] = str(broker.schedule.damaged_count)
    if broker.access.error:  # ours
        table["aclError"] = broker.access.error
    for level, offset in sorted(broker.schedule.offsets.items()):
        table[f"scheduleMessageOffset_{level}"] = (
            f"{offset},{broker.store.max_offset(SCHEDULE_TOPIC, level - 1)}"
        )
    return table


def store_table(broker: Broker) -> dict[str, str]:
    """Return figures of the files: offsets, disk, what is not flushed yet."""
    store, folder = broker.store, broker.store_config.commit_log_dir
    # A store that never had a message has no commitlog folder yet.
    usage = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists()))
    ratio = str(round(store.cleaner.disk_used_ratio(), 2))
    earliest_ms = -1
    first = store.look_message(store.commit_log_min_offset)
    if first is not None:
        try:
            earliest_ms = look(broker, store.commit_log_min_offset).store_timestamp_ms
        except MQBrokerError:
            logger.info("the oldest message cannot be read offset=%d", store.commit_log_min_offset)
    refusal = {"storeRefusal": store.refusal} if store.refusal else {}  # ours
    return refusal | {
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{folder}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogMinOffset": str(store.commit_log_min_offset),
        "commitLogMaxOffset": str(store.commit_log_max_offset),
        "commitLogDirCapacity": f"Total : {size_text(usage.total)}, Free : {size_text(usage.free)}.",
        "dispatchBehindBytes": str(store.dispatch_behind_bytes),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(earliest_ms),
        "remainTransientStoreBufferNumbs": str(2**31 - 1),
        "remainHowManyDataToFlush": size_text(store.commit_log_max_offset - store.flushed_offset),
    }


def counter_table(broker: Broker) -> dict[str, str]:
    stats, put_times = broker.stats, broker.stats.put_times
    put_size = broker.store.written_bytes
    transferred = stats.rates("get_transferred")
    return {
        "putTps": stats.rates("put"),
        "getFoundTps": stats.rates("get_found"),
        "getMissTps": stats.rates("get_miss"),
        "getTotalTps": stats.rates("get_total"),
        "getTransferredTps": transferred,
        "getTransferedTps": transferred,  # the spelling of 4.x
        "putMessageTimesTotal": str(put_times.total),
        "putMessageFailedTimes": str(stats.put_failed_total),
        "putMessageSizeTotal": str(put_size),
        "putMessageAverageSize": str(put_size / put_times.total if put_times.total else 0.0),
        "putMessageDistributeTime": put_times.distribution_text(),
        "putMessageEntireTimeMax": str(put_times.longest_ms),
        "getMessageEntireTimeMax": str(stats.get_longest_ns // 1_000_000),
        "putLatency99": put_times.percentile_text(0.99),
        "putLatency999": put_times.percentile_text(0.999),
        "pageCacheLockTimeMills": str(stats.log_held_ms()),
        "msgPutTotalYesterdayMorning": str(stats.put_yesterday_morning),
        "msgPutTotalTodayMorning": str(stats.put_today_morning),
        "msgPutTotalTodayNow": str(stats.broker_put.value),
        "msgGetTotalYesterdayMorning": str(stats.get_yesterday_morning),
        "msgGetTotalTodayMorning": str(stats.get_today_morning),
        "msgGetTotalTodayNow": str(stats.broker_get.value),
    }


def loop_table(broker: Broker) -> dict[str, str]:
    """Return how long due timers waited for the event loop in the last minute (ours)."""
    p50_ms, p99_ms, max_ms = broker.loop_delay.delays()
    return {"loopDelay50": str(p50_ms), "loopDelay99": str(p99_ms), "loopDelayMax": str(max_ms)}


def duration_text(duration_ms: int) -> str:
    seconds = duration_ms // 1000
    days, rest = divmod(seconds, 86_400)
    return f"[ {days} days, {rest // 3600} hours, {rest // 60 % 60} minutes, {rest % 60} seconds ]"


def size_text(size_bytes: int) -> str:
    """`977 B`, `1.5 KiB` … as Java's humanReadableByteCount."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{size_bytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def all_settings(broker: Broker) -> dict[str, str]:
    live = broker.config
    return to_properties(live.broker, live.namesrv, broker.store_config, live.acl)


def get_broker_config(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_BROKER_CONFIG (26): every setting as a property file."""
    shown = {**FIXED_SETTINGS, **all_settings(broker)}
    shown["listenPort"], shown["brokerIP1"] = str(broker.store_host[1]), broker.store_host[0]
    text = "".join(f"{key}={value}\n" for key, value in sorted(shown.items()))
    return command.response(
        ResponseCode.SUCCESS,
        ext_fields={"version": broker.topics.data_version.to_body().decode()},
        body=text.encode(),
    )


def update_broker_config(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_BROKER_CONFIG (25): all of the named settings or none; the others need a restart."""
    live = broker.config
    before = {**to_properties(live.broker), **to_properties(broker.store_config)}
    try:
        properties = read_changes(
            command.body, HOT_KEYS | STORE_HOT_KEYS, frozenset(all_settings(broker)), "a broker (25)"
        )
        changed, store_config = replaced(live.broker, properties), replaced(broker.store_config, properties)
        check(changed, live.namesrv)
    except ConfigError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
    broker.change_properties(properties)
    is_permission_changed = changed.broker_permission != live.broker.broker_permission
    live.broker = changed
    broker.store.reconfigure(store_config)
    broker.sender.settings_changed()
    if is_permission_changed:
        broker.topics.announce(now_ms)
    logger.info(
        "settings changed properties=%s before=%s", properties, {key: before[key] for key in properties}
    )
    return Saved(command.response(ResponseCode.SUCCESS))


def get_timer_check_point(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_TIMER_CHECK_POINT (60)."""
    if not broker.timer.is_running:
        raise error_for(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
    return command.response(ResponseCode.SUCCESS, body=broker.timer.progress().encode())


def get_timer_metrics(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_TIMER_METRICS (61): messages that wait, by topic."""
    if not broker.timer.is_running:
        raise error_for(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
    return command.response(ResponseCode.SUCCESS, body=broker.timer.metrics.document())


def view_broker_stats_data(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """VIEW_BROKER_STATS_DATA (315)."""
    header = ViewBrokerStatsRequestHeader.from_ext_fields(command.ext_fields)
    item = broker.stats.find(header.stats_name, header.stats_key)
    if item is None:
        raise error_for(
            ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
        )
    minute, hour, day = (
        BrokerStatsItem(sum=shot.sum, tps=shot.tps, avgpt=shot.avgpt)
        for shot in map(snapshot, (item.minute, item.hour, item.day))
    )
    body = BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def get_all_producer_info(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_ALL_PRODUCER_INFO (328)."""
    data = {
        group: [
            ProducerInfo(
                client_id=p.client_id,
                remote_ip=p.channel.remote_address[0],
                language=p.language,
                version=p.version,
                last_update_timestamp=p.last_update_ms,
            )
            for p in members.values()
        ]
        for group, members in broker.producers.groups.items()
    }
    return command.response(ResponseCode.SUCCESS, body=ProducerTableInfo(data=data).to_body())


def get_ha_status(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """GET_BROKER_HA_STATUS (907): of a master its slaves, of a slave its own way."""
    return command.response(ResponseCode.SUCCESS, body=broker.ha.runtime_info().to_body())


def member_to_ask(broker: Broker, group: str, client_id: str) -> ClientChannelInfo:
    info = broker.consumers.get(group)
    member = info.find(client_id) if info is not None else None
    if member is None:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    if member.version < RELAY_VERSION:
        raise error_for(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{group}> <{client_id}> Version is too low to finish, please upgrade it",
        )
    return member


def relay(
    broker: Broker,
    channel: Channel,
    command: RemotingCommand,
    header: GetConsumerRunningInfoRequestHeader | ConsumeMessageDirectlyRequestHeader,
    body: bytes = b"",
) -> None:
    """Relay a request to a group's member and its answer back under the requester's opaque; 207 when it is silent."""
    group, client_id = header.consumer_group, header.client_id or ""
    member = member_to_ask(broker, group, client_id)

    async def ask() -> None:
        request = RemotingCommand.request(command.code, header.to_ext_fields(), body)
        try:
            response = await member.channel.request(request, RELAY_TIMEOUT_MS)
        except TimeoutError:
            channel.send(
                command.response(
                    ResponseCode.CONSUME_MSG_TIMEOUT,
                    f"consumer <{group}> <{client_id}> Timeout: no answer within {RELAY_TIMEOUT_MS} ms",
                )
            )
        except ChannelClosed as error:
            channel.send(
                command.response(
                    ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {error}"
                )
            )
        else:
            answer = command.response(response.code, response.remark, response.ext_fields, response.body)
            channel.send(answer)

    broker.spawn(ask())


def get_consumer_running_info(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> None:
    """GET_CONSUMER_RUNNING_INFO (307), relayed."""
    relay(broker, channel, command, GetConsumerRunningInfoRequestHeader.from_ext_fields(command.ext_fields))


def consume_message_directly(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> None:
    """CONSUME_MESSAGE_DIRECTLY (309), relayed with the stored message."""
    header = ConsumeMessageDirectlyRequestHeader.from_ext_fields(command.ext_fields)
    group = header.consumer_group
    member_to_ask(broker, group, header.client_id or "")
    try:
        _, _, offset = decode_offset_message_id(header.msg_id or "")
    except (ValueError, RemotingError) as error:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"msgId {header.msg_id}: {error}") from error
    record = look(broker, offset)
    view = broker.store.look_message(offset)
    assert view is not None  # look has just read it
    topic = broker.topics.get(record.topic)
    config = broker.groups.get(group)
    header.broker_name = broker.broker_name
    header.topic_sys_flag = topic.topic_sys_flag if topic is not None else 0
    header.group_sys_flag = config.group_sys_flag if config is not None else 0
    relay(broker, channel, command, header, bytes(view))


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: get_runtime_info,
    RequestCode.GET_BROKER_CONFIG: get_broker_config,
    RequestCode.UPDATE_BROKER_CONFIG: update_broker_config,
    RequestCode.GET_TIMER_CHECK_POINT: get_timer_check_point,
    RequestCode.GET_TIMER_METRICS: get_timer_metrics,
    RequestCode.VIEW_BROKER_STATS_DATA: view_broker_stats_data,
    RequestCode.GET_ALL_PRODUCER_INFO: get_all_producer_info,
    RequestCode.GET_BROKER_HA_STATUS: get_ha_status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: get_consumer_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_message_directly,
}
