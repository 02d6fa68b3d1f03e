"""Days of stored folds are those of samples, and whatever is wrong with a stored fold, the samples are read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import spark
from spark.job import HourFiles, JobSpec, Promise
from spark.lag.codes import ABSENT
from spark.lag.history import chunk, compaction
from spark.lag.history.compaction import MergeInput
from spark.lag.samples import Samples, SeriesKey
from spark.sources import stored_folds, work
from tests.spark.history_files import HOUR
from tests.spark.lag.judged import START, STEP, made, queue, steady, together
from tests.spark.work_of import day_rows, hour_rows, spec

HOURS = 4


def hour_files(samples: Samples, folder: Path, hours: range = range(HOURS)) -> list[HourFiles]:
    found = []
    for hour in hours:
        from_ms = START + hour * HOUR
        path = folder / f"hour-{hour}.parquet"
        table = chunk.encode_table(samples.window(from_ms, from_ms + HOUR), interval_ms=STEP)
        chunk.write_chunk(table, str(path))
        found.append(HourFiles("local", from_ms, (str(path),), (), f"content-{hour}"))
    return found


def asked(hours: list[HourFiles], folds: Path | str = "", **changes: Any) -> JobSpec:
    whole = spec([], START, HOURS, interval_ms=STEP, to_ms=START + 24 * HOUR, as_of_ms=START + HOURS * HOUR)
    return msgspec.structs.replace(whole, hours=tuple(hours), folds=str(folds), **changes)


def store(one: JobSpec) -> None:
    """Run the hourly report, hour by hour as the schedule does."""
    for hour in one.hours:
        assert hour_rows(msgspec.structs.replace(one, hours=(hour,)))[1] == []


def day_of(one: JobSpec) -> list[dict[str, Any]]:
    """Return the rows of the day, which begins with the first hour in this zone."""
    return day_rows(msgspec.structs.replace(one, zone="Etc/GMT-2"))[0]


def damage(hours: list[HourFiles]) -> list[HourFiles]:
    """Move the history away: only what is stored beside it can be read."""
    for hour in hours:
        Path(hour.files[0]).rename(f"{hour.files[0]}.away")
    return hours


def stored(folds: Path) -> list[Path]:
    return sorted(folds.rglob("*.parquet"))


@pytest.mark.parametrize("seed", range(12))
def test_a_day_of_stored_folds_is_that_of_samples(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to queues and rounds at the edges of hours; in some histories an hour has no file."""
    monkeypatch.setattr(work, "BLOCK_ROWS", 3)
    history = made(seed, rounds=2_200)
    hours = hour_files(history.samples, tmp_path)
    if seed % 4 == 0:
        del hours[2]
    expected = day_of(asked(hours))
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    assert len(stored(tmp_path / "folds")) == len(hours)
    assert day_of(with_folds) == expected
    assert hour_rows(with_folds) == hour_rows(asked(hours))


@pytest.mark.parametrize("seed", range(2))
def test_a_day_reads_no_sample_of_hours_that_are_stored(seed: int, tmp_path: Path) -> None:
    hours = hour_files(steady(seed, rounds=HOURS * 720).samples, tmp_path)
    expected = day_of(asked(hours))
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    damage(hours)
    assert day_of(with_folds) == expected != []


def test_the_fold_of_an_hour_is_that_of_its_part_of_the_day_file(tmp_path: Path) -> None:
    samples = made(3, rounds=2_200).samples
    hours = hour_files(samples, tmp_path)
    store(asked(hours, tmp_path / "folds"))
    inputs = [MergeInput(chunk.opened(one.files[0]), one.hour_ms, one.hour_ms + HOUR) for one in hours]
    compaction.DayMerge(inputs).write_bucket(str(tmp_path / "day.parquet"))
    merged = [msgspec.structs.replace(one, files=(str(tmp_path / "day.parquet"),)) for one in hours]
    expected = day_of(asked(merged))
    assert day_of(asked(merged, tmp_path / "folds")) == expected == day_of(asked(hours))


def test_what_an_hour_lacks_of_the_hour_before_is_unknown_all_the_same(tmp_path: Path) -> None:
    """A queue of the first hour is missing in the file of the second: it was not read, and is not gone."""
    t_ms = START + np.arange(HOURS * 720, dtype=np.int64) * STEP
    keys = [SeriesKey("a", "orders", "broker-a", number, 0) for number in range(2)]
    series = [
        queue(key, t_ms=t_ms, high=t_ms - START, committed=t_ms - START, time_lag_ms=[0] * len(t_ms))
        for key in keys
    ]
    hours = hour_files(together(*series), tmp_path)
    hours[1] = hour_files(together(series[0]), tmp_path, range(1, 2))[0]
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    (topic,) = [row for row in day_of(with_folds) if row["grain"] == "topic"]
    assert topic["coverage_pct"] == pytest.approx(75, abs=1)
    assert day_of(with_folds) == day_of(asked(hours))


def test_a_queue_that_is_gone_is_no_reason_to_read_samples(tmp_path: Path) -> None:
    t_ms = START + np.arange(HOURS * 720, dtype=np.int64) * STEP
    keys = [SeriesKey("a", "orders", "broker-a", number, 0) for number in range(2)]
    series = [
        queue(key, t_ms=t, high=t - START, committed=t - START, time_lag_ms=[0] * len(t))
        for key, t in zip(keys, (t_ms, t_ms[:1_000]), strict=True)
    ]
    series[1].status[-1] = ABSENT
    hours = hour_files(together(*series), tmp_path)
    expected = day_of(asked(hours))
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    # the hour in which it went is made from samples, and for that the one before it is read
    damage(hours[2:])
    assert day_of(with_folds) == expected


