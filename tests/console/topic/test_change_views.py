"""Pages that create, change and delete topics, on a real brokerd: forms, refusals, quarantine, release."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from console.lag.models import BrokerRow, TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.operation import services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_queues
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def browser(live: LiveCluster, maria: User) -> Client:
    """Maria at a cluster that the collector has seen: topic ``orders`` with two queues."""
    live.create_topic("orders", queues=2)
    seen(live, "orders")
    BrokerRow.objects.create(cluster=live.name, broker_name=live.broker_name, addr=live.addr, answered=True)
    client = Browser()
    client.force_login(maria)
    return client


def seen(live: LiveCluster, topic: str, **fields: object) -> None:
    """The row that a round would leave."""
    TopicRow.objects.update_or_create(
        cluster=live.name,
        topic=topic,
        defaults={"kind": "NORMAL", "perm": 6, "brokers": [live.broker_name], "read_at_ms": 1, **fields},
    )


def page(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(f"/c/test/{address}")
    assert answer.status_code == status, answer.content
    return answer.content.decode()


FORM = {"write_queues": "4", "read_queues": "4", "perm": "6", "message_type": "", "order": "false"}


def test_a_new_topic_is_chosen_beside_what_is_there(live: LiveCluster, browser: Client) -> None:
    for name, in_rate in (("quiet", 0.5), ("busy", 20.0)):
        seen(live, name, read_queues=4, write_queues=8, in_rate=in_rate)
    BrokerRow.objects.update(disk_ratio=0.42)
    text = page(browser, "new-topic")
    assert text.index(">busy</a>") < text.index(">quiet</a>") and "4 / 8" in text and "42 %" in text
    some = signed_in("some", verbs=("VIEW", "CONFIGURE"), cluster="test", names="qui*")
    text = page(some, "new-topic")
    assert ">quiet</a>" in text and ">busy</a>" not in text and "42 %" not in text


def test_it_makes_a_plan_from_the_form_and_shows_it(live: LiveCluster, browser: Client) -> None:
    assert 'href="/c/test/new-topic"' in page(browser, "topics")
    form = {**FORM, "name": "payments", "brokers": [live.broker_name]}
    answer = browser.post("/c/test/new-topic", form)
    plan = Plan.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"/c/test/plans/{plan.id}"
    text = page(browser, f"plans/{plan.id}")
    assert "Create the topic <strong>payments</strong>" in text
    assert "topic payments is created" in text and "writeQueueNums" in text
    assert "Create the topic" in text
    assert "/api/v1/plans/" in text and f"manage.py topics apply {plan.id}" in text
    applied = browser.post(f"/c/test/plans/{plan.id}/apply", {"reason": "INC-1"})
    job = Job.objects.get()
    assert applied["Location"] == reverse("job", args=["test", job.id])
    runner.run(job.id, "worker-1")
    text = page(browser, reverse("job", args=["test", job.id])[len("/c/test/") :])
    assert "Every broker reports the new state." in text and "verified" in text
    # on a phone, too, the way back is not below all rows
    assert text.index("Undo this change") < text.index("Result per broker")
    again = browser.post(f"/c/test/plans/{plan.id}/apply", {})
    assert again["Location"] == reverse("job", args=["test", job.id]), "a double submit leads to the one job"
    undone = browser.post(f"/c/test/plans/{plan.id}/undo")
    assert "Delete the empty topic <strong>payments</strong>" in page(
        browser, undone["Location"][len("/c/test/") :]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "bad name"}, "Use only letters, digits, % | - and _."),
        ({"name": ""}, "This field is required"),
        ({"name": "TBW102"}, "is a system topic of RocketMQ"),
        ({"name": "orders"}, "There is a topic orders already"),
        ({"write_queues": "0"}, "Enter at least 1."),
        ({"read_queues": "many"}, "Enter a whole number"),
        ({"write_queues": ""}, "Enter the number of queues"),
        ({"perm": "9"}, "Select a valid choice"),
        ({"brokers": []}, "Choose at least one broker"),
    ],
)
def test_it_says_on_the_field_what_is_wrong(
    live: LiveCluster, browser: Client, change: dict[str, object], reason: str
) -> None:
    form = {**FORM, "name": "payments", "brokers": [live.broker_name], **change}
    answer = browser.post("/c/test/new-topic", form)
    assert answer.status_code == 422
    errors = re.findall(r'<p class="err"[^>]*>([^<]*)</p>', answer.content.decode())
    assert len(errors) == 1 and reason in errors[0]
    assert not Plan.objects.exists()


def test_it_says_that_the_broker_does_not_answer(live: LiveCluster, browser: Client) -> None:
    form = {**FORM, "name": "payments", "brokers": [live.broker_name]}
    live.broker.stop()
    answer = browser.post("/c/test/new-topic", form)
    assert answer.status_code == 422
    assert "No plan was made." in answer.content.decode()


def test_it_changes_what_is_filled_in_only(live: LiveCluster, browser: Client) -> None:
    text = page(browser, "topics/orders/change")
    assert "writeQueueNums" in text and "stays as it is" in text
    answer = browser.post(
        "/c/test/topics/orders/change",
        {"write_queues": "6", "read_queues": "6", "brokers": [live.broker_name]},
    )
    plan = Plan.objects.get()
    assert answer["Location"] == f"/c/test/plans/{plan.id}"
    assert plan.params == {"write_queues": 6, "read_queues": 6}
    text = page(browser, f"plans/{plan.id}")
    assert "Affected clients" in text and "Producers connected" in text
    assert "<del>2</del>" in text and "<ins>6</ins>" in text
    nothing = browser.post("/c/test/topics/orders/change", {"brokers": [live.broker_name]})
    assert nothing.status_code == 422 and "Give at least one setting to change" in nothing.content.decode()


def test_it_leads_from_quarantine_to_deletion(live: LiveCluster, browser: Client, settings: Settings) -> None:
    text = page(browser, "topics/orders/delete")
    assert "Plan the quarantine" in text and "24 hours after the quarantine" in text
    early = browser.post("/c/test/topics/orders/delete", {"action": "delete"})
    text = page(browser, early["Location"][len("/c/test/") :])
    assert "This plan cannot be applied." in text and "Put it in quarantine first" in text
    answer = browser.post("/c/test/topics/orders/delete", {"action": "quarantine"})
    plan_id = answer["Location"].rsplit("/", 1)[1]
    browser.post(f"/c/test/plans/{plan_id}/apply", {"confirm_text": "orders"})
    runner.run(Job.objects.get().id, "worker-1")
    seen(live, "orders", perm=0)
    text = page(browser, "topics/orders")
    assert "In quarantine since" in text and "by maria" in text and "No traffic since then." in text
    seen(live, "orders", perm=0, last_write_ms=4_000_000_000_000)
    assert "There was traffic since then" in page(browser, "topics/orders")
    assert "Plan the deletion without quarantine" not in page(browser, "topics/orders/delete")
    forced = browser.post("/c/test/topics/orders/delete", {"action": "force"})
    assert forced.status_code == 422 and "may not ADMIN orders" in forced.content.decode()
    settings.QUARANTINE_HOURS = 0
    answer = browser.post("/c/test/topics/orders/delete", {"action": "delete"})
    text = page(browser, answer["Location"][len("/c/test/") :])
    assert "Delete the topic" in text and "Name of the topic" in text
    assert browser.post("/c/test/topics/orders/delete", {"action": "nonsense"}).status_code == 404


def test_it_releases_with_one_click(live: LiveCluster, browser: Client, maria: User) -> None:
    plan = services.create_plan("topic_quarantine", live.name, "orders", {}, maria)
    runner.run(services.apply_plan(plan.id, maria, "orders").id, "worker-1")
    assert live.admin.topic_config(live.addr, "orders").perm == 0
    answer = browser.post("/c/test/topics/orders/release")
    job = Job.objects.get(kind="topic_release")
    assert answer["Location"] == reverse("job", args=["test", job.id])
    runner.run(job.id, "worker-1")
    assert live.admin.topic_config(live.addr, "orders").perm == 6
    refused = browser.post("/c/test/topics/orders/release", follow=True)
    assert "did not put orders in quarantine" in refused.content.decode()


def test_it_shows_each_tab(live: LiveCluster, browser: Client, maria: User) -> None:
    live.send("orders", 0, [b"m"] * 3)
    queue = TopicQueueRow(
        topic="orders", broker_name=live.broker_name, queue_id=0, min_offset=0, max_offset=3, in_rate=1.0
    )
    sample_queues.save(live.name, queue)
    services.create_plan("topic_quarantine", live.name, "orders", {}, maria)
    assert "No group reads this topic" in page(browser, "topics/orders?tab=groups")
    text = page(browser, "topics/orders?tab=config")
    assert (
        "readQueueNums" in text
        and '>6 <span class="sub">read and write<' in text
        and "message.type" not in text
    )
    text = page(browser, "topics/orders?tab=producers")
    assert "they are taken from the newest 3 messages" in text and "127.0.0.1" in text
    text = page(browser, "topics/orders?tab=activity")
    assert "maria" in text and "Put orders" in text
    assert "shares of the traffic" in page(browser, "topics/orders")
    assert "Its tabs are queues, groups, " in page(browser, "topics/orders?tab=nonsense", 404)


def test_it_shows_what_it_can_while_the_broker_is_away(live: LiveCluster, browser: Client) -> None:
    live.broker.stop()
    assert "The name servers do not answer" in page(browser, "topics/orders?tab=config")
    assert "Unknown: the name servers do not answer" in page(browser, "topics/orders?tab=producers")


@pytest.mark.parametrize("address", ["topics/orders/change", "topics/orders/delete", "topics/orders/release"])
def test_it_needs_the_right_to_configure(live: LiveCluster, browser: Client, address: str) -> None:
    viewer = signed_in("victor", verbs=("VIEW",))
    method = viewer.post if address.endswith("release") else viewer.get
    assert method(f"/c/test/{address}").status_code == 403
    text = page(viewer, "topics/orders")
    assert "Change…" not in text and "Delete…" not in text
    form = {**FORM, "name": "payments", "brokers": [live.broker_name]}
    assert "may not CONFIGURE payments" in viewer.post("/c/test/new-topic", form).content.decode()
