"""Acknowledgements and changes of the invisible time, over a socket."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from brokerd.pop import revive_state
from brokerd.pop.checkpoint import GroupQueue, parse_ack
from brokerd.processor import dispatch
from brokerd.processor.consumer.pop_ack import change_invisible_time
from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.remoting.message.record import decode_records
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.popping import PoppedMessage, ack, pop
from tests.brokerd.processor.consumer.test_pop_message import send
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import running

ACK, BATCH_ACK = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revive_state, "GRACE_MS", 0)


async def test_a_batch_acknowledges_messages_of_many_checkpoints(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b", b"c")
        first = await pop(client, "g", "T", maxMsgNums="2", invisibleTime="500")
        second = await pop(client, "g", "T", maxMsgNums="2", invisibleTime="500")
        acks = []
        for messages, bits in ((first, 0b10), (second, 0b1)):
            start, pop_time, invisible, revive_queue, retry, _, queue_id, _ = messages[0].handle.split(" ")
            acks.append(
                {
                    "c": "g", "t": "T", "r": retry, "so": int(start), "q": int(queue_id), "rq": int(revive_queue),
                    "pt": int(pop_time), "it": int(invisible), "b": base64.b64encode(bytes([bits])).decode(),
                }
            )  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": acks}).encode()
        assert (await client.ask(BATCH_ACK, body=body)).code == 0
        assert sum(broker.broker.pops.in_flight.values()) == 1
        again = await pop(client, "g", "T", pollTime="10000")
        assert [(message.body, message.record.reconsume_times) for message in again] == [(b"a", 1)]
        assert (await client.ask(BATCH_ACK)).code == 208
        assert (await client.ask(BATCH_ACK, body=b'{"acks":[{"b":"!"}]}')).code == 1
        assert (
            await client.ask(BATCH_ACK, body=b'{"acks":[{"b":"AQ==","rq":8,"t":"T","c":"g"}]}')
        ).code == 13


def frames(popped: Sequence[PoppedMessage], group: str, *, flag: int = 0, **fields: str) -> list[bytes]:
    """Their acknowledgements; opaque numbers are their places."""
    return [
        RemotingCommand(
            ACK, opaque=number, flag=flag, ext_fields={**each.ack_fields(group), **fields}
        ).encode()
        for number, each in enumerate(popped)
    ]


async def test_acknowledgements_that_follow_each_other_are_one_record(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b", b"c")
        popped = await pop(client, "g", "T")
        data = b"".join([*frames(popped[:2], "g"), *frames(popped[2:], "g", flag=2), *frames(popped, "g")])
        store, begin = broker.broker.store, broker.broker.store.commit_log_max_offset
        used, replies = broker.controller._dispatcher.process(data, MemoryChannel())
        assert (used, [decode_frame(reply[4:]).code for reply in replies]) == (len(data), [0] * 5)
        (record,) = decode_records(store._log.view(begin, store.commit_log_max_offset - begin) or b"")
        assert (record.tags, parse_ack(record.body, "").offsets) == ("bAck", (0, 1, 2))
        assert not broker.broker.pops.in_flight


async def test_acknowledgements_of_one_read_are_answered_as_one_by_one(tmp_path: Path) -> None:
    """Of two pops, out of range, unreadable, orderly: each has the answer and the effect it would have alone."""
    async with running(tmp_path) as broker:
        broker.broker.store.table.makes_files_in_thread = False
        client = await broker.client()
        await create(client, "T", 2)
        await send(client, "T", b"a", b"b", b"c", b"d")
        plain = Dispatcher(broker.broker, BROKER_HANDLERS)
        outcomes = []
        for group, process in (("fast", broker.controller._dispatcher.process), ("plain", plain.process)):
            first = await pop(client, group, "T", maxMsgNums="3", queueId="0")
            second = await pop(client, group, "T", queueId="0")
            assert (len(first), len(second)) == (3, 1)
            handle = first[1].handle.split(" ")
            orderly = " ".join([*handle[:3], "999", *handle[4:]])
            data = [
                *frames(first[:1], group),
                *frames(second, group),
                *frames(first[:1], group, offset="99"),
                *frames(first[:1], group, extraInfo="1 2 3"),
                *frames(first[:1], group, extraInfo=" ".join([*handle[:6], "x"])),
                *frames(first[:1], group, extraInfo=orderly),
                *frames(first[:1], group, topic="U"),
                *frames(first[:1], group, queueId="2"),
                *frames(first[1:2], group, extraInfo=" ".join(handle[:7])),
            ]
            read, answers = b"".join(data), list[tuple[int, str]]()
            while read:  # a turn ends after 5 ms
                used, replies = process(read, MemoryChannel())
                read = read[used:]
                commands = [decode_frame(reply[4:]) for reply in replies]
                answers += [(each.code, re.sub(r"\d+", "", each.remark or "")) for each in commands]
            outcomes.append((answers, broker.broker.pops.in_flight[GroupQueue("T", group, 0)]))
        assert outcomes[0] == outcomes[1]
        assert [code for code, _ in outcomes[0][0]] == [0, 0, 208, 1, 1, 0, 17, 13, 0]
        assert outcomes[0][1] == 1


async def test_acknowledgements_that_cannot_be_stored_are_refused_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b")
        popped = await pop(client, "g", "T")
        monkeypatch.setattr(broker.broker.store, "_refusal", "the disk is full")
        monkeypatch.setattr(dispatch, "TURN_NS_MAX", 60_000_000_000)  # both in one turn
        _, replies = broker.controller._dispatcher.process(b"".join(frames(popped, "g")), MemoryChannel())
        answers = [decode_frame(reply[4:]) for reply in replies]
        assert [(each.code, each.opaque, each.remark) for each in answers] == [
            (1, 0, "the disk is full"),
            (1, 1, "the disk is full"),
        ]
        assert sum(broker.broker.pops.in_flight.values()) == 2


async def test_a_changed_time_counts_from_now_on(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b")
        soon, late = await pop(client, "g", "T", invisibleTime="60000")
        fields = {**soon.ack_fields("g"), "invisibleTime": "100"}
        changed = await client.ask(CHANGE, fields)
        assert (changed.code, changed.ext_fields["invisibleTime"]) == (0, "100")
        assert int(changed.ext_fields["popTime"]) >= int(soon.handle.split(" ")[1])
        assert changed.ext_fields["reviveQid"] == soon.handle.split(" ")[3]
        again = await pop(client, "g", "T", pollTime="10000")
        assert [message.body for message in again] == [b"a"]
        await ack(client, "g", late, *again)
        assert not broker.broker.pops.in_flight
        # A message of a retry topic is named by that topic.
        assert again[0].ack_fields("g")["topic"] == "%RETRY%g_T"


async def test_a_change_in_the_millisecond_of_the_pop_keeps_the_message(tmp_path: Path) -> None:
    """Checkpoints are known by the time of their pop: with one key, the old one's end would be the new one's."""
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a")
        (message,) = await pop(client, "g", "T", invisibleTime="60000")
        pop_time_ms = int(message.handle.split(" ")[1])
        fields = {**message.ack_fields("g"), "invisibleTime": "100"}
        change = RemotingCommand(CHANGE, ext_fields=fields)
        change_invisible_time(broker.broker, MemoryChannel(), change, pop_time_ms)
        assert sum(broker.broker.pops.in_flight.values()) == 1
        assert [again.body for again in await pop(client, "g", "T", pollTime="10000")] == [b"a"]


async def test_it_refuses_what_cannot_be_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a")
        fields = {
            "consumerGroup": "g", "topic": "T", "queueId": "0", "offset": "0",
            "extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0", "invisibleTime": "1000",
        }  # fmt: skip
        for changes, codes in (
            ({}, (0, 0)),
            ({"topic": "Missing"}, (17, 17)),
            ({"queueId": "1"}, (13, 13)),
            ({"offset": "1"}, (0, 208)),
            ({"offset": "2"}, (208, 208)),
            ({"extraInfo": "0 1 2 8 0 b 0 0"}, (13, 13)),
            ({"extraInfo": "nothing"}, (1, 1)),
            ({"invisibleTime": "-1"}, (0, 29)),
        ):
            request = {**fields, **changes}
            assert (
                (await client.ask(ACK, request)).code,
                (await client.ask(CHANGE, request)).code,
            ) == codes, changes


async def test_orderly_messages_are_committed_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b", b"c")
        order = {"order": "true", "maxMsgNums": "2", "attemptId": "a1"}
        first, second = await pop(client, "g", "T", **order)
        assert first.handle.split(" ")[3] == "999"
        assert await pop(client, "g", "T", **{**order, "attemptId": "a2"}) == []
        repeated = await pop(client, "g", "T", **order)
        assert [message.body for message in repeated] == [b"a", b"b"]
        await ack(client, "g", repeated[1])
        assert broker.broker.offsets.committed("g", "T", 0) == 0
        await ack(client, "g", repeated[0], first)
        assert broker.broker.offsets.committed("g", "T", 0) == 2
        (third,) = await pop(client, "g", "T", **{**order, "attemptId": "a3", "invisibleTime": "60000"})
        assert third.body == b"c"
        fields = {**third.ack_fields("g"), "invisibleTime": "200"}
        assert (await client.ask(CHANGE, fields)).ext_fields["reviveQid"] == "999"
        answer = await pop(client, "g", "T", **{**order, "attemptId": "a4", "pollTime": "60000"})
        assert [message.body for message in answer] == [b"c"]  # RawClient gives up before the poll ends
        wrong = {**answer[0].ack_fields("g"), "offset": "3"}
        assert (await client.ask(ACK, wrong)).code == 13
        assert broker.broker.offsets.committed("g", "T", 0) == 2
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert await pop(client, "g", "T", **{**order, "attemptId": "a5"}) == []  # it is out still
        await ack(client, "g", answer[0])
        assert broker.broker.offsets.committed("g", "T", 0) == 3
