"""A broker whose committed offsets a test has recorded and deletes."""

from __future__ import annotations

import time
from pathlib import Path

from console.lag import services as lag_services
from tests.console.operation.live_cluster import LiveCluster

TEN = [b"m%d" % index for index in range(10)]
RETRY = "%RETRY%billing"
# Topic, queue and committed offset of billing.
LISTED = [("orders", 0, 7), ("orders", 1, 10), (RETRY, 0, 1)]


def round_ago(ago_ms: int) -> int:
    at_ms = int(time.time() * 1000) - ago_ms
    assert lag_services.collect("test", now_ms=at_ms) is not None
    return at_ms


def lose_offsets(data: Path) -> None:
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (data / "config" / name).unlink(missing_ok=True)


def lose_all(live: LiveCluster) -> None:
    """Stop the broker, delete its file of offsets with the copy, and start it again."""
    live.broker.stop()
    lose_offsets(live.broker.data)
    live.restart()
