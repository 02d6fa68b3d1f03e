"""Heartbeats of many groups and hostile ones: taken in a part at a time, or refused with the limit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokerd.processor.client import client_manage
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import running, send_fields

MIB = 1024 * 1024


def group(name: str, subscriptions: int = 1, tags: int = 0) -> dict[str, Any]:
    return {
        "groupName": name,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [
            {"topic": f"t{i}", "subString": "*", "codeSet": list(range(tags)), "subVersion": 1}
            for i in range(subscriptions)
        ],
    }


def body(*groups: Any) -> bytes:
    return json.dumps({"clientID": "c", "consumerDataSet": groups}).encode()


async def test_a_large_heartbeat_is_taken_in_over_several_turns(tmp_path: Path) -> None:
    """Between its parts another client is answered."""
    async with running(tmp_path) as broker:
        client, other = await broker.client(), await broker.client()
        await other.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
        groups = body(*(group(f"g{i}") for i in range(1_000)))
        beat = asyncio.ensure_future(client.ask(RequestCode.HEART_BEAT, body=groups))
        sent = 0
        while not beat.done():
            assert (await other.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")).code == 0
            sent += 1
        assert (await beat).code == 0
        assert sent >= 3
        consumers = broker.broker.consumers
        assert [len(consumers.groups[f"g{i}"].members) for i in (0, 500, 999)] == [1, 1, 1]
        assert consumers.groups["g999"].subscriptions["t0"].sub_version == 1


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (
            lambda: body(*(group(f"g{i}") for i in range(1_001))),
            29,
            "the heartbeat has 1001 consumer groups, at most 1000 are taken",
        ),
        (lambda: body(group("g", subscriptions=4_000)), 29, "bytes of one group, at most 262144 are taken"),
        (lambda: body(group("g", tags=1_001)), 29, "1001 tags of one topic, at most 1000 are taken"),
        (lambda: body(group("g")) + b" " * MIB, 1, "this broker takes at most 1048576: send it in parts"),
        (
            lambda: body(*(group(f"g{i}") for i in range(500))).replace(b'"', b"'"),
            1,
            "more than 32768 are read as strict JSON only",
        ),
        (
            lambda: b'{"clientID":"c","consumerDataSet":[' + b'{"$ref":"$.a"},' * 1000 + b"{}]}",
            1,
            "1000 references, at most 16 are read: send the values",
        ),
        (lambda: body(group("g" * 40_000), 7), 1, "ConsumerData is not a JSON object but int"),
    ],
    ids=["groups", "group", "tags", "bytes", "dialect", "references", "no group"],
)
async def test_what_is_too_much_is_refused(
    tmp_path: Path, make: Callable[[], bytes], code: int, says: str
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.HEART_BEAT, body=make())
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark
        assert broker.broker.consumers.groups == {}


async def test_no_hostile_heartbeat_takes_long(tmp_path: Path) -> None:
    """Seconds to minutes before; CPU time of the whole process, the sender's side included."""
    hostile = [
        b"{'clientID':'c','consumerDataSet':[" + b"{'groupName':'g'}," * 30_000 + b"{}]}",
        body(*(group(f"g{i}") for i in range(60_000))),
        b'{"consumerDataSet":[' + b"[]," * 340_000 + b"1]}",
        b"['" + b"[" * 31_000,
        b'{"consumerDataSet":' + b"[" * 40_000,
        b'{"a":' + b'"{1:",' * 5_000 + b"1:2}",
    ]
    async with running(tmp_path) as broker:
        client = await broker.client()
        for each in hostile:
            began = time.process_time()
            answer = await client.ask(RequestCode.HEART_BEAT, body=each)
            took_s = time.process_time() - began
            assert answer.code != 0
            assert took_s < 0.25, (each[:40], took_s)


async def test_a_client_that_left_joins_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_manage, "GROUPS_A_TURN", 1)
    async with running(tmp_path) as broker:
        client, other = await broker.client(), await broker.client()
        beat = client.ask(RequestCode.HEART_BEAT, body=body(*(group(f"g{i}") for i in range(300))))
        task = asyncio.ensure_future(beat)
        while not broker.broker.consumers.groups:
            await other.ask(RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})
        await client.close()
        for _ in range(300):
            await other.ask(RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})
        task.cancel()
        assert broker.broker.consumers.groups == {}
