"""Messages for an arbitrary time over a socket: what senders get, recalls, refusals in Java's words, admin calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokerd.clock import wall_ms
from brokerd.remoting.body import fastjson
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.recall_handle import RecallHandle, decode_recall_handle
from brokerd.timer.timer_checkpoint import LAYOUT, LAYOUT_BYTES
from tests.brokerd.running import RawClient, RunningBroker, heartbeat, pull_fields, running, send_fields

V2 = RequestCode.SEND_MESSAGE_V2
TOPIC = "Later"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running(tmp_path, recallMessageEnable="true") as broker:
        yield broker


async def send(
    client: RawClient, key: str, body: bytes = b"x", *, binary: bool = False, **wanted: int
) -> RemotingCommand:
    text = f"UNIQ_KEY\x01{key}\x02" + "".join(f"{name}\x01{value}\x02" for name, value in wanted.items())
    return await client.ask(V2, send_fields(TOPIC, properties=text), body, binary=binary)


async def recall(client: RawClient, handle: str, topic: str = TOPIC) -> tuple[int, str]:
    fields = {"producerGroup": "producers", "topic": topic, "recallHandle": handle}
    answer = await client.ask(RequestCode.RECALL_MESSAGE, fields)
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    return answer.code, answer.remark or ""


async def pull(client: RawClient, offset: int = 0) -> RemotingCommand:
    """Wait for the next message of the topic."""
    fields = pull_fields("readers", TOPIC, offset, flags=6)
    return await client.ask(RequestCode.PULL_MESSAGE, fields)


@pytest.mark.parametrize("binary", [False, True])
async def test_a_sender_gets_the_handle_to_recall_it(broker: RunningBroker, binary: bool) -> None:
    client = await broker.client()
    deliver_ms = wall_ms() + 60_500
    answer = await send(client, "k1", TIMER_DELIVER_MS=deliver_ms, binary=binary)
    assert (answer.code, answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == (0, "0", "0")
    handle = decode_recall_handle(answer.ext_fields["recallHandle"])
    slot_ms = (deliver_ms - 1) // 1000 * 1000
    assert handle == RecallHandle(TOPIC, broker.broker.broker_name, str(slot_ms + 1), "k1")
    plain = await send(client, "k2", binary=binary)
    assert "recallHandle" not in plain.ext_fields
    assert plain.serialize_type == answer.serialize_type


async def test_it_is_delivered_to_who_waits_unless_recalled(broker: RunningBroker) -> None:
    client, reader = await broker.client(), await broker.client()
    assert (await reader.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "readers", TOPIC))).code == 0
    taken_back = await send(client, "k1", b"taken back", TIMER_DELAY_MS=1_500)
    deliver_ms = wall_ms() + 1_500
    await send(client, "k2", b"in time", TIMER_DELIVER_MS=deliver_ms)
    waiting = asyncio.ensure_future(pull(reader))
    assert await recall(client, taken_back.ext_fields["recallHandle"]) == (0, "")
    answer = await waiting
    assert b"in time" in answer.body
    assert b"taken back" not in answer.body
    assert 0 <= wall_ms() - deliver_ms < 10_000
    assert (await broker.client()) is not None


async def test_recalls_are_refused_in_javas_words(broker: RunningBroker) -> None:
    client = await broker.client()
    await send(client, "k0")
    now_ms, name = wall_ms(), broker.broker.broker_name

    def handle(topic: str = TOPIC, broker_name: str = name, timestamp: str = str(now_ms + 60_000)) -> str:
        return RecallHandle(topic, broker_name, timestamp, "k").encode()

    assert await recall(client, handle("None"), "None") == (17, "recall failed, the topic[None] not exist")
    assert await recall(client, "bad") == (604, "recall handle is invalid")
    assert await recall(client, handle("Other")) == (604, "recall failed, topic not match")
    assert await recall(client, handle(broker_name="broker-z")) == (
        604, "recall failed, broker service not available"
    )  # fmt: skip
    for timestamp in (str(now_ms - 1), str(now_ms + 259_201_000), "soon"):
        assert await recall(client, handle(timestamp=timestamp)) == (604, "recall failed, timestamp invalid")
    changed = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"recallMessageEnable=false")
    assert changed.code == 0
    assert await recall(client, handle()) == (16, "recall failed, operation is forbidden")
    assert broker.broker.store.max_offset("rmq_sys_wheel_timer", 0) == 0


async def test_admin_calls_show_what_waits(broker: RunningBroker) -> None:
    client = await broker.client()
    for number in range(3):
        await send(client, f"k{number}", TIMER_DELAY_SEC=600)
    while broker.broker.timer.behind_messages:
        await asyncio.sleep(0.02)
    info = fastjson.loads((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body)["table"]
    assert (info["timerCongestNum"], info["timerOffsetBehind"]) == ("3", "0")
    assert int(info["timerReadBehind"]) <= 10
    metrics = json.loads((await client.ask(RequestCode.GET_TIMER_METRICS)).body)
    assert metrics["timingCount"][TOPIC]["count"] == 3
    deleted = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
    assert deleted.code == 0
    assert json.loads((await client.ask(RequestCode.GET_TIMER_METRICS)).body)["timingCount"] == {}
    body = (await client.ask(RequestCode.GET_TIMER_CHECK_POINT)).body
    assert len(body) == LAYOUT_BYTES
    read_ms, _, queue_offset, master_queue_offset, *_ = LAYOUT.unpack(body)
    assert (queue_offset, master_queue_offset) == (3, 3)
    assert 0 <= wall_ms() - read_ms < 10_000


async def test_without_the_wheel_times_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, timerWheelEnable="false") as broker:
        client = await broker.client()
        answer = await send(client, "k", TIMER_DELAY_SEC=5)
        assert (answer.code, answer.remark) == (
            1, "accurate timer message is not enabled, timerWheelEnable is false"
        )  # fmt: skip
        assert (await send(client, "k")).code == 0
        answer = await client.ask(RequestCode.GET_TIMER_CHECK_POINT)
        assert (answer.code, answer.remark) == (1, "The checkpoint is null")
        answer = await client.ask(RequestCode.GET_TIMER_METRICS)
        assert (answer.code, answer.remark) == (1, "The timer message store is null")


async def test_clients_may_not_send_to_the_timer_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    answer = await client.ask(V2, send_fields("rmq_sys_wheel_timer"), b"x")
    assert answer.code == 16
