"""A group cloned to another cluster by time, between two brokers: nothing unread there is skipped here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Plan
from tests.console.operation.live_cluster import LiveCluster, next_millisecond
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("offsets on brokers; plans and jobs are written as in tests/console/operation"),
]
PAGE = "/c/elsewhere/groups/billing/offset-import"


@pytest.fixture
def elsewhere(live: LiveCluster, tmp_path: Path) -> Iterator[LiveCluster]:
    """The cluster that the group moves to."""
    process = BrokerProcess(
        tmp_path / "elsewhere", brokerName="broker-z", brokerClusterName="elsewhere"
    ).start()
    yield LiveCluster(process, "elsewhere").register()
    close_admins()
    process.stop()


@pytest.fixture
def mirrored(live: LiveCluster, elsewhere: LiveCluster) -> tuple[LiveCluster, LiveCluster]:
    """Ten messages in each queue of both clusters, one after another; billing is at 3 and 6 of the first one."""
    for cluster in (live, elsewhere):
        cluster.create_topic("orders", queues=2)
        cluster.create_group("billing")
    for number in range(10):
        for cluster in (live, elsewhere):
            for queue_id in (0, 1):
                cluster.send("orders", queue_id, [b"m%d" % number])
        next_millisecond()
    live.commit("billing", "orders", 0, 3)
    live.commit("billing", "orders", 1, 6)
    return live, elsewhere


def cloned(actor: User, **params: Any) -> Plan:
    return services.create_plan(
        "offset_change",
        "elsewhere",
        "billing",
        {"target": "clone", "clone_of": "test/billing", **params},
        actor,
    )


def applied(plan: Plan, actor: User) -> None:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    ended = selectors.job(job.id)
    assert (ended.state, ended.error) == ("SUCCEEDED", "")


def after(plan: Plan) -> dict[tuple[str, int], tuple[int | None, str]]:
    return {(row["topic"], row["queue_id"]): (row["after"], str(row["note"])) for row in plan.diff}


def origin(plan: Plan) -> str:
    return next(str(each["text"]) for each in plan.warnings if each["title"] == "Cloned by time")


def test_every_queue_goes_to_the_oldest_unread_message_of_its_topic(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User
) -> None:
    plan = cloned(alice)
    assert after(plan) == {("orders", 0): (3, ""), ("orders", 1): (3, "")}
    assert "Unread by billing in test: orders from " in origin(plan)
    applied(plan, alice)
    assert mirrored[1].committed("billing", "orders") == {0: 3, 1: 3}
    assert mirrored[0].committed("billing", "orders") == {0: 3, 1: 6}


def test_a_clone_is_undone(mirrored: tuple[LiveCluster, LiveCluster], alice: User) -> None:
    _, target = mirrored
    target.commit("billing", "orders", 0, 9)
    plan = cloned(alice)
    applied(plan, alice)
    assert target.committed("billing", "orders") == {0: 3, 1: 3}
    applied(services.undo(plan.id, alice), alice)
    assert target.committed("billing", "orders")[0] == 9


def test_a_topic_that_is_read_to_its_end_begins_after_its_newest_message(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User
) -> None:
    source, target = mirrored
    for queue_id in (0, 1):
        source.commit("billing", "orders", queue_id, 10)
    next_millisecond()
    target.send("orders", 0, [b"later"])
    found = after(cloned(alice))
    # The copy of the last message may be of the same millisecond or later: it is delivered again, the later one is new.
    assert {queue_id: offset in (9, 10) for (_, queue_id), (offset, _) in found.items()} == {0: True, 1: True}


def test_a_queue_never_committed_is_unread_from_its_oldest_message(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User
) -> None:
    source, target = mirrored
    for cluster in mirrored:
        cluster.create_topic("clicks", queues=2)
        for number in range(3):
            for queue_id in (0, 1):
                cluster.send("clicks", queue_id, [b"c%d" % number])
            next_millisecond()
    source.commit("billing", "clicks", 0, 2)
    found = after(cloned(alice, topics=["clicks"]))
    assert {place: offset for place, (offset, _) in found.items()} == {("clicks", 0): 0, ("clicks", 1): 0}


def test_what_has_no_time_or_no_topic_is_named_and_never_0(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User
) -> None:
    source, target = mirrored
    for topic, clusters in (("empty", mirrored), ("absent", (source,)), ("beyond", mirrored)):
        for cluster in clusters:
            cluster.create_topic(topic, queues=1)
    source.send("beyond", 0, [b"b"])
    for topic, offset in (("empty", 0), ("absent", 0), ("beyond", 7)):
        source.commit("billing", topic, 0, offset)
    plan = cloned(alice)
    found = after(plan)
    assert found["empty", 0] == (None, "empty holds no message in test, so no time is known")
    assert found["beyond", 0] == (
        None,
        "unknown: the offset of beyond · broker-a · 0 in test is beyond its end",
    )
    assert "elsewhere has no topic absent." in origin(plan)
    assert {queue_id: found["orders", queue_id][0] for queue_id in (0, 1)} == {0: 3, 1: 3}


@pytest.mark.parametrize(
    ("clone_of", "words"),
    [
        ("billing", "Name the cluster and the group to clone, such as main/billing."),
        ("nowhere/billing", "There is no cluster nowhere with brokers."),
        ("elsewhere/billing", "Enter a group of another cluster"),
        ("test/payroll", "No broker has offsets or clients of the group payroll."),
    ],
)
def test_a_source_that_cannot_be_is_refused_beside_its_field(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User, client: Client, clone_of: str, words: str
) -> None:
    client.force_login(alice)
    answer = client.post(PAGE, {"clone_of": clone_of})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert words in text[text.index('id="clone_of-err"') :]
    assert not Plan.objects.exists()


def test_a_source_that_does_not_answer_is_named(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User
) -> None:
    Cluster.objects.filter(name="test").update(namesrv_addrs="127.0.0.1:1")
    with pytest.raises(errors.PlanRejected, match="test cannot be read: "):
        cloned(alice)


def test_a_group_that_is_not_there_yet_is_refused_before_any_offset(
    live: LiveCluster, elsewhere: LiveCluster, alice: User
) -> None:
    for cluster in (live, elsewhere):
        cluster.create_topic("orders", queues=1)
        cluster.send("orders", 0, [b"x"])
    live.create_group("billing")
    live.commit("billing", "orders", 0, 0)
    words = r"There is no group billing on broker-z \(elsewhere\), so its offsets would be refused"
    with pytest.raises(errors.PlanRejected, match=words):
        cloned(alice)
    file = {
        "target": "file",
        "offsets": [{"topic": "orders", "broker_name": "broker-z", "queue_id": 0, "offset": 1}],
    }
    with pytest.raises(errors.PlanRejected, match=words):
        services.create_plan("offset_change", "elsewhere", "billing", file, alice)
    elsewhere.create_group("billing")
    applied(cloned(alice), alice)


def test_it_takes_the_right_to_view_the_group_there(
    mirrored: tuple[LiveCluster, LiveCluster], client: Client
) -> None:
    access_services.ensure_first_person()
    eve = User.objects.create_user("eve")
    access_services.grant(role="operator", user=eve, cluster_pattern="elsewhere")
    client.force_login(eve)
    answer = client.post(PAGE, {"clone_of": "test/billing"})
    text = answer.content.decode()
    assert (answer.status_code, Plan.objects.exists()) == (422, False)
    assert "eve may not VIEW billing" in text[text.index('id="clone_of-err"') :]
    assert "test/billing</option>" not in text
    access_services.grant(role="viewer", user=eve, cluster_pattern="test")
    answer = client.post(PAGE, {"clone_of": "test/billing"})
    assert answer["Location"] == f"/c/elsewhere/plans/{Plan.objects.get().id}"


def test_the_group_there_leads_to_its_clone_here(
    mirrored: tuple[LiveCluster, LiveCluster], alice: User, client: Client
) -> None:
    client.force_login(alice)
    page = client.get("/c/test/groups/billing/offset-import").content.decode()
    address = "/c/elsewhere/groups/billing/offset-import?clone_of=test/billing#clone"
    assert f'href="{address}"' in page
    assert 'value="test/billing"' in client.get(address).content.decode()
