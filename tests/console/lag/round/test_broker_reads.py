"""What a broker says in one round, read from what it sends; brokers are asked in turn, none waits for a slow one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from console.brokers.mqadmin import MQBrokerError, RemotingTimeout
from console.lag.round import broker_reads
from console.lag.round.broker_reads import BrokerAddress, BrokerAnswers, Question, QueueOffsets, read_brokers

OFFSETS = b'{"offsetTable":{"orders@billing":{0:5,1:7},"gone@billing":{0:1}}}'
STATS = (
    b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"orders"}:'
    b'{"lastUpdateTimestamp":9,"maxOffset":8,"minOffset":0},{"brokerName":"b","queueId":0,"topic":"orders"}:'
    b'{"lastUpdateTimestamp":9,"maxOffset":6,"minOffset":1}}}'
)


class Sent:
    """What brokers send, by address; `log` says who was asked for what, in order."""

    def __init__(self, offsets: bytes = OFFSETS, stats: bytes | Exception = STATS) -> None:
        self.offsets, self.stats = offsets, stats
        self.hanging: set[str] = set()  # answer when so many others have told everything
        self.healthy, self.told = 0, asyncio.Event()
        self.log: list[tuple[str, str]] = []

    async def all_consumer_offsets_body(self, addr: str) -> bytes:
        self.log.append((addr, "c"))
        await asyncio.sleep(0)
        if addr in self.hanging:
            await self.told.wait()
            raise MQBrokerError(2, "busy")
        return self.offsets

    async def topic_stats_bodies(self, addr: str, topics: Sequence[str]) -> dict[str, bytes | Exception]:
        self.log.append((addr, "m"))
        await asyncio.sleep(0)
        if sum(what == "m" for _, what in self.log) == self.healthy:
            self.told.set()
        gone = MQBrokerError(17, "no such topic")
        return {topic: gone if topic == "gone" else self.stats for topic in topics}

    async def runtime_info(self, _: str) -> Mapping[str, str]:
        return {}

    def gather(
        self, calls: Mapping[int, Callable[[Any], Awaitable[None]]], deadline_ms: int
    ) -> dict[int, Exception | None]:
        async def one(call: Callable[[Any], Awaitable[None]]) -> Exception | None:
            try:
                async with asyncio.timeout(deadline_ms / 1000):
                    await call(self)
            except MQBrokerError as error:
                return error
            except TimeoutError:
                return RemotingTimeout("b", 0, deadline_ms)
            return None

        async def all_of_them() -> dict[int, Exception | None]:
            outcomes = await asyncio.gather(*(one(call) for call in calls.values()))
            return dict(zip(calls, outcomes, strict=True))

        return asyncio.run(all_of_them())


def ask(sent: Sent, brokers: int = 1, *, deadline_ms: int = 60_000) -> list[BrokerAnswers]:
    addresses = [BrokerAddress(f"broker-{number}", 0, f"addr-{number}") for number in range(brokers)]
    question = Question(number=1, tables=False, known_topics={one.broker_name: () for one in addresses})
    return read_brokers(sent, addresses, question, deadline_ms=deadline_ms)  # type: ignore[arg-type]


def test_it_reads_what_a_broker_sends() -> None:
    (answer,) = ask(Sent())
    assert (answer.answered, answer.error, answer.unread) == (True, "", {})
    assert answer.offsets == {("orders", "billing"): {0: 5, 1: 7}, ("gone", "billing"): {0: 1}}
    assert answer.stats == {"orders": [QueueOffsets(0, 1, 6, 9), QueueOffsets(1, 0, 8, 9)]}
    assert 0 < answer.read_committed_ms <= answer.read_max_ms <= answer.max_answered_ms


def test_offsets_that_cannot_be_read_are_no_answer() -> None:
    (answer,) = ask(Sent(offsets=b'{"offsetTable":{"orders@billing":{0:'))
    assert (answer.answered, answer.offsets) == (False, {})
    assert answer.error.startswith("body is not JSON")


@pytest.mark.parametrize("stats", [b'{"offsetTable":{', MQBrokerError(1, "the disk is away")])
def test_topics_that_cannot_be_read_are_named(stats: bytes | Exception) -> None:
    (answer,) = ask(Sent(stats=stats))
    assert not answer.answered
    assert list(answer.unread) == ["orders"]
    assert answer.error == answer.unread["orders"]


def test_brokers_that_answer_at_once_are_asked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_reads, "TURN_MAX_S", 60.0)
    monkeypatch.setattr(broker_reads, "TURNS_MAX_S", 60.0 * 20)
    sent = Sent()
    assert all(answer.answered for answer in ask(sent, 20))
    assert sent.log == [(f"addr-{number}", what) for number in range(20) for what in "cm"]


def test_one_that_hangs_keeps_nobody_waiting() -> None:
    sent = Sent()
    sent.hanging, sent.healthy = {"addr-0", "addr-3"}, 4
    answers = ask(sent, 6)
    assert [answer.answered for answer in answers] == [False, True, True, False, True, True]
    assert ["busy" in answer.error for answer in answers] == [True, False, False, True, False, False]
