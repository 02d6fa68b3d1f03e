"""What our client and the official Java client cost, in turns against one brokerd.

    python -m tests.benchmark.client_cost [--messages 20000] [--body 1024] [--turns 5] [--only sync,push] [--no-java]

Prints JSON: for each way to send and to consume the median CPU microseconds (user + system, all threads) per message
and messages a second of ours, ours in uvloop's event loop and Java's, and ours by Java's; resident memory at its peak.
Each is one process for all turns and is warmed up first: the JVM compiles while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.remoting.body.topic import TopicConfig
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.broker_process import CommandBroker
from tests.support.peer_process import Peer, PeerProcess

SENDING = ("sync", "async", "batch", "oneway")
CONSUMING = ("push", "pull")
MODES = SENDING + CONSUMING
SYNC_TASKS = 16
STORED = "Stored"
WARM_UP_TURNS = 2
# As an application in a small container: both compilers, the collector that it chooses.
JAVA_HEAP = "-Xmx256m"


@dataclass
class Client:
    """A client to be measured: its process, and its figures by mode."""

    name: str
    process: PeerProcess
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    per_s: dict[str, list[float]] = field(default_factory=dict)

    def run(self, mode: str, namesrv: str, turn: int, count: int, body: int) -> None:
        topic = STORED if mode in CONSUMING else f"Sent-{mode}"
        options = {
            "mode": mode,
            "namesrv": namesrv,
            "topic": topic,
            "group": f"{self.name}-{mode}-{turn}",
            "count": str(count),
            "size": str(body),
            "threads": str(SYNC_TASKS),
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        peer = Peer(self.process, ["cost", *words])
        assert peer.finish(300) == 0, peer.lines[-3:]
        assert not peer.failures(), peer.failures()[:3]
        (cost,) = [line for line in peer.lines if line[0] == "COST"]
        if turn >= WARM_UP_TURNS:
            self.cpu_us.setdefault(mode, []).append(int(cost[1]) / count)
            self.per_s.setdefault(mode, []).append(count / (int(cost[2]) / 1000))

    def peak_mib(self) -> float:
        """Resident memory at its peak."""
        status = Path(f"/proc/{self.process.process.pid}/status").read_text()
        return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)

    def compared(self, other: Client) -> dict[str, float]:
        """Our figures by the other's."""
        ratios = {
            mode: round(statistics.median(each) / statistics.median(other.cpu_us[mode]), 2)
            for mode, each in self.cpu_us.items()
        }
        return {**ratios, "peak_mib": round(self.peak_mib() / other.peak_mib(), 2)}

    def figures(self) -> dict[str, object]:
        return {
            "cpu_us": {mode: round(statistics.median(each), 1) for mode, each in self.cpu_us.items()},
            "cpu_us_turns": {mode: [round(one, 1) for one in each] for mode, each in self.cpu_us.items()},
            "per_s": {mode: round(statistics.median(each)) for mode, each in self.per_s.items()},
            "peak_mib": self.peak_mib(),
        }


async def create_topics(broker: CommandBroker) -> None:
    async with MQAdmin([broker.namesrv]) as admin:
        for topic in (STORED, *(f"Sent-{mode}" for mode in SENDING)):
            config = TopicConfig(topic, read_queue_nums=4, write_queue_nums=4)
            await admin.create_topic(broker.address, config)


def clients(options: argparse.Namespace) -> list[Client]:
    module = [sys.executable, "-m", "tests.benchmark.client_peer"]
    found = [Client("ours", PeerProcess(module)), Client("ours_uvloop", PeerProcess([*module, "--uvloop"]))]
    if not options.no_java:
        class_path = java_peer.build("5.3.3")
        java = ["java", JAVA_HEAP, "-Drocketmq.client.logUseSlf4j=true", "-Xlog:disable"]
        java += [f"-Duser.home={java_peer.HOME}", "-cp", class_path, "tidemark.peer.Peer"]
        found.append(Client("java", PeerProcess(java)))
    return found


def measure(options: argparse.Namespace, broker: CommandBroker, found: list[Client]) -> dict[str, object]:
    asyncio.run(create_topics(broker))
    filler = Client("filler", PeerProcess([sys.executable, "-m", "tests.benchmark.client_peer"]))
    try:
        words = ["--mode", "async", "--namesrv", broker.namesrv, "--topic", STORED]
        words += ["--count", str(options.messages), "--size", str(options.body)]
        assert Peer(filler.process, ["cost", *words]).finish() == 0
    finally:
        filler.process.kill()
    for turn in range(WARM_UP_TURNS + options.turns):
        for mode in options.only:
            for client in found if turn % 2 else reversed(found):
                client.run(mode, broker.namesrv, turn, options.messages, options.body)
    result: dict[str, object] = {
        "messages": options.messages,
        "body_bytes": options.body,
        "turns": options.turns,
        **{client.name: client.figures() for client in found},
    }
    for ours in found[:-1] if not options.no_java else ():
        result[f"{ours.name}_to_java"] = ours.compared(found[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", type=lambda words: words.split(","), default=list(MODES))
    parser.add_argument("--no-java", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tm-cost-") as folder:
        broker = CommandBroker(Path(folder) / "store", mappedFileSizeCommitLog=256 << 20)
        found: list[Client] = []
        try:
            broker.start()
            found += clients(options)
            print(json.dumps(measure(options, broker, found)))
        finally:
            for client in found:
                client.process.kill()
            broker.stop()


if __name__ == "__main__":
    main()
