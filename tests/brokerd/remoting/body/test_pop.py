"""The body of a batch acknowledgement, as Java's client sends it."""

from __future__ import annotations

import base64

import pytest

from brokerd.remoting.body.pop import BatchAck, BatchAckMessageRequestBody
from tests.brokerd.remoting.golden_frames import golden_frames


def test_it_reads_the_golden_body() -> None:
    (frame,) = (
        frame for frame in golden_frames() if frame.manifest["file"] == "200151-batch_ack_message.request.bin"
    )
    body = BatchAckMessageRequestBody.from_request(frame.command().body)
    assert body.broker_name == "broker-a"
    (ack,) = body.acks
    assert (ack.group, ack.topic, ack.retry, ack.pop_time_ms) == (
        "RawPopGroup",
        "GoldenTopic",
        "0",
        1_700_000_000_000,
    )
    assert ack.offsets() == [1]


def test_bits_stand_for_offsets_from_the_first_on() -> None:
    bits = base64.b64encode(bytes([0b101, 0, 0x80])).decode()
    assert BatchAck(start_offset=10, bits=bits).offsets() == [10, 12, 33]


@pytest.mark.parametrize("bits", ["!", "AAA", base64.b64encode(bytes(129)).decode()])
def test_it_refuses_what_are_no_bits(bits: str) -> None:
    with pytest.raises(ValueError, match="^b"):
        BatchAck(bits=bits).offsets()
