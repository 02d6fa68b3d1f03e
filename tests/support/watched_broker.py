"""A broker that is treated badly, and one well-behaved client of it: is it alive, how much does it hold, who waits."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from tests.brokerd.running import send_fields
from tests.support.broker_process import BrokerProcess

ANSWER_WITHIN_S = 30.0
GOOD_TOPIC = "Good"
QUIET_MAX_S = 60.0  # then the good client connects anew: a broker closes what was silent for 120 s


class WatchedBroker:
    """Shared by the rounds of a harness: a defect shows although it needs several of them."""

    def __init__(self, **settings: str | int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidemark-hard-"))
        self.process = BrokerProcess(self.folder / "store", **settings).start()
        self._good = connect(self.process.port)
        self._last_sent_s = time.monotonic()
        self._opaque = 0
        self._output_read = 0
        self.waits_ms: list[float] = []  # of the good client, one for each message
        atexit.register(self.stop)
        self.send_good()

    def send_good(self) -> float:
        """A message of the good client; how many ms it waited for its answer. It must be stored."""
        self._opaque += 1
        command = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, send_fields(GOOD_TOPIC), b"good")
        command.opaque = self._opaque
        began = time.monotonic()
        # Another harness had this broker in the same process before.
        if began - self._last_sent_s > QUIET_MAX_S:
            self._good.close()
            self._good = connect(self.process.port)
        self._last_sent_s = began
        self._good.sendall(command.encode())
        answer = read_answer(self._good)
        took_ms = (time.monotonic() - began) * 1000
        assert (answer.opaque, answer.code) == (self._opaque, 0), answer
        self.waits_ms.append(took_ms)
        return took_ms

    @property
    def pid(self) -> int:
        assert self.process.process is not None
        assert self.process.process.poll() is None, self.process.output()[-2000:]
        return self.process.process.pid

    @property
    def memory_mib(self) -> float:
        """Anonymous memory: what is mapped of the store's files is the page cache's."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) / 1024

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def new_output(self) -> str:
        """What it logged since the last call."""
        with self.process.log.open() as log:
            log.seek(self._output_read)
            output = log.read()
            self._output_read = log.tell()
        return output

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self._good.close()
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def watched_broker() -> WatchedBroker:
    """The one of this process, stopped at its end."""
    return WatchedBroker()


def connect(port: int, receive_bytes: int = 0) -> socket.socket:
    """A connection; `receive_bytes` makes its receive buffer small, as of a peer that does not read."""
    peer = socket.socket()
    peer.settimeout(ANSWER_WITHIN_S)
    if receive_bytes:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.connect(("127.0.0.1", port))
    return peer


def read_exactly(peer: socket.socket, count: int) -> bytes:
    """Raises ConnectionError when the peer closes before."""
    pieces = []
    while count:
        piece = peer.recv(min(count, 1 << 20))
        if not piece:
            raise ConnectionError("closed")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def read_answer(peer: socket.socket) -> RemotingCommand:
    length = int.from_bytes(read_exactly(peer, 4), "big")
    return decode_frame(read_exactly(peer, length))


def share_below(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * share))] if found else 0.0


def report() -> None:
    """What the good client waited, and what the broker holds."""
    broker = watched_broker()
    waits = broker.waits_ms
    print(
        f"good client: {len(waits)} messages, p50 {share_below(waits, 0.5):.1f} ms, p99 {share_below(waits, 0.99):.1f} "
        f"ms, longest {max(waits):.1f} ms; broker: {broker.memory_mib:.0f} MiB, {broker.descriptors} descriptors",
        file=sys.stderr,
    )
