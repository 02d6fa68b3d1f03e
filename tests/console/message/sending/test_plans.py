"""The plan kind ``message_send`` on a real brokerd: seen before, sent once, found again after a crash."""

from __future__ import annotations

import base64
import io
import json
import shlex
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils.http import urlencode

from console.message import services
from console.message.search.lanes import Hit
from console.message.sending import plans
from console.message.sending.plans import BODY_BYTES_MAX, MessageSendPlan
from console.operation import services as operation_services
from console.operation.errors import NotPermitted, PlanDrifted, PlanRejected
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("sent messages; plans and jobs are written as in tests/console/operation"),
]


@pytest.fixture(autouse=True)
def orders(live: LiveCluster, redis_url: str) -> LiveCluster:
    live.create_topic("orders", queues=2)
    live.send("orders", 1, [b"first"], TAGS="paid", KEYS="k", amount="1")
    return live


def run(plan: Plan, actor: User) -> Job:
    job = operation_services.apply_plan(plan.id, actor)
    runner.run(job.id, "worker-1")
    return Job.objects.get(pk=job.id)


def copy_params(live: LiveCluster, **more: object) -> dict[str, object]:
    source = {"topic": "orders", "broker_name": live.broker_name, "queue_id": 1, "queue_offset": 0}
    return {"source": source, **more}


def test_it_sends_once_and_reads_it_back(orders: LiveCluster, alice: User) -> None:
    params = copy_params(orders, body="second", tags="paid", keys="k", properties={"amount": "2"})
    plan = operation_services.create_plan("message_send", "test", "orders", params, alice)
    assert plan.params["queue"] == {"broker_name": orders.broker_name, "queue_id": 1}, "where the original is"
    assert "copy of orders" in plan.summary and "No group reads orders" in plan.warnings[0]["title"]
    job = run(plan, alice)
    assert (job.state, job.error, job.result["queue_offset"]) == ("SUCCEEDED", "", 1)
    found = services.record_at("test", "orders", orders.broker_name, 1, 1)
    assert found is not None
    assert (found.record.body, found.record.tags, found.record.properties["amount"]) == (
        b"second",
        "paid",
        "2",
    )
    assert found.record.properties["TIDEMARK_PLAN"] == plan.id


