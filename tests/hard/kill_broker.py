"""kill -9 of a real brokerd at random moments under load over the wire; small files, so that everything rolls.

A round starts one broker and kills it three times. After each kill, and sometimes another one in the middle of the
start: every acknowledged message is at its offset with its body, no queue has a gap, no message is there twice, a
batch is there whole or not at all, keys find their messages, a tag's subscriber gets all of its messages, committed
offsets are as old as the saving interval at most; a transaction that ended stays ended, its message is there once or
never, and every other half message can still be committed or rolled back, whether it was checked or not; a message
for a time is delivered once, not before it, and not when it was recalled; at the end a POP group gets every message
that it has not acknowledged. That holds for SYNC_FLUSH and for ASYNC_FLUSH: kill -9 takes nothing that was written to
the page cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.running import RawClient, pull_fields, send_fields
from tests.hard.tally import main
from tests.support import timer_ledger
from tests.support.apache_cluster import Jvm
from tests.support.broker_process import BrokerProcess
from tests.support.pop_ledger import PopLedger
from tests.support.timer_ledger import TimerLedger
from tests.support.transaction_ledger import TransactionLedger, register_producer

KILLS = 3
CONNECTIONS = 3
IN_FLIGHT = 8  # sends of one connection that wait for their answer
TRANSACTIONS_IN_FLIGHT = 3
TIMERS_IN_FLIGHT = 3
BATCH = 4
TOPICS = ("Orders", "%RETRY%g")
QUEUES = 4
SAVING_MS = 300  # of committed offsets; 5 s by default
SAVING_LATE_MS = 1_500  # on a machine with other work
KEYS_MAX = 40  # looked up after each kill
Place = tuple[str, int, int]  # topic, queue id, queue offset


@dataclass(slots=True)
class Ledger:
    """What the clients know."""

    acknowledged: dict[Place, str] = field(default_factory=dict)  # → the message's name
    batches: dict[str, list[str]] = field(default_factory=dict)  # all that were sent
    commits: list[tuple[float, int]] = field(default_factory=list)  # acknowledged: (monotonic s, offset)
    transactions: TransactionLedger = field(default_factory=TransactionLedger)
    timers: TimerLedger = field(default_factory=TimerLedger)
    pops: PopLedger = field(default_factory=PopLedger)
    sent: int = 0


class Load:
    """Clients that send until their connections break."""

    def __init__(self, address: str, ledger: Ledger, chance: random.Random) -> None:
        self._address, self._ledger, self._chance = address, ledger, chance

    def works(self, clients: list[RawClient]) -> list[Coroutine[None, None, None]]:
        """What goes on until the kill."""
        works = [self._send(client) for client in clients[2:] for _ in range(IN_FLIGHT)]
        works += [self._ledger.pops.consume(clients[1], self._chance), self._commit(clients[0])]
        works += [self._transact(clients[0]) for _ in range(TRANSACTIONS_IN_FLIGHT)]
        return works + [self._send_timed(clients[0]) for _ in range(TIMERS_IN_FLIGHT)]

    async def run_until_ended(
        self, process: BrokerProcess | Jvm, after_s: float, ending: signal.Signals = signal.SIGKILL
    ) -> float:
        """End the broker after a while; return when that was. The load goes on until its connections close."""
        clients = [await RawClient.connect(self._address) for _ in range(CONNECTIONS + 2)]
        tasks = [asyncio.create_task(work) for work in self.works(clients)]
        await self._until_end(after_s)
        ended_s = time.monotonic()
        assert process.process is not None
        process.process.send_signal(ending)
        # Answers that were on their way count: their senders were told.
        await asyncio.wait_for(asyncio.gather(*(client.is_closed.wait() for client in clients)), 30)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, AssertionError):
                raise result  # an answer that should have been another
        for client in clients:
            await client.close()
        process.process.wait()
        return ended_s

    async def _until_end(self, after_s: float) -> None:
        await asyncio.sleep(after_s)

    async def _send(self, client: RawClient) -> None:
        while not client.is_closed.is_set():
            topic, queue_id = self._chance.choice(TOPICS), self._chance.randrange(QUEUES)
            if topic != "Orders":  # killed before it was saved, it has as many queues as the log tells of
                queue_id = 0
            if topic == "Orders" and self._chance.random() < 0.25:
                await self._send_batch(client, topic, queue_id)
            else:
                await self._send_one(client, topic, queue_id)

    def _message(self, topic: str, batch: str = "-") -> tuple[str, Message]:
        self._ledger.sent += 1
        name = f"m{self._ledger.sent}"
        body = f"{name} {batch} ".encode() + self._chance.randbytes(self._chance.choice([0, 40, 700]))
        properties = {"KEYS": name, "TAGS": f"tag{self._ledger.sent % 2}", "UNIQ_KEY": f"{name:>032}"}
        return name, Message(topic, body, properties)

    async def _send_one(self, client: RawClient, topic: str, queue_id: int) -> None:
        name, message = self._message(topic)
        properties = "".join(f"{key}\x01{value}\x02" for key, value in message.properties.items())
        fields = send_fields(topic, queue_id=queue_id, properties=properties)
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, message.body)
        assert answer.code == 0, answer
        self._ledger.acknowledged[topic, queue_id, int(answer.ext_fields["queueOffset"])] = name

    async def _send_batch(self, client: RawClient, topic: str, queue_id: int) -> None:
        batch = f"b{self._ledger.sent}"
        messages = [self._message(topic, batch) for _ in range(BATCH)]
        self._ledger.batches[batch] = [name for name, _ in messages]
        fields = send_fields(topic, queue_id=queue_id, m="true")
        body = encode_batch([message for _, message in messages])
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)
        assert answer.code == 0, answer
        first = int(answer.ext_fields["queueOffset"])
        for number, (name, _) in enumerate(messages):
            self._ledger.acknowledged[topic, queue_id, first + number] = name

    async def _transact(self, client: RawClient) -> None:
        await register_producer(client)
        while not client.is_closed.is_set():
            _, message = self._message("Orders")
            await self._ledger.transactions.produce(
                client, message, self._chance.randrange(QUEUES), self._chance
            )

    async def _send_timed(self, client: RawClient) -> None:
        while not client.is_closed.is_set():
            name, message = self._message(timer_ledger.TOPIC)
            await self._ledger.timers.produce(client, name, message, self._chance)

    async def _commit(self, client: RawClient) -> None:
        offset = self._ledger.commits[-1][1] if self._ledger.commits else 0
        await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "Orders", 0))  # makes the group
        while not client.is_closed.is_set():
            offset += 1
            fields = {"consumerGroup": "g", "topic": "Orders", "queueId": "0", "commitOffset": str(offset)}
            answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
            assert answer.code in (0, 17), answer  # 17: no message has made the topic yet
            if answer.code == 0:
                self._ledger.commits.append((time.monotonic(), offset))
            await asyncio.sleep(0.01)


class Verification:
    """Reads everything back over the wire and compares it with the ledger."""

    def __init__(self, client: RawClient, ledger: Ledger, chance: random.Random) -> None:
        self._client, self._ledger, self._chance = client, ledger, chance

    async def run(self, killed_s: float) -> None:
        await self._check_transactions(await self.check_stored(killed_s))
        await self.check_timers(is_last=False)

    async def check_stored(self, ended_s: float, *, is_saved: bool = False) -> set[str]:
        """Find everything acknowledged, and what the start derives from it; return the visible messages.

        `is_saved`: the broker was stopped, so that every committed offset counts.
        """
        records = await self._pull_queues()
        names = self._names(records)
        wrong = {
            place: (name, names.get(place))
            for place, name in self._ledger.acknowledged.items()
            if names.get(place) != name
        }
        assert not wrong, f"{len(wrong)} acknowledged messages are gone or moved: {list(wrong.items())[:5]}"
        self._check_batches(set(names.values()))
        await self._check_keys(names)
        await self._check_tags(records)
        await self._check_commit(ended_s, is_saved)
        return set(names.values())

    async def check_timers(self, *, is_last: bool) -> None:
        began_s = time.monotonic()
        while missing := self._ledger.timers.check(await self._pull_all(timer_ledger.TOPIC, 0)):
            if not is_last:
                return
            await self._ledger.timers.pause(began_s, missing)

    async def _pull_queues(self) -> dict[tuple[str, int], list[MessageRecord]]:
        return {
            (topic, queue_id): await self._pull_all(topic, queue_id)
            for topic in TOPICS
            for queue_id in range(QUEUES)
        }

    def _names(self, records: dict[tuple[str, int], list[MessageRecord]]) -> dict[Place, str]:
        names: dict[Place, str] = {}
        for (topic, queue_id), found in records.items():
            offsets = [record.queue_offset for record in found]
            assert offsets == list(range(len(found))), f"{topic} {queue_id}: a gap or a double: {offsets}"
            for record in found:
                names[topic, queue_id, record.queue_offset] = record.body.split(b" ")[0].decode()
        assert len(set(names.values())) == len(names), "a message is there twice"
        return names

    async def _check_transactions(self, names: set[str]) -> None:
        transactions = self._ledger.transactions
        transactions.check_visible(names)
        await transactions.settle(self._client, names, self._chance)
        transactions.check_visible(set(self._names(await self._pull_queues()).values()))

    async def _pull_all(self, topic: str, queue_id: int, tag: str = "*") -> list[MessageRecord]:
        found: list[MessageRecord] = []
        offset = 0
        while True:
            fields = pull_fields("reader", topic, offset, queue_id=queue_id, subscription=tag)
            answer = await self._client.ask(RequestCode.PULL_MESSAGE, fields)
            # The topic was not made, or made anew with the queues that have messages.
            if answer.code in (17, 29):
                return found
            assert answer.code in (0, 19, 20, 21), answer
            if answer.code == 0:
                found += decode_records(answer.body, check_crc=True)
            following = int(answer.ext_fields["nextBeginOffset"])
            if (
                following <= offset
                or following >= int(answer.ext_fields["maxOffset"]) > 0
                and answer.code != 0
            ):
                return found
            offset = following

    def _check_batches(self, present: set[str]) -> None:
        for batch, names in self._ledger.batches.items():
            there = sum(name in present for name in names)
            assert there in (0, len(names)), (
                f"{there} of the {len(names)} messages of batch {batch} are there"
            )

    async def _check_keys(self, names: dict[Place, str]) -> None:
        chosen = self._chance.sample(sorted(names.items()), min(KEYS_MAX, len(names)))
        for (topic, queue_id, offset), name in chosen:
            fields = {
                "topic": topic,
                "key": name,
                "maxNum": "32",
                "beginTimestamp": "0",
                "endTimestamp": str(2**62),
            }
            answer = await self._client.ask(RequestCode.QUERY_MESSAGE, fields)
            assert answer.code == 0, f"key {name} is not found: {answer}"
            places = [(each.queue_id, each.queue_offset) for each in decode_records(answer.body)]
            assert (queue_id, offset) in places, f"key {name} leads to {places}"

    async def _check_tags(self, records: dict[tuple[str, int], list[MessageRecord]]) -> None:
        for (topic, queue_id), found in records.items():
            tagged = await self._pull_all(topic, queue_id, "tag1")
            wanted = [each.queue_offset for each in found if each.properties["TAGS"] == "tag1"]
            assert [each.queue_offset for each in tagged] == wanted, (
                f"{topic} {queue_id}: a subscriber of tag1"
            )

    async def _check_commit(self, ended_s: float, is_saved: bool) -> None:
        limit_s = math.inf if is_saved else ended_s - (SAVING_MS + SAVING_LATE_MS) / 1000
        old = [offset for at_s, offset in self._ledger.commits if at_s < limit_s]
        fields = {"consumerGroup": "g", "topic": "Orders", "queueId": "0"}
        answer = await self._client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        known = int(answer.ext_fields["offset"]) if answer.code == 0 else 0
        late = f"committed offset {known} ({answer.code} {answer.remark}), {max(old, default=0)} was committed before"
        assert known >= max(old, default=0), late
        self._ledger.commits = [(ended_s, known)]  # later ones went with the kill


def run_round(seed: int) -> str:
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="kill-broker-"))
    flush = chance.choice(["SYNC_FLUSH", "ASYNC_FLUSH"])
    process = BrokerProcess(
        folder / "store",
        flushDiskType=flush,
        mappedFileSizeCommitLog=65_536,
        mappedFileSizeConsumeQueue=2_000,
        maxMessageSize=16_384,
        maxHashSlotNum=50,
        maxIndexNum=300,
        flushConsumerOffsetInterval=SAVING_MS,
        flushConsumeQueueThoroughInterval=chance.choice([100, 700, 60_000]),
        mappedFileSizeTimerLog=4_096,
        timerFlushIntervalMs=chance.choice([100, 1_000]),
        recallMessageEnable="true",
        transactionTimeOut=100,
        transactionCheckInterval=300,
        transactionCheckMax=10_000,
        compiledSends="true" if seed % 2 else "false",
    )
    try:
        return asyncio.run(kill_again_and_again(process, flush, chance))
    finally:
        process.stop()
        shutil.rmtree(folder)


async def kill_again_and_again(process: BrokerProcess, flush: str, chance: random.Random) -> str:
    ledger, in_start = Ledger(), 0
    process.start()
    for number in range(KILLS):
        load = Load(process.address, ledger, chance)
        killed_s = await load.run_until_ended(process, chance.uniform(0.02, 0.8))
        if chance.random() < 0.3:
            in_start += kill_in_start(process, chance.uniform(0.1, 1.0))
        process.start()
        client = await RawClient.connect(process.address)
        verification = Verification(client, ledger, chance)
        await verification.run(killed_s)
        if number == KILLS - 1:
            await verification.check_timers(is_last=True)
        await client.close()
    client = await RawClient.connect(process.address)
    sent = {name for (topic, *_), name in ledger.acknowledged.items() if topic == "Orders"}
    await ledger.pops.drain(client, sent)
    await client.close()
    if not ledger.acknowledged:
        return f"{flush}: killed before any answer"
    return f"{flush}: {KILLS} kills" + (f" and {in_start} in the start" if in_start else "")


def kill_in_start(process: BrokerProcess, after_s: float) -> int:
    """Start and kill after a while, ready or not; 1 when it was not ready yet."""
    process.process = None

    def kill() -> None:
        if process.process is not None:
            process.process.kill()

    timer = threading.Timer(after_s, kill)
    timer.start()
    with contextlib.suppress(AssertionError):
        process.start()
        timer.join()
        assert process.process is not None
        process.process.kill()  # the timer may have come before there was a process
        process.process.wait()
        return 0
    timer.join()
    return 1


if __name__ == "__main__":
    main("kill_broker", run_round, rounds=100)
