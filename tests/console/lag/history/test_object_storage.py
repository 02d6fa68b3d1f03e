"""History on a real S3 server: written to its final name, listed last, and what happens when requests fail."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import fsspec
import pytest
from pytest_django import Settings

from console.lag import selectors, services
from console.lag.history import archive, uploads
from console.lag.history import log as history
from console.lag.history.log import HistoryLog
from console.lag.models import HistoryFile
from console.lag.past import history_reads
from spark.lag.history import files
from spark.lag.history.files import StorageError
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import CommitKey, HeadKey
from tests.console.lag.conftest import CollectedCluster
from tests.spark.lag.sample_history import rounds
from tests.support.s3_server import BUCKET, S3Server

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("an S3 server; rows of files are written as in test_archive"),
]

DAY_MS = 24 * HOUR_MS
START = 1_700_006_400_000  # midnight
HEAD = HeadKey("orders", "broker-a", 0)
NOW = START + 2 * HOUR_MS


@pytest.fixture
def s3(s3_server: S3Server, local_history: Path, settings: Settings) -> Iterator[S3Server]:
    """HISTORY_URL names an empty folder of a bucket; the log lies on this host's disk."""
    settings.HISTORY_URL = s3_server.url
    yield s3_server


@pytest.fixture
def impatient(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tries of what five would not bring either."""
    monkeypatch.setattr(type(files.filesystem_of(s3.url)[0]), "retries", 2)


def write(start_ms: int, first: int = 0, count: int = 20) -> None:
    """Rounds of 5 s; round n has max offset 10 n."""
    log = HistoryLog("local")
    log.catch_up(0)
    numbers = range(first, first + count)
    for one in rounds(
        {HEAD: [(0, 10 * n) for n in numbers]},
        {CommitKey("billing", *HEAD): [9 * n for n in numbers]},
        start_ms=start_ms,
    ):
        log.append(one)


def seen() -> list[int]:
    samples = history_reads.load("local", "billing", START, START + DAY_MS)
    found: list[int] = samples.max_offset.tolist()
    return found


def maintain(now_ms: int) -> int:
    return archive.maintain("local", interval_ms=5_000, now_ms=now_ms)


def objects() -> list[str]:
    """The names of all objects, without the folder's."""
    filesystem = fsspec.filesystem("s3", use_listings_cache=False)
    found = filesystem.find(f"{BUCKET}/tidemark") if filesystem.exists(f"{BUCKET}/tidemark") else []
    return sorted(path.removeprefix(f"{BUCKET}/tidemark/") for path in found)


def listed() -> list[str]:
    rows = HistoryFile.objects.exclude(state__in=["deleted", "writing"])
    return sorted(rows.values_list("path", flat=True))


EXPECTED = list(range(0, 200, 10))


def test_hours_and_days_are_made_read_and_deleted_there(s3: S3Server) -> None:
    write(START)
    write(START + HOUR_MS, first=100)
    assert maintain(NOW + 60_000) == 2
    assert {row.uploaded_at_ms for row in HistoryFile.objects.filter(kind="wal")} == {NOW + 60_000}
    assert objects() == listed()
    assert [row.sha256 for row in HistoryFile.objects.all()] == [
        files.digest(f"{s3.url}/{row.path}")[1] for row in HistoryFile.objects.all()
    ]
    assert seen() == [*EXPECTED, *range(1_000, 1_200, 10)]
    maintain(START + DAY_MS + HOUR_MS)
    (day,) = HistoryFile.objects.filter(kind="chunk_day", state="live")
    assert seen() == [*EXPECTED, *range(1_000, 1_200, 10)]
    archive.delete_expired(START + 4 * DAY_MS)
    assert objects() == [day.path]
    archive.delete_expired(START + 100 * DAY_MS)
    assert objects() == []
    assert s3.count("COPY") == 0
    assert list(history.wal_folder("local").glob("*.wal")) == []


def test_a_throttled_storage_is_tried_again(s3: S3Server) -> None:
    write(START)
    with s3.fault("PUT", "throttle", times=2) as fault:
        assert maintain(START + HOUR_MS + 60_000) == 1
    assert fault.times == 0
    assert objects() == listed()
    assert seen() == EXPECTED


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["throttle", "deny"])
def test_a_storage_that_refuses_costs_nothing(
    s3: S3Server, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(START)
    with s3.fault("PUT", how):
        assert maintain(START + HOUR_MS + 60_000) == 0
    assert objects() == []
    (row,) = HistoryFile.objects.all()
    assert (row.kind, row.state, row.uploaded_at_ms) == ("wal", "live", 0)
    assert f"{s3.url}/{row.path} cannot be written: " in caplog.text
    assert seen() == EXPECTED
    with s3.fault("PUT", how, key="chunk_hour"):  # the log is uploaded, its hour is not
        assert maintain(START + HOUR_MS + 60_000) == 0
    assert objects() == listed() == [row.path]
    assert maintain(START + HOUR_MS + 60_000) == 1
    assert objects() == listed()
    assert [one.path.rpartition("/")[2] for one in HistoryFile.objects.filter(kind="chunk_hour")] == [
        "b=0-g1.parquet"
    ]
    assert seen() == EXPECTED


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("times", [1, 10**9], ids=["one answer lost", "every answer lost"])
def test_an_answer_that_is_lost_after_the_object_was_stored_doubles_nothing(s3: S3Server, times: int) -> None:
    write(START)
    with s3.fault("PUT", "lost", times=times):
        assert maintain(START + HOUR_MS + 60_000) == 1
    assert objects() == listed()
    assert seen() == EXPECTED
    assert HistoryFile.objects.filter(kind="chunk_hour").count() == 1


def large(sink: IO[bytes]) -> None:
    for number in range(12):
        sink.write(bytes([number]) * 1024 * 1024)


@pytest.fixture
def small_parts(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Files above 5 MB are uploaded in parts."""
    filesystem, _ = files.filesystem_of(s3.url)
    monkeypatch.setattr(type(filesystem), "default_block_size", 5 * 2**20)
    return s3


def test_a_failed_part_leaves_no_object_and_no_parts(small_parts: S3Server) -> None:
    s3, url = small_parts, f"{small_parts.url}/large"
    with s3.fault("PART", "deny", times=1), pytest.raises(StorageError, match=f"{url} cannot be written"):
        files.write_new(url, large)
    assert objects() == []
    uploads_left = fsspec.filesystem("s3").call_s3("list_multipart_uploads", Bucket=BUCKET)
    assert uploads_left.get("Uploads", []) == []
    with s3.fault("PART", "throttle", times=2):
        _, size, digest = files.write_new(url, large)
    assert (size, digest) == (12 * 1024 * 1024, files.digest(url)[1])


def test_a_completion_whose_answer_is_lost_counts(small_parts: S3Server) -> None:
    s3, url = small_parts, f"{small_parts.url}/large"
    with s3.fault("COMPLETE", "lost", times=1):
        _, size, _ = files.write_new(url, large)
    assert size == files.size_of(url) == 12 * 1024 * 1024
    assert objects() == ["large"]


def test_a_damaged_object_is_copied_aside_and_made_again(s3: S3Server) -> None:
    write(START)
    maintain(START + HOUR_MS + 60_000)
    row = HistoryFile.objects.get(kind="chunk_hour")
    files.write_bytes(f"{s3.url}/{row.path}", b"PAR1 no more")
    assert seen() == EXPECTED  # from the log, which is uploaded
    row.refresh_from_db()
    assert (row.state, row.path.partition("/")[0]) == ("quarantined", "quarantine")
    assert files.read(f"{s3.url}/{row.path}") == b"PAR1 no more"
    assert s3.count("COPY") == 1
    maintain(START + HOUR_MS + 60_000)
    assert objects() == listed()
    assert seen() == EXPECTED


@pytest.mark.both_databases("two hours of one day are merged while the storage is away")
def test_a_storage_that_is_away_sets_nothing_aside(s3: S3Server, settings: Settings) -> None:
    write(START)
    write(START + HOUR_MS, first=100)
    maintain(NOW + 60_000)
    before = sorted(HistoryFile.objects.values_list("path", "state"))
    settings.HISTORY_URL = "s3://another-bucket/tidemark"
    with pytest.raises(StorageError, match="mount or correct HISTORY_URL"):
        archive.merge_day("local", START, now_ms=START + DAY_MS + HOUR_MS)
    settings.HISTORY_URL = s3.url
    with s3.fault("GET", "deny"), s3.fault("HEAD", "deny"), pytest.raises(StorageError, match="cannot be"):
        archive.merge_day("local", START, now_ms=START + DAY_MS + HOUR_MS)
    assert sorted(HistoryFile.objects.values_list("path", "state")) == before
    maintain(START + DAY_MS + HOUR_MS)
    assert HistoryFile.objects.filter(kind="chunk_day", state="live").count() == 1


def test_a_host_whose_storage_is_away_goes_on_with_the_other_clusters(
    s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    write(START)
    caplog.set_level(logging.ERROR)
    with s3.fault("PUT", "deny"):
        assert uploads.maintain_own(NOW) == 0
    assert "log not uploaded cluster=local" in caplog.text
    assert uploads.maintain_own(NOW) == 1
    assert uploads.maintain_own(NOW) == 0
    assert selectors.gaps("local", START, NOW) == []


def test_a_storage_that_is_away_ends_the_run_at_its_first_request(s3: S3Server) -> None:
    for hour in range(3):
        write(START + hour * HOUR_MS, first=100 * hour)
    with s3.fault("PUT", "deny"):
        assert maintain(START + 4 * HOUR_MS) == 0
    assert len({path for kind, path in s3.seen if kind == "PUT"}) == 1
    assert maintain(START + 4 * HOUR_MS) == 3


def test_rounds_go_on_while_the_storage_is_away(collected: CollectedCluster, s3: S3Server) -> None:
    collected.make_topic("orders", 1)
    collected.make_group("billing")
    collected.collect()
    collected.now_ms += 2 * HOUR_MS
    assert maintain(collected.now_ms) == 1
    services.collectors.clear()  # a restart
    with s3.fault("GET", "deny"), s3.fault("HEAD", "deny"), s3.fault("PUT", "deny"):
        assert collected.collect().error == ""
    # Between 22:00 and 24:00 UTC the hour is in a day that is over: merged already.
    assert HistoryFile.objects.filter(kind__startswith="chunk", state="live").count() == 1
