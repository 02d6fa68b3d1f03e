"""What a message costs the broker: brokerd, brokerd with compiled sends and Apache 5.3.3, in turns in the same run.

    python -m tests.benchmark.broker_cost [--rounds 5] [--seconds 1.5] [--body 1024] [--row TEXT ...] [--no-apache]

Prints JSON: for each load the median of the rounds in CPU microseconds of the broker per message (user + system, from
/proc), the lowest and the highest, and the share of Apache's. The load shares the machine with both: rates are
no figures of a broker, and on a machine where others work single rounds lie far off. Apache warms up first.

Before each load its memory is made warm: a virtual machine may give free pages back to its host, and to get one
again costs ten times what it costs to clear it, 3 us for a message of 1 KiB, to whichever broker meets it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from brokerd.compiled.build import build
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import SysFlag
from brokerd.remoting.signature import AccessKeys, sign
from consumers import RemotingClientConfig
from tests.benchmark.send_raw import (
    BATCH,
    QUEUES,
    Load,
    connected,
    cpu_seconds,
    java_like,
    pull_frame,
    read_frames,
    send_frame,
)
from tests.brokerd.popping import messages_of, pop_fields
from tests.support.apache_cluster import FAST_JVM, ApacheCluster
from tests.support.broker_process import CommandBroker
from tests.support.certificates import Authority

IN_FLIGHT = 32
PAUSE_S = 0.01
ONEWAY_A_SECOND = 10_000
WARM_UP_S = 4.0
WARM_MIB = 512  # more than a load of 1.5 s writes
KEYS = AccessKeys("rocketmq2", "12345678")
AUTH = "org.apache.rocketmq.auth.authentication.provider"
ACCESS: Mapping[str, str] = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": f'{{"username":"{KEYS.access_key}","password":"{KEYS.secret_key}"}}',
    "innerClientAuthenticationCredentials": (
        f'{{"accessKey":"{KEYS.access_key}","secretKey":"{KEYS.secret_key}"}}'
    ),
}
ACCESS_OF_APACHE: Mapping[str, str] = {
    **ACCESS,
    "authenticationProvider": f"{AUTH}.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.LocalAuthenticationMetadataProvider",
}
SIZES: Mapping[str, str | int] = {
    "mappedFileSizeCommitLog": 1 << 30,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
    "mappedFileSizeConsumeQueue": 6_000_000,
}
round_numbers = itertools.count()  # a group of its own for each round that reads from the start


@dataclass
class Peer:
    """A broker under load."""

    name: str
    port: int
    pid: int
    tls: ssl.SSLContext
    figures: dict[str, list[float]] = field(default_factory=dict)
    has_prices: bool = False  # for the pulls by SQL92

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


# Loads a broker for so many seconds; returns how many messages that were.
Work = Callable[[Peer, float, bytes], int]


def block(body: bytes, connection: int) -> bytes:
    """32 sends of one connection, written at once."""
    return b"".join(send_frame(connection << 16 | i, i % QUEUES, body) for i in range(IN_FLIGHT))


def one_by_one(peer: Peer, seconds: float, body: bytes) -> int:
    return Load(peer.address, 64, lambda c: send_frame(c, c % QUEUES, body), 1).run(seconds)[0]


def pipelined(peer: Peer, seconds: float, body: bytes) -> int:
    return Load(peer.address, 16, partial(block, body), IN_FLIGHT).run(seconds)[0]


def by_tls(peer: Peer, seconds: float, body: bytes) -> int:
    return Load(peer.address, 16, partial(block, body), IN_FLIGHT, peer.tls).run(seconds)[0]


def batches(peer: Peer, seconds: float, body: bytes) -> int:
    messages = [
        Message(
            "Bench", body, {"UNIQ_KEY": f"C0A8010A07DA5FFD2B2768{i:010X}", "WAIT": "true", "TAGS": "TagA"}
        )
        for i in range(BATCH)
    ]
    batch = encode_batch(messages)
    load = Load(peer.address, 16, lambda c: send_frame(c, c % QUEUES, batch, batch=True), 1)
    return load.run(seconds)[0] * BATCH


def one_way(peer: Peer, seconds: float, body: bytes) -> int:
    """Sends without answers at a fixed rate, over 16 connections."""
    each = send_frame(1, 1, body).replace(b'"flag":0', b'"flag":2')
    sockets = [connected(peer.address) for _ in range(16)]
    burst = each * int(ONEWAY_A_SECOND * PAUSE_S)
    started = time.monotonic()
    for number in itertools.count():
        sockets[number % len(sockets)].sendall(burst)
        time.sleep(max(0.0, started + (number + 1) * PAUSE_S - time.monotonic()))
        if time.monotonic() - started > seconds:
            break
    for connection in sockets:
        connection.close()
    return (number + 1) * int(ONEWAY_A_SECOND * PAUSE_S)


def signed(peer: Peer, seconds: float, body: bytes) -> int:
    def frames(connection: int) -> bytes:
        commands = [
            decode_frame(send_frame(connection << 16 | i, i % QUEUES, body)[4:]) for i in range(IN_FLIGHT)
        ]
        for command in commands:
            sign(command, KEYS)
        return b"".join(java_like(c.code, c.opaque, c.ext_fields, c.body) for c in commands)

    return Load(peer.address, 16, frames, IN_FLIGHT).run(seconds)[0]


def pulls(peer: Peer, seconds: float, body: bytes) -> int:
    return Load(peer.address, 8, lambda c: pull_frame(c, c % QUEUES, 0), 1).run(seconds)[0] * 32


def filtered_pulls(peer: Peer, seconds: float, body: bytes) -> int:
    """Every second message matches."""
    if not peer.has_prices:
        peer.has_prices = True
        priced = [Message("Priced", body, {"price": str(i % 10)}) for i in range(BATCH)]
        fill = send_frame(1, 0, encode_batch(priced), batch=True).replace(b'"b":"Bench"', b'"b":"Price"')
        Load(peer.address, 1, lambda c: fill, 1).run(0.2)
    frame = pull_frame(1, 0, 0)
    header = decode_frame(frame[4:]).ext_fields
    fields = {**header, "topic": "Price", "expressionType": "SQL92", "subscription": "price > 4"}
    load = Load(peer.address, 8, lambda c: java_like(11, c, fields, b""), 1)
    return load.run(seconds)[0] * 32


def ask(connection: socket.socket, frames: list[bytes], buffer: bytearray) -> list[RemotingCommand]:
    """Write all requests at once and read the answers."""
    connection.sendall(b"".join(frames))
    return [decode_frame(frame) for frame in read_frames(connection, len(frames), buffer)]


def pops(peer: Peer, seconds: float, body: bytes) -> int:
    """One connection pops 32 messages a request and acknowledges each, until the time or the backlog is over."""
    group, count, buffer = f"poppers-{next(round_numbers)}", 0, bytearray()
    with contextlib.closing(connected(peer.address)) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            request = java_like(RequestCode.POP_MESSAGE, 1, pop_fields(group, "Bench", pollTime="1000"), b"")
            (answer,) = ask(connection, [request], buffer)
            if answer.code != 0:
                break
            popped = messages_of(answer)
            acks = [
                java_like(RequestCode.ACK_MESSAGE, opaque, message.ack_fields(group), b"")
                for opaque, message in enumerate(popped)
            ]
            answers = ask(connection, acks, buffer)
            assert all(each.code == 0 for each in answers), answers[0]
            count += len(popped)
    assert count, answer
    return count


def transactions(peer: Peer, seconds: float, body: bytes) -> int:
    """One connection begins 32 transactions and commits them."""
    count, buffer = 0, bytearray()
    halves = []
    for i in range(IN_FLIGHT):
        command = decode_frame(send_frame(i, i % QUEUES, body)[4:])
        fields = {**command.ext_fields, "f": str(int(SysFlag.TRANSACTION_PREPARED))}
        fields["i"] += "TRAN_MSG\x01true\x02PGROUP\x01producers\x02"
        halves.append(java_like(command.code, i, fields, body))
    with contextlib.closing(connected(peer.address)) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answers = ask(connection, halves, buffer)
            ends = [
                java_like(RequestCode.END_TRANSACTION, opaque, end_fields(sent.ext_fields), b"")
                for opaque, sent in enumerate(answers)
            ]
            assert all(each.code == 0 for each in ask(connection, ends, buffer))
            count += IN_FLIGHT
    return count


def end_fields(sent: Mapping[str, str]) -> dict[str, str]:
    """The header of a commit of what was answered with `sent`."""
    return {
        "producerGroup": "producers",
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(int(sent["msgId"][-16:], 16)),
        "commitOrRollback": str(int(SysFlag.TRANSACTION_COMMIT)),
        "fromTransactionCheck": "false",
        "msgId": sent["transactionId"],
        "transactionId": sent["transactionId"],
    }


@dataclass(frozen=True)
class World:
    """Settings of both brokers, and the loads that run against them."""

    settings: Mapping[str, str]
    apache: Mapping[str, str]
    rows: Mapping[str, Work]


FILTER = {"enablePropertyFilter": "true"}
SYNC_FLUSH = {"flushDiskType": "SYNC_FLUSH"}
WORLDS = (
    World(
        FILTER,
        FILTER,
        {
            "send 64 connections x 1": one_by_one,
            "send 16 connections x 32": pipelined,
            "send batches of 32": batches,
            "send one-way, 10,000 a second": one_way,
            "send 16 x 32 by TLS": by_tls,
            "pull of 32": pulls,
            "pull of 32 by SQL92": filtered_pulls,
            "pop of 32 and acknowledge each": pops,
            "transaction begun and committed": transactions,
        },
    ),
    World(SYNC_FLUSH, SYNC_FLUSH, {"send 64 connections x 1, sync flush": one_by_one}),
    World(ACCESS, ACCESS_OF_APACHE, {"send 16 x 32 signed": signed}),
)


def warm_pages() -> None:
    """Leave pages that the machine has to itself for the files of the next load: those of a file that goes again."""
    with tempfile.TemporaryFile() as file:
        for _ in range(WARM_MIB):
            file.write(bytes(1 << 20))


@contextlib.contextmanager
def peers(world: World, *, with_apache: bool) -> Iterator[list[Peer]]:
    """Both brokers, with TLS and plain on one port. Several worlds may not live at once: memory."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tm-cost-")))
        authority = Authority(folder)
        issued = authority.issue("server")
        ours = {"brokerd": "false"} | ({"compiled": "true"} if not build() else {})
        found = []
        for name, is_compiled in ours.items():
            settings = {**SIZES, **world.settings, **issued.server_settings, "compiledSends": is_compiled}
            broker = CommandBroker(folder / name, **settings).start()
            stack.callback(broker.stop)
            assert broker.process is not None
            found.append(Peer(name, broker.port, broker.process.pid, authority.client_context()))
        if with_apache:
            properties = [f"{key}={value}" for key, value in issued.server_settings.items()]
            properties += ["tls.server.mode=permissive", "tls.test.mode.enable=false"]
            changes = {**SIZES, **world.apache, "useEpollNativeSelector": "true"}
            cluster = stack.enter_context(
                ApacheCluster(
                    folder / "apache",
                    ("broker-a",),
                    changes,
                    FAST_JVM,
                    properties=properties,
                    client=RemotingClientConfig(keys=KEYS),
                )
            )
            apache = cluster.brokers[0]
            assert apache.process is not None
            found.append(Peer("apache", apache.port, apache.process.pid, found[0].tls))
        yield found


