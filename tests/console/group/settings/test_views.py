"""Pages of a group's configuration, on a real brokerd: forms, refusals, quarantine, release."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse

from console.cluster.models import Cluster
from console.group.settings.forms import GroupChangeForm
from console.group.settings.page import arranged, setting_areas
from console.lag.models import BrokerRow, GroupRow
from console.operation import services
from console.operation.config.table import ConfigTable, compare
from console.operation.config.views import quarantine_context
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def browser(live: LiveCluster, maria: User) -> Client:
    """Maria at a cluster that the collector has seen: group ``billing``, nobody online."""
    live.create_group("billing", retry_max_times=7)
    GroupRow.objects.create(cluster=live.name, group="billing", status="OFFLINE", clients=0, read_at_ms=1)
    BrokerRow.objects.create(cluster=live.name, broker_name=live.broker_name, addr=live.addr, answered=True)
    client = Browser()
    client.force_login(maria)
    return client


def page(client: Client, address: str) -> str:
    answer = client.get(f"/c/test/{address}")
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_it_makes_a_plan_from_the_form(live: LiveCluster, browser: Client) -> None:
    assert "Make plan" in page(browser, "new-group")
    form = {"name": "audit", "retry_max_times": "3", "consume_enable": "false", "brokers": [live.broker_name]}
    answer = browser.post("/c/test/new-group", form)
    plan = Plan.objects.get()
    assert answer["Location"] == f"/c/test/plans/{plan.id}"
    assert (plan.subject, plan.params) == ("audit", {"retry_max_times": 3, "consume_enable": False})


@pytest.mark.one_database("fields that are refused before a plan is made")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "bad name"}, "Use only letters, digits, % | - and _."),
        ({"name": "x" * 121}, "at most 120 characters"),
        ({"name": "billing"}, "There is a group billing already"),
        ({"retry_max_times": "-2"}, "Enter at least -1."),
        ({"retry_queues": "x"}, "Enter a whole number"),
        ({"brokers": []}, "Choose at least one broker"),
    ],
)
def test_it_says_on_the_field_what_is_wrong(
    live: LiveCluster, browser: Client, change: dict[str, object], reason: str
) -> None:
    answer = browser.post("/c/test/new-group", {"name": "audit", "brokers": [live.broker_name], **change})
    assert answer.status_code == 422
    errors = re.findall(r'<p class="err"[^>]*>([^<]*)</p>', answer.content.decode())
    assert len(errors) == 1 and reason in errors[0]


def test_it_changes_what_is_filled_in_only(live: LiveCluster, browser: Client) -> None:
    text = page(browser, "groups/billing/settings")
    assert "retryMaxTimes" in text and ">7<" in text
    browser.post("/c/test/groups/billing/settings", {"retry_max_times": "3", "brokers": [live.broker_name]})
    plan = Plan.objects.get()
    assert (plan.kind, plan.params) == ("group_change", {"retry_max_times": 3})
    text = page(browser, f"plans/{plan.id}")
    assert "Clients online" in text and "<del>7</del>" in text and "At most 3 retries" in text


def test_it_leads_from_quarantine_to_deletion_and_back(
    live: LiveCluster, browser: Client, maria: User
) -> None:
    answer = browser.post("/c/test/groups/billing/delete", {"action": "quarantine"})
    plan_id = answer["Location"].rsplit("/", 1)[1]
    browser.post(f"/c/test/plans/{plan_id}/apply", {"confirm_text": "billing"})
    runner.run(Job.objects.get().id, "worker-1")
    text = page(browser, "groups/billing/delete")
    assert "no client is online" in text and "Deletable" in text and "by maria" in text
    blocked = browser.post("/c/test/groups/billing/delete", {"action": "delete", "with_topics": "1"})
    plan = Plan.objects.get(kind="group_delete")
    assert blocked["Location"] == f"/c/test/plans/{plan.id}"
    assert plan.params == {"with_topics": True} and "after 24 hours" in plan.blocked
    released = browser.post("/c/test/groups/billing/release")
    job = Job.objects.get(kind="group_release")
    assert released["Location"] == reverse("job", args=["test", job.id])
    runner.run(job.id, "worker-1")
    assert live.admin.all_subscription_groups(live.addr).subscription_group_table["billing"].consume_enable


def test_it_is_a_part_of_the_page_of_the_group(live: LiveCluster, browser: Client, maria: User) -> None:
    plan = services.create_plan("group_quarantine", live.name, "billing", {}, maria)
    runner.run(services.apply_plan(plan.id, maria, plan.confirm_text).id, "worker-1")
    request = RequestFactory().get("/")
    request.user = maria
    here = Cluster.objects.get(name=live.name)
    context = quarantine_context(request, here, "group", "billing")
    row = GroupRow.objects.get(cluster=live.name, group="billing")
    text = render_to_string("group/_tab_settings.html", {"cluster": here, "row": row, **context}, request)
    assert "in quarantine since" in text and "/c/test/groups/billing/release" in text


def test_it_shows_settings_to_those_who_may_not_change_them(live: LiveCluster, browser: Client) -> None:
    viewer = signed_in("victor", verbs=("VIEW",))
    text = page(viewer, "groups/billing/settings")
    assert "retryMaxTimes" in text and "Make plan" not in text
    assert viewer.post("/c/test/groups/billing/settings", {"retry_max_times": "3"}).status_code == 403
    assert viewer.get("/c/test/groups/billing/delete").status_code == 403
    assert viewer.post("/c/test/groups/billing/release").status_code == 403


def test_a_quarantine_is_above_every_tab_of_the_group(
    live: LiveCluster, browser: Client, maria: User
) -> None:
    assert "In quarantine since" not in page(browser, "groups/billing")
    plan = services.create_plan("group_quarantine", live.name, "billing", {}, maria)
    runner.run(services.apply_plan(plan.id, maria, plan.confirm_text).id, "worker-1")
    assert "In quarantine since" in page(browser, "groups/billing")


def test_settings_stand_by_area_with_default_and_present_value(live: LiveCluster, browser: Client) -> None:
    shown = " ".join(re.sub(r"<[^>]+>", " ", page(browser, "groups/billing/settings")).split())
    table, form = shown.split("Change to", 1)
    assert table.index("Retries and dead letters") < table.index("retryMaxTimes retries before a message")
    assert table.index("Who may consume") < table.index(
        "consumeEnable clients may consume; off while in quarantine"
    )
    assert table.index("Not changed here") < table.index("groupRetryPolicy wait before each retry")
    assert "the client decides 16 7" in table
    assert "now 7 ; default 16" in form


def test_brokers_that_differ_are_named_in_table_and_form() -> None:
    table = arranged(
        ConfigTable(
            ("broker-a", "broker-b"),
            compare([{"retryMaxTimes": 16, "unknownKey": 1}, {"retryMaxTimes": 3, "unknownKey": 1}]),
            {},
            (),
            0,
        )
    )
    retries, fixed = table.areas
    assert (retries.differing, retries.rows[0].default) == (1, 16)
    assert [(row.key, str(row.meaning), row.default) for row in fixed.rows] == [("unknownKey", "", None)]
    areas = setting_areas(GroupChangeForm(["broker-a", "broker-b"]), table)
    assert [setting.value for setting in areas[0][1]][:1] == [None]
    text = render_to_string("group/_settings_fields.html", {"areas": areas, "brokers": []})
    assert "brokers differ" in text and "16, 3" in " ".join(text.split())


def test_a_new_group_shows_defaults_only(live: LiveCluster, browser: Client) -> None:
    text = page(browser, "new-group")
    assert "default 16" in text and "brokers differ" not in text and ">now<" not in text
