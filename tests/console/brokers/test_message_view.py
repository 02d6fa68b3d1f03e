"""Rendering of bodies that producers may have filled with anything."""

from __future__ import annotations

import gzip
import zlib

import lz4.frame
import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from console.brokers.body_format import FORMAT_NAMES, Rendered, render_body
from console.brokers.body_unpack import DoesNotUnpack, inner_messages, is_batch, unpack
from console.brokers.masking import NO_MASKS
from console.brokers.message_view import message_view
from console.brokers.mqadmin import MessageRecord, SysFlag

ZSTD = zstandard.ZstdCompressor()
PACKERS = {
    "zlib": (zlib.compress, SysFlag.COMPRESSION_ZLIB),
    "LZ4": (lz4.frame.compress, SysFlag.COMPRESSION_LZ4),
    "ZSTD": (ZSTD.compress, SysFlag.COMPRESSION_ZSTD),
    "gzip": (gzip.compress, None),
}


def record(body: bytes, sys_flag: int = 0, **properties: str) -> MessageRecord:
    return MessageRecord(
        "orders",
        3,
        40,
        4096,
        200,
        body,
        0,
        0,
        sys_flag,
        1_000,
        ("10.0.0.1", 5000),
        2_000,
        ("10.0.0.2", 10911),
        0,
        0,
        properties,
    )


def shown(body: bytes, limit: int, **how: str) -> tuple[str, str, bool]:
    rendered = render_body(body, limit, **how)
    return rendered.text, rendered.format, rendered.is_cut


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"plain", ("plain", "text", False)),
        (b"", ("", "text", False)),
        (
            '{"a":1,"städte":["杭州"]}'.encode(),
            ('{\n  "a": 1,\n  "städte": [\n    "杭州"\n  ]\n}', "json", False),
        ),
        (b"{not json", ("{not json", "text", False)),
        (b"\x00\xffAB", ("00000000  00 ff 41 42                                      ..AB", "hex", False)),
        (b"bell\x07", ("00000000  62 65 6c 6c 07                                   bell.", "hex", False)),
        (b"x" * 101, ("x" * 100, "text", True)),
    ],
)
def test_it_renders(body: bytes, expected: tuple[str, str, bool]) -> None:
    assert shown(body, 100) == expected


def test_it_cuts_between_characters() -> None:
    assert shown(("x" + "州" * 50).encode(), 100) == ("x" + "州" * 33, "text", True)


@given(st.binary(max_size=300), st.integers(1, 200))
def test_it_never_raises_and_stays_printable(body: bytes, limit: int) -> None:
    text, body_format, cut = shown(body, limit)
    assert body_format in FORMAT_NAMES
    assert not any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text)
    assert cut or len(body) <= limit or body_format in ("hex", "msgpack")


def test_it_survives_deep_json() -> None:
    text, body_format, _ = shown(b"[" * 100_000, 256 * 1024)
    assert body_format == "text" and text.startswith("[[[")


@given(st.binary(max_size=300), st.sampled_from(sorted(FORMAT_NAMES)))
def test_it_falls_back_to_hex_with_a_reason(body: bytes, wanted: str) -> None:
    rendered = render_body(body, 200, wanted)
    assert rendered.format == "hex" or wanted in ("auto", rendered.format)
    if wanted not in ("auto", "hex") and rendered.format == "hex":
        assert rendered.problem


@pytest.mark.parametrize(
    ("wanted", "body", "words"),
    [
        ("json", b"{", "not JSON"),
        ("text", b"\xff", "not UTF-8 text: byte 0 is 0xff"),
        ("text", b"\x00", "not text: it has control characters"),
        ("msgpack", b"\xc1", "not MessagePack"),
        ("protobuf", b"\x08\x01", "no Protobuf schema is stored for this topic"),
        ("yaml", b"a: 1", "there is no body format"),
    ],
)
def test_it_says_why_a_format_does_not_fit(wanted: str, body: bytes, words: str) -> None:
    rendered = render_body(body, 100, wanted)
    assert rendered.format == "hex" and words in rendered.problem


