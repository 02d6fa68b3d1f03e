"""Transactions between brokerd, Apache RocketMQ 5.3.3 and our TransactionProducer; a store changes its broker."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError
from consumers import LocalTransactionState, Message, MessageRecord, MQAdmin, SendResult, TransactionProducer
from tests.support.apache_cluster import WITHOUT_TIMERS, ApacheCluster
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)
SOON = {"transactionTimeOut": 1_000, "transactionCheckInterval": 2_000}
# Its op messages wait 3 s for others: a round before that commits again what was committed.
THEIRS = {"transactionTimeOut": 1_000, "transactionCheckInterval": 6_000, "transactionOpBatchInterval": 200}
# As tests/support/apache_cluster.py has them: a store is opened with the sizes it was made with.
SIZES = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20 * 3_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
}


class Bank:
    """Outcomes by the message's key, at once and when the broker asks."""

    def __init__(
        self, at_once: dict[str, LocalTransactionState], later: dict[str, LocalTransactionState]
    ) -> None:
        self.at_once, self.later = at_once, later
        self.checked: list[str] = []

    async def check(self, message: MessageRecord) -> LocalTransactionState:
        self.checked.append(message.keys)
        return self.later.get(message.keys, UNKNOWN)

    async def send_all(self, producer: TransactionProducer, topic: str) -> None:
        for key, state in self.at_once.items():

            async def execute(
                half: SendResult, state: LocalTransactionState = state
            ) -> LocalTransactionState:
                return state

            await producer.send_in_transaction(Message(topic, b"body", {"KEYS": key}), execute)


async def keys_of(admin: MQAdmin, addr: str, topic: str) -> list[str]:
    """What consumers can read."""
    found: list[str] = []
    for queue_id in range(4):
        try:
            end = await admin.max_offset(addr, topic, queue_id)
        except MQBrokerError:
            continue
        offset = 0
        while offset < end:
            pulled = await admin.pull(addr, topic, queue_id, offset)
            found += [message.keys for message in pulled.messages]
            offset = max(pulled.next_begin_offset, offset + 1)
    return sorted(found)


async def until_keys(admin: MQAdmin, addr: str, topic: str, wanted: list[str]) -> None:
    deadline = time.monotonic() + 120
    while (found := await keys_of(admin, addr, topic)) != wanted:
        assert time.monotonic() < deadline, f"{found}, not {wanted}"
        assert len(found) <= len(wanted), f"{found}: more than {wanted}"
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_transactions_go_on_when_a_store_changes_its_broker(clean: bool, tmp_path: Path) -> None:
    """Begun on brokerd, some ended there; Apache's broker asks about the others, and brokerd has the rest again."""
    topic = "Swapped"
    names = {"brokerName": "broker-a", "brokerClusterName": "apache"}
    ours = BrokerProcess(tmp_path / "ours", **names, **SOON, **SIZES).start()
    bank = Bank({"a": COMMIT, "b": ROLLBACK, "c": UNKNOWN, "d": UNKNOWN, "e": UNKNOWN}, {})

    async def begin() -> None:
        async with MQAdmin([ours.namesrv]) as admin:
            await admin.create_topic(ours.address, TopicConfig(topic, read_queue_nums=4, write_queue_nums=4))
            async with TransactionProducer("bank", [ours.namesrv], bank.check) as producer:
                await bank.send_all(producer, topic)
                while bank.checked.count("d") < 2:
                    await asyncio.sleep(0.1)
            assert await keys_of(admin, ours.address, topic) == ["a"]

    asyncio.run(begin())
    if clean:
        ours.stop()
    else:
        assert ours.process is not None
        ours.process.send_signal(signal.SIGKILL)
        ours.process.wait()
    cluster = ApacheCluster(
        tmp_path / "apache", ("broker-a",), {**THEIRS, **WITHOUT_TIMERS}, with_our_name_server=True
    )
    theirs = cluster.brokers[0]
    shutil.copytree(tmp_path / "ours", theirs.folder / "store")
    bank.later = {"c": COMMIT, "d": ROLLBACK}
    bank.checked.clear()

    async def go_on() -> None:
        async with MQAdmin([cluster.namesrv]) as admin:
            async with TransactionProducer("bank", [cluster.namesrv], bank.check):
                await until_keys(admin, theirs.address, topic, ["a", "c"])
                while bank.checked.count("e") < 3:
                    await asyncio.sleep(0.2)
            assert await keys_of(admin, theirs.address, topic) == ["a", "c"]

    with cluster:
        asyncio.run(go_on())
    assert {"c", "d", "e"} == set(bank.checked), "none that had ended"
    shutil.rmtree(tmp_path / "ours")
    shutil.copytree(theirs.folder / "store", tmp_path / "ours")
    bank.later = {"e": COMMIT}
    bank.checked.clear()

    async def end() -> None:
        async with MQAdmin([ours.namesrv]) as admin:
            async with TransactionProducer("bank", [ours.namesrv], bank.check):
                await until_keys(admin, ours.address, topic, ["a", "c", "e"])
                await asyncio.sleep(5)
            assert await keys_of(admin, ours.address, topic) == ["a", "c", "e"]

    ours.start()
    try:
        asyncio.run(end())
    finally:
        ours.stop()
    assert set(bank.checked) == {"e"}
