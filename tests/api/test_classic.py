"""The classic dashboard's addresses: its members, the caller's rights, changes that are plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.lag.models import GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow
from console.message.sending.plans import MessageSendPlan
from console.operation import services
from console.operation.errors import VerificationFailed
from console.operation.job import runner
from console.operation.models import Job, Plan, PlanState
from console.text import Text
from tests.api.conftest import AT
from tests.console.deadletter.letters import group_with_topics
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_queues
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
URL = "/api/classic/local"


@pytest.fixture
def reader(rows: Cluster, admin: User, client_of: Clients) -> APIClient:
    TopicRow.objects.create(cluster="local", topic="TBW102", kind="SYSTEM", read_at_ms=AT)
    GroupRow.objects.create(
        cluster="local", group="TOOLS_CONSUMER", status="OK", is_system=True, read_at_ms=AT
    )
    GroupRow.objects.filter(group="billing").update(clients=1, model="CLUSTERING", out_rate=2.6)
    return client_of(admin, "VIEW")


def data(client: APIClient, address: str) -> object:
    answer = client.get(f"{URL}/{address}")
    body = answer.json()
    assert (answer.status_code, body["status"], body["errMsg"]) == (200, 0, None), body
    return body["data"]


def test_topics_are_marked_or_left_out_as_there(reader: APIClient) -> None:
    def names(query: str) -> object:
        return data(reader, f"topic/list.query?{query}")

    assert names("") == {"topicList": ["%DLQ%billing", "%SYS%TBW102", "clicks", "orders"], "brokerAddr": None}
    assert names("skipSysProcess=true&skipRetryAndDlq=true&_=17") == {
        "topicList": ["TBW102", "clicks", "orders"],
        "brokerAddr": None,
    }


def test_a_topic_has_its_queues(reader: APIClient) -> None:
    assert data(reader, "topic/stats.query?topic=orders") == {
        "offsetTable": {
            "MessageQueue [topic=orders, brokerName=broker-a, queueId=0]": {
                "minOffset": 0,
                "maxOffset": 100,
                "lastUpdateTimestamp": None,
            }
        }
    }


def test_groups_have_their_totals_and_minus_one_where_unknown(reader: APIClient) -> None:
    billing = {
        "group": "billing",
        "count": 1,
        "messageModel": "CLUSTERING",
        "consumeTps": 3,
        "diffTotal": 7,
        "partial": False,
        "updateTime": AT,
    }
    found = data(reader, "consumer/groupList.query")
    assert isinstance(found, list)
    assert [(one["group"], one["diffTotal"]) for one in found] == [
        ("%SYS%TOOLS_CONSUMER", -1),
        ("audit", -1),
        ("billing", 7),
    ]
    assert found[2] == billing == data(reader, "consumer/group.query?consumerGroup=billing")
    assert data(reader, "consumer/group.query?consumerGroup=%25SYS%25TOOLS_CONSUMER")


def test_a_group_has_its_queues_by_topic(reader: APIClient) -> None:
    orders = {
        "topic": "orders",
        "diffTotal": 7,
        "partial": False,
        "queueStatInfoList": [
            {
                "brokerName": "broker-a",
                "queueId": 0,
                "brokerOffset": None,
                "consumerOffset": -1,
                "clientInfo": None,
            }
        ],
    }
    assert data(reader, "consumer/queryTopicByConsumer.query?consumerGroup=billing") == [orders]
    assert data(reader, "topic/queryConsumerByTopic.query?topic=orders") == {"billing": orders}


def test_refusals_are_written_as_there(reader: APIClient, client_of: Clients) -> None:
    missing = reader.get(f"{URL}/topic/stats.query")
    assert (missing.status_code, missing["Content-Type"]) == (400, "application/json")
    assert missing.json() == {"status": -1, "data": None, "errMsg": "topic: Required."}
    unknown = reader.get(f"{URL}/consumer/group.query?consumerGroup=nothing")
    assert (unknown.status_code, unknown.json()["status"]) == (404, -1)
    stranger = APIClient().get(f"{URL}/topic/list.query")
    assert (stranger.status_code, stranger.json()["status"]) == (401, -1)
    body = {"consumerGroupList": ["billing"], "topic": "orders", "resetTime": -1}
    refused = reader.post(f"{URL}/consumer/resetOffset.do", body, format="json")
    assert (refused.status_code, "RESET" in refused.json()["errMsg"]) == (403, True)


def test_a_caller_of_some_names_has_no_other(reader: APIClient, client_of: Clients) -> None:
    erin = User.objects.create_user("erin")
    access_services.grant(role="viewer", user=erin, cluster_pattern="local", name_pattern="orders")
    hers = client_of(erin)
    assert data(hers, "topic/list.query") == {"topicList": ["orders"], "brokerAddr": None}
    assert data(hers, "consumer/groupList.query") == []
    assert data(hers, "topic/queryConsumerByTopic.query?topic=orders") == {}
    assert hers.get(f"{URL}/consumer/group.query?consumerGroup=billing").status_code == 404


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    """Group ``billing`` offline at 2 of 10 messages in queue 0 of ``orders``."""
    cluster = LiveCluster(brokerd).register()
    group_with_topics(cluster)
    cluster.send("orders", 0, [b"{}"] * 10)
    cluster.commit("billing", "orders", 0, 2)
    yield cluster
    close_admins()


def test_a_reset_is_a_plan_that_is_applied(live: LiveCluster, admin: User, client_of: Clients) -> None:
    client = client_of(admin)
    body = {"consumerGroupList": ["billing"], "topic": "orders", "resetTime": -1, "force": True}
    answer = client.post("/api/classic/test/consumer/skipAccumulate.do", body, format="json").json()
    assert answer["status"] == 0
    found = answer["data"]["billing"]
    assert (found["status"], found["errMsg"]) == (True, None)
    assert found["rollbackStatsList"] == [
        {"brokerName": live.broker_name, "queueId": 0, "consumerOffset": 2, "rollbackOffset": 10},
        {"brokerName": live.broker_name, "queueId": 1, "consumerOffset": -1, "rollbackOffset": 0},
    ]
    runner.run(found["job"], "worker-1")
    assert live.committed("billing", "orders")[0] == 10

    Cluster.objects.filter(name="test").update(typed_confirm_messages=1)
    again = client.post(
        "/api/classic/test/consumer/resetOffset.do", {**body, "resetTime": 1_000}, format="json"
    ).json()["data"]["billing"]
    plan = Plan.objects.latest("created_at")
    assert again["status"] is False and plan.id in again["errMsg"] and plan.state == "DRAFT"
    assert plan.params["time_ms"] == 1_000 and live.committed("billing", "orders")[0] == 10


@pytest.fixture
def quick_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes a job up at once, in this thread: its transaction is the test's."""
    apply_plan = services.apply_plan

    def applied(plan_id: str, *arguments: object, **more: object) -> Job:
        job = apply_plan(plan_id, *arguments, **more)  # type: ignore[arg-type]  # handed on
        runner.run(job.id, "worker-1")
        return job

    monkeypatch.setattr(services, "apply_plan", applied)


