"""A broker is killed under load, another opens its store: Apache 5.3.3 and 4.9.7 to brokerd, brokerd to Apache 5.3.3.

Under load: single sends and batches, delay levels, messages for a time, transactions that are committed, rolled back
and left alone, a consumer that commits offsets. All files are small, so that everything rolls.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from pathlib import Path

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from consumers import LocalTransactionState, MessageRecord, MQAdmin, TransactionProducer
from tests.brokerd.running import RawClient, send_fields
from tests.hard import kill_broker
from tests.hard.kill_broker import Ledger, Load, Verification
from tests.support import transaction_ledger
from tests.support.apache_cluster import OLD_RELEASE, RELEASE, ApacheBroker, ApacheCluster
from tests.support.broker_process import BrokerProcess
from tests.support.transaction_ledger import Decision

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

NAMES = {"brokerName": "broker-a", "brokerClusterName": "apache"}
# A store is opened with the sizes it was made with.
SIZES = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20 * 500,
    "mappedFileSizeTimerLog": 1_040_000,
    "maxMessageSize": 65_536,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2_000,
}
LIVELY = {"flushConsumerOffsetInterval": kill_broker.SAVING_MS, "timerFlushIntervalMs": 1_000}
# The first broker is killed before it would check a transaction; the next one checks soon.
OURS_CHECKS_SOON = {"transactionTimeOut": 1_000, "transactionCheckInterval": 2_000}
# Apache's op messages wait for others: a round before they are stored commits again what was committed.
APACHE_OPS = {"transactionOpBatchInterval": 200}
APACHE_OPS_LATE_S = 1.5  # 4.9.7 and brokerd store them before the answer
APACHE_CHECKS_SOON = {"transactionTimeOut": 1_000, "transactionCheckInterval": 6_000}
LOAD_S = 3.0
PAUSE_S = 0.02  # between the messages of one producer of delayed ones or of transactions
WITHIN_S = 60
ACKNOWLEDGED_MIN = 300  # on the slowest machine; otherwise nothing rolls and nothing is proved
LATER = "Later"
LEVELS_MS = {"1": 1_000, "2": 5_000, "3": 10_000}
# Apache cuts the time of delivery down to its precision.
EARLY_MAX_MS = 1_000


class SwapLoad(Load):
    """The load, without what the other broker promises less of: recalls and POP."""

    def __init__(self, address: str, *, has_timer: bool) -> None:
        self.ledger, self.chance = Ledger(), random.Random(14)
        super().__init__(address, self.ledger, self.chance)
        self.has_timer = has_timer
        self.due_ms: dict[str, int] = {}  # acknowledged and delayed
        self.ended_s: dict[str, float] = {}  # transactions; monotonic
        self.killed_s = 0.0

    def works(self, clients: list[RawClient]) -> list[Coroutine[None, None, None]]:
        sends = [self._send(client) for client in clients[2:] for _ in range(kill_broker.IN_FLIGHT)]
        return [*sends, self._commit(clients[0]), self._transact(clients[0]), self._delay(clients[1])]

    async def _transact(self, client: RawClient) -> None:
        while not client.is_closed.is_set():
            _, message = self._message("Orders")
            queue_id = self.chance.randrange(kill_broker.QUEUES)
            await self.ledger.transactions.produce(client, message, queue_id, self.chance)
            name = message.properties["KEYS"]
            if self.ledger.transactions.halves[name].is_answered:
                self.ended_s[name] = time.monotonic()
            await asyncio.sleep(PAUSE_S)

    async def _delay(self, client: RawClient) -> None:
        while not client.is_closed.is_set():
            name, message = self._message(LATER)
            sent_ms = time.time_ns() // 1_000_000
            if self.has_timer and self.chance.random() < 0.5:
                due_ms = sent_ms + self.chance.randrange(1_000, 12_000)
                message.properties["TIMER_DELIVER_MS"] = str(due_ms)
            else:
                level = self.chance.choice(list(LEVELS_MS))
                due_ms = sent_ms + LEVELS_MS[level]
                message.properties["DELAY"] = level
            properties = "".join(f"{key}\x01{value}\x02" for key, value in message.properties.items())
            fields = send_fields(LATER, properties=properties)
            answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, message.body)
            assert answer.code == 0, answer
            self.due_ms[name] = due_ms
            await asyncio.sleep(PAUSE_S)


class Swap(Verification):
    """What the second broker must serve."""

    def __init__(self, client: RawClient, load: SwapLoad) -> None:
        super().__init__(client, load.ledger, load.chance)
        self._load = load

    async def until_delivered(self) -> None:
        """Every delayed message comes, none before its time; after a kill Apache's may come twice."""
        deadline = time.monotonic() + WITHIN_S
        due_ms = self._load.due_ms
        while True:
            delivered = await self._pull_all(LATER, 0)
            missing = due_ms.keys() - {name_of(record) for record in delivered}
            if not missing:
                break
            assert time.monotonic() < deadline, f"not delivered: {sorted(missing)}"
            await asyncio.sleep(0.5)
        for record in delivered:
            early_ms = due_ms.get(name_of(record), 0) - record.store_timestamp_ms
            assert early_ms <= EARLY_MAX_MS, f"{name_of(record)} came {early_ms} ms early"

    async def until_settled(self, namesrv: str) -> set[str]:
        """Answer the broker's checks; commit what waits. Return which it checked."""
        halves = self._ledger.transactions.halves
        waiting = {half.name for half in halves.values() if half.requested is None}
        assert waiting, "no transaction was pending"
        checked: set[str] = set()

        async def check(record: MessageRecord) -> LocalTransactionState:
            checked.add(record.keys)
            half = halves.get(record.keys)  # none when its answer did not arrive before the kill
            if half is None or half.requested is Decision.ROLLBACK:
                return LocalTransactionState.ROLLBACK
            if half.name not in waiting:
                return LocalTransactionState.UNKNOWN
            half.requested, half.is_answered = Decision.COMMIT, True
            return LocalTransactionState.COMMIT

        async with TransactionProducer(transaction_ledger.GROUP, [namesrv], check):
            deadline = time.monotonic() + WITHIN_S
            while missing := waiting - set(self._names(await self._pull_queues()).values()):
                assert time.monotonic() < deadline, f"neither checked nor committed: {sorted(missing)}"
                await asyncio.sleep(0.5)
        self._ledger.transactions.check_visible(set(self._names(await self._pull_queues()).values()))
        assert waiting <= checked
        return checked

    async def sends_go_on(self, admin: MQAdmin, addr: str) -> None:
        """The next message of each queue goes behind the last one."""
        for topic in kill_broker.TOPICS:
            for queue_id in range(kill_broker.QUEUES):
                end = await admin.max_offset(addr, topic, queue_id)
                answer = await self._client.ask(
                    RequestCode.SEND_MESSAGE_V2, send_fields(topic, queue_id=queue_id), b"next"
                )
                assert (answer.code, answer.ext_fields["queueOffset"]) == (0, str(end)), answer


