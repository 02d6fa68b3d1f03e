"""Plans of a topic that is deleted before their job runs: the job ends, names the topic, and creates nothing anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from console.brokers.mqadmin import close_admins
from console.lag.models import GroupRow, TopicRow
from console.operation import selectors, services
from console.operation.job import runner
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a topic of a broker; jobs are written as in operation/job/test_runner"),
]


@pytest.fixture
def orders(brokerd: BrokerProcess, db: None, redis_url: str) -> Iterator[LiveCluster]:
    """Topic orders, read by group billing."""
    live = LiveCluster(brokerd).register()
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    live.send("orders", 0, [b"one"])
    live.commit("billing", "orders", 0, 0)
    topics = [{"topic": "orders", "queues": 1, "lag": 1, "lag_lower_bound": False, "time_lag_ms": None}]
    GroupRow.objects.create(
        cluster=live.name, group="billing", status="OK", clients=0, lag=1, topics=topics, read_at_ms=1_000
    )
    TopicRow.objects.create(cluster=live.name, topic="orders", kind="NORMAL")
    yield live
    close_admins()


@pytest.mark.parametrize(
    ("kind", "subject", "params"),
    [
        ("topic_change", "orders", {"write_queues": 4, "read_queues": 4}),
        ("topic_quarantine", "orders", {}),
        ("group_mode", "billing", {"topic": "orders", "mode": "POP"}),
        ("message_send", "orders", {"body": "two"}),
        ("offset_change", "billing", {"target": "latest"}),
    ],
)
def test_the_job_names_the_topic(
    orders: LiveCluster, kind: str, subject: str, params: dict[str, Any]
) -> None:
    person = User.objects.create_user("root", is_superuser=True)
    plan = services.create_plan(kind, orders.name, subject, params, person)
    assert not plan.blocked
    job = services.apply_plan(plan.id, person, plan.confirm_text)
    orders.admin.delete_topic(orders.addr, "orders")
    orders.admin.delete_topic_in_namesrv("orders")
    wait_for(lambda: not orders.has_route("orders"), "the end of its route")
    runner.run(job.id, "worker-1")
    job = selectors.job(job.id)
    assert job.state == "FAILED" and "orders" in job.error
    assert not orders.has_route("orders")
