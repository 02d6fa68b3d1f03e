"""A kind of plan is one class: what it declares is all that pages, lists, REST and commands show of it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.template.loader import get_template
from django.test import Client

from console.operation import selectors, services
from console.operation.models import Plan
from console.operation.plan.kinds import PlanKind
from console.plans import KINDS
from tests.console.operation.tally import Tally


@pytest.mark.django_db(databases=["default", "metrics"])
def test_a_kind_that_is_only_a_class_is_listed_planned_applied_undone_and_rendered(
    tally: type[Tally], alice: User, client: Client
) -> None:
    client.force_login(alice)
    plan = services.create_plan("tally", "test", "billing", {"steps": 2}, alice)
    page = client.get(f"/c/test/plans/{plan.id}").content.decode()
    assert "Tally" in page and "Apply the plan" in page and "Groups" in page
    answer = client.post(f"/c/test/plans/{plan.id}/apply", {"confirm_text": "", "reason": ""})
    job = selectors.plan(plan.id).job
    assert answer["Location"] == f"/c/test/operations/{job.id}"
    services.run_job(job.id, "worker-1")
    assert selectors.job(job.id).state == "SUCCEEDED"
    assert "Tally" in client.get(f"/c/test/operations/{job.id}").content.decode()
    listed = client.get("/c/test/operations").content.decode()
    assert '<option value="tally">Tally</option>' in listed and plan.id in listed
    answer = client.post(f"/c/test/plans/{plan.id}/undo")
    undone = Plan.objects.get(undo_of=plan)
    assert (answer["Location"], undone.params) == (f"/c/test/plans/{undone.id}", {"steps": 1})
    assert client.get("/api/v1/clusters/test/plans").json()["results"][0]["kind"] == "tally"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_has_a_heading_a_button_and_pages_that_exist(kind: PlanKind) -> None:
    plan = Plan(
        kind=kind.kind, cluster="test", subject="orders", params={"direction": "drain", "target": "nowhere"}
    )
    assert kind.title and kind.button(plan) and kind.program
    for name in (kind.diff_template, kind.job_template):
        get_template(name)
    trail = kind.place_of(plan).trail("test", "orders")
    assert [link.words for link in trail][1] == "orders" and trail[0].url.startswith("/c/test/")
    if kind.another:
        assert kind.another.link(plan).url.startswith("/c/test/")
