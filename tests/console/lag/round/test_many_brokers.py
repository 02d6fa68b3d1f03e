"""Eight brokers of which one hangs: the round goes on, and every number says what it does not know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.lag import services
from console.lag.models import BrokerRow, GroupRow, Round, TopicRow
from tests.support.people import signed_in
from tests.support.simulated_cluster import SimulatedCluster

pytestmark = pytest.mark.one_database("a hanging broker; rows are written as in lag/test_services")
GROUPS = 48
HUNG = 3
PARTIAL = {f"orders-{number:05d}-service" for number in range(GROUPS) if number % 8 in (HUNG, HUNG - 1)}


class Rounds:
    """Rounds of cluster "local" on a clock of their own."""

    def __init__(self) -> None:
        self.now_ms = services.system_now_ms() // 5_000 * 5_000

    def run(self) -> Round:
        self.now_ms += 5_000
        done = services.collect("local", now_ms=self.now_ms)
        assert done is not None
        return done


@pytest.fixture
def simulated(redis_url: str, local_history: None, transactional_metrics: None) -> Iterator[SimulatedCluster]:
    with SimulatedCluster(brokers=8, topics=GROUPS, groups=GROUPS) as cluster:
        Cluster.objects.create(name="local", namesrv_addrs=cluster.namesrv)
        yield cluster
        services.collectors.clear()
        close_admins()


def test_it_reads_every_broker_and_sees_each_round_differ(simulated: SimulatedCluster) -> None:
    rounds = Rounds()
    first = rounds.run()
    assert (first.brokers_answered, first.brokers_total) == (8, 8)
    assert GroupRow.objects.count() == GROUPS
    assert TopicRow.objects.count() == GROUPS
    before = GroupRow.objects.get(group="orders-00003-service").lag
    for _ in range(4):
        rounds.run()
    behind = GroupRow.objects.get(group="orders-00003-service")
    assert behind.lag is not None and before is not None and behind.lag > before
    assert not GroupRow.objects.filter(partial=True).exists()


def test_it_stays_honest_while_one_broker_hangs(simulated: SimulatedCluster) -> None:
    rounds = Rounds()
    rounds.run()
    simulated.silence(HUNG)
    told = [rounds.run() for _ in range(3)]
    assert {one.brokers_answered for one in told} == {7}
    silent = BrokerRow.objects.get(answered=False)
    assert silent.broker_name == f"broker-{HUNG}"
    assert silent.since_ms == told[0].started_at_ms  # asked again in every round, and silent since the first
    assert silent.reason
    unknown = GroupRow.objects.filter(partial=True)
    assert {row.group for row in unknown} == PARTIAL
    assert {row.lag_lower_bound for row in unknown} == {True}
    assert {row.unknown_since_ms for row in unknown} == {silent.since_ms}
    assert all(f"broker-{HUNG} has not answered since" in row.reason for row in unknown)
    assert not GroupRow.objects.exclude(group__in=PARTIAL).filter(lag_lower_bound=True).exists()

    page = signed_in().get("/c/local/groups?status=PARTIAL").content.decode()
    assert f"broker-{HUNG} has not answered since" in page
    assert page.count("≥") >= len(PARTIAL)

    simulated.speak(HUNG)
    for _ in range(20):
        if rounds.run().brokers_answered == 8:
            break
    assert not GroupRow.objects.filter(partial=True).exists()
    assert not BrokerRow.objects.filter(answered=False).exists()


def test_pages_for_most_groups_are_not_told_in_a_large_cluster(
    simulated: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, bool]] = []
    monkeypatch.setattr(services, "GROUPS_PUBLISHED_MAX", 10)
    monkeypatch.setattr(
        services.live,
        "publish",
        lambda subject, rows, *, full=False, now_ms, life_s=0: told.append((subject, full)),
    )
    rounds = Rounds()
    rounds.run()
    assert not [subject for subject, _ in told if "/group/" in subject]
    services.watch_group("local", "orders-00003-service", now_ms=rounds.now_ms)
    told.clear()
    rounds.run()
    assert [one for one in told if "/group/" in one[0]] == [("c/local/group/orders-00003-service", True)]
    told.clear()
    rounds.run()
    assert [one for one in told if "/group/" in one[0]] == [("c/local/group/orders-00003-service", False)]
