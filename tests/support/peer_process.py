"""Official clients as peers: programs that produce and consume, begun and read line by line.

The lines are those of Peer.java (tests/peers/java); the Go peer (tests/peers/go) has the same.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A JVM on two busy cores needs seconds to start; the messages themselves need a few more.
PATIENCE_S = 120
STOP_S = 15


@dataclass(frozen=True, slots=True)
class Consumed:
    """One line of a consuming peer: one delivery of one message."""

    instance: str
    queue_id: int
    queue_offset: int
    reconsume_times: int
    key: str
    tag: str
    body: str


class PeerProcess:
    """A process in which any number of peers live."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        """Start `command`, with `variables` in its environment besides those of this process."""
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: list[list[list[str]]] = []  # by the number of their peer
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Whether a peer of it failed: a client of 4.9 goes on in threads of its own."""
        return any(lines and lines[-1] == ["END", "1"] for lines in self._lines)

    @property
    def is_idle(self) -> bool:
        return all(lines and lines[-1][0] == "END" for lines in self._lines)

    def begin(self, arguments: Sequence[str]) -> tuple[int, list[list[str]]]:
        """Begin a peer; return its number and the list its lines go to."""
        number, lines = len(self._lines), list[list[str]]()
        self._lines.append(lines)
        self.write(str(number), *arguments)
        return number, lines

    def write(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            number, *columns = line.rstrip("\n").split("\t")
            if columns and number.isdecimal():  # the client of 4.9 logs here too
                self._lines[int(number)].append(columns)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(5)

    def end(self) -> None:
        """End it in order: a JVM writes its archive of classes then, if it is to."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class Peer:
    """A running peer. Its lines are collected by a thread; `wait_for` watches them."""

    def __init__(self, process: PeerProcess, arguments: Sequence[str]) -> None:
        self._process = process
        self._number, self.lines = process.begin(arguments)

    @property
    def code(self) -> int | None:
        """0 after an orderly end; None while it runs."""
        if self.lines and self.lines[-1][0] == "END":
            return int(self.lines[-1][1])
        return None if self._process.is_running else 1

    @property
    def consumed(self) -> list[Consumed]:
        return [
            Consumed(line[1], int(line[2]), int(line[3]), int(line[4]), line[5], line[6], line[7])
            for line in list(self.lines)
            if line[0] == "M"
        ]

    def failures(self) -> list[list[str]]:
        return [line for line in self.lines if line[0] == "FAILED"]

    def wait_for(self, condition: Callable[[Peer], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not condition(self):
            if self.code is not None and not condition(self):
                raise AssertionError(f"peer ended ({self.code}) before {what}: {self.lines[-5:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {patience_s} s; last lines: {self.lines[-5:]}")
            time.sleep(0.05)

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        """Wait until it ends; return its code."""
        self.wait_for(lambda peer: peer.code is not None, "end", patience_s)
        assert self.code is not None
        return self.code

    def stop(self) -> None:
        """End it in order if it runs still; one that does not, or failed, takes its process with it."""
        if self.code is None:
            self._process.write(str(self._number), "stop")
            deadline = time.monotonic() + STOP_S
            while self.code is None and time.monotonic() < deadline:
                time.sleep(0.05)
        if self.code != 0:
            self._process.kill()  # threads that are left behind would go on under its name
