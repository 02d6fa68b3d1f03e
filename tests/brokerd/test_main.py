"""brokerd as a process: ready line, bad settings, taken ports, signals, kill -9, speed of start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.__main__ import read_settings
from brokerd.config import ConfigError
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from brokerd.tables.changed_properties import ChangedProperties
from tests.brokerd.running import RawClient, pull_fields, send_fields
from tests.support.broker_process import BrokerProcess, CommandBroker
from tests.support.certificates import Authority
from tests.support.forks import forked_broker


def run(*assignments: str) -> subprocess.CompletedProcess[str]:
    arguments = [item for each in assignments for item in ("--set", each)]
    return subprocess.run(
        [sys.executable, "-m", "brokerd", *arguments], capture_output=True, text=True, timeout=60
    )


def run_fork(folder: Path, *assignments: str) -> tuple[int, str]:
    """Exit code and output of a start that ends, without the cost of a new interpreter."""
    log = folder.parent / f"{folder.name}.refused"
    log.unlink(missing_ok=True)
    arguments = [item for each in assignments for item in ("--set", each)]
    return forked_broker(arguments, log).wait(60), log.read_text()


# Whole files are compared: an index of the usual size has 400 MB, nearly all of it empty.
SMALL_INDEX = {"maxHashSlotNum": 1_000, "maxIndexNum": 4_000}


@pytest.fixture()
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "store", **SMALL_INDEX)
    yield broker
    broker.stop()


@pytest.fixture()
def command(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = CommandBroker(tmp_path / "store", **SMALL_INDEX)
    yield broker
    broker.stop()


async def test_it_keeps_what_it_confirmed_over_a_kill(process: BrokerProcess) -> None:
    process.start()
    client = await RawClient.connect(process.address)
    answers = [
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), str(i).encode())
        for i in range(100)
    ]
    assert [answer.code for answer in answers] == [0] * 100
    process.kill()
    process.start()
    client = await RawClient.connect(process.address)
    bodies: list[bytes] = []
    while len(bodies) < 100:
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "orders", len(bodies)))
        assert pulled.code == 0
        bodies += [record.body for record in decode_records(pulled.body)]
    assert bodies == [str(i).encode() for i in range(100)]


async def test_it_stops_beside_a_held_pull_and_saves_offsets(command: BrokerProcess) -> None:
    process = command.start()
    client = await RawClient.connect(process.address)
    await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"x")
    patient = {**pull_fields("g", "orders", 1, flags=6), "suspendTimeoutMillis": "600000"}
    held = asyncio.ensure_future(client.ask(RequestCode.PULL_MESSAGE, patient))
    await asyncio.sleep(0.1)
    commit = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "1"}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    assert process.process is not None
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.process.wait, 60) == 0
    held.cancel()
    assert '{"0":1}' in (process.data / "config" / "consumerOffset.json").read_text()
    assert not (process.data / "abort").exists()


def test_it_names_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(f"listenPort={port}", "namesrvListenPort=0", f"storePathRootDir={tmp_path}")
    assert done.returncode == 3
    assert done.stderr == (
        f"brokerd: port {port} (listenPort) is taken by another process: stop it or set listenPort\n"
    )


def test_it_names_a_wrong_setting(tmp_path: Path) -> None:
    done = run("listenPort=many", f"storePathRootDir={tmp_path}")
    assert (done.returncode, done.stderr) == (2, "brokerd: listenPort=many: takes a whole number\n")


def test_it_names_a_missing_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brokerd", "-c", "/nowhere/broker.conf"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        2,
        "brokerd: [Errno 2] No such file or directory: '/nowhere/broker.conf'\n",
    )


def test_it_refuses_a_store_that_is_in_use(process: BrokerProcess) -> None:
    process.start()
    done = run("listenPort=0", "namesrvListenPort=0", f"storePathRootDir={process.data}")
    assert done.returncode == 4
    assert done.stderr.count("\n") <= 2
    assert str(process.data) in done.stderr


TABLES = [
    "consumerOffset.json",
    "delayOffset.json",
    "topics.json",
    "subscriptionGroup.json",
    "messageRequestMode.json",
    "kvConfig.json",
    "broker.properties",
]


@pytest.mark.parametrize("name", TABLES)
def test_it_refuses_to_start_without_a_table_that_was_lost(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / name).write_bytes(b"\xff\xfe")
    (folder / f"{name}.bak").write_bytes(b"\xff\xfe")
    for _ in range(2):
        code, output = run_fork(
            tmp_path, "listenPort=0", "namesrvListenPort=0", f"storePathRootDir={tmp_path}"
        )
        assert code == 4
        assert f"{folder / name} cannot be read" in output
        assert "does not start with an empty table in its place" in output
        assert "Traceback" not in output
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        assert left == ["config", f"config/{name}", f"config/{name}.bak"], "the refusal changes nothing"


async def test_a_reset_outlives_a_kill(process: BrokerProcess) -> None:
    process.start()
    client = await RawClient.connect(process.address)
    for _ in range(3):
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"x")).code == 0
    commit = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "3"}
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "orders", 0))  # makes the group
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    reset = {"topic": "orders", "group": "g", "timestamp": "0", "queueId": "0", "offset": "1"}
    assert (await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
    process.kill()
    process.start()
    client = await RawClient.connect(process.address)
    late = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    assert (late.code, late.remark) == (0, "Offset has been previously reset")
    query = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).ext_fields["offset"] == "1"
    moved = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "orders", 3))
    assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (21, "1")


async def test_it_refuses_a_damaged_store_again_and_again_and_leaves_it_as_it_was(
    process: BrokerProcess,
) -> None:
    """A refused start removed the abort file once, and the next one served the damaged message."""
    process.start()
    client = await RawClient.connect(process.address)
    for number in range(20):
        body = b"body %d" % number
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), body)).code == 0
    process.stop()
    log = process.data / "commitlog" / f"{0:020d}"
    position = log.read_bytes().index(b"body 7")
    (process.data / "abort").touch()
    with log.open("r+b") as file:
        file.seek(position)
        file.write(b"X")
    before = contents(process.data)
    for _ in range(3):
        settings = (f"{key}={value}" for key, value in sizes(process).items())
        code, output = run_fork(process.data, "listenPort=0", "namesrvListenPort=0", *settings)
        assert code == 4
        assert "body CRC" in output
        assert f"python -m brokerd check --store {process.data}" in output
        assert contents(process.data) == before


def sizes(process: BrokerProcess) -> dict[str, str | int]:
    names = ("storePathRootDir", "mappedFileSizeCommitLog", "maxHashSlotNum", "maxIndexNum")
    return {name: process.settings[name] for name in names}


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a store except the lock; of large, mostly empty ones what is written."""
    return {
        str(path.relative_to(root)): path.read_bytes().rstrip(b"\0")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_it_starts_small(command: BrokerProcess) -> None:
    """30 MiB of anonymous memory (hot-path.md)."""
    process = command.start()
    assert process.process is not None
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    anonymous_kib = int(status.split("RssAnon:")[1].split()[0])
    assert anonymous_kib < 30 * 1024


def test_it_reads_file_then_changed_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"storePathRootDir={tmp_path}\nbrokerName=file\ntraceOn=true\nlistenPort=1\nodd=1\n")
    changed = ChangedProperties(tmp_path / "config" / "broker.properties")
    changed.change({"traceOn": "false"})
    changed.file.write_now()
    settings = read_settings(file, ["listenPort=2"], {})
    assert (settings.live.broker.broker_name, settings.live.broker.listen_port) == ("file", 2)
    assert settings.live.broker.trace_on is False


