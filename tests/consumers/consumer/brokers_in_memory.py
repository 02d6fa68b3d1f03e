"""Brokers in memory and time that jumps: real push consumers run minutes of a schedule in milliseconds.

Everything of a consumer is the real one but its sockets (`SimulatedRemoting`) and the time (`TimeJumper`): the event
loop has no file to wait for, so that its next timer is due at once.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.client import ConsumerListBody
from brokerd.remoting.body.route import BrokerData, QueueData, TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.hosts import encode_host
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.queue import MessageQueue
from brokerd.store.log.record import encode_record, encode_topic
from consumers.errors import BrokerUnavailable, ClientClosed, RemotingTimeout

GROUP, TOPIC, RETRY = "billing", "orders", "%RETRY%billing"
NAME_SERVER = "names:9876"
HOST = encode_host(("127.0.0.1", 1))
MEMBER_EXPIRES_S = 120  # ClientManager: a member without a heartbeat for so long has left
LOCK_EXPIRES_S = 60  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME


class TimeJumper(selectors.SelectSelector):
    """Waits for no file: a wait ends at once, that much later."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing will ever happen"
        self.now_s += max(timeout, 0)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time."""

    def __init__(self) -> None:
        self._jumper = TimeJumper()
        super().__init__(self._jumper)

    def time(self) -> float:
        return self._jumper.now_s


@dataclass
class Broker:
    """One broker: stored records, committed offsets, members by their last heartbeat, locks with their time."""

    addr: str
    name: str
    records: dict[MessageQueue, list[bytes]]
    offsets: dict[MessageQueue, int] = field(default_factory=dict)
    members: dict[str, float] = field(default_factory=dict)
    locks: dict[MessageQueue, tuple[str, float]] = field(default_factory=dict)
    arrived: dict[MessageQueue, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def present(self, now_s: float) -> list[str]:
        """Drop members whose heartbeats ended, return the others."""
        self.members = {one: at for one, at in self.members.items() if now_s - at <= MEMBER_EXPIRES_S}
        return sorted(self.members)


class World:
    """The cluster, which connections are cut, and what is done with each message.

    `done`: offsets of messages that a handler finished or a broker took back. A commit past any other is recorded in
    `broken`.
    """

    def __init__(self, seed: int, queues: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a schedule that can be repeated
        self.loop = asyncio.get_running_loop()
        self.brokers = {}
        for number in range(self.random.randint(1, 2)):
            name = f"broker-{number}"
            owned = [MessageQueue(TOPIC, name, one) for one in range(queues)] + [MessageQueue(RETRY, name, 0)]
            self.brokers[f"{name}:10911"] = Broker(f"{name}:10911", name, {one: [] for one in owned})
        self.done: dict[MessageQueue, set[int]] = defaultdict(set)
        self.stored: list[tuple[MessageQueue, int]] = []
        self.cut: set[tuple[str, str]] = set()
        self.dead: set[str] = set()
        self.remotings: dict[str, SimulatedRemoting] = {}
        self.broken: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def queues(self) -> list[MessageQueue]:
        return sorted(queue for broker in self.brokers.values() for queue in broker.records)

    def broker_of(self, queue: MessageQueue) -> Broker:
        return self.brokers[f"{queue.broker_name}:10911"]

    def store(self, queue: MessageQueue) -> None:
        """Append a message to a queue; long polls end."""
        broker = self.broker_of(queue)
        offset, log_offset = len(broker.records[queue]), len(self.stored)
        properties = encode_properties({"UNIQ_KEY": f"key-{log_offset}-"})
        place = (queue.queue_id, offset, log_offset)
        record = encode_record(
            encode_topic(queue.topic), *place, b"body", properties, 0, 0, 0, HOST, 0, HOST, 0, 0
        )
        broker.records[queue].append(record)
        self.stored.append((queue, offset))
        broker.arrived.pop(queue, asyncio.Event()).set()

    def commit(self, client_id: str, queue: MessageQueue, offset: int) -> None:
        """Store an offset, as brokers do: whatever it is."""
        done = self.done[queue]
        missing = [one for one in range(offset) if one not in done]
        if missing:
            self.broken.append(f"{client_id} committed {offset} of {queue}: {missing[:3]} not consumed")
        self.broker_of(queue).offsets[queue] = offset

    def notify(self, broker: Broker, but: str) -> None:
        """Report a change of members to the others (NOTIFY_CONSUMER_IDS_CHANGED)."""
        for client_id in broker.present(self.loop.time()):
            remoting = self.remotings[client_id]
            if (
                client_id != but
                and broker.addr in remoting.connected
                and not self.is_cut(client_id, broker.addr)
            ):
                command = RemotingCommand.request(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": GROUP}, oneway=True
                )
                self.spawn(remoting.processors[command.code](command, broker.addr))

    def remove(self, broker: Broker, client_id: str) -> None:
        if broker.members.pop(client_id, None) is not None:
            self.notify(broker, client_id)

    def is_cut(self, client_id: str, addr: str) -> bool:
        return (client_id, addr) in self.cut

    def spawn(self, step: Awaitable[None]) -> None:
        task = asyncio.ensure_future(step)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class SimulatedRemoting:
    """Stands for RemotingClient: requests take their time, and fail or lose their answer where a connection is cut."""

    def __init__(self, world: World, client_id: str) -> None:
        self.world, self.client_id = world, client_id
        self.processors: dict[int, Callable[[RemotingCommand, str], Awaitable[None]]] = {}
        self.greeting: Callable[[str], RemotingCommand | None] | None = None
        self.connection_ended: Callable[[str], None] | None = None
        self.connected: set[str] = set()
        self.is_closed = False
        world.remotings[client_id] = self

    def connected_addrs(self) -> list[str]:
        return sorted(self.connected)

    async def close(self) -> None:
        self.is_closed = True
        for addr in sorted(self.connected & self.world.brokers.keys()):
            self.world.remove(self.world.brokers[addr], self.client_id)
        self.connected.clear()

    def lose(self, addr: str) -> None:
        """End the connection, and the client notices."""
        if addr in self.connected:
            self.connected.discard(addr)
            assert self.connection_ended is not None
            self.connection_ended(addr)

    async def invoke(
        self, addr: str, command: RemotingCommand, timeout_ms: int | None = None
    ) -> RemotingCommand:
        await self._travel(addr, command, timeout_ms or 3_000)
        response = await self._answer(addr, command)
        await self._travel(addr, command, timeout_ms or 3_000)
        return response

    async def invoke_oneway(self, addr: str, command: RemotingCommand, timeout_ms: int | None = None) -> None:
        """Written to the socket: it arrives later, or never."""
        if self.client_id in self.world.dead:
            await asyncio.Event().wait()
        if self.is_closed:
            raise ClientClosed("closed")
        if addr not in self.connected:
            raise BrokerUnavailable(addr, "not connected")
        self.world.spawn(self._deliver(addr, command))

    async def _deliver(self, addr: str, command: RemotingCommand) -> None:
        await asyncio.sleep(self.world.random.choice((0.001, 0.01, 0.5, 3)))
        if not self.world.is_cut(self.client_id, addr):
            await self._answer(addr, command)

    async def _travel(self, addr: str, command: RemotingCommand, timeout_ms: int) -> None:
        world = self.world
        if self.client_id in world.dead:
            await asyncio.Event().wait()
        if self.is_closed:
            raise ClientClosed("closed")
        if world.is_cut(self.client_id, addr):
            if addr not in self.connected or world.random.random() < 0.3:
                self.lose(addr)
                raise BrokerUnavailable(addr, "cut")
            await asyncio.sleep(timeout_ms / 1000)
            raise RemotingTimeout(addr, command.code, timeout_ms)
        if addr not in self.connected:
            self.connected.add(addr)
            assert self.greeting is not None
            if (greeting := self.greeting(addr)) is not None:
                await self._answer(addr, greeting)
        await asyncio.sleep(world.random.choice((0.001, 0.003, 0.02)))

    async def _answer(self, addr: str, command: RemotingCommand) -> RemotingCommand:
        if addr == NAME_SERVER:
            return command.response(0, body=self._route(command.ext_fields["topic"]).to_body())
        broker = self.world.brokers[addr]
        if command.code == RequestCode.PULL_MESSAGE:
            return await self._pull(broker, command)
        return ANSWERS[command.code](self, broker, command)

    def _route(self, topic: str) -> TopicRouteData:
        counts = [
            (broker, sum(queue.topic == topic for queue in broker.records))
            for broker in self.world.brokers.values()
        ]
        return TopicRouteData(
            broker_datas=[
                BrokerData(cluster="c", broker_name=one.name, broker_addrs={0: one.addr}) for one, _ in counts
            ],
            queue_datas=[
                QueueData(
                    broker_name=one.name, read_queue_nums=n, write_queue_nums=n, perm=6, topic_sys_flag=0
                )
                for one, n in counts
            ],
        )

    async def _pull(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields
        queue = _queue(broker, fields)
        if int(fields["sysFlag"]) & 1:
            self.world.commit(self.client_id, queue, int(fields["commitOffset"]))
        offset, records = int(fields["queueOffset"]), broker.records[queue]
        if offset >= len(records):
            try:
                async with asyncio.timeout(int(fields["suspendTimeoutMillis"]) / 1000):
                    await broker.arrived[queue].wait()
            except TimeoutError:
                pass
        given = records[offset : offset + int(fields["maxMsgNums"])]
        answer = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(offset + len(given)),
            "minOffset": "0",
            "maxOffset": str(len(records)),
        }
        code = ResponseCode.SUCCESS if given else ResponseCode.PULL_NOT_FOUND
        return command.response(code, ext_fields=answer, body=b"".join(given))

    def heartbeat(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        is_new = self.client_id not in broker.present(self.world.loop.time())
        broker.members[self.client_id] = self.world.loop.time()
        if is_new:
            self.world.notify(broker, self.client_id)
        return command.response(0)

    def unregister(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        self.world.remove(broker, self.client_id)
        return command.response(0)

    def list_members(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        members = broker.present(self.world.loop.time())
        if not members:
            return command.response(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        return command.response(0, body=ConsumerListBody(consumer_id_list=members).to_body())

    def query_offset(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        offset = broker.offsets.get(_queue(broker, command.ext_fields), 0)
        return command.response(0, ext_fields={"offset": str(offset)})

    def update_offset(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields
        self.world.commit(self.client_id, _queue(broker, fields), int(fields["commitOffset"]))
        return command.response(0)

    def take_back(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        queue, offset = self.world.stored[int(command.ext_fields["offset"])]
        return self._repeat(broker, queue, offset, command)

    def send(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        """A copy to the retry topic: its key names the message."""
        words = " ".join(command.ext_fields.values())
        queue, offset = self.world.stored[int(words.partition("key-")[2].partition("-")[0])]
        return self._repeat(broker, queue, offset, command)

    def _repeat(
        self, broker: Broker, queue: MessageQueue, offset: int, command: RemotingCommand
    ) -> RemotingCommand:
        self.world.store(MessageQueue(RETRY, broker.name, 0))
        self.world.done[queue].add(offset)
        answer = {"msgId": "0", "queueId": "0", "queueOffset": "0"}
        return command.response(0, ext_fields=answer)

    def lock(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        now_s, granted = self.world.loop.time(), []
        for queue in LockBatchRequestBody.from_body(command.body).mq_set:
            holder, at_s = broker.locks.get(queue, (self.client_id, now_s))
            if holder == self.client_id or now_s - at_s > LOCK_EXPIRES_S:
                broker.locks[queue] = (self.client_id, now_s)
                granted.append(queue)
        return command.response(0, body=LockBatchResponseBody(granted).to_body())

    def unlock(self, broker: Broker, command: RemotingCommand) -> RemotingCommand:
        for queue in UnlockBatchRequestBody.from_body(command.body).mq_set:
            if broker.locks.get(queue, ("", 0))[0] == self.client_id:
                del broker.locks[queue]
        return command.response(0)


def _queue(broker: Broker, fields: Mapping[str, str]) -> MessageQueue:
    return MessageQueue(fields["topic"], broker.name, int(fields["queueId"]))


ANSWERS: dict[int, Callable[[SimulatedRemoting, Broker, RemotingCommand], RemotingCommand]] = {
    RequestCode.HEART_BEAT: SimulatedRemoting.heartbeat,
    RequestCode.UNREGISTER_CLIENT: SimulatedRemoting.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: SimulatedRemoting.list_members,
    RequestCode.QUERY_CONSUMER_OFFSET: SimulatedRemoting.query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: SimulatedRemoting.update_offset,
    RequestCode.CONSUMER_SEND_MSG_BACK: SimulatedRemoting.take_back,
    RequestCode.SEND_MESSAGE_V2: SimulatedRemoting.send,
    RequestCode.LOCK_BATCH_MQ: SimulatedRemoting.lock,
    RequestCode.UNLOCK_BATCH_MQ: SimulatedRemoting.unlock,
}
