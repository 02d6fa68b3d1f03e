from __future__ import annotations

import pytest
from msgspec.structs import replace

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.names import HALF_TOPIC, MessageProperty
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.transaction.half_message import HalfMessage, check_body, ended_offsets, half_of_send
from tests.brokerd.remoting.golden_frames import GoldenFrame, frames_of
from tests.brokerd.store.stores import BORN_HOST, STORE_HOST

CHECK_TRANSACTION_STATE = 39


def half(**properties: str) -> HalfMessage:
    return half_of_send(
        "Paid",
        2,
        b"body",
        {"UNIQ_KEY": "U1", "PGROUP": "shop", **properties},
        flag=0,
        sys_flag=0,
        born_timestamp_ms=50_000,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
        reconsume_times=0,
    )


def test_a_sent_message_keeps_its_real_place_as_properties() -> None:
    sent = half(TRANSACTION_CHECK_TIMES="14", TRAN_PREPARED_QUEUE_OFFSET="0", TAGS="a")
    assert sent.record.properties == {
        "UNIQ_KEY": "U1",
        "PGROUP": "shop",
        "TAGS": "a",
        "__transactionId__": "U1",
        "REAL_TOPIC": "Paid",
        "REAL_QID": "2",
    }
    assert (sent.real_topic, sent.real_queue_id, sent.check_times) == ("Paid", 2, None)


@pytest.mark.parametrize(
    ("own", "first_check_ms"), [("", 66_000), ("3", 66_000), ("20", 80_000), ("soon", 66_000)]
)
def test_the_first_check_comes_after_the_longer_of_two_times(own: str, first_check_ms: int) -> None:
    stored = replace(
        half(CHECK_IMMUNITY_TIME_IN_SECONDS=own).record, queue_offset=5, store_timestamp_ms=60_000
    )
    assert HalfMessage(stored).first_check_ms(6_000) == first_check_ms
    copy = replace(
        stored, queue_offset=9, properties=HalfMessage(stored).copy_properties(1), store_timestamp_ms=90_000
    )
    assert HalfMessage(copy).first_check_ms(6_000) == first_check_ms - 10_000, "counts from its birth"
    assert HalfMessage(copy).first_offset == 5


@pytest.mark.parametrize(
    ("body", "offsets"),
    [(b"7", [7]), (b"7,8,12,", [7, 8, 12]), (b"", []), (b"x,9," + b"9" * 40, [9])],
)
def test_it_reads_op_messages_of_both_releases(body: bytes, offsets: list[int]) -> None:
    assert ended_offsets(body) == offsets


@pytest.mark.parametrize("frame", frames_of(CHECK_TRANSACTION_STATE, is_request=True), ids=lambda f: f.name)
def test_the_body_of_a_check_is_javas(frame: GoldenFrame) -> None:
    command: RemotingCommand = frame.command()
    theirs: MessageRecord = decode_record(command.body, check_crc=True)
    ours = decode_record(
        check_body(HalfMessage(replace(theirs, topic=HALF_TOPIC, queue_id=0))), check_crc=True
    )
    assert replace(ours, store_size_bytes=0) == replace(theirs, store_size_bytes=0)
    assert ours.topic == theirs.properties[MessageProperty.REAL_TOPIC]
    # 4.9.7 leaves out the separator after the last property.
    assert ours.store_size_bytes - theirs.store_size_bytes == (frame.version == "4.9.7")