def test_it_warns_of_settings_it_does_not_know(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its value is not logged: the key may be a password's, mistyped."""
    read_settings(None, ["tls.server.keyPasword=s3cret", f"storePathRootDir={tmp_path}"], {})
    assert "setting tls.server.keyPasword has no effect" in caplog.text and "s3cret" not in caplog.text


def test_it_names_a_certificate_that_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.certPath=/nowhere.pem\ntls.server.keyPath=/nowhere.key\n")
    done = run(f"tls.config.file={file}", f"storePathRootDir={tmp_path}")
    assert (done.returncode, done.stderr) == (
        2,
        "brokerd: tls.server.certPath=/nowhere.pem: No such file or directory\n",
    )


def test_it_reads_the_settings_of_tls_from_their_own_file(tmp_path: Path) -> None:
    server = Authority(tmp_path).issue("server")
    tls, broker = tmp_path / "tls.properties", tmp_path / "broker.conf"
    broker.write_text(f"tls.config.file={tls}\nstorePathRootDir={tmp_path}\ntls.server.mode=disabled\n")
    tls.write_text("".join(f"{key}={value}\n" for key, value in server.server_settings.items()))
    assert read_settings(broker, [], {}).tls.server is None
    offered = read_settings(broker, ["tls.server.mode=enforcing"], {}).tls
    assert offered.server is not None
    assert offered.is_enforced


def test_it_puts_its_files_under_the_data_folder() -> None:
    settings = read_settings(None, [], {"TIDEMARK_DATA": "/data"})
    assert settings.store.store_path_root_dir == Path("/data/store")


def test_it_refuses_an_assignment_without_a_value() -> None:
    with pytest.raises(ConfigError, match="--set listenPort: takes key=value"):
        read_settings(None, ["listenPort"], os.environ)
