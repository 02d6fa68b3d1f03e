"""Checkpoints and acknowledgements as Java's broker writes them into the revive log."""

from __future__ import annotations

import json

import pytest

from brokerd.pop.checkpoint import (
    Ack,
    Checkpoint,
    CheckpointKey,
    ack_body,
    ack_tag,
    checkpoint_body,
    parse_ack,
    parse_checkpoint,
    unique_key_of_ack,
    unique_key_of_checkpoint,
)

KEY = CheckpointKey("T", "g", 1, 10, 1_700_000_000_000, "broker-a")


def test_a_checkpoint_is_what_java_writes() -> None:
    checkpoint = Checkpoint(KEY, 60_000, (10, 12, 41), 0b100)
    assert json.loads(checkpoint_body(checkpoint)) == {
        "bm": 4, "bn": "broker-a", "c": "g", "d": [0, 2, 31], "it": 60_000, "n": 3, "pt": 1_700_000_000_000,
        "q": 1, "reviveTime": 1_700_000_060_000, "ro": 0, "so": 10, "t": "T",
    }  # fmt: skip
    assert parse_checkpoint(checkpoint_body(checkpoint), "other") == checkpoint
    assert unique_key_of_checkpoint(KEY) == "T@1@10@g@1700000000000@broker-a@ck"
    assert (checkpoint.unacked, checkpoint.unacked_count) == ([10, 12], 2)


def test_the_bitmap_of_32_messages_is_an_int_of_java() -> None:
    checkpoint = Checkpoint(KEY, 1, tuple(range(10, 42)), 1 << 31)
    assert json.loads(checkpoint_body(checkpoint))["bm"] == -(2**31)
    assert parse_checkpoint(checkpoint_body(checkpoint), "b") == checkpoint


def test_a_checkpoint_without_differences_has_offsets_in_a_row() -> None:
    body = b'{"bm":0,"c":"g","it":5,"n":3,"pt":7,"q":1,"so":10,"t":"T"}'
    found = parse_checkpoint(body, "broker-a")
    assert found.offsets == (10, 11, 12)
    assert found.key.broker_name == "broker-a"


def test_acknowledgements_are_what_java_writes() -> None:
    one, several = Ack(KEY, (12,)), Ack(KEY, (10, 41))
    assert ack_body(one) == (b'{"ao":12,"bn":"broker-a","c":"g","pt":1700000000000,"q":1,"so":10,"t":"T"}')
    assert json.loads(ack_body(several))["aol"] == [10, 41]
    assert [parse_ack(ack_body(ack), "x") for ack in (one, several)] == [one, several]
    assert [ack_tag(ack) for ack in (one, several)] == ["ack", "bAck"]
    assert unique_key_of_ack(one) == "T@1@12@g@1700000000000@broker-a@ack"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"so":1}', b'{"so":"x","pt":1,"it":1,"t":"T","c":"g"}'])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        parse_checkpoint(body, "b")
    with pytest.raises(ValueError, match="."):
        parse_ack(body, "b")
