"""Store files read where they lie, against what Apache RocketMQ wrote into them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import fsspec
import pytest

from brokerd.remoting.message.record import HEAD, MAGIC_V1, MAGIC_V2, MessageRecord, decode_record
from spark.sources import store_files
from spark.sources.store_files import log_began_ms, log_files, records, units
from tests.brokerd.store.stores import GOLDEN, unpack_golden
from tests.support.plain_record import encode_record


def test_it_reads_units_of_consume_queues(tmp_path: Path) -> None:
    store = unpack_golden("5.3.3", tmp_path / "golden")
    expected = json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())
    for queue in expected["consumeQueues"]:
        folder = str(store / "consumequeue" / queue["topic"] / str(queue["queueId"]))
        found = [unit for path in log_files(folder) for unit in units(path, pytest.fail)[1].tolist()]
        assert [list(unit) for unit in found] == queue["entries"], queue["topic"]
    path = Path(log_files(str(store / "consumequeue" / "GoldenStore" / "0"))[0])
    said: list[str] = []
    path.write_bytes(path.read_bytes()[:47])
    first, found_units = units(str(path), said.append)
    assert (first, len(found_units), said) == (0, 2, [f"{path}: ends inside a unit"])
    shutil.rmtree(path.parent)
    assert log_files(str(path.parent)) == []
    assert units(str(path), said.append)[0] == 0 and str(path) in said[1]


def test_it_reads_records_without_their_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field as the store's own decoder has it, whether pieces are large or end inside of each record."""
    store = unpack_golden("5.3.3", tmp_path / "golden")
    paths = log_files(str(store / "commitlog"))
    whole = [one for path in paths for one in _decoded(Path(path))]
    assert len(whole) == len(json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())["messages"])
    for piece_bytes in (store_files.PIECE_BYTES, 100):
        monkeypatch.setattr(store_files, "PIECE_BYTES", piece_bytes)
        found = [one for path in paths for one in records(path, pytest.fail)]
        for mine, theirs in zip(found, whole, strict=True):
            shared = {name: getattr(theirs, name) for name in mine._fields if name != "body_bytes"}
            assert mine._asdict() == {**shared, "body_bytes": len(theirs.body)}
    letters = [one.topic for path in paths for one in records(path, pytest.fail, "%DLQ%")]
    assert letters == [one.topic for one in whole if one.topic.startswith("%DLQ%")] != []
    assert log_began_ms(str(store)) == whole[0].store_timestamp_ms


def test_it_skips_a_long_body_and_reads_wherever_fsspec_reaches(tmp_path: Path) -> None:
    body = b"x" * (3 * store_files.PIECE_BYTES)
    host = ("127.0.0.1", 10_911)
    logged = encode_record(
        MessageRecord("orders", 1, 5, 0, 0, body, 0, 0, 0, 1_000, host, 2_000, host, 3, 0, {"TAGS": "a"})
    )
    fsspec.filesystem("memory").pipe("/store/commitlog/00000000000000000000", logged)
    said: list[str] = []
    (path,) = log_files("memory://store/commitlog")
    (found,) = records(path, said.append)
    assert (found.topic, found.body_bytes, found.queue_offset, said) == ("orders", len(body), 5, [])
    assert (found.reconsume_times, found.properties, found.store_timestamp_ms) == (3, {"TAGS": "a"}, 2_000)
    assert log_began_ms("memory://store") == found.store_timestamp_ms
    for kept in (40, 50, 70, 87, 100, len(body), len(logged) - 1):
        said.clear()
        fsspec.filesystem("memory").pipe("/store/commitlog/00000000000000000000", logged[:kept])
        assert list(records(path, said.append)) == []
        assert said == [f"{path}: ends inside a record at offset 0"], kept


def _decoded(path: Path) -> list[MessageRecord]:
    data, found = path.read_bytes(), []
    while True:
        at = found[-1].commit_log_offset + found[-1].store_size_bytes - int(path.name) if found else 0
        if len(data) - at < HEAD.size or HEAD.unpack_from(data, at)[1] not in (MAGIC_V1, MAGIC_V2):
            return found
        found.append(decode_record(data, at))
