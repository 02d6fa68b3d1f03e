"""Frames between master and slave, fed whole, byte by byte and cut everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.ha.frames import Piece, ReportFrames, TransferError, TransferFrames

# offset 7, 3 bytes; a sign of life at 10; offset 10, 1 byte.
IMAGE = bytes.fromhex(
    "0000000000000007 00000003 616263 000000000000000a 00000000 000000000000000a 00000001 64"
)
PIECES = [Piece(7, b"abc"), Piece(10, b""), Piece(10, b"d")]
ENDS = [15, 27, 40]


@pytest.mark.parametrize("cut", range(len(IMAGE) + 1))
def test_a_cut_at_any_byte_keeps_whole_pieces(cut: int) -> None:
    frames = TransferFrames()
    first = list(frames.receive(IMAGE[:cut]))
    assert first == PIECES[: sum(end <= cut for end in ENDS)]
    assert first + list(frames.receive(IMAGE[cut:])) == PIECES


@given(st.lists(st.integers(0, len(IMAGE)), max_size=8))
def test_any_number_of_cuts_gives_the_same_pieces(cuts: list[int]) -> None:
    frames, begin = TransferFrames(), 0
    found: list[Piece] = []
    for end in [*sorted(cuts), len(IMAGE)]:
        found += frames.receive(IMAGE[begin:end])
        begin = end
    assert found == PIECES


@pytest.mark.parametrize(
    "header",
    ["ffffffffffffffff 00000001", "0000000000000000 ffffffff", "0000000000000000 00400000"],
)
def test_what_is_no_piece_is_refused_before_its_bytes_are_waited_for(header: str) -> None:
    frames = TransferFrames()
    with pytest.raises(TransferError, match="no piece of a log"):
        list(frames.receive(IMAGE[:15] + bytes.fromhex(header)))


@pytest.mark.parametrize("cut", range(25))
def test_of_several_reports_the_newest_complete_one_counts(cut: int) -> None:
    image = bytes.fromhex("0000000000000001 0000000000000002 0000000000000100")
    reports = ReportFrames()
    assert reports.receive(image[:cut]) == {0: None, 1: 1, 2: 2, 3: 256}[cut // 8]
    assert reports.receive(image[cut:]) == (None if cut == 24 else 256)


def test_a_negative_report_is_refused() -> None:
    with pytest.raises(TransferError, match="reported offset -1"):
        ReportFrames().receive(b"\xff" * 8)
