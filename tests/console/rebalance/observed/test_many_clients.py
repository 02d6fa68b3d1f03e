"""A group of many clients: what is computed goes over queues and clients a fixed number of times."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import pytest
from django.template.loader import render_to_string

from console.brokers.mqadmin import STRATEGIES, MessageQueue, assign_server_side
from console.rebalance.observed.findings import Subject, topic_findings
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.matrix import MEMBERS_MAX, Matrix, View, matrix
from console.rebalance.observed.ownership import Member, Source, expected, owned

T = TypeVar("T")


class Counted(list[T]):
    """A list that counts how often it is gone through."""

    passes = 0

    def __iter__(self) -> Iterator[T]:
        self.passes += 1
        return super().__iter__()


def passes(clients: int, strategy: str) -> tuple[int, int]:
    """Return how often queues and members are gone through where no client holds what it should."""
    ids = [f"c{at:04}" for at in range(clients)]
    queues = Counted(MessageQueue("orders", "broker-a", at) for at in range(2 * clients))
    shares = assign_server_side(list(queues), ids, strategy)
    neighbours = pairwise([*ids, ids[0]])
    members = Counted(
        Member(one, frozenset(shares[other]), 100, strategy=strategy) for one, other in neighbours
    )
    due = expected(queues, members)
    owners = Counted(owned(queues, members))
    subject = Subject("orders", owners, members, due, {}, 1_000)
    topic_findings(subject)
    shown = matrix(TopicOwnership("orders", owners, due, {}), members, View.DIFFERENCE)  # type: ignore[arg-type]
    assert len(shown.rows) == MEMBERS_MAX
    return queues.passes + owners.passes, members.passes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_clients_need_no_more_passes(strategy: str) -> None:
    assert passes(600, strategy) == passes(150, strategy)


def test_without_a_report_every_strategy_is_tried_in_one_pass_each() -> None:
    def tried(clients: int) -> tuple[int, int]:
        ids = [f"c{at:04}" for at in range(clients)]
        queues = Counted(MessageQueue("orders", "broker-a", at) for at in range(clients))
        shares = assign_server_side(list(queues), ids, "CONSISTENT_HASH")  # tried last
        members = Counted(Member(one, frozenset(shares[one]), 100) for one in ids)
        found = expected(queues, members)
        assert found is not None and found.source is Source.FITS
        return queues.passes, members.passes

    assert tried(600) == tried(150)


def test_of_many_clients_those_with_marks_are_shown() -> None:
    queues = [MessageQueue("orders", "broker-a", at) for at in range(2)]
    members = [Member(f"c{at:03}", frozenset(queues[:1] if at == 140 else ()), 100) for at in range(150)]
    topic = TopicOwnership("orders", tuple(owned(queues, members)), expected(queues, members), {})
    rows = matrix(topic, members, View.NOW).rows
    # AVG: c000 and c001 should own one each
    assert [row.member.client_id for row in rows] == [*(f"c{at:03}" for at in range(49)), "c140"]
    assert {row.member.client_id: (row.total, row.due) for row in rows}["c140"] == (1, 0)


def test_the_foot_of_the_matrix_separates_thousands() -> None:
    empty = Matrix(View.NOW, (), (), (), (), (), queues_total=10_000, members_total=2_000, marks=())
    foot = render_to_string("rebalance/_matrix.html", {"matrix": empty})
    assert "0 of 10,000 queues" in foot
    assert "0 of 2,000 clients" in foot
