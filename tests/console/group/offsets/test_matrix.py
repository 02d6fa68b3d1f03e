"""The queues of an offset change by topic and broker."""

from __future__ import annotations

import re

from django.template.loader import render_to_string

from console.group.offsets.change import DiffRow
from console.group.offsets.matrix import Ticked, plan_sums, scope_matrix
from console.lag.rows.queue_row import QueueRow
from console.text import Text


def row(broker: str, queue_id: int, before: int | None, after: int | None, topic: str = "orders") -> DiffRow:
    moves = before != after
    return DiffRow(
        topic=topic,
        broker_name=broker,
        queue_id=queue_id,
        before=before,
        after=after,
        delta=None if before is None or after is None else after - before,
        lag_before=None if before is None else 1_000 - before,
        lag_after=None if after is None else 1_000 - after,
        min_offset=0,
        max_offset=1_000,
        store_time_ms=None,
        moves=moves,
        how="" if moves else "stays",
        how_words=Text(),
        note=Text(),
    )


def words(*rows: DiffRow) -> str:
    html = render_to_string("group/_matrix_offsets.html", {"sums": plan_sums(rows)})
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_queues_stand_by_topic_and_broker_in_the_order_of_their_ids() -> None:
    found = plan_sums([row("b", 10, 5, 1), row("b", 2, 5, 1), row("a", 0, 5, 5), row("b", 0, 9, 8, "audit")])
    assert [
        (topic.topic, [(one.broker_name, [each.queue_id for each in one.queues]) for one in topic.brokers])
        for topic in found.topics
    ] == [("audit", [("b", [0])]), ("orders", [("a", [0]), ("b", [2, 10])])]
    assert [one.total.delta for one in found.topics[1].brokers] == [0, -8]
    assert (found.total.moving, found.total.lag_before, found.total.lag_after) == (3, 3_976, 3_985)


def test_one_queue_shows_its_delta_and_the_lag_before_and_after() -> None:
    shown = words(row("broker-a", 0, 900, 300))
    assert "1 of 1 queue moves Lag 100 → 700 msgs" in shown
    assert "broker-a lag 100 → 700 0 −600" in shown


def test_a_queue_that_stays_and_an_unknown_lag_are_said() -> None:
    shown = words(row("broker-a", 0, 900, 900), row("broker-a", 1, None, 400))
    assert "Lag ≥ 100 → 700 msgs" in shown
    assert "0 stays 1 new" in shown


def test_two_hundred_queues_are_all_there() -> None:
    html = render_to_string(
        "group/_matrix_offsets.html",
        {"sums": plan_sums([row(f"broker-{at % 4}", at // 4, 900, 300) for at in range(200)])},
    )
    assert html.count("matrix__id") == 200 and html.count('<tr role="row">') == 4


def queue_row(
    broker: str, queue_id: int, lag: int | None, topic: str = "orders", status: str = "OK"
) -> QueueRow:
    return QueueRow(
        group="billing", topic=topic, broker_name=broker, queue_id=queue_id, lag=lag, status=status
    )


def test_the_scope_has_the_lag_of_each_broker_and_topic() -> None:
    rows = [
        queue_row("a", 0, 7),
        queue_row("a", 1, 5),
        queue_row("b", 0, 8),
        queue_row("b", 1, None, status="UNKNOWN"),
        queue_row("c", 0, None, status="NEVER_COMMITTED"),
        queue_row("a", 0, 3, "%RETRY%billing"),
    ]
    orders, retry = scope_matrix(rows, None)
    sums = [(one.broker_name, one.behind.lag, one.behind.lag_lower_bound) for one in orders.brokers]
    assert sums == [("a", 12, False), ("b", 8, True), ("c", None, False)]
    assert orders.brokers[2].behind.status == "NEVER_COMMITTED"
    assert (orders.behind.lag, orders.behind.lag_lower_bound) == (20, True)
    assert (orders.is_chosen, retry.is_chosen) == (True, False)


def test_a_scope_shown_again_keeps_the_choice() -> None:
    rows = [queue_row("a", 0, 7), queue_row("a", 1, 5), queue_row("a", 0, 3, "%RETRY%billing")]
    orders, retry = scope_matrix(rows, Ticked(frozenset({'["orders","a",1]'}), frozenset({"%RETRY%billing"})))
    assert [box.is_chosen for box in orders.queues] == [False, True]
    assert retry.is_chosen
