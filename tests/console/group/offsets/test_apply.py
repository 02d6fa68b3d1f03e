"""What a worker that froze for longer than its lease does to the offsets of a group, against a real brokerd."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User

from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin
from console.group.offsets import apply as offset_apply
from console.operation import selectors, services
from console.operation.job import runner
from console.operation.models import Job
from consumers.client import remoting_client
from tests.console.operation.live_cluster import LiveCluster

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
TEN = [b"m%d" % index for index in range(10)]


@pytest.fixture
def orders(live: LiveCluster) -> LiveCluster:
    """Topic ``orders`` with 2 queues of 10 messages; group ``billing`` offline, committed at 7 and 10."""
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    for queue_id, offset in ((0, 7), (1, 10)):
        live.send("orders", queue_id, TEN)
        live.commit("billing", "orders", queue_id, offset)
    return live


def started_job(live: LiveCluster, actor: User) -> Job:
    plan = services.create_plan("offset_change", live.name, "billing", {"target": "earliest"}, actor)
    return services.apply_plan(plan.id, actor, "billing")


def test_a_worker_frozen_with_requests_in_hand_sends_none_of_them_later(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen within the call itself, until its lease has ended: its successor moves the offsets."""
    job = started_job(orders, alice)
    update, handed_over = MQAdmin.update_consumer_offset, []

    async def frozen(self: MQAdmin, *arguments: Any, **options: Any) -> None:
        handed_over.append(arguments)
        thawed = SimpleNamespace(monotonic=lambda: options["send_until_s"])
        with monkeypatch.context() as clock:
            clock.setattr(remoting_client, "time", thawed)
            await update(self, *arguments, **options)

    with monkeypatch.context() as slow:
        slow.setattr(MQAdmin, "update_consumer_offset", frozen)
        runner.run(job.id, "worker-1")
    assert handed_over
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}
    assert Job.objects.get(pk=job.id).state == "RUNNING"
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}


def test_requests_that_may_have_come_after_the_lease_are_reported(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = started_job(orders, alice)
    gather = BlockingMQAdmin.gather

    def frozen_behind(self: BlockingMQAdmin, *arguments: Any) -> Any:
        answers = gather(self, *arguments)
        if orders.committed("billing", "orders") == {0: 0, 1: 0}:
            Job.objects.filter(pk=job.id).update(lease_owner="worker-2")
            monkeypatch.setattr(offset_apply, "time", SimpleNamespace(monotonic=lambda: float("inf")))
        return answers

    monkeypatch.setattr(BlockingMQAdmin, "gather", frozen_behind)
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.lease_owner) == ("RUNNING", "worker-2")
    event = found.events.last()
    assert event.level == "danger"
    assert "suspended for longer than its lease while it sent requests for 2 queues" in event.text
