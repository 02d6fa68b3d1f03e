"""A stored record matches as its properties do, read one by one or all at once."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerd.filter.property_filter import WANTED_MAX, record_filter
from brokerd.filter.sql_parser import compile_expression
from brokerd.remoting.message.properties import decode_properties
from brokerd.store.log.record import encode_record, encode_topic

# Pieces that make names within names, repeated and empty ones, and text that is no UTF-8.
PIECES = (
    b"\x01",
    b"\x02",
    b"a",
    b"b",
    b"ba",
    b"5",
    b"7",
    b"a\x015\x02",
    b"a\x017\x02",
    b"b\x017\x02",
    b"\xe4",
    "ä".encode(),
)
# No name beside another: two missing ones are equal.
FEW = "a = 5 OR b > 6 OR ba IS NOT NULL"
MANY = f"{FEW} OR c = 7"


def record(properties: bytes) -> memoryview:
    hosts = bytes(8)
    return memoryview(
        encode_record(encode_topic("T"), 0, 0, 0, b"", properties, 0, 0, 0, hosts, 0, hosts, 0, 0)
    )


@pytest.mark.parametrize("expression", [FEW, MANY])
@example(pieces=[b"a\x015\x02", b"a\x017\x02"])  # the last of two counts
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=20))
def test_a_record_matches_as_its_properties_do(expression: str, pieces: list[bytes]) -> None:
    properties = b"".join(pieces)
    expected = compile_expression(expression).matches(decode_properties(properties))
    assert record_filter(expression).matches(record(properties)) is expected


def test_the_expressions_take_both_ways() -> None:
    assert len(compile_expression(FEW).names) <= WANTED_MAX < len(compile_expression(MANY).names)
