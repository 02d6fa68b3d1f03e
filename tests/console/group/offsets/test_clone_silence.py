"""A group cloned by time while a broker of its cluster is stopped: named, blocked, and done without it if accepted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from console.brokers.mqadmin import SubscriptionGroupConfig, TopicConfig, close_admins
from console.lag import services as lag_services
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Plan
from consumers import Message
from tests.console.operation.live_cluster import LiveCluster, next_millisecond, wait_for
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("offsets on brokers; plans and jobs are written as in tests/console/operation"),
]
SILENT = "test/broker-b"


@pytest.fixture
def halved(tmp_path: Path, db: None, settings: Settings) -> Iterator[tuple[LiveCluster, BrokerProcess]]:
    """Ten messages a queue, one queue on each of three brokers: a and b of the source, z of the target.

    Billing is at 6 of broker-a and at 3 of broker-b, which is stopped after a round has read it.
    """
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    first = BrokerProcess(tmp_path / "a", brokerName="broker-a").start()
    second = BrokerProcess(tmp_path / "b", brokerName="broker-b", namesrvAddr=first.namesrv).start()
    third = BrokerProcess(tmp_path / "z", brokerName="broker-z", brokerClusterName="elsewhere").start()
    source, target = LiveCluster(first).register(), LiveCluster(third, "elsewhere").register()
    for cluster in (source, target):
        cluster.create_topic("orders", queues=1)
        cluster.create_group("billing")
    source.admin.create_topic(second.address, TopicConfig("orders", read_queue_nums=1, write_queue_nums=1))
    source.admin.create_subscription_group(second.address, SubscriptionGroupConfig("billing"))
    wait_for(lambda: len(source.admin.topic_route("orders").queue_datas) == 2, "the route")
    for number in range(10):
        source.admin.send_many(second.address, [(Message("orders", b"%d" % number), 0)])
        source.send("orders", 0, [b"%d" % number])
        target.send("orders", 0, [b"%d" % number])
        next_millisecond()
    source.commit("billing", "orders", 0, 6)
    source.admin.update_consumer_offset(second.address, "billing", "orders", 0, 3)
    assert lag_services.collect("test", now_ms=int(time.time() * 1000)) is not None
    second.stop()
    yield target, second
    close_admins()
    for process in (first, second, third):
        process.stop()
    lag_services.collectors.clear()


def cloned(actor: User, *accepted: str) -> Plan:
    params: dict[str, Any] = {"target": "clone", "clone_of": "test/billing"}
    if accepted:
        params["accept_without"] = list(accepted)
    return services.create_plan("offset_change", "elsewhere", "billing", params, actor)


def after(plan: Plan) -> list[tuple[int | None, str]]:
    return [(row["after"], str(row["note"])) for row in plan.diff]


def test_it_is_blocked_until_the_silent_broker_is_accepted(
    halved: tuple[LiveCluster, BrokerProcess], alice: User, client: Client
) -> None:
    target, second = halved
    plan = cloned(alice)
    assert after(plan) == [(None, "unknown: broker-b of test does not answer")]
    assert str(plan.blocked).startswith("test/broker-b has not answered since ")
    assert str(plan.blocked).endswith(
        ", so since when orders is unread there is unknown. "
        "Wait until it answers, or accept that the change leaves it out."
    )
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(plan.id, alice, plan.confirm_text)
    client.force_login(alice)
    page = client.get(f"/c/elsewhere/plans/{plan.id}").content.decode()
    assert f'value="{SILENT}"' in page
    accepted = client.post(f"/c/elsewhere/plans/{plan.id}/again", {"accept_without": SILENT})
    plan = Plan.objects.get(pk=accepted["Location"].rpartition("/")[2])
    assert (after(plan), str(plan.blocked)) == ([(6, "")], "")
    warned = {str(each["title"]): str(each["text"]) for each in plan.warnings}
    assert "Messages that are unread on it alone may be skipped here." in warned[f"{SILENT} is left out"]
    job = services.apply_plan(plan.id, alice, plan.confirm_text)
    runner.run(job.id, "worker-1")
    ended = selectors.job(job.id)
    assert (ended.state, ended.result["coverage"]["accepted_by"]) == ("SUCCEEDED", "alice")
    assert target.committed("billing", "orders") == {0: 6}


def test_a_broker_that_answers_again_counts_though_it_was_accepted(
    halved: tuple[LiveCluster, BrokerProcess], alice: User
) -> None:
    target, second = halved
    second.start()
    wait_for(lambda: after(cloned(alice, SILENT)) == [(3, "")], "broker-b")
    assert not cloned(alice, SILENT).blocked
    with pytest.raises(errors.PlanRejected, match="There is no broker test/broker-q. Brokers: broker-z, "):
        cloned(alice, "test/broker-q")
