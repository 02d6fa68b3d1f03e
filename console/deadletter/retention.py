"""How long brokers keep dead letters, and so when they expire.

A broker deletes a commit-log file once its last message is ``fileReservedTime`` hours old, at the hour
``deleteWhen`` or when the disk is full. So a letter is kept at least until that age and may be deleted any
time after: "expires in" is the earliest moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from console.brokers.mqadmin import BlockingMQAdmin
from console.brokers.queues import ask_each
from spark.lag.local_time import HOUR_MS

RESERVED_TIME = "fileReservedTime"  # MessageStoreConfig.java, hours


def retention_ms(admin: BlockingMQAdmin, addrs: Iterable[str]) -> int | None:
    """Return the shortest retention of these brokers (26); None when none reports it."""
    answers = ask_each(admin, {addr: addr for addr in addrs}, lambda client, addr: client.broker_config(addr))
    hours = [
        int(config[RESERVED_TIME])
        for config in answers.values()
        if not isinstance(config, Exception) and config.get(RESERVED_TIME, "").isdigit()
    ]
    return min(hours) * HOUR_MS if hours else None
