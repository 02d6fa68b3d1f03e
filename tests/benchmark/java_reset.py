"""How soon official Java consumers that run read again after an operator's reset, against brokerd.

    python -m tests.benchmark.java_reset [--messages 200] [--turns 5] [--release 5.3.3]

Prints JSON: milliseconds from the request until the first message is read once more, and until all are, for a group of
two concurrent members and for one orderly member: the middle and the worst turn. What the group would wait without
being told is the floor to compare with: a Java client asks for its offset again only when a queue changes hands.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.peers.test_java_client import create_topic, has_started
from tests.peers.test_java_reset import consumed, has_consumed, reset, wait_for_commits
from tests.support import java_peer
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer

TOPIC = "Moved"
PATIENCE_S = 120


def member(class_path: str, broker: BrokerProcess, group: str, *options: str) -> JavaPeer:
    words = [
        "consume",
        "--namesrv",
        broker.namesrv,
        "--topic",
        TOPIC,
        "--group",
        group,
        "--seconds",
        "600",
        *options,
    ]
    return JavaPeer(class_path, words)


def turn(
    broker: BrokerProcess, group: str, members: Sequence[JavaPeer], messages: int
) -> tuple[float, float]:
    """(ms until the first, ms until all are read once more)."""
    wait_for_commits(broker, group, messages)
    before = consumed(members)
    started = time.perf_counter()
    reset(broker, TOPIC, group)
    members[0].wait_for(partial(has_consumed, members, before + 1), "the first message again", PATIENCE_S)
    first_ms = (time.perf_counter() - started) * 1000
    members[0].wait_for(partial(has_consumed, members, before + messages), "all of them", PATIENCE_S)
    return first_ms, (time.perf_counter() - started) * 1000


def measure(broker: BrokerProcess, class_path: str, messages: int, turns: int) -> dict[str, dict[str, int]]:
    create_topic(broker, TOPIC)
    groups = {
        "two_concurrent_members": [member(class_path, broker, "shared", "--instance", each) for each in "ab"],
        "one_orderly_member": [member(class_path, broker, "orderly", "--orderly", "true")],
    }
    names = {"two_concurrent_members": "shared", "one_orderly_member": "orderly"}
    figures: dict[str, dict[str, int]] = {}
    try:
        for members in groups.values():
            for each in members:
                each.wait_for(has_started, "start of a consumer")
        words = [
            "produce",
            "--namesrv",
            broker.namesrv,
            "--topic",
            TOPIC,
            "--count",
            str(messages),
            "--threads",
            "4",
        ]
        assert JavaPeer(class_path, words).finish() == 0
        for title, members in groups.items():
            members[0].wait_for(partial(has_consumed, members, messages), "the first reading", PATIENCE_S)
            first, every = zip(
                *(turn(broker, names[title], members, messages) for _ in range(turns)), strict=True
            )
            figures[title] = {
                "first_ms_middle": round(statistics.median(first)),
                "first_ms_worst": round(max(first)),
                "all_ms_middle": round(statistics.median(every)),
                "all_ms_worst": round(max(every)),
            }
    finally:
        for members in groups.values():
            for each in members:
                each.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--release", default="5.3.3", choices=java_peer.RELEASES)
    asked = parser.parse_args()
    class_path = java_peer.build(asked.release)
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "store").start()
        try:
            figures = measure(broker, class_path, asked.messages, asked.turns)
        finally:
            broker.stop()
    print(
        json.dumps(
            {"release": asked.release, "messages": asked.messages, "turns": asked.turns, **figures}, indent=1
        )
    )


if __name__ == "__main__":
    main()
