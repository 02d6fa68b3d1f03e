from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.command import RemotingCommand, SerializeType, decode_frame
from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.header.binary_send_header import BinarySendReplyTemplate, decode_binary_send_head
from tests.brokerd.remoting.golden_frames import golden_frames
from tests.brokerd.remoting.header.test_send_header import (
    EDGES,
    ODD,
    OPTIONAL,
    REGION,
    TEXT,
    V2,
    attributes_of,
    plainly,
)


def binary_frame(code: int, fields: dict[str, str], body: bytes = b"", **more: Any) -> bytes:
    return RemotingCommand(
        code, "JAVA", ext_fields=fields, body=body, serialize_type=SerializeType.ROCKETMQ, **more
    ).encode()


def check_twins(data: bytes) -> bool:
    """Whether the fast way took the frame; if so the plain way must give the same."""
    decoded = decode_binary_send_head(data, 0, len(data))
    if decoded is None:
        return False
    head, body_start = decoded
    assert attributes_of(head) == plainly(data)
    assert data[body_start:] == decode_frame(data[4:]).body
    return True


def test_it_takes_captured_frames_that_are_not_signed() -> None:
    taken, left = 0, set()
    for frame in golden_frames():
        if frame.is_request and frame.code in (310, 320) and frame.manifest["serialize"] == "rocketmq":
            if check_twins(frame.data):
                taken += 1
            else:
                left.add("Signature" in frame.command().ext_fields)
    assert (taken, left) == (10, {True})


def test_it_reads_a_send() -> None:
    data = b"before" + binary_frame(320, {**V2, "m": "true"}, b"hello", opaque=9) + b"behind"
    decoded = decode_binary_send_head(data, 6, len(data) - 6)
    assert decoded is not None
    head, body_start = decoded
    assert data[body_start : len(data) - 6] == b"hello"
    assert (head.code, head.opaque, head.version, head.extFields.batch) == (320, 9, 479, True)
    assert (head.extFields.topic, head.extFields.queue_id, head.extFields.max_reconsume_times) == (
        "T",
        3,
        None,
    )


NUMBERS = st.integers(-(2**33), 2**65).map(str)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, str]:
    found = dict(V2)
    for name in draw(st.lists(st.sampled_from(OPTIONAL[310]), unique=True)):
        found[name] = draw(TEXT | NUMBERS | ODD)
    for name in draw(st.lists(st.sampled_from(sorted(found)), max_size=2)):
        found[name] = draw(TEXT | NUMBERS | ODD)
    for name in draw(st.lists(st.sampled_from(sorted(found)), max_size=1)):
        del found[name]
    found.update(draw(st.dictionaries(TEXT.filter(bool), TEXT, max_size=1)))
    return dict(draw(st.permutations(sorted(found.items()))))


@given(
    st.sampled_from([310, 320, 10, 11]), fields(), st.binary(max_size=10), st.none() | TEXT, st.integers(0, 3)
)
def test_it_agrees_with_the_plain_way(
    code: int, ext_fields: dict[str, str], body: bytes, remark: str | None, flag: int
) -> None:
    taken = check_twins(binary_frame(code, ext_fields, body, remark=remark, flag=flag, opaque=-3))
    assert not (taken and code < 310)


@pytest.mark.parametrize(("name", "value"), EDGES)
def test_it_agrees_at_the_edges(name: str, value: str) -> None:
    """Taken or left: a number that the plain way refuses must never come out of the fast one."""
    data = binary_frame(310, {**V2, name: value})
    try:
        plainly(data)
    except HeaderFieldError:
        assert decode_binary_send_head(data, 0, len(data)) is None
    else:
        check_twins(data)


@pytest.mark.parametrize(
    "frame",
    [
        binary_frame(310, {**V2, "AccessKey": "x"}),
        binary_frame(310, {**V2, "z": "x"}),
        binary_frame(310, V2, remark="why"),
        binary_frame(310, {**V2, "k": "xx"}).replace(b"xx", b"\xff\xfe"),
        binary_frame(310, {**V2, "n": "xx"}).replace(b"xx", b"\xff\xfe"),
    ],
)
def test_it_leaves_odd_frames_to_the_plain_way(frame: bytes) -> None:
    assert decode_binary_send_head(frame, 0, len(frame)) is None


@given(st.integers(0, 200), st.integers(0, 255))
def test_it_agrees_about_any_changed_byte(position: int, byte: int) -> None:
    data = bytearray(binary_frame(310, {**V2, "i": "k\x01v\x02", "j": "0"}))
    data[8 + position % (len(data) - 8)] = byte
    check_twins(bytes(data))


@given(st.binary(max_size=80))
def test_it_raises_nothing(junk: bytes) -> None:
    head = struct.pack(">hBhii", 310, 0, 479, 1, 0)
    for header in (junk, head + junk, head + bytes(4) + struct.pack(">i", len(junk)) + junk):
        data = struct.pack(">iI", 4 + len(header), 1 << 24 | len(header)) + header
        check_twins(data)


def test_it_leaves_json_to_the_other_way() -> None:
    data = RemotingCommand(310, ext_fields=dict(V2)).encode()
    assert decode_binary_send_head(data, 0, len(data)) is None


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.text("0123456789ABCDEF,", min_size=1, max_size=70),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.none() | TEXT,
)
def test_it_answers_as_the_plain_way_does(
    opaque: int, message_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
) -> None:
    fields = {**REGION, "msgId": message_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
    if transaction_id:
        fields["transactionId"] = transaction_id
    request = RemotingCommand(310, opaque=opaque, serialize_type=SerializeType.ROCKETMQ)
    reply = BinarySendReplyTemplate(REGION).encode(opaque, message_id, queue_id, queue_offset, transaction_id)
    assert reply == request.response(0, None, fields).encode()
