"""Rounds that find the log changed: taken again, or named."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.lag import services
from console.lag.history.log import HistoryMoved, wal_folder
from console.lag.models import CollectorLease, HistoryGap
from spark.lag.history import wal
from tests.console.lag.conftest import CollectedCluster

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def foreign_write(collected: CollectedCluster) -> Path:
    """Have one round, and bytes behind it that this process has not seen."""
    collected.now_ms -= (
        collected.now_ms % wal.SEGMENT_MS
    )  # all rounds in one segment, whatever the clock says
    collected.collect()
    (segment,) = wal_folder("local").glob("*.wal")
    segment.write_bytes(segment.read_bytes() + b"another writer")
    services.collectors._by_cluster["local"].log.catch_up = lambda since_ms: []  # type: ignore[method-assign]
    return segment


def test_it_takes_a_round_again_that_found_the_log_changed(collected: CollectedCluster) -> None:
    segment = foreign_write(collected)
    assert collected.collect().number == 2  # the torn tail was cut, nothing was lost
    assert [s.number for s in wal.read_segment(segment.read_bytes()).snapshots] == [1, 2]
    assert CollectorLease.objects.get().until_ms == 0
    assert not HistoryGap.objects.exists()


def test_it_names_a_round_that_another_process_overtook(
    collected: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_write(collected)
    began_ms = collected.now_ms
    monkeypatch.setattr(services, "_is_lease_held", lambda cluster: False)
    with pytest.raises(HistoryMoved):
        collected.collect()
    gap = HistoryGap.objects.get()
    assert (gap.from_ms, gap.to_ms) == (began_ms, collected.now_ms)
    assert gap.reason.startswith("round not written: ")
    assert CollectorLease.objects.get().until_ms == 0
    assert collected.collect().number == 2
