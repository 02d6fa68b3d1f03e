"""mqadmin of 5.3.3 and 4.9.7, unmodified, every command against brokerd: the outcomes of docs/reference/mqadmin.md.

The same commands against Apache brokers of the same releases made that page's other column.
"""

from __future__ import annotations

import pytest

from tests.peers.mqadmin_table import documented
from tests.support.broker_process import BrokerProcess
from tests.support.mqadmin import COMMITTED, MESSAGES_A_QUEUE, QUEUES, outcome, run_commands

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def printed(release: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("mqadmin")
    broker = BrokerProcess(folder / "store").start()
    try:
        return run_commands(release, folder / "tools", broker.namesrv, broker.address, "DefaultCluster")
    finally:
        broker.stop()


def test_each_command_ends_as_documented(release: str, printed: dict[str, str]) -> None:
    found = {text: outcome(each) for text, each in printed.items()}
    assert found == {text: row.brokerd for text, row in documented(release).items()}


def rows(text: str, first: str = "Tools") -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(f"{first} ")]


def test_statistics_show_what_was_sent_and_consumed(printed: dict[str, str]) -> None:
    queues = rows(printed["topicStatus -t Tools"], "broker-a")
    assert [each[1:4] for each in queues] == [[str(q), "0", str(MESSAGES_A_QUEUE)] for q in range(QUEUES)]
    (line,) = (each for each in rows(printed["statsAll"]) if each[1] == "tools")
    assert line[:2] == ["Tools", "tools"]
    assert float(line[3]) > 0 and 0 < int(line[5]) <= QUEUES * MESSAGES_A_QUEUE  # InTPS, InMsg24Hour
    consumed = rows(printed["brokerConsumeStats -b {broker}"])
    assert len(consumed) == QUEUES
    for topic, group, _, _, broker_offset, offset, behind, *_ in consumed:
        assert (topic, group, int(offset)) == ("Tools", "tools", COMMITTED)
        assert int(behind) == int(broker_offset) - COMMITTED
    progress = rows(printed["consumerProgress -g tools"])
    assert [int(each[4]) for each in progress if each[0] == "Tools"] == [COMMITTED] * QUEUES
    assert "putTps" in printed["brokerStatus -b {broker}"]
