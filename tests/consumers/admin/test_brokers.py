"""MQAdmin's calls about a broker and about single name servers, against a real brokerd."""

from __future__ import annotations

import pytest

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError
from consumers import BrokerUnavailable, Message, Producer
from consumers.admin.mqadmin import MQAdmin
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port


@pytest.fixture
async def admin(brokerd: BrokerProcess):
    async with MQAdmin(brokerd.namesrv) as made:
        await made.create_topic(brokerd.address, TopicConfig("orders", 2, 2, 6))
        yield made


async def perms(admin: MQAdmin, namesrv: str, *topics: str) -> list[int]:
    routes = await admin.topic_routes_of(namesrv, topics)
    found = [routes[topic] for topic in topics]
    assert all(isinstance(route, TopicRouteData) for route in found)
    return [route.queue_datas[0].perm for route in found if isinstance(route, TopicRouteData)]


async def test_it_takes_the_write_permission_away_and_gives_it_back(brokerd: BrokerProcess, admin: MQAdmin):
    assert await admin.wipe_write_perm(brokerd.namesrv, "broker-a") > 5
    assert await perms(admin, brokerd.namesrv, "orders", "broker-a") == [4, 5]
    assert await admin.add_write_perm(brokerd.namesrv, "broker-a") > 5
    assert await perms(admin, brokerd.namesrv, "orders", "broker-a") == [6, 6]
    assert await admin.wipe_write_perm(brokerd.namesrv, "no-such-broker") == 0


async def test_it_asks_the_name_server_that_is_named(brokerd: BrokerProcess, admin: MQAdmin):
    nobody = f"127.0.0.1:{free_port()}"
    known = (await admin.cluster_info_of(brokerd.namesrv)).broker_addr_table
    assert known["broker-a"].broker_addrs == {0: brokerd.address}
    assert "orders" in await admin.topic_list_of(brokerd.namesrv)
    assert (await admin.namesrv_config(brokerd.namesrv))["listenPort"] == str(brokerd.namesrv_port)
    for call in (admin.cluster_info_of, admin.topic_list_of, admin.namesrv_config):
        with pytest.raises(BrokerUnavailable):
            await call(nobody)


async def test_it_keeps_the_error_of_each_topic(brokerd: BrokerProcess, admin: MQAdmin):
    routes = await admin.topic_routes_of(brokerd.namesrv, ["orders", "absent"])
    assert isinstance(routes["orders"], TopicRouteData)
    assert isinstance(routes["absent"], MQBrokerError)
    assert routes["absent"].code == 17


async def test_it_lists_producers_and_slaves(brokerd: BrokerProcess, admin: MQAdmin):
    async with Producer("shop", brokerd.namesrv) as producer:
        await producer.send(Message("orders", b"x", {}))
        (found,) = (await admin.producers(brokerd.address))["shop"]
        assert found.client_id == producer.client.client_id
    status = await admin.ha_status(brokerd.address)
    assert (status.master, status.ha_connection_info) == (True, [])
