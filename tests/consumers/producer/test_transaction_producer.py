"""TransactionProducer against a real brokerd that asks soon."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.message.names import CHECK_MAX_TIME_TOPIC
from consumers import (
    ClientClosed,
    InvalidClientConfig,
    LocalTransactionState,
    Message,
    MessageQueue,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    ProducerConfig,
    SendResult,
    SendStatus,
    TransactionProducer,
)
from consumers.client.client_instance import ClientInstance
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)
TOPIC = "paid"


@pytest.fixture
def brokerd(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(
        tmp_path / "store", transactionTimeOut=300, transactionCheckInterval=300, transactionCheckMax=3
    )
    yield process.start()
    process.stop()


class Bank:
    """Local transactions and what they have left; `answers` to checks by the message's key, else UNKNOWN."""

    def __init__(self, **answers: LocalTransactionState) -> None:
        self.answers = answers
        self.checked: list[MessageRecord] = []

    async def check(self, message: MessageRecord) -> LocalTransactionState:
        self.checked.append(message)
        return self.answers.get(message.keys, UNKNOWN)


@pytest.fixture
async def admin(brokerd: BrokerProcess) -> AsyncIterator[MQAdmin]:
    async with MQAdmin(brokerd.namesrv) as made:
        yield made


def ending(state: LocalTransactionState):
    async def execute(half: SendResult) -> LocalTransactionState:
        return state

    return execute


def message(key: str, body: bytes = b"body") -> Message:
    return Message(TOPIC, body, {"KEYS": key, "TAGS": "red"})


async def count(admin: MQAdmin, brokerd: BrokerProcess, topic: str = TOPIC, queues: int = 4) -> int:
    try:
        return sum([await admin.max_offset(brokerd.address, topic, queue) for queue in range(queues)])
    except MQBrokerError:
        return 0


