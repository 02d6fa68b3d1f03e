"""The list: what the survey finds, orders, hidden empties, few queries; pruned ledgers; exports."""

from __future__ import annotations

import json
import time
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test.utils import CaptureQueriesContext

from console.brokers.mqadmin import Message
from console.deadletter import exports, selectors, services, survey
from console.deadletter.dead_letters import Filter
from console.deadletter.models import DeadLetterSurvey, ReplayLedger
from console.deadletter.selectors import Cause
from console.lag.models import TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.lists.query import ListQuery
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.deadletter.letters import DLQ, GROUP, TOPIC, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
HOUR_MS = 3_600_000


def as_a_round_saw_it(live: LiveCluster, letters: int) -> None:
    TopicRow.objects.create(cluster=live.name, topic=DLQ, kind="DLQ", messages=letters, perm=6)
    letters_are(live, letters)


def letters_are(live: LiveCluster, end: int) -> None:
    queue = TopicQueueRow(topic=DLQ, broker_name="b", queue_id=0, min_offset=0, max_offset=end)
    sample_queues.save(live.name, queue)


def replay(live: LiveCluster, **params: object) -> Job:
    plan = operation_services.create_plan(
        "dead_letter_replay", live.name, GROUP, {"target": "failed_group", **params}, None
    )
    job = operation_services.apply_plan(plan.id, None, GROUP)
    runner.run(job.id, "worker-1")
    return job


def whole(answer: Any) -> bytes:
    """A streamed answer, read to its end."""
    return b"".join(answer)


def test_it_knows_causes_ages_and_expiry_without_asking_a_broker(live: LiveCluster) -> None:
    group_with_topics(live)
    before_ms = int(time.time() * 1_000)
    write_letters(live, 2)
    for cause in ("Lock timeout", "Lock timeout", "HTTP 503"):
        live.admin.send(live.addr, Message(DLQ, b"x", {"RETRY_TOPIC": TOPIC, "error": cause}), queue_id=0)
    as_a_round_saw_it(live, 5)
    (row,) = selectors.dead_letter_page(live.name)
    assert (row.expires_ms, row.causes, row.settled) == (None, (), None), "unknown until it was looked at"
    replay(live, filter={"key": "k0"})
    now_ms = int(time.time() * 1_000)
    assert survey.survey_cluster(live.name, now_ms=now_ms) == 1
    (row,) = selectors.dead_letter_page(live.name)
    assert row.causes[0] in (Cause("Lock timeout", 2), Cause("", 2))
    assert {each.cause: each.letters for each in row.causes} == {
        "Lock timeout": 2,
        "": 2,
        "HTTP 503": 1,
    }
    assert (row.sampled, row.settled, row.last_replay_sent) == (5, 1, 1)
    assert row.oldest_ms is not None and before_ms <= row.oldest_ms <= now_ms
    assert row.expires_ms == row.oldest_ms + 72 * HOUR_MS, "fileReservedTime of the broker"
    assert survey.survey_cluster(live.name, now_ms=now_ms + 60_000) == 0, "nothing moved"
    letters_are(live, 6)
    assert survey.survey_cluster(live.name, now_ms=now_ms + 120_000) == 1


def test_it_sorts_with_unknown_last_and_hides_empty_ones() -> None:
    for number, (group, count) in enumerate((("a", 5), ("b", 0), ("c", None), ("d", 9))):
        TopicRow.objects.create(cluster="c", topic=f"%DLQ%{group}", kind="DLQ", messages=count, perm=6)
        if group in "ad":
            DeadLetterSurvey.objects.create(
                cluster="c",
                group=group,
                begin_offset=0,
                end_offset=1,
                oldest_ms=1_000 * number,
                retention_ms=HOUR_MS,
                read_at_ms=1,
            )
    page = selectors.dead_letter_groups("c")
    assert [row.group for row in page.rows] == ["a", "d", "c"]
    assert dict(page.counts_by_status) == {"letters": 3, "empty": 1}
    down = selectors.dead_letter_groups("c", ListQuery(sort="expires", descending=True))
    assert [row.group for row in down.rows] == ["d", "a", "c"]
    every = selectors.dead_letter_groups(
        "c", ListQuery(sort="count", descending=False, per_page=2, page=2), with_empty=True
    )
    assert ([row.group for row in every.rows], every.pages) == (["d", "c"], 2)