def run(world: World, rows: Mapping[str, Work], options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return the table of one world."""
    body = b"x" * options.body
    with peers(world, with_apache=not options.no_apache) as found:
        first = signed if world.settings is ACCESS else pipelined  # makes the topic
        for peer in found:
            first(peer, 1.0, body)
        for work in rows.values():
            for peer in found:
                work(peer, WARM_UP_S if peer.name == "apache" else 0.3, body)
        for _ in range(options.rounds):
            for name, work in rows.items():
                for peer in found:
                    warm_pages()
                    before = cpu_seconds(peer.pid)
                    messages = work(peer, options.seconds, body)
                    used = cpu_seconds(peer.pid) - before
                    peer.figures.setdefault(name, []).append(used * 1e6 / messages)
        return {name: line({peer.name: peer.figures[name] for peer in found}) for name in rows}


def line(figures: Mapping[str, list[float]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, each in figures.items():
        found[name] = {
            "median": round(statistics.median(each), 2),
            "lowest": round(min(each), 2),
            "highest": round(max(each), 2),
        }
    medians = {name: statistics.median(each) for name, each in figures.items()}
    theirs = medians.pop("apache", None)
    if theirs is not None:
        found |= {f"{name}_to_apache": round(ours / theirs, 2) for name, ours in medians.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each load in each round")
    parser.add_argument("--body", type=int, default=1024, help="bytes per body")
    parser.add_argument("--row", action="append", default=[], metavar="TEXT", help="only loads with it")
    parser.add_argument("--no-apache", action="store_true")
    options = parser.parse_args()
    table: dict[str, dict[str, object]] = {}
    for world in WORLDS:
        rows = {
            name: work
            for name, work in world.rows.items()
            if not options.row or any(text in name for text in options.row)
        }
        if rows:
            table |= run(world, rows, options)
    json.dump({"cpu_us_per_message": table, "rounds": options.rounds}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
