"""Store files read where they lie, against what Apache RocketMQ wrote into them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from spark.sources.store_files import log_files, units
from tests.brokerd.store.stores import GOLDEN, unpack_golden


def test_it_reads_units_of_consume_queues(tmp_path: Path) -> None:
    store = unpack_golden("5.3.3", tmp_path / "golden")
    expected = json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())
    for queue in expected["consumeQueues"]:
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
