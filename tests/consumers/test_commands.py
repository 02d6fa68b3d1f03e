"""`python -m consumers produce | consume | tail` as processes against a real brokerd."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from brokerd.remoting.body.topic import TopicConfig
from consumers import MQAdmin
from consumers.commands import record_line
from tests.consumers.records import record
from tests.support.broker_process import BrokerProcess
from tests.support.forks import Forks

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "consumers"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for the module: topics and groups have names of their own."""
    process = BrokerProcess(tmp_path_factory.mktemp("commands") / "store").start()
    yield process
    process.stop()


def create(broker: BrokerProcess, topic: str) -> None:
    async def call() -> None:
        async with MQAdmin(broker.namesrv) as admin:
            await admin.create_topic(broker.address, TopicConfig(topic, 1, 1, 6))

    asyncio.run(call())


def committed(broker: BrokerProcess, topic: str, group: str) -> dict[int, int]:
    async def call() -> dict[int, int]:
        async with MQAdmin(broker.namesrv) as admin:
            return (await admin.all_consumer_offsets(broker.address)).offset_table.get((topic, group), {})

    return asyncio.run(call())


@cache
def forks() -> Forks:
    """A new interpreter for each of fifty commands would cost more than all they do."""
    return Forks("tests.consumers.forked_command", ENVIRONMENT)


def run(
    broker: BrokerProcess, *arguments: str, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("log", "errors", "given")}
        files["given"].write_bytes(given or b"")
        command = [*arguments, "--namesrv", broker.namesrv]
        code = forks().start(command, **files).wait(60)
        return subprocess.CompletedProcess(
            command, code, files["log"].read_bytes(), files["errors"].read_bytes()
        )


def lines(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_sends_arguments_and_prints_them(broker: BrokerProcess) -> None:
    create(broker, "words")
    sent = lines(
        run(
            *(broker, "produce", "--topic", "words", "--tags", "a", "--keys", "k1 k2"),
            *("--property", "shop=7", "--sharding-key", "x", "one", "zwölf"),
        )
    )
    assert [(line["status"], line["topic"], line["queueOffset"]) for line in sent] == [
        ("SEND_OK", "words", 0),
        ("SEND_OK", "words", 1),
    ]
    read = lines(
        run(broker, "consume", "--group", "readers", "--topic", "words:a", "--from", "first", "--count", "2")
    )
    assert [line["body"] for line in read] == ["one", "zwölf"]
    assert {(line["tags"], line["keys"], line["properties"]["shop"]) for line in read} == {
        ("a", "k1 k2", "7")
    }
    assert read[0]["properties"].keys() == {"shop"}
    assert [line["messageId"] for line in read] == [line["messageId"] for line in sent]
    assert committed(broker, "words", "readers") == {0: 2}


def test_it_sends_lines_of_standard_input(broker: BrokerProcess) -> None:
    create(broker, "plain")
    done = run(broker, "produce", "--topic", "plain", "--quiet", given=b"first line\r\n\nsecond\nthird")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    bodies = run(broker, "tail", "--topic", "plain", "--from", "first", "--count", "3", "--body-only")
    assert bodies.stdout == b"first line\nsecond\nthird\n"
    assert committed(broker, "plain", "TOOLS_CONSUMER") == {}


def test_what_it_prints_can_be_sent_again(broker: BrokerProcess) -> None:
    create(broker, "copied")
    given = b"""{"topic": "copied", "tags": "t", "keys": ["a", "b"], "properties": {"x": "1"}, "body": "{}"}
{"bodyBase64": "/w==", "shardingKey": "k"}
"""
    assert len(lines(run(broker, "produce", "--topic", "copied", "--ndjson", given=given))) == 2
    reading = ("tail", "--topic", "copied", "--from", "first", "--count")
    first = run(broker, *reading, "2")
    assert [line.get("body", line.get("bodyBase64")) for line in lines(first)] == ["{}", "/w=="]
    lines(run(broker, "produce", "--ndjson", given=first.stdout))
    again = lines(run(broker, *reading, "4"))[2:]
    shown = ("topic", "tags", "keys", "properties", "body", "bodyBase64")
    assert [[line.get(name) for name in shown] for line in again] == [
        ["copied", "t", "a b", {"x": "1"}, "{}", None],
        ["copied", "", "", {}, None, "/w=="],
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"body": "x", "tag": "t"}', b"line 2 is no message: Object contains unknown field `tag`"),
        (b'{"body": 7}', b"line 2 is no message: Expected `str`, got `int` - at `$.body`"),
        (b"{", b"line 2 is no message: Input data was truncated"),
        (b"{}", b"line 2 has neither body nor bodyBase64"),
        (b'{"body": ""}', b"message 2: the message has no body"),
    ],
)
def test_a_line_that_is_no_message_ends_it(broker: BrokerProcess, line: bytes, reason: bytes) -> None:
    create(broker, "checked")
    given = b'{"body": "good"}\n' + line + b'\n{"body": "never"}\n'
    done = run(broker, "produce", "--topic", "checked", "--ndjson", given=given)
    assert done.returncode == 1
    assert reason in done.stderr
    assert b"Traceback" not in done.stderr
    assert [json.loads(sent)["status"] for sent in done.stdout.splitlines()][:1] == ["SEND_OK"]