@pytest.mark.usefixtures("quick_worker")
def test_a_topic_is_created_changed_and_left_as_it_is(
    live: LiveCluster, admin: User, client_of: Clients
) -> None:
    client = client_of(admin)

    def requested(**settings: object) -> dict[str, Any]:
        body = {"clusterNameList": ["DefaultCluster"], "topicName": "invoices", **settings}
        answer = client.post("/api/classic/test/topic/createOrUpdate.do", body, format="json")
        assert (answer.status_code, answer.json()["status"]) == (200, 0), answer.json()
        found: dict[str, Any] = answer.json()["data"]
        return found

    made = requested(writeQueueNums=3, readQueueNums=3, perm=6, order=False, messageType="NORMAL")
    assert made["state"] == "SUCCEEDED" and Job.objects.get(pk=made["job"]).kind == "topic_create"
    assert live.admin.topic_config(live.addr, "invoices").write_queue_nums == 3
    TopicRow.objects.create(cluster="test", topic="invoices", brokers=[live.broker_name], read_at_ms=AT)
    changed = requested(writeQueueNums=5, readQueueNums=5)
    assert Job.objects.get(pk=changed["job"]).kind == "topic_change"
    assert live.admin.topic_config(live.addr, "invoices").write_queue_nums == 5
    same = requested(writeQueueNums=5, readQueueNums=5, perm=6)
    assert same == {"plan": None, "job": None, "state": "SUCCEEDED"}
    assert Plan.objects.latest("created_at").state == PlanState.DISCARDED


