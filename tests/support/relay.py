"""A relay between a client and a server that keeps every frame, and may change addresses in the answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO

from tests.support.ports import free_port

LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was sent, its length first."""

    connection: int
    is_from_client: bool
    data: bytes


class Relay:
    """`with Relay(port) as relay:` — listens on `relay.port`; `frames` in the order they came."""

    def __init__(self, to_port: int, named: bytes = b"", instead: bytes = b"") -> None:
        """`named`: a text of the server's frames that becomes `instead`, of the same length."""
        assert len(named) == len(instead)
        self.port, self.frames = free_port(), list[Frame]()
        self._to_port, self._named, self._instead = to_port, named, instead
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets = [self._listener]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to_port))
                self._sockets += [client, server]
                number += 1
                for source, target in ((client, server), (server, client)):
                    arguments = (number, source.makefile("rb"), target, source is client)
                    threading.Thread(target=self._pass, args=arguments, daemon=True).start()

    def _pass(self, number: int, source: BinaryIO, target: socket.socket, is_from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while len(length := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
                data = length + source.read(int.from_bytes(length))
                if self._named and not is_from_client:
                    data = data.replace(self._named, self._instead)
                self.frames.append(Frame(number, is_from_client, data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
