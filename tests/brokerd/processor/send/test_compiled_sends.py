"""The compiled functions store and answer byte for byte what Python does, whatever arrives."""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.compiled.functions import compiled_functions
from brokerd.processor import dispatch
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.processor.hot_path import HotPath
from brokerd.processor.send import send_message
from brokerd.processor.send.send_message import Sender
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import decode_frame
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.signature import AccessKeys, sign
from brokerd.tables.topic_config import topic_config
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.running import RunningBroker, running, send_fields

pytestmark = pytest.mark.skipif(
    compiled_functions(is_wanted=True) is None, reason="not built: python -m brokerd.compiled.build"
)

KEY = "UNIQ_KEY\x01C0A8010A07DA5FFD2B2768000000000A\x02"
BODY_MAX = 65_536
SIZES = {"mappedFileSizeCommitLog": str(6 << 20), "maxMessageSize": str(BODY_MAX)}
NOW_MS = 1_795_252_423_873
TOPICS = {"T": 4, "U": 100, "%RETRY%g": 4, "L" * 127: 4, "L" * 128: 4}
NUMBERS = (
    [
        "0",
        "1",
        "3",
        "7",
        "99",
        "-1",
        "-0",
        "+1",
        " 1",
        "01",
        "1.0",
        "1e2",
        "",
        "x",
        "2147483647",
        "2147483648",
    ]
    + ["-2147483648", "999999999999999999", "1000000000000000000", "9223372036854775807"]
    + ["9223372036854775808", "-9223372036854775808"]
)
PIECES = (
    [KEY, "TAGS\x01a\x02", "TAGS\x01中\x02", "TAGS\x01\x02", "KEYS\x01k1  k2 \x02", "KEYS\x01ü\x02"]
    + ["INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02", "INNER_MULTI_QUEUE_OFFSET\x017\x02"]
    + ["UNIQ_KEY\x01\x02", 'UNIQ_KEY\x01a"b\x02', "UNIQ_KEY\x01k1\x02", "UNIQ_KEY\x01k1", "WAIT\x01true"]
    + ["DELAY\x011\x02", "DELAY\x010\x02", "TRAN_MSG\x01true\x02", "TRAN_MSG\x01x\x02", "POP_CK\x011\x02"]
    + ["TIMER_DELAY_SEC\x01x\x02", "TIMER_DELAY_MS\x01x\x02", "TIMER_DELIVER_MS\x01x\x02", "\x02", "\x01"]
    + ["=\x01\\\n\x02", "a\x01b\x01c\x02", "x", "\x01x\x02", "x\x01" + "y" * 300, "x\x01" + "y" * 32_900]
    + [f"x\x01{'y' * size}" for size in range(32_600, 32_680)]
)
texts = st.lists(st.sampled_from(PIECES[:28]), max_size=5).map("".join)
ordinary = st.builds(
    lambda tag, end: f"{KEY}WAIT\x01true\x02TAGS\x01{tag}" + end,
    st.sampled_from("abc"),
    st.sampled_from(["", "\x02"]),
)
bodies = st.binary(max_size=60) | st.just(b"x" * 5000)


class Twin:
    """One of the two brokers, with the address of both in what it stores."""

    def __init__(self, running_broker: RunningBroker) -> None:
        broker = self.broker = running_broker.broker
        broker.store_host = ("127.0.0.1", 10911)
        broker.sender = Sender(broker)
        self.process = dispatch.Dispatcher(broker, BROKER_HANDLERS, HotPath(broker, broker.sender)).process
        broker.store.table.makes_files_in_thread = False
        for topic, queues in TOPICS.items():
            broker.topics.put(topic_config(topic, queues, 6), 0)
        self.begin = broker.store.commit_log_max_offset

    def handle(self, data: bytes) -> tuple[object, ...]:
        """All that can be seen of a read: answers, what stays, the log's new bytes, the queues, figures."""
        store, channel = self.broker.store, MemoryChannel()
        before = store.commit_log_max_offset
        used, replies = self.process(data, channel)
        stored, position = [], before
        while position < store.commit_log_max_offset:
            record = store.look_message(position)
            if record is None:  # the end of a file
                position = store._log.next_file_offset(position)
                continue
            stored.append((position, bytes(record)))
            position += len(record)
        queues = {
            key: bytes(queue.units(queue.max_offset - min(queue.max_offset, 40), 40) or b"")
            for key, queue in store._queues.items()
        }
        put = self.broker.stats.broker_put
        return used, b"".join(replies), channel.closed_for, stored, queues, put.value, put.times

    def index(self) -> bytes:
        self.broker.store.index_pending()
        return b"".join(bytes(each.mapped_file.map) for each in self.broker.store._key_index.files)


