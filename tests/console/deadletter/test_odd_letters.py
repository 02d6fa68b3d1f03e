"""Letters with NUL bytes, half surrogates and 4 MiB bodies: replayed once, accounted for, exported."""

from __future__ import annotations

import base64
import json

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.brokers.mqadmin import MessageRecord
from console.brokers.queues import BrokerQueue
from console.deadletter import dead_letters, exports, survey
from console.deadletter.dead_letters import Filter
from console.deadletter.models import DeadLetterSurvey, ReplayLedger
from console.lag.models import TopicRow
from console.operation import selectors, services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.deadletter.letters import DLQ, GROUP, RETRY, TOPIC, group_with_topics
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
MIB = 1024 * 1024
ODD = "a\0b" * 100  # 300 characters, 600 when they are kept


@pytest.fixture
def odd(live: LiveCluster) -> LiveCluster:
    group_with_topics(live)
    for body in (b"nul \0 in it", b"\xff\xfe\0", b"x" * (4 * MIB)):
        properties = {"KEYS": ODD, "UNIQ_KEY": f"id-{ODD}", "RETRY_TOPIC": TOPIC, "exception": "bad\0cause"}
        live.send(DLQ, 0, [body], **properties)
    return live


def replay(live: LiveCluster, actor: User) -> Job:
    plan = services.create_plan("dead_letter_replay", live.name, GROUP, {"target": "failed_group"}, actor)
    job = services.apply_plan(plan.id, actor, plan.confirm_text, reason="because\0of \ud83d")
    runner.run(job.id, "worker-1")
    return selectors.job(job.id)


def copies(live: LiveCluster) -> list[MessageRecord]:
    place = live.admin.topic_stats(live.addr, RETRY).offset_table
    (queue,) = place
    here = BrokerQueue(queue, live.addr, 0, place[queue].max_offset)
    found = dead_letters.read_window(live.admin, here, 0, here.max_offset)
    return [each for each in found if isinstance(each, MessageRecord)]


def test_they_are_sent_as_they_are_and_kept_as_the_database_can(odd: LiveCluster, alice: User) -> None:
    job = replay(odd, alice)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert (job.result["matched"], job.result["sent"]) == (3, 3)
    assert [copy.body for copy in copies(odd)] == [b"nul \0 in it", b"\xff\xfe\0", b"x" * (4 * MIB)]
    assert {copy.keys for copy in copies(odd)} == {ODD}, "the consumer gets the key of the message"
    row = ReplayLedger.objects.first()
    assert row is not None
    assert row.keys == ("a\\x00b" * 100)[:255]
    assert row.message_id == ("id-" + "a\\x00b" * 100)[:255]
    assert job.plan.reason == "because\\x00of \\ud83d"


def test_a_second_replay_knows_them_by_what_was_kept(odd: LiveCluster, alice: User) -> None:
    replay(odd, alice)
    wanted = {"target": "failed_group"}
    plan = services.create_plan("dead_letter_replay", odd.name, GROUP, wanted, alice)
    assert (plan.before["already"], plan.blocked) == (3, "No dead letter is left to send.")


def test_they_pass_through_exports(odd: LiveCluster, alice: User) -> None:
    job = replay(odd, alice)
    lines = list(exports.letter_lines(exports.letters(odd.name, GROUP, Filter()), "ndjson"))
    found = [json.loads(line) for line in lines]
    assert [each["keys"] for each in found] == [ODD] * 3
    assert found[0]["body"] == "nul \0 in it"
    assert base64.b64decode(found[1]["body"]) == b"\xff\xfe\0"
    assert found[2]["body"] == "x" * (4 * MIB)
    browser = signed_in("root")
    for kind in ("csv", "ndjson"):
        assert _get(browser, f"/c/test/dead-letters/{GROUP}/export?format={kind}").count(b"bad") == 6, (
            "property and cause"
        )
    assert _get(browser, f"/c/test/dead-letters/{GROUP}/ledger.csv?plan={job.plan_id}").count(b"\\x00") >= 3


def _get(browser: Client, path: str) -> bytes:
    answer = browser.get(path)
    assert answer.status_code == 200, path
    return b"".join(answer)


def test_their_causes_are_surveyed(odd: LiveCluster) -> None:
    TopicRow.objects.create(cluster=odd.name, topic=DLQ, kind="DLQ", perm=6, messages=3, read_at_ms=1)
    found = survey._survey(odd.admin, odd.name, GROUP)
    DeadLetterSurvey.objects.create(
        cluster=odd.name, group=GROUP, begin_offset=0, end_offset=3, read_at_ms=1, **found
    )
    assert DeadLetterSurvey.objects.get().causes == [{"cause": "bad\\x00cause", "letters": 3}]


def test_large_letters_are_read_few_at_a_time(live: LiveCluster) -> None:
    group_with_topics(live)
    for number in range(12):
        live.send(DLQ, 0, [b"%d " % number + b"x" * (4 * MIB - 16)])
    live.send(DLQ, 0, [b"small"] * 10)
    (place,) = dead_letters.places(live.admin, DLQ).queues
    windows = list(dead_letters.LetterReader(live.admin, place))
    letters = [each for window in windows for each in window.letters]
    assert [letter.queue_offset for letter in letters] == list(range(22))
    assert all(isinstance(each, MessageRecord) for each in letters)
    most = max(sum(len(each.body) for each in window.letters) for window in windows)  # type: ignore[union-attr]
    assert most <= dead_letters.WINDOW_BYTES_MAX + 4 * MIB
