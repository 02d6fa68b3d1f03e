"""The name server's role over a socket, and a broker that registers at another name server."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path

import pytest

from brokerd.namesrv.kv_config import KvConfigManager
from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.body.route import ClusterInfo, QueueData, TopicRouteData
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import RawClient, running, send_fields

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def wait_for_route(namesrv: RawClient, topic: str, *, there: bool) -> RemotingCommand:
    for _ in range(100):
        answer = await namesrv.ask(ROUTE, {"topic": topic})
        if (answer.code == 0) == there:
            return answer
        await asyncio.sleep(0.03)
    raise AssertionError(f"{topic}: {answer.code} {answer.remark}")


async def test_it_quotes_broker_ids_for_clients_that_read_standard_json(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        address = broker.controller.address.encode()
        for version, fields, expected in (
            (399, {}, b'"brokerAddrs":{0:"' + address),
            (401, {}, b'"brokerAddrs":{"0":"' + address),
            (317, {"acceptStandardJsonOnly": "true"}, b'"brokerAddrs":{"0":"' + address),
        ):
            answer = await namesrv.ask(ROUTE, {"topic": "TBW102", **fields}, version=version)
            assert expected in answer.body


async def test_it_lists_clusters_and_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv, client = await broker.namesrv_client(), await broker.client()
        await create(client, "T")
        info = ClusterInfo.from_body((await namesrv.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
        for code, fields in (
            (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
            (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}),
        ):
            answer = await namesrv.ask(code, fields)
            assert {"T", "TBW102", "broker-a"} <= set(TopicList.from_body(answer.body).topic_list)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert (await namesrv.ask(ROUTE, {"topic": "T"})).code == 17


async def test_it_keeps_key_value_settings_over_a_restart(tmp_path: Path) -> None:
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
    async with running(tmp_path, orderMessageEnable="true") as broker:
        namesrv, client = await broker.namesrv_client(), await broker.client()
        await create(client, "T")
        assert (await namesrv.ask(RequestCode.GET_KV_CONFIG, entry)).code == 22
        await namesrv.ask(RequestCode.PUT_KV_CONFIG, {**entry, "value": "broker-a:1"})
    async with running(tmp_path, orderMessageEnable="true") as broker:
        namesrv = await broker.namesrv_client()
        assert (await namesrv.ask(RequestCode.GET_KV_CONFIG, entry)).ext_fields == {"value": "broker-a:1"}
        listed = await namesrv.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"})
        assert KVTable.from_body(listed.body).table == {"T": "broker-a:1"}
        route = TopicRouteData.from_body((await namesrv.ask(ROUTE, {"topic": "T"})).body)
        assert route.order_topic_conf == "broker-a:1"
        await namesrv.ask(RequestCode.DELETE_KV_CONFIG, entry)
        assert (await namesrv.ask(RequestCode.GET_KV_CONFIG, entry)).code == 22


async def test_it_wipes_write_permission(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        answer = await namesrv.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
        assert int(answer.ext_fields["wipeTopicCount"]) > 5
        route = TopicRouteData.from_body((await namesrv.ask(ROUTE, {"topic": "TBW102"})).body)
        assert route.queue_datas[0].perm == 5


async def test_it_registers_at_another_name_server(tmp_path: Path) -> None:
    async with running(tmp_path / "ns", brokerName="ns") as other:
        namesrv = await other.namesrv_client()
        elsewhere = other.controller.namesrv_address
        async with running(tmp_path / "b", brokerName="b", namesrvAddr=elsewhere) as broker:
            client = await broker.client()
            await wait_for_route(namesrv, "b", there=True)
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Fresh"), b"x")
            answer = await wait_for_route(namesrv, "Fresh", there=True)
            route = TopicRouteData.from_body(answer.body)
            assert route.broker_datas[0].broker_addrs == {0: broker.controller.address}
            assert await broker.controller._topic_route("Fresh") is not None
            assert broker.controller.namesrv_address == elsewhere
        # A graceful stop unregisters at once.
        assert (await namesrv.ask(ROUTE, {"topic": "Fresh"})).code == 17


async def test_it_serves_on_without_a_reachable_name_server(tmp_path: Path) -> None:
    async with running(tmp_path, namesrvAddr="127.0.0.1:1") as broker:
        client = await broker.client()
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")).code == 0


async def test_it_drops_a_broker_whose_connection_closed(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv, remote = await broker.namesrv_client(), await broker.namesrv_client()
        fields = {
            "brokerName": "remote", "brokerAddr": "10.0.0.9:10911", "clusterName": "C", "brokerId": "0",
            "haServerAddr": "10.0.0.9:10912", "bodyCrc32": "0", "compressed": "false",
        }  # fmt: skip
        body = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"topicConfigTable":{"R":{"topicName":"R"}}}}'
        assert (await remote.ask(RequestCode.REGISTER_BROKER, fields, body)).code == 0
        assert (
            await remote.ask(RequestCode.REGISTER_BROKER, {**fields, "bodyCrc32": "7"}, body)
        ).remark == "crc32 not match"
        await wait_for_route(namesrv, "R", there=True)
        await remote.close()
        await wait_for_route(namesrv, "R", there=False)


def registration(*topics: bytes, version: bytes = b'{"counter":7,"stateVersion":0,"timestamp":1}') -> bytes:
    """The compressed form, up to the filter servers."""
    texts = [version, *topics, b"[]"]
    parts = [len(text).to_bytes(4, "big") + text for text in texts]
    return b"".join([parts[0], len(topics).to_bytes(4, "big"), *parts[1:]])


REMOTE = {
    "brokerName": "remote", "brokerAddr": "10.0.0.9:10911", "clusterName": "C", "brokerId": "0",
    "haServerAddr": "10.0.0.9:10912", "bodyCrc32": "0", "compressed": "true",
}  # fmt: skip


async def test_it_takes_compressed_registrations(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        # As 4.9.7 writes topics, and as 5.3.3 does, with attributes; then its queues of static topics.
        whole = registration(b"Old 4 2 6 SINGLE_TAG", b'New 1 3 4 SINGLE_TAG {"a":"b c"}')
        for body, topic in ((whole, "Old"), (whole + bytes(4), "New")):
            answer = await namesrv.ask(RequestCode.REGISTER_BROKER, REMOTE, zlib.compress(body))
            assert answer.code == 0
            assert (await namesrv.ask(ROUTE, {"topic": topic})).code == 0
        route = TopicRouteData.from_body((await namesrv.ask(ROUTE, {"topic": "New"})).body)
        assert route.queue_datas == [QueueData("remote", 1, 3, 4, 0)]
        assert route.broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}
        version = await namesrv.ask(
            RequestCode.QUERY_DATA_VERSION, REMOTE, b'{"counter":7,"stateVersion":0,"timestamp":1}'
        )
        assert version.ext_fields == {"changed": "false"}
        silent = {**REMOTE, "compressed": "false"}  # as brokers of 5.3.3
        body = zlib.compress(registration(b"Silent 4 2 6 SINGLE_TAG"))
        assert (await namesrv.ask(RequestCode.REGISTER_BROKER, silent, body)).code == 0
        assert (await namesrv.ask(ROUTE, {"topic": "Silent"})).code == 0
        heartbeat = await namesrv.ask(RequestCode.BROKER_HEARTBEAT, REMOTE)
        assert heartbeat.code == 0


MAPPING = {
    "topic": "S",
    "scope": "__global__",
    "totalQueues": 3,
    "bname": "remote",
    "epoch": 9,
    "dirty": False,
}


@pytest.mark.parametrize("is_compressed", [True, False])
async def test_it_gives_clients_the_queues_of_static_topics(tmp_path: Path, is_compressed: bool) -> None:
    """As brokers of 5.3.3 register them; clients of 4.9.4 and later get keys that JSON allows."""
    mapping = b'{"bname":"remote","currIdMap":{0:2,1:0},"dirty":false,"epoch":9,"topic":"S","totalQueues":3}'

    def body(counter: int, mapping: bytes | None) -> bytes:
        version = b'{"counter":%d,"stateVersion":0,"timestamp":1}' % counter
        if is_compressed:
            whole = registration(b"S 4 4 6 SINGLE_TAG", b"T 4 4 6 SINGLE_TAG", version=version)
            parts = [] if mapping is None else [mapping]
            texts = [len(part).to_bytes(4, "big") + part for part in parts]
            return zlib.compress(b"".join([whole, len(parts).to_bytes(4, "big"), *texts]))
        topics = b'{"S":{"topicName":"S"},"T":{"topicName":"T"}}'
        mappings = b"{}" if mapping is None else b'{"S":%b}' % mapping
        return b'{"topicConfigSerializeWrapper":{"dataVersion":%b,"topicConfigTable":%b,%b:%b}}' % (
            version, topics, b'"topicQueueMappingInfoMap"', mappings,
        )  # fmt: skip

    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        fields = {**REMOTE, "compressed": str(is_compressed).lower()}
        assert (await namesrv.ask(RequestCode.REGISTER_BROKER, fields, body(7, mapping))).code == 0
        found = await namesrv.ask(ROUTE, {"topic": "S"})
        expected = {**MAPPING, "currIdMap": {"0": 2, "1": 0}}
        assert json.loads(found.body)["topicQueueMappingByBroker"] == {"remote": expected}
        old = await namesrv.ask(ROUTE, {"topic": "S"}, version=300)
        assert b'"currIdMap":{0:2,1:0}' in old.body
        assert TopicRouteData.from_body(old.body) == TopicRouteData.from_body(found.body)
        ordinary = await namesrv.ask(ROUTE, {"topic": "T"})
        assert "topicQueueMappingByBroker" not in json.loads(ordinary.body)
        assert (await namesrv.ask(RequestCode.REGISTER_BROKER, fields, body(8, None))).code == 0
        assert "topicQueueMappingByBroker" not in json.loads(
            (await namesrv.ask(ROUTE, {"topic": "S"})).body
        ), "it is an ordinary topic now"
        assert (await namesrv.ask(RequestCode.REGISTER_BROKER, fields, body(9, mapping))).code == 0
        assert (await namesrv.ask(RequestCode.UNREGISTER_BROKER, REMOTE)).code == 0
        assert (await namesrv.ask(ROUTE, {"topic": "S"})).code == 17


async def test_it_refuses_compressed_registrations_that_are_damaged(tmp_path: Path) -> None:
    whole = registration(b"T 4 2 6 SINGLE_TAG")
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        for cut in range(len(whole)):
            answer = await namesrv.ask(RequestCode.REGISTER_BROKER, REMOTE, zlib.compress(whole[:cut]))
            assert (answer.code, "registration ends at byte" in (answer.remark or "")) == (1, True), cut
        for body, reason in (
            (b"{}", "not compressed by zlib"),
            (zlib.compress(whole)[:-6], "that ends early"),
            (zlib.compress(bytes(33 << 20)), "of more than 33554432 bytes"),
            (zlib.compress(registration(b"T four 2 6 SINGLE_TAG")), "registration has the topic b'T four"),
        ):
            answer = await namesrv.ask(RequestCode.REGISTER_BROKER, REMOTE, body)
            assert (answer.code, reason in (answer.remark or "")) == (1, True), answer.remark
        assert (await namesrv.ask(ROUTE, {"topic": "T"})).code == 17


def test_it_keeps_key_value_settings_for_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    settings = KvConfigManager(path)
    settings.put("n", "kept", "1")
    settings.put("n", "gone", "1")
    settings.put("other", "only", "1")
    settings.delete("n", "gone")
    settings.delete("other", "only")
    settings.file.write_now()
    again = KvConfigManager(path)
    again.load(path.read_bytes())
    assert (again.namespace("n"), again.namespace("other")) == ({"kept": "1"}, None)
