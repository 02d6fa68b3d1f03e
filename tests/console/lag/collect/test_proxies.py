"""Members behind proxies: found by the heartbeats that proxies share, shown as such, never asked through a broker.

The bodies have the fields of HeartbeatSyncerData.java of 5.3.3, `channelData` those of RemoteChannelSerializer.java.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.brokers.mqadmin import PROXY_TOPIC, Message
from console.lag.collect import proxies, sweep
from console.lag.models import ClientRow, CollectorLease, GroupMembers, GroupRow, TopicRow
from tests.console.lag.conftest import CollectedCluster

DATABASES = pytest.mark.django_db(databases=["default", "metrics"])


def channel_data(kind: str, extend_attribute: str | None = None) -> dict[str, str]:
    found = {
        "remoteProxyIp": "10.0.0.5",
        "remoteAddress": "10.9.8.7:51234",
        "localAddress": "10.0.0.5:8081",
        "type": kind,
    }
    return found if extend_attribute is None else {**found, "extendAttribute": extend_attribute}


def heartbeat(client_id: str, kind: str = "REGISTER", **changes: Any) -> bytes:
    subscription = {"topic": "orders", "subString": "paid", "expressionType": "TAG"}
    channel = channel_data("REMOTING", json.dumps([subscription]))
    data: dict[str, Any] = {
        "channelData": json.dumps(channel),
        "clientId": client_id,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "group": "billing",
        "heartbeatType": kind,
        "language": "JAVA",
        "lastUpdateTimestamp": 1764288000000,
        "localProxyId": "10.0.0.5%8080%8081",
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [
            {
                "classFilterMode": False,
                "codeSet": [],
                "expressionType": "TAG",
                "subString": "paid",
                "subVersion": 1764288000000,
                "tagsSet": ["paid"],
                "topic": "orders",
            }
        ],
        "version": 479,
    }
    return json.dumps(data | changes).encode()


MEMBER = proxies.ProxyMember(
    proxy="10.0.0.5",
    address="10.9.8.7:51234",
    language="JAVA",
    version="5.3.3",
    model="CLUSTERING",
    consume_type="CONSUME_PASSIVELY",
    subscription={"orders": {"expression": "paid", "type": "TAG"}},
)


def test_the_newest_heartbeats_are_the_members() -> None:
    found = proxies.members_of(
        [
            heartbeat("a"),
            heartbeat("b"),
            heartbeat("b", "UNREGISTER", subscriptionDataSet=None),
            heartbeat("a"),
        ]
    )
    assert found == {("billing", "a"): MEMBER}


def test_a_channel_without_an_address_leaves_the_proxys_name() -> None:
    (member,) = proxies.members_of([heartbeat("a", channelData="")]).values()
    assert (member.proxy, member.address) == ("10.0.0.5", "")


def grpc_heartbeat(*attribute: str) -> bytes:
    """As a proxy of 5.3.3 wrote it for rocketmq-client-java 5.0.8; its settings come with the second heartbeat."""
    return heartbeat("a", channelData=json.dumps(channel_data("GRPC_V2", *attribute)))


def test_a_grpc_client_has_its_own_version_and_pops() -> None:
    """What the proxy writes beside them is its own version, and a consume type of remoting."""
    settings = {
        "clientType": "PUSH_CONSUMER",
        "subscription": {"group": {"name": "billing"}, "fifo": False, "longPollingTimeout": "20s"},
        "userAgent": {"language": "JAVA", "version": "5.0.8", "platform": "Linux", "hostname": "vm"},
    }
    (early,) = proxies.members_of([grpc_heartbeat()]).values()
    assert early == MEMBER._replace(version="", consume_type="CONSUME_POP")
    (member,) = proxies.members_of([grpc_heartbeat(), grpc_heartbeat(json.dumps(settings))]).values()
    assert member == MEMBER._replace(version="5.0.8", consume_type="CONSUME_POP")


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff\xfe", heartbeat("a", version="new"), b"[1]"])
def test_other_messages_are_no_members(body: bytes) -> None:
    assert proxies.members_of([body]) == {}


def run_sweep(cluster: CollectedCluster) -> int | None:
    CollectorLease.objects.update(sweep_until_ms=0)
    return sweep.sweep_clients("local", now_ms=cluster.now_ms)


@DATABASES
def test_a_group_behind_a_proxy_is_not_offline(collected: CollectedCluster, client: Client) -> None:
    collected.make_topic("orders", 1)
    collected.make_group("billing")
    collected.send("orders", 3)
    collected.commit("billing", "orders", 1)
    collected.collect()
    collected.now_ms = int(time.time() * 1000)
    assert run_sweep(collected) == 0
    collected.collect()
    assert GroupRow.objects.get(group="billing").status == "OFFLINE"

    collected.make_topic(PROXY_TOPIC, 1)
    collected.make_group(f"CID_{PROXY_TOPIC}")
    for body in (
        heartbeat("a"),
        heartbeat("b"),
        heartbeat("b", "UNREGISTER"),
        heartbeat("c", group="unknown"),
    ):
        collected.admin.send(collected.broker.address, Message(PROXY_TOPIC, body, {}), queue_id=0)
    for _ in range(7):  # until the topic's table is read again
        collected.collect()
    collected.now_ms = int(time.time() * 1000)
    assert run_sweep(collected) == 1
    row = ClientRow.objects.get()
    assert (row.group, row.client_id, row.proxy, row.address) == (
        "billing",
        "a",
        "10.0.0.5",
        "10.9.8.7:51234",
    )
    assert (row.language, row.version, row.queues) == ("JAVA", "5.3.3", None)
    assert row.reason == (
        "connected through the proxy 10.0.0.5: proxies do not report which queues their clients read"
    )
    members = GroupMembers.objects.get(group="billing")
    assert (members.clients, members.model, members.topics) == (1, "CLUSTERING", ["orders"])
    collected.collect(200_000)
    assert GroupRow.objects.get(group="billing").status != "OFFLINE"

    assert TopicRow.objects.get(topic=PROXY_TOPIC).kind == "SYSTEM"
    assert [*GroupRow.objects.filter(is_system=False).values_list("group", flat=True)] == ["billing"]
    client.force_login(User.objects.create_user("alice", is_superuser=True))
    for page in ("clients", "groups/billing?tab=clients"):
        assert "through proxy 10.0.0.5" in client.get(f"/c/local/{page}").content.decode(), page

    collected.now_ms = int(time.time() * 1000) + proxies.FRESH_MS + 1_000
    assert run_sweep(collected) == 0, "its proxy has stopped"
