"""`manage.py up`: the real thing on free ports, and the parts of it that need no processes."""

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.process import child as child_process
from console.process import supervisor
from console.process.child import Child, Output, UpError
from console.process.programs import SECOND_BROKER_NAME, Options, Program, off_switch, store_folder
from console.process.supervisor import Schema
from tests.support import migrated
from tests.support.product import ROOT, Product

PATIENCE_S = 60.0


def processes_of(data: Path) -> dict[int, str]:
    """Command lines of the processes that `up` started on this data folder, wherever they hang in the
    tree.
    """
    wanted = f"TIDEMARK_DATA={data}".encode()
    socket_dir = supervisor.private_name(data)  # Valkey writes its title over its environment
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environ = (folder / "environ").read_bytes().split(b"\0")
                if command and (wanted in environ or socket_dir in command):  # a zombie has no command
                    found[int(folder.name)] = command
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    return [
        str(path) for path in (folder, *folder.rglob("*")) if not path.is_symlink() and mode(path) & 0o077
    ]


def group_is_alive(group: int) -> bool:
    """Whether a process of the group still runs; what only waits to be reaped does not."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, _, its_group = (folder / "stat").read_text().rpartition(") ")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(its_group) == group and state != "Z":
                return True
    return False


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} not within {patience_s} s"
        time.sleep(0.05)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def run_up(product: Product) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", "up", "--data", str(product.data), "--port", str(product.port)]
    command += ["--broker-port", str(product.broker_port), "--namesrv-port", str(product.namesrv_port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with databases: making them is most of a first start."""
    data = tmp_path_factory.mktemp("used") / "var"
    migrated.copy_to(data)
    Schema(data, os.environ).mark_current()
    return data