@asynccontextmanager
async def twins(
    root: Path, monkeypatch: pytest.MonkeyPatch, **changes: str
) -> AsyncIterator[tuple[Twin, Twin]]:
    """Python's broker and the compiled one, for which it is always the same moment."""
    clock = SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000, monotonic_ns=lambda: 5_000_000_000)
    monkeypatch.setattr(dispatch, "time", clock)
    monkeypatch.setattr(send_message, "make_unique_key", lambda host, now_ms: "A" * 32)
    monkeypatch.setattr(random, "randrange", lambda limit: 0)
    async with (
        running(root / "python", **SIZES, **changes) as python,
        running(root / "compiled", **SIZES, **changes, compiledSends="true") as compiled,
    ):
        yield Twin(python), Twin(compiled)


def frame(code: int, fields: dict[str, str], body: bytes, flag: int = 0, **more: object) -> bytes:
    header = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": 9, **more}
    data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack(">iI", 4 + len(data) + len(body), len(data)) + data + body


def plain_send(**fields: str) -> bytes:
    return frame(310, {**send_fields("T", properties=KEY), **fields}, b"body", version=479)


def odd_reads() -> Iterator[bytes]:
    """One thing at a time that clients do not send, each before an ordinary frame."""
    for name, number in itertools.product("defghjl", NUMBERS):
        yield plain_send(**{name: number})
    for piece in PIECES:
        yield plain_send(i=piece)
        yield plain_send(i=KEY + piece)
        yield plain_send(i=piece + KEY)
    for topic, queue_id in itertools.product(
        [*TOPICS, "unknown", "bad topic", "", "Ü"], ("0", "3", "4", "63", "64")
    ):
        yield plain_send(b=topic, e=queue_id)
    yield plain_send(b="%RETRY%g", j="99")
    for text in ("true", "false", "TRUE", "", "x"):
        yield plain_send(m=text)
        yield plain_send(k=text)
    for bit in range(31):
        yield plain_send(f=str(1 << bit))
        yield frame(320, send_fields("T", m="true", f=str(1 << bit)), encode_batch([Message("T", b"1", {})]))
        yield frame(310, send_fields("T", properties=KEY), b"", 1 << bit, version=479)
    for name in "abcdefghijkl":
        fields = send_fields("T", properties=KEY)
        fields.pop(name, None)
        yield frame(310, fields, b"")
        yield frame(310, {**fields, "x": "1"}, b"")
    for more in (
        {"remark": ""},
        {"remark": None},
        {"version": 2**31},
        {"version": 1.5},
        {"x": 1},
        {"language": 1},
    ):
        yield frame(310, send_fields("T", properties=KEY), b"", **more)
    yield from odd_headers()
    yield from odd_bodies()


def odd_headers() -> Iterator[bytes]:
    """Texts that no JSON encoder of ours writes."""
    ordinary_frame = plain_send()
    for old, new in (
        (b'"opaque":9', b'"opaque":9,"opaque":8'),
        (b'"opaque":9', b'"opaque":09'),
        (b'"opaque":9', b'"opaque":"9"'),
        (b'"opaque":9', b'"opaque":-9'),
        (b'"opaque":9', b'"opaque":2147483648'),
        (b'"opaque":9', b'"opaque": 9'),
        (b'"e":"0"', b'"e":"0","e":"1"'),
        (b'"e":"0"', b'"e":0'),
        (b'"e":"0"', b'"e":null'),
        (b'"i":"', b'"i":"\\u0041'),
        (b'"i":"', b'"i":"\\n'),
        (b'"b":"T"', b'"b":"\\u0054"'),
        (b'"b":"T"', b'"\\u0062":"T"'),
        (b"}", b"}}"),
        (b"479}", b"479} "),
        (b"479}", b"479}x"),
        (b"479}", b"479"),
        (b'"code":310', b'"code":3100'),
        (b'"code":310', b'"code":310,"code":10'),
        (b'"flag":0', b'"flag":00'),
    ):
        header = ordinary_frame[8:-4].replace(old, new, 1)
        yield struct.pack(">iI", 8 + len(header), len(header)) + header + b"body"


