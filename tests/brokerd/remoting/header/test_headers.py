from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header.fields import fields_of
from brokerd.remoting.header.headers import (
    ConsumerSendMsgBackRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from tests.brokerd.remoting.golden_frames import golden_frames

# Fields that any request may carry and no header class names (protocol section 1.9).
COMMON_FIELDS = {"AccessKey", "Signature", "SecurityToken", "ReqT"}
# Captured on purpose with a field missing or wrong (tests/golden/wire manifests: description).
INVALID = {
    "4.9.7/10-send_message-12.request.bin": "queueId",
    "5.3.3/10-send_message-12.request.bin": "queueId",
}


REQUESTS = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    RequestCode.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBackRequestHeader,
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageRequestHeader,
}
ANSWERS = {
    RequestCode.SEND_MESSAGE: SendMessageResponseHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageResponseHeader,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageResponseHeader,
    RequestCode.PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: OffsetResponseHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: OffsetResponseHeader,
    RequestCode.GET_MAX_OFFSET: OffsetResponseHeader,
    RequestCode.GET_MIN_OFFSET: OffsetResponseHeader,
}


def test_it_reads_every_field_of_captured_requests() -> None:
    read, refused = set(), {}
    for frame in golden_frames():
        if not frame.is_request or frame.code not in REQUESTS:
            continue
        ext_fields = frame.command().ext_fields
        try:
            header = REQUESTS[frame.code].from_ext_fields(ext_fields)
        except HeaderFieldError as error:
            refused[frame.name] = error.field
            continue
        own = {key: value for key, value in ext_fields.items() if key not in COMMON_FIELDS}
        assert header.to_ext_fields() == own, frame.name
        read.add(frame.code)
    assert refused == INVALID
    assert read == set(REQUESTS)


def test_it_reads_every_field_of_captured_answers() -> None:
    read = set()
    for frame in golden_frames():
        if frame.is_success and frame.code in ANSWERS:
            ext_fields = frame.command().ext_fields
            assert ANSWERS[frame.code].from_ext_fields(ext_fields).to_ext_fields() == ext_fields, frame.name
            read.add(frame.code)
    assert read == set(ANSWERS)


def test_it_writes_flags_as_java_does() -> None:
    answer = SendMessageResponseHeader("id", 3, 42, msg_region="DefaultRegion", trace_on="true")
    assert answer.to_ext_fields() == {
        "msgId": "id",
        "queueId": "3",
        "queueOffset": "42",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


def test_it_reads_flags_as_java_does() -> None:
    for text, is_batch in (("true", True), ("TRUE", True), ("1", False), ("yes", False), ("", False)):
        assert SendMessageRequestHeaderV2.from_ext_fields({**V2, "m": text}).batch is is_batch


V2 = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "1", "g": "1700000000000", "h": "7"}


def test_it_reads_one_letter_names() -> None:
    header = SendMessageRequestHeaderV2.from_ext_fields(
        {**V2, "i": "k\x01v", "j": "2", "l": "16", "m": "true"}
    )
    assert header == SendMessageRequestHeaderV2(
        "P",
        "T",
        -1,
        1,
        1_700_000_000_000,
        7,
        "k\x01v",
        2,
        None,
        16,
        True,
        default_topic="TBW102",
        default_topic_queue_nums=4,
    )


def test_it_leaves_absent_fields_out() -> None:
    assert SendMessageRequestHeaderV2.from_ext_fields(V2).to_ext_fields() == V2


def test_it_has_the_same_attributes_for_long_and_short_names() -> None:
    long_names = [field.attribute for field in fields_of(SendMessageRequestHeader)]
    short_names = [field.attribute for field in fields_of(SendMessageRequestHeaderV2)]
    assert long_names == short_names
    assert [field.wire for field in fields_of(SendMessageRequestHeaderV2)] == list("abcdefghijklmn")


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
