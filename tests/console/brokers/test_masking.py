"""Rules that hide values: paths, properties, copies, and bodies that cannot be searched for a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.brokers.masking import HIDDEN, HIDDEN_BODY, NO_MASKS, MaskRule, Masks, PathRefused, read_path
from console.brokers.mqadmin import MessageRecord, SysFlag
from console.deadletter.replay.copy import DIED_IN_TOPIC

HOST = ("10.0.0.1", 10911)


def record(body: bytes, topic: str = "orders", sys_flag: int = 0, **properties: str) -> MessageRecord:
    return MessageRecord(topic, 0, 0, 0, 0, body, 7, 0, sys_flag, 0, HOST, 0, HOST, 0, 0, properties)


def masks(*paths: str, topic: str = "orders", property: str = "") -> Masks:
    rules = [MaskRule(topic, steps=read_path(path)) for path in paths]
    return Masks((*rules, MaskRule(topic, property=property)) if property else tuple(rules))


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("$.a", {"a": 1, "b": 2}, {"a": HIDDEN, "b": 2}),
        ("$.a.b", {"a": {"b": [1], "c": 2}}, {"a": {"b": HIDDEN, "c": 2}}),
        ("$.a[*].b", {"a": [{"b": 1}, {"c": 2}, {"b": 3}]}, {"a": [{"b": HIDDEN}, {"c": 2}, {"b": HIDDEN}]}),
        ("$[0]", [1, 2], [HIDDEN, 2]),
        ('$["a b"]', {"a b": 1}, {"a b": HIDDEN}),
        ("$.*", {"a": 1, "b": {"c": 2}}, {"a": HIDDEN, "b": HIDDEN}),
        ("$..pin", {"pin": 1, "a": [{"pin": 2}, {"b": {"pin": {"x": 3}}}]}, None),
        ("$.a..pin", {"pin": 1, "a": {"b": {"pin": 2}}}, {"pin": 1, "a": {"b": {"pin": HIDDEN}}}),
        ("$.a", {"a": None}, {"a": HIDDEN}),
    ],
)
def test_it_hides_what_a_path_leads_to(path: str, body: Any, wanted: Any) -> None:
    found = json.loads(masks(path).masked(record(json.dumps(body).encode())).body)
    assert found == (wanted or {"pin": HIDDEN, "a": [{"pin": HIDDEN}, {"b": {"pin": HIDDEN}}]})


@pytest.mark.parametrize("body", [b'{"b": 1}', b"[]", b'"text"', b"4", b'{"a": {"x": 1}}'])
def test_it_leaves_a_body_without_the_path_as_it_is(body: bytes) -> None:
    one = record(body)
    assert masks("$.a.b").masked(one) is one and not masks("$.a.b").hides(one)


@pytest.mark.parametrize("body", [b"a=1", b"\xff\xfe\x00", b"{", b'{"a": 1} trailing', b"[" * 100_000])
def test_it_hides_a_body_that_is_no_json_as_a_whole(body: bytes) -> None:
    assert masks("$.a").masked(record(body)).body.decode() == HIDDEN_BODY


def test_it_hides_what_a_second_name_would_hide_from_the_parser() -> None:
    found = masks("$.a.b").masked(record(b'{"a": {"b": 4711}, "a": {"c": 1}}'))
    assert json.loads(found.body) == {"a": {"c": 1}} and b"4711" not in found.body


def test_the_masked_body_is_neither_compressed_nor_checkable() -> None:
    import zlib

    stored = record(zlib.compress(b'{"a": 1}'), sys_flag=SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6)
    found = masks("$.a").masked(stored)
    assert (json.loads(found.body), found.body_crc) == ({"a": HIDDEN}, 0)
    assert found.sys_flag == SysFlag.BORN_HOST_V6
    assert masks("$.a").masked(found).body == found.body  # twice is once


def test_properties_are_hidden_by_name() -> None:
    rules = masks(property="pin")
    one = record(b"text", pin="1", other="2")
    assert rules.masked(one).properties == {"pin": HIDDEN, "other": "2"} and rules.masked(one).body == b"text"
    assert one.properties["pin"] == "1"  # the broker's record is not changed
    assert rules.properties_of("orders") == {"pin"} and rules.properties_of("others") == frozenset()


@pytest.mark.parametrize("name", ["RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "REAL_TOPIC", DIED_IN_TOPIC])
def test_copies_in_other_topics_are_hidden_too(name: str) -> None:
    rules = masks("$.a", property="pin")
    copy = record(b'{"a": 1}', "%DLQ%billing", pin="1", **{name: "orders"})
    assert b"1" not in rules.masked(copy).body and rules.masked(copy).properties["pin"] == HIDDEN
    stranger = record(b'{"a": 1}', "%DLQ%billing", pin="1", **{name: "clicks"})
    assert rules.masked(stranger) is stranger


def test_without_rules_nothing_is_read() -> None:
    broken = record(b"\xff", sys_flag=SysFlag.COMPRESSED)
    assert NO_MASKS.masked(broken) is broken


@pytest.mark.parametrize("path", ["", "$", "a", "$a", "$.", "$.a.", "$[x]", "$.a b", "$..", "$.a;--"])
def test_it_refuses_what_is_no_path(path: str) -> None:
    with pytest.raises(PathRefused):
        read_path(path)
