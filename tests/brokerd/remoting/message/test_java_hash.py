from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message.java_hash import (
    java_hash,
    java_hash_joined,
    java_string_hash,
    signed,
    tag_code,
    tags_code,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("中文", 646394),
        ("", 0),
        ("TopicTest#key1", -1655984460),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("😀", 1772899),  # two UTF-16 units: 0xD83D * 31 + 0xDE00
    ],
)
def test_it_equals_java_string_hash_code(text: str, value: int) -> None:
    assert signed(java_hash(text.encode())) == value
    assert java_string_hash(text) == value


def plain_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for position in range(0, len(units), 2):
        value = (value * 31 + units[position] * 256 + units[position + 1]) % 2**32
    return value


@given(st.text(max_size=600), st.text(max_size=40))
def test_it_equals_its_plain_twin_whole_and_joined(prefix: str, text: str) -> None:
    assert java_hash(prefix.encode()) == plain_hash(prefix)
    assert java_string_hash(prefix) == signed(plain_hash(prefix))
    assert java_hash_joined(plain_hash(prefix), text.encode()) == plain_hash(prefix + text)


def test_it_gives_code_0_to_a_message_without_tags_and_extends_the_sign() -> None:
    assert tag_code("TagA") == 2598919
    assert tag_code("") == 0
    assert tags_code(b"") == 0
    assert tags_code(b"TagA") == 2598919
    assert tags_code(b"polygenelubricants") == -(2**31)


def test_it_hashes_halves_of_surrogate_pairs() -> None:
    assert java_string_hash("\ud83d") == 0xD83D