@pytest.mark.parametrize("damaged", [0, 2])
@pytest.mark.parametrize("cuts", [["a"], [], ["a", "b"]])
def test_groups_may_be_cut_otherwise_than_when_they_were_stored(
    cuts: list[str], damaged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = hour_files(steady(4, rounds=HOURS * 720).samples, tmp_path)
    expected = day_of(asked(hours))
    with_folds = asked(hours, tmp_path / "folds")
    monkeypatch.setattr(work, "_group_ranges", lambda hours, wanted: [("", "a"), ("a", "\U0010ffff")])
    store(with_folds)
    for path in stored(tmp_path / "folds")[:damaged]:
        if path.name.split("-")[1] == "001":
            path.write_bytes(b"torn")
    ends = [*cuts, "\U0010ffff"]
    ranges = list(zip(["", *ends[:-1]], ends, strict=True))
    monkeypatch.setattr(work, "_group_ranges", lambda hours, wanted: ranges)
    if not damaged:
        damage(hours)
    assert sorted(map(str, day_of(with_folds))) == sorted(map(str, expected))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "break_it",
    [
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        flip,
    ],
    ids=["missing", "empty", "torn", "flipped"],
)
def test_a_fold_that_cannot_be_read_is_made_from_samples(
    break_it: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_group_ranges", lambda hours, wanted: [("", "a"), ("a", "\U0010ffff")])
    history = steady(1, rounds=HOURS * 720)
    hours = hour_files(history.samples, tmp_path)
    expected = day_of(asked(hours))
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    assert len(stored(tmp_path / "folds")) == 2 * HOURS
    break_it(stored(tmp_path / "folds")[3])
    assert day_of(with_folds) == expected
    damage(hours)
    assert day_of(with_folds) != expected


@pytest.mark.parametrize(
    "changes",
    [
        {"slo_ms": 1},
        {"slos": {"a": (Promise(1, 0.5, from_ms=START - HOUR),)}},
        {"interval_ms": 2 * STEP},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_fold_of_other_inputs_is_not_used(changes: dict[str, Any], tmp_path: Path) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    store(asked(hours, tmp_path / "folds"))
    expected = day_of(asked(hours, **changes))
    assert day_of(asked(hours, tmp_path / "folds", **changes)) == expected
    damage(hours)
    assert day_of(asked(hours, tmp_path / "folds", **changes)) != expected


def test_a_fold_of_other_code_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    with_folds = asked(hours, tmp_path / "folds")
    store(with_folds)
    expected = day_of(with_folds)
    damage(hours)
    assert day_of(with_folds) == expected
    monkeypatch.setattr(stored_folds, "CODE", copy_of_code(tmp_path / "same"))
    assert day_of(with_folds) == expected
    other = copy_of_code(tmp_path / "other")
    with (other / "lag/folds/level.py").open("a") as module:
        module.write("# another one\n")
    monkeypatch.setattr(stored_folds, "CODE", other)
    assert day_of(with_folds) != expected


def copy_of_code(folder: Path) -> Path:
    shutil.copytree(Path(spark.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_an_hour_that_was_made_again_is_folded_again(tmp_path: Path) -> None:
    history = steady(2, rounds=HOURS * 720)
    hours = hour_files(history.samples, tmp_path)
    store(asked(hours, tmp_path / "folds"))
    other = hour_files(history.samples.select(lambda key: key.group == "a"), tmp_path)
    again = [msgspec.structs.replace(one, content=f"{one.content}-again") for one in other]
    assert day_of(asked(again, tmp_path / "folds")) == day_of(asked(again)) != []


def test_an_hour_that_is_not_over_or_in_several_files_is_not_stored(tmp_path: Path) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    hours[1] = msgspec.structs.replace(hours[1], content="")
    store(asked(hours, tmp_path / "folds", as_of_ms=START + HOURS * HOUR - 1))
    assert [path.parts[-3] for path in stored(tmp_path / "folds")] == ["hour=22", "hour=00"]


def test_an_hour_with_an_unreadable_file_is_not_stored(tmp_path: Path) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    one = msgspec.structs.replace(hours[0], files=(*hours[0].files, str(tmp_path / "gone.parquet")))
    hour_rows(asked([one], tmp_path / "folds"))
    assert stored(tmp_path / "folds") == []


def test_a_full_disk_costs_no_report(tmp_path: Path) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    (tmp_path / "folds").write_text("a file where the folder belongs")
    rows, notes = hour_rows(asked(hours, tmp_path / "folds"))
    assert rows == hour_rows(asked(hours))[0]
    assert len(notes) == HOURS and all("could not be stored" in note for note in notes)


def test_folds_of_old_days_are_deleted(tmp_path: Path) -> None:
    hours = hour_files(steady(2, rounds=HOURS * 720).samples, tmp_path)
    one = asked(hours, tmp_path / "folds")
    store(one)
    later = msgspec.structs.replace(one, as_of_ms=START + stored_folds.KEPT_DAYS * 24 * HOUR)
    stored_folds.delete_expired(later)
    assert len(stored(tmp_path / "folds")) == HOURS
    stored_folds.delete_expired(msgspec.structs.replace(later, as_of_ms=later.as_of_ms + 24 * HOUR))
    assert len({path.parts[-4] for path in stored(tmp_path / "folds")}) == 1
    stored_folds.delete_expired(msgspec.structs.replace(later, folds=str(tmp_path / "none")))
