"""A replay whose worker is killed: resumed, accounted for, and nothing sent twice."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from console.brokers.mqadmin import close_admins
from tests.console.deadletter.letters import RETRY, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support import migrated
from tests.support.broker_process import BrokerProcess
from tests.support.forks import ForkedProgram, Forks

pytestmark = pytest.mark.own_database

LETTERS = 1_600


def databases_of_its_own() -> dict[str, str]:
    """On PostgreSQL new databases beside those of the tests; files in its folder on SQLite."""
    found = {}
    for variable in ("DATABASE_URL", "METRICS_DATABASE_URL"):
        server = os.environ.get(variable, "").rpartition("/")[0]
        if server:
            name = f"killed_{secrets.token_hex(6)}"
            with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            found[variable] = f"{server}/{name}"
    return found


class Console:
    """Forks of ``replay_process`` on databases of their own."""

    def __init__(self, folder: Path) -> None:
        migrated.copy_to(folder)
        self._output = folder / "output"
        self._forks = Forks(
            "tests.console.deadletter.replay.replay_process",
            {
                **os.environ,
                "TIDEMARK_DATA": str(folder),
                "SECRET_KEY": "only-for-tests",
                "REDIS_URL": "redis://127.0.0.1:1/0",
                "DJANGO_SETTINGS_MODULE": "console.settings",
                "LOG_LEVEL": "ERROR",
                **databases_of_its_own(),
            },
        )

    def start(self, *arguments: str) -> ForkedProgram:
        self._output.unlink(missing_ok=True)
        return self._forks.start(arguments, self._output)

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        assert process.wait(120) == 0, self._output.read_text()
        return self._output.read_text().strip()

    def killed(self, *arguments: str) -> None:
        assert self.start(*arguments).wait(120) == -signal.SIGKILL

    def report(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("report", job_id))
        return found

    def close(self) -> None:
        self._forks.close()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One for all tests: each has a cluster of its own."""
    found = Console(tmp_path_factory.mktemp("console"))
    yield found
    found.close()


@pytest.fixture
def live(brokerd: BrokerProcess) -> Iterator[LiveCluster]:
    cluster = LiveCluster(brokerd)
    group_with_topics(cluster)
    write_letters(cluster, LETTERS)
    yield cluster
    close_admins()


def copies(live: LiveCluster) -> Counter[str]:
    """Key → how many copies of that letter are in the retry topic."""
    found: Counter[str] = Counter()
    offset = 0
    while messages := live.admin.pull(live.addr, RETRY, 0, offset).messages:
        found.update(str(message.keys) for message in messages)
        offset = messages[-1].queue_offset + 1
    return found


def assert_each_sent_once(live: LiveCluster, report: dict[str, Any]) -> None:
    assert (report["state"], report["error"]) == ("SUCCEEDED", "")
    figures = report["result"]
    assert figures["matched"] == LETTERS == figures["sent"] + figures["skipped"] + figures["failed"]
    assert {state: number for state, number in report["ledger"].items() if number} == {"SENT": LETTERS}
    found = copies(live)
    assert len(found) == LETTERS and set(found.values()) == {1}


def test_it_resumes_after_a_kill_before_or_after_the_send(live: LiveCluster, console: Console) -> None:
    job_id = console.run("prepare", live.broker.namesrv)
    console.killed("work", job_id, "before_send", "2")
    at_first_kill = sum(copies(live).values())
    assert 0 < at_first_kill < LETTERS
    assert console.report(job_id)["ledger"]["PENDING"] > 0, "written before they were sent"
    console.killed("work", job_id, "after_send", "3")
    report = console.report(job_id)
    assert sum(copies(live).values()) > report["ledger"]["SENT"], "sent, and nobody noted it"
    console.run("work", job_id)
    report = console.report(job_id)
    assert_each_sent_once(live, report)
    assert report["attempts"] == 3
    lost, arrived = [text for text in report["events"] if "open sends had arrived" in text]
    assert lost.startswith("0 of ") and not arrived.startswith("0 of ")


def test_it_resumes_after_kills_at_any_moment(live: LiveCluster, console: Console) -> None:
    job_id = console.run("prepare", live.broker.namesrv)
    for pause_s in (0, 0.05, 0.15):
        before = sum(copies(live).values())
        worker = console.start("work", job_id)
        while worker.poll() is None and sum(copies(live).values()) == before:
            time.sleep(0.01)
        time.sleep(pause_s)
        worker.kill()
        worker.wait()
    console.run("work", job_id)
    assert_each_sent_once(live, console.report(job_id))


def test_it_resumes_after_the_broker_was_killed(live: LiveCluster, console: Console) -> None:
    """What the broker had not written to disk when it died is sent again; what it had is not."""
    job_id = console.run("prepare", live.broker.namesrv)
    assert live.broker.process is not None
    console.run("work", job_id, "while_sending", "3", str(live.broker.process.pid))
    live.broker.kill()
    waiting = console.report(job_id)
    assert waiting["state"] == "RUNNING", "the job waits, the worker goes on with others"
    assert 0 < waiting["ledger"]["SENT"] < LETTERS and waiting["ledger"]["PENDING"] > 0
    live.broker.start()
    console.run("work", job_id)
    assert_each_sent_once(live, console.report(job_id))
