"""Two messages side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message.record import MessageRecord
from console.access.models import MaskRule as MaskRuleRow
from console.brokers.masking import NO_MASKS, MaskRule, Masks, read_path
from console.brokers.message_view import MessageView, message_view
from console.message.compare import CONTEXT_LINES, Line, compare
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import signed_in

BROKER = ("127.0.0.1", 10911)


def message(body: bytes, offset: int = 0, *, masks: Masks = NO_MASKS, **properties: str) -> MessageView:
    record = MessageRecord("t", 0, offset, 0, 0, body, 0, 0, 0, 0, BROKER, 0, BROKER, 0, 0, properties)
    return message_view(record, "broker-a", masks=masks)


def test_it_compares_json_by_name() -> None:
    found = compare(message(b'{"a": 1, "b": [2]}'), message(b'{"b": [2], "a": 1}'))
    assert found.is_same_body and not found.is_cut


def test_masked_fields_are_not_called_equal() -> None:
    masks = Masks((MaskRule("t", read_path("$.card")),))
    found = compare(message(b'{"card": 1}', masks=masks), message(b'{"card":23456}', masks=masks))
    assert found.is_same_body and found.is_masked
    # the sizes are those of the messages, not of what is shown of them
    assert [(pair.left, pair.right) for pair in found.facts if pair.differs] == [("11", "14")]
    assert not compare(message(b"{}", masks=masks), message(b"{}", masks=masks)).is_masked


def test_it_pairs_lines_and_leaves_equal_ones_out() -> None:
    names = [f"n{number:02}" for number in range(20)]
    left = message(json.dumps(dict.fromkeys(names, 1)).encode())
    right = message(json.dumps(dict.fromkeys(names, 1) | {"n10": 2}).encode())
    lines = compare(left, right).lines
    assert [line for line in lines if line.differs] == [Line('  "n10": 1,', '  "n10": 2,')]
    assert [line.skipped for line in lines if line.skipped] == [8, 7]
    assert len(lines) == 2 + 1 + 2 * CONTEXT_LINES


def test_it_names_facts_and_properties_that_differ() -> None:
    found = compare(message(b"x", 1, TAGS="a", channel="wallet"), message(b"x", 2, TAGS="b", source="till"))
    assert [str(pair.name) for pair in found.facts if pair.differs] == ["Offset", "Tags"]
    assert [(pair.name, pair.left, pair.right) for pair in found.properties] == [
        ("channel", "wallet", None),
        ("source", None, "till"),
    ]
    assert found.differences == 4


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_no_line_is_lost_or_moved(left: list[str], right: list[str]) -> None:
    found = compare(message("\n".join(left).encode()), message("\n".join(right).encode()))
    if any(line.skipped for line in found.lines):
        return
    assert [line.left for line in found.lines if line.left is not None] == "\n".join(left).split("\n")
    assert [line.right for line in found.lines if line.right is not None] == "\n".join(right).split("\n")


@pytest.mark.django_db(databases=["default", "metrics"])
def test_the_page_compares_two_of_a_list(live: LiveCluster) -> None:
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b'{"order": 1}', b'{"order": 2}'], KEYS="ORD-1")
    places = [f"m=orders:{live.broker_name}:0:{offset}" for offset in (0, 1, 7)]
    address, some = "/c/test/messages/compare", signed_in("some", verbs=("VIEW",), names="orders")
    text = some.get(f"{address}?{places[0]}&{places[1]}").content.decode()
    assert "<del> &quot;order&quot;: 1</del>" in text and "<ins> &quot;order&quot;: 2</ins>" in text
    assert "are not compared" not in text
    MaskRuleRow.objects.create(
        cluster_pattern="*", topic_pattern="orders", where=MaskRuleRow.Where.BODY, name="$.order"
    )
    text = some.get(f"{address}?{places[0]}&{places[1]}").content.decode()
    assert "Masked fields (•••) are not compared." in text and "The bodies are equal." not in text
    assert some.get(f"{address}?{places[0]}").status_code == 400
    assert some.get(f"{address}?{places[0]}&{places[2]}").status_code == 404
    other = signed_in("other", verbs=("VIEW",), names="clicks")
    hidden = other.get(f"{address}?{places[0]}&{places[1]}")
    assert hidden.status_code == 404 and "order&quot;" not in hidden.content.decode()
