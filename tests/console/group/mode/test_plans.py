"""How members of a group get messages, against a real brokerd: plans, page, commands."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from brokerd.remoting.errors import error_for
from console.brokers.mqadmin import MQAdmin
from console.lag.models import GroupRow
from console.operation import errors, services
from console.operation.job import runner
from console.operation.models import Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support.shown import Browser

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("modes on a broker; plans and jobs are written as in tests/console/operation"),
]
PAGE = "/c/test/groups/billing/mode"


@pytest.fixture
def shop(live: LiveCluster) -> LiveCluster:
    """Group billing reads orders."""
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    topics = [{"topic": "orders", "queues": 1, "lag": 0, "time_lag_ms": 0}]
    GroupRow.objects.create(cluster=live.name, group="billing", status="OK", topics=topics, read_at_ms=1)
    return live


def plan_of(live: LiveCluster, actor: User, group: str = "billing", **params: Any) -> Plan:
    return services.create_plan("group_mode", live.name, group, {"topic": "orders", **params}, actor)


def test_it_refuses_pop_where_the_broker_serves_none(
    shop: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_a_release_before(self: MQAdmin, addr: str) -> frozenset[str]:
        return frozenset({"assignment"})

    monkeypatch.setattr(MQAdmin, "capabilities", of_a_release_before)
    plan = plan_of(shop, maria, mode="POP", pop_share_queues=2)
    assert plan.blocked == (
        f"{shop.broker_name} cannot be set to POP: it does not serve POP yet: clients set to POP would get no messages."
    )
    (row,) = plan.diff
    assert (row["before"], row["after"], row["note"]) == (
        {"mode": "PULL", "popShareQueueNum": 0},
        {"mode": "POP", "popShareQueueNum": 2},
        "currently the broker's default",
    )
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(plan.id, maria)
    assert shop.admin.message_request_modes(shop.addr) == {}


def test_it_sets_pop_on_brokerd(shop: LiveCluster, maria: User) -> None:
    plan = plan_of(shop, maria, mode="POP", pop_share_queues=2)
    assert plan.blocked == ""
    runner.run(services.apply_plan(plan.id, maria).id, "worker-1")
    mode = shop.admin.message_request_modes(shop.addr)["orders"]["billing"]
    assert (mode.mode, mode.pop_share_queue_num) == ("POP", 2)


def test_it_says_that_nothing_would_change(shop: LiveCluster, maria: User) -> None:
    plan = plan_of(shop, maria, mode="PULL")
    assert plan.blocked == "Nothing would change: the brokers already report these values."
    assert plan.summary == "Nothing would change for billing."


def test_it_tells_members_that_follow_from_those_that_do_not(shop: LiveCluster, maria: User) -> None:
    with shop.member("billing", "orders"):
        wait_for(lambda: shop.admin.consumer_connection(shop.addr, "billing") is not None, within_s=30)
        plan = plan_of(shop, maria, mode="POP")
    assert [warning["title"] for warning in plan.warnings][0] == "No online client follows it"
    assert {row["name"]: row["value"] for row in plan.before["impact"]} == {
        "Clients that follow it": 0,
        "Clients that ignore it": 1,
        "Unknown clients": 0,
    }


def test_it_says_which_release_knows_no_modes(
    shop: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_supported(self: MQAdmin, addr: str) -> Any:
        raise error_for(3, " request type 402 not supported")  # what 4.9.7 answers

    monkeypatch.setattr(MQAdmin, "message_request_modes", not_supported)
    plan = plan_of(shop, maria, mode="PULL")
    assert plan.blocked.startswith(
        f"{shop.broker_name} does not support consume modes: they were added in RocketMQ 5.0"
    )
    assert plan.diff == []


@pytest.mark.parametrize(
    ("group", "params", "field"),
    [
        ("billing", {"mode": "PUSH"}, "mode"),
        ("billing", {"mode": "POP", "pop_share_queues": -1}, "pop_share_queues"),
        ("billing", {"mode": "POP", "pop_share_queues": 2_000}, "pop_share_queues"),
        ("billing", {"mode": "POP", "topic": ""}, "topic"),
        ("billing", {"mode": "POP", "topic": "%RETRY%billing"}, "topic"),
        ("billing", {"mode": "POP", "topic": "nowhere"}, "topic"),
        ("billing", {"mode": "POP", "brokers": ["broker-z"]}, "brokers"),
        ("billing", {"mode": "POP", "queue": 1}, "queue"),
        ("strangers", {"mode": "POP"}, "group"),
        ("TOOLS_CONSUMER", {"mode": "POP"}, "group"),
    ],
)
def test_it_names_the_parameter_at_fault(
    shop: LiveCluster, maria: User, group: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(shop, maria, group, **params)
    assert caught.value.field == field


def test_the_page_shows_what_counts_and_makes_the_plan(shop: LiveCluster, maria: User) -> None:
    browser = Browser()
    browser.force_login(maria)
    text = browser.get(PAGE).content.decode()
    assert "by default" in text and "cannot be set to POP" not in text and "orders" in text
    form = {"topic": "orders", "mode": "POP", "pop_share_queues": "3", "brokers": [shop.broker_name]}
    browser.post(PAGE, form)
    assert Plan.objects.get().params == {"topic": "orders", "mode": "POP", "pop_share_queues": 3}
    answer = browser.post(PAGE, {**form, "pop_share_queues": "x"})
    assert (answer.status_code, "Enter a whole number" in answer.content.decode()) == (422, True)


def test_it_plans_from_a_terminal(shop: LiveCluster, maria: User) -> None:
    out = StringIO()
    call_command("groups", "mode", "billing", "--topic", "orders", "--mode", "POP", stdout=out)
    plan = Plan.objects.get()
    assert plan.params == {"topic": "orders", "mode": "POP"}
    assert "It cannot be applied" not in out.getvalue()
    assert plan.equivalent["made_by"]["command"] == (
        "manage.py groups mode billing --topic orders --mode POP --cluster test"
    )
