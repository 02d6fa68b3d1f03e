"""Two worker hosts, each with a data folder of its own, and one history: who reads, supersedes and adopts what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from console.lag import selectors, services
from console.lag.history import archive, compaction_lease, uploads
from console.lag.history import log as history
from console.lag.history.compaction_lease import LEASE_MS, LeaseLost, LeaseTaken
from console.lag.history.log import HistoryLog, HistoryMoved
from console.lag.models import CollectorLease, HistoryFile, HistoryGap, HistoryLease
from console.lag.past import history_reads
from console.lag.tasks import queue_of
from spark.lag.history import compaction, files, wal
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.console.lag.conftest import CollectedCluster
from tests.spark.lag.sample_history import rounds

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

DAY_MS = 24 * HOUR_MS
START = 1_700_006_400_000  # midnight
SEGMENT = wal.SEGMENT_MS
HEAD = HeadKey("orders", "broker-a", 0)
OVER = START + HOUR_MS + 60_000  # the first hour is over, its log is on disk
DEAD = START + HOUR_MS + 2 * SEGMENT + 60_000  # whoever did not upload by now is dead


@dataclass
class Hosts:
    """Hosts a and b as one process plays them in turn."""

    settings: Any
    folder: Path

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Be a host for a while: its name, its disk, what its processes remember."""
        before = self.settings.HOST_ID, self.settings.DATA_DIR, services.collectors
        self.settings.HOST_ID, self.settings.DATA_DIR = f"host-{name}", self.folder / name
        services.collectors = self.remembered.setdefault(name, services._Collectors())
        try:
            yield
        finally:
            self.settings.HOST_ID, self.settings.DATA_DIR, services.collectors = before

    def __post_init__(self) -> None:
        self.remembered: dict[str, Any] = {}

    def write(self, name: str, start_ms: int, first: int, count: int = 3) -> None:
        """Let a host take rounds; round n of all has max offset 10 n."""
        with self.on(name):
            log = HistoryLog("local")
            log.catch_up(0)
            for one in made(start_ms, first, count):
                log.append(one)

    def upload(self, name: str, now_ms: int) -> int:
        with self.on(name):
            return uploads.maintain_own(now_ms)

    def maintain(self, name: str, now_ms: int) -> int:
        with self.on(name):
            return archive.maintain("local", interval_ms=5_000, now_ms=now_ms)

    def seen(self, name: str) -> list[int]:
        """The round numbers that a chart on a host would show."""
        with self.on(name):
            samples = history_reads.load("local", "billing", START, START + DAY_MS)
            return [offset // 10 for offset in samples.max_offset.tolist()]

    def gaps(self, name: str) -> list[tuple[int, int, str]]:
        with self.on(name):
            found = selectors.gaps("local", START, START + DAY_MS)
            return [(gap.from_ms - START, (gap.to_ms or 0) - START, gap.reason) for gap in found]


def made(start_ms: int, first: int, count: int) -> list[Snapshot]:
    numbers = range(first, first + count)
    return rounds(
        {HEAD: [(0, 10 * n) for n in numbers]},
        {CommitKey("billing", *HEAD): [9 * n for n in numbers]},
        start_ms=start_ms,
    )


@pytest.fixture
def hosts(local_history: Path, tmp_path: Path, settings: Settings) -> Hosts:
    settings.HISTORY_URL = f"file://{tmp_path}/shared"
    return Hosts(settings, tmp_path)


def states(kind: str) -> list[tuple[str, int]]:
    rows = HistoryFile.objects.filter(kind=kind).order_by("ts_lo_ms", "generation", "host")
    return [(row.state, row.generation) for row in rows]


AWAY = (
    "the log of host-a is not uploaded yet: that takes six minutes while the host runs; "
    "if it is down, start it again with its data folder"
)


def test_one_host_copies_nothing(local_history: Path) -> None:
    log = HistoryLog("local")
    for one in made(START, 0, 3):
        log.append(one)
    assert uploads.maintain_own(OVER) == 0
    assert archive.maintain("local", interval_ms=5_000, now_ms=OVER) == 1
    names = sorted(path.name for path in local_history.rglob("*.*"))
    assert names == [f"{START}.wal", "b=0-g1.parquet"]
    assert HistoryFile.objects.get(kind="wal").uploaded_at_ms == 0


def test_an_hour_is_made_from_the_logs_of_all_hosts(hosts: Hosts) -> None:
    hosts.write("a", START, 0)
    hosts.write("b", START + 15_000, 3)  # takes over in the middle of a segment
    hosts.write("a", START + SEGMENT, 6)
    assert hosts.upload("a", OVER) == 2
    assert hosts.seen("b") == list(range(9))
    assert hosts.maintain("b", OVER) == 1
    assert states("wal") == [("superseded", 1)] * 3
    assert hosts.seen("a") == hosts.seen("b") == list(range(9))
    paths = HistoryFile.objects.filter(kind="wal").values_list("path", "host")
    assert sorted(paths) == [
        (f"wal/local/host-a/{START}.wal", "host-a"),
        (f"wal/local/host-a/{START + SEGMENT}.wal", "host-a"),
        (f"wal/local/host-b/{START}.wal", "host-b"),
    ]
    assert hosts.gaps("a") == hosts.gaps("b") == []


def test_an_hour_waits_for_a_host_that_is_about_to_upload(hosts: Hosts) -> None:
    hosts.write("b", START, 0)
    hosts.write("a", START + 11 * SEGMENT, 3)
    assert hosts.maintain("b", OVER) == 0
    assert hosts.upload("a", OVER + 1_000) == 1
    assert hosts.maintain("b", OVER + 2_000) == 1
    assert states("chunk_hour") == [("live", 1)]


def test_a_dead_hosts_uploads_are_adopted_and_the_rest_is_a_gap_until_it_returns(hosts: Hosts) -> None:
    hosts.write("a", START, 0)
    assert hosts.upload("a", START + SEGMENT + 60_000) == 1
    hosts.write("a", START + SEGMENT, 3)  # and then it dies
    hosts.write("b", START + 2 * SEGMENT, 6)
    assert hosts.maintain("b", DEAD) == 1
    assert states("wal") == [("superseded", 1), ("live", 1), ("superseded", 1)]
    assert hosts.seen("b") == [0, 1, 2, 6, 7, 8]
    assert hosts.gaps("b") == [(SEGMENT, 2 * SEGMENT, AWAY)]
    assert hosts.maintain("b", DEAD + 1) == 0  # nothing new: not made again and again
    # it is back
    assert hosts.upload("a", DEAD + HOUR_MS) == 1
    assert hosts.maintain("b", DEAD + HOUR_MS) == 1
    assert states("chunk_hour") == [("superseded", 1), ("live", 2)]
    assert states("wal") == [("superseded", 1)] * 3
    assert hosts.seen("b") == hosts.seen("a") == list(range(9))
    assert hosts.gaps("b") == []


def test_a_host_that_returns_after_its_day_was_merged_fills_it_in(hosts: Hosts) -> None:
    hosts.write("a", START, 0)
    hosts.write("b", START + SEGMENT, 3)
    hosts.write("b", START + HOUR_MS, 6)
    late_ms = START + 3 * DAY_MS
    hosts.maintain("b", START + DAY_MS + HOUR_MS)
    assert states("chunk_day") == [("live", 1)]
    with hosts.on("b"):
        archive.delete_expired(late_ms)  # logs are kept 48 h, those of an hour that is awaited longer
    assert states("wal") == [("live", 1), ("superseded", 1), ("deleted", 1)]
    assert hosts.upload("a", late_ms) == 1
    hosts.maintain("b", late_ms)
    assert states("chunk_day") == [("superseded", 1), ("live", 2)]
    assert hosts.seen("a") == list(range(9))
    with hosts.on("b"):
        archive.delete_expired(late_ms + 2)
    assert states("wal") == [("deleted", 1)] * 3
    assert hosts.upload("a", late_ms + 3) == 0
    assert not list((hosts.folder / "a").rglob("*.wal"))  # its own copies go too


def test_logs_of_an_hour_stay_while_one_of_them_is_in_no_hour_file(hosts: Hosts) -> None:
    """A host that returned after two days expires nothing that its own late segment will be put together with."""
    hosts.write("a", START, 0)
    assert hosts.upload("a", START + SEGMENT + 60_000) == 1
    hosts.write("a", START + SEGMENT, 3)
    hosts.maintain("b", DEAD)
    with hosts.on("a"):
        archive.delete_expired(START + 3 * DAY_MS)
    assert states("wal") == [("superseded", 1), ("live", 1)]
    assert hosts.maintain("a", START + 3 * DAY_MS) == 1
    assert hosts.seen("b") == list(range(6))


def test_a_host_that_never_returns_is_given_up_after_the_history_has_expired(
    hosts: Hosts, settings: Settings
) -> None:
    settings.HISTORY_DAYS = 3
    hosts.write("a", START, 0)
    with hosts.on("b"):
        archive.delete_expired(START + 3 * DAY_MS)
        assert states("wal") == [("live", 1)]
        archive.delete_expired(START + 4 * DAY_MS)
    row = HistoryFile.objects.get()
    assert (row.state, row.reason) == ("deleted", "its host never uploaded it")
    assert hosts.gaps("b") == []


def test_an_hour_is_not_made_again_from_less_than_it_was_made_from(hosts: Hosts) -> None:
    hosts.write("b", START, 0)
    assert hosts.maintain("b", DEAD) == 1
    HistoryFile.objects.filter(kind="wal").update(state="deleted")
    for path in hosts.folder.rglob("*.wal"):
        path.unlink()
    hosts.write("a", START + SEGMENT, 3)
    hosts.upload("a", DEAD)
    assert hosts.maintain("b", DEAD) == 0
    assert states("chunk_hour") == [("live", 1)]
    assert hosts.seen("b") == list(range(6))  # the chunk and the late segment beside it


def test_a_segment_that_was_uploaded_takes_no_more_rounds(hosts: Hosts) -> None:
    """A process that stood still while its segment was closed learns of it: the round is not lost silently."""
    with hosts.on("a"):
        log = HistoryLog("local")
        first, second, third = made(START, 0, 3)
        log.append(first)
        uploads.maintain_own(START + SEGMENT + 59_999)
        log.append(second)  # within the minute
        assert uploads.maintain_own(START + SEGMENT + 60_000) == 1
        with pytest.raises(HistoryMoved, match="is closed: its round 2 came too late"):
            log.append(third)
        (row,) = HistoryFile.objects.all()
        segment = wal.read_segment(files.read(history.stored_location(row.path)))
        assert len(segment.snapshots) == 2
        log = HistoryLog("local")
        log.append(made(START + SEGMENT, 3, 1)[0])


def test_a_clock_that_was_set_back_touches_no_other_hosts_log(hosts: Hosts) -> None:
    hosts.write("a", START + HOUR_MS, 0)
    hosts.write("b", START + HOUR_MS, 3)
    with hosts.on("b"):
        HistoryLog("local").close_before(START + 2 * HOUR_MS)
        archive.set_aside_future("local", START)
        HistoryLog("local").append(made(START + 5_000, 9, 1)[0])
    assert [(row.host, row.state) for row in HistoryFile.objects.order_by("pk")] == [
        ("host-a", "live"),
        ("host-b", "quarantined"),
        ("host-b", "live"),
    ]


# --- The lease ----------------------------------------------------------------------------------------------


def test_one_process_makes_files_at_a_time(hosts: Hosts) -> None:
    hosts.write("b", START, 0)
    with hosts.on("b"):
        hosts.upload("b", OVER)
        with compaction_lease.held("local", OVER):
            with hosts.on("a"), pytest.raises(LeaseTaken):
                archive.compact_hour("local", START, interval_ms=5_000, now_ms=OVER)
            assert hosts.maintain("a", OVER) == 0
        assert states("chunk_hour") == []
    assert hosts.maintain("a", OVER) == 1
    assert HistoryLease.objects.get().until_ms == 0


@pytest.mark.parametrize("place", ["before its file is written", "before its file is listed"])
def test_a_process_that_stood_still_in_the_middle_lists_nothing(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    hosts.write("b", START, 0)
    hosts.upload("b", OVER)
    owner, name, is_after = (
        (archive, "_written", True) if "listed" in place else (compaction, "write_hour", False)
    )
    real = getattr(owner, name)

    def stand_still(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        written = real(*args, **options) if is_after else None
        assert hosts.maintain("a", OVER + LEASE_MS) == 1  # the lease is over: another host does it
        return written if is_after else real(*args, **options)

    monkeypatch.setattr(owner, name, stand_still)
    with hosts.on("b"), pytest.raises((LeaseLost, FileNotFoundError)):
        archive.compact_hour("local", START, interval_ms=5_000, now_ms=OVER)
    (row,) = HistoryFile.objects.filter(kind="chunk_hour", state="live")
    assert row.generation == 2  # under another name: the late writer could not touch it
    assert files.digest(history.stored_location(row.path)) == (row.bytes, row.sha256)
    assert [path.name for path in (hosts.folder / "shared").rglob("*.parquet")] == ["b=0-g2.parquet"]
    assert hosts.seen("a") == [0, 1, 2]


def test_a_lease_is_renewed_while_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_lease, "RENEWED_EVERY_S", 0.0)
    with compaction_lease.held("local", START) as lease:
        before = HistoryLease.objects.get().until_ms
        monkeypatch.setattr(lease, "_offset_ms", lease._offset_ms + 60_000)  # a minute later
        lease.renew_if_due()
        assert HistoryLease.objects.get().until_ms >= before + 60_000
        HistoryLease.objects.update(owner="another")
        with pytest.raises(LeaseLost):
            lease.renew_if_due()
    assert HistoryLease.objects.get().until_ms > 0  # and is not given back by who lost it


def test_a_lease_from_the_future_is_ignored() -> None:
    HistoryLease.objects.create(cluster="local", owner="x", until_ms=START + 3 * LEASE_MS)
    with compaction_lease.held("local", START):
        assert HistoryLease.objects.get().until_ms == START + LEASE_MS


# --- Rounds -------------------------------------------------------------------------------------------------


def test_rounds_stay_on_their_host_until_it_is_silent(collected: CollectedCluster, hosts: Hosts) -> None:
    with hosts.on("a"):
        collected.collect()
    now_ms = collected.now_ms
    assert services.host_of("local", now_ms + 5_000) == "host-a"
    assert services.host_of("local", now_ms + services.HOST_SILENT_MS) == "host-a"
    assert services.host_of("local", now_ms + services.HOST_SILENT_MS + 1) == ""
    assert services.host_of("local", now_ms - 1) == ""  # the clock was set back
    assert services.host_of("another", now_ms) == ""
    assert (queue_of("host-a"), queue_of("")) == ("collect.host-a", "collect")


def test_a_host_that_takes_over_goes_on_with_what_is_known(collected: CollectedCluster, hosts: Hosts) -> None:
    collected.make_topic("orders", 1)
    collected.make_group("billing")
    collected.send("orders", 10)
    collected.commit("billing", "orders", 7)
    collected.now_ms -= collected.now_ms % SEGMENT  # the rounds are the first of their segment
    with hosts.on("b"):
        collected.collect()  # it collected once, long ago
    with hosts.on("a"):
        for _ in range(3):
            collected.collect()
        uploads.maintain_own(collected.now_ms + SEGMENT + 60_000)
        collected.now_ms += SEGMENT
        last = collected.collect()  # of this segment nothing is uploaded
    HistoryGap.objects.all().delete()  # of the jump
    collected.send("orders", 5)
    with hosts.on("b"):
        done = collected.collect()
        assert done.number == last.number + 1
        window = services.collectors._by_cluster["local"].window
        (queue,) = [key for key in window.heads.keys if key.topic == "orders"]
        assert queue.incarnation == 0
        row = selectors.last_round("local")
        assert row is not None and row.number == done.number
    assert not HistoryGap.objects.exists()  # rounds took place all the time
    assert CollectorLease.objects.get().host == "host-b"
    absent = [gap.reason for gap in selectors.gaps("local", 0, 2**50)]
    with hosts.on("b"):
        (gap,) = selectors.gaps("local", collected.now_ms - 2 * SEGMENT, collected.now_ms)
    assert gap.reason == AWAY
    assert len(absent) >= 1
