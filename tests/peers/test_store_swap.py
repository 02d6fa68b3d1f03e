"""A broker ends under load, another opens its store: Apache 5.3.3 or 4.9.7, then brokerd, then Apache again.

Each is killed or stopped; the suite has a sample, `python -m tests.peers.side_by_side` all of them.

Under load: single sends and batches, delay levels, messages for a time, transactions that are committed, rolled back
and left alone, a consumer that commits offsets. All files are small, so that everything rolls. What was popped is in
test_apache_pop.py, stores one by one in tests/brokerd/store/test_golden_stores.py.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import signal
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
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
from tests.support.apache_server import is_by_hand
from tests.support.broker_process import BrokerProcess
from tests.support.parallel_cases import ParallelCases
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
OURS_CHECKS_LATE = {"transactionTimeOut": 6_000, "transactionCheckInterval": 30_000}
# Apache's op messages wait for others: a round before they are stored commits again what was committed.
APACHE_OPS = {"transactionOpBatchInterval": 200}
APACHE_OPS_LATE_S = 1.5  # 4.9.7 and brokerd store them before the answer
APACHE_CHECKS_SOON = {"transactionTimeOut": 1_000, "transactionCheckInterval": 6_000}
KILL, STOP = signal.SIGKILL, signal.SIGTERM
LOAD_S = 1.5  # a moment more than a transaction takes to be known everywhere (APACHE_OPS_LATE_S)
PAUSE_S = 0.02  # between the messages of one producer of delayed ones or of transactions
WITHIN_S = 60
ACKNOWLEDGED_MIN = (
    300  # of each load, however slow the machine; otherwise nothing rolls and nothing is proved
)
LATER = "Later"
LEVELS_MS = {"1": 1_000, "2": 5_000, "3": 10_000}
# Apache cuts the time of delivery down to its precision.
EARLY_MAX_MS = 1_000


class SwapLoad(Load):
    """The load, without what the other broker promises less of: recalls and POP."""

    def __init__(self, *, has_timer: bool) -> None:
        self.ledger, self.chance = Ledger(), random.Random(14)
        super().__init__("", self.ledger, self.chance)
        self.has_timer = has_timer
        self.due_ms: dict[str, int] = {}  # acknowledged and delayed
        self.ended_s: dict[str, float] = {}  # transactions; monotonic
        self.in_doubt: set[str] = set()  # ended so shortly before a kill that no broker may know it
        self.ended_at_s = 0.0
        self.is_stopped = False  # the last broker ended in order
        self.may_repeat = False  # a broker was killed: what it was about to deliver may come twice
        self._wanted = 0  # messages acknowledged in all, before the end

    async def run_on(self, broker: BrokerProcess | ApacheBroker, ending: signal.Signals) -> None:
        """End the broker under load."""
        self._address, self._wanted = broker.address, len(self.ledger.acknowledged) + ACKNOWLEDGED_MIN
        self.is_stopped = ending is STOP
        self.may_repeat |= not self.is_stopped
        self.ended_at_s = await self.run_until_ended(broker, LOAD_S, ending)

    async def _until_end(self, after_s: float) -> None:
        """A while, and longer on a slow machine: otherwise nothing rolls and nothing is proved."""
        began_s = time.monotonic()
        await asyncio.sleep(after_s)
        async with asyncio.timeout(WITHIN_S):
            while not self._is_enough(began_s):
                await asyncio.sleep(0.1)

    def _is_enough(self, began_s: float) -> bool:
        """Enough messages, a transaction that ended some time ago, and one that did not."""
        before_s = time.monotonic() - APACHE_OPS_LATE_S
        halves = self.ledger.transactions.halves.values()
        return (
            len(self.ledger.acknowledged) >= self._wanted
            and any(began_s < at_s < before_s for at_s in self.ended_s.values())
            and any(half.requested is None for half in halves)
        )

    async def send_next(self, client: RawClient, topic: str, queue_id: int, offset: int) -> None:
        """The next message of a queue goes behind the last one."""
        await self._send_one(client, topic, queue_id)
        assert (topic, queue_id, offset) in self.ledger.acknowledged

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
        """Every delayed message comes, none before its time, and once; after a kill Apache's may come twice."""
        deadline = time.monotonic() + WITHIN_S
        due_ms = self._load.due_ms
        while True:
            delivered = await self._pull_all(LATER, 0)
            missing = due_ms.keys() - {name_of(record) for record in delivered}
            if not missing:
                break
            assert time.monotonic() < deadline, f"not delivered: {sorted(missing)}"
            await asyncio.sleep(0.5)
        if not self._load.may_repeat:
            assert max(Counter(map(name_of, delivered)).values()) == 1, "delivered twice"
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
        for topic in kill_broker.TOPICS:
            for queue_id in range(kill_broker.QUEUES):
                end = await admin.max_offset(addr, topic, queue_id)
                await self._load.send_next(self._client, topic, queue_id, end)


