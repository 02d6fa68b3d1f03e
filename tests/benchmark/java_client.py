"""The official Java client against brokerd: 64 threads send one by one, then one consumer group reads the backlog.

    python -m tests.benchmark.java_client [--messages 200000] [--body 1024] [--release 5.3.3]

Prints JSON: messages a second as the client saw them, and brokerd's CPU microseconds per message (user + system, from
/proc). Client and broker share the machine: the CPU per message is the server's figure, the rate is the pair's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

from brokerd.remoting.bodies import TopicConfig
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer

TOPIC, GROUP, QUEUES, THREADS = "Bench", "bench-readers", 8, 64
WARM_UP_MESSAGES = 20_000
MIB = 1024 * 1024


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_mib(pid: int) -> float:
    """Anonymous memory: what is not a page of the store."""
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(status.split("RssAnon:")[1].split()[0]) / 1024, 1)


def produce(class_path: str, namesrv: str, count: int, body: int) -> float:
    """Messages a second, by the client's own clock."""
    peer = JavaPeer(
        class_path,
        ["produce", "--namesrv", namesrv, "--topic", TOPIC, "--count", str(count)]
        + ["--threads", str(THREADS), "--size", str(body)],
    )
    assert peer.finish(600) == 0, peer.lines[-3:]
    (sent,) = [line for line in peer.lines if line[0] == "SENT"]
    assert int(sent[1]) == count, peer.failures()[:3]
    return count / (int(sent[2]) / 1000)


def consume(class_path: str, namesrv: str, count: int) -> float:
    """Messages a second, from the consumer's start line to its end."""
    peer = JavaPeer(
        class_path,
        ["consume", "--namesrv", namesrv, "--topic", TOPIC, "--group", GROUP, "--quiet", "true"]
        + ["--expect", str(count), "--seconds", "300", "--batch", "32"],
    )
    peer.wait_for(lambda p: ["READY"] in p.lines, "start of the consumer")
    started = time.monotonic()
    peer.wait_for(lambda p: any(line[0] == "DONE" for line in p.lines), "the backlog", 320)
    return count / (time.monotonic() - started)


async def create_topic(broker: BrokerProcess) -> None:
    async with MQAdmin([broker.namesrv]) as admin:
        await admin.create_topic(
            broker.address, TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--release", choices=java_peer.RELEASES, default="5.3.3")
    options = parser.parse_args()
    class_path = java_peer.build(options.release)
    with tempfile.TemporaryDirectory(prefix="tm-bench-") as folder:
        broker = BrokerProcess(Path(folder) / "store", mappedFileSizeCommitLog=256 * MIB).start()
        assert broker.process is not None
        pid = broker.process.pid
        try:
            asyncio.run(create_topic(broker))
            idle_mib = anonymous_mib(pid)
            produce(class_path, broker.namesrv, WARM_UP_MESSAGES, options.body)
            before = cpu_s(pid)
            send_rate = produce(class_path, broker.namesrv, options.messages, options.body)
            sent = cpu_s(pid)
            # The keys of the warm-up come again: the consumer counts each once.
            consume_rate = consume(class_path, broker.namesrv, options.messages)
            consumed = cpu_s(pid)
        finally:
            broker.stop()
        figures = {
            "release": options.release,
            "messages": options.messages,
            "body_bytes": options.body,
            "send_per_s": round(send_rate),
            "send_broker_cpu_us": round((sent - before) / options.messages * 1e6, 1),
            "consume_per_s": round(consume_rate),
            "consume_broker_cpu_us": round(
                (consumed - sent) / (options.messages + WARM_UP_MESSAGES) * 1e6, 1
            ),
            "broker_anonymous_mib_idle": idle_mib,
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
