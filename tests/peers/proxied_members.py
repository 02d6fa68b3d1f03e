"""A proxy of RocketMQ 5.3.3 before an Apache broker: its clients, by gRPC and by remoting, as the console shows them.

Not in the suite, but in `python -m tests.peers.real_clusters`: four JVMs, and a proxy that needs ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from django.test import Client

from console.lag.collect import proxies
from console.lag.models import ClientRow, GroupMembers
from tests.console.lag.running_consumers import RunningConsumers
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support.apache_cluster import ApacheCluster
from tests.support.apache_proxy import ApacheProxy, GrpcMember

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]
WITHIN_S = 120


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[ApacheCluster, ApacheProxy]]:
    """A cluster of one broker, and a proxy beside it; pop needs the broker's timer wheel."""
    with ApacheCluster(tmp_path / "cluster", names=("broker-a",)) as cluster:
        proxy = ApacheProxy(tmp_path / "proxy", cluster)
        proxy.launch()
        try:
            wait_for(proxy.serves, "both ports", WITHIN_S, 0.3)
            yield cluster, proxy
        finally:
            proxy.kill()


def members(world: ApacheWorld) -> dict[str, tuple[str, str, str, object]]:
    """Return (proxy, language, version, queues) of the client of each group, after a round and a sweep."""
    world.collect()
    world.sweep()
    rows = ClientRow.objects.filter(cluster=NAME)
    return {row.group: (row.proxy, row.language, row.version, row.queues) for row in rows}


def test_clients_of_a_proxy_are_shown_as_such_until_they_leave(
    proxy: tuple[ApacheCluster, ApacheProxy],
    console: Callable[[ApacheCluster], ApacheWorld],
    client: Client,
) -> None:
    cluster, theirs = proxy
    world = console(cluster)
    client.force_login(world.actor)
    world.create_topic("orders", queues=4)
    for group in ("popping", "pulling"):
        world.create_group(group)
    grpc = GrpcMember(theirs, "orders", "popping", "paid")
    running = RunningConsumers(theirs.remoting)
    try:
        running.start("pulling", {"orders": "*"})
        wait_for(grpc.has_consumed, "a message", WITHIN_S, 0.3)
        wait_for(lambda: sum(world.committed("pulling", "orders").values()) == 1, "its offset", WITHIN_S, 0.5)
        by_remoting = ("127.0.0.1", "PYTHON", "5.3.3", None)
        both = {"popping": ("127.0.0.1", "JAVA", "5.0.8", None), "pulling": by_remoting}
        eventually(world, both)
        rows = GroupMembers.objects.filter(cluster=NAME, group__in=both)
        assert {row.group: (row.consume_mode, row.topics) for row in rows} == {
            "popping": ("POP", ["orders"]),
            "pulling": ("", ["orders"]),
        }
        for group in both:
            page = client.get(f"/c/{NAME}/groups/{group}?tab=clients").content.decode()
            assert "through proxy 127.0.0.1" in page and "proxies do not report which queues" in page

        grpc.close()
        eventually(world, {"pulling": by_remoting})
    finally:
        running.close()
        grpc.kill()
    theirs.kill()
    # Its last heartbeats are not trusted for longer.
    world.now_ms += proxies.FRESH_MS
    eventually(world, {})


def eventually(world: ApacheWorld, expected: Mapping[str, object]) -> None:
    """Wait for these members; a round each five seconds, as the world's clock has it."""
    found: list[object] = []

    def are_there() -> bool:
        found[:] = [members(world)]
        return found == [expected]

    try:
        wait_for(are_there, "members", WITHIN_S, 5)
    except AssertionError as error:
        raise AssertionError(found) from error
