"""Peers that read slowly or not at all, stop amid frames, sit idle by the thousand or wait in thousands of pulls.

One kind a round, on one broker. Meanwhile a good client's messages are stored, none waits longer than GOOD_WAIT_MAX_MS,
and memory stays below what the broker's limits allow.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from tests.brokerd.running import pull_fields, send_fields
from tests.hard.tally import main
from tests.support.watched_broker import GOOD_TOPIC, connect, read_answer, report, watched_broker

GOOD_WAIT_MAX_MS = 5_000  # on a machine that others use too; the benchmark measures what is usual
MEMORY_MIB_MAX = 900  # 512 MiB of unfinished requests, answers that are not read, and what Python needs
GOOD_MESSAGES = 40
MIB = 1024 * 1024
Peers = ExitStack


def request(code: int, fields: dict[str, str], body: bytes = b"", opaque: int = 1) -> bytes:
    command = RemotingCommand.request(code, fields, body)
    command.opaque = opaque
    return command.encode()


def open_peer(peers: Peers, receive_bytes: int = 0) -> socket.socket:
    return peers.enter_context(connect(watched_broker().process.port, receive_bytes))


def half_sent_frames(rng: random.Random, peers: Peers) -> None:
    """Frames of 1 or 15 MiB that lack their last byte; the large ones are more than the broker holds."""
    frame = request(RequestCode.SEND_MESSAGE_V2, send_fields("T"), bytes(rng.choice([1, 15, 15]) * MIB))
    for _ in range(40):
        with suppress(OSError):  # the broker closes the largest
            open_peer(peers).sendall(frame[:-1])


def half_sent_heads(rng: random.Random, peers: Peers) -> None:
    """A few bytes of a head, and silence."""
    frame = request(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
    for _ in range(200):
        open_peer(peers).sendall(frame[: rng.randrange(1, 40)])


def large_request(rng: random.Random) -> None:
    """Another client's frame of some MiB goes through whatever is held for others."""
    with connect(watched_broker().process.port) as peer:
        body = bytes(rng.randrange(MIB, 3 * MIB))
        peer.sendall(request(RequestCode.SEND_MESSAGE_V2, send_fields("Large"), body))
        assert read_answer(peer).code == 0


def slow_readers(rng: random.Random, peers: Peers) -> None:
    """Each asks for up to 100 MiB of answers and reads none."""
    ask = request(RequestCode.SEND_MESSAGE_V2, send_fields("Big"), bytes(500_000))
    with connect(watched_broker().process.port) as peer:
        peer.sendall(ask)
        assert read_answer(peer).code == 0
    pull = request(RequestCode.PULL_MESSAGE, pull_fields("g", "Big", 0))
    for _ in range(rng.choice([5, 40])):
        peer = open_peer(peers, receive_bytes=4_096)
        peer.settimeout(0.5)
        with suppress(OSError):  # the broker stops reading, or closes
            peer.sendall(pull * rng.choice([20, 200]))


def idle_connections(rng: random.Random, peers: Peers) -> None:
    for _ in range(2_000):
        open_peer(peers)


def held_pulls(rng: random.Random, peers: Peers) -> None:
    """Thousands that wait for the good client's own messages: each of them wakes them all."""
    end = request(RequestCode.GET_MAX_OFFSET, {"topic": GOOD_TOPIC, "queueId": "0"})
    for _ in range(rng.choice([1, 4])):
        peer = open_peer(peers)
        peer.sendall(end)
        offset = int(read_answer(peer).ext_fields["offset"])
        pull = pull_fields("g", GOOD_TOPIC, offset + rng.choice([0, 5]), flags=6)
        peer.sendall(request(RequestCode.PULL_MESSAGE, pull) * rng.choice([500, 3_000]))


def sudden_end(rng: random.Random, peers: Peers) -> None:
    """Clients that ask for much and are gone before the answer, with a reset."""
    for _ in range(100):
        peer = connect(watched_broker().process.port)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        peer.sendall(request(RequestCode.GET_ALL_TOPIC_CONFIG, {}) * rng.randrange(1, 50))
        peer.close()


KINDS: list[Callable[[random.Random, Peers], None]] = [
    half_sent_frames, half_sent_heads, slow_readers, idle_connections, held_pulls, sudden_end,
]  # fmt: skip


def run_round(seed: int) -> str:
    rng, broker = random.Random(seed), watched_broker()
    kind = KINDS[seed % len(KINDS)]
    with ExitStack() as peers:
        kind(rng, peers)
        for number in range(GOOD_MESSAGES):
            waited_ms = broker.send_good()
            assert waited_ms < GOOD_WAIT_MAX_MS, f"the good client waited {waited_ms:.0f} ms"
            if number % 20 == 10:
                large_request(rng)
        assert broker.memory_mib < MEMORY_MIB_MAX, f"{broker.memory_mib:.0f} MiB"
    broker.send_good()
    assert "Traceback" not in (output := broker.new_output()), output[-2000:]
    return kind.__name__


if __name__ == "__main__":
    import atexit

    watched_broker()
    atexit.register(report)
    main("slow_peers", run_round, rounds=60)
