from __future__ import annotations

from brokerd.namesrv.route_info import BrokerIdentity, RouteInfoManager
from brokerd.remoting.body.topic import DataVersion, TopicConfig
from tests.brokerd.fakes import MemoryChannel


def register(
    routes: RouteInfoManager, name: str, addr: str, *topics: str, broker_id: int = 0, now_ms: int = 0,
    channel: MemoryChannel | None = None, cluster: str = "C", version: int = 1, acts_as_master: bool = False,
) -> tuple[str, str]:  # fmt: skip
    return routes.register_broker(
        BrokerIdentity(cluster, name, addr, broker_id, addr + "0"),
        [TopicConfig(topic_name=t, read_queue_nums=4, write_queue_nums=2, perm=6) for t in topics],
        DataVersion(counter=version),
        channel or MemoryChannel(),
        now_ms,
        acts_as_master=acts_as_master,
    )


def test_it_joins_the_queues_of_all_brokers() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", "T")
    register(routes, "b", "h:2", "T", "U")
    route = routes.route("T")
    assert route is not None
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums) for q in route.queue_datas] == [
        ("a", 4, 2),
        ("b", 4, 2),
    ]
    assert [b.broker_addrs for b in route.broker_datas] == [{0: "h:1"}, {0: "h:2"}]
    assert routes.route("V") is None
    assert sorted(routes.topics()) == ["T", "U"]
    assert routes.cluster_info().cluster_addr_table == {"C": ["a", "b"]}


def test_it_knows_slaves_and_tells_them_their_master() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", "T")
    assert register(routes, "a", "h:9", "Other", broker_id=1) == ("h:1", "h:10")
    assert routes.brokers["a"].broker_addrs == {0: "h:1", 1: "h:9"}
    assert routes.route("Other") is None
    routes.unregister_broker("a", "h:1", "test")
    assert routes.brokers["a"].broker_addrs == {1: "h:9"}
    assert routes.route("T") is not None
    routes.unregister_broker("a", "h:9", "test")
    assert routes.route("T") is None
    assert routes.brokers == {}


def test_a_slave_of_version_5_brings_topics_without_a_master() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:9", "T", broker_id=1)
    assert routes.route("T") is None, "brokers of version 4 leave that to their master"
    register(routes, "a", "h:9", "T", broker_id=1, acts_as_master=True)
    assert routes.route("T") is not None
    register(routes, "a", "h:1", "Of the master")
    register(routes, "a", "h:9", "Later", broker_id=1, acts_as_master=True)
    assert routes.route("Later") is None


def test_it_forgets_an_address_that_registers_under_another_id() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", broker_id=1)
    register(routes, "a", "h:1", broker_id=0)
    assert routes.brokers["a"].broker_addrs == {0: "h:1"}


def test_it_drops_silent_and_disconnected_brokers() -> None:
    routes = RouteInfoManager()
    channel = MemoryChannel()
    register(routes, "a", "h:1", "T", now_ms=1_000)
    register(routes, "b", "h:2", "T", now_ms=1_000, channel=channel)
    routes.keep_alive("h:2", 2_000)
    routes.drop_expired(121_000)
    assert sorted(routes.brokers) == ["a", "b"]
    routes.drop_expired(121_001)
    assert sorted(routes.brokers) == ["b"]
    routes.channel_closed(channel)
    assert (routes.brokers, routes.queues_of) == ({}, {})


def test_it_never_drops_the_broker_of_its_own_process() -> None:
    routes = RouteInfoManager()
    identity = BrokerIdentity("C", "a", "h:1")
    routes.register_broker(identity, [], None, None, 0)
    routes.drop_expired(10**12)
    assert sorted(routes.brokers) == ["a"]


def test_it_wipes_and_adds_the_write_permission() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", "T", "U")
    register(routes, "b", "h:2", "T")
    assert routes.set_write_perm("a", writable=False) == 2
    assert [q.perm for q in routes.queues_of["T"].values()] == [4, 6]
    assert routes.set_write_perm("a", writable=True) == 2
    assert [q.perm for q in routes.queues_of["T"].values()] == [6, 6]


def test_it_gives_no_write_permission_back_for_the_same_registration() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", "T")
    routes.set_write_perm("a", writable=False)
    register(routes, "a", "h:1", "T", "New")
    assert [routes.queues_of[topic]["a"].perm for topic in ("T", "New")] == [4, 6]
    register(routes, "a", "h:1", "T", version=2)
    assert routes.queues_of["T"]["a"].perm == 6


def test_it_deletes_a_topic_on_some_brokers() -> None:
    routes = RouteInfoManager()
    register(routes, "a", "h:1", "T")
    register(routes, "b", "h:2", "T", cluster="D")
    assert routes.topics_of_cluster("D") == ["T"]
    routes.delete_topic("T", {"a"})
    assert list(routes.queues_of["T"]) == ["b"]
    routes.delete_topic("T")
    assert routes.topics() == []
