"""A process that loads a program and forks it: three quarters of a start's cost is importing modules.

Hundreds of tests start a broker. Each fork equals `python -m brokerd`: a process, a store and ports of its own. The
process ends with the one that started it, and every fork with it.
"""

from __future__ import annotations

import atexit
import importlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parent.parent.parent


class ForkedProgram:
    """A fork, with the methods of subprocess.Popen that tests use."""

    def __init__(self, pid: int, note: Path) -> None:
        self.pid, self._note = pid, note
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and self._note.exists():
            self.returncode = int(self._note.read_text())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The caller's end of the forking process. A request is a line; the answer is the process id of the fork."""

    def __init__(self, module: str, environment: Mapping[str, str] = os.environ) -> None:
        """`module` has `main(arguments, environment) -> exit code`."""
        self._notes = Path(tempfile.mkdtemp(prefix="tm-forks-", dir="/tmp"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, module],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._requests = 0
        self._asking = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self.close)

    def start(
        self, arguments: Sequence[str], log: Path, *, errors: Path | None = None, given: Path | None = None
    ) -> ForkedProgram:
        """Its output is appended to `log`, and so are its errors unless they have a file; it reads `given`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._asking:
            self._requests += 1
            note = self._notes / str(self._requests)
            request = {
                "arguments": arguments,
                "given": str((given or Path(os.devnull)).absolute()),
                "log": str(log.absolute()),
                "errors": str((errors or log).absolute()),
                "note": str(note),
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return ForkedProgram(int(self._process.stdout.readline()), note)

    def close(self) -> None:
        """End the process and all its forks."""
        atexit.unregister(self.close)
        if os.getpid() == self._owner:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            shutil.rmtree(self._notes, ignore_errors=True)


@cache
def _brokers(process_id: int) -> Forks:
    """One for each process of tests: a fork of it must not share the pipe."""
    return Forks("brokerd.__main__")


_first_broker = threading.Lock()


def forked_broker(arguments: Sequence[str], log: Path) -> ForkedProgram:
    with _first_broker:
        brokers = _brokers(os.getpid())
    return brokers.start(arguments, log)


def main() -> None:
    """Fork for each line of the input; end all forks when it ends."""
    command = importlib.import_module(sys.argv[1])
    notes: dict[int, Path] = {}  # process id → where its exit code belongs

    def reap(*_: object) -> None:
        while notes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            note = notes.pop(pid)
            draft = note.with_suffix(".draft")
            draft.write_text(str(os.waitstatus_to_exitcode(status)))
            draft.rename(note)

    def run(arguments: Sequence[str], given: str, log: str, errors: str) -> NoReturn:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.dup2(os.open(given, os.O_RDONLY), 0)
        for descriptor, file in ((1, log), (2, errors)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
        code = command.main(arguments, os.environ)
        if any(
            not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
        ):
            sys.exit(code)  # which waits for them
        # Taking down every imported module is two thirds of what a fork costs; its memory is given back anyway.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; they stop their brokers
    for line in sys.stdin:
        request = json.loads(line)
        # A fork that ends at once is reaped only when its note is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            run(request["arguments"], request["given"], request["log"], request["errors"])
        notes[pid] = Path(request["note"])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in list(notes):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