@pytest.fixture
def product(tmp_path: Path, databases: Path) -> Product:
    """A product that is not started; its data folder was used before."""
    found = Product(tmp_path / "var", "--no-demo")
    shutil.copytree(databases, found.data)
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A product with a second broker that is started for the first time, under the mask most shells have."""
    product = Product(tmp_path_factory.mktemp("shared") / "var", "--no-demo")
    product.data.mkdir()
    store_folder(product.data, SECOND_BROKER_NAME).mkdir(0o700)
    before = os.umask(0o022)
    product.start()
    os.umask(before)
    yield product
    product.stop()


@pytest.fixture
def running(shared: Product) -> Product:
    """The shared product, which tests may kill or stop."""
    return shared if shared.process is not None and shared.process.poll() is None else shared.start()


# --- The real thing ---


def test_it_starts_everything(running: Product) -> None:
    status, page = get(running.sign_in_url)
    assert (status, "Set password" in page) == (200, True)
    assert get(f"{running.url}/healthz") == (200, "ok\n")
    wait_until(lambda: "all processes are running after" in running.output(), "start of the worker")
    # The link does not wait for the worker.
    assert running.output().index("Sign in") < running.output().index("worker  │")
    wait_until(lambda: get(f"{running.url}/readyz")[0] == 200, "readiness")
    assert json.loads(get(f"{running.url}/readyz")[1])["parts"]["worker and beat"] == "ok"
    # A command in another shell finds the same Redis as the product.
    told = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--format", "json"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TIDEMARK_DATA": str(running.data)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Redis does not answer" not in told.stdout
    assert "cluster local" in told.stdout
    commands = " ".join(processes_of(running.data).values())
    for part in ("valkey-server", "-m brokerd", "-m uvicorn", "-m console.workers"):
        assert part in commands


def test_only_the_owner_reads_what_it_made(running: Product) -> None:
    assert {"console.sqlite3", "metrics.sqlite3", "secret_key"} <= {
        path.name for path in running.data.iterdir()
    }
    assert open_to_others(running.data) == []
    assert mode(running.data) == 0o700
    assert mode(running.data / "secret_key") == 0o600


def test_it_refuses_a_second_start_on_the_same_data(running: Product) -> None:
    assert running.process is not None
    second = run_up(Product(running.data))
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == (
        f"up: another `manage.py up` (process {running.process.pid}) is running on {running.data}\n"
    )
    assert get(f"{running.url}/healthz") == (200, "ok\n")


def test_it_leaves_no_orphan_when_it_is_killed(running: Product) -> None:
    assert running.process is not None
    wait_until(lambda: len(processes_of(running.data)) >= 6, "start of the worker")  # beat is a child of it
    running.process.kill()
    running.process.wait()
    wait_until(lambda: processes_of(running.data) == {}, "end of all processes")
    running.start()  # and the same data folder serves again


def test_it_starts_a_dead_process_again(running: Product) -> None:
    ready = running.output().count("brokerd │ brokerd ready")
    for pid, command in processes_of(running.data).items():
        if "valkey-server" in command or "brokerName=broker-a" in command:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "brokerd ended with code -9; restarting in 0.5 s" in running.output(), "report")
    wait_until(lambda: running.output().count("brokerd │ brokerd ready") > ready, "second start of brokerd")
    wait_until(lambda: get(f"{running.url}/readyz")[0] == 200, "readiness after the restart", 60)


def test_it_stops_and_starts_the_second_broker_by_its_switch_and_all_in_order(running: Product) -> None:
    wait_until(lambda: "namesrvAddr=" in " ".join(processes_of(running.data).values()), "the second broker")
    before = running.output()
    ready = before.count("broker-b │ brokerd ready")
    off_switch(running.data).touch()
    wait_until(lambda: "broker-b is switched off" in running.output(), "report of the switch")
    wait_until(lambda: "namesrvAddr=" not in " ".join(processes_of(running.data).values()), "its end")
    off_switch(running.data).unlink()
    wait_until(lambda: running.output().count("broker-b │ brokerd ready") > ready, "its second start")
    wait_until(lambda: "all processes are running after" in running.output(), "start of the worker")
    running.stop()
    assert running.process is not None and running.process.returncode == 0
    for end in ("ended with code", "worker process ended", "killed"):
        assert end not in running.output()[len(before) :]
    assert processes_of(running.data) == {}


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("port", "(console) is taken; choose another with --port"),
        ("broker_port", "(broker-a) is taken; choose another with --broker-port"),
        ("namesrv_port", "(name server) is taken; choose another with --namesrv-port"),
    ],
)
def test_it_names_a_taken_port_in_one_line(product: Product, attribute: str, message: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", getattr(product, attribute)))
        taken.listen()
        refused = run_up(product)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"up: port {getattr(product, attribute)} {message}\n"


# --- Its parts ---


def test_it_reads_its_options() -> None:
    found = supervisor.parse(
        ["--data", "/d", "--port", "1", "--broker-port", "2", "--namesrv-port", "3", "--no-demo"]
    )
    assert found == Options(Path("/d"), "127.0.0.1", 1, 2, 3, demo=False)
    assert (found.url, found.namesrv) == ("http://127.0.0.1:1", "127.0.0.1:3")


@pytest.mark.parametrize("left_out", ["", "--no-demo", "--no-sample-week"])
def test_only_the_demo_has_a_sample_week(left_out: str) -> None:
    assert supervisor.parse([left_out] if left_out else []).sample_week == (not left_out)


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_it_refuses_what_is_no_port(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        supervisor.parse(["--port", port])
    assert "--port" in capsys.readouterr().err


@pytest.fixture
def without_django(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes most of a start and is whole in the tests above."""

    async def prepared(up: supervisor.Supervisor, schema: Schema) -> str:
        return "key"

    monkeypatch.setattr(supervisor, "web_program", lambda options: Program("web", ["/bin/sleep", "60"], 1))
    monkeypatch.setattr(supervisor.Supervisor, "_prepare", prepared)


def up_here(product: Product) -> int:
    command = ["--data", str(product.data), "--port", str(product.port), "--no-demo"]
    command += ["--broker-port", str(product.broker_port), "--namesrv-port", str(product.namesrv_port)]
    return supervisor.main(command)


