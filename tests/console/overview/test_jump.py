"""The palette's search: everything one may open by name or id, and nothing else."""

from __future__ import annotations

import datetime as dt

import pytest
from django.test import Client
from django.utils import timezone

from console.operation.models import Job, Plan
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def found(client: Client, query: str) -> list[tuple[str, str]]:
    items = client.get("/c/local/jump", {"q": query}).json()["items"]
    return [(item["kind"], item["name"]) for item in items]


def test_it_puts_names_that_begin_so_before_those_that_contain_it(admin: Client) -> None:
    for name in ("a-billing-copy", "billing-eu"):
        sample_rows.group_row(name)
    names = [name for kind, name in found(admin, "BILL") if kind == "Groups"]
    assert names == ["billing", "billing-eu", "a-billing-copy"]


def test_it_finds_brokers(admin: Client) -> None:
    assert found(admin, "er-b") == [("Brokers", "broker-b")]


def test_it_finds_plans_and_jobs_by_the_beginning_of_their_id(admin: Client) -> None:
    now = timezone.now()
    plan = Plan.objects.create(
        kind="offset_change",
        cluster="local",
        subject="billing",
        state_hash="",
        created_by="admin",
        created_at=now,
        expires_at=now + dt.timedelta(minutes=10),
    )
    assert found(admin, plan.id[:6]) == [("Operations", plan.id)]
    job = Job.objects.create(
        plan=plan, kind=plan.kind, cluster="local", subject="billing", created_by="admin", created_at=now
    )
    items = admin.get("/c/local/jump", {"q": job.id}).json()["items"]
    assert items[0]["url"] == f"/c/local/operations/{job.id}"
    assert items[0]["hint"] == "Offset change of billing"
    narrow = signed_in("narrow", verbs=("VIEW",), names="fraud")
    assert found(narrow, job.id) == []


def test_it_finds_only_what_a_person_may_look_at(admin: Client) -> None:
    narrow = signed_in("narrow", verbs=("VIEW",), names="bill*")
    assert found(narrow, "i") == [("Groups", "billing")]
    assert found(narrow, "broker") == [("Brokers", "broker-a"), ("Brokers", "broker-b")]
    assert signed_in("none", verbs=()).get("/c/local/jump?q=a").status_code == 404


def test_it_leads_everybody_to_the_overview_and_to_the_pages_they_may_open(admin: Client) -> None:
    narrow = signed_in("narrow", verbs=("VIEW",), names="bill*")
    assert narrow.get("/")["Location"] == "/c/local/"
    assert admin.get("/")["Location"] == "/c/local/"
    text = narrow.get("/c/local/groups").content.decode()
    assert all(f'data-key="{key}"' in text for key in "obt")
    assert 'href="/activity"' not in text


def test_it_asks_the_database_a_few_times(admin: Client, django_assert_max_num_queries: object) -> None:
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        admin.get("/c/local/jump?q=o")
