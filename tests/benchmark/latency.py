"""From a send to its consumer at 50 messages a second: brokerd and Apache 5.3.3 in turns.

    python -m tests.benchmark.latency [--rounds 5] [--seconds 4] [--no-apache]

One connection sends, another has its pull waiting at the broker; a message's age is taken where its pull's answer
arrives. Prints p50 and p99 in ms: the medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from brokerd.remoting.command import decode_frame
from brokerd.remoting.message.record import decode_records
from tests.benchmark.broker_cost import FILTER, Peer, World, peers, pipelined
from tests.benchmark.send_raw import connected, java_like, pull_frame, read_frames, send_frame

A_SECOND = 50
PULL_MESSAGE = 11
FOUND = 0
WAITING_PULL = "6"  # waits for messages, and brings its subscription along


def pulled(peer: Peer, count: int, begin: int) -> Iterator[float]:
    """Consume queue 0 of Bench from `begin` on; yield each message's age in ms."""
    fields = {**decode_frame(pull_frame(1, 0, 0)[4:]).ext_fields, "sysFlag": WAITING_PULL}
    offset, buffer = begin, bytearray()
    with closing(connected(peer.address)) as connection:
        while offset < begin + count:
            connection.sendall(java_like(PULL_MESSAGE, 1, {**fields, "queueOffset": str(offset)}, b""))
            answer = decode_frame(read_frames(connection, 1, buffer)[0])
            now = time.monotonic()
            for record in decode_records(answer.body) if answer.code == FOUND else []:
                yield (now - float(record.body)) * 1000
                offset = record.queue_offset + 1


def one_round(peer: Peer, seconds: float) -> tuple[float, float]:
    """(p50, p99) in ms."""
    count, buffer, ages = round(seconds * A_SECOND), bytearray(), list[float]()
    with closing(connected(peer.address)) as connection:

        def sent() -> int:
            connection.sendall(send_frame(1, 0, str(time.monotonic()).encode()))
            return int(decode_frame(read_frames(connection, 1, buffer)[0]).ext_fields["queueOffset"])

        begin = sent() + 1
        consumer = threading.Thread(target=lambda: ages.extend(pulled(peer, count, begin)))
        consumer.start()
        started = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, started + (number + 1) / A_SECOND - time.monotonic()))
            sent()
        consumer.join()
    cuts = statistics.quantiles(ages, n=100)
    return cuts[49], cuts[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--no-apache", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    with peers(World(FILTER, FILTER, {}), with_apache=not options.no_apache) as brokers:
        for peer in brokers:
            pipelined(peer, 1.0, b"x")  # makes the topic
        for _ in range(options.rounds):
            for peer in brokers:
                found.setdefault(peer.name, []).append(one_round(peer, options.seconds))
    table = {
        name: {
            "p50_ms": round(statistics.median(p50 for p50, _ in each), 2),
            "p99_ms": round(statistics.median(p99 for _, p99 in each), 2),
        }
        for name, each in found.items()
    }
    json.dump(table, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
