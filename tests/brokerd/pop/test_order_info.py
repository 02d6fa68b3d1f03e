"""Orderly POP: one block is out at a time."""

from __future__ import annotations

import json

import pytest

from brokerd.pop.checkpoint import GroupQueue
from brokerd.pop.order_info import KEPT_MS, OffsetUnknown, OrderInfoTable, document, parse

QUEUE = GroupQueue("T", "g", 1)


def popped(offsets: list[int], attempt_id: str | None = "a1") -> OrderInfoTable:
    table = OrderInfoTable()
    table.pop(QUEUE, attempt_id, 1_000, 60_000, offsets)
    return table


def test_a_block_keeps_others_out_until_it_is_acknowledged() -> None:
    table = popped([5, 7])
    assert table.blocked_until(QUEUE, "a2", 2_000) == 61_000
    assert table.blocked_until(QUEUE, "a1", 2_000) is None
    assert table.acknowledge(QUEUE, 7, 1_000) == 5
    assert table.blocked_until(QUEUE, None, 2_000) == 61_000
    assert table.acknowledge(QUEUE, 5, 1_000) == 8
    assert table.blocked_until(QUEUE, None, 2_000) is None


def test_what_is_not_acknowledged_is_visible_again_in_time() -> None:
    table = popped([5, 7])
    table.change_visible(QUEUE, 5, 1_000, 90_000)
    assert table.blocked_until(QUEUE, None, 61_000) == 90_000
    assert table.blocked_until(QUEUE, None, 90_000) is None
    table.change_visible(QUEUE, 7, 999, 99_000)  # of a pop before
    assert table.blocked_until(QUEUE, None, 90_000) is None


def test_it_counts_how_often_messages_were_consumed() -> None:
    table = OrderInfoTable()
    assert table.pop(QUEUE, "a1", 1_000, 10, [5, 6]) == ["0 1 0"]
    assert table.pop(QUEUE, "a2", 2_000, 10, [5, 6]) == ["0 qo1%5 1", "0 qo1%6 1", "0 1 1"]
    assert table.pop(QUEUE, "a2", 3_000, 10, [5, 6]) == ["0 qo1%5 1", "0 qo1%6 1", "0 1 1"]
    assert table.pop(QUEUE, "a3", 4_000, 10, [6, 9]) == ["0 qo1%6 2", "0 1 0"]


def test_it_refuses_offsets_that_are_not_out() -> None:
    table = popped([5])
    assert table.acknowledge(QUEUE, 5, 999) is None
    with pytest.raises(OffsetUnknown):
        table.acknowledge(QUEUE, 6, 1_000)
    assert table.acknowledge(GroupQueue("T", "other", 1), 3, 1) == 4


def test_its_file_is_javas() -> None:
    table = popped([5, 7, 9])
    table.acknowledge(QUEUE, 7, 1_000)
    table.change_visible(QUEUE, 9, 1_000, 5_000)
    assert json.loads(json.dumps(document(table.blocks))) == {
        "table": {
            "T@g": {
                "1": {
                    "a": "a1", "cm": 2, "i": 60_000, "l": 1_000, "o": [5, 2, 4], "ot": {"9": 5_000},
                    "popTime": 1_000,
                }
            }
        }
    }  # fmt: skip
    content = b"".join(table.document_pieces())
    assert parse(content) == table.blocks
    java = (
        b'{"table":{"T@g":{1:{"a":"a1","cm":2,"i":60000,"l":1000,"o":[5,2,4],"ot":{9:5000},"popTime":1000}}}}'
    )
    assert parse(java) == table.blocks
    assert parse(b'{"table":{"T@g":{}}}') == {}


def test_it_keeps_nothing_of_what_is_gone() -> None:
    table = popped([5])
    table.drop(topic="Other")
    table.drop_old(1_000 + KEPT_MS)
    assert table.blocks
    table.drop_old(1_001 + KEPT_MS)
    assert not table.blocks
    table = popped([5])
    table.is_changed = False
    table.drop(group="g")
    assert (table.blocks, table.is_changed) == ({}, True)
