from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header.headers import (
    PullMessageRequestHeader,
    SendMessageRequestHeaderV2,
)

V2 = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "1", "g": "1700000000000", "h": "7"}


def test_it_reads_flags_as_java_does() -> None:
    for text, is_batch in (("true", True), ("TRUE", True), ("1", False), ("yes", False), ("", False)):
        assert SendMessageRequestHeaderV2.from_ext_fields({**V2, "m": text}).batch is is_batch


def test_it_leaves_absent_fields_out() -> None:
    assert SendMessageRequestHeaderV2.from_ext_fields(V2).to_ext_fields() == V2


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("-3", -3),
        ("+3", 3),
        ("007", 7),
        ("-0", 0),
        ("3.0", 3),
        ("3e2", 300),
        ("2147483647", 2**31 - 1),
    ],
)
def test_it_reads_whole_numbers(text: str, number: int) -> None:
    assert SendMessageRequestHeaderV2.from_ext_fields({**V2, "e": text}).queue_id == number


@pytest.mark.parametrize(
    "text",
    ["", " 3", "3 ", "1_0", "0x10", "3.5", "٣", "null", "true", "2147483648", "-2147483649", "9" * 5000],
)
def test_it_refuses_other_numbers_and_names_the_field(text: str) -> None:
    with pytest.raises(HeaderFieldError) as caught:
        SendMessageRequestHeaderV2.from_ext_fields({**V2, "e": text})
    assert (caught.value.field, caught.value.value) == ("e", text)
    assert str(caught.value).startswith("header field e: takes a ")
    assert len(str(caught.value)) < 250


def test_it_reads_the_word_null_as_nothing_where_a_number_may_be_absent() -> None:
    assert SendMessageRequestHeaderV2.from_ext_fields({**V2, "j": "null"}).reconsume_times is None


def test_it_names_the_missing_field() -> None:
    with pytest.raises(HeaderFieldError, match="header field a: is required") as caught:
        SendMessageRequestHeaderV2.from_ext_fields({"b": "T"})
    assert (caught.value.field, caught.value.value, caught.value.reason) == ("a", None, "is required")


def test_it_takes_64_bits_where_java_has_long() -> None:
    fields = {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "9223372036854775807",
        "maxMsgNums": "32",
        "sysFlag": "2",
        "commitOffset": "-9223372036854775808",
        "suspendTimeoutMillis": "15000",
        "subVersion": "0",
    }
    header = PullMessageRequestHeader.from_ext_fields(fields)
    assert (header.queue_offset, header.commit_offset) == (2**63 - 1, -(2**63))
    with pytest.raises(HeaderFieldError, match="queueOffset"):
        PullMessageRequestHeader.from_ext_fields({**fields, "queueOffset": "9223372036854775808"})


@given(st.dictionaries(st.sampled_from(list("abcdefghijklmn")), st.text(max_size=12)))
def test_it_raises_nothing_but_the_documented_error(fields: dict[str, str]) -> None:
    try:
        header = SendMessageRequestHeaderV2.from_ext_fields({**V2, **fields})
    except HeaderFieldError as error:
        assert error.field in fields
        return
    assert SendMessageRequestHeaderV2.from_ext_fields(header.to_ext_fields()) == header
