"""Raw load against a real brokerd: sends (pipelined, one in flight, batches), pulls, and the store alone as the floor.

    python -m tests.benchmark.send_raw [--seconds 3] [--body 1024] [--tls]

Prints JSON: messages a second as the load sees them and brokerd's CPU microseconds per message (from /proc).
On a small machine the load takes CPU too: compare CPU per message, not rates (hot-path.md).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.store.message_store import MessageStore
from brokerd.store.store_config import MessageStoreConfig
from tests.support.broker_process import BrokerProcess, CommandBroker
from tests.support.certificates import Authority

QUEUES = 8
BATCH = 32
TICK_S = os.sysconf("SC_CLK_TCK")


def java_like(code: int, opaque: int, fields: dict[str, str], body: bytes) -> bytes:
    """A frame with the key order of the Java client."""
    header = json.dumps(
        {
            "code": code,
            "extFields": fields,
            "flag": 0,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        },
        separators=(",", ":"),
    ).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def send_frame(opaque: int, queue_id: int, body: bytes, *, batch: bool = False) -> bytes:
    properties = f"UNIQ_KEY\x01C0A8010A07DA5FFD2B2768{opaque:010X}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    fields = {
        "a": "producers",
        "b": "Bench",
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(queue_id),
        "f": "0",
        "g": "1795252423873",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "true" if batch else "false",
        "n": "broker-a",
    }
    return java_like(320 if batch else 310, opaque, fields, body)


def pull_frame(opaque: int, queue_id: int, offset: int) -> bytes:
    fields = {
        "queueId": str(queue_id),
        "maxMsgBytes": "262144",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "suspendTimeoutMillis": "15000",
        "commitOffset": "0",
        "bname": "broker-a",
        "topic": "Bench",
        "queueOffset": str(offset),
        "expressionType": "TAG",
        "subVersion": "0",
        "subscription": "*",
        "consumerGroup": "bench",
    }
    return java_like(11, opaque, fields, b"")


def read_frames(connection: socket.socket, count: int, buffer: bytearray) -> list[bytes]:
    """Exactly `count` frames (without their length); `buffer` keeps the rest."""
    frames: list[bytes] = []
    while True:
        while len(frames) < count and len(buffer) >= 4:
            length = int.from_bytes(buffer[:4], "big")
            if len(buffer) < 4 + length:
                break
            frames.append(bytes(buffer[4 : 4 + length]))
            del buffer[: 4 + length]
        if len(frames) == count:
            return frames
        data = connection.recv(1 << 20)
        if not data:
            raise ConnectionError("brokerd closed the connection")
        buffer += data


def connected(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection without Nagle's delay: a frame may be several TLS records."""
    plain = socket.create_connection(address)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain


