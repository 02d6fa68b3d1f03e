"""Plans of a cluster of two brokers of which one is dead and gone from the name server: it is named, and left out only
when the person accepts that by name."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from console.access import services as access_services
from console.brokers.mqadmin import BrokerUnavailable, close_admins
from console.cluster.models import Cluster
from console.lag import services as lag_services
from console.lag.models import BrokerRow, GroupRow, QueueSheet, TopicQueueSheet
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.support.simulated_cluster import Layout, SimulatedCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "a dead broker; rows, plans and jobs are written as in lag/test_edge_cases and in operation"
    ),
]
TOPIC, GROUP = "orders-00007", "orders-00007-service"  # nobody of it is online, it stands at 1,000,000


class World:
    """Cluster ``local`` as the collector saw it while both brokers answered; one queue of each topic on each."""

    def __init__(self, cluster: SimulatedCluster, actor: User) -> None:
        self.cluster, self.actor = cluster, actor
        self.now_ms = lag_services.system_now_ms() // 5_000 * 5_000 - 60_000

    def collect(self) -> None:
        self.now_ms += 5_000
        assert lag_services.collect("local", now_ms=self.now_ms) is not None

    def plan(self, kind: str, subject: str = GROUP, **params: Any) -> Plan:
        return services.create_plan(kind, "local", subject, params, self.actor)

    def apply(self, plan: Plan) -> Job:
        job = services.apply_plan(plan.id, self.actor, plan.confirm_text)
        runner.run(job.id, "worker-1")
        return selectors.job(job.id)


@pytest.fixture
def world(redis_url: str, db: None, alice: User, tmp_path: Path, settings: Settings) -> Iterator[World]:
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    with SimulatedCluster(brokers=2, topics=8, groups=8) as cluster:
        Cluster.objects.create(name="local", namesrv_addrs=cluster.namesrv)
        yield World(cluster, alice)
        lag_services.collectors.clear()
        close_admins()


@pytest.fixture
def admin(db: None) -> User:
    return access_services.ensure_first_person()


@pytest.fixture
def halved(world: World) -> World:
    """Both brokers were seen; then broker-1 died and the name server dropped it."""
    world.collect()
    world.cluster.leave(1)
    world.collect()
    return world


def rows_of(plan: Plan) -> list[tuple[str, bool, str]]:
    return [(row["broker_name"], row["moves"], row["how"]) for row in plan.diff]


def silent_since(world: World) -> str:
    at = BrokerRow.objects.get(cluster="local", broker_name="broker-1").since_ms
    assert at == world.now_ms
    return f"{datetime.datetime.fromtimestamp(at / 1000, tz=datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.both_databases("an offset change, the plan most used")
def test_an_offset_plan_names_the_dead_broker_and_its_queues(halved: World) -> None:
    plan = halved.plan("offset_change", target="earliest")
    since = silent_since(halved)
    assert rows_of(plan) == [("broker-0", True, "15"), ("broker-1", False, "left_out")]
    assert plan.diff[1]["note"] == f"broker-1 has not answered since {since}"
    assert plan.diff[1]["before"] == 1_000_000, "as it was read last"
    assert plan.blocked == (
        f"broker-1 has not answered since {since} and holds 1 of 2 queues. Wait until it answers, or accept that "
        "the change leaves it out."
    )
    assert plan.warnings[0]["title"] == "broker-1 is not covered"
    cover = plan.before["coverage"]
    assert (cover["unit"], cover["covered"], cover["expected"]) == ("queues", 1, 2)
    assert [(each["broker_name"], each["queues"], each["accepted"]) for each in cover["absent"]] == [
        ("broker-1", 1, False)
    ]
    with pytest.raises(errors.PlanBlocked, match="broker-1 has not answered since"):
        services.apply_plan(plan.id, halved.actor, plan.confirm_text)


def test_the_verdict_says_what_was_left_out_and_who_accepted_it(halved: World) -> None:
    plan = halved.plan("offset_change", target="earliest", accept_without=["broker-1"])
    assert plan.blocked == ""
    assert plan.warnings[0]["title"] == "broker-1 is left out"
    assert "--accept-without broker-1" in plan.equivalent["made_by"]["command"]
    job = halved.apply(plan)
    assert (job.state, job.error, job.result["verified"]) == ("SUCCEEDED", "", 1)
    kept = job.result["coverage"]
    assert (kept["covered"], kept["expected"], kept["accepted_by"]) == (1, 2, "alice")
    said = job.events.order_by("-at", "-id")[0]
    assert (said.level, said.text) == (
        "warn",
        "Verified: the brokers report the target values on 1 of 2 queues; broker-1 left out, accepted by alice",
    )


def test_only_brokers_that_are_there_can_be_accepted(halved: World) -> None:
    with pytest.raises(errors.PlanRejected, match="There is no broker broker-9. Brokers: broker-0, broker-1"):
        halved.plan("offset_change", target="earliest", accept_without=["broker-9"])
    plan = halved.plan("offset_change", target="earliest", accept_without=["broker-0"])
    assert plan.blocked.startswith("broker-1 has not answered since"), "broker-0 answers: it is covered"
    assert rows_of(plan)[0] == ("broker-0", True, "15")


def test_a_broker_that_is_listed_and_hangs_is_named_too(world: World) -> None:
    world.collect()
    world.cluster.silence(1)
    plan = world.plan("offset_change", target="earliest")
    assert "broker-1 has not answered since" in plan.blocked
    plan = world.plan("offset_change", target="earliest", accept_without=["broker-1"])
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")


def test_a_plan_is_refused_when_the_broker_it_leaves_out_is_back(halved: World) -> None:
    plan = halved.plan("offset_change", target="earliest", accept_without=["broker-1"])
    halved.cluster.come_back(1)
    with pytest.raises(errors.PlanDrifted, match="broker-1 answers again and is not part of this plan"):
        services.apply_plan(plan.id, halved.actor, plan.confirm_text)
    again = halved.plan("offset_change", target="earliest", accept_without=["broker-1"])
    assert (again.blocked, again.before["coverage"]["absent"]) == ("", [])


@pytest.mark.both_databases("rows of a whole cluster are deleted")
def test_the_history_knows_a_broker_that_no_row_has(halved: World) -> None:
    """Rows are a cache and may be deleted: the committed offsets of the last week are not."""
    lag_services.collectors.clear()
    for rows in (BrokerRow, GroupRow, QueueSheet, TopicQueueSheet):
        rows.objects.all().delete()  # type: ignore[attr-defined]
    later_ms = halved.now_ms + 3_600_000
    plan = services.create_plan(
        "offset_change", "local", GROUP, {"target": "earliest"}, halved.actor, now_ms=later_ms
    )
    assert rows_of(plan) == [("broker-0", True, "15"), ("broker-1", False, "left_out")]
    assert plan.blocked.startswith("broker-1 has not answered since")


def test_a_group_on_the_dead_broker_alone_is_not_unknown(halved: World) -> None:
    halved.cluster.leave(0)
    with pytest.raises(BrokerUnavailable, match="exists on broker-0 and broker-1 only"):
        halved.plan("offset_change", target="earliest")


def test_queues_that_are_named_are_the_scope(halved: World) -> None:
    only = [{"topic": TOPIC, "broker_name": "broker-0", "queue_id": 0}]
    plan = halved.plan("offset_change", target="earliest", queues=only)
    assert (plan.blocked, rows_of(plan)) == ("", [("broker-0", True, "15")])


# --- Configuration ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "subject", "params"),
    [
        ("group_change", GROUP, {"retry_max_times": 5}),
        ("group_quarantine", GROUP, {}),
        ("group_force_delete", GROUP, {}),
        ("group_create", "new-group", {}),
        ("topic_create", "new-topic", {}),
        ("topic_change", TOPIC, {"perm": 4}),
        ("topic_force_delete", TOPIC, {}),
    ],
)
def test_a_change_of_configuration_names_the_dead_broker(
    halved: World, admin: User, kind: str, subject: str, params: dict[str, Any]
) -> None:
    halved.actor = admin
    plan = halved.plan(kind, subject, **params)
    since = silent_since(halved)
    assert plan.blocked == (
        f"broker-1 has not answered since {since}. Wait until it answers, or accept that the change leaves it out."
    )
    assert [(row["broker_name"], row["deed"]) for row in plan.diff if row["deed"] == "left_out"] == [
        ("broker-1", "left_out")
    ]
    cover = plan.before["coverage"]
    assert (cover["unit"], cover["covered"], cover["expected"]) == ("brokers", 1, 2)
    accepted = halved.plan(kind, subject, **params, accept_without=["broker-1"])
    assert "broker-1" not in accepted.blocked
    assert "--accept-without broker-1" in accepted.equivalent["made_by"]["command"]
    named = halved.plan(kind, subject, **params, brokers=["broker-0"]) if "change" in kind else None
    assert named is None or named.blocked == "", "who names brokers says what the scope is"


def test_what_lies_on_the_dead_broker_alone_is_not_unknown(world: World, admin: User) -> None:
    world.actor = admin
    world.collect()
    world.cluster.leave(0)
    world.cluster.leave(1)
    world.collect()
    for kind, subject in (("topic_change", TOPIC), ("group_change", GROUP)):
        params = {"perm": 4} if kind == "topic_change" else {"retry_max_times": 5}
        with pytest.raises(BrokerUnavailable, match="broker-1 has not answered since"):
            world.plan(kind, subject, **params)


# --- Where it is shown --------------------------------------------------------------------------------------


def test_the_page_asks_for_the_broker_by_name(halved: World, client: Client, settings: Settings) -> None:
    client.force_login(halved.actor)
    plan = halved.plan("offset_change", target="earliest")
    page = client.get(f"/c/local/plans/{plan.id}").content.decode()
    assert "This plan cannot be applied." in page and "and holds 1 of 2 queues" in page
    assert 'name="accept_without" value="broker-1" required' in page
    assert "Leave out <strong>broker-1</strong> and its 1 queue<" in page
    assert "not covered" in page and "Replay 1,000 messages" not in page
    answer = client.post(f"/c/local/plans/{plan.id}/again", {"accept_without": ["broker-1"]})
    again = Plan.objects.exclude(pk=plan.pk).get()
    assert (answer.status_code, again.blocked, again.params["accept_without"]) == (302, "", ["broker-1"])
    job = halved.apply(again)
    page = client.get(reverse("job", args=["local", job.id])).content.decode()
    assert "1 of 2 queues." in page and "broker-1 is left out, accepted by alice." in page
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    page = client.get(f"/c/local/plans/{plan.id}").content.decode()
    assert "2 个队列中有 1 个在其上。请等待其恢复应答" in page and "不包含该 Broker 继续？" in page


def test_rest_names_it_and_takes_the_acceptance(halved: World, client: Client) -> None:
    client.force_login(halved.actor)

    def made(body: dict[str, Any]) -> Any:
        path = "/api/v1/clusters/local/offset-plans"
        answer = client.post(path, {"group": GROUP, "target": "earliest", **body}, "application/json")
        assert answer.status_code == 201, answer.content
        return answer.json()

    plan = made({})
    assert (plan["coverage"]["covered"], plan["coverage"]["expected"]) == (1, 2)
    assert plan["coverage"]["absent"][0]["broker_name"] == "broker-1"
    assert plan["coverage"]["absent"][0]["since_ms"] == halved.now_ms
    refused = client.post(f"/api/v1/plans/{plan['id']}/apply", {}, "application/json")
    assert (refused.status_code, refused.json()["code"]) == (409, "plan_blocked")
    assert made({"accept_without": ["broker-1"]})["blocked"] == ""
    halved.cluster.leave(0)
    body = {"group": GROUP, "target": "earliest"}
    gone = client.post("/api/v1/clusters/local/offset-plans", body, "application/json")
    assert gone.status_code == 503 and "broker-1 has not answered since" in gone.json()["detail"]


@pytest.mark.both_databases("events of a broker or a group, in one condition")
def test_the_command_prints_it_and_takes_the_acceptance(halved: World) -> None:
    out = io.StringIO()
    call_command("offsets", "plan", GROUP, "--target", "earliest", stdout=out)
    assert "It cannot be applied: broker-1 has not answered since" in out.getvalue()
    out = io.StringIO()
    options = ["--target", "earliest", "--accept-without", "broker-1"]
    call_command("offsets", "plan", GROUP, *options, stdout=out)
    plan = Plan.objects.get(blocked="")
    out = io.StringIO()
    call_command("offsets", "apply", plan.id, "--confirm", plan.confirm_text, "--here", stdout=out)
    assert "1 of 2 queues; broker-1 left out, accepted by system" in out.getvalue()


@pytest.mark.both_databases("what rounds change in rows of topics without a broker")
def test_pages_of_what_lies_on_dead_brokers_alone_name_them(
    redis_url: str, alice: User, client: Client, tmp_path: Path, settings: Settings
) -> None:
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    client.force_login(alice)
    with SimulatedCluster(brokers=4, topics=8, groups=8) as cluster:
        Cluster.objects.create(name="local", namesrv_addrs=cluster.namesrv)
        world = World(cluster, alice)
        world.collect()
        cluster.leave(1)
        cluster.leave(2)  # topic 1 and its group lie on these two
        lag_services.collectors.clear()  # the worker starts again, and hears of neither
        world.collect()
        topic, group = Layout.topic(1), Layout.group(1)
        for path in (f"/c/local/groups/{group}", f"/c/local/topics/{topic}"):
            page = client.get(path)
            assert page.status_code == 200, path
            assert "broker-1 has not answered since" in page.content.decode()
        assert "No client may read this topic" not in client.get(f"/c/local/topics/{topic}").content.decode()
        row = client.get(f"/api/v1/clusters/local/topics/{topic}").json()
        assert (row["perm"], row["partial"], row["brokers"]) == (6, True, ["broker-1", "broker-2"])
        assert client.get(f"/api/v1/clusters/local/groups/{group}").status_code == 200
        with pytest.raises(BrokerUnavailable, match=f"{group} exists on broker-1 and broker-2 only"):
            world.plan("offset_change", group, target="earliest")
        found = client.get(f"/api/v1/clusters/local/topics/{topic}/messages")
        assert found.status_code == 200 and set(found.json()["silent"]) == {"broker-1", "broker-2"}
        missing = client.get("/api/v1/clusters/local/groups/never-seen")
        assert missing.status_code == 404
        assert "It may lie on broker-1, broker-2" in missing.json()["detail"]
    lag_services.collectors.clear()
    close_admins()
