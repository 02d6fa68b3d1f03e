"""Real peers: the official Java client in two releases, against a real brokerd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from xdist.scheduler import LoadScopeScheduling

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.cluster import services as cluster_services
from console.lag import services as lag_services
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support import java_peer
from tests.support.apache_cluster import OLD_RELEASE, WITHOUT_TIMERS, ApacheCluster
from tests.support.apache_server import ApacheServer, Server, is_apache
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer

# Modules that share a cluster: three JVMs take 10 to 20 s of CPU to start. Topics and groups have names of their own,
# settings that change are put back, and each test starts a broker that the one before killed.
SHARING = {
    # The first wants to see all that is held back.
    "apache": ("edges", "admin", "clients", "configuration", "messages", "mode"),
    "apache-without-timers": (
        "brokers",
        "pause",
        "console",
        "coverage",
        "offsets",
        "replay",
        "restore",
        "slaves",
    ),
}
# Each call for a broker's figures counts the 1,209,600 slots of its timer wheel: a quarter of a second of CPU. Pop,
# timed messages and the deletion of a topic need the wheel; "messages" and "offsets" use the same names.
CHANGES = {
    "apache": {"enableLmq": "true", "enableMultiDispatch": "true"},
    "apache-without-timers": WITHOUT_TIMERS,
}
CLUSTERS = {f"test_apache_{module}": cluster for cluster, modules in SHARING.items() for module in modules}
TURN = {f"test_apache_{module}": turn for modules in SHARING.values() for turn, module in enumerate(modules)}


def cluster_of(item: pytest.Item | pytest.Module) -> str:
    return cluster_of_id(item.nodeid)


def module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")


def cluster_of_id(nodeid: str) -> str:
    """The tests that share a cluster, by name: those of a module, or of several."""
    module = module_of(nodeid)
    return CLUSTERS.get(module, module)


class ByCluster(LoadScopeScheduling):
    """Tests that share a cluster go to one worker; `--dist loadgroup` of pytest-xdist 3.8 groups none of pytest 9."""

    def _split_scope(self, nodeid: str) -> str:
        return cluster_of_id(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster:
    return ByCluster(config, log)


def release_of(item: pytest.Item) -> str:
    """The release of the Java client that a test runs with; empty without one."""
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.params.get("release", ""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The Java clients' long file comes first; others follow by the cluster they share, in one worker."""
    items.sort(
        key=lambda item: (
            "class_path" not in getattr(item, "fixturenames", ()),
            cluster_of(item),
            TURN.get(module_of(item.nodeid), 0),
        )
    )
    if is_apache():  # one cluster for each release
        items.sort(key=release_of)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the shared cluster behind the last test that uses it: idle brokers take a fifth of a CPU."""
    if shared and (nextitem is None or cluster_of(nextitem) != cluster_of(item)):
        shared.pop().kill()


shared: list[ApacheCluster] = []


@pytest.fixture(scope="session", params=java_peer.RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def class_path(release: str) -> str:
    return java_peer.build(release)


@pytest.fixture(scope="session")
def apache_server(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheServer]:
    """One for all scenarios of a release: another's messages and offsets would stand under the same names."""
    theirs = ApacheServer(tmp_path_factory.mktemp("apache"))
    yield theirs
    theirs.stop()


@pytest.fixture()
def broker_settings() -> dict[str, str | int]:
    """What a module's brokerd needs; Apache's broker has the settings of all modules at once."""
    return {}


@pytest.fixture()
def broker(
    tmp_path: Path, broker_settings: dict[str, str | int], request: pytest.FixtureRequest
) -> Iterator[Server]:
    if is_apache():
        theirs: ApacheServer = request.getfixturevalue("apache_server")
        yield theirs.start()
        return
    process = BrokerProcess(tmp_path / "store", **broker_settings)
    try:
        yield process.start()
    finally:
        process.stop()


@pytest.fixture()
def peer(class_path: str, broker: Server) -> Iterator[Callable[..., JavaPeer]]:
    """Start a peer: peer("produce", topic="T", count=10)."""
    started: list[JavaPeer] = []

    def start(command: str, **options: object) -> JavaPeer:
        arguments = [command, "--namesrv", broker.namesrv]
        for name, value in options.items():
            arguments += ["--" + name.replace("_", "-"), str(value)]
        started.append(JavaPeer(class_path, arguments))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def apache_cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ApacheCluster:
    """Apache RocketMQ 5.3.3, started once for a module or those that share it.

    Topics and groups of a test have names of their own.
    """
    if not shared:
        changes = CHANGES.get(cluster_of(request.node))
        shared.append(ApacheCluster(tmp_path_factory.mktemp("apache"), changes=changes).__enter__())
    return shared[0]


@pytest.fixture(scope="module")
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Apache RocketMQ 4.9.7 with one broker, started once for a module."""
    with ApacheCluster(tmp_path_factory.mktemp("old"), names=("broker-a",), release=OLD_RELEASE) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def second_try(request: pytest.FixtureRequest) -> None:
    """Give a test that is run again an empty cluster: it would fail for the topics and messages of its first try."""
    if getattr(request.node, "execution_count", 1) > 1:
        for name in {"apache_cluster", "old_cluster"} & set(request.fixturenames):
            cluster: ApacheCluster = request.getfixturevalue(name)
            if not cluster.name_server.is_running:  # the first try was the last test's and ended it
                request.addfinalizer(cluster.kill)
            cluster.start_afresh()


@pytest.fixture
def apache(apache_cluster: ApacheCluster) -> ApacheCluster:
    """The module's cluster with both brokers up, whatever the test before did to them."""
    apache_cluster.start_brokers()
    return apache_cluster


@pytest.fixture
def world(apache: ApacheCluster, console: Callable[[ApacheCluster], ApacheWorld]) -> ApacheWorld:
    """The Apache cluster added to an empty console as a person adds it; no round has run yet."""
    return console(apache)


@pytest.fixture
def old_world(old_cluster: ApacheCluster, console: Callable[[ApacheCluster], ApacheWorld]) -> ApacheWorld:
    """The same with the cluster of 4.9.7."""
    return console(old_cluster)


@pytest.fixture
def console(
    redis_url: str, tmp_path: Path, settings: Settings, request: pytest.FixtureRequest
) -> Iterator[Callable[[ApacheCluster], ApacheWorld]]:
    """An empty console, and how a cluster is added to it."""
    request.node.add_marker(pytest.mark.django_db(databases=["default", "metrics"]))
    request.getfixturevalue("db")
    settings.DATA_DIR = tmp_path / "data"
    settings.HISTORY_URL = f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    access_services.ensure_first_person()
    person = User.objects.create_user("alice", is_superuser=True)

    def added(cluster: ApacheCluster) -> ApacheWorld:
        cluster_services.add_cluster(NAME, cluster.namesrv, person)
        return ApacheWorld(cluster, person)

    yield added
    lag_services.collectors.clear()
    close_admins()
