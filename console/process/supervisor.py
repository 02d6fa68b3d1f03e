"""Run `manage.py up`: start, watch and stop every process on one machine. Imports no Django.

Order of start: Redis, brokerd, databases and web at once; the sign-in link as soon as these answer; then worker and
demo traffic, so that they take no CPU time from what the link waits for. Stop is in reverse. A process that ends by
itself is restarted, with growing delays.

Nothing survives the supervisor, however it ends: every process has its own session; on Linux the kernel kills it when
its parent dies; and a guard (a shell of 1 MB that reads a pipe) kills the sessions with all their children when the
pipe closes without an empty line.
"""

import argparse
import asyncio
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO

from console.process.child import ROOT, Child, Output, UpError, kill_group, spawn
from console.process.private_files import FolderUnusable, keep_private, require_writable
from console.process.programs import (
    BROKER_NAME,
    SECOND_BROKER_NAME,
    Options,
    Program,
    brokerd_program,
    demo_program,
    off_switch,
    redis_program,
    sample_week_program,
    store_folder,
    web_program,
    week_note,
    worker_program,
)

REDIS_ADDRESS_FILE = "redis_url"  # in the data folder, while the bundled server runs
# In the data folder: the address of its warm Spark server, if one runs.
WARM_SPARK_NOTE = "spark/connect-local.json"
SWITCH_EVERY_S = 0.5  # how often the second broker's switch is looked at
READY_LIMIT_S = 90.0  # a cold start on a busy machine; a process that needs longer is stuck

# The guard: the newest line of its input is what to kill when the input closes; an empty line means a regular end.
GUARD = 'while IFS= read -r line; do groups=$line; done; [ -n "$groups" ] && kill -s KILL -- $groups; exit 0'


