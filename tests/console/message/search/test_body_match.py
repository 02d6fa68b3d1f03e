"""What the console looks for in messages itself."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageRecord, SysFlag
from console.message.search.body_match import KIND_NAMES, MatchRefused, read_match

BODY = '{"city": "杭州", "amount": 23880, "items": [{"sku": "a-1", "qty": 4}], "paid": true, "note": null}'


def record(body: bytes = BODY.encode(), sys_flag: int = 0) -> MessageRecord:
    host = ("10.0.0.1", 1)
    properties = {"KEYS": "ORD-1 ORD-2", "channel": "wallet", "level": "7"}
    return MessageRecord("t", 0, 0, 0, 0, body, 0, 0, sys_flag, 0, host, 0, host, 0, 0, properties)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("body", "杭州", True),
        ("body", "Hangzhou", False),
        ("key", "ORD-2", True),
        ("key", "ORD", False),
        ("json", '$.city == "杭州"', True),
        ("json", '$.city != "杭州"', False),
        ("json", "$.amount > 5000", True),
        ("json", "$.amount<=23879", False),
        ("json", "$.items[0].qty >= 4", True),
        ("json", '$["items"][0]["sku"] == "a-1"', True),
        ("json", "$.items[1]", False),
        ("json", "$.note", True),
        ("json", "$.note == null", True),
        ("json", "$.paid == true", True),
        ("json", "$.paid == 1", False),
        ("json", '$.amount == "23880"', False),
        ("json", "$.city > 5", False),
        ("property", "channel", True),
        ("property", "channel == wallet", True),
        ("property", 'channel == "cash"', False),
        ("property", "level > 6", True),
        ("property", "channel > 6", False),
        ("property", "absent != 1", False),
    ],
)
def test_it_matches(kind: str, text: str, expected: bool) -> None:
    match = read_match(kind, text)
    assert match is not None and match.accepts(record()) is expected


def test_it_looks_into_compressed_bodies() -> None:
    match = read_match("json", "$.amount == 23880")
    assert match is not None
    assert match.accepts(record(zlib.compress(BODY.encode()), SysFlag.COMPRESSED))
    assert not match.accepts(record(b"\x00\xff"))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("json", "city", r"Enter it like \$\.shippingTo"),
        ("json", "$.city = 1", "enter one of"),
        ("json", "$.city == 杭州", "is not a JSON value"),
        ("json", "$.city == [1]", "Enter text, a number"),
        ("property", "== 1", "Enter it like channel"),
        ("regex", "a+", "Choose one of"),
        ("body", "x" * 1_001, "At most 1,000"),
    ],
)
def test_it_says_what_to_write(kind: str, text: str, words: str) -> None:
    with pytest.raises(MatchRefused, match=words):
        read_match(kind, text)


@given(st.sampled_from(sorted(KIND_NAMES)), st.text(max_size=40))
def test_it_never_breaks(kind: str, text: str) -> None:
    try:
        match = read_match(kind, text)
    except MatchRefused:
        return
    if match is not None:
        match.accepts(record())
        match.excerpt(BODY)


def test_it_shows_where_the_hit_is() -> None:
    match = read_match("body", "needle")
    assert match is not None
    assert match.excerpt("x " * 50 + "needle\n  and more") == ("… " + "x " * 20, "needle", " and more")
    assert match.excerpt("nothing") is None
