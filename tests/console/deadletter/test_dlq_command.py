"""`manage.py dlq`, and the list and sample behind it."""

from __future__ import annotations

import json
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from console.deadletter import selectors, services
from console.deadletter.dead_letters import Filter
from console.lag.models import TopicRow
from tests.console.deadletter.letters import DLQ, RETRY, end, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "words of a command; the ledger is written and read as in deadletter/test_plans"
    ),
]


def call(*arguments: str) -> str:
    out = StringIO()
    call_command("dlq", *arguments, stdout=out)
    return out.getvalue()


def test_it_replays_from_the_command_line(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 6)
    made = json.loads(call("replay", "billing", "--tag", "even", "--rate", "500", "--format", "json"))
    assert made["messages"] == 3
    assert "SUCCEEDED" in call("apply", made["id"], "--here")
    assert end(live, RETRY) == 3
    text = call("replay", "billing")
    assert "Send 3 dead letters of billing again" in text
    assert "6 matched, 3 replayed before" in text and "manage.py dlq apply op-" in text


def test_it_allows_reading_from_the_command_line_and_takes_it_back(live: LiveCluster) -> None:
    live.create_topic(DLQ, queues=1, perm=2)
    text = call("readable", "billing")
    assert f"Allow reading {DLQ} on {live.broker_name}." in text
    assert "perm" in text and "2 →" in text
    (plan_id,) = re.findall(r"Apply until .* UTC: manage.py dlq apply (op-\w+)", text)
    assert live.admin.topic_config(live.addr, DLQ).perm == 2, "a plan changes nothing"
    assert "SUCCEEDED" in call("apply", plan_id, "--here")
    assert live.admin.topic_config(live.addr, DLQ).perm == 6
    assert "It cannot be applied" in call("readable", "billing")
    back = json.loads(call("undo", plan_id, "--format", "json"))
    assert "SUCCEEDED" in call("apply", back["id"], "--here")
    assert live.admin.topic_config(live.addr, DLQ).perm == 2


def test_it_refuses_a_group_without_dead_letters_in_words(live: LiveCluster) -> None:
    with pytest.raises(CommandError, match="No broker has a topic %DLQ%nobody"):
        call("readable", "nobody")


def test_it_samples_newest_first_and_says_what_was_replayed(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 30)
    found = services.sample("test", "billing", Filter(tag="odd"), limit=3)
    assert [row.message.keys for row in found.rows] == ["k29", "k27", "k25"]
    assert {row.original_topic for row in found.rows} == {"orders"}
    assert found.rows[0].replayed_by == "" and found.scanned == 30
    assert "letter 29" in call("sample", "billing", "--limit", "1")


def test_it_lists_what_the_last_round_saw(db: None) -> None:
    for group, count, perm in (("billing", 7, 6), ("audit", None, 6), ("legacy", 9, 2)):
        TopicRow.objects.create(
            cluster="c",
            topic=f"%DLQ%{group}",
            kind="DLQ",
            messages=count,
            perm=perm,
            trend=[None, 0.01, 0.02, 9.0] if group == "billing" else [],
        )
    rows = selectors.dead_letter_page("c")
    assert [(row.group, row.count, row.readable) for row in rows] == [
        ("audit", None, True),
        ("legacy", 9, False),
        ("billing", 7, True),
    ]
    assert (rows[2].growth_per_h, rows[2].growth_minutes) == (1.8, 2), "the running minute is not counted yet"
    assert rows[0].growth_per_h is None
    TopicRow.objects.filter(topic="%DLQ%billing").update(messages=1)
    billing = selectors.dead_letters_of("c", "billing")
    assert billing is not None and billing.growth_per_h == 1, "no more arrived than there are"
    assert [row.group for row in selectors.dead_letter_page("c", query="LEG")] == ["legacy"]
    assert selectors.dead_letters_of("c", "bill") is None
