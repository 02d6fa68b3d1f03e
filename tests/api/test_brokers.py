"""Brokers, their configuration side by side, name servers and route differences over REST."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services
from console.broker.models import BrokerSurvey, NameServerRow, RouteDifference
from console.cluster.models import Cluster
from console.lag.models import BrokerRow
from console.text import Text
from tests.api.conftest import AT, problem

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
LOCAL = "/api/v1/clusters/local"
READS = [
    "brokers",
    "brokers/broker-a",
    "brokers/broker-a/runtime",
    "brokers/broker-a/config",
    "config-differences",
    "name-servers",
    "route-differences",
]


@pytest.fixture
def viewer(rows: Cluster, carol: User, client_of: Clients) -> APIClient:
    BrokerRow.objects.filter(broker_name="broker-a").update(
        in_rate=14.2, disk_ratio=0.61, runtime={"putTps": "14.2 "}, version="V5_3_3"
    )
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-b", addr="h:2", since_ms=AT, reason=Text("connection refused")
    )
    for name, flush in (("broker-a", "SYNC_FLUSH"), ("broker-b", "ASYNC_FLUSH"), ("broker-c", "ASYNC_FLUSH")):
        BrokerSurvey.objects.create(
            cluster="local",
            broker_name=name,
            addr="h:1",
            config={"brokerName": name, "flushDiskType": flush},
            config_at_ms=AT,
            filling="FILLING",
            full_in_ms=3_600_000,
            full_words=Text("so"),
            producers=[
                {
                    "group": "shop",
                    "client_id": "c",
                    "address": "h:9",
                    "language": "JAVA",
                    "version": "5.3.3",
                    "seen_ms": AT,
                }
            ],
            read_at_ms=AT,
        )
    NameServerRow.objects.create(
        cluster="local",
        addr="ns:9876",
        answered=True,
        brokers={"broker-a": {"0": "h:1"}},
        unwritable=["broker-a"],
    )
    RouteDifference.objects.create(
        cluster="local", topic="orders", views={"ns:9876": "not known here"}, since_ms=AT, read_at_ms=AT
    )
    return client_of(carol, "VIEW")


@pytest.mark.parametrize("path", READS)
def test_it_reads_and_refuses(viewer: APIClient, charlie: User, client_of: Clients, path: str) -> None:
    assert viewer.get(f"{LOCAL}/{path}").status_code == 200
    problem(viewer.get(f"/api/v1/clusters/secret/{path}"), 404, "not_found")
    problem(client_of(charlie, "VIEW").get(f"{LOCAL}/{path}"), 404, "not_found")
    problem(viewer.post(f"{LOCAL}/{path}", {}, format="json"), 405, "method_not_allowed")


def test_it_lists_brokers(viewer: APIClient) -> None:
    body = viewer.get(f"{LOCAL}/brokers").json()
    assert (body["count"], body["pages"]) == (2, 1)
    a, b = body["results"]
    assert (a["broker_name"], a["in_rate"], a["full_in_ms"], a["drained_at"]) == (
        "broker-a", 14.2, 3_600_000, ["ns:9876"],
    )  # fmt: skip
    assert (a["put_p99_ms"], a["put_p99_reason"]) == (None, "this release does not report it")
    assert (b["answered"], b["in_rate"], b["since_ms"], b["reason"], b["page_cache"]) == (
        False, None, AT, "connection refused", "",
    )  # fmt: skip
    assert viewer.get(f"{LOCAL}/brokers?state=silent&ordering=-in_rate").json()["count"] == 1
    problem(viewer.get(f"{LOCAL}/brokers?ordering=colour"), 400, "invalid")


def test_it_tells_what_a_broker_holds_back(viewer: APIClient) -> None:
    before = viewer.get(f"{LOCAL}/brokers/broker-a").json()["held_back"]
    assert (before["delayed"], before["half_reason"]) == (None, "the first survey is not done yet")
    BrokerSurvey.objects.filter(broker_name="broker-a").update(
        delayed=[{"level": 2, "waiting": 5, "newest_ms": AT}],
        delayed_reason="",
        half=6,
        timed={"orders": 4, "rmq_sys_x": 3},
        held_back_at_ms=AT,
        config={"messageDelayLevel": "1s 5s"},
    )
    assert viewer.get(f"{LOCAL}/brokers/broker-a").json()["held_back"] == {
        "read_at_ms": AT,
        "delayed": 5,
        "delayed_reason": "",
        "levels": [{"level": 2, "delay_ms": 5_000, "waiting": 5, "late_ms": None}],
        "timed": 4,
        "timed_reason": "",
        "timed_topics": {"orders": 4},
        "half": 6,
        "half_reason": "",
    }


def test_it_tells_one_broker(viewer: APIClient) -> None:
    body = viewer.get(f"{LOCAL}/brokers/broker-a").json()
    assert (body["producers"][0]["group"], body["replicas"], body["surveyed_at_ms"]) == ("shop", None, AT)
    runtime = viewer.get(f"{LOCAL}/brokers/broker-a/runtime").json()
    writing = {one["key"]: one for one in runtime["groups"][0]["figures"]}
    assert writing["putTps"]["text"] == "14.2 /s"
    assert (writing["putLatency99"]["text"], writing["putLatency99"]["says"]) == (
        "",
        "not reported by this broker",
    )
    config = viewer.get(f"{LOCAL}/brokers/broker-a/config").json()
    assert config == {
        "config": {"brokerName": "broker-a", "flushDiskType": "SYNC_FLUSH"}, "read_at_ms": AT, "reason": "",
    }  # fmt: skip
    problem(viewer.get(f"{LOCAL}/brokers/broker-z"), 404, "not_found")


def test_it_tells_what_is_not_alike(viewer: APIClient) -> None:
    (found,) = viewer.get(f"{LOCAL}/config-differences").json()["differences"]
    assert (found["key"], found["odd"], found["values"]["broker-a"]) == (
        "flushDiskType", ["broker-a"], "SYNC_FLUSH",
    )  # fmt: skip
    (server,) = viewer.get(f"{LOCAL}/name-servers").json()["results"]
    assert (server["answered"], server["brokers"], server["topic_count"]) == (
        True, {"broker-a": {"0": "h:1"}}, None,
    )  # fmt: skip
    (route,) = viewer.get(f"{LOCAL}/route-differences?query=ord").json()["results"]
    assert route["views"] == {"ns:9876": "not known here"}


def test_it_refuses_plans_without_the_right(viewer: APIClient) -> None:
    wish = {"kind": "broker_drain", "subject": "broker-a", "params": {"direction": "drain"}}
    problem(viewer.post(f"{LOCAL}/config-plans", wish, format="json"), 403, "not_permitted")


def test_it_checks_parameters_of_plans(rows: Cluster, admin: User, client_of: Clients) -> None:
    client = client_of(admin)
    for wish, field in (
        ({"kind": "broker_drain", "subject": "broker-a", "params": {"direction": "up"}}, "direction"),
        ({"kind": "broker_config_change", "subject": "broker-a", "params": {"value": "1"}}, "key"),
    ):
        answer = client.post(f"{LOCAL}/config-plans", wish, format="json")
        assert answer.status_code == 400 and field in answer.content.decode()
    wish = {"kind": "broker_drain", "subject": "broker-a", "params": {"direction": "drain"}}
    assert (
        client.post(f"{LOCAL}/config-plans", wish, format="json").status_code == 503
    )  # nobody listens there


def test_who_may_see_some_names_reads_their_share_of_a_broker(viewer: APIClient, client_of: Clients) -> None:
    person = User.objects.create_user("shopkeeper")
    services.grant(role="viewer", user=person, cluster_pattern="local", name_pattern="shop*")
    client = client_of(person, "VIEW")
    whole = viewer.get(f"{LOCAL}/brokers/broker-a").json()
    assert (whole["in_rate"], whole["own"]) == (14.2, None)
    mine = client.get(f"{LOCAL}/brokers/broker-a").json()
    assert (mine["in_rate"], mine["out_rate"], mine["queues"], mine["disk_ratio"]) == (None, None, None, 0.61)
    assert (mine["own"]["topics"], mine["own"]["lag"]) == (0, None)
    assert [one["group"] for one in mine["producers"]] == ["shop"]
    BrokerSurvey.objects.update(producers=[{"group": "other", "client_id": "c"}])
    assert client.get(f"{LOCAL}/brokers/broker-a").json()["producers"] == []
    assert [one["in_rate"] for one in client.get(f"{LOCAL}/brokers").json()["results"]] == [None, None]
    for path in ("brokers/broker-a/config", "brokers/broker-a/runtime", "name-servers"):
        problem(client.get(f"{LOCAL}/{path}"), 403, "not_permitted")
