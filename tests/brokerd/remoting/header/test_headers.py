from __future__ import annotations

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.header.fields import fields_of
from brokerd.remoting.header.headers import (
    OffsetResponseHeader,
    PullMessageResponseHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from tests.brokerd.remoting.golden_frames import golden_frames

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
V2 = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "1", "g": "1700000000000", "h": "7"}


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


def test_it_has_the_same_attributes_for_long_and_short_names() -> None:
    long_names = [field.attribute for field in fields_of(SendMessageRequestHeader)]
    short_names = [field.attribute for field in fields_of(SendMessageRequestHeaderV2)]
    assert long_names == short_names
    assert [field.wire for field in fields_of(SendMessageRequestHeaderV2)] == list("abcdefghijklmn")