def test_it_lists_with_few_queries() -> None:
    sample_rows.cluster("test")
    client = signed_in()
    for number in range(30):
        sample_rows.topic_row(f"%DLQ%g{number}", cluster="test", kind="DLQ", messages=number)
    with (
        CaptureQueriesContext(connections["default"]) as people,
        CaptureQueriesContext(connections["metrics"]) as rows,
    ):
        assert client.get("/c/test/dead-letters?part=1").status_code == 200
    assert len(people) <= 16 and len(rows) <= 8


def test_it_prunes_ledgers_of_finished_replays_only(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    finished = replay(live, filter={"tag": "even"})
    replay(live)
    Job.objects.exclude(pk=finished.pk).update(finished_at=None)
    now_ms = int(time.time() * 1_000)
    assert services.prune_ledger(now_ms=now_ms) == 0, "younger than LEDGER_RETENTION_DAYS"
    assert services.prune_ledger(now_ms=now_ms + 31 * 24 * HOUR_MS) == 2
    assert set(ReplayLedger.objects.values_list("plan_id", flat=True)).isdisjoint({finished.plan_id})
    assert Job.objects.get(pk=finished.pk).result["sent"] == 2, "the sums stay"


def test_it_exports_what_matches(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    live.admin.send(live.addr, Message(DLQ, b"\xff\x00", {"KEYS": "bin"}), queue_id=0)
    out = StringIO()
    call_command("dlq", "export", GROUP, "--tag", "even", stdout=out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["keys"], line["body"], line["original_topic"]) for line in lines] == [
        ("k0", "letter 0", TOPIC),
        ("k2", "letter 2", TOPIC),
    ]
    (binary,) = exports.letters(live.name, GROUP, Filter(key="bin"))
    assert (binary.body, binary.body_encoding) == ("/wA=", "base64")
    table = list(exports.letter_lines(exports.letters(live.name, GROUP, Filter(key="k1")), "csv"))
    assert table[0].startswith("broker_name,queue_id,queue_offset,") and ",letter 1,utf-8" in table[1]
    client = signed_in()
    answer = client.get(f"/c/{live.name}/dead-letters/{GROUP}/export?format=csv&key=k1")
    assert answer["Content-Disposition"].startswith("attachment") and b"letter 1" in whole(answer)
    job = replay(live)
    address = f"/c/{live.name}/dead-letters/{GROUP}/ledger.csv?plan={job.plan_id}"
    assert client.get(address).status_code == 200 and client.get(f"{address}x").status_code == 404
    assert "".join(exports.ledger_lines(job.plan_id)).count(",SENT,") == 4


def test_it_refuses_an_export_of_what_can_not_be_read(live: LiveCluster) -> None:
    live.create_topic(DLQ, queues=1, perm=2)
    answer = signed_in().get(f"/c/{live.name}/dead-letters/{GROUP}/export")
    assert answer.status_code == 422 and "write-only" in answer.content.decode()


def test_it_offers_to_allow_reading(live: LiveCluster) -> None:
    live.create_topic(DLQ, queues=1, perm=2)
    sample_rows.topic_row(DLQ, cluster=live.name, kind="DLQ", messages=6, perm=2)
    client = signed_in()
    address = f"/c/{live.name}/dead-letters/{GROUP}"
    assert "Allow reading" in client.get(address).content.decode()
    answer = client.post(f"{address}/readable")
    assert answer.status_code == 302
    text = client.get(answer["Location"]).content.decode()
    assert "Allow reading" in text and "Allow reading it" in text
    looker = signed_in("looker", verbs=("VIEW", "REPLAY"))
    assert looker.post(f"{address}/readable").status_code == 403
