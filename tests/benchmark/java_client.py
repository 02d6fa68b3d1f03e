"""The official Java client against brokerd, brokerd with compiled sends and Apache RocketMQ, in turns: it sends with 64
threads and with one, without waiting, and in batches of 32; then a consumer group reads the backlog.

    python -m tests.benchmark.java_client [--messages 50000] [--body 1024] [--turns 3] [--release 5.3.3] [--no-apache]

Prints JSON: for each broker the middle of its turns (messages a second as the client saw them, CPU microseconds per
message of the broker, user + system, from /proc) and the ratio. Client and broker share the machine: the CPU per
message is the server's figure, the rate is the pair's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.compiled.build import build
from brokerd.remoting.body.topic import TopicConfig
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.apache_cluster import FAST_JVM, ApacheCluster
from tests.support.broker_process import CommandBroker
from tests.support.java_peer import JavaPeer

TOPIC, QUEUES = "Bench", 8
# Of the client, and what part of --messages it sends.
LOADS = {
    "sync_64": (("--threads", "64"), 1.0),
    "sync_1": (("--threads", "1"), 0.1),
    "async": (("--mode", "async", "--threads", "4"), 1.0),
    "batch_32": (("--mode", "batch", "--batch", "32", "--threads", "16"), 2.0),
}
MIB = 1024 * 1024
LOG_FILE_BYTES = 256 * MIB
# The JVM of a broker compiles while it serves: its first messages tell little.
WARM_UP_MESSAGES = 30_000


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_mib(pid: int) -> float:
    """Anonymous memory: what is not a page of the store."""
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(status.split("RssAnon:")[1].split()[0]) / 1024, 1)


@dataclass
class Peer:
    """A broker to be measured, and its figures, one per turn."""

    name: str
    namesrv: str
    address: str
    pid: int
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, **figures: float) -> None:
        for name, figure in figures.items():
            self.figures.setdefault(name, []).append(figure)

    def middle(self) -> dict[str, float]:
        return {name: round(statistics.median(figures), 1) for name, figures in self.figures.items()}


def produce(class_path: str, peer: Peer, load: str, messages: int, body: int) -> int:
    """Send; return how many messages that were."""
    options, part = LOADS[load]
    count = round(messages * part)
    started_cpu_s = cpu_s(peer.pid)
    client = JavaPeer(
        class_path,
        ["produce", "--namesrv", peer.namesrv, "--topic", TOPIC, "--count", str(count), *options]
        + ["--size", str(body)],
    )
    assert client.finish(600) == 0, client.lines[-3:]
    (sent,) = [line for line in client.lines if line[0] == "SENT"]
    assert int(sent[1]) == count and not client.failures(), client.failures()[:3]
    peer.note(
        **{
            f"{load}_per_s": count / (int(sent[2]) / 1000),
            f"{load}_cpu_us": (cpu_s(peer.pid) - started_cpu_s) / count * 1e6,
        }
    )
    return count


def consume(class_path: str, peer: Peer, group: str, stored: int, distinct: int) -> None:
    """A new group reads everything; the rate is from its first message on (its start is the client's affair)."""
    started_cpu_s = cpu_s(peer.pid)
    client = JavaPeer(
        class_path,
        ["consume", "--namesrv", peer.namesrv, "--topic", TOPIC, "--group", group, "--quiet", "true"]
        + ["--expect", str(distinct), "--seconds", "300", "--batch", "32"],
    )
    client.wait_for(lambda p: ["READY"] in p.lines, "start of the consumer")
    started = time.monotonic()
    client.wait_for(lambda p: any(line[0] == "DONE" for line in p.lines), "the backlog", 320)
    peer.note(
        consume_s=time.monotonic() - started,
        consume_broker_cpu_us=(cpu_s(peer.pid) - started_cpu_s) / stored * 1e6,
    )
    # Until it has ended, a consumer of another broker in the same JVM would share its connections.
    assert client.finish(60) == 0, client.lines[-3:]


async def create_topic(peer: Peer) -> None:
    async with MQAdmin([peer.namesrv]) as admin:
        config = TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        await admin.create_topic(peer.address, config)


@contextlib.contextmanager
def peers(folder: Path, *, with_apache: bool) -> Iterator[list[Peer]]:
    with contextlib.ExitStack() as stack:
        ours = {"brokerd": "false"} | ({"compiled": "true"} if not build() else {})
        found = []
        for name, is_compiled in ours.items():
            settings = {"mappedFileSizeCommitLog": LOG_FILE_BYTES, "compiledSends": is_compiled}
            broker = CommandBroker(folder / name, **settings).start()
            stack.callback(broker.stop)
            assert broker.process is not None
            found.append(Peer(name, broker.namesrv, broker.address, broker.process.pid))
        if with_apache:
            sizes = {
                "mappedFileSizeCommitLog": LOG_FILE_BYTES,
                "maxHashSlotNum": 500_000,
                "maxIndexNum": 2_000_000,
                "mappedFileSizeConsumeQueue": 6_000_000,
                "useEpollNativeSelector": "true",
            }
            cluster = stack.enter_context(ApacheCluster(folder / "apache", ("broker-a",), sizes, FAST_JVM))
            process = cluster.brokers[0].process
            assert process is not None
            found.append(Peer("apache-5.3.3", cluster.namesrv, cluster.brokers[0].address, pid=process.pid))
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--release", choices=java_peer.RELEASES, default="5.3.3")
    parser.add_argument("--no-apache", action="store_true")
    options = parser.parse_args()
    class_path = java_peer.build(options.release)
    with (
        tempfile.TemporaryDirectory(prefix="tm-bench-") as folder,
        peers(Path(folder), with_apache=not options.no_apache) as found,
    ):
        idle_mib = {peer.name: anonymous_mib(peer.pid) for peer in found}
        for peer in found:
            asyncio.run(create_topic(peer))
            produce(class_path, peer, "sync_64", WARM_UP_MESSAGES, options.body)
            peer.figures.clear()
        stored = dict.fromkeys((peer.name for peer in found), WARM_UP_MESSAGES)
        for turn in range(options.turns):
            for load, peer in itertools.product(LOADS, found):
                stored[peer.name] += produce(class_path, peer, load, options.messages, options.body)
            # Keys come again in every load: the consumer counts each once.
            distinct = round(options.messages * max(part for _, part in LOADS.values()))
            for peer in found:
                consume(class_path, peer, f"readers-{turn}", stored[peer.name], distinct)
        figures = {peer.name: peer.middle() for peer in found}
        for peer in found:
            figures[peer.name]["anonymous_mib_idle"] = idle_mib[peer.name]
            figures[peer.name]["anonymous_mib_after"] = anonymous_mib(peer.pid)
    result = {
        "release": options.release,
        "messages": options.messages,
        "body_bytes": options.body,
        "turns": options.turns,
        **figures,
    }
    theirs = figures.get("apache-5.3.3", {})
    for name, ours in figures.items():
        if theirs and ours is not theirs:
            result[f"{name}_to_apache"] = {key: round(ours[key] / theirs[key], 2) for key in ours}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