class Load:
    """Connections that each repeat: write `in_flight` frames, wait for as many answers."""

    def __init__(
        self,
        address: tuple[str, int],
        connections: int,
        frames: Callable[[int], bytes],
        in_flight: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._tls = tls
        self._connections = connections
        self._frames = frames
        self._in_flight = in_flight

    def run(self, seconds: float) -> tuple[int, float]:
        """(requests answered, seconds taken)."""
        sockets = [connected(self._address, self._tls) for _ in range(self._connections)]
        blocks = [self._frames(i) for i in range(self._connections)]
        counted = [0] * self._connections
        end = time.monotonic() + seconds

        def work(first: int, last: int) -> None:
            buffers = {i: bytearray() for i in range(first, last)}
            while time.monotonic() < end:
                for i in range(first, last):
                    sockets[i].sendall(blocks[i])
                for i in range(first, last):
                    for frame in read_frames(sockets[i], self._in_flight, buffers[i]):
                        assert b'"code":0' in frame[:20], frame[:300]
                    counted[i] += self._in_flight

        # One thread: a second one would only compete with brokerd for the cores.
        started = time.monotonic()
        thread = threading.Thread(target=work, args=(0, self._connections))
        thread.start()
        thread.join()
        taken = time.monotonic() - started
        for each in sockets:
            each.close()
        return sum(counted), taken


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK_S


def measure(broker: BrokerProcess, load: Load, seconds: float, per_request: int = 1) -> dict[str, float]:
    assert broker.process is not None
    before = cpu_seconds(broker.process.pid)
    requests, taken = load.run(seconds)
    used = cpu_seconds(broker.process.pid) - before
    messages = requests * per_request
    return {
        "msgs_per_s": round(messages / taken),
        "cpu_us_per_msg": round(used * 1e6 / messages, 2),
        "cpu_us_per_request": round(used * 1e6 / requests, 2),
    }


def measure_broker(seconds: float, body: bytes, by_tls: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        settings, tls = {}, None
        if by_tls:
            authority = Authority(Path(folder))
            settings, tls = authority.issue("server").server_settings, authority.client_context()
        broker = CommandBroker(Path(folder) / "store", mappedFileSizeCommitLog=1 << 30, **settings).start()
        try:
            address = ("127.0.0.1", broker.port)

            def pipelined(connection: int) -> bytes:
                return b"".join(send_frame(connection << 16 | i, i % QUEUES, body) for i in range(32))

            batch_body = encode_batch([Message("Bench", body, {"TAGS": "TagA"}) for _ in range(BATCH)])
            Load(address, 1, pipelined, 32, tls).run(0.5)  # the topic exists, caches are warm
            return {
                "send 64 connections x 1 in flight": measure(
                    broker, Load(address, 64, lambda c: send_frame(c, c % QUEUES, body), 1, tls), seconds
                ),
                "send 16 connections x 32 in flight": measure(
                    broker, Load(address, 16, pipelined, 32, tls), seconds
                ),
                f"send batches of {BATCH}": measure(
                    broker,
                    Load(address, 16, lambda c: send_frame(c, c % QUEUES, batch_body, batch=True), 1, tls),
                    seconds,
                    BATCH,
                ),
                f"pull {32} a request": measure(
                    broker, Load(address, 8, lambda c: pull_frame(c, c % QUEUES, 0), 1, tls), seconds, 32
                ),
                "memory_mib": memory_mib(broker),
            }
        finally:
            broker.stop()


def memory_mib(broker: BrokerProcess) -> dict[str, float]:
    assert broker.process is not None
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return {
        name: round(int(status.split(f"{name}:")[1].split()[0]) / 1024, 1) for name in ("RssAnon", "VmRSS")
    }


def measure_start() -> dict[str, float]:
    """Start to the first accepted send, on an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        broker = CommandBroker(Path(folder) / "store")
        started = time.monotonic()
        broker.start()
        with socket.create_connection(("127.0.0.1", broker.port)) as connection:
            connection.sendall(send_frame(1, 0, b"x"))
            read_frames(connection, 1, bytearray())
        taken = time.monotonic() - started
        assert broker.process is not None
        used, memory = cpu_seconds(broker.process.pid), memory_mib(broker)
        broker.stop()
    return {"seconds_to_first_send": round(taken, 3), "cpu_seconds": round(used, 2), **memory}


def measure_store(seconds: float, body: bytes) -> dict[str, float]:
    """The floor: put and dispatch in this process, no socket, 32 puts per dispatch."""
    with tempfile.TemporaryDirectory() as folder:
        store = MessageStore(MessageStoreConfig(store_path_root_dir=Path(folder)))
        store.open(0)
        properties = b"UNIQ_KEY\x01C0A8010A07DA5FFD2B276824C1000001\x02WAIT\x01true\x02TAGS\x01TagA\x02"
        host = ("127.0.0.1", 10911)
        count, end, before = 0, time.monotonic() + seconds, time.process_time()
        while time.monotonic() < end:
            for queue_id in range(32):
                store.put_message(
                    "Bench", queue_id % QUEUES, body, properties, 0, born_timestamp_ms=1, born_host=host,
                    store_host=host, now_ms=2,
                )  # fmt: skip
            store.dispatch_pending()
            count += 32
        used = time.process_time() - before
        store.close(3)
    return {"cpu_us_per_msg": round(used * 1e6 / count, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=int, default=1024, help="bytes per body")
    parser.add_argument("--tls", action="store_true", help="the connections of the load are TLS")
    options = parser.parse_args()
    body = b"x" * options.body
    result = {
        "body_bytes": options.body,
        "start": measure_start(),
        **measure_broker(options.seconds, body, options.tls),
        "store alone": measure_store(options.seconds, body),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