def end_warm_spark(data: Path, group: int) -> None:
    """Stop the Spark server that stays up between reports, so that it removes its temporary folders.

    The worker started it, so it is killed with the worker's session at the latest.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        pid = int(json.loads((data / WARM_SPARK_NOTE).read_text())["pid"])
        # An old note may name a process id that was reused.
        if os.getpgid(pid) == group:
            os.kill(pid, signal.SIGTERM)


# --- All of them --------------------------------------------------------------------------------------------


class Supervisor:
    """The life of one `up`: start, wait for a signal, stop."""

    def __init__(self, options: Options, environ: Mapping[str, str], output: Output) -> None:
        self.options = options
        self.output = output
        self.environ = {
            # Reports about messages read the stores of the brokers that run here.
            "STORE_FOLDERS": ",".join(
                f"local:{name}={store_folder(options.data, name)}" for name in options.broker_ports()
            ),
            **environ,
            "TIDEMARK_DATA": str(options.data),
            "TIDEMARK_EMBEDDED_NAMESRV": options.namesrv,
            "TIDEMARK_DEMO": str(options.demo),
            # A Spark server of its own: it ends with this product and runs no other product's reports.
            "SPARK_LOCAL_CONNECT_DISCOVERY": str(options.data / WARM_SPARK_NOTE),
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONUNBUFFERED": "1",
        }
        self.children: list[Child] = []  # in order of start
        self.guard: asyncio.subprocess.Process | None = None
        self.socket_dir: Path | None = None
        self.preparing: asyncio.Task[str] | None = None
        self.switching: asyncio.Task[None] | None = None
        self.kept_open: list[sqlite3.Connection] = []
        self.stop_requested = asyncio.Event()
        self.signals = 0

    async def run(self) -> None:
        """Run until a signal. Raises UpError when something cannot start, after stopping everything."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        try:
            starting = asyncio.create_task(self._start())
            stopping = asyncio.create_task(self.stop_requested.wait())
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            else:
                starting.cancel()
                await asyncio.wait([starting])
            await stopping
        finally:
            await self._stop()

    def _signalled(self) -> None:
        self.signals += 1
        self.stop_requested.set()
        # A second signal stops at once.
        if self.signals > 1:
            for child in self.children:
                child.kill()

    async def _start(self) -> None:
        """Start everything; print the sign-in link as soon as it works."""
        started_s = time.monotonic()
        self.guard = await asyncio.create_subprocess_exec(  # not spawn: it must outlive this process
            "/bin/sh", "-c", GUARD, env={}, stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        redis_child = self._start_redis()
        brokerd_child = self._start_child(brokerd_program(self.options))
        schema = Schema(self.options.data, self.environ)
        is_upgrade = not (schema.is_new() or schema.is_current())
        preparing = self.preparing = asyncio.create_task(self._prepare(schema))
        if redis_child is not None:
            await self._until_ready(redis_child)
        if is_upgrade:
            # Pages that were open before the upgrade would read tables that do not exist yet.
            await preparing
        web_child = self._start_child(web_program(self.options))
        sign_in_key = await preparing
        self.kept_open = schema.opened()
        for child in (web_child, brokerd_child):
            await self._until_ready(child)
        self._welcome(sign_in_key, time.monotonic() - started_s)
        later = [self._start_child(worker_program())]
        if self.options.has_second_broker:
            self.switching = asyncio.create_task(self._follow_switch())
        if self.options.demo:
            later.append(self._start_child(demo_program(self.options)))
        for child in later:
            await self._until_ready(child)
        if self.options.sample_week and not week_note(self.options.data).exists():
            self._start_child(sample_week_program())
        self.output.line("up", f"all processes are running after {time.monotonic() - started_s:.1f} s")

    async def _follow_switch(self) -> None:
        """Run the second broker unless its switch is off: an operator turns it off to see a broker fail."""
        program, off = brokerd_program(self.options, SECOND_BROKER_NAME), off_switch(self.options.data)
        child: Child | None = None
        while True:
            if child is None and not off.exists():
                child = self._start_child(program)
            elif child is not None and (off.exists() or child.failed):
                self.output.line(
                    "up", f"{program.name} is {'switched off' if off.exists() else 'not started'}"
                )
                await child.stop()
                self.children.remove(child)
                self._tell_guard()
                child = None
            await asyncio.sleep(SWITCH_EVERY_S)

    def _start_redis(self) -> Child | None:
        if self.environ.get("REDIS_URL"):
            return None
        self.socket_dir = private_dir(self.options.data)
        socket_path = self.socket_dir / "redis.sock"
        socket_path.unlink(missing_ok=True)
        self.environ["REDIS_URL"] = f"unix://{socket_path}"
        # Commands in another shell find the server by this file: console/settings.py reads it.
        (self.options.data / REDIS_ADDRESS_FILE).write_text(self.environ["REDIS_URL"])
        return self._start_child(redis_program(socket_path))

    def _start_child(self, program: Program) -> Child:
        child = Child(program, self.environ, self.output, self._tell_guard)
        self.children.append(child)
        return child

    async def _until_ready(self, child: Child) -> None:
        try:
            async with asyncio.timeout(READY_LIMIT_S):
                await asyncio.shield(child.ready)
        except TimeoutError:
            raise UpError(f"{child.program.name} was not ready within {READY_LIMIT_S:g} s") from None

    async def _prepare(self, schema: "Schema") -> str:
        """Migrate the databases, register the embedded cluster, make the sign-in link: one short process."""
        arguments = ["prepare"] if schema.is_current() else ["prepare", "--migrate"]
        process = await spawn(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            _, answer = await asyncio.gather(
                self.output.copy("prepare", process.stderr, lambda line: True), process.stdout.read()
            )
            code = await process.wait()
        finally:
            if process.returncode is None:
                kill_group(process)
        if code != 0:
            raise UpError(
                f"settings and databases could not be prepared (code {code}); "
                "the output of `prepare` above has the reason"
            )
        schema.mark_current()
        return str(json.loads(answer)["sign_in_key"])

    def _tell_guard(self) -> None:
        """Update the sessions that the guard kills if this process ends without stopping them."""
        assert self.guard is not None and self.guard.stdin is not None
        alive = [child.process.pid for child in self.children if child.process is not None]
        if self.guard.returncode is None:
            self.guard.stdin.write((" ".join(f"-{pid}" for pid in alive) + "\n").encode())

    def _welcome(self, sign_in_key: str, took_s: float) -> None:
        options = self.options
        brokers = ", ".join(f"{name} 127.0.0.1:{port}" for name, port in options.broker_ports().items())
        for text in (
            f"ready in {took_s:.1f} s",
            f"  Console      {options.url}/",
            f"  Sign in      {options.url}/sign-in/{sign_in_key}",
            "               (works once, within 15 minutes)",
            f"  Name server  {options.namesrv}, {brokers}",
            f"  Data         {options.data}",
            "  Ctrl-C stops everything.",
        ):
            self.output.line("up", text)

    async def _stop(self) -> None:
        """Stop in reverse order of the start; processes that do not need each other stop together."""
        self.output.line("up", "stopping")
        started_s = time.monotonic()
        if self.preparing is not None and not self.preparing.done():
            self.preparing.cancel()
            await asyncio.wait([self.preparing])
        if self.switching is not None:
            self.switching.cancel()
            await asyncio.wait([self.switching])
        for worker in (child.process for child in self.children if child.program.name == "worker"):
            if worker is not None:
                end_warm_spark(self.options.data, worker.pid)
        for names in (["week", "demo", "worker", "web"], [SECOND_BROKER_NAME], ["brokerd"], ["redis"]):
            await asyncio.gather(*(child.stop() for child in self.children if child.program.name in names))
        for connection in self.kept_open:
            connection.close()
        if self.guard is not None and self.guard.stdin is not None and self.guard.returncode is None:
            self.guard.stdin.write(b"\n")
            self.guard.stdin.close()
            await self.guard.wait()
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
            (self.options.data / REDIS_ADDRESS_FILE).unlink(missing_ok=True)
        self.output.line("up", f"stopped in {time.monotonic() - started_s:.1f} s")


class Schema:
    """Detects without Django whether the databases are up to date: by a stamp of all migration files.

    Only used for the SQLite files of the data folder; a server's database may have changed meanwhile.
    """

    def __init__(self, data: Path, environ: Mapping[str, str]) -> None:
        self.stamp = data / "schema-stamp"
        self.databases = [data / "console.sqlite3", data / "metrics.sqlite3"]
        self.is_embedded = not (environ.get("DATABASE_URL") or environ.get("METRICS_DATABASE_URL"))

    def is_new(self) -> bool:
        """Whether there are no databases yet, so that no page of an older version can be open."""
        return self.is_embedded and not any(file.exists() for file in self.databases)

    def is_current(self) -> bool:
        return (
            self.is_embedded
            and all(file.exists() for file in self.databases)
            and self.stamp.exists()
            and self.stamp.read_text() == self._fingerprint()
        )

    def opened(self) -> list[sqlite3.Connection]:
        """Open the databases of the data folder; they stay open while the product runs.

        The first to open a database needs room for its log and the log's index: without this, no page could be read on
        a full disk.
        """
        connections = []
        for file in self.databases if self.is_embedded else ():
            connections.append(sqlite3.connect(file))
            connections[-1].execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        return connections

    def mark_current(self) -> None:
        if self.is_embedded:
            self.stamp.write_text(self._fingerprint())

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(version("Django").encode())
        for file in sorted(ROOT.glob("console/*/migrations/*.py")):
            digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
        return digest.hexdigest()


# --- Before anything is started -----------------------------------------------------------------------------


def private_name(data: Path) -> str:
    return f"tidemark-{os.getuid()}-{hashlib.sha256(str(data).encode()).hexdigest()[:8]}"


def private_dir(data: Path) -> Path:
    """Return a folder that only this user can enter, with a short name.

    A Unix socket's path is limited to 104 to 108 bytes. The same for the same data folder, so that the next `up` cleans
    up after one that was killed.
    """
    folder = Path("/tmp") / private_name(data)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            # Another user took the name.
            return Path(tempfile.mkdtemp(prefix="tidemark-", dir="/tmp"))
    return folder


def lock(data: Path) -> IO[str]:
    """Lock the data folder until the file is closed. Raises UpError when it is held or not writable."""
    try:
        require_writable(data)
    except FolderUnusable as error:
        raise UpError(f"--data: {error}") from None
    keep_private(data)  # before anything is created in it, and for every process started from here
    file = (data / "up.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise UpError(
            f"another `manage.py up` (process {file.read().strip()}) is running on {data}"
        ) from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file


BROKER_OPTIONS = {BROKER_NAME: "--broker-port", SECOND_BROKER_NAME: "--second-broker-port"}


def check_ports(options: Options) -> None:
    """Raise UpError naming the first port that is taken."""
    wanted = [
        (options.port, "console", "--port"),
        *((port, name, BROKER_OPTIONS[name]) for name, port in options.broker_ports().items()),
        (options.namesrv_port, "name server", "--namesrv-port"),
    ]
    for port, what, option in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError as error:
                why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
                raise UpError(f"port {port} ({what}) {why}; choose another with {option}") from None


def port_number(text: str) -> int:
    number = int(text)
    if not 0 < number < 65_536:
        raise argparse.ArgumentTypeError("a port is 1 to 65535")
    return number


def parse(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="manage.py up",
        description="Run everything on this machine: Redis, brokerd, the console, its worker, demo traffic.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT / "var", help="folder for databases, store and history"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address the console listens on; see ALLOWED_HOSTS"
    )
    parser.add_argument("--port", type=port_number, default=8000, help="port of the console")
    parser.add_argument("--broker-port", type=port_number, default=10911, help="port of the broker")
    parser.add_argument(
        "--second-broker-port",
        type=port_number,
        help="port of the demo's second broker (default: --broker-port plus 10)",
    )
    parser.add_argument("--namesrv-port", type=port_number, default=9876, help="port of the name server")
    parser.add_argument(
        "--no-demo", action="store_true", help="start without the demo: its topics, groups and traffic"
    )
    parser.add_argument(
        "--no-sample-week", action="store_true", help="start without the demo's cluster of a generated week"
    )
    found = parser.parse_args(argv)
    return Options(
        data=found.data.resolve(),
        host=found.host,
        port=found.port,
        broker_port=found.broker_port,
        namesrv_port=found.namesrv_port,
        demo=not found.no_demo,
        second_broker_port=found.second_broker_port or 0,
        sample_week=not (found.no_demo or found.no_sample_week),
    )


def main(argv: Sequence[str]) -> int:
    """Run until a signal; return the exit code."""
    options = parse(argv)
    try:
        with lock(options.data):
            check_ports(options)
            asyncio.run(Supervisor(options, os.environ, Output(sys.stdout)).run())
    except (UpError, FileNotFoundError, PermissionError) as error:
        sys.stderr.write(f"up: {error}\n")
        return 1
    return 0
