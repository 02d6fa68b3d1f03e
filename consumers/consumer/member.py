"""What every consumer of a group does beside consuming: timed work, and what it reports of itself (307)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from brokerd.remoting.body.client import ConsumerRunningInfo, ProcessQueueInfo, SubscriptionData
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.consumer.consume_message import ConsumeStatisticsTable
from consumers.consumer.offset_store import OffsetStore
from consumers.consumer.process_queue import ProcessQueueTable
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

VERSION_NAME = "V5_3_3"


async def repeat(group: str, interval_ms: int, step: Callable[[], Awaitable[None]]) -> None:
    """Run `step` every `interval_ms`. Root of a loop that must go on: its errors are logged."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await step()
        except (MQClientError, MQBrokerError) as error:
            logger.warning("%s put off group=%s: %s", step.__name__, group, error)
        except Exception:
            logger.exception("%s failed group=%s", step.__name__, group)


async def cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


def queue_infos(
    table: ProcessQueueTable, offset_store: OffsetStore, now_ms: int
) -> dict[MessageQueue, ProcessQueueInfo]:
    """Return the state of each owned queue; as in Java nothing consumed yet is -1, not offset 0."""
    infos = {}
    for queue in table.values():
        offset = offset_store.read_memory(queue.message_queue)
        infos[queue.message_queue] = queue.info(-1 if offset is None else offset, now_ms)
    return infos


def running_info(
    client: ClientInstance,
    properties: Mapping[str, str],
    subscriptions: Mapping[str, SubscriptionData],
    queues: dict[MessageQueue, ProcessQueueInfo],
    statistics: ConsumeStatisticsTable,
    now_ms: int,
) -> ConsumerRunningInfo:
    """Return GET_CONSUMER_RUNNING_INFO's answer; `properties` come beside those of the client."""
    return ConsumerRunningInfo(
        properties={
            "PROP_NAMESERVER_ADDR": ";".join(client.name_servers.addrs),
            "PROP_CLIENT_VERSION": VERSION_NAME,
            **properties,
        },
        subscription_set=[subscriptions[topic] for topic in sorted(subscriptions)],
        mq_table=queues,
        status_table=statistics.table(now_ms),
    )
