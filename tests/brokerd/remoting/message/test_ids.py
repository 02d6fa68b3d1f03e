from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message.ids import create_offset_message_id, create_unique_key, decode_offset_message_id


def test_it_writes_and_reads_offset_message_ids() -> None:
    message_id = "0A00000200002A9F0000000000001000"
    assert create_offset_message_id("10.0.0.2", 10911, 4096) == message_id
    assert decode_offset_message_id(message_id) == ("10.0.0.2", 10911, 4096)
    assert decode_offset_message_id(message_id.lower()) == ("10.0.0.2", 10911, 4096)
    long_id = "20010DB8000000000000000000000001" + "00002A9F" + "0000000000001000"
    assert create_offset_message_id("2001:db8::1", 10911, 4096) == long_id
    assert decode_offset_message_id(long_id) == ("2001:db8::1", 10911, 4096)


@pytest.mark.parametrize(
    "text", ["", "0A", "x" * 32, "C000020207DA5FFD2B2768FA26940011", "0" * 32, "F" * 32, "é" * 32]
)
def test_it_refuses_other_ids(text: str) -> None:
    with pytest.raises(ValueError):
        decode_offset_message_id(text)


def test_it_makes_unique_keys_in_javas_layout() -> None:
    """Address, process, hash, milliseconds of the month, counter."""
    now_ms = int(datetime(2026, 11, 21, 1, 2, 3, 4000, tzinfo=UTC).timestamp() * 1000)
    key = create_unique_key(bytes([10, 0, 0, 1]), 70_000, 70_001, now_ms)
    assert (len(key), key[:8], key[8:12], key[28:]) == (32, "0A000001", "1170", "1171")
    assert int(key[20:28], 16) == ((20 * 24 + 1) * 3600 + 2 * 60 + 3) * 1000 + 4
    assert create_unique_key(bytes([10, 0, 0, 1]), 70_000, 70_002, now_ms) != key
    assert len(create_unique_key(bytes(16), 1, 1, now_ms)) == 56


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 2**40), st.integers(0, 2**40))
def test_it_makes_a_key_at_any_time(now_ms: int, pid: int, counter: int) -> None:
    key = create_unique_key(bytes([127, 0, 0, 1]), pid, counter, now_ms)
    assert 0 <= int(key[20:28], 16) < 31 * 24 * 3600 * 1000
