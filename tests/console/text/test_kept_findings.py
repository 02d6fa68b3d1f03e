"""Findings of rows that were written before: in the language of who reads them, whatever wrote the row."""

from __future__ import annotations

import json
import re

import pytest
from django.utils import translation

from console.group.findings import QUEUE_WORDS, findings
from console.lag.models import GroupRow
from console.lag.past.mark_words import words
from console.lag.past.marks import SILENT, Mark
from console.lag.round.view import Silence, silence_text
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow
from console.lag.rows.reasons import EVIDENCE, reason_text
from console.text import Text, text_of
from console.text.columns import TextsDecoder, as_stored, of_stored
from console.text.value import with_json
from consumers.errors import BrokerUnavailable, Reason
from spark.lag.round.status import Evidence
from spark.lag.round.status import Reason as Shown

NAMES = {"broker", "orders", "UTC"}
FIGURES = dict.fromkeys(
    ("committed", "high", "number", "lag", "time_ms", "first", "last", "before", "after"), 70_000
)
REFUSED = text_of(BrokerUnavailable("10.0.0.1:10911", Reason("cannot connect: %(why)s", {"why": "111"})))
REASONS = {
    **{one.value: reason_text(Shown(one, FIGURES)) for one in Evidence},
    "SILENT": silence_text("broker-a", Silence(70_000, REFUSED)),
    # Of a version before texts had values.
    "PLAIN": "nothing is stored",
}


def english_in(text: Text) -> list[str]:
    return [word for word in re.findall(r"[A-Za-z]{3,}", text.local()) if word not in NAMES]


def kept(reason: Text | str) -> Text:
    """A reason as a later process reads it from its column."""
    return of_stored(as_stored(reason) if isinstance(reason, Text) else reason)


def test_every_evidence_has_a_sentence() -> None:
    assert EVIDENCE.keys() == set(Evidence)


@pytest.mark.parametrize("status", [*QUEUE_WORDS])
@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS.keys())
def test_findings_of_a_group_are_in_the_readers_language(status: str, reason: Text | str) -> None:
    row = QueueRow(
        group="g",
        topic="orders",
        broker_name="broker-a",
        queue_id=3,
        status=status,
        lag=5,
        reason=kept(reason),
    )
    group = GroupRow(group="g", status=status, clients=1, reason=kept(reason))
    found = findings(group, ColumnRows.of(QueueRow, [row]), [])
    assert found
    for one in found:
        assert str(reason) in one.text or "broker-a" in one.title
        with translation.override("zh-hans"):
            assert (english_in(one.title), english_in(one.text)) == ([], [])


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS.keys())
def test_events_of_a_report_are_in_the_readers_language(reason: Text | str) -> None:
    """A report keeps its events as JSON, with the reason as a value or, from an earlier version, as a sentence."""
    cause = reason if isinstance(reason, Text) else Text(reason)
    stored = {**Mark(70_000, SILENT, broker_name="broker-a", cause=cause).as_json(), "cause": reason}
    read = Mark.from_json(json.loads(json.dumps(with_json(stored)), cls=TextsDecoder))
    assert read.cause == str(reason)
    assert read.cause.local() in words(read)
    with translation.override("zh-hans"):
        assert english_in(Text.foreign(words(read))) == []
