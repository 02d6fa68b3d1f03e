"""Cost of the message store alone: `python -m tests.benchmark.store_append` prints one JSON line.

Every round measures all parts one after the other on a fresh store, next to a floor of the same machine and
minute: the same number of `os.pwrite` calls with records of the same size. Medians over the rounds; compare
ratios, not microseconds (hot-path.md rule 20). Times are CPU time of the process, threads included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from brokerd.store.message_store import MessageStore
from brokerd.store.results import GetMessageStatus
from brokerd.store.store_config import MessageStoreConfig

QUEUES = 8
READ = 32  # messages of one socket read: dispatched together
NOW_MS = 1_800_000_000_000
HOST = ("127.0.0.1", 10911)


def config_for(root: Path, *, index: bool) -> MessageStoreConfig:
    return MessageStoreConfig(
        root, mapped_file_size_commit_log=256 << 20, message_index_enable=index, max_index_num=5_000_000
    )


def microseconds(count: int, work: Callable[[], object]) -> float:
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1000 / count


def put_all(store: MessageStore, messages: int, body: bytes) -> None:
    put, dispatch = store.put_message, store.dispatch_pending
    for first in range(0, messages, READ):
        for number in range(first, first + READ):
            put(
                "BenchmarkTest",
                number % QUEUES,
                body,
                b"UNIQ_KEY\x017F00000100002A9F18B4AAC2%08X\x02WAIT\x01true\x02TAGS\x01TagA\x02" % number,
                2598919,
                born_timestamp_ms=NOW_MS,
                born_host=HOST,
                store_host=HOST,
                now_ms=NOW_MS,
            )
        dispatch()


def put_batches(store: MessageStore, messages: int, body: bytes) -> None:
    batch = [(body, b"UNIQ_KEY\x017F00000100002A9F18B4AAC200000000\x02TAGS\x01TagA\x02", 0)] * READ
    for first in range(0, messages, READ):
        store.put_messages(
            "BatchTest",
            first // READ % QUEUES,
            batch,
            born_timestamp_ms=NOW_MS,
            born_host=HOST,
            store_host=HOST,
            now_ms=NOW_MS,
        )
        store.dispatch_pending()


def pull_all(store: MessageStore, tags_codes: frozenset[int] | None) -> None:
    for queue_id in range(QUEUES):
        offset, end = 0, store.max_offset("BenchmarkTest", queue_id)
        while offset < end:
            result = store.get_message("BenchmarkTest", queue_id, offset, 32, tags_codes=tags_codes)
            assert result.status is GetMessageStatus.FOUND
            offset = result.next_begin_offset


def pwrite_all(path: Path, messages: int, size_bytes: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    record = bytes(size_bytes)
    offset = 0
    for _ in range(messages):
        os.pwrite(descriptor, record, offset)
        offset += size_bytes
    os.close(descriptor)


def one_round(folder: Path, messages: int, body: bytes) -> dict[str, float]:
    result: dict[str, float] = {}
    store = MessageStore(config_for(folder / "plain", index=False))
    store.open(NOW_MS)
    result["put_us"] = microseconds(messages, lambda: put_all(store, messages, body))
    record_bytes = store.commit_log_max_offset // messages
    result["pwrite_floor_us"] = microseconds(
        messages, lambda: pwrite_all(folder / "floor", messages, record_bytes)
    )
    result["pull_32_us"] = microseconds(messages // 32, lambda: pull_all(store, None))
    tags_codes = frozenset((2598919,))
    result["pull_32_tag_us"] = microseconds(messages // 32, lambda: pull_all(store, tags_codes))
    result["put_in_batch_us"] = microseconds(messages, lambda: put_batches(store, messages, body))
    store.close(NOW_MS)
    indexed = MessageStore(config_for(folder / "indexed", index=True))
    indexed.open(NOW_MS)
    result["put_indexed_us"] = microseconds(messages, lambda: put_all(indexed, messages, body))
    indexed.close(NOW_MS)
    return result | opening(folder / "plain")


def opening(root: Path) -> dict[str, float]:
    """Records per second after a crash, with all queues lost and with none lost; time of a clean start."""
    result: dict[str, float] = {}
    for name in ("recovery_rebuild_per_s", "recovery_check_per_s"):
        if name == "recovery_rebuild_per_s":
            shutil.rmtree(root / "consumequeue")
        (root / "abort").touch()
        (root / "checkpoint").unlink()
        store = MessageStore(config_for(root, index=False))
        start = time.perf_counter()
        report = store.open(NOW_MS)
        result[name] = report.records_scanned / (time.perf_counter() - start)
        store.close(NOW_MS)
    store = MessageStore(config_for(root, index=False))
    start = time.perf_counter()
    store.open(NOW_MS)
    result["clean_open_ms"] = (time.perf_counter() - start) * 1000
    store.close(NOW_MS)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="per part, rounded down to 256")
    parser.add_argument("--body-bytes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--directory", type=Path, default=None, help="where to write, default the temp folder"
    )
    arguments = parser.parse_args()
    messages = arguments.messages // 256 * 256
    rounds = []
    for _ in range(arguments.rounds):
        folder = Path(tempfile.mkdtemp(prefix="store-", dir=arguments.directory))
        try:
            rounds.append(one_round(folder, messages, bytes(arguments.body_bytes)))
        finally:
            shutil.rmtree(folder)
    medians = {key: round(statistics.median(each[key] for each in rounds), 3) for key in rounds[0]}
    medians["put_to_floor_ratio"] = round(medians["put_us"] / medians["pwrite_floor_us"], 3)
    summary = {"messages": messages, "body_bytes": arguments.body_bytes, "rounds": len(rounds), **medians}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
