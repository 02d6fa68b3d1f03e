from __future__ import annotations

import random
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.errors import BodyError
from brokerd.remoting.message import compression as body_compression
from brokerd.remoting.message.compression import compress, decompress

BODY = b"Tidemark " * 1000
LEGACY, LZ4, ZSTD, ZLIB = 0x000, 0x100, 0x200, 0x300
COMPRESSED = [
    (LEGACY, zlib.compress(BODY)),
    (ZLIB, zlib.compress(BODY)),
    (LZ4, lz4.frame.compress(BODY)),
    (ZSTD, zstandard.compress(BODY)),
]


@pytest.mark.parametrize(("compression_type", "data"), COMPRESSED)
def test_it_decompresses(compression_type: int, data: bytes) -> None:
    assert decompress(data, compression_type) == BODY


@pytest.mark.parametrize(("compression_type", "data"), COMPRESSED)
def test_it_refuses_a_body_cut_anywhere(compression_type: int, data: bytes) -> None:
    for cut in range(len(data)):
        with pytest.raises(BodyError):
            decompress(data[:cut], compression_type)


@pytest.mark.parametrize("compression_type", [LEGACY, ZLIB, LZ4, ZSTD])
@given(junk=st.binary(max_size=60))
def test_it_refuses_junk(compression_type: int, junk: bytes) -> None:
    with pytest.raises(BodyError):
        decompress(b"\xff" + junk, compression_type)


@pytest.mark.parametrize("compression_type", [ZLIB, LZ4, ZSTD])
def test_it_refuses_a_bomb(compression_type: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_compression, "BODY_BYTES_MAX", len(BODY) - 1)
    with pytest.raises(BodyError, match="larger than 8999 bytes"):
        decompress(dict(COMPRESSED)[compression_type], compression_type)


def test_it_reads_a_zstd_body_longer_than_one_piece() -> None:
    body = random.Random(7).randbytes(20_000)
    data = zstandard.compress(body)
    assert len(data) > body_compression.ZSTD_PIECE_BYTES
    assert decompress(data, ZSTD) == body


def test_it_refuses_an_unknown_type() -> None:
    with pytest.raises(BodyError, match="0x400"):
        decompress(b"", 0x400)


@pytest.mark.parametrize("compression_type", [LZ4, ZSTD, ZLIB])
def test_it_compresses_what_it_decompresses(compression_type: int) -> None:
    small = compress(BODY, compression_type, 5)
    assert len(small) < len(BODY) / 10
    assert decompress(small, compression_type) == BODY


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    """The only frames that Java's clients read."""
    assert lz4.frame.get_frame_info(compress(BODY * 20, LZ4, 5))["block_linked"] is False
