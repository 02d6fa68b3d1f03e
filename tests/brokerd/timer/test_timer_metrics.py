from __future__ import annotations

from pathlib import Path

import orjson

from brokerd.timer.timer_metrics import TimerMetrics, TopicCount


def test_it_saves_javas_document_and_reads_it(tmp_path: Path) -> None:
    metrics = TimerMetrics(tmp_path / "timermetrics")
    metrics.add("A", 1, 5)
    metrics.add("A", 1, 6)
    metrics.add("B", -1, 7)
    document = orjson.loads(metrics.document())
    assert document == {
        "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 7},
        "timingCount": {"A": {"count": 2, "timeStamp": 6}, "B": {"count": -1, "timeStamp": 7}},
    }
    metrics.write(metrics.document())
    again = TimerMetrics(tmp_path / "timermetrics")
    assert again.counts == {"A": TopicCount(2, 6), "B": TopicCount(-1, 7)}
    again.clear()
    assert again.counts["A"].waiting_count == 0