def test_the_refusal_of_the_last_message_is_reported(broker: BrokerProcess) -> None:
    create(broker, "ending")
    large = json.dumps({"body": "y", "properties": {"x": "1" * 40_000}})
    given = b'{"body": "x"}\n' + large.encode() + b"\n"
    done = run(broker, "produce", "--topic", "ending", "--ndjson", given=given)
    assert done.returncode == 1
    assert done.stderr.startswith(b"produce: message 2: MESSAGE_ILLEGAL (13)")
    assert json.loads(done.stdout)["queueOffset"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("tail", "--topic", "none"), 1, b"none"),
        (("consume", "--topic", "none", "--group", "g"), 1, b"none"),
        (("produce", "x"), 1, b"names no topic"),
        (("produce", "--topic", "no topic", "x"), 1, b"characters"),
        (("produce", "--topic", "t", "--property", "x", "y"), 2, b"'x' is not NAME=VALUE"),
        (("tail", "--topic", "t", "--from", "noon"), 2, b"'noon' is not first, last or a time"),
        (("tail", "--topic", "t:a", "--topic", "u:b"), 2, b"one filter"),
        (("consume", "--topic", "t", "--group", "bad group"), 2, b"bad group"),
    ],
)
def test_an_error_is_one_sentence(
    broker: BrokerProcess, arguments: tuple[str, ...], code: int, reason: bytes
) -> None:
    done = run(broker, *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1, done.stderr


def test_nobody_at_the_address_is_one_sentence() -> None:
    done = subprocess.run(
        [*COMMAND, "tail", "--topic", "t", "--namesrv", "127.0.0.1:1"],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"127.0.0.1:1 is not available" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_ends_a_consumer_that_has_committed(broker: BrokerProcess) -> None:
    create(broker, "stopped")
    lines(run(broker, "produce", "--topic", "stopped", "a", "b"))
    process = subprocess.Popen(
        [*COMMAND, "consume", "--topic", "stopped", "--group", "stoppers", "--from", "first"]
        + ["--namesrv", broker.namesrv],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["body"] for _ in "ab"] == ["a", "b"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, b"")
    assert committed(broker, "stopped", "stoppers") == {0: 2}


def test_ctrl_c_ends_a_producer_that_waits_for_input(broker: BrokerProcess) -> None:
    create(broker, "typed")
    process = subprocess.Popen(
        [*COMMAND, "produce", "--topic", "typed", "--namesrv", broker.namesrv],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"typed\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["status"] == "SEND_OK"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.communicate()


def test_a_reader_that_goes_ends_it_quietly(broker: BrokerProcess) -> None:
    create(broker, "headed")
    lines(run(broker, "produce", "--topic", "headed", *(f"m{number}" for number in range(100))))
    process = subprocess.Popen(
        [*COMMAND, "tail", "--topic", "headed", "--from", "first", "--namesrv", broker.namesrv],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    deadline = time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < deadline
        lines(run(broker, "produce", "--topic", "headed", "more"))
    assert process.stderr is not None
    assert (process.returncode, process.stderr.read()) == (0, b"")


def test_it_ends_when_nothing_comes_and_filters_by_sql(broker: BrokerProcess) -> None:
    create(broker, "filtered")
    asyncio.run(allow_sql(broker))
    for number in range(4):
        run(broker, "produce", "--topic", "filtered", "--property", f"n={number}", f"m{number}")
    reading = ("tail", "--topic", "filtered", "--from", "2026-01-01T00:00", "--idle", "1", "--body-only")
    assert run(broker, *reading, "--sql", "n > 1").stdout == b"m2\nm3\n"
    refused = run(broker, *reading, "--sql", "n > ")
    assert refused.returncode == 1
    assert b"line 1, column 5" in refused.stderr


async def allow_sql(broker: BrokerProcess) -> None:
    async with MQAdmin(broker.namesrv) as admin:
        await admin.update_broker_config(broker.address, {"enablePropertyFilter": "true"})


def test_a_record_shows_only_properties_of_its_sender() -> None:
    stored = record(7, properties={"TAGS": "a", "UNIQ_KEY": "id-7", "shop": "7", "TRACE_ON": "true"})
    line = json.loads(record_line(stored))
    assert (line["properties"], line["tags"], line["messageId"]) == ({"shop": "7"}, "a", "id-7")
    assert (line["queueOffset"], line["storeHost"]) == (7, "127.0.0.1:10911")


def test_they_work_in_a_namespace(broker: BrokerProcess) -> None:
    create(broker, "emea%words")
    (sent,) = lines(run(broker, "produce", "--namespace", "emea", "--topic", "words", "one"))
    assert sent["topic"] == "words"
    reading = ("--namespace", "emea", "--topic", "words", "--from", "first", "--count", "1")
    for command in (("tail",), ("consume", "--group", "readers")):
        (read,) = lines(run(broker, *command, *reading))
        assert (read["topic"], read["body"]) == ("words", "one")
    assert committed(broker, "emea%words", "emea%readers") == {0: 1}