def test_it_reads_message_pack() -> None:
    body = msgspec.msgpack.encode({"id": 7, "raw": b"\x01\x02", 3: [True, None, 1.5]})
    assert render_body(body, 1_000) == Rendered(
        '{\n  "id": 7,\n  "raw": {\n    "bytes": "01 02"\n  },\n  "3": [\n    true,\n    null,\n    1.5\n  ]\n}',
        "msgpack",
    )
    assert render_body(b"\x93" * 5_000 + b"\x01", 1_000).format == "hex", "too deep"


def test_it_writes_base64() -> None:
    assert render_body(b"\x00\xff", 100, "base64").text == "AP8="


@pytest.mark.parametrize("name", ["zlib", "LZ4", "ZSTD"])
def test_it_undoes_what_the_flags_say(name: str) -> None:
    pack, kind = PACKERS[name]
    assert kind is not None
    view = message_view(
        record(pack(b'{"a":1}' + b" " * 500), SysFlag.COMPRESSED | kind), "broker-a", masks=NO_MASKS
    )
    assert (view.body_format, view.body_text, view.body_bytes) == ("json", '{\n  "a": 1\n}', 507)
    assert (view.body_packing, view.body_problem) == (f"{name} flag", "")


@pytest.mark.parametrize("name", sorted(PACKERS))
def test_it_detects_what_the_producer_compressed(name: str) -> None:
    pack, _ = PACKERS[name]
    assert unpack(pack(b"hello" * 40), 0).body == b"hello" * 40
    twice = unpack(zlib.compress(pack(b"hello" * 40)), SysFlag.COMPRESSED)
    assert (twice.body, twice.how) == (b"hello" * 40, ("zlib flag", name))


@pytest.mark.parametrize("name", sorted(PACKERS))
def test_it_cuts_bombs_and_says_so(name: str) -> None:
    bomb = PACKERS[name][0](b"\0" * (9 * 1024 * 1024))
    found = unpack(bomb, 0)
    assert found.body == bomb and found.problem == f"looks like {name}, but it is larger than 8,388,608 bytes"
    short = unpack(PACKERS[name][0](b"hello" * 4_000)[:-3], 0)
    assert short.how == () and short.problem.startswith(f"looks like {name}, but ")


def test_it_shows_what_does_not_inflate_as_stored() -> None:
    view = message_view(record(b'{"a": 1}', SysFlag.COMPRESSED), "broker-a", masks=NO_MASKS)
    assert (view.body_format, view.body_bytes) == ("json", 8)
    assert view.body_problem.startswith("the zlib flag is set, but it does not decompress")
    unknown = message_view(record(b"x", SysFlag.COMPRESSED | 0x500), "broker-a", masks=NO_MASKS)
    assert unknown.body_problem == "compression type 0x500 is unknown"


def test_it_takes_batches_apart() -> None:
    messages = [
        Message("orders", b"one", {"KEYS": "a", "TAGS": "x"}),
        Message("orders", b"two", {"KEYS": "b"}, 7),
    ]
    flags = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
    for body, more in (
        (encode_batch(messages), 0),
        (zlib.compress(encode_batch(messages)), SysFlag.COMPRESSED),
    ):
        stored = record(body, flags | more, INNER_NUM="2", CLUSTER="c")
        assert is_batch(stored)
        found = inner_messages(stored)
        assert [(each.queue_offset, each.body, each.keys, each.flag) for each in found] == [
            (40, b"one", "a", 0),
            (41, b"two", "b", 7),
        ]
        assert found[0].properties == {"CLUSTER": "c", "KEYS": "a", "TAGS": "x"}
        assert not any(is_batch(each) or each.sys_flag & SysFlag.COMPRESSED for each in found)


def test_it_says_when_a_batch_is_none() -> None:
    with pytest.raises(DoesNotUnpack, match="the body is no batch"):
        inner_messages(record(b"nonsense", SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP))