def name_of(record: MessageRecord) -> str:
    return record.body.split(b" ")[0].decode()


async def load_and_kill(
    broker: BrokerProcess | ApacheBroker, namesrv: str, offsets: Path, *, has_timer: bool
) -> SwapLoad:
    """Make topics and a group, wait until offsets are saved in time, run the load and kill."""
    load = SwapLoad(broker.address, has_timer=has_timer)
    async with MQAdmin([namesrv]) as admin:
        for topic in (*kill_broker.TOPICS, LATER):
            await admin.create_topic(
                broker.address, TopicConfig(topic, kill_broker.QUEUES, kill_broker.QUEUES)
            )
        await admin.create_subscription_group(
            broker.address, SubscriptionGroupConfig(group_name="g", retry_max_times=7)
        )
        # Apache saves them for the first time 10 s after its start.
        await admin.update_consumer_offset(broker.address, "g", "Orders", 0, 1)
    deadline = time.monotonic() + WITHIN_S
    while not offsets.exists() or "Orders@g" not in offsets.read_text():
        assert time.monotonic() < deadline, "offsets are not saved"
        await asyncio.sleep(0.1)
    load.killed_s = await load.run_until_killed(broker, LOAD_S)
    return load


async def check_store(address: str, namesrv: str, load: SwapLoad, ops_late_s: float) -> None:
    """Read everything back from the broker that opened the store, and go on there."""
    assert len(load.ledger.acknowledged) >= ACKNOWLEDGED_MIN, len(load.ledger.acknowledged)
    client = await RawClient.connect(address)
    swap = Swap(client, load)
    async with MQAdmin([namesrv]) as admin:
        for topic in (*kill_broker.TOPICS, LATER):
            config = await admin.topic_config(address, topic)
            assert (config.read_queue_nums, config.write_queue_nums) == (4, 4), config
        groups = (await admin.all_subscription_groups(address)).subscription_group_table
        assert groups["g"].retry_max_times == 7
        load.ledger.transactions.check_visible(await swap.check_stored(load.killed_s))
        checked = await swap.until_settled(namesrv)
        ended = {name for name, at_s in load.ended_s.items() if at_s < load.killed_s - ops_late_s}
        assert ended and not checked & ended, "a check of a transaction that had ended"
        await swap.until_delivered()
        await swap.sends_go_on(admin, address)
    await client.close()


@pytest.mark.parametrize("release", [RELEASE, OLD_RELEASE])
def test_brokerd_goes_on_with_the_store_of_a_killed_apache(release: str, tmp_path: Path) -> None:
    changes = {**SIZES, **LIVELY, **APACHE_OPS}
    with ApacheCluster(tmp_path, names=("broker-a",), changes=changes, release=release) as cluster:
        theirs = cluster.brokers[0]
        store = theirs.folder / "store"
        offsets = store / "config" / "consumerOffset.json"
        load = asyncio.run(load_and_kill(theirs, cluster.namesrv, offsets, has_timer=release == RELEASE))
    ours = BrokerProcess(store, **NAMES, **SIZES, **LIVELY, **OURS_CHECKS_SOON).start()
    try:
        asyncio.run(
            check_store(ours.address, ours.namesrv, load, APACHE_OPS_LATE_S if release == RELEASE else 0)
        )
    finally:
        ours.stop()


def test_apache_goes_on_with_the_store_of_a_killed_brokerd(tmp_path: Path) -> None:
    changes = {**SIZES, **LIVELY, **APACHE_OPS, **APACHE_CHECKS_SOON}
    cluster = ApacheCluster(tmp_path, names=("broker-a",), changes=changes)
    theirs = cluster.brokers[0]
    store = theirs.folder / "store"
    ours = BrokerProcess(store, **NAMES, **SIZES, **LIVELY).start()
    try:
        offsets = store / "config" / "consumerOffset.json"
        load = asyncio.run(load_and_kill(ours, ours.namesrv, offsets, has_timer=True))
    finally:
        ours.stop()
    with cluster:
        asyncio.run(check_store(theirs.address, cluster.namesrv, load, ops_late_s=0))
