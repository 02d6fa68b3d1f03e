"""What official brokers and name servers of both releases answered, read by MQAdmin: a value or an MQBrokerError."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.queue import MessageQueue
from consumers.admin.mqadmin import MQAdmin

GOLDEN = Path(__file__).parent.parent / "golden" / "wire"
RELEASES = ("4.9.7", "5.3.3")

Call = Callable[[MQAdmin, str], Awaitable[Any]]
CALLS: dict[int, Call] = {
    11: lambda admin, addr: admin.pull(addr, "T", 0, 0),
    12: lambda admin, addr: admin.query_message(addr, "T", "k", unique_key=True),
    14: lambda admin, addr: admin.query_consumer_offset(addr, "G", "T", 0),
    15: lambda admin, addr: admin.update_consumer_offset(addr, "G", "T", 0, 1),
    21: lambda admin, addr: admin.all_topic_config(addr),
    26: lambda admin, addr: admin.broker_config(addr),
    28: lambda admin, addr: admin.runtime_info(addr),
    29: lambda admin, addr: admin.search_offset(addr, "T", 0, 1),
    30: lambda admin, addr: admin.max_offset(addr, "T", 0),
    31: lambda admin, addr: admin.min_offset(addr, "T", 0),
    33: lambda admin, addr: admin.view_message(addr, 0),
    43: lambda admin, addr: admin.all_consumer_offsets(addr),
    105: lambda admin, addr: admin.topic_route("T"),
    106: lambda admin, addr: admin.cluster_info(),
    201: lambda admin, addr: admin.all_subscription_groups(addr),
    202: lambda admin, addr: admin.topic_stats(addr, "T"),
    203: lambda admin, addr: admin.consumer_connection(addr, "G"),
    204: lambda admin, addr: admin.producer_connection(addr, "G", "T"),
    205: lambda admin, addr: admin.wipe_write_perm(addr, "B"),
    206: lambda admin, addr: admin.topic_list(),
    208: lambda admin, addr: admin.consume_stats(addr, "G"),
    222: lambda admin, addr: admin.reset_offset(addr, "G", "T", -1),
    223: lambda admin, addr: admin.consumer_status(addr, "G", "T"),
    300: lambda admin, addr: admin.topic_consumed_by(addr, "T"),
    307: lambda admin, addr: admin.consumer_running_info(addr, "G", "C"),
    309: lambda admin, addr: admin.consume_message_directly(addr, "G", "C", "ID"),
    317: lambda admin, addr: admin.broker_consume_stats(addr),
    328: lambda admin, addr: admin.producers(addr),
    351: lambda admin, addr: admin.topic_config(addr, "T"),
}


def answers() -> list[Path]:
    """Every captured answer to one of these codes; answers of clients to brokers have the same form."""
    files = [path for release in RELEASES for path in sorted((GOLDEN / release).glob("*.response.bin"))]
    return [path for path in files if int(path.name.split("-")[0]) in CALLS]


def replay(path: Path) -> Callable[[RemotingCommand], RemotingCommand]:
    response = decode_frame(path.read_bytes()[4:])

    def answer(command: RemotingCommand) -> RemotingCommand:
        response.opaque = command.opaque
        return response

    return answer


async def ask(cluster, path: Path) -> Any:
    code = int(path.name.split("-")[0])
    cluster.broker.answers[code] = replay(path)
    async with MQAdmin(cluster.broker.addr) as admin:
        return await CALLS[code](admin, cluster.broker.addr)


@pytest.mark.parametrize("path", answers(), ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
async def test_it_reads_every_answer(cluster, path):
    try:
        await ask(cluster, path)
    except MQBrokerError as error:
        assert error.code == decode_frame(path.read_bytes()[4:]).code


def test_it_has_answers_to_every_call_of_both_releases():
    seen = {(path.parent.name, int(path.name.split("-")[0])) for path in answers()}
    missing = {(release, code) for release in RELEASES for code in CALLS} - seen
    assert missing <= {("4.9.7", 351)}  # 4.9 does not know GET_TOPIC_CONFIG; it is answered, with code 3


async def test_it_reads_consume_stats_of_both_releases(cluster):
    queue = MessageQueue("GoldenTopic", "broker-a", 2)
    old = await ask(cluster, GOLDEN / "4.9.7" / "208-get_consume_stats-2.response.bin")
    assert (old.offset_table[queue].broker_offset, old.offset_table[queue].pull_offset) == (8, None)
    new = await ask(cluster, GOLDEN / "5.3.3" / "208-get_consume_stats-2.response.bin")
    assert (new.offset_table[queue].broker_offset, new.offset_table[queue].pull_offset) == (6, 6)
    assert new.offset_table[queue].last_timestamp == 1795252429047


async def test_it_reads_offsets_of_both_releases(cluster):
    old = await ask(cluster, GOLDEN / "4.9.7" / "43-get_all_consumer_offset.response.bin")
    assert old.offset_table["GoldenTopic", "GoldenLite"] == {0: 4, 1: 4, 2: 7, 3: 4}
    new = await ask(cluster, GOLDEN / "5.3.3" / "43-get_all_consumer_offset.response.bin")
    assert ("GoldenTopic", "GoldenPull") in new.offset_table


async def test_it_knows_when_nobody_is_online(cluster):
    assert await ask(cluster, GOLDEN / "5.3.3" / "203-get_consumer_connection_list-2.response.bin") is None
    online = await ask(cluster, GOLDEN / "5.3.3" / "203-get_consumer_connection_list-3.response.bin")
    assert sorted(member.client_id for member in online.connection_set) == ["192.0.2.2@c1", "192.0.2.2@c2"]
