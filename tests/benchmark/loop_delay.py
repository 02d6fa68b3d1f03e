"""What a well-behaved sender waits, and how late the event loop comes, under everything that could hold it up.

    python -m tests.benchmark.loop_delay [--seconds 5] [--flush SYNC_FLUSH] [--realtime]

A broker in a process of its own, the load in others. Each phase has one kind of load, the last one all together. Prints
JSON: for each phase the loop's delay (p50, p99, longest; request 28) and the sender's wait (p99, longest) in ms, and
the broker's share of a CPU. `--realtime` (root) lets broker and sender run before other processes, on a machine that
others use: what is left is what the broker itself does. Goal: a sender's p99 below 20 ms, its longest wait below 100.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from tests.brokerd.running import pull_fields, send_fields
from tests.support.broker_process import CommandBroker
from tests.support.watched_broker import connect, read_answer, share_below

SENDS_A_SECOND = 200
TICK_S = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Phase:
    """Milliseconds, but for counts and cpu (1 is one core)."""

    sends: int
    sender_p50: float
    sender_p99: float
    sender_longest: float
    loop_p50: float
    loop_p99: float
    loop_longest: float
    cpu: float


class Client:
    """One connection that asks and waits."""

    def __init__(self, port: int) -> None:
        self._peer = connect(port)
        self._opaque = 0

    def send(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        self._opaque += 1
        command = RemotingCommand.request(code, fields, body)
        command.opaque = self._opaque
        self._peer.sendall(command.encode())

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        self.send(code, fields, body)
        while True:
            answer = read_answer(self._peer)
            if answer.is_response and answer.opaque == self._opaque:
                return answer


def heartbeat(client_id: str, groups: list[str]) -> bytes:
    subscriptions = [{"topic": "Held", "subString": "*", "subVersion": 1}]
    return json.dumps(
        {
            "clientID": client_id,
            "consumerDataSet": [{"groupName": name, "subscriptionDataSet": subscriptions} for name in groups],
        }
    ).encode()


def held_pulls(port: int, stop: Event) -> None:
    """500 pulls on one connection that wait for messages that do not come."""
    client = Client(port)
    client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Held"), b"x")
    while not stop.is_set():
        fields = pull_fields("held", "Held", 1, flags=6, suspendTimeoutMillis="2000")
        for _ in range(500):
            client.send(RequestCode.PULL_MESSAGE, fields)
        for _ in range(500):
            read_answer(client._peer)


def cold_reader(port: int, stop: Event) -> None:
    """A consumer far behind: reads a backlog from its beginning, again and again; its pages are dropped before."""
    client = Client(port)
    while not stop.is_set():
        offset = 0
        while not stop.is_set():
            answer = client.ask(RequestCode.PULL_MESSAGE, pull_fields("cold", "Backlog", offset))
            if answer.code != 0:
                break
            offset = int(answer.ext_fields["nextBeginOffset"])


def drop_pages(store: Path) -> None:
    """Take the backlog out of the page cache, as it is for a consumer that is hours behind."""
    for path in sorted((store / "commitlog").iterdir())[:-1]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def topic_creation(port: int, stop: Event) -> None:
    client, number = Client(port), 0
    while not stop.is_set():
        number += 1
        fields = {
            "topic": f"N{os.getpid()}_{number}",
            "readQueueNums": "8",
            "writeQueueNums": "8",
            "perm": "6",
        }
        assert client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0
        client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(fields["topic"]), b"x")
        time.sleep(0.02)


def joining_groups(port: int, stop: Event) -> None:
    """A thousand groups that the broker did not know, 200 in a heartbeat."""
    client, prefix = Client(port), f"j{os.getpid()}"
    for number in range(5):
        body = heartbeat(f"{prefix}_{number}", [f"{prefix}_{number}_{i}" for i in range(200)])
        assert client.ask(RequestCode.HEART_BEAT, {}, body).code == 0
    stop.wait()


def large_heartbeats(port: int, stop: Event) -> None:
    """10 MiB, which is refused, and the largest that is taken, once a second each."""
    client = Client(port)
    refused = heartbeat("large", [f"large{i}" for i in range(110_000)])
    taken = heartbeat("taken", [f"taken{i}" for i in range(1_000)])
    while not stop.is_set():
        assert client.ask(RequestCode.HEART_BEAT, {}, refused).code != 0
        stop.wait(0.5)
        assert client.ask(RequestCode.HEART_BEAT, {}, taken).code == 0
        stop.wait(0.5)


def queue_flushes(port: int, stop: Event) -> None:
    """Messages of 1 KiB over 200 queues: pages for the flushes of the log, the queues and the checkpoint."""
    client, body = Client(port), bytes(1024)
    client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {"topic": "Wide", "readQueueNums": "200", "writeQueueNums": "200", "perm": "6"},
    )
    while not stop.is_set():
        for _ in range(100):
            fields = send_fields("Wide", queue_id=random.randrange(200))
            client.send(RequestCode.SEND_MESSAGE_V2, fields, body)
        for _ in range(100):
            read_answer(client._peer)
        time.sleep(0.02)


Load = Callable[[int, Event], None]
LOADS: dict[str, Load] = {
    "500 held pulls": held_pulls,
    "cold reader": cold_reader,
    "topic creation": topic_creation,
    "1,000 joining groups": joining_groups,
    "10 MiB heartbeats": large_heartbeats,
    "queue flushes": queue_flushes,
}


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK_S


def measure(broker: CommandBroker, loads: list[Load], seconds: float) -> Phase:
    """One phase: its loads in processes, the sender here."""
    assert broker.process is not None
    stop = multiprocessing.Event()
    workers = [multiprocessing.Process(target=load, args=(broker.port, stop), daemon=True) for load in loads]
    client, waits_ms = Client(broker.port), []
    # Makes the topic and its queue: the answer waits for the topic's file.
    client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Sender"), b"x")
    for worker in workers:
        worker.start()
    began, began_cpu_s = time.monotonic(), cpu_s(broker.process.pid)
    number = 0
    while time.monotonic() - began < seconds:
        asked = time.monotonic()
        assert client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Sender"), b"x").code == 0
        waits_ms.append((time.monotonic() - asked) * 1000)
        number += 1
        time.sleep(max(0.0, began + number / SENDS_A_SECOND - time.monotonic()))
    used_s = cpu_s(broker.process.pid) - began_cpu_s
    took_s = time.monotonic() - began
    table = KVTable.from_body(client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {}).body).table
    stop.set()
    for worker in workers:
        worker.join(10)
        worker.terminate()
    return Phase(
        len(waits_ms),
        *(round(share_below(waits_ms, share), 2) for share in (0.5, 0.99)),
        round(max(waits_ms), 1),
        *(float(table[key]) for key in ("loopDelay50", "loopDelay99", "loopDelayMax")),
        round(used_s / took_s, 2),
    )


def run_before_others(pid: int) -> None:
    """Real-time scheduling of a process, not of those it starts. Raises PermissionError."""
    os.sched_setscheduler(pid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(10))


def run_all_before_others(pid: int) -> None:
    """Real-time scheduling of a process and all its threads: one that waits for a CPU keeps the interpreter locked."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(10))


