"""Starts: `python -m tests.benchmark.store_start [--queues 10000] [--mebibytes 512] [--rounds 5]` prints JSON.

The walk over a log that recovery does, with and without checksums, of 1 KiB bodies in memory; how long a store with
many queues takes to open after a clean stop, in seconds and seconds of CPU, and `python -m brokerd` over it until it
accepts, with access control, TLS and timers on; its CPU and anonymous memory then. Medians, with compiled modules
in place as users have them, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from brokerd.store.message_store import MessageStore
from brokerd.store.recovery.record_walk import walk_records
from brokerd.store.store_config import MessageStoreConfig
from tests.benchmark.broker_cost import ACCESS
from tests.benchmark.send_raw import cpu_seconds, memory_mib
from tests.support.broker_process import BrokerProcess, CommandBroker
from tests.support.certificates import Authority

NOW_MS = 1_800_000_000_000
HOST = ("127.0.0.1", 10911)
MIB = 1 << 20


def put(store: MessageStore, topic: str, queue_id: int, body: bytes) -> int:
    return store.put_message(
        topic,
        queue_id,
        body,
        b"UNIQ_KEY\x017F00000100002A9F18B4AAC200000000\x02TAGS\x01TagA\x02",
        born_timestamp_ms=NOW_MS,
        born_host=HOST,
        store_host=HOST,
        now_ms=NOW_MS,
    ).size_bytes


def walks(folder: Path, mebibytes: int, rounds: int) -> dict[str, float]:
    """GB of the log a second."""
    store = MessageStore(
        MessageStoreConfig(folder, mapped_file_size_commit_log=mebibytes * MIB, message_index_enable=False)
    )
    store.open(NOW_MS)
    while store.commit_log_max_offset < (mebibytes - 1) * MIB:
        for queue_id in range(256):
            put(store, "Walk", queue_id % 8, b"x" * 1024)
        store.dispatch_pending()
    (log_file,) = store._log.files.files[:1]
    found = {}
    for name, check_crc in (("walk", False), ("walk_with_checksums", True)):
        rates = []
        for _ in range(rounds):
            started = time.process_time()
            (last,) = deque(walk_records(log_file, 0, check_crc=check_crc), maxlen=1)
            rates.append(last[0] / 1e9 / (time.process_time() - started))
        found[f"{name}_gb_per_s"] = round(statistics.median(rates), 2)
    store.close(NOW_MS)
    return found


def opening(folder: Path, queues: int, rounds: int) -> dict[str, object]:
    """A store of many queues, then a broker over it."""
    root = folder / "store"
    config = MessageStoreConfig(
        root,
        mapped_file_size_commit_log=64 * MIB,
        max_hash_slot_num=BrokerProcess.SIZES["maxHashSlotNum"],
        max_index_num=BrokerProcess.SIZES["maxIndexNum"],
    )
    store = MessageStore(config)
    store.open(NOW_MS)
    for number in range(queues):
        put(store, f"Topic-{number // 8}", number % 8, b"x")
        store.dispatch_pending()
    store.close(NOW_MS)
    taken: list[float] = []
    worked: list[float] = []
    for _ in range(rounds):
        store = MessageStore(config)
        gc.collect()  # the maps of the store before are not this one's cost, nor its open files
        gc.disable()  # as a start of brokerd does
        started, cpu_s = time.perf_counter(), time.process_time()
        store.open(NOW_MS)
        taken.append(time.perf_counter() - started)
        worked.append(time.process_time() - cpu_s)
        gc.enable()
        store.close(NOW_MS)
    settings = {**ACCESS, **Authority(folder).issue("server").server_settings}
    starts: list[dict[str, float]] = []
    for _ in range(rounds):
        broker = CommandBroker(
            root, **BrokerProcess.SIZES | {"mappedFileSizeCommitLog": 64 * MIB}, **settings
        )
        started = time.perf_counter()
        broker.start()
        assert broker.process is not None
        starts.append(
            {
                "seconds": time.perf_counter() - started,
                "cpu_seconds": cpu_seconds(broker.process.pid),
                "anonymous_mib": memory_mib(broker)["RssAnon"],
            }
        )
        broker.stop()
    medians = {key: round(statistics.median(each[key] for each in starts), 2) for key in starts[0]}
    return {
        "open_s": round(statistics.median(taken), 3),
        "open_cpu_s": round(statistics.median(worked), 3),
        "broker_start": medians,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="tm-start-") as folder:
        found: dict[str, object] = dict(walks(Path(folder) / "walk", options.mebibytes, options.rounds))
        for queues in (0, options.queues):
            part = Path(folder) / f"queues-{queues}"
            part.mkdir()
            found[f"{queues} queues"] = opening(part, queues, options.rounds)
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
