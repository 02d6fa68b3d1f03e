"""mqadmin of 5.3.3 and 4.9.7, unmodified, every command against brokerd: the outcomes of docs/reference/mqadmin.md.

`python -m tests.peers.side_by_side` runs the same commands against Apache's broker of the tool's release too, and
compares them with that page's other column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.mqadmin_table import documented
from tests.support.apache_cluster import ApacheCluster
from tests.support.apache_server import is_apache
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import RELEASES
from tests.support.mqadmin import COMMITTED, MESSAGES_A_QUEUE, QUEUES, ToolRun, outcome, run_commands
from tests.support.mqadmin_commands import COMMANDS
from tests.support.parallel_cases import ParallelCases

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


def run_all(release: str, folder: Path) -> ToolRun:
    if is_apache():
        with ApacheCluster(folder / "apache", names=("broker-a",), release=release) as cluster:
            return run_commands(release, folder / "tools", cluster.namesrv, cluster.address, "apache")
    broker = BrokerProcess(folder / "store").start()
    try:
        return run_commands(release, folder / "tools", broker.namesrv, broker.address, "DefaultCluster")
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParallelCases[str, ToolRun]]:
    """By release."""
    with ParallelCases(
        lambda release: run_all(release, tmp_path_factory.mktemp("mqadmin")), RELEASES
    ) as begun:
        yield begun


@pytest.fixture(scope="module")
def run(release: str, runs: ParallelCases[str, ToolRun]) -> ToolRun:
    return runs.finish(release)


@pytest.fixture
def printed(run: ToolRun) -> dict[str, str]:
    return run.printed


def test_each_command_ends_as_documented(release: str, printed: dict[str, str]) -> None:
    found = {text: outcome(each) for text, each in printed.items()}
    rows = documented(release)
    assert found == {text: row.apache if is_apache() else row.brokerd for text, row in rows.items()}


def test_every_command_of_the_tool_was_run(release: str, run: ToolRun) -> None:
    assert run.names == {name for name, _, releases in COMMANDS if release in releases}


def rows(text: str, first: str = "Tools") -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(f"{first} ")]


def test_statistics_show_what_was_sent_and_consumed(printed: dict[str, str]) -> None:
    queues = rows(printed["topicStatus -t Tools"], "broker-a")
    assert [each[1:4] for each in queues] == [[str(q), "0", str(MESSAGES_A_QUEUE)] for q in range(QUEUES)]
    (line,) = (each for each in rows(printed["statsAll"]) if each[1] == "tools")
    assert line[:2] == ["Tools", "tools"]
    assert 0 < int(line[5]) <= QUEUES * MESSAGES_A_QUEUE  # InMsg24Hour
    assert float(line[3]) > 0 or is_apache()  # InTPS: it has none before its first two samples
    consumed = rows(printed["brokerConsumeStats -b {broker}"])
    assert len(consumed) == QUEUES
    for topic, group, _, _, broker_offset, offset, behind, *_ in consumed:
        assert (topic, group, int(offset)) == ("Tools", "tools", COMMITTED)
        assert int(behind) == int(broker_offset) - COMMITTED
    progress = rows(printed["consumerProgress -g tools"])
    assert [int(each[4]) for each in progress if each[0] == "Tools"] == [COMMITTED] * QUEUES
    assert "putTps" in printed["brokerStatus -b {broker}"]
