"""Traffic and dead letters out of store files: real ones that Apache RocketMQ wrote, and ours with damage."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark import dead_letter, topic_traffic
from spark.job import HOUR_MS, JobResult, JobSpec, StoreFolder
from spark.store_files import log_files, records, units
from tests.brokerd.store.stores import GOLDEN, unpack_golden

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """What a broker of RocketMQ 5.3.3 left."""
    return unpack_golden("5.3.3", tmp_path / "golden")


def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())
    return found


def spec(store: Path, folder: Path, job: str, **changes: Any) -> JobSpec:
    stored = [one["storeTimestamp"] for one in expected()["messages"]]
    day = min(stored) - min(stored) % DAY_MS
    values: dict[str, Any] = {
        "job": job,
        "job_id": "report-1",
        "from_ms": day,
        "to_ms": day + DAY_MS,
        "hours": (),
        "output": str(folder / "out"),
        "as_of_ms": day + DAY_MS,
        "stores": (StoreFolder("local", "broker-a", str(store)),),
    }
    return JobSpec(**{**values, **changes})


def rows(result: JobResult) -> list[dict[str, Any]]:
    (path,) = Path(result.output).glob("*.parquet")
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_it_counts_what_apache_rocketmq_stored(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    result = topic_traffic.run(spark, spec(store, tmp_path, "topic_traffic"))
    assert result.warnings == ()
    found = {row["topic"]: row for row in rows(result) if row["grain"] == "topic"}
    messages = expected()["messages"]
    count, size = Counter(one["topic"] for one in messages), Counter[str]()
    for one in messages:
        size[one["topic"]] += one["storeSize"]
    assert {topic: row["messages"] for topic, row in found.items()} == count
    assert {topic: row["size_bytes"] for topic, row in found.items()} == size
    assert found["%DLQ%GoldenStoreGroup"]["kind"] == "DLQ"
    assert found["GoldenStore"]["kind"] == "NORMAL"
    assert (found["GoldenStore"]["undispatched"], found["GoldenStore"]["wrong_units"]) == (0, 0)
    # the log began in this day: what came before it is not known
    assert 0 < found["GoldenStore"]["coverage_pct"] < 100
    assert found["GoldenStore"]["max_gap_ms"] == found["GoldenStore"]["log_from_ms"] % DAY_MS
    hours = [row for row in rows(result) if row["grain"] == "hour" and row["topic"] == "GoldenStore"]
    assert sum(row["messages"] for row in hours) == count["GoldenStore"]


def test_it_tells_why_letters_are_dead(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    result = dead_letter.run(spark, spec(store, tmp_path, "dead_letter"))
    (letter,) = [one for one in expected()["messages"] if one["topic"].startswith("%DLQ%")]
    (group,) = [row for row in rows(result) if row["grain"] == "group"]
    assert (group["group"], group["letters"], group["arrived"], group["peak_per_h"]) == (
        "GoldenStoreGroup",
        1,
        1,
        1,
    )
    assert group["oldest_ms"] == letter["storeTimestamp"]
    assert group["age_p50_ms"] == group["window_end_ms"] - letter["storeTimestamp"]
    assert group["life_p50_ms"] == letter["storeTimestamp"] - letter["bornTimestamp"]
    (cause,) = [row for row in rows(result) if row["grain"] == "cause"]
    assert (cause["topic"], cause["cause"]) == (letter["properties"]["RETRY_TOPIC"], "given up")
    later = dead_letter.run(
        spark,
        spec(
            store,
            tmp_path,
            "dead_letter",
            from_ms=group["window_start_ms"] + DAY_MS,
            to_ms=group["window_start_ms"] + 2 * DAY_MS,
            as_of_ms=group["window_start_ms"] + 2 * DAY_MS,
        ),
    )
    (group,) = [row for row in rows(later) if row["grain"] == "group"]
    assert (group["letters"], group["arrived"], group["peak_per_h"]) == (1, 0, 0)


def test_it_reads_damaged_and_cut_files_as_far_as_they_go(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    logs = log_files(store / "commitlog")
    whole = [one for path in logs for one in records(path, pytest.fail)]
    assert len(whole) == len(expected()["messages"])
    cut = whole[-1].commit_log_offset + 50 - int(logs[-1].name)
    logs[-1].write_bytes(logs[-1].read_bytes()[:cut])  # a copy that was made while the broker wrote
    damaged = bytearray(logs[0].read_bytes())
    victim = whole[10]
    damaged[victim.commit_log_offset + 4] ^= 0xFF
    logs[0].write_bytes(bytes(damaged))
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    result = topic_traffic.run(spark, spec(store, tmp_path, "topic_traffic"))
    assert result.warnings == (
        f"{logs[0]}: no record at offset {victim.commit_log_offset}, read up to there",
        f"{logs[-1]}: ends inside a record at offset {whole[-1].commit_log_offset}",
    )
    second = int(logs[1].name)
    kept = [
        one
        for one in whole[:-1]
        if one.commit_log_offset < victim.commit_log_offset or one.commit_log_offset >= second
    ]
    assert sum(row["messages"] for row in rows(result) if row["grain"] == "topic") == len(kept)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_it_says_what_is_no_store(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="holds no commitlog: it is no store"):
        topic_traffic.run(spark, spec(tmp_path, tmp_path, "topic_traffic"))
    result = topic_traffic.run(spark, spec(tmp_path, tmp_path, "topic_traffic", stores=()))
    assert (result.rows, result.warnings) == (0, ())


def test_it_reads_units_of_consume_queues(store: Path) -> None:
    for queue in expected()["consumeQueues"]:
        folder = store / "consumequeue" / queue["topic"] / str(queue["queueId"])
        found = [unit for path in log_files(folder) for unit in units(path, pytest.fail)[1].tolist()]
        assert [list(unit) for unit in found] == queue["entries"], queue["topic"]
    path = log_files(store / "consumequeue" / "GoldenStore" / "0")[0]
    said: list[str] = []
    path.write_bytes(path.read_bytes()[:47])
    first, found_units = units(path, said.append)
    assert (first, len(found_units), said) == (0, 2, [f"{path}: ends inside a unit"])
    shutil.rmtree(path.parent)
    assert log_files(path.parent) == []
