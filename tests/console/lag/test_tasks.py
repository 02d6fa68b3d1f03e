"""What beat starts does its work when Celery runs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console.celery import FIXED_BEAT, app
from console.lag import services, tasks
from console.lag.models import ClientRow, GroupMembers, HistoryFile, Round
from console.rebalance.tasks import rebalance
from tests.console.lag.conftest import CollectedCluster
from tests.console.lag.running_consumers import RunningConsumers

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def eager() -> Iterator[None]:
    """Tasks run where they are called, and tell their errors."""
    app.conf.task_always_eager = app.conf.task_eager_propagates = True
    yield
    app.conf.task_always_eager = app.conf.task_eager_propagates = False


@pytest.mark.usefixtures("eager")
def test_it_collects_and_sweeps_what_is_due(collected: CollectedCluster, running: RunningConsumers) -> None:
    collected.make_topic("orders", 2)
    consumer = running.start("billing", {"orders": "*"})
    tasks.collect_due()
    assert Round.objects.get().number == 1
    assert GroupMembers.objects.get(group="billing").clients == 1
    assert ClientRow.objects.get().client_id == consumer.client.client_id
    tasks.collect_due()
    assert Round.objects.count() == 1  # not due again
    rebalance()
    tasks.compact_history()
    assert HistoryFile.objects.get().state == "live"  # the hour is not over


def test_it_is_started_by_beat() -> None:
    own = [name for name in FIXED_BEAT if name.startswith(("console.lag", "console.rebalance"))]
    assert sorted(own) == [
        "console.lag.tasks.collect_due",
        "console.lag.tasks.compact_history",
        "console.rebalance.tasks.rebalance",
    ]
    assert {task.name for task in (tasks.collect_due, tasks.compact_history, rebalance)} == set(own)


def test_it_makes_the_hour_file_of_an_hour_that_is_over(collected: CollectedCluster) -> None:
    collected.make_topic("orders", 1)
    collected.send("orders", 3)
    collected.now_ms -= 3 * 3_600_000
    for _ in range(3):
        collected.collect()
    assert services.compact_history(now_ms=services.system_now_ms()) == 1
    assert HistoryFile.objects.get(kind="chunk_hour").rows > 0
    # Soon after midnight that hour is of a day that is over, and merged at once.
    assert HistoryFile.objects.filter(kind__in=["chunk_hour", "chunk_day"], state="live").count() == 1
    services.collectors.clear()
    assert (
        collected.collect(step_ms=2 * 3_600_000).number == 4
    )  # the window is made from the chunk and an empty log
