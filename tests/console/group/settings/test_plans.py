"""Configuration of groups against a real brokerd: create, change, quarantine, release, delete with offsets."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.access import services as access_services
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a broker's settings; plans and jobs are written as in tests/console/operation"),
]


def plan_of(live: LiveCluster, actor: User, kind: str, group: str = "billing", **params: Any) -> Plan:
    return services.create_plan(f"group_{kind}", live.name, group, params, actor)


def run(plan: Plan, actor: User) -> Job:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    return selectors.job(job.id)


def config_of(live: LiveCluster, group: str = "billing") -> dict[str, Any] | None:
    found = live.admin.all_subscription_groups(live.addr).subscription_group_table.get(group)
    return None if found is None else found.to_value()


def titles(plan: Plan) -> list[str]:
    return [warning["title"] for warning in plan.warnings]


def test_it_creates_a_group_and_takes_it_back(live: LiveCluster, maria: User) -> None:
    plan = plan_of(live, maria, "create", retry_max_times=3, consume_from_min_enable=False)
    assert plan.summary == f"Create the group billing on {live.broker_name}."
    assert config_of(live) is None
    assert run(plan, maria).state == "SUCCEEDED"
    made = config_of(live)
    assert made is not None
    assert (made["retryMaxTimes"], made["consumeFromMinEnable"], made["consumeEnable"]) == (3, False, True)
    undo = services.undo(plan.id, maria)
    assert undo.summary == f"Delete the unused group billing on {live.broker_name} again."
    assert run(undo, maria).state == "SUCCEEDED"
    assert config_of(live) is None


@pytest.mark.parametrize(
    ("group", "params", "field"),
    [
        ("bad name", {}, "group"),
        ("x" * 121, {}, "group"),
        ("%RETRY%billing", {}, "group"),
        ("TOOLS_CONSUMER", {}, "group"),
        ("there", {}, "group"),
        ("billing", {"retry_max_times": -2}, "retry_max_times"),
        ("billing", {"retry_queues": 0}, "retry_queues"),
        ("billing", {"consume_enable": 1}, "consume_enable"),
        ("billing", {"consume_timeout_minutes": True}, "consume_timeout_minutes"),
        ("billing", {"brokers": "broker-a"}, "brokers"),
        ("billing", {"nonsense": 1}, "nonsense"),
    ],
)
def test_it_names_the_parameter_at_fault(
    live: LiveCluster, maria: User, group: str, params: dict[str, Any], field: str
) -> None:
    live.create_group("there")
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(live, maria, "create", group, **params)
    assert caught.value.field == field


def test_it_changes_settings_and_puts_them_back_to_the_letter(live: LiveCluster, maria: User) -> None:
    live.create_group("billing", retry_max_times=7)
    before = config_of(live)
    plan = plan_of(live, maria, "change", retry_max_times=3, notify_members=False)
    assert plan.summary == (
        "Change billing: retryMaxTimes 7 → 3, notifyConsumerIdsChangedEnable true → false "
        f"on {live.broker_name}."
    )
    assert titles(plan) == ["At most 3 retries"]
    assert run(plan, maria).state == "SUCCEEDED"
    assert run(services.undo(plan.id, maria), maria).state == "SUCCEEDED"
    assert config_of(live) == before


def test_it_asks_for_the_name_before_it_stops_members_that_are_online(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    with live.member("billing", "orders"):
        wait_for(lambda: live.admin.consumer_connection(live.addr, "billing") is not None, within_s=30)
        plan = plan_of(live, maria, "change", consume_enable=False)
    assert (plan.confirm, titles(plan)) == ("typed", ["1 client is online"])


def test_it_deletes_from_quarantine_and_brings_the_offsets_back(
    live: LiveCluster, maria: User, settings: Settings
) -> None:
    live.create_topic("orders", queues=2)
    live.create_group("billing", retry_max_times=5)
    live.send("orders", 0, [b"m"] * 9)
    live.commit("billing", "orders", 0, 7)
    live.create_topic("%DLQ%billing", queues=1)
    live.send("%DLQ%billing", 0, [b"dead"] * 2)
    before = config_of(live)
    assert plan_of(live, maria, "delete").blocked.startswith(
        "Put it in quarantine first: it is still in use."
    )
    quarantine = plan_of(live, maria, "quarantine")
    assert run(quarantine, maria).state == "SUCCEEDED"
    closed = config_of(live)
    assert closed is not None and closed == {**(before or {}), "consumeEnable": False}
    assert "it can be deleted after 24 hours" in plan_of(live, maria, "delete").blocked
    settings.QUARANTINE_HOURS = 0
    plan = plan_of(live, maria, "delete")
    assert plan.summary == (
        f"Delete the group billing on {live.broker_name}. Its committed offsets (1) are deleted too, and "
        "recorded for the undo. Kept: %DLQ%billing with 2 messages."
    )
    assert (plan.blocked, plan.confirm) == ("", "typed")
    job = run(plan, maria)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert config_of(live) is None and live.committed("billing", "orders") == {}
    assert live.has_route("%DLQ%billing")
    undo = services.undo(plan.id, maria)
    assert undo.summary.endswith("as it was, with its committed offsets (1).")
    assert run(undo, maria).state == "SUCCEEDED"
    assert config_of(live) == closed
    assert live.committed("billing", "orders") == {0: 7}
    release = plan_of(live, maria, "release")
    assert run(release, maria).state == "SUCCEEDED"
    assert config_of(live) == before


def test_it_deletes_the_group_s_own_topics_when_asked(
    live: LiveCluster, maria: User, settings: Settings
) -> None:
    settings.QUARANTINE_HOURS = 0
    live.create_group("billing")
    live.create_topic("%DLQ%billing", queues=1)
    live.create_topic("%RETRY%billing", queues=1)
    live.send("%DLQ%billing", 0, [b"dead"] * 2)
    run(plan_of(live, maria, "quarantine"), maria)
    plan = plan_of(live, maria, "delete", with_topics=True)
    assert "2 dead letters are lost" in titles(plan)
    assert [(row["what"], row["name"], row["deed"]) for row in plan.diff] == [
        ("group", "billing", "delete"),
        ("topic", "%RETRY%billing", "delete"),
        ("topic", "%DLQ%billing", "delete"),
    ]
    job = run(plan, maria)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert not live.has_route("%DLQ%billing") and not live.has_route("%RETRY%billing")


def test_it_keeps_offsets_when_asked(live: LiveCluster, maria: User, settings: Settings) -> None:
    settings.QUARANTINE_HOURS = 0
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    live.send("orders", 0, [b"m"] * 3)
    live.commit("billing", "orders", 0, 2)
    run(plan_of(live, maria, "quarantine"), maria)
    assert run(plan_of(live, maria, "delete", keep_offsets=True), maria).state == "SUCCEEDED"
    assert config_of(live) is None and live.committed("billing", "orders") == {0: 2}


def test_it_lets_only_an_administrator_skip_the_quarantine(live: LiveCluster, maria: User) -> None:
    live.create_group("billing")
    with pytest.raises(errors.NotPermitted):
        plan_of(live, maria, "force_delete")
    plan = plan_of(live, access_services.ensure_first_person(), "force_delete")
    assert (plan.blocked, plan.confirm) == ("", "typed")


def test_it_refuses_when_members_came_online(live: LiveCluster, maria: User, settings: Settings) -> None:
    settings.QUARANTINE_HOURS = 0
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    run(plan_of(live, maria, "quarantine"), maria)
    plan = plan_of(live, maria, "delete")
    with live.member("billing", "orders"):
        wait_for(lambda: live.admin.consumer_connection(live.addr, "billing") is not None, within_s=30)
        with pytest.raises(errors.PlanDrifted, match="1 client is online, 0 were"):
            services.apply_plan(plan.id, maria, "billing")


def test_it_refuses_when_the_group_was_changed_since(live: LiveCluster, maria: User) -> None:
    live.create_group("billing", retry_max_times=7)
    plan = plan_of(live, maria, "change", retry_max_times=3)
    live.create_group("billing", retry_max_times=9)
    with pytest.raises(errors.PlanDrifted) as caught:
        services.apply_plan(plan.id, maria)
    assert caught.value.changes == [f"billing on {live.broker_name}: retryMaxTimes is 9, not 7"]
