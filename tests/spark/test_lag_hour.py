"""Hourly rows in the words of the report, and of files that are none: what a task does, without Spark around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, History, generated
from tests.spark.work_of import hour_rows, spec


@pytest.fixture(scope="module")
def history() -> History:
    return generated()


def by_key(found: list[dict[str, Any]]) -> dict[lag_oracle.Key, dict[str, Any]]:
    names = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
    return {tuple(row[name] for name in names): row for row in found}


def test_it_says_what_happened_in_words_of_the_report(history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    found = by_key(hour_rows(spec(files, START, 2, as_of_ms=AS_OF))[0])
    first = found[START, "topic", "analytics", "clicks", "", -1]
    assert (first["kind"], first["lost"], first["samples"], first["expected_samples"]) == (
        "GROUP",
        10,
        52,
        60,
    )
    assert (first["max_gap_ms"], first["coverage_pct"]) == (9 * STEP, 86.67)
    assert found[START, "topic", "billing", "orders", "", -1]["rewinds"] == 1
    assert found[START, "topic", "billing", "%RETRY%billing", "", -1]["kind"] == "RETRY"
    running = found[START + HOUR, "topic", "billing", "orders", "", -1]
    assert (running["window_end_ms"], running["expected_samples"]) == (AS_OF, 40)
    assert (running["samples"], running["partial_samples"], running["queues"]) == (35, 5, 2)
    # a queue without traffic or backlog is a row of its group and topic only
    assert (START, "topic", "quiet", "idle", "", -1) in found
    assert (START, "queue", "quiet", "idle", "broker-a", 0) not in found


def test_it_names_broken_files_and_computes_the_rest(history: History, tmp_path: Path) -> None:
    first, *log = history.write_chunk(tmp_path), *history.write_log(tmp_path)
    garbage = tmp_path / "garbage.parquet"
    garbage.write_bytes(b"PAR1 this is none PAR1")
    foreign = tmp_path / "foreign.wal"
    foreign.write_bytes(b"another program's file, long enough for a header")
    flipped = bytearray(Path(log[-1]).read_bytes())
    flipped[60] ^= 1
    Path(log[-1]).write_bytes(bytes(flipped))
    gone = str(tmp_path / "gone.parquet")
    files = [str(garbage), first, str(foreign), gone, *log]
    rows, warnings = hour_rows(spec(files, START, 2))
    found = by_key(rows)
    assert [text.removeprefix(str(tmp_path)).split(": ")[:2] for text in sorted(set(warnings))] == [
        [f"/{Path(log[-1]).name}", "damaged inside, read up to there"],
        ["/foreign.wal", "WalError"],
        ["/garbage.parquet", "ArrowInvalid"],
        ["/gone.parquet", "FileNotFoundError"],
    ]
    expected = lag_oracle.rows(history.samples, [(START, START + HOUR)], STEP)
    for key, figures in expected.items():
        assert {name: found[key][name] for name in figures} == figures, key
    last_segment_ms = int(Path(log[-1]).stem)
    second = found[START + HOUR, "topic", "analytics", "clicks", "", -1]
    assert second["samples"] == (last_segment_ms - START - HOUR) // STEP
