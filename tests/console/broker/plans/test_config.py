"""One configuration key on one or two brokers: planned, guarded, verified, undone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from console.access.models import AuditEvent
from console.broker.plans.config import BrokerConfigPlan, read_request
from console.brokers.mqadmin import BrokerUnavailable
from console.operation import services as operation_services
from console.operation.errors import (
    ConfirmationMissing,
    NotPermitted,
    PlanBlocked,
    PlanDrifted,
    PlanRejected,
    UndoImpossible,
)
from console.operation.job import runner
from console.operation.models import JobState, Plan
from console.operation.plan.coverage import Coverage
from console.operation.plan.params import Given
from tests.console.broker.conftest import NAME, Pair
from tests.support.people import signed_in

KIND, KEY = "broker_config_change", "shortPollingTimeMills"


def value(pair: Pair, broker: str, key: str = KEY) -> str:
    return pair.admin.broker_config(pair.addrs[broker])[key]


def shown(plan: Plan) -> list[tuple[str, str, str]]:
    (key,) = {key for row in plan.diff for key in row["after"]}
    return [(row["broker_name"], row["before"][key], row["after"][key]) for row in plan.diff]


def test_it_changes_one_key_on_one_broker_and_undoes_it(pair: Pair) -> None:
    plan = pair.plan(KIND, "broker-a", {"key": KEY, "value": "250"})
    assert shown(plan) == [("broker-a", "1000", "250")]
    assert "from 1000 to 250 ms" in plan.summary
    assert value(pair, "broker-a") == "1000"
    assert pair.apply(plan).state == JobState.SUCCEEDED
    assert (value(pair, "broker-a"), value(pair, "broker-b")) == ("250", "1000")
    back = pair.undo(plan)
    assert shown(back) == [("broker-a", "250", "1000")]
    assert pair.apply(back).state == JobState.SUCCEEDED
    assert value(pair, "broker-a") == "1000"
    verbs = list(AuditEvent.objects.filter(plan_id=plan.id).order_by("pk").values_list("verb", flat=True))
    assert verbs[:2] == ["plan", "apply"]


def test_it_changes_several_brokers_and_gives_each_its_own_value_back(pair: Pair) -> None:
    pair.admin.update_broker_config(pair.addrs["broker-b"], {KEY: "700"})
    pair.collect()
    pair.survey()
    plan = pair.plan(KIND, "*", {"key": KEY, "value": "250", "brokers": ["broker-a", "broker-b"]})
    assert shown(plan) == [("broker-a", "1000", "250"), ("broker-b", "700", "250")]
    assert pair.apply(plan).state == JobState.SUCCEEDED
    back = pair.undo(plan)
    assert shown(back) == [("broker-a", "250", "1000"), ("broker-b", "250", "700")]
    assert [one["title"] for one in back.warnings] == ["The brokers will differ"]
    pair.apply(back)
    assert (value(pair, "broker-a"), value(pair, "broker-b")) == ("1000", "700")


def test_it_knows_dangerous_keys_and_asks_for_the_name(pair: Pair) -> None:
    plan = pair.plan(KIND, "broker-b", {"key": "brokerPermission", "value": "4"})
    assert (plan.warnings[0]["level"], plan.confirm, plan.confirm_text) == ("danger", "typed", "broker-b")
    with pytest.raises(ConfirmationMissing):
        operation_services.apply_plan(plan.id, pair.actor, "")
    both = pair.plan(KIND, "*", {"key": "brokerPermission", "value": "4"})
    assert both.confirm_text == "brokerPermission"
    assert pair.apply(both).state == JobState.SUCCEEDED
    assert value(pair, "broker-b", "brokerPermission") == "4"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"value": "1"}, "key"),
        ({"key": KEY}, "value"),
        ({"key": KEY, "value": 250}, "value"),
        ({"key": KEY, "value": "0"}, "value"),
        ({"key": KEY, "value": "1\n2"}, "value"),
        ({"key": "brokerName", "value": "x"}, "key"),
        ({"key": "aclSecretKey", "value": "x"}, "key"),
        ({"key": KEY, "value": "250", "brokers": ["broker-z"]}, "brokers"),
        ({"key": KEY, "value": "250", "brokers": ["broker-b"]}, "brokers"),
        ({"key": KEY, "value": "250", "brokers": "broker-a"}, "brokers"),
        ({"key": KEY, "value": "250", "hosts": []}, "hosts"),
    ],
)
def test_it_names_the_parameter_at_fault(params: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanRejected) as refusal:
        read_request(
            BrokerConfigPlan().read_params(Given(params)),
            "broker-a",
            Coverage({"broker-a": "10.0.0.1:10911", "broker-b": "10.0.0.2:10911"}, {}),
        )
    assert refusal.value.field == field


def test_it_says_when_nothing_would_change(pair: Pair) -> None:
    plan = pair.plan(KIND, "broker-a", {"key": KEY, "value": "1000"})
    assert plan.blocked
    assert plan.summary == f"Nothing would change: {KEY} on broker-a is 1000 ms already."
    with pytest.raises(PlanBlocked):
        operation_services.apply_plan(plan.id, pair.actor)
    with pytest.raises(PlanRejected, match="broker-a has no key noSuchKey"):
        pair.plan(KIND, "broker-a", {"key": "noSuchKey", "value": "x"})


def test_it_refuses_a_plan_that_drifted(pair: Pair) -> None:
    plan = pair.plan(KIND, "broker-a", {"key": KEY, "value": "250"})
    pair.admin.update_broker_config(pair.addrs["broker-a"], {KEY: "300"})
    with pytest.raises(PlanDrifted, match="is '300' now, not '1000'"):
        operation_services.apply_plan(plan.id, pair.actor)
    assert value(pair, "broker-a") == "300"


def test_it_tells_what_a_broker_refused_and_leaves_the_other_as_written(pair: Pair) -> None:
    # brokerd changes only what it reads anew at each use; Apache's broker keeps such a key until it restarts.
    plan = pair.plan(KIND, "broker-a", {"key": "haListenPort", "value": "10999"})
    job = pair.apply(plan)
    assert job.state == JobState.FAILED
    assert "broker-a refused" in job.error and "cannot be changed while the broker runs" in job.error
    with pytest.raises(UndoImpossible):
        pair.undo(plan)


def test_it_needs_every_chosen_broker_to_answer(pair: Pair) -> None:
    plan = pair.plan(KIND, "*", {"key": KEY, "value": "250"})
    pair.b.kill()
    with pytest.raises((BrokerUnavailable, PlanDrifted)):
        operation_services.apply_plan(plan.id, pair.actor)
    assert value(pair, "broker-a") == "1000"


def test_it_waits_for_a_broker_that_goes_away_in_the_middle(pair: Pair) -> None:
    plan = pair.plan(KIND, "*", {"key": KEY, "value": "250"})
    job = operation_services.apply_plan(plan.id, pair.actor)
    pair.b.kill()
    runner.run(job.id, "worker-1")
    job.refresh_from_db()
    assert (job.state, value(pair, "broker-a")) == (JobState.RUNNING, "250")
    assert [row["state"] for row in job.result["brokers"]] == ["applied", "waiting"]
    pair.b.start()
    job.lease_until = None
    job.save()
    for _ in range(20):
        runner.run(job.id, "worker-2")
        job.refresh_from_db()
        if job.is_final:
            break
        job.lease_until = None
        job.save()
    assert job.state == JobState.SUCCEEDED
    assert value(pair, "broker-b") == "250"


def test_it_needs_the_whole_cluster_whatever_names_one_may_configure(pair: Pair) -> None:
    signed_in("narrow", verbs=("CONFIGURE",), cluster=NAME, names="broker-a*")
    narrow = User.objects.get(username="narrow")
    for subject in ("broker-a", "broker-b", "*"):
        with pytest.raises(NotPermitted):
            operation_services.create_plan(KIND, NAME, subject, {"key": KEY, "value": "250"}, narrow)
