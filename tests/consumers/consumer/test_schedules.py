"""Random joins, leaves, crashes, partitions and slow handlers: real consumers on simulated brokers and time."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence

import pytest

from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client import client_instance
from consumers.client.client_instance import ClientInstance
from consumers.config import ConsumeFromWhere, PushConsumerConfig, RebalanceMode
from consumers.consumer.consume_message import ConsumeContext, ConsumeStatus
from consumers.consumer.push_consumer import PushConsumer
from tests.consumers.consumer.brokers_in_memory import (
    GROUP,
    NAME_SERVER,
    TOPIC,
    JumpingLoop,
    SimulatedRemoting,
    World,
)

SCHEDULES = 50
EVENTS, SCHEDULE_S = 14, 150
# At most: a vanished member expires after 120 s, its locks after 60 s; then a round, a slow handler and a commit.
SETTLE_S = 260
# An orderly queue is given away 20 s after it was lost, even if its handler still runs.
SLOW_S = {False: 40, True: 12}


class Schedule:
    """One random life of a group. `running`: whose handlers are at work, per queue."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, *, orderly: bool) -> None:
        self.world = World(seed, queues=3)
        self.random = self.world.random
        self.orderly = orderly
        self.monkeypatch = monkeypatch
        self.strategy = self.random.choice(("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"))
        self.batch = self.random.choice((1, 1, 4))
        self.consumers: dict[str, PushConsumer] = {}
        self.joined = 0
        self.is_over = False
        self.running: dict[MessageQueue, list[str]] = defaultdict(list)

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            await self.join()
        actions = (
            self.join,
            self.leave,
            self.crash,
            self.part,
            self.heal,
            self.produce,
            self.produce,
            self.expire,
        )
        for _ in range(EVENTS):
            await self.random.choice(actions)()
            await asyncio.sleep(self.random.choice((0, 0.01, 1, 2 * SCHEDULE_S / EVENTS)))
        self.is_over = True
        await self.heal()
        await self.produce()
        if not self.consumers:
            await self.join()
        for _ in range(SETTLE_S // 10):
            await asyncio.sleep(10)
            if not self.findings():
                return

    async def join(self) -> None:
        if len(self.consumers) == 5:
            return
        self.joined += 1
        # no order of ids and times: a new member may come first, and so move every queue
        client_id = f"{self.random.randint(10, 99)}-{self.joined}"
        self.monkeypatch.setattr(
            client_instance, "RemotingClient", lambda _: SimulatedRemoting(self.world, client_id)
        )
        client = ClientInstance(NAME_SERVER)
        client.client_id = client_id
        config = PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            rebalance_mode=RebalanceMode.CLIENT,
            allocate_strategy=self.strategy,
            consume_message_batch_max_size=self.batch,
            consume_timeout_ms=10_000,
        )

        async def handle(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
            return await self.consume(client_id, messages, context.message_queue)

        consumer = PushConsumer(
            GROUP,
            NAME_SERVER,
            handle,
            {TOPIC: "*"},
            orderly=self.orderly,
            config=config,
            client=client,
            clock=lambda: int(self.world.loop.time() * 1000),
        )
        await consumer.start()
        self.consumers[client_id] = consumer

    async def consume(
        self, client_id: str, messages: Sequence[MessageRecord], queue: MessageQueue
    ) -> ConsumeStatus:
        """Take a while, fail sometimes; a member that crashed finishes nothing."""
        others = [one for one in self.running[queue] if one not in self.world.dead]
        if self.orderly and others:
            self.world.broken.append(f"{client_id} consumes {queue} in order beside {others}")
        self.running[queue].append(client_id)
        try:
            is_slow = self.random.random() < 0.05
            await asyncio.sleep(SLOW_S[self.orderly] if is_slow else self.random.choice((0, 0.02, 0.3)))
            if client_id in self.world.dead:
                await asyncio.Event().wait()
        finally:
            self.running[queue].remove(client_id)
        if not self.is_over and self.random.random() < 0.1:
            failed = ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            return failed if self.orderly else ConsumeStatus.RECONSUME_LATER
        self.world.done[queue].update(message.queue_offset for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async def leave(self) -> None:
        if len(self.consumers) > 1:
            client_id = self.random.choice(sorted(self.consumers))
            consumer = self.consumers.pop(client_id)
            await consumer.close()
            await consumer.client.close()

    async def crash(self) -> None:
        """A process is killed, and brokers see its connections end, or its machine vanishes."""
        if len(self.consumers) > 1:
            client_id = self.random.choice(sorted(self.consumers))
            del self.consumers[client_id]
            self.world.dead.add(client_id)
            if self.random.random() < 0.5:
                for broker in self.world.brokers.values():
                    self.world.remove(broker, client_id)

    async def part(self) -> None:
        """Cut some clients from some brokers; a broker may see the connection end."""
        for client_id in sorted(self.consumers):
            for addr, broker in self.world.brokers.items():
                if self.random.random() < 0.4:
                    self.world.cut.add((client_id, addr))
                    if self.random.random() < 0.5:
                        self.world.remove(broker, client_id)

    async def heal(self) -> None:
        self.world.cut.clear()

    async def produce(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            self.world.store(self.random.choice([one for one in self.world.queues if one.topic == TOPIC]))

    async def expire(self) -> None:
        """The minute's look for handlers that hang."""
        for consumer in self.consumers.values():
            if not self.orderly:
                await consumer._clean_expired()

    def findings(self) -> list[str]:
        """Return what is wrong once everything has settled."""
        found = list(self.world.broken)
        for queue in self.world.queues:
            owners = [
                one for one, consumer in self.consumers.items() if consumer.table.get(queue) is not None
            ]
            if len(owners) != 1:
                found.append(f"{queue} is owned by {owners}")
            broker = self.world.broker_of(queue)
            stored = len(broker.records[queue])
            if len(self.world.done[queue]) != stored or broker.offsets.get(queue, 0) != stored:
                done = len(self.world.done[queue])
                found.append(f"{queue}: {done} done, {broker.offsets.get(queue)} committed of {stored}")
        return found


async def lived(seed: int, monkeypatch: pytest.MonkeyPatch, *, orderly: bool) -> list[str]:
    schedule = Schedule(seed, monkeypatch, orderly=orderly)
    await schedule.run()
    return schedule.findings()


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_queues_have_one_owner_and_offsets_pass_no_message(
    orderly: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # warnings of cut connections are expected; an error would be a defect
    caplog.set_level(logging.ERROR, "consumers")
    for seed in range(SCHEDULES):
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            assert runner.run(lived(seed, monkeypatch, orderly=orderly)) == [], f"schedule {seed}"
        assert [one.getMessage() for one in caplog.records] == [], f"schedule {seed}"
