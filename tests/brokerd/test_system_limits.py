from __future__ import annotations

import resource
from pathlib import Path

import pytest

from brokerd import system_limits
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import running, send_fields


@pytest.mark.parametrize(
    ("files", "maps", "connections", "expected"),
    [
        (200_000, "65530\n", 20_000, (20_000, 49_147)),  # 3/4 of the maps
        (20_000, "65530\n", 20_000, (10_000, 8_976)),  # half of the files for connections
        (1_024, "65530\n", 20_000, (512, 1)),
        (resource.RLIM_INFINITY, "1048576", 20_000, (20_000, 178_976)),
        (200_000, "none", 20_000, (20_000, 49_147)),
    ],
)
def test_queues_and_connections_share_what_the_system_allows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: int,
    maps: str,
    connections: int,
    expected: tuple[int, int],
) -> None:
    (tmp_path / "max_map_count").write_text(maps)
    monkeypatch.setattr(system_limits.resource, "getrlimit", lambda _: (files, files))
    limits = system_limits.system_limits(connections, tmp_path / "max_map_count")
    assert (limits.connections_max, limits.queues_max) == expected


async def test_a_message_that_would_make_one_queue_too_many_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        broker.broker.store.table.limit(2, "open files 9")
        sends = [
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", queue_id=n), b"x")
            for n in (0, 1, 2, 1)
        ]
        assert [answer.code for answer in sends] == [0, 0, 1, 0]
        assert sends[2].remark == (
            "topic T gets no queue 2: 2 queues have files already, this system has room for 2 (open files 9): "
            "delete topics or raise its limits"
        )


async def test_a_topic_with_more_queues_than_can_be_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        broker.broker.store.table.limit(10, "open files 9")
        fields = {"topic": "Big", "readQueueNums": "11", "writeQueueNums": "11", "perm": "6"}
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert (answer.code, (answer.remark or "")[:70]) == (
            29,
            "topic[Big] needs 11 more queues, this system has room for 10: use fewe",
        )
        fields |= {"readQueueNums": "10", "writeQueueNums": "10"}
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
