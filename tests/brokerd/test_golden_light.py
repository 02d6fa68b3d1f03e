"""Light queues of Apache 5.3.3: its store is served, its messages make the same store here, its frames are answered.

The files are made by `python -m tests.peers.capture_light`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from brokerd.clock import wall_ms
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import decode_frame
from brokerd.remoting.message.record import MessageRecord, decode_record, decode_records
from brokerd.store.light_store import LightMessageStore
from tests.brokerd.running import RawClient, pull_fields, running
from tests.brokerd.store.stores import GOLDEN, NOW_MS, golden_config, settle, unpack_golden

NAME = "5.3.3-light"
WIRE = GOLDEN.parent / "wire" / NAME
EXPECTED: dict[str, Any] = json.loads((GOLDEN / NAME / "expected.json").read_text(encoding="utf-8"))
SETTINGS = dict(
    line.split("=", 1) for line in (GOLDEN / NAME / "broker.conf").read_text(encoding="utf-8").splitlines()
)
LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}
NUMBERS = "INNER_MULTI_QUEUE_OFFSET"
# Fields whose values are those of that moment's store there, and of this one here.
SAME = frozenset(("startOffsetInfo", "msgOffsetInfo", "invisibleTime", "minOffset", "queueId"))


async def read(client: RawClient, queue: str) -> list[MessageRecord]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("%LMQ%readers", queue, 0))
    assert answer.code == 0, answer
    return decode_records(answer.body, check_crc=True)


async def test_its_store_is_served_with_queues_and_offsets(tmp_path: Path) -> None:
    unpack_golden(NAME, tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        client = await broker.client()
        for queue, expected in EXPECTED["queues"].items():
            found = [
                [each.keys, each.queue_offset, each.properties.get(NUMBERS)]
                for each in await read(client, queue)
            ]
            assert found == expected["messages"]
            for code, bound in ((RequestCode.GET_MIN_OFFSET, "min"), (RequestCode.GET_MAX_OFFSET, "max")):
                answer = await client.ask(code, {"topic": queue, "queueId": "0"})
                assert answer.ext_fields["offset"] == str(expected[bound])
        for place, offset in EXPECTED["committed"].items():
            topic, _, group = place.partition("@")
            fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
            answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
            assert answer.ext_fields["offset"] == str(offset), place


def test_its_messages_make_the_same_store(tmp_path: Path) -> None:
    golden = unpack_golden(NAME, tmp_path / "theirs")
    log = (golden / "commitlog" / "0".zfill(20)).read_bytes()
    store = LightMessageStore(golden_config(tmp_path / "ours", **LIGHT))
    store.open(NOW_MS)
    offset = count = 0
    while int.from_bytes(log[offset : offset + 4]):
        record = decode_record(memoryview(log), offset)
        properties = record.properties
        given = "".join(f"{key}\x01{value}\x02" for key, value in properties.items() if key != NUMBERS)
        put = store.put_message(
            record.topic, record.queue_id, record.body, given.encode(), now_ms=record.store_timestamp_ms,
            born_timestamp_ms=record.born_timestamp_ms, born_host=record.born_host, store_host=record.store_host,
            sys_flag=record.sys_flag, flag=record.flag,
        )  # fmt: skip
        assert (put.commit_log_offset, put.queue_offset) == (offset, record.queue_offset)
        ours = store.look_message(offset)
        assert ours is not None
        # Java writes properties in the order of a HashMap.
        size = int.from_bytes(log[offset : offset + 4])
        assert same_but_order(bytes(ours), log[offset : offset + size])
        offset, count = offset + size, count + 1
    settle(store)
    store.close(NOW_MS)
    assert count > 18
    for queue in ("%LMQ%a", "%LMQ%b", "GoldenLight"):
        place = Path("consumequeue") / queue / "0" / "0".zfill(20)
        assert (tmp_path / "ours" / place).read_bytes()[:2_000] == (golden / place).read_bytes(), queue


def same_but_order(ours: bytes, theirs: bytes) -> bool:
    """Whether two records are the same but for the order of their properties."""
    one, other = decode_record(memoryview(ours)), decode_record(memoryview(theirs))
    length = len("".join(f"{key}\x01{value}\x02" for key, value in one.properties.items()).encode())
    return one.properties == other.properties and ours[:-length] == theirs[:-length]


def frames() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lines = [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text("utf-8").splitlines()]
    requests = {each["file"]: each for each in lines if each["kind"] == "request"}
    return [(requests[each["request_file"]], each) for each in lines if each["kind"] == "response"]


def test_its_frames_are_decoded_and_written_again() -> None:
    assert len({request["code"] for request, _ in frames()}) == 8
    for row in (each for pair in frames() for each in pair):
        data = (WIRE / row["file"]).read_bytes()
        command = decode_frame(data[4:])
        assert (command.code, command.ext_fields) == (row["header"]["code"], row["header"]["extFields"])
        again = decode_frame(command.encode()[4:])
        assert (again.code, again.ext_fields, again.body) == (command.code, command.ext_fields, command.body)


async def test_its_requests_are_answered_alike(tmp_path: Path) -> None:
    """On its store as it was at the end, the pops by another group: what was read comes first again."""
    unpack_golden(NAME, tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        client = await broker.client()
        for request, response in sorted(
            frames(), key=lambda pair: pair[0]["code"] == RequestCode.SEND_MESSAGE_V2
        ):
            command = decode_frame((WIRE / request["file"]).read_bytes()[4:])
            theirs = decode_frame((WIRE / response["file"]).read_bytes()[4:])
            if command.code == RequestCode.POP_MESSAGE:
                command.ext_fields |= {"consumerGroup": "others", "bornTime": str(wall_ms()), "pollTime": "0"}
            ours = await client.send(command)
            name = request["file"]
            assert (ours.code, ours.ext_fields.keys()) == (theirs.code, theirs.ext_fields.keys()), name
            for field in SAME & theirs.ext_fields.keys():
                assert ours.ext_fields[field] == theirs.ext_fields[field], (name, field)
            read, there = decode_records(ours.body), decode_records(theirs.body)
            assert [line(each) for each in read[: len(there)]] == [line(each) for each in there], name


def line(record: MessageRecord) -> tuple[str, int, str | None, bytes]:
    return record.topic, record.queue_offset, record.properties.get(NUMBERS), record.body
