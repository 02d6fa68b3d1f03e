"""Log, hour files and their manifest: every step may be the last one before a crash."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError

from console.brokers.mqadmin import MessageQueue
from console.lag import selectors, services
from console.lag.history import archive
from console.lag.history import log as history
from console.lag.history.log import HistoryLog, HistoryMoved
from console.lag.models import HistoryFile
from console.lag.past import history_reads
from spark.lag.history import chunk, wal
from spark.lag.local_time import HOUR_MS
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import rounds, snapshot
from tests.support.judge import judged, with_judgements

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.usefixtures("local_history"),
    pytest.mark.one_database("files; their rows are written as in test_archive"),
]

START = 1_700_000_000_000 // HOUR_MS * HOUR_MS
HEAD = HeadKey("orders", "broker-a", 0)
COMMIT = CommitKey("billing", "orders", "broker-a", 0)
QUEUE = MessageQueue("orders", "broker-a", 0)


def hour_of_rounds(start_ms: int = START, count: int = 720) -> list[Snapshot]:
    """One round every 5 s: 1 message a second arrives, 1 of 2 is confirmed."""
    return rounds(
        {HEAD: [(0, 5 * i) for i in range(count)]},
        {COMMIT: [5 * i // 2 for i in range(count)]},
        start_ms=start_ms,
    )


def write(snapshots: list[Snapshot]) -> None:
    log = HistoryLog("local")
    log.catch_up(0)
    for one in snapshots:
        log.append(one)


def files() -> list[tuple[str, str, int]]:
    rows = HistoryFile.objects.order_by("kind", "generation", "ts_lo_ms")
    return [(row.kind, row.state, row.generation) for row in rows]


def committed(at_ms: int) -> Any:
    return history_reads.offsets_at("local", "billing", at_ms)


def test_it_goes_on_where_another_process_stopped() -> None:
    first, second = HistoryLog("local"), HistoryLog("local")
    for number, (log, other) in enumerate([(first, second), (second, first), (first, second)]):
        log.append(snapshot(START + number, {HEAD: (0, number)}, {}, number=number))
        assert [one.number for one in other.catch_up(0)] == [number]
    (path,) = history.wal_folder("local").glob("*.wal")
    assert [one.number for one in wal.read_segment(path.read_bytes()).snapshots] == [0, 1, 2]


def test_it_refuses_to_write_over_what_it_did_not_see() -> None:
    first, second = HistoryLog("local"), HistoryLog("local")
    first.append(snapshot(START, {HEAD: (0, 1)}, {}, number=1))
    second.catch_up(0)
    second.append(snapshot(START + 5_000, {HEAD: (0, 2)}, {}, number=2))
    with pytest.raises(HistoryMoved):
        first.append(snapshot(START + 5_000, {HEAD: (0, 9)}, {}, number=2))
    with pytest.raises(HistoryMoved):
        HistoryLog("local").append(snapshot(START + 9_000, {HEAD: (0, 9)}, {}, number=3))


@pytest.mark.parametrize("cut", [0, 10, 33, 60, -1])
def test_it_cuts_a_torn_tail_and_goes_on(cut: int) -> None:
    write(hour_of_rounds(count=3))
    (path,) = history.wal_folder("local").glob("*.wal")
    data = path.read_bytes()
    path.write_bytes(data[:cut])
    log = HistoryLog("local")
    kept = [one.number for one in log.catch_up(0)]
    log.append(snapshot(START + 20_000, {HEAD: (0, 7)}, {}, number=99))
    assert [one.number for one in wal.read_segment(path.read_bytes()).snapshots] == [*kept, 99]
    assert kept == ([0, 1] if cut == -1 else [])


def test_it_sets_a_log_that_is_none_aside_and_says_so() -> None:
    write(hour_of_rounds(count=3))
    (path,) = history.wal_folder("local").glob("*.wal")
    data = path.read_bytes().replace(b"TMLAGLOG", b"TMLAGWAL")
    path.write_bytes(data)
    log = HistoryLog("local")
    assert log.catch_up(START) == []
    log.append(snapshot(START + 20_000, {HEAD: (0, 7)}, {COMMIT: 6}, number=99))
    aside = HistoryFile.objects.get(state="quarantined")
    assert aside.reason == "not a lag history segment: starts with b'TMLAGWAL'"
    assert Path(history.file_location(aside.path, aside.kind)).read_bytes() == data
    assert committed(START + 20_000)[QUEUE].offset == 6
    assert [row.state for row in HistoryFile.objects.order_by("pk")] == ["quarantined", "live"]


def test_it_goes_on_in_a_log_of_a_later_version() -> None:
    write(hour_of_rounds(count=3))
    (path,) = history.wal_folder("local").glob("*.wal")
    data = bytearray(path.read_bytes())
    end = wal.decode_header(bytes(data))[2]
    data[8] = 7  # the version
    data[end - 4 : end] = zlib.crc32(bytes(data[: end - 4])).to_bytes(4, "little")
    path.write_bytes(data)
    log = HistoryLog("local")
    assert [one.number for one in log.catch_up(START)] == [0, 1, 2]
    log.append(snapshot(START + 20_000, {HEAD: (0, 7)}, {COMMIT: 6}, number=99))
    assert committed(START + 20_000)[QUEUE].offset == 6
    assert [row.state for row in HistoryFile.objects.all()] == ["live"]


def ahead_files() -> list[Path]:
    return sorted(history.wal_folder("local").glob("*.ahead"))


def test_it_writes_the_beginning_of_a_segment_ahead() -> None:
    log = HistoryLog("local")
    first, second = hour_of_rounds(count=2), hour_of_rounds(START + wal.SEGMENT_MS, 2)
    for one in first:
        log.append(one)
        log.prepare(one.ts_ms + 5_000)
    assert ahead_files() == []  # the next round is of the same segment
    log.prepare(second[0].ts_ms)
    log.prepare(second[0].ts_ms)
    (ahead,) = ahead_files()
    size = wal.read_segment(ahead.read_bytes()).state.position
    assert HistoryFile.objects.count() == 1
    for one in second:
        log.append(one)
        log.prepare(one.ts_ms + 5_000)
    assert ahead_files() == []
    path = history.wal_folder("local") / f"{START + wal.SEGMENT_MS}.wal"
    end = wal.read_segment(path.read_bytes()).state.position
    assert end - size < size  # its rounds name nothing
    assert HistoryFile.objects.count() == 2
    samples = history_reads.load("local", "billing", START, START + HOUR_MS)
    assert samples.t_ms.tolist() == [one.ts_ms for one in [*first, *second]]
    assert samples.max_offset.tolist() == [0, 5, 0, 5]


def with_room() -> tuple[HistoryLog, Path]:
    """Begin a log whose second segment was written ahead and holds one round."""
    log = HistoryLog("local")
    for one in hour_of_rounds(count=40):
        log.append(one)
    second = START + wal.SEGMENT_MS
    log.prepare(second)
    log.append(hour_of_rounds(second, 1)[0])
    return log, history.wal_folder("local") / f"{second}.wal"


def test_a_round_takes_the_room_that_was_made_for_it() -> None:
    log, path = with_room()
    size, first_end = path.stat().st_size, log.state.position
    assert size > first_end + 300
    second = START + wal.SEGMENT_MS
    for one in hour_of_rounds(second, 4)[1:]:
        log.append(one)
        log.prepare(one.ts_ms + 5_000)
    assert path.stat().st_size == size
    assert log.state.position > first_end
    end = log.state.position
    assert path.read_bytes()[end:] == bytes(size - end)
    assert len(HistoryLog("local").catch_up(0)) == 40 + 4
    assert path.stat().st_size == size  # room is no torn tail
    log.append(hour_of_rounds(second + wal.SEGMENT_MS, 1)[0])
    log.prepare(second + wal.SEGMENT_MS + 5_000)
    assert path.stat().st_size == end
    samples = history_reads.load("local", "billing", START, START + HOUR_MS)
    assert len(samples.t_ms) == 40 + 4 + 1


def test_a_round_longer_than_the_room_makes_the_file_longer() -> None:
    log, path = with_room()
    size = path.stat().st_size
    rows = hour_of_rounds(START + wal.SEGMENT_MS, 59)[1:]
    for one in rows:
        log.append(one)
    assert log.state.position == path.stat().st_size > size
    assert len(HistoryLog("local").catch_up(0)) == 40 + 59


def test_two_processes_take_turns_in_the_room_of_a_segment() -> None:
    log, path = with_room()
    other = HistoryLog("local")
    other.catch_up(0)
    size = path.stat().st_size
    rows = hour_of_rounds(START + wal.SEGMENT_MS, 5)
    for at, (one, next_one) in enumerate([(other, log), (log, other), (other, log)], start=1):
        one.append(rows[at])
        with pytest.raises(history.HistoryMoved):  # what is on the disk is not overwritten
            HistoryLog.append(_as_it_was(next_one), rows[at])
        assert [found.ts_ms for found in next_one.catch_up(0)] == [rows[at].ts_ms]
        assert next_one.catch_up(0) == []
    assert path.stat().st_size == size
    assert len(HistoryLog("local").catch_up(0)) == 40 + 4


def _as_it_was(log: HistoryLog) -> HistoryLog:
    """Return a log of its own that knows what another one knows."""
    found = HistoryLog(log.cluster)
    found.start_ms = log.start_ms
    found.state.position = log.state.position
    return found


@pytest.mark.parametrize("hole", [0, 1, 24, 4096], ids=lambda hole: f"first_{hole}_bytes_lost")
def test_a_round_that_a_crash_left_in_pieces_is_cut_out_of_the_room(hole: int) -> None:
    """Of bytes that replace zeros, a machine that stops may have written the later ones only."""
    log, path = with_room()
    end = log.state.position
    torn = bytes(hole) + (b"LFRM" + bytes(range(256)) * 20)[hole:]
    with path.open("r+b") as file:
        file.seek(end)
        file.write(torn)
    after = HistoryLog("local")
    assert len(after.catch_up(0)) == 41
    assert not any(path.read_bytes()[end:])
    after.append(hour_of_rounds(START + wal.SEGMENT_MS, 2)[1])
    assert len(HistoryLog("local").catch_up(0)) == 42
    assert not wal.read_segment(path.read_bytes()).damaged


def test_a_round_at_another_time_than_expected_begins_its_segment_itself() -> None:
    log = HistoryLog("local")
    first = hour_of_rounds(count=1)
    log.append(first[0])
    log.prepare(START + wal.SEGMENT_MS)
    late = hour_of_rounds(START + 3 * wal.SEGMENT_MS, 1)
    log.append(late[0])
    assert ahead_files() == []
    log.prepare(START + 4 * wal.SEGMENT_MS)
    other = HistoryLog("local")
    assert len(other.catch_up(0)) == 2  # and took what lay there for a leftover
    assert ahead_files() == []
    log.append(hour_of_rounds(START + 4 * wal.SEGMENT_MS, 1)[0])
    assert [one.ts_ms for one in other.catch_up(0)] == [START + 4 * wal.SEGMENT_MS]


def test_a_segment_in_use_keeps_its_rounds_when_a_crash_undoes_its_name() -> None:
    log = HistoryLog("local")
    log.append(hour_of_rounds(count=1)[0])
    second = START + wal.SEGMENT_MS
    log.prepare(second)
    (ahead,) = ahead_files()
    begun = ahead.read_bytes()
    log.append(hour_of_rounds(second, 1)[0])
    path = history.wal_folder("local") / f"{second}.wal"
    whole = path.read_bytes()
    path.rename(ahead)
    assert [one.ts_ms for one in HistoryLog("local").catch_up(0)] == [START, second]
    assert (path.read_bytes(), ahead_files()) == (whole, [])
    assert HistoryFile.objects.filter(path__endswith=f"/{second}.wal").exists()
    for torn in (
        begun,
        begun[:-1],
        begun[:20],
        b"",
        whole,
    ):  # no round in it, or the segment is there already
        ahead.write_bytes(torn)
        assert [one.ts_ms for one in HistoryLog("local").catch_up(0)] == [START, second]
        assert (path.read_bytes(), ahead_files()) == (whole, [])


def test_a_full_disk_ahead_of_a_segment_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = HistoryLog("local")
    log.append(hour_of_rounds(count=1)[0])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(history.os, "fdatasync", full)
        log.prepare(START + wal.SEGMENT_MS)
    assert ahead_files() == []
    log.append(hour_of_rounds(START + wal.SEGMENT_MS, 1)[0])
    assert len(HistoryLog("local").catch_up(0)) == 2


def test_it_makes_an_hour_file_and_reads_the_same_from_it() -> None:
    write(hour_of_rounds())
    before = selectors.lag_history("local", "billing", START, START + HOUR_MS, 100)
    offsets = committed(START + 1_800_000)
    assert archive.hours_to_compact("local", START + HOUR_MS + 59_000) == []
    assert services.compact_history(now_ms=START + HOUR_MS + 60_000) == 1
    assert files() == [("chunk_hour", "live", 1), *[("wal", "superseded", 1)] * 12]
    made = HistoryFile.objects.get(kind="chunk_hour")
    assert (made.rows, made.samples, made.path.rpartition("/")[2]) == (2, 1440, "b=0-g1.parquet")
    assert made.bytes == Path(history.file_location(made.path, made.kind)).stat().st_size
    assert selectors.lag_history("local", "billing", START, START + HOUR_MS, 100) == before
    assert committed(START + 1_800_000) == offsets
    assert services.compact_history(now_ms=START + HOUR_MS + 60_000) == 0


def test_it_keeps_the_round_before_the_hour() -> None:
    write(hour_of_rounds(START - 5_000, 3))
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + 2 * HOUR_MS)
    row = HistoryFile.objects.get(kind="chunk_hour")
    rows = chunk.read_chunk(history.file_location(row.path, row.kind), group="billing").to_pylist()
    assert [(one["t0_ms"], one["prev_t_ms"], one["prev_max"]) for one in rows] == [(START, START - 5_000, 0)]


def test_it_ends_the_same_whichever_step_a_crash_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    write(hour_of_rounds(count=100))
    expected = committed(START + 300_000)

    def crash(*args: Any, **kwargs: Any) -> None:
        raise DatabaseError("the power went out")

    with monkeypatch.context() as patch:  # after the file was written, before its row
        patch.setattr(HistoryFile, "save", crash)
        with pytest.raises(DatabaseError):
            archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert {state for _, state, _ in files()} == {"live"}
    assert committed(START + 300_000) == expected
    with monkeypatch.context() as patch:  # in the middle of the file
        patch.setattr(chunk.ChunkWriter, "write", crash)
        with pytest.raises(DatabaseError):
            archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert committed(START + 300_000) == expected
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert committed(START + 300_000) == expected
    # run twice: a new generation
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert [one for one in files() if one[0] == "chunk_hour"] == [
        ("chunk_hour", "superseded", 1),
        ("chunk_hour", "live", 2),
    ]
    assert committed(START + 300_000) == expected


def test_it_registers_a_segment_whose_row_a_crash_lost() -> None:
    write(hour_of_rounds(count=3))
    HistoryFile.objects.all().delete()
    assert committed(START + 10_000) == {}
    HistoryLog("local").catch_up(START)
    assert committed(START + 10_000)[QUEUE].offset == 5


def test_it_deletes_what_outlived_its_time() -> None:
    write(hour_of_rounds(count=100))
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert archive.delete_expired(START + HOUR_MS) == 0
    assert archive.delete_expired(START + 3 * HOUR_MS) == 1  # the superseded generation
    assert archive.delete_expired(START + 50 * HOUR_MS) == 2  # both log segments
    assert list(history.wal_folder("local").glob("*.wal")) == []
    assert committed(START + 300_000)[QUEUE].offset == 150
    assert archive.delete_expired(START + 92 * 24 * HOUR_MS) == 1
    assert committed(START + 300_000) == {}


def test_it_never_deletes_a_log_that_is_in_no_hour_file() -> None:
    write(hour_of_rounds(count=3))
    assert archive.delete_expired(START + 1000 * HOUR_MS) == 0
    assert committed(START + 10_000)[QUEUE].offset == 5


def test_it_survives_files_removed_by_hand() -> None:
    write(hour_of_rounds(count=100))
    for path in sorted(history.wal_folder("local").glob("*.wal"))[:1]:
        path.unlink()
    assert selectors.lag_history("local", "billing", START, START + HOUR_MS).times[0] == START + 300_000
    assert committed(START + 10_000) == {}


def test_it_restores_the_offsets_of_a_moment_exactly() -> None:
    write(hour_of_rounds(count=100))
    assert committed(START + 62_000)[QUEUE] == history_reads.OffsetThen(30, START + 60_000)
    assert committed(START - 1) == {}
    assert committed(START + 495_000 + history_reads.AS_OF_MS)[QUEUE].offset == 247
    assert (
        committed(START + 495_001 + history_reads.AS_OF_MS) == {}
    )  # a quarter of an hour old is not "as it was"
    assert history_reads.offsets_at("local", "nobody", START + 62_000) == {}


def test_it_restores_the_incarnation_of_that_time() -> None:
    again, commit = HEAD._replace(incarnation=1), COMMIT._replace(incarnation=1)
    write(
        rounds(
            {HEAD: [(0, 90), None], again: [None, (0, 5)]},
            {COMMIT: [80, None], commit: [None, 3]},
            start_ms=START,
        )
    )
    assert committed(START)[QUEUE].offset == 80
    assert committed(START + 5_000)[QUEUE].offset == 3


def test_it_draws_gaps_as_gaps() -> None:
    past_rounds = hour_of_rounds(count=60)
    write([one for number, one in enumerate(past_rounds) if number not in range(20, 40)])
    found = selectors.lag_history("local", "billing", START, START + HOUR_MS)
    assert (found.interval_ms, len(found.times)) == (5_000, 41)
    gap = found.lag.index(None)
    assert (gap, found.times[gap], found.time_lag_ms[gap]) == (20, START + 147_500, None)
    assert found.lag[19:22] == [48, None, 100]


def test_it_keeps_peaks_when_it_thins_out() -> None:
    lags = [10] * 700
    lags[333] = 5_000
    write(rounds({HEAD: [(0, 10_000)] * 700}, {COMMIT: [10_000 - lag for lag in lags]}, start_ms=START))
    found = selectors.lag_history("local", "billing", START, START + HOUR_MS, 50)
    assert len(found.times) <= 52
    assert max(found.lag) == 5_000
    assert min(found.lag) == 10
    assert found.times == sorted(found.times)


def test_it_marks_rounds_that_miss_a_queue() -> None:
    other = HEAD._replace(broker_name="broker-b")
    made = rounds(
        {HEAD: [(0, 9)] * 3, other: [(0, 9)] * 3},
        {COMMIT: [9] * 3, COMMIT._replace(broker_name="broker-b"): [4] * 3},
        start_ms=START,
    )
    made = with_judgements(made, judged(from_snapshots(made)))
    made[1].status[1], made[1].time_lag_ms[1] = 12, -1  # unknown: with the offsets of before
    write(made)
    found = selectors.lag_history("local", "billing", START, START + HOUR_MS)
    assert (found.lag, found.lower_bound) == ([5, 0, 5], [False, True, False])
    assert found.time_lag_lower_bound == [True, True, True]


def test_it_gives_reports_the_files_of_a_window() -> None:
    write(hour_of_rounds(count=100))
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    write([snapshot(START + HOUR_MS + 1, {HEAD: (0, 600)}, {COMMIT: 300})])
    paths = history_reads.history_paths("local", START, START + 2 * HOUR_MS)
    assert [path.rpartition(".")[2] for path in paths] == ["parquet", "wal"]
    samples = chunk.load_samples(paths, START, START + 2 * HOUR_MS)
    assert samples.counts.tolist() == [101, 101]
    assert selectors.collect_interval_ms("local") == 5_000


def test_it_reads_a_long_window_day_by_day_and_keeps_its_peaks_and_gaps() -> None:
    day_ms, step_ms = 24 * HOUR_MS, 600_000
    first_ms = START - START % day_ms
    lags = [10] * 432
    lags[250] = 9_000
    three_days = rounds(
        {HEAD: [(0, 10_000)] * 432},
        {COMMIT: [10_000 - lag for lag in lags]},
        start_ms=first_ms,
        interval_ms=step_ms,
    )
    write(
        [one for number, one in enumerate(three_days) if number not in range(300, 312)]
    )  # two hours are missing
    now_ms = first_ms + 3 * day_ms
    services.compact_history(now_ms=now_ms + HOUR_MS)
    before = history_reads._days.hits
    for _ in range(2):  # the second time whole days come from memory
        found = selectors.lag_history("local", "billing", first_ms + HOUR_MS, now_ms, 400)
        assert max(lag for lag in found.lag if lag is not None) == 9_000
        assert found.lag.count(None) == 1
        assert first_ms + 300 * step_ms < found.times[found.lag.index(None)] < first_ms + 312 * step_ms
        assert found.times[0] >= first_ms + HOUR_MS
        assert len(found.times) < 410
    assert history_reads._days.hits >= before + 2
