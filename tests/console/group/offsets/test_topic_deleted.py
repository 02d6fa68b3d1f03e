"""A topic that is deleted under an offset change: the job ends, names the topic, and moves the others as planned."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from console.group.offsets import apply as offset_apply
from console.group.offsets import plans as offset_plans
from console.operation import selectors, services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a topic of a broker; jobs are written as in operation/job/test_runner"),
]
TEN = [b"m%d" % index for index in range(10)]


@pytest.fixture
def both(live: LiveCluster) -> LiveCluster:
    """Topics ``gone`` and ``kept`` of one queue with 10 messages; group ``billing`` offline, committed at 7."""
    live.create_group("billing")
    for topic in ("gone", "kept"):
        live.create_topic(topic, queues=1)
        live.send(topic, 0, TEN)
        live.commit("billing", topic, 0, 7)
    return live


def delete(live: LiveCluster) -> None:
    live.admin.delete_topic(live.addr, "gone")
    live.admin.delete_topic_in_namesrv("gone")
    wait_for(lambda: not live.has_route("gone"), "the end of its route")


def started_job(live: LiveCluster, actor: User) -> Job:
    plan = services.create_plan("offset_change", live.name, "billing", {"target": "earliest"}, actor)
    return services.apply_plan(plan.id, actor, "billing")


def ended(job: Job) -> Job:
    runner.run(job.id, "worker-1")
    return selectors.job(job.id)


def test_before_the_job_begins_nothing_is_changed(both: LiveCluster, alice: User) -> None:
    job = started_job(both, alice)
    delete(both)
    job = ended(job)
    assert job.state == "FAILED" and "gone" in job.error
    assert both.committed("billing", "kept") == {0: 7}


def test_after_the_group_was_read(both: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    job = started_job(both, alice)

    def late(*arguments: Any) -> None:
        delete(both)
        offset_apply.apply_moves(*arguments)

    monkeypatch.setattr(offset_plans, "apply_moves", late)
    job = ended(job)
    assert job.state == "FAILED" and "gone" in job.error
    assert both.committed("billing", "kept") == {0: 0}


def test_after_the_offsets_were_moved(
    both: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = started_job(both, alice)
    watch = offset_plans.watch_moves

    def late(*arguments: Any) -> None:
        delete(both)
        watch(*arguments)

    monkeypatch.setattr(offset_plans, "watch_moves", late)
    job = ended(job)
    assert job.state == "SUCCEEDED"
    assert [event.text for event in job.events.all() if "deleted since the job began" in event.text] == [
        "gone: deleted since the job began; its brokers still keep offsets of it"
    ]
    assert both.committed("billing", "kept") == {0: 0}
