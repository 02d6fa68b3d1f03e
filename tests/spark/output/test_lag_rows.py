"""Rows of hours and days against SQL over the same files, literal cases, and however history lies in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from spark.job import Promise
from spark.lag.codes import WORST_FIRST
from spark.lag.history import chunk
from spark.lag.samples import Samples, SeriesKey
from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, History, generated
from tests.spark.lag import judged as made_up
from tests.spark.work_of import day_rows, hour_rows, queue_chunk, spec

MINUTE = 60_000
NAMES = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
Rows = dict[lag_oracle.Key, dict[str, Any]]


@pytest.fixture(scope="module")
def history() -> History:
    return generated()


def by_key(rows: list[dict[str, Any]]) -> Rows:
    return {tuple(row[name] for name in NAMES): row for row in rows}


def status_of(row: dict[str, Any]) -> dict[str, int]:
    return {word.value: ms for word, ms in zip(WORST_FIRST, row["status_ms"], strict=True) if ms}


def agree(found: dict[str, Any], expected: dict[str, Any], key: lag_oracle.Key) -> None:
    """Percentiles are those of the buckets."""
    shown = {**found, "status_ms": status_of(found), "exists_ms": sum(found["status_ms"])}
    known = found["lag_max"] is not None
    for name, value in expected.items():
        if name.startswith("lag_p") and value is not None:
            value = min(lag_oracle.bucket_end(value) or 0, found["lag_max"])
        if name not in ("lag_max", "time_lag_max_ms") or known:
            assert shown[name] == value, (key, name)


@pytest.mark.parametrize("seed", range(12))
def test_an_hour_agrees_with_sql_over_its_file(seed: int, tmp_path: Path) -> None:
    made = made_up.made(seed, rounds=300)
    from_ms, to_ms = made_up.START, min(made_up.START + HOUR, int(made.t_ms[-1]) + MINUTE)
    path = str(tmp_path / "a.parquet")
    chunk.write_chunk(chunk.encode_table(made.samples.window(from_ms, to_ms), interval_ms=made_up.STEP), path)
    rows, warnings = hour_rows(spec([path], from_ms, 1, interval_ms=made_up.STEP, as_of_ms=to_ms))
    found = {key[1:]: row for key, row in by_key(rows).items()}
    expected = lag_oracle.rows([path], from_ms, to_ms, made_up.STEP)
    assert (warnings, set(found) - set(expected)) == ([], set())
    for key, figures in expected.items():
        if key in found:
            agree(found[key], figures, key)
        else:  # a queue without backlog and traffic has no row of its own
            assert key[0] == "queue" and not figures["lag_max"] + figures["produced"] + figures["consumed"]


def test_it_makes_the_same_rows_however_history_is_cut_into_files(history: History, tmp_path: Path) -> None:
    asked = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    rows = by_key(hour_rows(spec(asked, START, 2, as_of_ms=AS_OF))[0])
    over = [one for one in history.snapshots if one.ts_ms < START + HOUR]
    parts = []
    for number, (first, last) in enumerate(((0, 11), (11, 12), (12, len(over)))):
        path = tmp_path / f"part-{number}.parquet"
        before = over[first - 1] if first else None
        chunk.write_chunk(chunk.compact(over[first:last], interval_ms=STEP, previous=before), str(path))
        parts.append(str(path))
    assert by_key(hour_rows(spec([*parts[::-1], *asked[1:]], START, 2, as_of_ms=AS_OF))[0]) == rows
    # an hour in the log whose past is told apart, as the console's manifest does
    one = spec(asked[1:], START + HOUR, 1, as_of_ms=AS_OF)
    hour = msgspec.structs.replace(one.hours[0], older=(asked[0],))
    later = by_key(hour_rows(msgspec.structs.replace(one, hours=(hour,)))[0])
    assert later == {key: row for key, row in rows.items() if key[0] == START + HOUR}


def test_a_day_is_its_hours_and_the_time_between_them(history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    hours = hour_rows(spec(files, START, 2, as_of_ms=AS_OF))[0]
    asked = spec(files, START, 2, as_of_ms=AS_OF, from_ms=0, to_ms=24 * HOUR)
    days = day_rows(asked)[0]
    assert len([day for day in days if day["grain"] == "topic"]) == 5
    for day in days:
        own = [row for row in hours if all(row[name] == day[name] for name in NAMES[1:])]
        for name in ("produced", "consumed", "lost", "rewinds", "samples", "breach_ms", "watched_ms"):
            assert day[name] == sum(row[name] for row in own), name
        for name in ("lag_max", "time_lag_max_ms", "queues"):
            assert day[name] == max(row[name] for row in own), name
        assert day["lag_last"] == own[-1]["lag_last"] and day["lag_first"] == own[0]["lag_first"]
        spent = np.sum([row["status_ms"] for row in own], axis=0).tolist()
        assert (day["status_ms"], day["window_start_ms"], day["window_end_ms"]) == (spent, 0, AS_OF)
        assert day["max_gap_ms"] == max(row["max_gap_ms"] for row in own)


def test_an_hour_without_a_file_between_others_is_unknown_in_the_day(tmp_path: Path) -> None:
    first = queue_chunk(tmp_path / "a.parquet", [1_000] * 60, [1_000] * 60)
    third = queue_chunk(tmp_path / "c.parquet", [1_500] * 60, [1_400] * 60, start_ms=2 * HOUR)
    asked = spec([first, third], 0, 3)
    hours = (asked.hours[0], asked.hours[2])
    topic = day_rows(msgspec.structs.replace(asked, hours=hours, to_ms=24 * HOUR))[0][-1]
    # the last round holds for four intervals, then an hour less three minutes is unknown
    assert status_of(topic)["UNKNOWN"] == HOUR - 3 * MINUTE
    assert sum(topic["status_ms"]) == 3 * HOUR
    # what came and was read meanwhile is known all the same
    assert (topic["produced"], topic["consumed"]) == (500, 400)


def test_what_came_in_an_hour_without_a_file_is_known_of_every_queue(tmp_path: Path) -> None:
    """The hour before is decoded compactly: one quiet queue for both, offsets from the lowest one on."""
    base, paths = 5_000_000_000, []
    for hour, offsets in ((0, [(1_000, 1_000), (2_000, 2_000)]), (2, [(1_500, 1_400), (2_007, 2_007)])):
        t_ms = START + hour * HOUR + np.arange(60) * MINUTE
        queues = [
            made_up.queue(
                SeriesKey("billing", "orders", "broker-a", number, 0),
                t_ms=t_ms,
                high=[base + high] * 60,
                committed=[base + committed] * 60,
                time_lag_ms=[0 if high == committed else MINUTE] * 60,
                low=base,
            )
            for number, (high, committed) in enumerate(offsets)
        ]
        paths.append(str(tmp_path / f"{hour}.parquet"))
        chunk.write_chunk(chunk.encode_table(made_up.together(*queues), interval_ms=MINUTE), paths[-1])
    asked = spec(paths, START, 3)
    hours = tuple(
        msgspec.structs.replace(asked.hours[hour], files=(path,))
        for hour, path in zip((0, 2), paths, strict=True)
    )
    rows = day_rows(msgspec.structs.replace(asked, hours=hours))[0]
    found = {(row["grain"], row["queue_id"]): (row["produced"], row["consumed"]) for row in rows}
    assert found == {("queue", 0): (500, 400), ("queue", 1): (7, 7), ("topic", -1): (507, 407)}


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
    # eight rounds were not made; the one before them holds for three of their minutes
    assert (first["max_gap_ms"], first["coverage_pct"]) == (9 * STEP, round(100 * 55 / 60, 2))
    assert found[START, "topic", "billing", "orders", "", -1]["rewinds"] == 1
    assert found[START, "topic", "billing", "%RETRY%billing", "", -1]["kind"] == "RETRY"
    running = found[START + HOUR, "topic", "billing", "orders", "", -1]
    assert (running["window_end_ms"], running["expected_samples"]) == (AS_OF, 40)
    assert (running["samples"], running["partial_samples"], running["queues"]) == (35, 5, 2)
    # one of two brokers was silent for five minutes of forty: so long the topic is not covered, and no longer; in two
    # of them the queue of the other one fell behind, which is worse than unknown
    assert (status_of(running)["UNKNOWN"], running["coverage_pct"]) == (3 * STEP, 87.5)
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
    assert [text.removeprefix(str(tmp_path)).split(": ")[:2] for text in sorted(set(warnings))] == [
        [f"/{Path(log[-1]).name}", "damaged inside, read up to there"],
        ["/foreign.wal", "WalError"],
        ["/garbage.parquet", "ArrowInvalid"],
        ["/gone.parquet", "FileNotFoundError"],
    ]
    found = by_key(rows)
    assert len([key for key in found if key[0] == START]) > 5
    last_segment_ms = int(Path(log[-1]).stem)
    second = found[START + HOUR, "topic", "analytics", "clicks", "", -1]
    assert second["samples"] == (last_segment_ms - START - HOUR) // STEP
    assert status_of(second)["UNKNOWN"] == START + 2 * HOUR - last_segment_ms - 3 * STEP


def test_it_measures_each_group_by_its_own_promise(tmp_path: Path) -> None:
    heads = [1_000 + 100 * i for i in range(60)]
    commits = heads[:10] + [heads[9]] * 20 + heads[30:]  # from minute 10 to 29 nothing is read
    files = [queue_chunk(tmp_path / "a.parquet", heads, commits)]
    (row, _), _ = hour_rows(spec(files, 0, 1))
    # minute 10 is half a minute old: late by the installation's minute from 11 to 29
    assert (row["slo_ms"], row["breach_ms"]) == (MINUTE, 19 * MINUTE)
    assert (row["slo_target"], row["slo_from_ms"], row["slo_versions"]) == (0.99, 0, 1)
    own = {"billing": (Promise(10 * MINUTE, 0.5),), "another": (Promise(1, 0.0),)}
    asked = spec(files, 0, 1, slos=own)
    for found in hour_rows(asked)[0]:
        assert (found["slo_ms"], found["breach_ms"]) == (10 * MINUTE, 10 * MINUTE)
        assert found["breach_weighted_ms"] == found["breach_ms"]
        assert found["burn_rate"] == found["burn_lo"] == found["burn_hi"] == round(10 / 60 / 0.5, 6)
    (day, _), _ = day_rows(msgspec.structs.replace(asked, to_ms=24 * HOUR))
    assert (day["slo_ms"], day["burn_rate"]) == (10 * MINUTE, round(10 / 60 / 0.5, 6))


def test_an_hour_is_judged_by_the_promise_in_force_when_it_began(tmp_path: Path) -> None:
    """In both hours nothing is read from minute 10 to 29; the promise is loosened in the middle of the first."""
    one = [1_000 + 100 * i for i in range(120)]
    stuck = one[:10] + [one[9]] * 20 + one[30:70] + [one[69]] * 20 + one[90:]
    files = [queue_chunk(tmp_path / "a.parquet", one, stuck)]
    versions = (Promise(5 * MINUTE, 0.9), Promise(10 * MINUTE, 0.5, from_ms=HOUR // 2))
    asked = spec(files, 0, 2, slos={"billing": versions})
    rows = [row for row in hour_rows(asked)[0] if row["grain"] == "topic"]
    judged = [(row["breach_ms"], row["slo_ms"], row["slo_target"], row["slo_from_ms"]) for row in rows]
    assert judged == [
        (15 * MINUTE, 5 * MINUTE, 0.9, 0),
        (10 * MINUTE, 10 * MINUTE, 0.5, HOUR // 2),
    ]
    assert [row["slo_versions"] for row in rows] == [1, 1]
    (day,) = [
        row for row in day_rows(msgspec.structs.replace(asked, to_ms=24 * HOUR))[0] if row["grain"] == "topic"
    ]
    assert (day["breach_ms"], day["slo_ms"], day["slo_versions"]) == (25 * MINUTE, 10 * MINUTE, 2)
    assert day["burn_rate"] == round(25 / 120 / (1 - 0.7), 6)


def test_it_forecasts_the_end_from_the_minutes_behind(tmp_path: Path) -> None:
    heads = [10_000 + 60 * i for i in range(60)]
    commits = [160 * i for i in range(60)]
    (topic, _), _ = hour_rows(spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1))
    lag = heads[-1] - commits[-1]
    assert (topic["lag_last"], topic["drain_never"]) == (lag, False)
    assert topic["drain_ms"] == topic["drain_lo_ms"] == topic["drain_hi_ms"] == round(lag / 100 * MINUTE)
    slow = [40 * i for i in range(60)]
    (topic, _), _ = hour_rows(spec([queue_chunk(tmp_path / "b.parquet", heads, slow)], 0, 1))
    assert (topic["drain_ms"], topic["drain_never"]) == (None, True)


def test_it_tells_the_members_of_a_group_by_the_hour_and_of_the_day(history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    changes = {"billing": ((START - HOUR, 2), (START + MINUTE, 5), (START + HOUR + MINUTE, 3))}
    asked = msgspec.structs.replace(spec(files, START, 2, as_of_ms=AS_OF), client_changes=changes)
    found = {
        (row["window_start_ms"], row["grain"], row["group"] == "billing"): (
            row["clients_min"],
            row["clients_max"],
        )
        for row in hour_rows(asked)[0]
    }
    assert found[START, "topic", True] == (2, 5)
    assert found[START + HOUR, "topic", True] == (3, 5)
    # the others were not counted, and a queue has none of its own
    assert found[START, "topic", False] == found[START, "queue", True] == (None, None)
    days = day_rows(msgspec.structs.replace(asked, from_ms=0, to_ms=24 * HOUR))[0]
    assert {
        (row["clients_min"], row["clients_max"])
        for row in days
        if row["group"] == "billing" and row["grain"] == "topic"
    } == {(2, 5)}


def test_a_lag_that_is_filtered_has_the_share_that_was_sampled_in_its_window(tmp_path: Path) -> None:
    file = queue_chunk(tmp_path / "a.parquet", [1_000 + 10 * i for i in range(60)], [1_000] * 60)
    samples = {
        "billing": ((MINUTE, 10, 50), (31 * MINUTE, 30, 50), (61 * MINUTE, 50, 50)),
        "audit": ((0, 1, 1),),
    }
    (queue, topic), _ = hour_rows(spec([file], 0, 1, filter_samples=samples))
    names = ("filter_sampled", "filter_ratio", "lag_last", "filtered_lag_last")
    assert [topic[name] for name in names] == [100, 0.4, 590, 236]
    assert topic["filter_ratio_low"] < 0.4 < topic["filter_ratio_high"]
    assert [queue[name] for name in names] == [None, None, 590, None]
    (_, topic), _ = hour_rows(spec([file], 0, 1, filter_samples={"billing": ((61 * MINUTE, 1, 1),)}))
    assert [topic[name] for name in names] == [None, None, 590, None]


def test_messages_into_retry_and_dead_letter_topics_are_counted_for_their_group(tmp_path: Path) -> None:
    t_ms = np.arange(60) * MINUTE
    steady = 1_000 + 100 * np.arange(60)

    def one(key: SeriesKey, high: Any) -> Samples:
        return made_up.queue(key, t_ms=t_ms, high=high, committed=high if key.group else -1, time_lag_ms=0)

    samples = made_up.together(
        one(SeriesKey("billing", "orders", "broker-a", 0, 0), steady),
        one(SeriesKey("billing", "%RETRY%billing", "broker-a", 0, 0), 2 * np.arange(60)),
        one(SeriesKey("", "%DLQ%billing", "broker-a", 0, 0), np.arange(60) // 10),
    )
    path = str(tmp_path / "a.parquet")
    chunk.write_chunk(chunk.encode_table(samples, interval_ms=MINUTE), path)
    rows = [row for row in hour_rows(spec([path], 0, 1))[0] if row["grain"] == "topic"]
    assert [(row["topic"], row["retry_in"], row["dead_letter_in"]) for row in rows] == [
        ("%RETRY%billing", 118, 5),
        ("orders", 118, 5),
    ]
