"""Dead letters in the browser: list, sample, replay plan, ledger, against a real broker."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.deadletter.models import DeadLetterSurvey
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.deadletter import letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_rows
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
ADDRESS = "/c/test/dead-letters/billing"


@pytest.fixture
def client(live: LiveCluster, alice: User) -> Client:
    """A browser of Alice beside six dead letters of billing, as a round has seen them."""
    letters.group_with_topics(live)
    letters.write_letters(live, 6)
    sample_rows.topic_row(letters.DLQ, cluster="test", kind="DLQ", messages=6)
    browser = Browser()
    browser.force_login(alice)
    return browser


@pytest.fixture
def viewer() -> Client:
    """Somebody who may only look, at a cluster whose brokers are away."""
    sample_rows.cluster("test", namesrv_addrs="127.0.0.1:1")
    sample_rows.topic_row(letters.DLQ, cluster="test", kind="DLQ", messages=6)
    return signed_in("viewer", verbs=("VIEW",))


def test_it_asks_strangers_to_sign_in() -> None:
    for address in ("/c/test/dead-letters", ADDRESS):
        assert Client().get(address).status_code == 302


def test_it_refuses_groups_one_may_not_see(viewer: Client) -> None:
    some = signed_in("some", verbs=("VIEW",), names="ledger")
    assert some.get(ADDRESS).status_code == 403
    listed = some.get("/c/test/dead-letters").content.decode()
    assert "1 not shown: you do not have the VIEW permission" in listed and "billing" not in listed


def test_it_refuses_other_methods(viewer: Client) -> None:
    assert viewer.post("/c/test/dead-letters").status_code == 405
    assert viewer.put(ADDRESS).status_code == 405


def test_it_refuses_replays_to_those_who_may_only_look(viewer: Client) -> None:
    assert "Plan the replay" not in viewer.get(ADDRESS).content.decode()
    assert viewer.post(ADDRESS, {"target": "failed_group"}).status_code == 403
    assert Plan.objects.count() == 0


def test_it_lists_groups_with_their_letters(viewer: Client) -> None:
    text = viewer.get("/c/test/dead-letters").content.decode()
    assert "6 messages in 1 group failed all their retries" in text
    assert ADDRESS in text
    # What is rendered again with the list counts the same letters above it.
    part = viewer.get("/c/test/dead-letters?part=1").content.decode()
    assert '<template data-for="sums"> 6 messages in 1 group' in part


def test_it_says_that_nobody_gave_up() -> None:
    sample_rows.cluster("test")
    assert "No group has dead letters" in signed_in().get("/c/test/dead-letters").content.decode()


def test_it_says_why_there_is_no_sample(viewer: Client) -> None:
    answer = viewer.get(ADDRESS)
    assert answer.status_code == 200
    assert "127.0.0.1:1" in answer.content.decode()


def test_it_shows_a_sample_newest_first(client: Client) -> None:
    text = client.get(ADDRESS).content.decode()
    places = [text.index(f"letter {number}<") for number in (5, 3, 0)]
    assert places == sorted(places)


def test_it_narrows_the_sample(client: Client) -> None:
    text = client.get(f"{ADDRESS}?tag=odd&key=k3").content.decode()
    assert "letter 3<" in text
    assert "letter 5<" not in text
    assert "No dead letter matches" in client.get(f"{ADDRESS}?key=nothing").content.decode()


def test_it_plans_a_replay_of_what_matches(client: Client) -> None:
    data = {"target": "failed_group", "rate_per_s": "40", "tag": "even"}
    answer = client.post(ADDRESS, data)
    plan = Plan.objects.get()
    assert answer["Location"] == f"/c/test/plans/{plan.id}"
    assert plan.params == {
        "group": "billing",
        "target": "failed_group",
        "filter": {"tag": "even"},
        "rate_per_s": 40,
        "skip_replayed": True,
    }
    text = client.get(f"/c/test/plans/{plan.id}").content.decode()
    assert "Replay 3 dead letters" in text
    assert "Other groups receive nothing" in text


def test_it_says_how_large_an_export_is(client: Client) -> None:
    for kind in ("ndjson", "csv"):
        size = client.get(ADDRESS).context["export_sizes"][kind]
        real = len(b"".join(client.get(f"{ADDRESS}/export?format={kind}")))
        assert size.words == f"every dead letter: 6 rows, {size.short}"
        assert size.bytes == pytest.approx(real, rel=0.05)
        assert size.words in client.get(ADDRESS).content.decode()
    some = client.get(f"{ADDRESS}?tag=none").context["export_sizes"]["csv"]
    assert some.words.startswith("the dead letters that match the filter: at most 6 rows, ")


def test_it_shows_the_ledger_of_a_replay(client: Client, alice: User) -> None:
    client.post(ADDRESS, {"target": "failed_group", "rate_per_s": ""})
    plan = Plan.objects.get()
    client.post(f"/c/test/plans/{plan.id}/apply")
    runner.run(Job.objects.get().id, "worker-1")
    text = client.get(f"{ADDRESS}?plan={plan.id}").content.decode()
    assert "Sent 6" in text
    # Its account stands above it, and both below the list of groups, with the way to the rest.
    assert "<b>6</b>sent" in text
    listed = client.get("/c/test/dead-letters").content.decode()
    assert "Replay of billing" in listed and "newest 6 of 6" in listed and f"{plan.id}:" in listed
    assert f'href="{ADDRESS}?plan={plan.id}&amp;state=SENT#ledger"' in re.sub(r"\s+(?=/c/)", "", listed)
    assert f"{plan.id}:" in text  # replay keys
    real = len(b"".join(client.get(f"{ADDRESS}/ledger.csv?plan={plan.id}")))
    about = client.get(f"{ADDRESS}?plan={plan.id}&state=OUTCOME_UNKNOWN").context["ledger"].file_size
    assert about.bytes == pytest.approx(real, rel=0.05)
    assert f"every row of the ledger, whatever its state: 6 rows, {about.short}" in text
    job = client.get(f"/c/test/operations/{Job.objects.get().id}").content.decode()
    assert 'class="sent" x="0.00%" width="100.00%"' in job
    # The newest rows of the ledger stand beside the progress, each a link to its dead letter.
    assert "the newest 6 dead letters" in job and f"{plan.id}:" in job
    for page in (text, job):
        assert re.findall(r'<td role="cell" class="num muted p3">(\d)</td>', page) == list("654321")
    assert "/c/test/messages/broker-a-0-5?topic=%25DLQ%25billing&amp;at=broker-a%3A0%3A5" in job


def test_the_ledger_has_its_place_before_the_first_replay(client: Client) -> None:
    for address in (ADDRESS, "/c/test/dead-letters"):
        assert "No replay yet" in client.get(address).content.decode()


def test_the_list_shows_the_replay_of_groups_one_may_see(client: Client) -> None:
    client.post(ADDRESS, {"target": "failed_group", "rate_per_s": "40"})
    client.post(f"/c/test/plans/{Plan.objects.get().id}/apply")
    part = client.get("/c/test/dead-letters?part=replay").content.decode()
    assert f"/c/test/operations/{Job.objects.get().id}/pause" in part
    some = signed_in("some", verbs=("VIEW",), names="ledger")
    assert "Replay of billing" not in some.get("/c/test/dead-letters").content.decode()
    only_viewer = signed_in("only viewer", verbs=("VIEW",)).get("/c/test/dead-letters").content.decode()
    assert "Replay of billing" in only_viewer and "/pause" not in only_viewer


def test_it_shows_causes_with_their_share_as_filters(viewer: Client) -> None:
    DeadLetterSurvey.objects.create(
        cluster="test",
        group="billing",
        begin_offset=0,
        end_offset=8,
        sampled=8,
        read_at_ms=1,
        causes=[{"cause": "Timeout: 5 s & more", "letters": 6}, {"cause": "", "letters": 2}],
    )
    text = viewer.get(ADDRESS).content.decode()
    causes = text[text.index('class="causes"') :]
    causes = causes[: causes.index("</ol>")]
    assert '?cause=Timeout%3A%205%20s%20%26%20more#sample">Timeout: 5 s &amp; more</a>' in causes
    assert 'width="75%"' in causes and "75 %" in causes and "no cause given" in causes


def test_it_shows_a_replay_that_is_not_finished_beside_the_form_for_the_next(client: Client) -> None:
    client.post(ADDRESS, {"target": "failed_group", "rate_per_s": "40"})
    client.post(f"/c/test/plans/{Plan.objects.get().id}/apply")
    text = client.get(ADDRESS).content.decode()
    assert f"/c/test/operations/{Job.objects.get().id}/rate" in text
    assert "Plan the replay" in text and "A replay of this group is not finished." in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert {"rate", "plan-rate"} <= set(ids)
    assert [one for one, times in Counter(ids).items() if times > 1] == [], "a label names one field"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"target": "everybody"}, "Select a valid choice"),
        ({"target": "failed_group", "rate_per_s": "0"}, "Enter at least 1."),
        (
            {"target": "failed_group", "since": "2026-03-12T08:00:00", "until": "2026-03-12T07:00:00"},
            "The end must lie after the start.",
        ),
    ],
)
def test_it_says_what_is_wrong_with_a_replay(client: Client, data: dict[str, str], words: str) -> None:
    answer = client.post(ADDRESS, data)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Plan.objects.count() == 0


def test_a_refused_replay_keeps_what_was_typed(client: Client) -> None:
    typed = {
        "target": "client",
        "rate_per_s": "7",
        "stop_after_failures": "3",
        "send_again": "on",
        "key": "k3",
    }
    page = " ".join(client.post(ADDRESS, typed).content.decode().split())
    assert 'value="client" checked' in page and 'name="send_again" checked' in page
    assert all(f'value="{value}"' in page for value in ("7", "3", "k3"))
