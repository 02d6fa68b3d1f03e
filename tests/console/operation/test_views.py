"""Plans and jobs in the browser: look, confirm, refuse, control."""

from __future__ import annotations

import asyncio
import csv
import datetime
import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from console.access.models import AuditEvent
from console.brokers.mqadmin import BrokerUnavailable
from console.operation import services
from console.operation.job import runner
from console.operation.models import Job, JobState, Plan, PlanState
from console.operation.plan.job_run import JobRun
from console.operation.views import worst_rows
from tests.console.operation.tally import Tally
from tests.support.shown import Browser

OPERATIONS_QUERIES = (
    18  # session, person and grants 4; list and choices 3; the frame around it 6; room for two
)

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def browser(person: User) -> Client:
    client = Browser()
    client.force_login(person)
    return client


def make(actor: User, **params: Any) -> Plan:
    return services.create_plan("tally", "test", "billing", params, actor)


def start(actor: User, **params: Any) -> Job:
    plan = make(actor, **params)
    return services.apply_plan(plan.id, actor, confirm_text="billing")


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_asks_strangers_to_sign_in(client: Client, tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    for address in ("operations", f"plans/{plan.id}", f"plans/{plan.id}/apply"):
        answer = (
            client.post(f"/c/test/{address}")
            if address.endswith("apply")
            else client.get(f"/c/test/{address}")
        )
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in")
    assert Plan.objects.get().state == PlanState.DRAFT


def test_it_shows_a_plan_with_the_button_that_says_what_it_does(tally: type[Tally], alice: User) -> None:
    plan = make(alice, steps=5)
    text = text_of(browser(alice), f"/c/test/plans/{plan.id}")
    assert "Count to <strong>5</strong>." in text
    assert "A test" in text
    assert f"/c/test/plans/{plan.id}/apply" in text
    assert f"manage.py tally apply {plan.id}" in text


def test_its_confirmation_stands_before_what_each_row_becomes(tally: type[Tally], alice: User) -> None:
    """A phone shows them in this order: many rows do not put the button below them."""
    text = text_of(browser(alice), f"/c/test/plans/{make(alice, steps=5).id}")
    places = [text.index(part) for part in ("Count to <strong>5</strong>.", 'id="apply"', "<pre>")]
    assert places == sorted(places)


def test_it_lets_those_who_may_only_look_look(tally: type[Tally], alice: User, carol: User) -> None:
    plan = make(alice)
    client = browser(carol)
    assert "You may view this plan, but not apply it." in text_of(client, f"/c/test/plans/{plan.id}")
    answer = client.post(f"/c/test/plans/{plan.id}/apply")
    assert answer.status_code == 403
    assert Plan.objects.get().state == PlanState.DRAFT


def test_it_serves_who_may_change_one_group_from_plan_to_job(tally: type[Tally], dora: User) -> None:
    plan, client = make(dora), browser(dora)
    assert 'id="apply"' in text_of(client, f"/c/test/plans/{plan.id}")
    answer = client.post(f"/c/test/plans/{plan.id}/apply")
    job = Job.objects.get()
    assert answer["Location"] == f"/c/test/operations/{job.id}"
    assert "Queued" in text_of(client, answer["Location"])
    client.post(f"/c/test/operations/{job.id}/pause")
    assert Job.objects.get().state == JobState.PAUSED


def test_it_leads_who_discards_to_a_page_that_they_may_see(tally: type[Tally], dora: User) -> None:
    plan, client = make(dora), browser(dora)
    answer = client.post(f"/c/test/plans/{plan.id}/discard")
    assert "dora discarded this plan" in text_of(client, answer["Location"])


def test_it_hides_plans_and_jobs_of_other_groups(tally: type[Tally], alice: User, dora: User) -> None:
    job, client = start(alice), browser(dora)
    Plan.objects.update(subject="ledger")
    Job.objects.update(subject="ledger")
    for address in (f"plans/{job.plan_id}", f"operations/{job.id}"):
        assert client.get(f"/c/test/{address}").status_code == 404
    assert client.post(f"/c/test/operations/{job.id}/pause").status_code == 404
    assert Job.objects.get().state == JobState.QUEUED


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_it_applies_by_post_only(tally: type[Tally], alice: User, method: str) -> None:
    plan = make(alice)
    for deed in ("apply", "discard", "undo", "approve", "again"):
        assert getattr(browser(alice), method)(f"/c/test/plans/{plan.id}/{deed}").status_code == 405


def test_it_refuses_a_form_without_its_token(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(f"/c/test/plans/{plan.id}/apply").status_code == 403
    assert Plan.objects.get().state == PlanState.DRAFT


def test_it_starts_the_job_and_leads_there(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    answer = browser(alice).post(f"/c/test/plans/{plan.id}/apply", {"reason": "INC-1"})
    job = Job.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/c/test/operations/{job.id}")
    assert Plan.objects.get().reason == "INC-1"
    assert AuditEvent.objects.filter(verb="apply", remote_addr="127.0.0.1").count() == 1


def test_it_leads_to_the_job_when_the_button_is_pressed_twice(tally: type[Tally], alice: User) -> None:
    plan, client = make(alice), browser(alice)
    first = client.post(f"/c/test/plans/{plan.id}/apply")
    again = client.post(f"/c/test/plans/{plan.id}/apply", follow=True)
    assert again.redirect_chain == [(first["Location"], 302)]
    assert "You already applied this plan. This is its job;" in again.content.decode()
    assert Job.objects.count() == 1


def test_it_tells_the_second_of_two_operators_who_was_quicker(
    tally: type[Tally], alice: User, bob: User
) -> None:
    plan = make(alice)
    browser(alice).post(f"/c/test/plans/{plan.id}/apply")
    answer = browser(bob).post(f"/c/test/plans/{plan.id}/apply", follow=True)
    assert "alice already applied this plan. This is its job;" in answer.content.decode()
    assert Job.objects.count() == 1


def test_it_says_that_somebody_else_changes_the_same_group(
    tally: type[Tally], alice: User, bob: User
) -> None:
    mine, job = make(bob), start(alice)
    text = text_of(browser(bob), f"/c/test/plans/{mine.id}")
    assert "alice is changing billing now" in text
    assert job.id in text
    runner.run(job.id, "worker-1")
    refused = browser(bob).post(f"/c/test/plans/{mine.id}/apply")
    assert refused.status_code == 409
    assert "the world moved from 0 to 3" in refused.content.decode()


def test_it_says_that_a_job_waits_for_a_broker(tally: type[Tally], alice: User) -> None:
    def away(run: JobRun) -> None:
        raise BrokerUnavailable("10.0.0.1:10911", "connection refused")

    tally.at_step[1] = away
    job, client = start(alice), browser(alice)
    runner.run(job.id, "worker-1")
    text = text_of(client, f"/c/test/operations/{job.id}")
    assert "The job is waiting for a broker or name server." in text
    assert "10.0.0.1:10911" in text
    assert "attempt 1 of 12" in text
    Job.objects.update(lease_until=None)
    runner.run(job.id, "worker-2")
    assert "A broker does not answer; the job waits" not in text_of(client, f"/c/test/operations/{job.id}")


def test_it_says_what_moved_and_offers_a_new_plan(tally: type[Tally], alice: User) -> None:
    plan, client = make(alice), browser(alice)
    Tally.world = 7
    answer = client.post(f"/c/test/plans/{plan.id}/apply")
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "the world moved from 0 to 7" in text
    assert "Nothing was changed." in text
    anew = client.post(f"/c/test/plans/{plan.id}/again")
    assert anew["Location"] == f"/c/test/plans/{Plan.objects.exclude(pk=plan.pk).get().id}"


def test_it_wants_the_typed_name(tally: type[Tally], alice: User) -> None:
    plan, client = make(alice, messages=1_000), browser(alice)
    assert 'data-confirm="billing"' in text_of(client, f"/c/test/plans/{plan.id}")
    answer = client.post(f"/c/test/plans/{plan.id}/apply", {"confirm_text": "Billing", "reason": "why not"})
    assert answer.status_code == 422
    assert "type the name" in answer.content.decode()
    assert 'value="why not"' in answer.content.decode()  # what was typed stays
    assert client.post(f"/c/test/plans/{plan.id}/apply", {"confirm_text": "billing"}).status_code == 302


def test_it_wants_a_second_person(tally: type[Tally], alice: User, bob: User) -> None:
    plan = make(alice, messages=5_000)
    address = f"/c/test/plans/{plan.id}"
    assert "a second person must approve" in text_of(browser(alice), address)
    asked = text_of(browser(bob), address)
    assert "alice requests your approval" in asked
    assert "Waiting for approval" in asked
    refused = browser(alice).post(f"{address}/approve")
    assert refused.status_code == 409
    assert "<strong>Not approved.</strong>" in refused.content.decode()
    assert "Not applied." not in refused.content.decode()
    assert (
        "you or alice can apply it now"
        in browser(bob).post(f"{address}/approve", follow=True).content.decode()
    )
    approved = text_of(browser(alice), address)
    assert re.search("bob approved this plan [^:]* ago: you can apply it now", approved)
    assert re.search("badge[^>]*>.*Approved</span>", approved)
    assert "Waiting for approval" not in approved


def test_it_tells_who_is_asked_to_agree_in_the_count_of_operations(
    tally: type[Tally], alice: User, bob: User, carol: User
) -> None:
    plan = make(alice, messages=5_000)

    def count(person: User) -> str:
        found = re.search(r"data-jobs>(\d*)<", text_of(browser(person), "/c/test/operations"))
        assert found is not None
        return found[1]

    assert [count(person) for person in (alice, bob, carol)] == ["", "1", ""]
    assert "Review and approve" in text_of(browser(bob), "/c/test/operations?state=waiting")
    assert "Review and approve" not in text_of(browser(alice), "/c/test/operations?state=waiting")
    browser(bob).post(f"/c/test/plans/{plan.id}/approve")
    assert count(bob) == ""
    assert "Waiting for approval" not in text_of(browser(bob), "/c/test/operations")
    job = browser(alice).post(f"/c/test/plans/{plan.id}/apply", {"confirm_text": "billing"})
    assert job.status_code == 302
    assert [count(person) for person in (alice, bob, carol)] == ["1", "1", "1"]


def test_it_refuses_to_agree_with_what_is_too_old_or_gone(tally: type[Tally], alice: User, bob: User) -> None:
    old, gone = make(alice, messages=5_000), make(alice, messages=6_000)
    Plan.objects.filter(pk=old.pk).update(expires_at=timezone.now())
    services.discard_plan(gone.id, alice)
    for plan, words in ((old, "This plan has expired."), (gone, "was discarded")):
        answer = browser(bob).post(f"/c/test/plans/{plan.id}/approve")
        assert answer.status_code == 409
        assert words in answer.content.decode()
    assert not AuditEvent.objects.filter(verb="approve").exists()


def test_it_shows_why_a_plan_can_not_be_applied(tally: type[Tally], alice: User) -> None:
    plan = make(alice, blocked="The group is broadcasting.")
    text = text_of(browser(alice), f"/c/test/plans/{plan.id}")
    assert "This plan cannot be applied." in text
    assert 'id="apply"' not in text


def test_it_shows_an_old_plan_as_expired(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    Plan.objects.update(expires_at=timezone.now())
    text = text_of(browser(alice), f"/c/test/plans/{plan.id}")
    assert "This plan has expired." in text
    assert "Make a new plan" in text


def test_it_discards(tally: type[Tally], alice: User) -> None:
    plan, client = make(alice), browser(alice)
    assert client.post(f"/c/test/plans/{plan.id}/discard")["Location"] == "/c/test/operations"
    text = text_of(client, f"/c/test/plans/{plan.id}")
    assert re.search("<strong>alice discarded this plan</strong> at <time [^>]*>[^<]+</time>", text)
    assert f"/c/test/plans/{plan.id}/again" in text
    AuditEvent.objects.all().delete()
    assert "This plan was discarded." in text_of(client, f"/c/test/plans/{plan.id}")


def test_it_says_why_it_can_not_undo(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    answer = browser(alice).post(f"/c/test/plans/{plan.id}/undo")
    assert answer.status_code == 409
    assert "was never applied" in answer.content.decode()


@pytest.mark.parametrize(
    "address", ["plans/op-nothing0", "operations/job-nothing", "plans/op-nothing0/apply"]
)
def test_it_knows_no_others(tally: type[Tally], alice: User, address: str) -> None:
    client = browser(alice)
    answer = (
        client.post(f"/c/test/{address}") if address.endswith("apply") else client.get(f"/c/test/{address}")
    )
    assert answer.status_code == 404


def test_it_shows_a_plan_under_its_own_cluster_only(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    Plan.objects.update(cluster="elsewhere")
    assert browser(alice).get(f"/c/test/plans/{plan.id}").status_code == 404


def test_it_pauses_resumes_and_cancels(tally: type[Tally], alice: User) -> None:
    job, client = start(alice), browser(alice)
    address = f"/c/test/operations/{job.id}"
    assert client.post(f"{address}/pause")["Location"] == address
    assert Job.objects.get().state == JobState.PAUSED
    assert "Resume" in text_of(client, address)
    client.post(f"{address}/resume")
    assert Job.objects.get().state == JobState.QUEUED
    client.post(f"{address}/cancel")
    assert Job.objects.get().cancel_requested
    assert "Cancelling" in text_of(client, address)


def test_it_sets_the_rate(tally: type[Tally], alice: User) -> None:
    job, client = start(alice), browser(alice)
    client.post(f"/c/test/operations/{job.id}/rate", {"rate_per_s": "40"})
    assert Job.objects.get().rate_per_s == 40
    client.post(f"/c/test/operations/{job.id}/rate", {"rate_per_s": "fast"})
    assert Job.objects.get().rate_per_s == 40
    assert "Enter a whole number." in text_of(client, f"/c/test/operations/{job.id}")
    client.post(f"/c/test/operations/{job.id}/rate", {"rate_per_s": "40"})
    assert AuditEvent.objects.filter(verb="rate").count() == 1


def test_it_shows_that_no_worker_has_the_job(tally: type[Tally], alice: User) -> None:
    job, client = start(alice), browser(alice)
    address = f"/c/test/operations/{job.id}"
    assert "No worker is running this job" not in text_of(client, address)
    assert "Queued" in text_of(client, "/c/test/operations")
    Job.objects.update(created_at=timezone.now() - datetime.timedelta(seconds=5))
    part = text_of(client, f"{address}?part=1")
    assert "No worker is running this job. It continues when a worker is available" in part
    assert "Queued" not in part
    shown = client.get("/c/test/operations").content.decode()
    assert "Queued" not in shown and "Waiting for a worker" in shown
    assert "No worker is running this job" in client.get(f"/api/v1/jobs/{job.id}").json()["without_worker"]
    # Where a worker takes it soon, its page promises that.
    assert "usually starts" in render_to_string("operation/_waiting.html")
    assert "usually starts" not in render_to_string("operation/_waiting.html", {"without_worker": "none"})


def test_a_job_without_times_names_no_zone(tally: type[Tally], alice: User) -> None:
    job, client = start(alice), browser(alice)
    assert "data-zone-name" not in client.get(f"/c/test/operations/{job.id}?part=1").content.decode()


def test_it_refuses_control_to_those_who_may_only_look(tally: type[Tally], alice: User, carol: User) -> None:
    job, client = start(alice), browser(carol)
    text = text_of(client, f"/c/test/operations/{job.id}")
    assert "Pause" not in text
    client.post(f"/c/test/operations/{job.id}/pause")
    assert Job.objects.get().state == JobState.QUEUED


def test_it_controls_by_post_only(tally: type[Tally], alice: User) -> None:
    job = start(alice)
    for deed in ("pause", "resume", "cancel", "rate"):
        assert browser(alice).get(f"/c/test/operations/{job.id}/{deed}").status_code == 405
    assert browser(alice).post(f"/c/test/operations/{job.id}/explode").status_code == 404


def test_it_gives_the_live_part_alone(tally: type[Tally], alice: User) -> None:
    job = start(alice)
    part = text_of(browser(alice), f"/c/test/operations/{job.id}?part=1")
    assert "<html" not in part
    assert "Queued" in part


def test_it_shows_what_happened_when_it_is_done(tally: type[Tally], alice: User) -> None:
    job = start(alice)
    runner.run(job.id, "worker-1")
    text = text_of(browser(alice), f"/c/test/operations/{job.id}")
    assert "Done" in text
    assert "Applied by alice" in text


def test_it_lists_plans_and_jobs_newest_first(tally: type[Tally], alice: User) -> None:
    job, plan = start(alice), make(alice, steps=9)
    text = text_of(browser(alice), "/c/test/operations")
    assert text.index(plan.id) < text.index(job.id)
    assert 'data-field="progress"' in text.split('data-field="state"')[1].split("</td>")[0]
    assert job.id not in text_of(browser(alice), "/c/test/operations?q=ledger")
    assert "0 of 2 operations match" in text_of(browser(alice), "/c/test/operations?q=ledger")


def test_it_filters_sorts_and_counts_operations(tally: type[Tally], alice: User, bob: User) -> None:
    done, failed, running = start(alice), start(bob), start(bob)
    runner.run(done.id, "worker-1")
    Job.objects.filter(pk=failed.pk).update(state=JobState.FAILED)
    planned, old, thrown = make(alice), make(alice), make(alice)
    Plan.objects.filter(pk=old.pk).update(expires_at=timezone.now())
    services.discard_plan(thrown.id, alice)
    shown = {
        "state=open": {running.id},
        "state=done": {done.id},
        "state=failed": {failed.id},
        "state=planned": {planned.id},
        "state=expired": {old.id},
        "state=discarded": {thrown.id},
        "by=bob": {failed.id, running.id},
        "q=bill": {done.id, failed.id, running.id, planned.id, old.id, thrown.id},
        f"q={old.id}": {old.id},
        f"q={running.id[:7]}": {running.id},
        "kind=tally&by=bob&state=failed": {failed.id},
        "kind=other": set(),
    }
    every = shown["q=bill"]
    for query, wanted in shown.items():
        text = text_of(browser(alice), f"/c/test/operations?{query}")
        assert {name for name in every if f">{name}</span>" in text} == wanted, query
    text = text_of(browser(alice), "/c/test/operations?by=bob")
    assert "In progress <b>1</b>" in text
    assert "Failed <b>1</b>" in text
    first = text_of(browser(alice), "/c/test/operations?sort=by&dir=desc")
    assert first.index(running.id) < first.index(done.id)


def test_its_file_has_state_words_and_times(tally: type[Tally], alice: User) -> None:
    job, plan = start(alice), make(alice)
    runner.run(job.id, "worker-1")
    answer = browser(alice).get("/c/test/operations?format=csv&sort=state")

    async def read() -> bytes:
        return b"".join([piece async for piece in answer])

    lines = list(csv.DictReader(io.StringIO(asyncio.run(read()).decode())))
    assert [(line["id"], line["where"], line["created_by"]) for line in lines] == [
        (job.plan_id, "done", "alice"),
        (plan.id, "planned", "alice"),
    ]
    assert lines[0]["summary"] == plan.summary
    assert (lines[0]["ended_at"][:2], lines[1]["ended_at"]) == ("20", "")


def test_it_offers_to_undo_what_can_be_taken_back_from_the_list(tally: type[Tally], alice: User) -> None:
    yes, no = start(alice), start(alice, undoable=False)
    for job in (yes, no):
        runner.run(job.id, "worker-1")
        Tally.world = 0
    text = text_of(browser(alice), "/c/test/operations")
    assert f"/c/test/plans/{yes.plan_id}/undo" in text
    assert f"/c/test/plans/{no.plan_id}/undo" not in text


def test_it_offers_no_undo_of_what_is_undone(tally: type[Tally], alice: User) -> None:
    done, client = start(alice), browser(alice)
    runner.run(done.id, "worker-1")
    undo = services.undo(done.plan_id, alice)
    assert f"/c/test/plans/{done.plan_id}/undo" in text_of(client, "/c/test/operations"), "planned only"
    job = services.apply_plan(undo.id, alice, confirm_text="billing")
    pages = ("operations", f"plans/{done.plan_id}", f"operations/{done.id}")
    for _ in range(2):  # while it is undone, and after
        texts = [text_of(client, f"/c/test/{page}") for page in pages]
        assert not any(f"/c/test/plans/{done.plan_id}/undo" in text for text in texts)
        assert "its undo:" in texts[1] and f'/c/test/plans/{undo.id}"' in texts[0]
        runner.run(job.id, "worker-1")


def test_it_lists_operations_on_what_a_person_may_look_at(
    tally: type[Tally], alice: User, dora: User
) -> None:
    mine = make(dora)
    other = services.create_plan("tally", "test", "ledger", {}, alice)
    text = text_of(browser(dora), "/c/test/operations")
    assert mine.id in text
    assert other.id not in text
    assert "1 not shown: you do not have the VIEW permission for them." in text


def test_it_asks_the_database_as_often_for_many_operations_as_for_one(
    tally: type[Tally], alice: User, django_assert_max_num_queries: Any
) -> None:
    client = browser(alice)
    start(alice)
    for index in range(40):
        services.create_plan("tally", "test", f"group-{index}", {}, alice)
    with django_assert_max_num_queries(OPERATIONS_QUERIES) as asked:
        client.get("/c/test/operations")
    assert len(asked) > 5


def test_it_refuses_the_list_by_other_methods(tally: type[Tally], alice: User) -> None:
    assert browser(alice).post("/c/test/operations").status_code == 405


def test_it_shows_of_very_many_queues_those_that_need_a_look() -> None:
    rows = [SimpleNamespace(state=state) for state in ("verified", "failed", "waiting")]
    assert worst_rows(rows, 3) == rows
    assert [row.state for row in worst_rows(rows, 2)] == ["failed", "waiting"]