@pytest.mark.usefixtures("quick_worker")
def test_a_message_is_sent_and_found_by_key_id_and_time(
    live: LiveCluster, admin: User, client_of: Clients
) -> None:
    client = client_of(admin)
    body = {
        "topic": "orders",
        "key": "4711",
        "tag": "paid",
        "messageBody": '{"sum": 3}',
        "traceEnabled": False,
    }
    sent = client.post("/api/classic/test/topic/sendTopicMessage.do", body, format="json").json()["data"]
    assert (sent["sendStatus"], sent["messageQueue"]["topic"]) == ("SEND_OK", "orders")
    place = (sent["messageQueue"]["queueId"], sent["queueOffset"])

    def found(address: str) -> Any:
        answer = client.get(f"/api/classic/test/message/{address}").json()
        assert answer["status"] == 0, answer
        return answer["data"]

    (by_key,) = found("queryMessageByTopicAndKey.query?topic=orders&key=4711")
    assert (by_key["queueId"], by_key["queueOffset"]) == place
    assert (by_key["messageBody"], by_key["properties"]["TAGS"], by_key["msgId"]) == (
        '{"sum": 3}', "paid", sent["msgId"],
    )  # fmt: skip
    for group, committed in (("billing", place[1] + 1), ("late", place[1])):
        GroupRow.objects.create(cluster="test", group=group, clients=1, read_at_ms=AT)
        queue = QueueRow(group=group, topic="orders", broker_name=live.broker_name, queue_id=place[0])
        sample_queues.save("test", replace(queue, committed_offset=committed, status="OK", read_at_ms=AT))
    by_id = found(f"viewMessage.query?topic=orders&msgId={sent['msgId']}")
    assert by_id["messageView"] == by_key
    assert {one["consumerGroup"]: one["trackType"] for one in by_id["messageTrackList"]} == {
        "billing": "CONSUMED", "late": "NOT_CONSUME_YET",
    }  # fmt: skip
    newest = found(f"queryMessageByTopic.query?topic=orders&begin={by_key['storeTimestamp']}&end={2**52}")
    assert [(one["msgId"], one["messageBody"]) for one in newest] == [(sent["msgId"], None)]
    missing = client.get("/api/classic/test/message/viewMessage.query?topic=orders&msgId=ABC")
    assert (missing.status_code, missing.json()["status"]) == (404, -1)


def test_a_change_that_its_worker_has_not_ended_names_its_job(
    live: LiveCluster, admin: User, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.classic.change.WAIT_S", 0)
    body = {"topic": "orders", "messageBody": "{}"}
    sent = client_of(admin).post("/api/classic/test/topic/sendTopicMessage.do", body, format="json").json()
    assert (sent["status"], sent["data"]["sendStatus"], sent["data"]["msgId"]) == (0, None, None)
    assert Job.objects.get(pk=sent["data"]["job"]).state == "QUEUED"


@pytest.mark.usefixtures("quick_worker")
def test_a_change_that_is_refused_or_fails_is_no_success(
    live: LiveCluster, admin: User, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(admin)

    def refused(address: str, body: dict[str, object]) -> tuple[int, str]:
        answer = client.post(f"/api/classic/test/{address}", body, format="json")
        assert answer.json()["status"] == -1 and answer.json()["data"] is None
        return answer.status_code, answer.json()["errMsg"]

    assert refused("topic/sendTopicMessage.do", {"topic": "nowhere", "messageBody": "{}"}) == (
        422, "There is no topic nowhere.",
    )  # fmt: skip
    status, words = refused("topic/createOrUpdate.do", {"topicName": "orders", "perm": 5})
    assert status == 400 and words.startswith("perm: ")

    def fails(self: object, run: object) -> None:
        raise VerificationFailed(Text("the broker is gone"))

    monkeypatch.setattr(MessageSendPlan, "apply", fails)
    status, words = refused("topic/sendTopicMessage.do", {"topic": "orders", "messageBody": "{}"})
    assert status == 502 and "ended as FAILED" in words and "the broker is gone" in words