def test_it_waits_for_the_queue_to_have_the_message(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache's broker answers a send before its queue has the message."""
    read, looks = services.record_at, []

    def late(*place: Any) -> Hit | None:
        looks.append(place[-1])
        return None if looks.count(1) in (1, 2) else read(*place)

    params = copy_params(orders, body="second")
    plan = operation_services.create_plan("message_send", "test", "orders", params, alice)
    monkeypatch.setattr(plans, "READ_BACK_EVERY_S", 0.01)
    monkeypatch.setattr(services, "record_at", late)
    assert (run(plan, alice).state, looks.count(1)) == ("SUCCEEDED", 3)


def test_a_message_that_never_shows_ends_the_job(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = copy_params(orders, body="second")
    plan = operation_services.create_plan("message_send", "test", "orders", params, alice)
    monkeypatch.setattr(plans, "READ_BACK_WITHIN_S", 0.02)
    monkeypatch.setattr(plans, "READ_BACK_EVERY_S", 0.01)
    read = services.record_at
    monkeypatch.setattr(services, "record_at", lambda *place: None if place[-1] else read(*place))
    job = run(plan, alice)
    assert (job.state, "is not the message" in job.error) == ("FAILED", True)


def test_the_request_beside_the_plan_is_one_word_of_a_shell(orders: LiveCluster, alice: User) -> None:
    plan = operation_services.create_plan("message_send", "test", "orders", {"body": "it's $HOME"}, alice)
    (body,) = shlex.split(plan.equivalent["made_by"]["body"])
    assert json.loads(body)["body"] == "it's $HOME"


@pytest.mark.parametrize(
    "params",
    [
        {"body": "it's $HOME", "tags": "paid", "keys": "k1 k2", "properties": {"a": "1 = 2", "b": "-x"}},
        {"body": "--not an option"},
        {"body": "-"},
        {"body_base64": "AP8="},
    ],
)
def test_the_shell_line_makes_the_same_message(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]
) -> None:
    plan = operation_services.create_plan("message_send", "test", "orders", params, alice)
    piped, _, line = plan.equivalent["made_by"]["command"].rpartition(" | ")
    if piped:
        packed = base64.b64decode(shlex.split(piped)[1])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    words = shlex.split(line)
    assert words[:3] == ["manage.py", "messages", "send"]
    call_command(*words[1:], stdout=io.StringIO())
    again = Plan.objects.exclude(pk=plan.pk).get()
    assert [(row["field"], row["after"]) for row in again.diff] == [
        (row["field"], row["after"]) for row in plan.diff
    ]


def test_a_crash_between_send_and_result_sends_nothing_twice(orders: LiveCluster, alice: User) -> None:
    plan = operation_services.create_plan(
        "message_send", "test", "orders", copy_params(orders, keep_body=True), alice
    )
    job = operation_services.apply_plan(plan.id, alice)
    message = MessageSendPlan()._message(plan)  # noqa: SLF001  the worker died right behind this send
    orders.admin.send(orders.addr, message, queue_id=1)
    orders.send("orders", 1, [b"others"] * 40)
    Job.objects.filter(pk=job.id).update(progress={"from_offset": 1, "done": 0, "total": 1})
    runner.run(job.id, "worker-2")
    done = Job.objects.get(pk=job.id)
    assert (done.state, done.result["queue_offset"]) == ("SUCCEEDED", 1)
    assert orders.admin.max_offset(orders.addr, "orders", 1) == 42


def test_it_keeps_a_large_body_byte_by_byte(orders: LiveCluster, alice: User) -> None:
    body = bytes(range(256)) * 2_000
    orders.send("orders", 1, [body])
    source = {"topic": "orders", "broker_name": orders.broker_name, "queue_id": 1, "queue_offset": 1}
    plan = operation_services.create_plan(
        "message_send", "test", "orders", {"source": source, "keep_body": True}, alice
    )
    offset = run(plan, alice).result["queue_offset"]
    found = services.record_at("test", "orders", orders.broker_name, 1, offset)
    assert found is not None and found.record.body == body


def test_it_says_what_is_wrong(orders: LiveCluster, alice: User) -> None:
    for params, field in (
        ({}, "body"),
        ({"body": ""}, "body"),
        ({"body": "x", "keep_body": True}, "body"),
        ({"keep_body": True}, "body"),
        ({"body": "x" * (256 * 1024 + 1)}, "body"),
        ({"body_base64": "!"}, "body"),
        ({"body": "x", "tags": "a || b"}, "tags"),
        ({"body": "x", "properties": {"DELAY": "3"}}, "properties"),
        ({"body": "x", "properties": {"a": "\x01"}}, "properties"),
        ({"body": "x", "properties": {"a": "x" * 40_000}}, "properties"),
        ({"body": "x", "properties": []}, ""),
        ({"body": "x", "queue": {"broker_name": "no"}}, "queue"),
        ({"body": "x", "source": {"topic": "orders"}}, "source"),
    ):
        if field == "":
            operation_services.create_plan("message_send", "test", "orders", params, alice)
            continue
        with pytest.raises(PlanRejected) as refusal:
            operation_services.create_plan("message_send", "test", "orders", params, alice)
        assert refusal.value.field == field, params
    for topic in ("nowhere", "TBW102", "%DLQ%g", "bad name"):
        with pytest.raises(PlanRejected) as refusal:
            operation_services.create_plan("message_send", "test", topic, {"body": "x"}, alice)
        assert refusal.value.field == "topic"
    assert BODY_BYTES_MAX < 4 * 1024 * 1024


def test_it_drifts_when_the_queue_is_closed(orders: LiveCluster, alice: User) -> None:
    plan = operation_services.create_plan("message_send", "test", "orders", {"body": "x"}, alice)
    orders.create_topic("orders", queues=2, perm=4)
    with pytest.raises(PlanDrifted, match="is no longer writable"):
        operation_services.apply_plan(plan.id, alice)


def test_it_needs_the_right_to_send_and_to_see_the_original(orders: LiveCluster) -> None:
    orders.create_topic("copies", queues=1)
    viewer = signed_in("viewer", verbs=("VIEW",))
    assert (
        viewer.post(
            "/c/test/messages/send?topic=orders", {"topic": "orders", "body": "x", "encoding": "text"}
        ).status_code
        == 403
    )
    sender = signed_in("sender", verbs=("SEND",), names="copies")
    assert sender.get(f"/c/test/messages/send?topic=orders&at={orders.broker_name}:1:0").status_code == 403
    person = User.objects.get(username="sender")
    with pytest.raises(NotPermitted):
        operation_services.create_plan(
            "message_send", "test", "copies", copy_params(orders, keep_body=True), person
        )


def test_a_page_leads_from_the_message_to_the_plan(orders: LiveCluster, alice: User) -> None:
    browser = Browser()
    browser.force_login(alice)
    address = f"/c/test/messages/send?{urlencode({'topic': 'orders', 'at': f'{orders.broker_name}:1:0'})}"
    form = browser.get(address).content.decode()
    assert "first" in form and "amount = 1" in form
    wanted = {
        "topic": "orders",
        "tags": "paid",
        "keys": "k",
        "properties": "amount = 2\nnew = a=b",
        "encoding": "text",
    }
    refused = browser.post(address, {**wanted, "properties": "nonsense", "body": "x"})
    assert refused.status_code == 422 and "Line 1 is not name = value." in refused.content.decode()
    refused = browser.post(address, {**wanted, "body": ""})
    assert (
        refused.status_code == 422 and "does not accept a message without a body" in refused.content.decode()
    )
    answer = browser.post(address, {**wanted, "body": "second\r\nline"})
    plan = Plan.objects.get()
    assert answer["Location"] == f"/c/test/plans/{plan.id}"
    assert plan.params["body"] == "second\nline" and plan.params["properties"] == {
        "amount": "2",
        "new": "a=b",
    }
    page = browser.get(answer["Location"]).content.decode()
    assert "second" in page and "Send the message" in page
