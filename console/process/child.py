"""One process of `manage.py up`: started, watched, started again, stopped. Imports no Django."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from console.process.programs import Program

ROOT = Path(__file__).resolve().parent.parent.parent
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
PROBE_EVERY_S = 0.05
RESTART_DELAY_S_MIN, RESTART_DELAY_S_MAX = 0.5, 30.0
# After running this long, the next restart begins with the shortest delay.
STEADY_AFTER_S = 60.0
LINE_BYTES_MAX = 8 * 1024  # of a log line; the rest goes on the next
KILL_WAIT_S = 5.0


class UpError(Exception):
    """`up` cannot start or continue; the text is the one line its user reads."""


# --- Output -------------------------------------------------------------------------------------------------


class Output:
    """Lines of all processes on one terminal, each prefixed with its process's name."""

    COLOURS: Mapping[str, int] = {
        "redis": 35,
        "brokerd": 33,
        "web": 36,
        "worker": 32,
        "demo": 34,
        "broker-b": 33,
        "week": 34,
        "prepare": 37,
    }

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.coloured = stream.isatty()

    def line(self, name: str, text: str) -> None:
        prefix = f"{name:<7} │ "
        if self.coloured:
            prefix = f"\x1b[{self.COLOURS.get(name, 37)}m{prefix}\x1b[0m"
        try:
            self.stream.write(f"{prefix}{text}\n")
            self.stream.flush()
        except (BrokenPipeError, OSError):
            # The reader of the output is gone, which is no fault of the processes.
            pass

    async def copy(self, name: str, reader: asyncio.StreamReader, seen: Callable[[str], bool]) -> None:
        """Copy ``reader`` line by line until it ends; ``seen`` returns whether to show a line."""
        rest = b""
        while chunk := await reader.read(64 * 1024):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text and seen(text):
                    self.line(name, text)
        if rest:
            self.line(name, rest.decode(errors="replace"))


# --- One process --------------------------------------------------------------------------------------------


def bound_to_parent() -> None:
    """Die when the supervisor does, however it ends; runs in the child before exec."""
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


async def spawn(
    command: Sequence[str], environ: Mapping[str, str], **streams: Any
) -> asyncio.subprocess.Process:
    """Start a process in its own session.

    Ctrl-C then reaches the supervisor only, and the process can be killed with all its children.
    """
    return await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=dict(environ), start_new_session=True, preexec_fn=bound_to_parent, **streams
    )


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process and every child that stayed in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Child:
    """Keeps one program running. Caller: Supervisor. Affects: only its own process."""

    def __init__(
        self, program: Program, environ: Mapping[str, str], output: Output, changed: Callable[[], None]
    ) -> None:
        self.program = program
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Its exception counts as read: `up` may end before it waits for this process.
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self.process: asyncio.subprocess.Process | None = None
        self._environ = environ
        self._output = output
        self._changed = changed
        self._stopping = False
        self._task = asyncio.create_task(self._keep(), name=program.name)

    async def _keep(self) -> None:
        """Start, wait for the end, start again; the delay doubles up to 30 s.

        It is reset after a steady minute.
        """
        delay_s = RESTART_DELAY_S_MIN
        while not self._stopping:
            started_s = time.monotonic()
            code = await self._run_once()
            if self._stopping or (self.program.is_once and code == 0):
                return
            if not self.ready.done():
                self.ready.set_exception(
                    UpError(f"{self.program.name} ended with code {code} before it was ready")
                )
                return
            if time.monotonic() - started_s > STEADY_AFTER_S:
                delay_s = RESTART_DELAY_S_MIN
            self._output.line(
                "up", f"{self.program.name} ended with code {code}; restarting in {delay_s:.1f} s"
            )
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RESTART_DELAY_S_MAX)

    async def _run_once(self) -> int:
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        process = await spawn(self.program.command, self._environ, stdin=asyncio.subprocess.DEVNULL, **pipes)
        self.process = process
        self._changed()
        if self.program.probe is None and self.program.ready_line is None:
            # There is nothing to wait for.
            self._is_ready()
        assert process.stdout is not None
        probing = asyncio.create_task(self._probe())
        reading = asyncio.create_task(self._output.copy(self.program.name, process.stdout, self._saw))
        try:
            return await process.wait()
        finally:
            probing.cancel()
            kill_group(process)  # children it left behind; they also keep the pipe open
            await asyncio.wait([reading], timeout=1)
            reading.cancel()

    def _saw(self, line: str) -> bool:
        program = self.program
        if program.ready_line is not None and program.ready_line.search(line):
            self._is_ready()
        return program.hushed_line is None or not program.hushed_line.search(line)

    async def _probe(self) -> None:
        while self.program.probe is not None:
            if await self.program.probe():
                self._is_ready()
                return
            await asyncio.sleep(PROBE_EVERY_S)

    def _is_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    @property
    def failed(self) -> bool:
        """Whether it ended before it was ready: it is not started again."""
        return self.ready.done() and self.ready.exception() is not None

    async def stop(self) -> None:
        """Terminate the process, and kill it after its limit."""
        self._stopping = True
        process = self.process
        if process is None or process.returncode is not None:
            self._task.cancel()
        else:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            done, _ = await asyncio.wait([self._task], timeout=self.program.stop_limit_s)
            if not done:
                self._output.line(
                    "up", f"{self.program.name} did not end in {self.program.stop_limit_s:g} s: killed"
                )
                kill_group(process)
        await asyncio.wait([self._task], timeout=KILL_WAIT_S)

    def kill(self) -> None:
        self._stopping = True
        if self.process is not None and self.process.returncode is None:
            kill_group(self.process)
