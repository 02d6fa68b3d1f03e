from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.batch import decode_batch, encode_batch
from brokerd.remoting.message.message import Message

# Protocol section 4.2.
BATCH = [Message("T", b"hi", {"KEYS": "K1", "WAIT": "true", "TAGS": "TagA"})]
BATCH_BYTES = bytes.fromhex(
    "00000034 00000000 00000000 00000000 00000002 6869 001c 4b455953014b3102 57414954017472756502 "
    "5441475301546167 4102"
)


def test_it_encodes_a_batch() -> None:
    assert encode_batch(BATCH) == BATCH_BYTES


def test_it_decodes_a_batch() -> None:
    assert decode_batch(BATCH_BYTES, "T") == BATCH
    assert decode_batch(BATCH_BYTES * 3, "T") == BATCH * 3
    assert decode_batch(b"") == []


@pytest.mark.parametrize("cut", range(1, len(BATCH_BYTES)))
def test_it_refuses_a_cut_batch(cut: int) -> None:
    with pytest.raises(BodyError):
        decode_batch(BATCH_BYTES + BATCH_BYTES[:cut])


def test_it_refuses_a_batch_whose_sizes_contradict_each_other() -> None:
    for size in (0x33, 0x35, 0x34 + len(BATCH_BYTES)):
        with pytest.raises(BodyError, match="holds 52"):
            decode_batch(bytes([0, 0, 0, size]) + BATCH_BYTES[4:] + BATCH_BYTES, "T")


@given(st.binary(max_size=120))
def test_it_refuses_junk_as_a_batch(junk: bytes) -> None:
    for data in (junk, bytes(16) + junk, b"\x00\x00\x00\x20" + bytes(12) + junk):
        try:
            assert encode_batch(decode_batch(data))[:4] == data[:4]
        except BodyError:
            continue


def test_it_refuses_to_write_properties_too_long_for_a_batch() -> None:
    with pytest.raises(BodyError, match="properties of 32770 bytes"):
        encode_batch([Message("T", b"", {"k": "v" * 32_767})])