def test_it_stops_what_it_started_when_a_part_can_not_start(
    product: Product, without_django: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (product.data / "store").write_text("a file where the store's folder must be")
    assert up_here(product) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("up: brokerd ended with code ")
    assert processes_of(product.data) == {}


def test_it_ends_when_the_worker_can_not_start(
    product: Product,
    without_django: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The link is printed by then; a console whose jobs never run must not look healthy."""
    broken = Program("worker", ["/bin/false"], 1, ready_line=re.compile("ready"))
    monkeypatch.setattr(supervisor, "worker_program", lambda: broken)
    assert up_here(product) == 1
    printed = capsys.readouterr()
    assert printed.err == "up: worker ended with code 1 before it was ready\n"
    assert "/sign-in/key" in printed.out
    assert processes_of(product.data) == {}


def test_it_keeps_the_socket_folder_short_and_private(tmp_path: Path) -> None:
    folder = supervisor.private_dir(tmp_path)
    try:
        assert folder == supervisor.private_dir(tmp_path)
        assert len(str(folder / "redis.sock")) < 60
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o755)
        other = supervisor.private_dir(tmp_path)
        assert other != folder
        other.rmdir()
    finally:
        folder.rmdir()


def test_it_trusts_its_stamp_only_for_the_same_migrations_and_its_own_files(tmp_path: Path) -> None:
    schema = Schema(tmp_path, {})
    schema.mark_current()
    assert not schema.is_current()  # no databases yet
    for name in ("console.sqlite3", "metrics.sqlite3"):
        (tmp_path / name).touch()
    assert schema.is_current()
    assert not Schema(tmp_path, {"DATABASE_URL": "postgres://x/y"}).is_current()
    (tmp_path / "schema-stamp").write_text("another version")
    assert not schema.is_current()


def test_only_an_upgrade_has_pages_that_wait_for_the_databases(tmp_path: Path) -> None:
    schema = Schema(tmp_path, {})
    assert (schema.is_new(), schema.is_current()) == (True, False)
    schema.databases[0].touch()
    assert (schema.is_new(), schema.is_current()) == (False, False)
    assert not Schema(tmp_path / "other", {"DATABASE_URL": "postgres://x/y"}).is_new()


def test_it_keeps_databases_open_so_that_a_full_disk_can_be_read(tmp_path: Path) -> None:
    schema = Schema(tmp_path, {})
    for file in schema.databases:
        with contextlib.closing(sqlite3.connect(file)) as writer:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("CREATE TABLE t (n)")
    kept = schema.opened()
    for file in schema.databases:
        sqlite3.connect(
            file
        ).close()  # the last one to close would remove what the next one has to make again
        assert file.with_name(f"{file.name}-shm").exists()
    for connection in kept:
        connection.close()
    assert Schema(tmp_path, {"DATABASE_URL": "postgres://x/y"}).opened() == []


def test_it_prints_lines_with_their_origin() -> None:
    stream = io.StringIO()
    reader = asyncio.StreamReader

    async def copied() -> None:
        source = reader()
        source.feed_data(b"one\r\ntw")
        source.feed_data(b"o\n\n" + b"x" * 9_000)
        source.feed_eof()
        await Output(stream).copy("web", source, lambda line: line != "one")

    asyncio.run(copied())
    assert stream.getvalue().splitlines() == ["web     │ two", "web     │ " + "x" * 9_000]


async def test_it_pauses_longer_after_each_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "RESTART_DELAY_S_MIN", 0.1)
    stream = io.StringIO()
    program = Program("demo", ["/bin/sh", "-c", "exit 3"], stop_limit_s=1)
    child = Child(program, {}, Output(stream), lambda: None)
    await child.ready  # a program without a sign of readiness is ready when it runs
    async with asyncio.timeout(PATIENCE_S):
        while stream.getvalue().count("\n") < 3:
            await asyncio.sleep(0.01)
    await child.stop()
    assert stream.getvalue().splitlines()[:3] == [
        "up      │ demo ended with code 3; restarting in 0.1 s",
        "up      │ demo ended with code 3; restarting in 0.2 s",
        "up      │ demo ended with code 3; restarting in 0.4 s",
    ]


async def test_it_fails_when_a_program_ends_before_it_is_ready() -> None:
    async def never() -> bool:
        return False

    child = Child(Program("web", ["/bin/false"], 1, probe=never), {}, Output(io.StringIO()), lambda: None)
    with pytest.raises(UpError, match="web ended with code 1 before it was ready"):
        await child.ready


async def test_it_kills_what_does_not_end_when_asked() -> None:
    script = "trap '' TERM; sleep 60 & echo started; wait; wait"
    stream = io.StringIO()
    child = Child(Program("web", ["/bin/sh", "-c", script], 0.2), {}, Output(stream), lambda: None)
    while "started" not in stream.getvalue():
        await asyncio.sleep(0.01)
    assert child.process is not None
    group = child.process.pid
    await child.stop()
    assert "web did not end in 0.2 s: killed" in stream.getvalue()
    assert not group_is_alive(group)


async def test_it_ends_the_spark_server_that_a_report_left_behind(tmp_path: Path) -> None:
    """Asked first, so that it can clean up; a process that is not the worker's is left alone."""
    note = tmp_path / supervisor.WARM_SPARK_NOTE
    note.parent.mkdir()
    server = "trap 'echo cleaned up; exit' TERM; echo started; while :; do sleep 0.05; done"
    # As the worker, it ends after the server: what is left when it ends is killed.
    script = (
        f'trap wait TERM; nohup /bin/sh -c "{server}" & '
        f'echo "{{\\"pid\\": $!}}" > {note}.draft; mv {note}.draft {note}; wait'
    )
    stream = io.StringIO()
    child = Child(Program("worker", ["/bin/sh", "-c", script], 5), {}, Output(stream), lambda: None)
    while "started" not in stream.getvalue() or not note.exists():
        await asyncio.sleep(0.01)
    assert child.process is not None
    group = child.process.pid
    supervisor.end_warm_spark(tmp_path, os.getpgid(0))
    assert group_is_alive(group)
    supervisor.end_warm_spark(tmp_path, group)
    await child.stop()
    assert "cleaned up" in stream.getvalue()
    assert not group_is_alive(group)
    supervisor.end_warm_spark(tmp_path, group)
    note.write_text("no note")
    supervisor.end_warm_spark(tmp_path, group)


def test_it_guards_against_its_own_death() -> None:
    victim = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & wait"], start_new_session=True)
    guard = subprocess.Popen(["/bin/sh", "-c", supervisor.GUARD], stdin=subprocess.PIPE)
    assert guard.stdin is not None
    guard.stdin.write(f"-1000000\n-{victim.pid}\n".encode())
    guard.stdin.close()
    assert victim.wait(30) == -9
    guard.wait(30)
    deadline = time.monotonic() + 30  # a killed process may still be on its way out
    while group_is_alive(victim.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not group_is_alive(victim.pid)


def test_it_lets_processes_live_after_a_farewell() -> None:
    survivor = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    guard = subprocess.Popen(["/bin/sh", "-c", supervisor.GUARD], stdin=subprocess.PIPE)
    assert guard.stdin is not None
    guard.stdin.write(f"-{survivor.pid}\n\n".encode())
    guard.stdin.close()
    assert guard.wait(5) == 0
    assert survivor.poll() is None
    survivor.kill()
    survivor.wait()


async def test_what_runs_once_is_started_again_only_if_it_fails(tmp_path: Path) -> None:
    script = f"echo run >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) -ge 2 ]"
    program = Program("week", ["/bin/sh", "-c", script], stop_limit_s=1, is_once=True)
    child = Child(program, {}, Output(io.StringIO()), lambda: None)
    await asyncio.wait_for(asyncio.shield(child._task), 10)
    await child.stop()
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_it_names_a_data_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert supervisor.main(["--data", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"up: --data: {tmp_path}/file is a file. Name a folder.\n"
