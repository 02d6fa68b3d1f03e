"""Traffic of which every message and commit is known, to compare the console's figures with the truth.

A member that only sends heartbeats stands for the group, so that no client commits offsets of its own. Times are
epoch milliseconds of this machine, which is the brokers' clock too. Each fact has a time before and after its
request: in between, it may or may not hold yet.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from brokerd.remoting.body.client import ConsumerData, HeartbeatData, SubscriptionData
from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.message import Message
from consumers.admin.mqadmin import MQAdmin
from consumers.client.remoting_client import RemotingClient
from consumers.producer.send_result import SendResult

T = TypeVar("T")
TICK_S = 0.5
HEARTBEAT_S = 10.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Steps:
    """A number that changed at known times: `before_ms[i]` to `after_ms[i]` it became `values[i]`."""

    before_ms: list[int] = field(default_factory=list)
    after_ms: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, before_ms: int, after_ms: int, value: int) -> None:
        self.before_ms.append(before_ms)
        self.after_ms.append(after_ms)
        self.values.append(value)

    def between(self, from_ms: int, to_ms: int) -> list[int]:
        """Every value that it may have had in [from_ms, to_ms]."""
        first = max(bisect_right(self.after_ms, from_ms) - 1, 0)
        last = bisect_right(self.before_ms, to_ms)
        return self.values[first:last]


@dataclass(slots=True)
class KnownQueue:
    """One queue. `rate` messages arrive in a second; `keep` of them stay unread, or `reads` are read in a second.

    Positions count every message since the test began. The broker counts from `base` on, as a topic that is made again
    begins at 0: what its earlier life held is read then.
    """

    broker_name: str
    addr: str
    queue_id: int
    rate: float = 0.0
    keep: int | None = 0
    reads: float = 0.0
    is_away: bool = False
    base: int = 0
    is_stale: bool = False
    maximum: Steps = field(default_factory=Steps)
    committed: Steps = field(default_factory=Steps)
    stored_ms: list[int] = field(default_factory=list)
    consumed: int = 0
    due: float = 0.0
    readable: float = 0.0

    @property
    def produced(self) -> int:
        return self.maximum.values[-1]

    @property
    def offset(self) -> int:
        return self.committed.values[-1]

    def lag_between(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """The least and the most messages that waited at some moment of [from_ms, to_ms]."""
        highest, read = self.maximum.between(from_ms, to_ms), self.committed.between(from_ms, to_ms)
        return max(0, min(highest) - max(read)), max(highest) - min(read)

    def time_lag_between(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """The least and the greatest age of the first unread message at some moment of [from_ms, to_ms]."""
        read = self.committed.between(from_ms, to_ms)
        least, most = min(read), max(read)
        total = len(self.stored_ms)
        return (
            0 if most >= total else max(0, from_ms - self.stored_ms[most]),
            0 if least >= total else max(0, to_ms - self.stored_ms[least]),
        )


class KnownTraffic:
    """Topic `topic` with the same queues on each broker, consumed by `group`; queues may be changed while it runs."""

    def __init__(self, namesrv: str, brokers: dict[str, str], topic: str, group: str, queues: int) -> None:
        self.topic, self.group = topic, group
        self.queues = [
            KnownQueue(name, addr, queue_id) for name, addr in brokers.items() for queue_id in range(queues)
        ]
        self.admin = MQAdmin(namesrv)
        self.member = RemotingClient()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.stopping = False
        self.ticking = asyncio.Lock()
        self.task: Any = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def start(self) -> KnownTraffic:
        self.run(self._prepare())
        self.task = asyncio.run_coroutine_threadsafe(self._keep_going(), self.loop)
        return self

    def queue(self, broker_name: str, queue_id: int) -> KnownQueue:
        return next(one for one in self.queues if (one.broker_name, one.queue_id) == (broker_name, queue_id))

    def set_offset(self, queue: KnownQueue, offset: int) -> None:
        """Move the group as an operator of another console would: not a consumption."""
        self.run(self._commit(queue, offset))

    def burst(self, queue: KnownQueue, count: int) -> None:
        """Send messages in one go, between two ticks: steps are known in the order in which they began."""
        self.run(self._burst(queue, count))

    def make_again(self, *, stale: bool = False) -> None:
        """Delete the topic under load and recreate it at once, unchanged.

        With `stale` the member does not detect it: until `notice` it only commits its old position, beyond the new
        topic's end.
        """
        self.run(self._make_again(stale))

    def notice(self) -> None:
        """Commit the true positions again."""
        for queue in self.queues:
            queue.is_stale = False

    def close(self) -> None:
        self.stopping = True
        if self.task is not None:
            self.task.result(60)
        self.run(self.admin.close())
        self.run(self.member.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    async def _burst(self, queue: KnownQueue, count: int) -> None:
        async with self.ticking:
            await self._send(queue, count)

    async def _create_topic(self) -> None:
        count = 1 + max(one.queue_id for one in self.queues)
        for addr in {one.addr for one in self.queues}:
            await self.admin.create_topic(addr, TopicConfig(self.topic, count, count, 6))

    async def _make_again(self, stale: bool) -> None:
        async with self.ticking:
            before_ms = now_ms()
            for addr in {one.addr for one in self.queues}:
                await self.admin.delete_topic(addr, self.topic)
            await self._create_topic()
            for queue in self.queues:
                stood, queue.base, queue.is_stale = queue.offset - queue.base, queue.produced, stale
                if stale:
                    await self._set(queue, stood)
                queue.committed.add(before_ms, now_ms(), queue.base)

    async def _prepare(self) -> None:
        await self._create_topic()
        for addr in {one.addr for one in self.queues}:
            await self.admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name=self.group))
        for queue in self.queues:
            queue.maximum.add(0, 0, 0)
            await self._commit(queue, 0)
            queue.committed.before_ms[0] = queue.committed.after_ms[0] = 0

    async def _keep_going(self) -> None:
        heartbeat_s = 0.0
        while not self.stopping:
            began = time.monotonic()
            if began - heartbeat_s >= HEARTBEAT_S:
                heartbeat_s = began
                await self._heartbeat()
            async with self.ticking:
                for queue in self.queues:
                    if not queue.is_away:
                        await self._tick(queue)
            await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - began)))

    async def _heartbeat(self) -> None:
        consumer = ConsumerData(
            group_name=self.group, subscription_data_set=[SubscriptionData(topic=self.topic)]
        )
        body = HeartbeatData(client_id="127.0.0.1@known", consumer_data_set=[consumer]).to_body()
        for addr in {one.addr for one in self.queues if not one.is_away}:
            await self.member.invoke(addr, RemotingCommand.request(RequestCode.HEART_BEAT, {}, body))

    async def _tick(self, queue: KnownQueue) -> None:
        queue.due += queue.rate * TICK_S
        await self._send(queue, int(queue.due))
        queue.due -= int(queue.due)
        if queue.keep is not None:
            target = max(queue.offset, queue.produced - queue.keep)
        else:
            queue.readable += queue.reads * TICK_S
            target = min(queue.produced, queue.offset + int(queue.readable))
            queue.readable -= int(queue.readable)
        if target > queue.offset and not queue.is_stale:
            queue.consumed += target - queue.offset
            await self._commit(queue, target)

    async def _send(self, queue: KnownQueue, count: int) -> None:
        if not count:
            return
        before_ms = now_ms()
        batch = [(Message(self.topic, b"known", {}), queue.queue_id) for _ in range(count)]
        for result in await self.admin.send_many(queue.addr, batch):
            assert isinstance(result, SendResult), result
        after_ms = now_ms()
        queue.stored_ms += [before_ms] * count
        queue.maximum.add(before_ms, after_ms, queue.produced + count)

    async def _commit(self, queue: KnownQueue, offset: int) -> None:
        before_ms = now_ms()
        await self._set(queue, offset - queue.base)
        queue.committed.add(before_ms, now_ms(), offset)

    async def _set(self, queue: KnownQueue, offset: int) -> None:
        await self.admin.update_consumer_offset(queue.addr, self.group, self.topic, queue.queue_id, offset)
