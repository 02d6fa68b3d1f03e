"""A kind of plan is one class: what it declares is all that pages, lists, REST and commands show of it."""

from __future__ import annotations

import ast
import gettext
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.template.loader import get_template
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from console.cluster.models import Cluster
from console.operation import selectors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from console.operation.plan.kinds import AnyPlanKind
from console.plans import KINDS
from console.rebalance.placement.params import PlacementBefore
from console.rebalance.rules import KeptPlacement
from console.text import Text
from console.text.stored import as_json
from tests.console.operation.tally import Tally
from tests.support.people import signed_in


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
    runner.run(job.id, "worker-1")
    assert selectors.job(job.id).state == "SUCCEEDED"
    assert "Tally" in client.get(f"/c/test/operations/{job.id}").content.decode()
    listed = client.get("/c/test/operations").content.decode()
    assert '<option value="tally">Tally</option>' in listed and plan.id in listed
    answer = client.post(f"/c/test/plans/{plan.id}/undo")
    undone = Plan.objects.get(undo_of=plan)
    assert (answer["Location"], undone.params) == (f"/c/test/plans/{undone.id}", {"steps": 1})
    assert client.get("/api/v1/clusters/test/plans").json()["results"][0]["kind"] == "tally"


# What the kinds need at least, together: each reads its own.
PARAMS = {
    "direction": "drain",
    "key": "flushDiskType",
    "target": "nowhere",
    "filter": {},
    "rate_per_s": None,
    "skip_replayed": True,
    "tags": "",
    "keys": "",
    "properties": {},
}

# What the pages of a kind read of it.
BEFORE = {
    "group_placement": as_json(
        PlacementBefore(placement=KeptPlacement(), placed_at_ms=0, members=("c1",), queues=(), read_at_ms=0)
    )
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_has_a_heading_a_button_and_pages_that_exist(kind: AnyPlanKind) -> None:
    plan = Plan(kind=kind.kind, cluster="test", subject="orders", params=PARAMS)
    assert kind.title and kind.button(plan) and kind.program
    for name in (kind.diff_template, kind.job_template):
        get_template(name)
    trail = kind.place_of(plan).trail("test", "orders")
    assert [link.words for link in trail][1] == "orders" and trail[0].url.startswith("/c/test/")
    if kind.another:
        assert kind.another.link(plan).url.startswith("/c/test/")


NAMES = {"offset_change": "group", "message_send": "topic", "broker_drain": "broker", "topic_delete": "topic"}


@pytest.mark.one_database(
    "words of the kinds; the rows of a plan and its page are those of operation/test_views"
)
@pytest.mark.django_db(databases=["default", "metrics"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_page_of_every_kind_shows_what_it_declares(kind: AnyPlanKind) -> None:
    client = signed_in("alice")
    Cluster.objects.create(name="test", namesrv_addrs="127.0.0.1:1")
    now = timezone.now()
    plan = Plan.objects.create(
        kind=kind.kind,
        cluster="test",
        subject="orders",
        params=PARAMS | ({"target": "latest"} if kind.kind == "offset_change" else {}),
        before=BEFORE.get(kind.kind, {}),
        confirm="typed",
        confirm_text="orders",
        created_by="alice",
        created_at=now,
        expires_at=now + timedelta(minutes=5),
    )
    page = client.get(f"/c/test/plans/{plan.id}").content.decode()
    assert f'<span class="name">{kind.title}</span>' in page and escape(kind.button(plan)) in page
    assert f"{kind.typed_reason}: type the name <code>orders</code> to confirm." in page
    if kind.kind in NAMES:
        assert f">Name of the {NAMES[kind.kind]}</label>" in page
    if kind.another:
        assert escape(kind.another.words) in page
    job = Job.objects.create(
        plan=plan, kind=kind.kind, cluster="test", subject="orders", created_by="alice", created_at=now
    )
    page = client.get(f"/c/test/operations/{job.id}").content.decode()
    assert f'<span class="name">{kind.title}</span>' in page
    assert " ".join(str(kind.cancel_words).split()) in " ".join(page.split())


def test_a_past_sentence_stands_for_a_summary_that_exists() -> None:
    """Else a summary whose words were changed would stay in the imperative once it is carried out."""
    with Path("locale/zh_Hans/LC_MESSAGES/django.mo").open("rb") as file:
        catalogue = gettext.GNUTranslations(file)
    pairs = [pair for kind in KINDS for pair in kind.past.items()]
    assert len(pairs) >= 12
    for before, after in pairs:
        assert catalogue.gettext(before) != before, before
        assert set(re.findall(r"%\((\w+)\)s", after)) <= set(re.findall(r"%\((\w+)\)s", before))


IMPERATIVE = re.compile(
    "(Allow|Change|Create|Delete|Deliver|Let|Mark|Move|Pause|Put|Release|Remove|Replay|Restore|Send|Set|Skip) "
)
# Functions of the console that make summaries of plans, or a sentence of one.
MAKES_SUMMARY = re.compile("_?(.*summary|draft|removed_again|created_again|put_back|marked|effect)")


def summary_sentences() -> set[str]:
    found = set()
    for path in Path("console").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and MAKES_SUMMARY.fullmatch(function.name):
                found |= {
                    call.args[0].value
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id == "Text"
                    and call.args
                    and isinstance(call.args[0], ast.Constant)
                    and isinstance(call.args[0].value, str)
                }
    return {text for text in found if IMPERATIVE.match(text)}


def test_every_summary_has_a_past_sentence() -> None:
    sentences = summary_sentences()
    assert len(sentences) >= 25
    assert sentences - {before for kind in KINDS for before in kind.past} == set()


def test_a_done_deletion_of_a_group_reads_in_the_past() -> None:
    plan = Plan(
        kind="group_delete",
        summary=Text.of_parts(
            [
                Text("Delete the group %(group)s on %(where)s.", group="billing", where="broker-a"),
                Text(
                    "Its committed offsets (%(number)s) are deleted too, and recorded for the undo.",
                    number=10,
                ),
                Text("It has no retry or dead-letter topic."),
            ]
        ),
    )
    kind = next(kind for kind in KINDS if kind.kind == "group_delete")
    assert str(kind.done_words(plan)) == (
        "Deleted the group billing on broker-a. Its committed offsets (10) were deleted too, and recorded for "
        "the undo. It had no retry or dead-letter topic."
    )
