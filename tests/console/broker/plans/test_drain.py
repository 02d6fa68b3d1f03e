"""Draining a broker: producers go elsewhere, the job sees it, and the way back."""

from __future__ import annotations

import threading

import pytest

from console.broker import selectors
from console.broker.plans import drain as drain_plan
from console.brokers.mqadmin import BrokerUnavailable, Message
from console.operation import services as operation_services
from console.operation.errors import ConfirmationMissing, PlanBlocked, PlanDrifted, PlanRejected
from console.operation.models import JobState
from tests.console.broker.conftest import NAME, Pair
from tests.console.broker.survey.test_reads import listen_to
from tests.console.operation.live_cluster import wait_for

KIND = "broker_drain"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producers of these tests look at their routes twice a second, not every 30 s."""
    monkeypatch.setattr(drain_plan, "QUIET_MS", 2_000)
    monkeypatch.setattr(drain_plan, "LOOK_EVERY_S", 0.2)


def offered(pair: Pair, topic: str) -> dict[str, int]:
    return {one.broker_name: one.perm for one in pair.admin.topic_route(topic).queue_datas}


def test_it_moves_producers_away_sees_it_and_lets_them_back(pair: Pair) -> None:
    pair.create_topic("orders")
    pair.collect()
    with pair.producing("orders") as brokers:
        wait_for(lambda: {"broker-a", "broker-b"} <= set(brokers), within_s=30)
        plan = pair.plan(KIND, "broker-b", {"direction": "drain"})
        assert [(row["namesrv"], row["after"], row["deed"]) for row in plan.diff] == [
            (pair.a.namesrv, 0, "change")
        ]
        assert plan.diff[0]["before"] == plan.diff[0]["topics"] > 0
        assert plan.before["stranded"] == []
        assert "to broker-a" in plan.summary
        job = pair.apply(plan)
        assert job.state == JobState.SUCCEEDED, job.error
        assert job.result["traffic"]["is_gone"]
        assert offered(pair, "orders") == {"broker-a": 6, "broker-b": 4}
        sent = len(brokers)
        wait_for(lambda: len(brokers) > sent + 20, within_s=30)
        assert set(brokers[sent + 1 :]) == {"broker-a"}
        pair.survey()
        view = selectors.broker(NAME, "broker-b")
        assert view is not None and view.drained_at == [pair.a.namesrv]
        back = pair.undo(plan)
        assert back.params == {"direction": "give_back"}
        assert pair.apply(back).state == JobState.SUCCEEDED
        assert offered(pair, "orders") == {"broker-a": 6, "broker-b": 6}
        sent = len(brokers)
        wait_for(lambda: "broker-b" in brokers[sent:], within_s=30)


def test_it_names_topics_that_nobody_could_write_to(pair: Pair) -> None:
    pair.create_topic("orders")
    pair.create_topic("only-here", "broker-b")
    plan = pair.plan(KIND, "broker-b", {"direction": "drain"})
    assert plan.before["stranded"] == ["only-here"]
    (warning,) = [one for one in plan.warnings if one["level"] == "danger"]
    assert warning["title"] == "1 topic will have no writable queue"
    assert "only-here" in warning["text"]
    with pytest.raises(ConfirmationMissing):
        operation_services.apply_plan(plan.id, pair.actor, "")
    pair.create_topic("new-one", "broker-b")
    with pytest.raises(PlanDrifted, match="no producer could write to new-one"):
        operation_services.apply_plan(plan.id, pair.actor, "broker-b")
    assert offered(pair, "only-here") == {"broker-b": 6}


def test_it_says_when_nothing_would_change(pair: Pair) -> None:
    assert pair.apply(pair.plan(KIND, "broker-b", {"direction": "drain"})).state == JobState.SUCCEEDED
    again = pair.plan(KIND, "broker-b", {"direction": "drain"})
    with pytest.raises(PlanBlocked, match="no name server that answers offers broker-b"):
        operation_services.apply_plan(again.id, pair.actor, "broker-b")
    assert pair.plan(KIND, "broker-a", {"direction": "give_back"}).blocked


def test_it_fails_when_somebody_goes_on_sending(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "QUIET_WITHIN_MS", 1_500)
    pair.create_topic("orders")
    plan = pair.plan(KIND, "broker-b", {"direction": "drain"})
    with pair.producing("orders") as brokers:
        wait_for(lambda: "broker-b" in brokers, within_s=30)
        # A name server of another cluster keeps giving the old route: here the queue is simply named.
        stop = threading.Event()

        def send_on() -> None:
            while not stop.wait(0.02):
                pair.admin.send(pair.addrs["broker-b"], Message("orders", b"x", {}), queue_id=0)

        stubborn = threading.Thread(target=send_on, daemon=True)
        stubborn.start()
        try:
            job = pair.apply(plan)
        finally:
            stop.set()
            stubborn.join(10)
    assert job.state == JobState.FAILED
    assert "producers still send to it" in job.error
    assert job.result["traffic"]["puts"] > 0
    assert pair.undo(plan).params == {"direction": "give_back"}


def test_it_takes_away_again_what_comes_back_while_it_watches(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.create_topic("orders")
    plan = pair.plan(KIND, "broker-b", {"direction": "drain"})
    tell = drain_plan.BrokerDrainPlan._request
    changed: list[int] = []

    def tell_and_change(self: drain_plan.BrokerDrainPlan, *args: object) -> int:
        told = tell(self, *args)  # type: ignore[arg-type]
        if not changed:
            changed.append(1)
            pair.create_topic("fresh", "broker-b")  # registers itself as writable
        return told

    monkeypatch.setattr(drain_plan.BrokerDrainPlan, "_request", tell_and_change)
    job = pair.apply(plan)
    assert job.state == JobState.SUCCEEDED
    assert offered(pair, "fresh") == {"broker-b": 4}
    assert any("the request was sent again" in event.text for event in job.events.all())


def test_it_says_which_name_server_it_could_not_tell(pair: Pair, nobody: str) -> None:
    listen_to(pair.a.namesrv, nobody)
    plan = pair.plan(KIND, "broker-b", {"direction": "drain"})
    assert [(row["namesrv"], row["deed"]) for row in plan.diff] == [
        (pair.a.namesrv, "change"),
        (nobody, "unknown"),
    ]
    assert "1 name server did not answer" in [one["title"] for one in plan.warnings]
    assert pair.apply(plan).state == JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("subject", "params", "field"),
    [
        ("broker-z", {"direction": "drain"}, "subject"),
        ("broker-b", {"direction": "sideways"}, "direction"),
        ("broker-b", {"speed": 1}, "speed"),
    ],
)
def test_it_names_the_parameter_at_fault(
    pair: Pair, subject: str, params: dict[str, object], field: str
) -> None:
    with pytest.raises(PlanRejected) as refusal:
        pair.plan(KIND, subject, params)
    assert refusal.value.field == field


def test_it_needs_a_name_server(pair: Pair, nobody: str) -> None:
    listen_to(nobody)
    with pytest.raises(BrokerUnavailable, match="no name server answers"):
        pair.plan(KIND, "broker-b", {"direction": "drain"})
