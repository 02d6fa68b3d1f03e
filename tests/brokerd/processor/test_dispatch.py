"""One bad frame among good ones, bodies and headers beyond their limits, turns that are cut short."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from brokerd.processor import dispatch
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.tables.topic_config import topic_config
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.running import pull_fields, running, send_fields


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    command = RemotingCommand.request(code, fields, body)
    command.opaque = opaque
    return command.encode()


def send(opaque: int, queue_id: int = 0) -> bytes:
    return frame(RequestCode.SEND_MESSAGE_V2, opaque, send_fields("T", queue_id=queue_id), b"x")


async def test_an_unexpected_exception_is_answered_and_the_others_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        broker.broker.store.table.makes_files_in_thread = False
        put = broker.broker.store.put_message

        def failing(topic: str, queue_id: int, *arguments: object, **more: object) -> object:
            if queue_id == 3:
                raise ZeroDivisionError("a fault of ours")
            return put(topic, queue_id, *arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(broker.controller._hot_path._sender, "_put", failing)
        channel = MemoryChannel()
        monkeypatch.setattr(dispatch, "TURN_NS_MAX", 60_000_000_000)  # files are made, a traceback is logged
        with caplog.at_level(logging.ERROR):
            data = send(1) + send(2, queue_id=3) + send(3)
            used, replies = broker.controller._dispatcher.process(data, channel)
        answers = [decode_frame(reply[4:]) for reply in replies]
        assert used == len(data)
        assert [(a.opaque, a.code) for a in answers] == [(1, 0), (2, 1), (3, 0)]
        assert answers[1].remark == "request 310 failed inside the broker; see its log"
        assert "a fault of ours" in caplog.text
        assert channel.is_open


async def test_a_frame_whose_answer_cannot_be_written_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        handlers = dict(broker.controller._dispatcher._handlers)
        handlers[RequestCode.GET_MAX_OFFSET] = lambda *_: RemotingCommand(0, remark="\ud800")
        monkeypatch.setattr(broker.controller._dispatcher, "_handlers", handlers)
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        assert (answer.code, "failed inside the broker" in (answer.remark or "")) == (1, True)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        (RequestCode.GET_MAX_OFFSET, 64 * 1024),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 64 * 1024),
        (RequestCode.LOCK_BATCH_MQ, 512 * 1024),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, 1024 * 1024),
    ],
)
async def test_a_body_beyond_its_limit_is_refused(tmp_path: Path, code: int, limit: int) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(code, {"topic": "T", "queueId": "0"}, b" " * (limit + 1))
        says = f"has a body of {limit + 1} bytes, this broker takes at most {limit}: send it in parts"
        assert (answer.code, answer.remark) == (1, f"request {int(code)} {says}")
        assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


async def test_a_header_beyond_its_limit_closes_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        client.write(frame(RequestCode.PULL_MESSAGE, 1, pull_fields("g", "T", 0, subscription="x" * 300_000)))
        await asyncio.wait_for(client.is_closed.wait(), 30)


async def test_a_pull_with_too_many_tags_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        client = await broker.client()
        pull = pull_fields("g", "T", 0, subscription="a||" * 6_000 + "b")
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull)
        assert (answer.code, "18001 characters, at most 16384" in (answer.remark or "")) == (23, True)


async def test_slow_requests_of_one_read_share_the_loop_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 requests of one read, another client waits for a few."""
    async with running(tmp_path) as broker:
        monkeypatch.setattr(dispatch, "TURN_NS_MAX", 0)
        greedy, other = await broker.client(), await broker.client()
        greedy.write(b"".join(frame(RequestCode.GET_BROKER_CONFIG, i, {}) for i in range(200)))
        await other.ask(RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})
        assert len(greedy.received) < 100
        while len(greedy.received) < 200:
            await asyncio.sleep(0.01)
        assert [answer.opaque for answer in greedy.received] == list(range(200))


@pytest.mark.parametrize("compiled", ["false", "true"])
async def test_sends_share_the_loop_with_others_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str
) -> None:
    async with running(tmp_path, compiledSends=compiled) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        broker.broker.store.table.makes_files_in_thread = False
        monkeypatch.setattr(dispatch, "TURN_NS_MAX", 0)
        one, other = send(1), frame(RequestCode.GET_MAX_OFFSET, 2, {"topic": "T", "queueId": "0"})
        used, replies = broker.controller._dispatcher.process(one + other + one, MemoryChannel())
        assert (used, len(replies)) == (len(one), 1)


async def test_a_malformed_frame_behind_a_turn_that_was_cut_short_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the fuzz: its length was waited for until the connection was idle for two minutes."""
    async with running(tmp_path) as broker:
        monkeypatch.setattr(dispatch, "TURN_NS_MAX", 0)
        client = await broker.client()
        client.write(frame(RequestCode.GET_BROKER_CONFIG, 1, {}) + b"\x7f\xff\xff\xff" + b"x" * 100)
        await asyncio.wait_for(client.is_closed.wait(), 30)
        assert [answer.opaque for answer in client.received] == [1]
