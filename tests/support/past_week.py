"""A past for a product that has just begun: `python -m tests.support.past_week DATA [--hours 168]`.

Writes reference history (`lag_reference`: ten groups on two topics, whole hours up to the present one) of cluster
`local` into a running product's data folder and names the files in its manifest, so that reports have days to be
about. The groups are in no broker: pages say that they are gone.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path

import django

from tests.support.lag_reference import HOUR_MS, Reference, Size, write_hour

CLUSTER = "local"
GROUP = "group-0003"  # one with episodes
SIZE = Size(10, 8, interval_ms=5_000, brokers=2, retention_hours=8, silent_broker_hour=60)


def write_past(data: Path, hours: int) -> None:
    """Needs a database that has its tables; the product may run."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "console.settings", "TIDEMARK_DATA": str(data)}
    django.setup()
    from console.lag.models import HistoryFile  # needs the settings above

    now_ms = time.time_ns() // 1_000_000
    reference = Reference(SIZE, now_ms - now_ms % HOUR_MS - hours * HOUR_MS)
    for _ in range(hours):
        HistoryFile.objects.create(**asdict(write_hour(reference, data / "history", cluster=CLUSTER)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--hours", type=int, default=168)
    asked = parser.parse_args()
    write_past(asked.data.resolve(), asked.hours)


if __name__ == "__main__":
    main()
