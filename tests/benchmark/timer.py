"""The timer of a real brokerd: a million messages wait, some become due, and the broker is killed and started.

    python -m tests.benchmark.timer [--waiting 1000000] [--due 40000] [--due-s 20]

Prints JSON: CPU microseconds per message of brokerd for a plain send, for a send that waits (enqueued too) and for a
delivery; memory of the process per waiting message; CPU while all wait; lateness of deliveries; seconds of a start
after a stop and after a kill.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from consumers import MQAdmin
from tests.benchmark.loop_delay import cpu_s
from tests.benchmark.send_raw import java_like, read_frames
from tests.support.broker_process import CommandBroker

IN_FLIGHT = 64
BODY = b"x" * 256
TOPIC, HOUR_MS = "Bench", 3_600_000
IDLE_S = 5.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def frame(opaque: int, due_ms: int | None) -> bytes:
    """A send as Java's client makes it, with a time or without."""
    properties = f"UNIQ_KEY\x01C0A8010A07DA5FFD2B2768{opaque:010X}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    if due_ms is not None:
        properties += f"TIMER_DELIVER_MS\x01{due_ms}\x02"
    fields = dict(zip("abcdefghijkmn", (
        "producers", TOPIC, "TBW102", "1", "0", "0", str(now_ms()), "0", properties, "0", "false", "false", "broker-a",
    ), strict=True))  # fmt: skip
    return java_like(310, opaque, fields, BODY)


def send_all(port: int, due_ms: Iterator[int | None]) -> int:
    """Send pipelined; return how many."""
    count, buffer = 0, bytearray()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while block := [frame(count + n, due) for n, due in zip(range(IN_FLIGHT), due_ms, strict=False)]:
            connection.sendall(b"".join(block))
            for answer in read_frames(connection, len(block), buffer):
                assert b'"code":0' in answer[:20], answer[:300]
            count += len(block)
    return count


def memory_kb(pid: int) -> int:
    """Memory of the process alone: what it maps of its files is the page cache's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def cpu_us_each(broker: CommandBroker, work: Callable[[], int]) -> float:
    assert broker.process is not None
    began_s = cpu_s(broker.process.pid)
    count = work()
    return round((cpu_s(broker.process.pid) - began_s) * 1e6 / count, 1)


def figure(broker: CommandBroker, key: str) -> int:
    async def read() -> int:
        async with MQAdmin([broker.namesrv]) as admin:
            return int((await admin.runtime_info(broker.address))[key])

    return asyncio.run(read())


def waiting(broker: CommandBroker, count: int) -> int:
    """Send messages for the hours from now on, and wait until they are in the wheel."""
    begin_ms = now_ms() + HOUR_MS
    send_all(broker.port, iter([begin_ms + n * 60 * HOUR_MS // count for n in range(count)]))
    while figure(broker, "timerOffsetBehind"):
        time.sleep(0.1)
    return count


def lateness(broker: CommandBroker, start: int, end: int) -> list[int]:
    """How long after its time each message was stored, in ms, ascending."""

    async def read() -> list[int]:
        late, offset = [], start
        async with MQAdmin([broker.namesrv]) as admin:
            while offset < end:
                pulled = await admin.pull(broker.address, TOPIC, 0, offset)
                late += [
                    message.store_timestamp_ms - int(message.properties["TIMER_DELIVER_MS"])
                    for message in pulled.messages
                ]
                offset = pulled.next_begin_offset
        return sorted(late)

    return asyncio.run(read())


def max_offset(broker: CommandBroker) -> int:
    async def read() -> int:
        async with MQAdmin([broker.namesrv]) as admin:
            return await admin.max_offset(broker.address, TOPIC, 0)

    return asyncio.run(read())


def deliver(broker: CommandBroker, start: int, count: int) -> int:
    """Wait until messages of the next seconds are delivered."""
    while max_offset(broker) < start + count:
        time.sleep(0.5)
    return count


def started_s(broker: CommandBroker) -> float:
    began = time.monotonic()
    broker.start()
    return round(time.monotonic() - began, 2)


def run(folder: Path, waiting_count: int, due_count: int, due_s: int) -> dict[str, float]:
    broker = CommandBroker(folder / "store", mappedFileSizeCommitLog=256 << 20, flushDiskType="ASYNC_FLUSH")
    broker.start()
    assert broker.process is not None
    result: dict[str, float] = {"waiting": waiting_count}
    plain = max(waiting_count // 10, 10_000)
    result["plain_send_us"] = cpu_us_each(broker, lambda: send_all(broker.port, iter([None] * plain)))
    before_kb = memory_kb(broker.process.pid)
    result["waiting_send_us"] = cpu_us_each(broker, lambda: waiting(broker, waiting_count))
    grown_kb = memory_kb(broker.process.pid) - before_kb
    result["memory_bytes_each"] = round(grown_kb * 1024 / waiting_count, 1)
    began_s = cpu_s(broker.process.pid)
    time.sleep(IDLE_S)
    result["idle_cpu_percent"] = round((cpu_s(broker.process.pid) - began_s) / IDLE_S * 100, 2)
    start, begin_ms = max_offset(broker), now_ms() + 15_000
    send_all(broker.port, iter([begin_ms + n * due_s * 1_000 // due_count for n in range(due_count)]))
    time.sleep(max(0.0, (begin_ms - now_ms()) / 1000))
    result["delivery_us"] = cpu_us_each(broker, lambda: deliver(broker, start, due_count))
    late = lateness(broker, start, start + due_count)
    result |= {
        "late_p50_ms": late[len(late) // 2], "late_p99_ms": late[len(late) * 99 // 100],
        "early": sum(each < 0 for each in late),
    }  # fmt: skip
    broker.stop()
    result["start_after_stop_s"] = started_s(broker)
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait()
    result["start_after_kill_s"] = started_s(broker)
    result["waiting_after_kill"] = figure(broker, "timerCongestNum")
    broker.stop()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=40_000)
    parser.add_argument("--due-s", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), arguments.waiting, arguments.due, arguments.due_s), indent=2))


if __name__ == "__main__":
    main()
