from __future__ import annotations

import pytest

from brokerd.remoting.body.route import BrokerData, QueueData, TopicRouteData
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.remoting_client import RemotingClient
from consumers.client.route import (
    NameServers,
    broker_addrs,
    choose_addr,
    publish_queues,
    split_addrs,
    subscribe_queues,
)
from consumers.config import InvalidClientConfig
from consumers.errors import BrokerUnavailable
from tests.consumers.fake_broker import FakeBroker

ROUTE = TopicRouteData(
    broker_datas=[
        BrokerData(cluster="c", broker_name="b", broker_addrs={0: "10.0.0.2:10911", 1: "10.0.0.3:10911"}),
        BrokerData(cluster="c", broker_name="a", broker_addrs={0: "10.0.0.1:10911"}),
        BrokerData(cluster="c", broker_name="slave-only", broker_addrs={1: "10.0.0.4:10911"}),
    ],
    queue_datas=[
        QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=1, perm=6, topic_sys_flag=0),
        QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1, perm=4, topic_sys_flag=0),
        QueueData(broker_name="slave-only", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0),
    ],
)


def test_it_writes_where_the_master_is_known_and_writable():
    assert publish_queues("T", ROUTE) == [MessageQueue("T", "b", 0)]


def test_it_reads_every_readable_queue_in_one_order():
    assert subscribe_queues("T", ROUTE) == [
        MessageQueue("T", "a", 0),
        MessageQueue("T", "b", 0),
        MessageQueue("T", "b", 1),
        MessageQueue("T", "slave-only", 0),
    ]


def test_it_chooses_the_broker_that_was_asked_for_or_the_nearest():
    addrs = {0: "master", 2: "second"}
    assert choose_addr(addrs) == "master"
    assert choose_addr(addrs, 2) == "second"
    assert choose_addr(addrs, 1) == "second"
    assert choose_addr(addrs, 7) == "master"
    assert choose_addr({1: "slave"}) == "slave"
    assert choose_addr({1: "slave"}, only_this=True) is None
    assert choose_addr({}) is None


def test_it_collects_addresses_of_all_routes():
    assert broker_addrs([ROUTE])["b"] == {0: "10.0.0.2:10911", 1: "10.0.0.3:10911"}


def test_it_splits_addresses_as_java_does():
    assert split_addrs("a:9876; b:9876;") == ["a:9876", "b:9876"]
    assert split_addrs(["a:9876"]) == ["a:9876"]
    with pytest.raises(InvalidClientConfig):
        split_addrs(" ; ")


async def test_it_moves_on_to_the_next_name_server():
    remoting = RemotingClient()
    async with FakeBroker() as name_server:
        name_server.answers[105] = lambda command: command.response(0, body=ROUTE.to_body())
        name_servers = NameServers(remoting, ["127.0.0.1:1", name_server.addr])
        assert await name_servers.topic_route("T") == ROUTE
        assert await name_servers.topic_route("T") == ROUTE
    with pytest.raises(BrokerUnavailable):
        await name_servers.topic_route("T")
    await remoting.close()
