"""The page that pauses a group, on a real brokerd: its boxes, what it refuses, one-click resumption, and the chips."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.access import services as access_services
from console.cluster.models import Cluster
from console.group import refusals
from console.lag.models import GroupRow
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import signed_in
from tests.support.ports import free_port
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGE = "/c/test/groups/billing/pause"
RETRY = "%RETRY%billing"


@pytest.fixture
def browser(live: LiveCluster, db: None) -> Client:
    """Maria, maintainer, at a cluster whose group ``billing`` reads orders and refunds."""
    access_services.ensure_first_person()
    maria = User.objects.create_user("maria")
    access_services.grant(role="maintainer", user=maria)
    live.create_group("billing")
    for topic in ("orders", "refunds"):
        live.create_topic(topic, queues=1)
    topics = [{"topic": name, "queues": 1, "lag": 0, "time_lag_ms": 0} for name in ("orders", "refunds")]
    GroupRow.objects.create(
        cluster=live.name, group="billing", status="OK", clients=0, topics=topics, read_at_ms=1
    )
    client = Browser()
    client.force_login(maria)
    return client


def pause(live: LiveCluster, *topics: str) -> None:
    for topic in topics:
        live.admin.group_forbidden(live.addr, "billing", topic, readable=False)


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_it_plans_a_pause_of_the_ticked_topics(live: LiveCluster, browser: Client) -> None:
    text = text_of(browser, PAGE)
    assert text.count("may read") == 3 and RETRY in text and "Nothing is paused now." in text
    form = {"topics": ["orders"], "brokers": [live.broker_name], "action": "pause"}
    answer = browser.post(PAGE, form)
    plan = Plan.objects.get()
    assert answer["Location"] == f"/c/test/plans/{plan.id}"
    assert (plan.kind, plan.params) == ("group_pause", {"topics": ["orders"]})
    text = text_of(browser, f"/c/test/plans/{plan.id}")
    assert "Pause reading" in text and "Retries continue" in text and "Kept unread, hours" in text
    assert "manage.py groups pause billing --topic orders --cluster test" in text


def test_it_means_all_topics_when_all_are_ticked(live: LiveCluster, browser: Client) -> None:
    form = {"topics": ["orders", "refunds", RETRY], "brokers": [live.broker_name], "action": "pause"}
    browser.post(PAGE, form)
    assert Plan.objects.get().params == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topics": []}, "Choose at least one topic"),
        ({"topics": ["nowhere"]}, "nowhere is not one of the available choices"),
        ({"brokers": []}, "Choose at least one broker"),
    ],
)
def test_it_says_what_is_wrong(
    live: LiveCluster, browser: Client, change: dict[str, object], reason: str
) -> None:
    form = {"topics": ["orders"], "brokers": [live.broker_name], "action": "pause", **change}
    answer = browser.post(PAGE, form)
    assert (answer.status_code, reason in answer.content.decode()) == (422, True)


def test_it_knows_no_other_deed(browser: Client) -> None:
    assert browser.post(PAGE, {"action": "stop"}).status_code == 404


def test_it_resumes_with_one_click(live: LiveCluster, browser: Client) -> None:
    pause(live, "orders", RETRY)
    refusals.survey_cluster(live.name, now_ms=1_000)
    assert "Plan the resumption" in text_of(browser, PAGE)
    text = text_of(browser, "/c/test/groups/billing")
    assert "Paused on orders" in text and "since before this console's first round" in text
    assert 'data-tip="%RETRY%billing, orders">Paused</span>' in text_of(browser, "/c/test/groups")
    answer = browser.post("/c/test/groups/billing/resume")
    job = Job.objects.get()
    assert answer["Location"] == f"/c/test/operations/{job.id}"
    runner.run(job.id, "worker-1")
    assert live.admin.group_refusals(live.addr).topics == {}
    assert "Paused" not in text_of(browser, "/c/test/groups/billing")
    assert browser.post("/c/test/groups/billing/resume")["Location"] == PAGE, "with the reason on it"
    assert "No topic is paused for billing." in text_of(browser, PAGE)


def test_it_shows_that_a_broker_cannot_be_asked(live: LiveCluster, browser: Client) -> None:
    pause(live, "orders")
    refusals.survey_cluster(live.name, now_ms=1_000)
    Cluster.objects.filter(name=live.name).update(namesrv_addrs=f"127.0.0.1:{free_port()}")
    assert "No broker could be queried" in text_of(browser, PAGE)
    assert "; reported by" in text_of(browser, "/c/test/groups/billing"), "the last word, with its age"


def test_it_lets_readers_look_only(browser: Client) -> None:
    reader = signed_in("reader", verbs=("VIEW",))
    text = text_of(reader, PAGE)
    assert "may read" in text and "Plan a pause" not in text
    assert reader.post(PAGE, {"action": "pause"}).status_code == 403
    assert reader.post("/c/test/groups/billing/resume").status_code == 403
    assert "Pause…" not in text_of(reader, "/c/test/groups/billing")


def test_it_asks_for_pauses_once_per_list(live: LiveCluster, browser: Client) -> None:
    pause(live, "orders")
    refusals.survey_cluster(live.name, now_ms=1_000)
    for number in range(30):
        GroupRow.objects.create(cluster="test", group=f"g{number}", status="OK", read_at_ms=1)
    with CaptureQueriesContext(connection) as queries:
        text_of(browser, "/c/test/groups")
    assert sum("group_brokerrefusals" in one["sql"] for one in queries) == 1
    text = text_of(browser, "/c/test/groups?reading=paused")
    assert ">billing</a>" in text and ">g7</a>" not in text
    out = StringIO()
    call_command("groups", "list", "--reading", "paused", stdout=out)
    assert out.getvalue().startswith("billing ") and out.getvalue().endswith("1 of 1 groups\n")


def test_it_pauses_from_a_terminal(live: LiveCluster, browser: Client) -> None:
    out = StringIO()
    call_command("groups", "pause", "billing", "--topic", "orders", "--topic", "refunds", stdout=out)
    plan = Plan.objects.get()
    assert out.getvalue().startswith(f"{plan.id}: Pause billing on orders and refunds")
    assert "readable" in out.getvalue() and "true → false" in out.getvalue()
    call_command("groups", "apply", plan.id, "--here", stdout=out)
    assert live.admin.group_refusals(live.addr).topics == {"billing": {"orders", "refunds"}}
    out = StringIO()
    call_command("groups", "resume", "billing", stdout=out)
    assert "Resume billing on orders and refunds" in out.getvalue()
