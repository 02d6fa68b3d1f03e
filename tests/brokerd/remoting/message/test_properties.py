from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerd.remoting.message.properties import (
    decode_properties,
    encode_properties,
    parse_each_properties,
    parse_properties,
)


def test_it_writes_properties() -> None:
    assert encode_properties({"TAGS": "TagA", "KEYS": "k"}) == b"TAGS\x01TagA\x02KEYS\x01k\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"TAGS\x01TagA\x02KEYS\x01k\x02", {"TAGS": "TagA", "KEYS": "k"}),
        (b"TAGS\x01TagA\x02KEYS\x01k", {"TAGS": "TagA", "KEYS": "k"}),
        (b"", {}),
        (b"\x02\x02", {}),
        (b"junk\x02a\x01b", {"a": "b"}),
        (b"a\x01\x02", {"a": ""}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"\x01v\x02", {}),
        ("标签\x01ü\x02", {"标签": "ü"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
    ],
)
def test_it_reads_properties(data: bytes | str, properties: dict[str, str]) -> None:
    assert decode_properties(data) == properties


TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            [b"a", b"KEYS", b"\x01", b"\x02", b"\x03", b'"', b"\\", b"\xff", b"{", b",", b"\xc3\xbc"]
        ),
        max_size=6,
    ).map(b"".join),
    max_size=4,
)


@given(TEXTS)
@example([b"TAGS\x01TagA\x02KEYS\x01k\x02", b"u\x011\x02"])
@example([b"TAGS\x01TagA\x02KEYS\x01k", b"u\x011"])
@example([b"a\x01\x02", b""])
@example([b"a\x01b\x02\x03\x01c\x02"])
@example([b"a\x01b\x03c\x01d", b"e"])
def test_many_texts_are_read_as_each_is_alone(texts: list[bytes]) -> None:
    alone = [parse_properties(text.decode(errors="replace")) for text in texts]
    assert parse_each_properties(texts) == alone
