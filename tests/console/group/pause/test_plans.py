"""Pausing a group on topics against a real brokerd: members stop and go on, what stays, drift, undo, old brokers."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from brokerd.remoting.body.client import Connection, ConsumerConnection, SubscriptionData
from brokerd.remoting.errors import error_for
from console.brokers.mqadmin import MQAdmin, MQBrokerError
from console.cluster.models import Cluster
from console.group import refusals
from console.group.models import BrokerRefusals
from console.group.pause.facts import Waiting, members_of, waiting
from console.group.pauses import WHOLE_GROUP, paused_groups, pauses_of
from console.lag.models import GroupRow, TopicRow
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
RETRY = "%RETRY%billing"


@pytest.fixture
def shop(live: LiveCluster) -> LiveCluster:
    """Group billing reads orders and refunds, as the last round saw it."""
    for topic in ("orders", "refunds"):
        live.create_topic(topic, queues=1)
    live.create_group("billing")
    topics = [
        {"topic": "orders", "queues": 1, "lag": 90, "lag_lower_bound": False, "time_lag_ms": 3_600_000},
        {"topic": "refunds", "queues": 1, "lag": 0, "lag_lower_bound": False, "time_lag_ms": None},
    ]
    GroupRow.objects.create(
        cluster=live.name, group="billing", status="OK", clients=0, lag=90, topics=topics, read_at_ms=1_000
    )
    TopicRow.objects.create(cluster=live.name, topic="orders", kind="NORMAL", in_rate=20.0)
    return live


def plan_of(live: LiveCluster, actor: User, deed: str, group: str = "billing", **params: Any) -> Plan:
    return services.create_plan(f"group_{deed}", live.name, group, params, actor)


def run(plan: Plan, actor: User) -> Job:
    assert plan.blocked == "", plan.blocked
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    done = selectors.job(job.id)
    assert (done.state, done.error) == ("SUCCEEDED", "")
    return done


def forbidden(live: LiveCluster, group: str = "billing") -> set[str]:
    return set((live.admin.group_refusals(live.addr).topics or {}).get(group, ()))


def titles(plan: Plan) -> list[str]:
    return [warning["title"] for warning in plan.warnings]


def test_it_stops_members_and_lets_them_go_on(shop: LiveCluster, maria: User) -> None:
    with shop.member("billing", "orders") as seen:
        shop.send("orders", 0, [b"before"])
        wait_for(lambda: len(seen) == 1, "the first message", within_s=60)
        plan = plan_of(shop, maria, "pause", topics=["orders"])
        assert plan.summary == (
            f"Pause billing on orders at {shop.broker_name}. Its clients stop receiving messages. "
            "Its offsets stay, and messages wait until the group is resumed."
        )
        assert titles(plan)[0] == "1 client is online"
        run(plan, maria)
        shop.send("orders", 0, [b"held"] * 5)
        refused = shop.admin.gather({"": lambda one: one.pull(shop.addr, "orders", 0, 1)}, 10_000)[""]
        assert not isinstance(refused, MQBrokerError), "others read on"
        resumed = plan_of(shop, maria, "resume")
        assert [message.body for message in seen] == [b"before"]
        assert resumed.summary.startswith("Resume billing on orders")
        run(resumed, maria)
        wait_for(lambda: len(seen) == 6, "what was held", within_s=60)


def test_it_pauses_all_topics_and_undoes_it(shop: LiveCluster, maria: User) -> None:
    plan = plan_of(shop, maria, "pause")
    assert [(row["name"], row["changes"]) for row in plan.diff] == [
        (topic, [{"key": "readable", "before": True, "after": False}])
        for topic in ("orders", "refunds", RETRY)
    ]
    assert (plan.messages, plan.confirm) == (90, "inline")
    assert titles(plan) == [
        "No client is online",
        "The lag will grow by at least 1,200 messages a minute",
        "Retention reaches the oldest unread message in about 2 d 23 h",
    ]
    figures = {row["name"]: (row["value"], row.get("is_lower_bound", False)) for row in plan.before["impact"]}
    assert figures == {
        "Clients online": (0, False),
        "Waiting there": (90, False),
        "Arriving": (1_200, True),
        "Kept unread, hours": (71, False),
    }
    job = run(plan, maria)
    assert forbidden(shop) == {"orders", "refunds", RETRY}
    assert {row["state"] for row in job.result["brokers"]} == {"verified"}
    assert (
        plan_of(shop, maria, "pause").blocked == "Nothing would change: this is paused for billing already."
    )
    run(services.undo(plan.id, maria), maria)
    assert forbidden(shop) == set()
    assert plan_of(shop, maria, "pause", topics=["orders"]).warnings[-1]["title"] == "Retries continue"


def test_it_refuses_a_name_that_no_group_may_have(shop: LiveCluster, maria: User) -> None:
    with pytest.raises(errors.PlanRejected, match="Use only letters") as refusal:
        services.create_plan("group_pause", shop.name, "no group", {}, maria)
    assert refusal.value.field == "group"


def test_it_resumes_one_topic_and_leaves_the_others(shop: LiveCluster, maria: User) -> None:
    run(plan_of(shop, maria, "pause"), maria)
    plan = plan_of(shop, maria, "resume", topics=["refunds"])
    assert f"%RETRY%billing and orders at {shop.broker_name} stay paused" in titles(plan)
    assert plan.confirm == "inline"
    run(plan, maria)
    assert forbidden(shop) == {"orders", RETRY}
    run(services.undo(plan.id, maria), maria)
    assert forbidden(shop) == {"orders", "refunds", RETRY}


def test_it_says_on_the_undo_what_others_changed_since(shop: LiveCluster, maria: User) -> None:
    plan = plan_of(shop, maria, "pause", topics=["orders"])
    run(plan, maria)
    shop.admin.group_forbidden(shop.addr, "billing", "orders", readable=True)
    undo = services.undo(plan.id, maria)
    assert undo.warnings[0]["title"] == "Later changes are undone too"
    assert (
        undo.blocked == "Nothing would change: this is paused for billing already."
        or "may read" in undo.blocked
    )


def test_it_does_not_call_unknown_waits_young() -> None:
    def wait_of(*parts: tuple[int | None, int | None]) -> Waiting:
        names = [f"t{number}" for number in range(len(parts))]
        topics = [
            {"topic": name, "lag": lag, "time_lag_ms": age}
            for name, (lag, age) in zip(names, parts, strict=True)
        ]
        return waiting(GroupRow(group="g", topics=topics), names)

    assert wait_of((5, 9_000), (0, None)) == Waiting(5, False, 9_000)
    assert wait_of((5, 9_000), (None, None)) == Waiting(5, True, None)
    assert wait_of((5, 9_000), (3, None)) == Waiting(8, False, None)
    assert wait_of((0, None)) == Waiting(0, False, 0), "the next message is the oldest"
    assert wait_of((None, None)) == Waiting(None, True, None)
    assert waiting(None, ["orders"]) == Waiting(None, False, None)


def test_it_names_members_that_are_not_asked_for_the_permission() -> None:
    def online(consume_type: str, language: str, expression_type: str = "TAG") -> ConsumerConnection:
        return ConsumerConnection(
            connection_set=[Connection(client_id="c1", language=language)],
            subscription_table={"orders": SubscriptionData("orders", expression_type=expression_type)},
            consume_type=consume_type,
        )

    push = online("CONSUME_PASSIVELY", "JAVA", "SQL92")
    assert members_of([None, push]).not_held == ()
    everybody = [push, online("CONSUME_ACTIVELY", "JAVA"), online("CONSUME_POP", "GO")]
    assert members_of(everybody).not_held == ("POP", "pull")
    assert members_of([online("CONSUME_PASSIVELY", "PYTHON", "SQL92")]).not_held == ("Python SQL92",)


def test_it_refuses_to_apply_what_moved_since(shop: LiveCluster, maria: User) -> None:
    plan = plan_of(shop, maria, "pause", topics=["orders"])
    shop.admin.group_forbidden(shop.addr, "billing", "orders", readable=False)
    with pytest.raises(errors.PlanDrifted) as caught:
        services.apply_plan(plan.id, maria)
    assert caught.value.changes == [f"orders on {shop.broker_name} is paused since the plan was made"]


@pytest.mark.parametrize(
    ("deed", "group", "params", "field"),
    [
        ("pause", "billing", {"topics": ["nowhere"]}, "topics"),
        ("pause", "billing", {"topics": "orders"}, "topics"),
        ("pause", "billing", {"brokers": ["broker-z"]}, "brokers"),
        ("pause", "billing", {"queue": 3}, "queue"),
        ("pause", "strangers", {}, "group"),
        ("pause", "TOOLS_CONSUMER", {}, "group"),
        ("resume", "billing", {}, "topics"),
    ],
)
def test_it_names_the_parameter_at_fault(
    shop: LiveCluster, maria: User, deed: str, group: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(shop, maria, deed, group, **params)
    assert caught.value.field == field


def test_it_asks_for_the_right_to_configure(shop: LiveCluster, alice: User) -> None:
    with pytest.raises(errors.NotPermitted):
        plan_of(shop, alice, "pause")


# --- Read back from the brokers --------------------------------------------------------------------------------


def test_it_knows_who_is_paused_from_the_brokers_and_by_whom_from_its_jobs(
    shop: LiveCluster, maria: User
) -> None:
    shop.admin.group_forbidden(shop.addr, "others", "orders", readable=False)
    refusals.survey_cluster(shop.name, now_ms=5_000)
    plan = plan_of(shop, maria, "pause", topics=["orders"])
    job = run(plan, maria)
    at_ms = job.result["brokers"][0]["at_ms"]
    found = pauses_of(shop.name, "billing", at_ms)
    (pause,) = found.paused
    assert (pause.topic, pause.brokers, pause.since_ms, pause.by, pause.plan_id) == (
        "orders",
        (shop.broker_name,),
        at_ms,
        "maria",
        plan.id,
    )
    assert found.holds("orders", shop.broker_name) and not found.holds("refunds", shop.broker_name)
    (theirs,) = pauses_of(shop.name, "others", at_ms).paused
    assert (theirs.since_ms, theirs.by) == (None, ""), "it was so at the first look"
    assert paused_groups(shop.name) == {"billing": ["orders"], "others": ["orders"]}
    BrokerRefusals.objects.all().delete()  # another console, a new database
    refusals.survey_cluster(shop.name, now_ms=at_ms)
    assert [each.topic for each in pauses_of(shop.name, "billing", at_ms).paused] == ["orders"]


def test_it_knows_groups_that_may_not_consume_at_all(shop: LiveCluster) -> None:
    refusals.survey_cluster(shop.name, now_ms=1_000)
    shop.create_group("billing", consume_enable=False)
    refusals.survey_cluster(shop.name, now_ms=31_000)
    refusals.survey_cluster(shop.name, now_ms=61_000)
    found = pauses_of(shop.name, "billing", 61_000)
    assert found.whole_group is not None
    assert (found.whole_group.since_ms, found.whole_group.read_at_ms) == (31_000, 61_000)
    assert found.holds("anything", shop.broker_name)
    assert paused_groups(shop.name) == {"billing": [WHOLE_GROUP]}


def test_it_does_not_take_silence_for_reading(shop: LiveCluster) -> None:
    shop.admin.group_forbidden(shop.addr, "billing", "orders", readable=False)
    refusals.survey_cluster(shop.name, now_ms=1_000)
    name = shop.broker_name
    Cluster.objects.filter(name=shop.name).update(namesrv_addrs=f"127.0.0.1:{free_port()}")
    assert refusals.survey_cluster(shop.name, now_ms=200_000) == 0
    found = pauses_of(shop.name, "billing", 200_000)
    assert [pause.topic for pause in found.paused] == ["orders"], "as it was seen last"
    (unknown,) = found.unknown
    assert (unknown.broker_name, unknown.read_at_ms) == (name, 1_000) and unknown.reason


def test_it_forgets_clusters_that_are_gone(shop: LiveCluster) -> None:
    BrokerRefusals.objects.create(cluster="gone", broker_name="broker-a")
    refusals.drop_removed_clusters()
    assert not BrokerRefusals.objects.filter(cluster="gone").exists()


# --- Brokers before 5.0 ----------------------------------------------------------------------------------------


def test_it_says_before_the_button_that_a_broker_cannot_do_it(
    shop: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_supported(self: MQAdmin, *args: Any, **kwargs: Any) -> Any:
        raise error_for(3, " request type 353 not supported")  # what 4.9.7 answers

    monkeypatch.setattr(MQAdmin, "group_forbidden", not_supported)
    plan = plan_of(shop, maria, "pause", topics=["orders"])
    assert plan.blocked == (
        f"{shop.broker_name} cannot pause a group on a topic: its release does not support the request (353, added in "
        "RocketMQ 5.0). "
        "Stop the whole group there with consumeEnable in its settings, or choose other brokers."
    )
    assert plan.diff == []
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(plan.id, maria)