async def until(condition, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_consumers_see_what_was_committed_only(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    bank = Bank()
    async with TransactionProducer("bank", brokerd.namesrv, bank.check) as producer:
        seen_inside = []

        async def pay(half: SendResult) -> LocalTransactionState:
            seen_inside.append((half.status, await count(admin, brokerd)))
            return COMMIT

        committed = await producer.send_in_transaction(message("k1", b"x" * 10_000), pay)
        rolled_back = await producer.send_in_transaction(message("k2"), ending(ROLLBACK))
    assert seen_inside == [(SendStatus.SEND_OK, 0)], "invisible while the local transaction runs"
    assert (committed.state, committed.is_confirmed) == (COMMIT, True)
    assert (rolled_back.state, rolled_back.is_confirmed) == (ROLLBACK, True)
    assert await count(admin, brokerd) == 1


async def test_a_check_decides_what_was_left_open(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    bank = Bank(yes=COMMIT, no=ROLLBACK)
    async with TransactionProducer("bank", brokerd.namesrv, bank.check) as producer:
        for key in ("yes", "no", "never"):
            result = await producer.send_in_transaction(message(key, b"large" * 2_000), ending(UNKNOWN))
            assert (result.state, result.is_confirmed) == (UNKNOWN, False)
        await until(lambda: _is(count(admin, brokerd, CHECK_MAX_TIME_TOPIC, 1), 1))
    keys = [record.keys for record in bank.checked]
    assert (keys.count("yes"), keys.count("no"), keys.count("never")) == (1, 1, 3)
    assert {(record.topic, record.tags, record.decoded_body()) for record in bank.checked} == {
        (TOPIC, "red", b"large" * 2_000)
    }
    assert await count(admin, brokerd) == 1


async def _is(number, expected: int) -> bool:
    return await number == expected


async def test_an_exception_comes_through_and_leaves_it_to_the_check(
    brokerd: BrokerProcess, admin: MQAdmin
) -> None:
    bank = Bank(k1=COMMIT)

    async def crash(half: SendResult) -> LocalTransactionState:
        raise RuntimeError("the database went away")

    async with TransactionProducer("bank", brokerd.namesrv, bank.check) as producer:
        with pytest.raises(RuntimeError, match="went away"):
            await producer.send_in_transaction(message("k1"), crash)
        await until(lambda: _is(count(admin, brokerd), 1))


async def test_a_check_that_fails_is_asked_again(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    times = 0

    async def flaky(record: MessageRecord) -> LocalTransactionState:
        nonlocal times
        times += 1
        if times == 1:
            raise OSError("no connection to the database")
        return COMMIT

    async with TransactionProducer("bank", brokerd.namesrv, flaky) as producer:
        await producer.send_in_transaction(message("k1"), ending(UNKNOWN))
        await until(lambda: _is(count(admin, brokerd), 1))
    assert times == 2


async def test_another_producer_of_the_group_answers(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    """One that has sent nothing itself, as after a restart."""
    bank = Bank()
    async with TransactionProducer("bank", brokerd.namesrv, bank.check) as first:
        await first.send_in_transaction(message("k1"), ending(UNKNOWN))
    bank.answers["k1"] = COMMIT
    async with TransactionProducer("bank", brokerd.namesrv, bank.check):
        await until(lambda: _is(count(admin, brokerd), 1))


async def test_the_outcome_survives_a_kill_of_the_broker(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    bank = Bank(k1=COMMIT)

    async def meanwhile(half: SendResult) -> LocalTransactionState:
        brokerd.kill()
        return COMMIT

    config = ProducerConfig(send_timeout_ms=1_000)
    async with TransactionProducer("bank", brokerd.namesrv, bank.check, config) as producer:
        result = await producer.send_in_transaction(message("k1"), meanwhile)
        assert not result.is_confirmed
        brokerd.start()
        with contextlib.suppress(Exception):
            await producer.send(message("k2"))  # connects again
        await until(lambda: _is(count(admin, brokerd), 2))


async def test_a_close_waits_for_what_is_under_way(brokerd: BrokerProcess, admin: MQAdmin) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(half: SendResult) -> LocalTransactionState:
        begun.set()
        await go_on.wait()
        return COMMIT

    producer = TransactionProducer("bank", brokerd.namesrv, Bank().check)
    await producer.start()
    sending = asyncio.create_task(producer.send_in_transaction(message("k1"), slow))
    await begun.wait()
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0.1)
    assert not closing.done()
    with pytest.raises(ClientClosed):
        await producer.send_in_transaction(message("k2"), ending(COMMIT))
    go_on.set()
    assert (await sending).is_confirmed
    await closing
    assert await count(admin, brokerd) == 1


async def test_it_refuses_a_delay() -> None:
    producer = TransactionProducer("bank", "127.0.0.1:1", Bank().check)
    delayed = message("k1")
    delayed.properties["DELAY"] = "3"
    with pytest.raises(InvalidClientConfig, match="cannot be delayed"):
        await producer.send_in_transaction(delayed, ending(COMMIT))


async def test_a_half_message_that_is_not_safe_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = TransactionProducer("bank", "127.0.0.1:1", Bank().check)
    half = SendResult(
        SendStatus.FLUSH_DISK_TIMEOUT,
        "U1",
        "7F00000100002A9F0000000000000000",
        MessageQueue(TOPIC, "b", 0),
        0,
    )
    ends = []

    async def sent(*_: object) -> SendResult:
        return half

    async def end(addr: str, header, remark: str = "") -> bool:
        ends.append(header.commit_or_rollback)
        return True

    monkeypatch.setattr(producer, "_send_half", sent)
    monkeypatch.setattr(producer, "_end", end)
    monkeypatch.setattr(ClientInstance, "find_addr", lambda *_, **__: "127.0.0.1:2")
    result = await producer.send_in_transaction(message("k1"), ending(COMMIT))
    assert (result.state, ends) == (ROLLBACK, [ROLLBACK])


async def test_the_example_of_the_documentation_runs(
    brokerd: BrokerProcess, admin: MQAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    await example("consumers.md", "Transactions")(brokerd.namesrv)
    assert capsys.readouterr().out.endswith(" COMMIT True\n")
    assert await count(admin, brokerd, "order-written") == 1