def odd_bodies() -> Iterator[bytes]:
    """Sizes at the limit, and batches that are not what they say."""
    for size in (BODY_MAX, BODY_MAX - 300, BODY_MAX + 1):
        yield frame(310, send_fields("T", properties=KEY), bytes(size), version=479)
        many = encode_batch([Message("T", bytes(size // 4 - 30), {})] * 4)
        yield frame(320, send_fields("T", m="true"), many)
    entry = encode_batch([Message("T", b"1", {"TAGS": "a"})])
    for at, value in itertools.product(range(len(entry)), (0, 1, 21, 22, 0x7F, 0x80, 0xFF)):
        body = entry + entry[:at] + bytes([value]) + entry[at + 1 :]
        yield frame(320, send_fields("T", m="true"), body)
    for text in (
        b"TAGS\x01a\x02TAGS\x01\x02",
        b"UNIQ_KEY\x01k\x02UNIQ_KEY\x01\x02",
        b"x\x02",
        b"\x02\x02TAGS\x01a",
        b"TAGS",
    ):
        body = struct.pack(">iiiii", 23 + len(text), 0, 0, 7, 1) + b"1" + struct.pack(">h", len(text)) + text
        yield frame(320, send_fields("T", m="true"), body)
    for properties in ({"KEYS": "ü"}, {"TAGS": "ü"}, {"TAGS": ""}, {"UNIQ_KEY": "ü", "KEYS": " a  b "}):
        yield frame(320, send_fields("T", m="true"), encode_batch([Message("T", b"1", properties)]))


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    """Mostly what clients send; sometimes one thing about it is odd."""
    fields = send_fields("T", queue_id=draw(st.integers(0, 3)), properties=draw(ordinary))
    if draw(st.booleans()):
        fields["n"] = "broker-a"
    odd = draw(
        st.sampled_from(["", "", "", "", "number", "properties", "topic", "field", "batch", "flags", "code"])
    )
    code, flag, more = 310, draw(st.sampled_from([0, 0, 2])), {"version": 479}
    if odd == "number":
        fields[draw(st.sampled_from("defghjl"))] = draw(st.sampled_from(NUMBERS))
    elif odd == "properties":
        fields["i"] = draw(texts)
    elif odd == "topic":
        fields["b"] = draw(st.sampled_from([*TOPICS, "unknown", "bad topic", "", "Ü"]))
        fields["e"] = draw(st.sampled_from(["0", "63", "64", "99"]))
    elif odd == "field":
        fields.pop(draw(st.sampled_from(list(fields))))
        fields[draw(st.sampled_from(["a", "z", "ab", "o"]))] = "1"
    elif odd == "batch":
        fields["m"] = draw(st.sampled_from(["true", "false", "TRUE", "x"]))
    elif odd == "flags":
        fields["f"] = draw(st.sampled_from(["1", "2", "4", "8", "16", "768", "1024", "2048"]))
        flag = draw(st.sampled_from([0, 1, 3, 4, 6]))
    elif odd == "code":
        code = draw(st.sampled_from([10, 320, 310_0, 31]))
        more = draw(st.sampled_from([{}, {"version": 2**31}, {"remark": ""}, {"remark": None}, {"x": 1}]))
    return frame(code, fields, draw(bodies), flag, **more)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    properties = st.dictionaries(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "ATAGS"]), st.sampled_from(["a", "b c", "中", ""])
    )
    messages = draw(
        st.lists(st.builds(Message, st.just("T"), bodies, properties, st.integers(-5, 5)), max_size=4)
    )
    body = encode_batch(messages)
    fields = send_fields("T", properties=KEY, m="true", f=draw(st.sampled_from(["0", "1", "4", "16"])))
    if draw(st.booleans()):
        body = body[: draw(st.integers(0, len(body)))] + draw(st.binary(max_size=3))
    return frame(320, fields, body)


@st.composite
def reads(draw: st.DrawFn) -> bytes:
    data = b"".join(draw(st.lists(sends() | batches(), min_size=1, max_size=5)))
    what = draw(st.sampled_from(["whole", "whole", "cut", "changed"]))
    if what == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if what == "changed":
        at = draw(st.integers(0, len(data) - 1))
        return data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
    return data


async def test_it_equals_python_for_whatever_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with twins(tmp_path, monkeypatch) as (python, compiled):
        taken = itertools.count()
        functions = compiled.broker.sender._functions
        run = functions.sends
        monkeypatch.setattr(functions, "sends", lambda *a: (found := run(*a)) and (next(taken), found)[1])

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(reads())
        def compare(data: bytes) -> None:
            assert compiled.handle(data) == python.handle(data)

        compare()
        assert next(taken) > 0  # some went the compiled way
        assert compiled.index() == python.index()


async def test_it_equals_python_for_each_odd_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with twins(tmp_path, monkeypatch) as (python, compiled):
        for data in odd_reads():
            for read in (data, plain_send() + data + plain_send()):
                assert compiled.handle(read) == python.handle(read), data[:400]
        for each in (python, compiled):  # the queue is there, and not the topic's any more
            each.broker.topics.put(topic_config("T", 2, 6), 0)
        for _ in range(2):  # the first reads the topic anew
            assert compiled.handle(plain_send(e="3")) == python.handle(plain_send(e="3"))
        assert compiled.index() == python.index()


async def test_it_leaves_messages_of_light_queues_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = {"enableLmq": "true", "enableMultiDispatch": "true"}
    texts = [piece for piece in PIECES if "INNER_MULTI" in piece] + ["INNER_MULTI_DISPATCH\x01x\x02"]
    async with twins(tmp_path, monkeypatch, **light) as (python, compiled):
        for text in [*texts, "".join(texts[:2])]:
            properties = dict([text.rstrip("\x02").split("\x02")[0].split("\x01")])
            batch = frame(320, send_fields("T", m="true"), encode_batch([Message("T", b"1", properties)]))
            for read in (plain_send() + plain_send(i=KEY + text) + plain_send(), plain_send() + batch):
                assert compiled.handle(read) == python.handle(read), text
        assert compiled.broker.store.max_offset("%LMQ%a", 0) == 2
        assert compiled.index() == python.index()


async def test_it_equals_python_cut_at_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with twins(tmp_path, monkeypatch) as (python, compiled):
        data = frame(310, send_fields("T", properties=KEY + "TAGS\x01a\x02"), b"body", version=479)
        batch = frame(320, send_fields("T", m="true"), encode_batch([Message("T", b"1", {"TAGS": "a"})] * 2))
        for whole in (data + data, batch):
            for end in range(len(whole) + 1):
                assert compiled.handle(whole[:end]) == python.handle(whole[:end]), end


async def test_it_equals_python_with_every_byte_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with twins(tmp_path, monkeypatch) as (python, compiled):
        data = frame(310, send_fields("T", properties=KEY + "TAGS\x01a\x02"), b"body", version=479)
        batch = frame(320, send_fields("T", m="true"), encode_batch([Message("T", b"1", {"TAGS": "a"})] * 2))
        for whole in (data, batch):
            for at, value in itertools.product(range(len(whole)), (0x22, 0x5C)):
                changed = whole[:at] + bytes([value]) + whole[at + 1 :]
                assert compiled.handle(changed) == python.handle(changed), (at, value)


async def test_it_equals_python_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads meet their end in the middle, and the end of what is ready."""
    async with twins(tmp_path, monkeypatch) as (python, compiled):
        one = frame(310, send_fields("T", properties=KEY), b"x" * 3000, version=479)
        batch = frame(320, send_fields("T", m="true"), encode_batch([Message("T", b"y" * 3000, {})] * 9))
        for _ in range(40):
            assert compiled.handle(one * 80) == python.handle(one * 80)
            assert compiled.handle(batch) == python.handle(batch)
        for _ in range(250):
            assert compiled.handle(batch) == python.handle(batch)
        assert compiled.index() == python.index()


async def test_an_unsigned_send_is_refused_as_ever(tmp_path: Path) -> None:
    """Signatures are checked before, in Python."""
    user = '{"username":"admin","password":"secret"}'
    access = {"authenticationEnabled": "true", "initAuthenticationUser": user}
    async with running(tmp_path, compiledSends="true", **access) as broker:
        store = broker.broker.store
        store.table.makes_files_in_thread = False
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        signed = decode_frame(plain_send()[4:])
        sign(signed, AccessKeys("admin", "secret"))
        process = broker.controller._dispatcher.process
        codes = []
        for data in (signed.encode(), plain_send(), signed.encode(), plain_send()):
            _, (answer,) = process(data, MemoryChannel())
            codes.append(decode_frame(answer[4:]).code)
        assert codes == [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION] * 2