def name_of(record: MessageRecord) -> str:
    return record.body.split(b" ")[0].decode()


async def make_topics(broker: ApacheBroker, namesrv: str, offsets: Path) -> None:
    """Make topics and a group, and wait until offsets are saved in time."""
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


async def check_store(address: str, namesrv: str, load: SwapLoad, ops_late_s: float) -> None:
    """Read everything back from the broker that opened the store, and go on there."""
    client = await RawClient.connect(address)
    swap = Swap(client, load)
    async with MQAdmin([namesrv]) as admin:
        for topic in (*kill_broker.TOPICS, LATER):
            config = await admin.topic_config(address, topic)
            assert (config.read_queue_nums, config.write_queue_nums) == (4, 4), config
        groups = (await admin.all_subscription_groups(address)).subscription_group_table
        assert groups["g"].retry_max_times == 7
        load.ledger.transactions.check_visible(
            await swap.check_stored(load.ended_at_s, is_saved=load.is_stopped)
        )
        checked = await swap.until_settled(namesrv)
        known_s = math.inf if load.is_stopped else load.ended_at_s - ops_late_s
        load.in_doubt |= {name for name, at_s in load.ended_s.items() if at_s >= known_s}
        ended = load.ended_s.keys() - load.in_doubt
        assert ended and not checked & ended, "a check of a transaction that had ended"
        await swap.until_delivered()
        await swap.sends_go_on(admin, address)
    await client.close()


Case = tuple[str, signal.Signals, signal.Signals]  # Apache's release, how it ends, how brokerd ends
EVERY: list[Case] = list(itertools.product((RELEASE, OLD_RELEASE), (KILL, STOP), (KILL, STOP)))
SAMPLE: list[Case] = [(RELEASE, KILL, STOP), (OLD_RELEASE, STOP, KILL)]
WORDS = {KILL: "killed", STOP: "stopped"}


def swap(case: Case, tmp_path: Path) -> None:
    release, theirs_by, ours_by = case
    changes = {**SIZES, **LIVELY, **APACHE_OPS}
    cluster = ApacheCluster(
        tmp_path, names=("broker-a",), with_our_name_server=True, changes=changes, release=release
    )
    theirs = cluster.brokers[0]
    store = theirs.folder / "store"
    load = SwapLoad(has_timer=release == RELEASE)
    with cluster:
        asyncio.run(make_topics(theirs, cluster.namesrv, store / "config" / "consumerOffset.json"))
        asyncio.run(load.run_on(theirs, theirs_by))
        assert (store / "abort").exists() is not load.is_stopped
        ours = BrokerProcess(store, **NAMES, **SIZES, **LIVELY, **OURS_CHECKS_SOON).start()
        try:
            ops_late_s = APACHE_OPS_LATE_S if release == RELEASE else 0
            asyncio.run(check_store(ours.address, ours.namesrv, load, ops_late_s))
            ours.stop()
            ours.settings |= OURS_CHECKS_LATE
            ours.start()
            asyncio.run(load.run_on(ours, ours_by))
        finally:
            ours.stop()
        assert (store / "abort").exists() is not load.is_stopped
        theirs.change(APACHE_CHECKS_SOON)
        cluster.start_brokers()
        asyncio.run(check_store(theirs.address, cluster.namesrv, load, ops_late_s=0))


@pytest.fixture(scope="module")
def swaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParallelCases[Case, None]]:
    """Those of the suite side by side; by hand each alone, six more brokers would starve."""
    cases = [] if is_by_hand() else SAMPLE
    with ParallelCases[Case, None](lambda case: swap(case, tmp_path_factory.mktemp("swap")), cases) as begun:
        yield begun


@pytest.mark.parametrize(
    ("release", "theirs_by", "ours_by"), EVERY if is_by_hand() else SAMPLE, ids=lambda each: WORDS.get(each)
)
def test_a_brokers_store_is_served_by_the_other_and_goes_back(
    release: str, theirs_by: signal.Signals, ours_by: signal.Signals, swaps: ParallelCases[Case, None]
) -> None:
    swaps.finish((release, theirs_by, ours_by))
