"""The form of a placement: it is sent whole, so it shows whole what is in force."""

from __future__ import annotations

from console.brokers.mqadmin import MessageQueue
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.ownership import Member, Owned, State
from console.rebalance.placement.form import CLIENTS_SHOWN, PINS_SHOWN, Wanted, placement_form


def of_queues(count: int) -> TopicOwnership:
    queues = [MessageQueue("orders", "broker-a", at) for at in range(count)]
    return TopicOwnership("orders", tuple(Owned(one, State.ONE, ("c1",)) for one in queues), None, {})


def wanted(pinned: range) -> Wanted:
    return Wanted({f"broker-a/{at}": "c1" for at in pinned}, (), {}, "", "")


def test_every_pinned_queue_has_a_field_however_many_they_are() -> None:
    form = placement_form(of_queues(300), [], wanted(range(50, 250)))
    assert form.pinned == 200
    assert (len(form.pins), form.unlisted) == (200, 100)


def test_queues_that_are_not_pinned_fill_the_form_up_to_its_limit() -> None:
    form = placement_form(of_queues(300), [], wanted(range(290, 300)))
    assert form.pinned == 10
    assert (len(form.pins), form.unlisted) == (PINS_SHOWN, 300 - PINS_SHOWN)
    assert [one.queue.queue_id for one in form.pins] == [*range(118), *range(290, 300)]


def test_every_client_that_the_placement_names_has_a_row_however_many_there_are() -> None:
    members = [Member(f"c{at:03}", frozenset(), 1) for at in range(300)]
    named = Wanted({"broker-a/1": "c290"}, ("c291", "away"), {"c292": "3"}, "", "")
    form = placement_form(of_queues(2), members, named)
    assert [one.client_id for one in form.clients] == [
        "away",
        *(f"c{at:03}" for at in range(CLIENTS_SHOWN - 4)),
        *(f"c{at}" for at in (290, 291, 292)),
    ]
    assert form.unlisted_clients == 301 - CLIENTS_SHOWN