def fill_backlog(port: int, megabytes: int) -> None:
    client, body = Client(port), bytes(64 * 1024)
    for _ in range(megabytes):
        for _ in range(16):
            client.send(RequestCode.SEND_MESSAGE_V2, send_fields("Backlog"), body)
        for _ in range(16):
            read_answer(client._peer)


def run(folder: Path, seconds: float, flush: str, *, realtime: bool) -> dict[str, dict[str, float]]:
    """Each phase has a broker of its own: the delays of request 28 are of the last minute."""
    phases: dict[str, list[Load]] = {"sender alone": []}
    phases |= {name: [load] for name, load in LOADS.items()}
    phases["all together"] = list(LOADS.values())
    found = {}
    for number, (name, loads) in enumerate(phases.items()):
        broker = CommandBroker(folder / f"store{number}", flushDiskType=flush).start()
        try:
            if cold_reader in loads:
                fill_backlog(broker.port, 256)
                drop_pages(broker.data)
                broker.stop()
                broker.start()
            if realtime:
                assert broker.process is not None
                run_all_before_others(broker.process.pid)
                run_before_others(0)
            found[name] = asdict(measure(broker, loads, seconds))
        finally:
            broker.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"])
    parser.add_argument("--realtime", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-loop-") as folder:
        found = run(Path(folder), arguments.seconds, arguments.flush, realtime=arguments.realtime)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
