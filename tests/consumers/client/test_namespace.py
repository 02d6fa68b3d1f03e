"""Namespaces, by what NamespaceUtil.java of 5.3.3 returns, and as brokers see them."""

from __future__ import annotations

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.config import ClientConfig, InvalidClientConfig
from tests.consumers.fake_cluster import FakeCluster, route_to
from tests.consumers.records import record

# namespace, name, and what wrapNamespace returns
WRAPPED = [
    ("emea", "orders", "emea%orders"),
    ("emea", "emea%orders", "emea%orders"),
    ("emea", "apac%orders", "emea%apac%orders"),
    ("emea", "emea", "emea%emea"),
    ("emea", "%RETRY%billing", "%RETRY%emea%billing"),
    ("emea", "%RETRY%emea%billing", "%RETRY%emea%billing"),
    ("emea", "%DLQ%billing", "%DLQ%emea%billing"),
    ("emea", "%DLQ%emea%billing", "%DLQ%emea%billing"),
    ("emea", "TBW102", "TBW102"),
    ("emea", "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
    ("emea", "rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
    ("emea", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ("emea", "TOOLS_CONSUMER", "emea%TOOLS_CONSUMER"),
    ("emea", "", ""),
    ("", "orders", "orders"),
]
# namespace, name, and what withoutNamespace returns
UNWRAPPED = [
    ("emea", "emea%orders", "orders"),
    ("emea", "orders", "orders"),
    ("emea", "apac%orders", "apac%orders"),
    ("emea", "emea2%orders", "emea2%orders"),
    ("emea", "%RETRY%emea%billing", "%RETRY%billing"),
    ("emea", "%RETRY%apac%billing", "%RETRY%apac%billing"),
    ("emea", "%DLQ%emea%billing", "%DLQ%billing"),
    ("emea", "emea%apac%orders", "apac%orders"),
    ("emea", "rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
    ("emea", "", ""),
    ("", "emea%orders", "emea%orders"),
]


@pytest.mark.parametrize(("name", "resource", "wrapped"), WRAPPED)
def test_it_wraps_as_java_does(name: str, resource: str, wrapped: str) -> None:
    assert Namespace(name).wrap(resource) == wrapped


@pytest.mark.parametrize(("name", "resource", "bare"), UNWRAPPED)
def test_it_unwraps_as_java_does(name: str, resource: str, bare: str) -> None:
    assert Namespace(name).unwrap(resource) == bare


def test_it_changes_queues_and_records_only_in_their_topic() -> None:
    emea = Namespace("emea")
    queue = MessageQueue("orders", "broker-a", 3)
    assert emea.wrap_queue(queue) == MessageQueue("emea%orders", "broker-a", 3)
    assert emea.unwrap_queue(emea.wrap_queue(queue)) == queue
    assert emea.unwrap_record(record(7, topic="emea%orders")) == record(7, topic="orders")


def test_it_refuses_a_namespace_that_no_name_can_begin_with() -> None:
    with pytest.raises(InvalidClientConfig, match="namespace 'emea%'"):
        ClientConfig(namespace="emea%")


async def test_it_names_the_second_kind_in_every_request(cluster: FakeCluster) -> None:
    cluster.routes["orders"] = route_to(cluster.broker.addr)
    async with ClientInstance(cluster.broker.addr, ClientConfig(namespace_v2="emea")) as client:
        client.register_producer("shop")
        await client.route("orders")
        await client.send_heartbeats()
    received = cluster.broker.received
    assert {command.code for command in received} >= {105, 34}
    assert {(command.ext_fields.get("nsd"), command.ext_fields.get("ns")) for command in received} == {
        ("true", "emea")
    }
