"""Hours, days, damage and disks: what becomes of history."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyarrow import parquet as pq
from pytest_django import Settings

from console.lag import selectors, services
from console.lag.history import archive
from console.lag.history import log as history
from console.lag.history.log import HistoryLog
from console.lag.models import HistoryFile
from console.lag.past import history_reads
from console.text import Text
from spark.lag.history import chunk, compaction
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import rounds

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.usefixtures("local_history"),
]

DAY_MS = 24 * HOUR_MS
START = 1_700_006_400_000  # midnight
HEAD, COMMIT = HeadKey("orders", "broker-a", 0), CommitKey("billing", "orders", "broker-a", 0)


def write(start_ms: int, count: int = 20, first: int = 0) -> list[Snapshot]:
    """Rounds of 5 s; round n has max offset 10 n."""
    made = rounds(
        {HEAD: [(0, 10 * n) for n in range(first, first + count)]},
        {COMMIT: [9 * n for n in range(first, first + count)]},
        start_ms=start_ms,
    )
    log = HistoryLog("local")
    log.catch_up(0)
    for one in made:
        log.append(one)
    return made


def seen() -> list[int]:
    found: list[int] = history_reads.load("local", "billing", START, START + DAY_MS).max_offset.tolist()
    return found


def states() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in HistoryFile.objects.order_by("kind", "ts_lo_ms", "generation"):
        found.setdefault(row.kind, []).append(row.state)
    return found


@pytest.fixture
def two_hours() -> list[int]:
    """The first two hours of a day, in hour files."""
    for hour in range(2):
        write(START + hour * HOUR_MS, first=100 * hour)
        archive.compact_hour("local", START + hour * HOUR_MS, interval_ms=5_000, now_ms=START + 2 * HOUR_MS)
    return seen()


def maintain(now_ms: int = START + DAY_MS + HOUR_MS) -> int:
    return archive.maintain("local", interval_ms=5_000, now_ms=now_ms)


def location(row: HistoryFile) -> Path:
    return Path(history.file_location(row.path, row.kind))


def test_it_merges_a_day_that_is_over(two_hours: list[int]) -> None:
    maintain(START + DAY_MS)
    assert "chunk_day" not in states()
    maintain()
    assert states() == {
        "chunk_day": ["live"],
        "chunk_hour": ["superseded"] * 2,
        "wal": ["superseded"] * 2,
    }
    made = HistoryFile.objects.get(kind="chunk_day")
    assert made.path == "kind=chunk_day/cluster=local/date=2023-11-15/b=0-g1.parquet"
    assert (made.rows, made.samples, made.ts_hi_ms - made.ts_lo_ms) == (4, 80, DAY_MS)
    assert len(seen()) == 40
    assert seen() == two_hours
    maintain()
    assert HistoryFile.objects.filter(kind="chunk_day").count() == 1


def test_it_keeps_files_of_before_for_readers_that_listed_them(two_hours: list[int]) -> None:
    now_ms = START + DAY_MS + HOUR_MS
    maintain(now_ms)
    old = [location(row) for row in HistoryFile.objects.filter(kind="chunk_hour")]
    assert archive.delete_expired(now_ms + archive.GRACE_MS) == 0
    assert all(path.exists() for path in old)
    assert archive.delete_expired(now_ms + archive.GRACE_MS + 1) == 2
    assert not any(path.exists() for path in old)
    assert seen() == two_hours


def test_it_takes_a_late_hour_into_the_day(two_hours: list[int]) -> None:
    maintain()
    write(START + 5 * HOUR_MS, first=500)
    maintain()
    assert states()["chunk_day"] == ["superseded", "live"]
    assert seen() == [*two_hours, *range(5_000, 5_200, 10)]


def test_it_deletes_a_day_after_its_time(two_hours: list[int], settings: Settings) -> None:
    settings.HISTORY_DAYS = 3
    maintain()
    archive.delete_expired(START + 4 * DAY_MS)
    assert states()["chunk_day"] == ["live"]
    archive.delete_expired(START + 4 * DAY_MS + 1)
    assert states()["chunk_day"] == ["deleted"]
    assert seen() == []
    archive.delete_expired(START + 4 * DAY_MS + archive.ROWS_KEPT_MS + 1)
    assert HistoryFile.objects.count() == 0


@pytest.mark.parametrize("cut", [0, 3, 200, -1])
def test_it_names_a_truncated_file_and_goes_on(two_hours: list[int], cut: int) -> None:
    row = HistoryFile.objects.filter(kind="chunk_hour").order_by("ts_lo_ms")[0]
    data = location(row).read_bytes()
    location(row).write_bytes(data[:cut])
    assert seen() == two_hours  # the hour's log still exists: it is read again
    row.refresh_from_db()
    assert selectors.gaps("local", START, START + DAY_MS) == []  # the log still tells of that hour
    assert row.state == "quarantined"
    assert row.path.startswith("quarantine/")
    assert row.reason
    assert location(row).read_bytes() == data[:cut]
    maintain()
    maintain()
    assert states()["chunk_day"][-1] == "live"
    assert seen() == two_hours


def test_it_sets_a_file_without_offsets_aside_and_says_so(two_hours: list[int]) -> None:
    HistoryFile.objects.filter(kind="wal").update(state="deleted")
    row = HistoryFile.objects.filter(kind="chunk_hour").order_by("ts_lo_ms")[0]
    old = chunk.read_chunk(str(location(row))).drop_columns(["lag_base"])
    pq.write_table(old, location(row))
    data = location(row).read_bytes()
    HistoryFile.objects.filter(pk=row.pk).update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    assert seen() == two_hours[20:]
    row.refresh_from_db()
    assert row.reason == "ArrowInvalid: it is no lag history: it lacks the column lag_base"
    (gap,) = selectors.gaps("local", START, START + DAY_MS)
    assert (gap.from_ms, gap.to_ms) == (START, START + HOUR_MS)
    assert gap.reason == f"history file set aside: {row.reason}"
    assert location(row).read_bytes() == data


def test_it_makes_a_damaged_day_again_while_its_hours_exist(two_hours: list[int]) -> None:
    maintain()
    row = HistoryFile.objects.get(kind="chunk_day")
    location(row).write_bytes(location(row).read_bytes()[:-9])
    assert seen() == two_hours
    assert states()["chunk_hour"] == ["live", "live"]
    maintain()
    assert states()["chunk_day"] == ["quarantined", "live"]
    assert seen() == two_hours


def test_it_goes_on_without_an_hour_that_nothing_can_repair(two_hours: list[int]) -> None:
    for row in HistoryFile.objects.filter(kind="wal"):
        location(row).unlink()
    row = HistoryFile.objects.filter(kind="chunk_hour").order_by("ts_lo_ms")[0]
    damaged = bytearray(location(row).read_bytes())
    damaged[len(damaged) // 3] ^= 0xFF
    location(row).write_bytes(damaged)
    maintain()
    assert states()["chunk_hour"] == ["quarantined", "superseded"]
    assert seen() == two_hours[20:]
    row.refresh_from_db()
    assert "another checksum" in row.reason
    maintain()  # its log is not there either
    (gap,) = selectors.gaps("local", START, START + DAY_MS)  # the day, made without it, does not hide it
    assert (gap.from_ms, gap.to_ms) == (START, START + HOUR_MS)


def test_it_says_what_of_a_damaged_log_is_lost() -> None:
    write(START)
    (path,) = history.wal_folder("local").glob("*.wal")
    data = bytearray(path.read_bytes())
    at = data.find(b"LFRM", len(data) // 2)
    data[at + 30] ^= 0xFF  # inside a frame: whole ones follow
    path.write_bytes(data)
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + 2 * HOUR_MS)
    row = HistoryFile.objects.get(kind="wal")
    assert row.reason == f"damaged at byte {at} of {len(data)}: the rounds behind it are lost"
    assert 0 < len(seen()) < 20


def test_it_sets_a_log_aside_that_is_no_log() -> None:
    write(START)
    (path,) = history.wal_folder("local").glob("*.wal")
    path.write_bytes(b"something else entirely, and long enough to be looked at")
    write(START + 400_000, first=50)
    assert archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + 2 * HOUR_MS) is not None
    assert seen() == list(range(500, 700, 10))


def test_it_tries_again_when_the_disk_was_full(two_hours: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    write(START + 2 * HOUR_MS, first=200)
    before = seen()

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(chunk.ChunkWriter, "write", full)
        assert services.compact_history(now_ms=START + DAY_MS + HOUR_MS) == 0
    assert states()["wal"][-1] == "live"
    assert seen() == before
    assert services.compact_history(now_ms=START + DAY_MS + HOUR_MS) == 1
    assert seen() == before


@pytest.mark.parametrize("url", ["memory://history", "file:///{folder}/elsewhere"])
def test_it_keeps_files_wherever_fsspec_reaches(url: str, tmp_path: Path, settings: Settings) -> None:
    settings.HISTORY_URL = url.format(folder=tmp_path)
    write(START)
    maintain(START + 2 * HOUR_MS)
    made = HistoryFile.objects.get(kind="chunk_hour")
    filesystem, root = fsspec.core.url_to_fs(settings.HISTORY_URL)
    assert filesystem.info(f"{root}/{made.path}")["size"] == made.bytes
    assert len(seen()) == 20
    maintain()
    assert states()["chunk_day"] == ["live"]
    assert len(seen()) == 20
    archive.delete_expired(START + 90 * DAY_MS + 2 * DAY_MS)
    assert not filesystem.exists(f"{root}/{made.path}")


GROUPS = [f"group-{number}" for number in range(6)]


def write_groups(start_ms: int) -> None:
    heads = [HeadKey("orders", "broker-a", number) for number in range(4)]
    made = rounds(
        {head: [(0, 10 * n) for n in range(5)] for head in heads},
        {
            CommitKey(group, *head): [n + at for n in range(5)]
            for at, group in enumerate(GROUPS)
            for head in heads
        },
        start_ms=start_ms,
    )
    log = HistoryLog("local")
    log.catch_up(0)
    for one in made:
        log.append(one)


def told(group: str) -> list[int]:
    found: list[int] = history_reads.load("local", group, START, START + DAY_MS).committed.tolist()
    return found


@pytest.fixture
def bucketed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """A day large enough to be three files; what was known of its groups before."""
    for hour in range(2):
        write_groups(START + hour * HOUR_MS)
        archive.compact_hour("local", START + hour * HOUR_MS, interval_ms=5_000, now_ms=START + 2 * HOUR_MS)
    before = {group: told(group) for group in ["", *GROUPS]}
    size = sum(row.bytes for row in HistoryFile.objects.filter(kind="chunk_hour"))
    monkeypatch.setattr(archive, "BUCKET_BYTES", archive.MERGED_SHARE * size / 3)
    monkeypatch.setattr(compaction, "MERGE_ROWS", 1)
    return before


def days() -> list[HistoryFile]:
    return list(HistoryFile.objects.filter(kind="chunk_day", state="live").order_by("bucket"))


def test_a_large_day_is_several_files(bucketed: dict[str, list[int]]) -> None:
    maintain()
    made = days()
    folder = "kind=chunk_day/cluster=local/date=2023-11-15"
    assert [row.path for row in made] == [f"{folder}/b={number}-g1.parquet" for number in range(3)]
    assert [(row.group_lo, row.group_hi) for row in made] == [
        ("", "group-1"),
        ("group-2", "group-3"),
        ("group-4", "group-5"),
    ]
    assert {group: told(group) for group in bucketed} == bucketed
    for row in made[1:]:
        location(row).unlink()
    assert told("group-1") == bucketed["group-1"]  # who asks for one group opens its file only
    assert history_reads.history_paths("local", START, START + DAY_MS, group="group-3") == [
        str(location(made[1]))
    ]
    assert len(history_reads.history_paths("local", START, START + DAY_MS)) == 3


def test_a_late_hour_makes_all_buckets_anew(bucketed: dict[str, list[int]]) -> None:
    maintain()
    write_groups(START + 5 * HOUR_MS)
    maintain()
    assert {row.generation for row in days()} == {2}
    assert states()["chunk_day"] == ["superseded"] * 3 + ["live"] * len(days())
    assert {group: len(told(group)) for group in GROUPS} == dict.fromkeys(GROUPS, 3 * 5 * 4)
    count = HistoryFile.objects.count()
    maintain()
    assert HistoryFile.objects.count() == count


def test_a_disk_that_is_full_in_the_second_bucket_leaves_the_hours(
    bucketed: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compaction.DayMerge.write_bucket

    def full(merge: compaction.DayMerge, sink: Any) -> compaction.Bucket:
        if merge._number == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(merge, sink)

    with monkeypatch.context() as patched:
        patched.setattr(compaction.DayMerge, "write_bucket", full)
        maintain()
    assert days() == []
    assert {group: told(group) for group in bucketed} == bucketed
    maintain()
    assert [row.path.rpartition("/")[2] for row in days()] == [
        f"b={number}-g1.parquet" for number in range(3)
    ]
    assert {group: told(group) for group in bucketed} == bucketed


def test_a_damaged_bucket_is_made_again_from_its_hours_or_named(bucketed: dict[str, list[int]]) -> None:
    maintain()
    hours = list(HistoryFile.objects.filter(kind="chunk_hour"))
    location(days()[1]).write_bytes(b"PAR1 no more")
    assert told("group-2") == bucketed["group-2"]  # from the hours, which still lie there
    assert history_reads.lost_files("local", START, START + DAY_MS) == []
    maintain()
    assert {row.generation for row in days()} == {2}
    assert {group: told(group) for group in bucketed} == bucketed
    for row in hours:
        location(row).unlink(missing_ok=True)
    HistoryFile.objects.filter(kind="chunk_hour").update(state="deleted")
    location(days()[-1]).write_bytes(b"PAR1 no more")
    assert told("group-5") == []
    assert told("group-0") == bucketed["group-0"]
    (lost,) = history_reads.lost_files("local", START, START + DAY_MS)
    assert (lost.group_hi, lost.bucket) == ("group-5", len(days()))


def test_a_file_of_before_buckets_may_hold_any_group(bucketed: dict[str, list[int]]) -> None:
    maintain()
    HistoryFile.objects.update(group_lo=None, group_hi=None)
    assert {group: told(group) for group in bucketed} == bucketed


def contents() -> dict[int, str]:
    found = history_reads.hour_contents("local", START, START + DAY_MS)
    return {(hour_ms - START) // HOUR_MS: content for hour_ms, content in found.items()}


def test_the_content_of_an_hour_is_its_file_and_stays_so_in_the_file_of_the_day(
    two_hours: list[int],
) -> None:
    hour_rows = HistoryFile.objects.filter(kind=history.Kind.CHUNK_HOUR).order_by("ts_lo_ms")
    expected = dict(enumerate(row.sha256 for row in hour_rows))
    assert contents() == expected and all(expected.values())
    archive.merge_day("local", START, now_ms=START + DAY_MS + HOUR_MS)
    assert contents() == expected
    archive.delete_expired(START + DAY_MS + 3 * HOUR_MS)
    assert contents() == expected


def test_an_hour_that_is_partly_in_the_log_has_no_content(two_hours: list[int]) -> None:
    before = contents()
    late = HistoryFile.objects.filter(kind=history.Kind.WAL, ts_lo_ms__gte=START + HOUR_MS)
    late.update(state=history.State.LIVE)
    assert contents() == {0: before[0]}
    made = archive.compact_hour("local", START + HOUR_MS, interval_ms=5_000, now_ms=START + 2 * HOUR_MS)
    assert made is not None and made.generation == 2
    assert contents() == {0: before[0], 1: made.sha256}


def test_an_hour_whose_day_was_made_again_without_it_has_no_content(two_hours: list[int]) -> None:
    archive.merge_day("local", START, now_ms=START + DAY_MS + HOUR_MS)
    archive.delete_expired(START + DAY_MS + 3 * HOUR_MS)
    day = HistoryFile.objects.get(kind=history.Kind.CHUNK_DAY)
    history.quarantine(day, Text("cut off"), START + DAY_MS + 3 * HOUR_MS)
    assert contents() == {}
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + DAY_MS + 3 * HOUR_MS)
    archive.merge_day("local", START, now_ms=START + DAY_MS + 4 * HOUR_MS)
    assert set(contents()) == {0}
