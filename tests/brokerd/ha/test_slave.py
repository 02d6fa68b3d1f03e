"""A master and its slave, real processes that are killed and come back: every message is on both, at one offset."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.broker import HARuntimeInfo
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from brokerd.timer.timer_checkpoint import TimerProgress
from tests.brokerd.running import RawClient, heartbeat, pull_fields, send_fields
from tests.support.broker_process import BrokerProcess

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
WITHIN_S = 60


class Pair:
    """A master with the name server's role, and its slave."""

    def __init__(self, folder: Path) -> None:
        self.master = BrokerProcess(folder / "master")
        self.slave = BrokerProcess(
            folder / "slave", brokerRole="SLAVE", brokerId=1, namesrvAddr=self.master.namesrv
        )

    def logs(self) -> list[bytes]:
        """What the commit log of each holds, without what was never written."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.data / "commitlog").iterdir())).rstrip(b"\0")
            for each in (self.master, self.slave)
        ]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.slave.stop()
    made.master.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[BrokerProcess], asyncio.Future[RawClient]]]:
    clients: list[RawClient] = []

    async def open_client(broker: BrokerProcess) -> RawClient:
        clients.append(await RawClient.connect(broker.address))
        return clients[-1]

    yield lambda broker: asyncio.ensure_future(open_client(broker))
    for client in clients:
        await client.close()


async def send(client: RawClient, topic: str, first: int, end: int, size: int = 0) -> None:
    answers = [
        client.ask(SEND, send_fields(topic, queue_id=number % 2), (b"%d " % number).ljust(size, b"."))
        for number in range(first, end)
    ]
    assert {answer.code for answer in await asyncio.gather(*answers)} == {0}


async def bodies(client: RawClient, topic: str, queue_id: int) -> list[bytes]:
    """All messages of a queue."""
    found: list[bytes] = []
    while True:
        fields = pull_fields("readers", topic, len(found), queue_id=queue_id)
        answer = await client.ask(PULL, fields)
        if answer.code:
            return found
        found += [record.body.rstrip(b".") for record in decode_records(answer.body)]


async def until_equal(connect: Callable[..., asyncio.Future[RawClient]], pair: Pair, topic: str) -> None:
    """Until the slave serves every message of both queues as the master does."""
    master, slave = await connect(pair.master), await connect(pair.slave)
    async with asyncio.timeout(WITHIN_S):
        for queue_id in (0, 1):
            expected = await bodies(master, topic, queue_id)
            while await bodies(slave, topic, queue_id) != expected:
                await asyncio.sleep(0.05)


async def until_code(client: RawClient, code: int, fields: dict[str, str], wanted: dict[str, str]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while (await client.ask(code, fields)).ext_fields != wanted:
            await asyncio.sleep(0.05)


async def test_a_slave_has_everything_and_serves_it_without_its_master(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    master = await connect(pair.master)
    await send(master, "Before", 0, 50)
    pair.slave.start()
    await until_equal(connect, pair, "Before")
    # Several files: their ends are blank records.
    for first in range(0, 2_000, 500):
        await send(master, "After", first, first + 500, size=6_000)
    await until_equal(connect, pair, "After")
    ours, theirs = pair.logs()
    assert ours == theirs and len(ours) > 2 * (5 << 20)
    namesrv = await RawClient.connect(pair.master.namesrv)
    route = TopicRouteData.from_body(
        (await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "After"})).body
    )
    assert route.broker_datas[0].broker_addrs == {0: pair.master.address, 1: pair.slave.address}
    await namesrv.close()
    slave = await connect(pair.slave)
    held = slave.ask(PULL, pull_fields("readers", "After", 1_000, flags=6))
    waiting = asyncio.ensure_future(held)
    await send(master, "After", 2_000, 2_001)
    assert (await waiting).code == 0, "a pull that the slave holds is woken by what it receives"
    end = len(theirs)
    status = HARuntimeInfo.from_body((await master.ask(RequestCode.GET_BROKER_HA_STATUS)).body)
    (connection,) = status.ha_connection_info
    assert (status.master, status.in_sync_slave_nums, connection.in_sync) == (True, 1, True)
    assert connection.transfer_from_where >= connection.slave_ack_offset >= end
    own = HARuntimeInfo.from_body((await slave.ask(RequestCode.GET_BROKER_HA_STATUS)).body)
    assert (own.master, own.ha_client_runtime_info.activated) == (False, True)
    assert own.ha_client_runtime_info.master_addr == f"127.0.0.1:{pair.master.ha_port}"
    assert own.ha_client_runtime_info.max_offset >= end
    pair.master.kill()
    assert len(await bodies(slave, "Before", 0)) == 25
    pair.slave.kill()
    pair.slave.start()
    slave = await connect(pair.slave)
    assert len(await bodies(slave, "After", 0)) == 1_001
    assert (await slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_sync_master_answers_when_its_slave_has_the_message(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]], flush: str
) -> None:
    pair.master.settings |= {
        "brokerRole": "SYNC_MASTER",
        "syncFlushTimeout": 500,
        "flushDiskType": flush,
    }
    pair.master.start()
    master = await connect(pair.master)
    alone = await master.ask(SEND, send_fields("T"), b"alone")
    assert (alone.code, alone.ext_fields["queueOffset"]) == (11, "0"), "stored, and on no slave"
    assert len(alone.ext_fields["msgId"]) == 32
    pair.slave.start()
    async with asyncio.timeout(WITHIN_S):
        while (await master.ask(SEND, send_fields("T"), b"more")).code == 11:
            await asyncio.sleep(0.05)
    slave = await connect(pair.slave)
    for number in range(20):
        stored = await master.ask(SEND, send_fields("T", queue_id=1), b"%d" % number)
        assert stored.code == 0
        queue = {"topic": "T", "queueId": "1"}
        end = (await slave.ask(RequestCode.GET_MAX_OFFSET, queue)).ext_fields["offset"]
        assert int(end) == int(stored.ext_fields["queueOffset"]) + 1
    assert pair.slave.process is not None
    pair.slave.process.send_signal(signal.SIGSTOP)
    # Requests that confirm nothing are not refused for it.
    late, other = await asyncio.gather(
        master.ask(SEND, send_fields("T"), b"late"), master.ask(RequestCode.GET_MAX_OFFSET, queue)
    )
    assert (late.code, other.code) == (12, 0)
    pair.slave.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(WITHIN_S):
        while (await master.ask(SEND, send_fields("T"), b"again")).code:
            await asyncio.sleep(0.05)
    await until_equal(connect, pair, "T")


async def test_an_empty_slave_begins_with_the_newest_file_and_reports_what_it_lacks(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    """The protocol has no other way for it: 0 requests the newest file of any master."""
    pair.master.start()
    master = await connect(pair.master)
    await send(master, "T", 0, 1_000, size=6_000)
    pair.slave.start()
    slave = await connect(pair.slave)
    queue = {"topic": "T", "queueId": "0"}
    await until_code(slave, RequestCode.GET_MAX_OFFSET, queue, {"offset": "500"})
    for _ in range(2):
        first = int((await slave.ask(RequestCode.GET_MIN_OFFSET, queue)).ext_fields["offset"])
        assert 300 < first < 500
        async with asyncio.timeout(WITHIN_S):
            while (answer := await slave.ask(PULL, pull_fields("g", "T", first))).code:
                await asyncio.sleep(0.05)  # its topic comes with the master's table
        assert next(iter(decode_records(answer.body))).body.startswith(b"%d " % (2 * first))
        # Not 21 with what comes first here: its consumer would never read what the master has.
        lacking = await slave.ask(PULL, pull_fields("g", "T", 10))
        assert (lacking.code, lacking.ext_fields["nextBeginOffset"]) == (19, "10")
        pair.slave.kill()
        pair.slave.start()
        slave = await connect(pair.slave)


async def test_tables_of_the_master_are_taken_over(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    master = await connect(pair.master)
    assert (await master.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "readers", "T"))).code == 0
    await send(master, "T", 0, 10)
    commit = {"consumerGroup": "readers", "topic": "T", "queueId": "0", "commitOffset": "3"}
    assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    create = {
        "topic": "Three", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    assert (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)).code == 0
    pair.slave.start()
    slave = await connect(pair.slave)
    query = {"consumerGroup": "readers", "topic": "T", "queueId": "0"}
    await until_code(slave, RequestCode.QUERY_CONSUMER_OFFSET, query, {"offset": "3"})
    for code in (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    ):
        assert sorted((await slave.ask(code)).body) == sorted((await master.ask(code)).body), code
    await until_equal(connect, pair, "T")
    assert (await master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
    # A topic of the same name begins anew; its first message takes the queue of the old one with it.
    await send(master, "T", 100, 104)
    await until_equal(connect, pair, "T")
    assert await bodies(slave, "T", 0) == [b"100 ", b"102 "]


async def test_either_side_may_be_killed_at_any_time(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    pair.slave.start()
    sent = 0
    for killed in (pair.slave, pair.master, pair.slave):
        master = await connect(pair.master)
        sending = asyncio.ensure_future(send(master, "T", sent, sent + 400, size=2_000))
        sent += 400
        if killed is pair.master:
            await sending
        killed.kill()
        killed.start()
        await sending
    await until_equal(connect, pair, "T")
    slave = await connect(pair.slave)
    counts = [len(await bodies(slave, "T", queue_id)) for queue_id in (0, 1)]
    assert counts == [sent // 2, sent // 2]
    ours, theirs = pair.logs()
    assert ours == theirs


async def test_a_slave_refuses_what_only_its_master_may_do(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    pair.slave.start()
    await send(await connect(pair.master), "T", 0, 2)
    await until_equal(connect, pair, "T")
    slave = await connect(pair.slave)
    for code, fields, expected in (
        (SEND, send_fields("T"), 2),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "g", "offset": "0", "delayLevel": "0"}, 2),
        (RequestCode.END_TRANSACTION, {}, 11),
        (RequestCode.SEND_REPLY_MESSAGE_V2, send_fields("T"), 14),
        (RequestCode.POP_MESSAGE, {}, 1),
    ):
        answer = await slave.ask(code, fields, b"x")
        assert answer.code == expected, (code, answer.remark)
        assert "this broker is a slave" in (answer.remark or "")
    # An offset that the slave has not reached is not moved back to its own end.
    ahead = await slave.ask(PULL, pull_fields("g", "T", 500))
    assert (ahead.code, ahead.ext_fields["nextBeginOffset"]) == (19, "500")


async def test_a_slave_that_becomes_a_master_delivers_what_waits(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    pair.slave.start()
    master, slave = await connect(pair.master), await connect(pair.slave)
    for body, delay_ms in ((b"soon", 1_000), (b"late", 9_000)):
        fields = send_fields(
            "Timed", properties=f"TIMER_DELAY_MS\x01{delay_ms}\x02UNIQ_KEY\x01{delay_ms}\x02"
        )
        assert (await master.ask(SEND, fields, body)).code == 0
    async with asyncio.timeout(WITHIN_S):
        while await bodies(master, "Timed", 0) != [b"soon"]:
            await asyncio.sleep(0.05)
        progress = TimerProgress.decode((await master.ask(RequestCode.GET_TIMER_CHECK_POINT)).body)
        while True:
            taken = TimerProgress.decode((await slave.ask(RequestCode.GET_TIMER_CHECK_POINT)).body)
            if taken.queue_offset == 2 and taken.read_ms >= progress.read_ms:
                break
            await asyncio.sleep(0.05)
    pair.master.kill()
    pair.slave.kill()
    pair.slave.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
    pair.slave.start()
    new_master = await connect(pair.slave)
    async with asyncio.timeout(WITHIN_S):
        while b"late" not in (found := await bodies(new_master, "Timed", 0)):
            await asyncio.sleep(0.05)
    assert found.count(b"soon") == 1


async def test_a_slave_with_another_history_takes_nothing(
    pair: Pair, connect: Callable[..., asyncio.Future[RawClient]]
) -> None:
    pair.master.start()
    await send(await connect(pair.master), "T", 0, 20)
    stranger = BrokerProcess(pair.slave.data)  # the same folder, for a life as a master of its own
    stranger.start()
    await send(await connect(stranger), "Mine", 0, 5, size=3)
    stranger.stop()
    before = pair.logs()[1]
    pair.slave.start()
    async with asyncio.timeout(WITHIN_S):
        while "TransferDiverged" not in pair.slave.output():
            await asyncio.sleep(0.05)
    assert "are no record" in pair.slave.output()
    assert pair.logs()[1] == before
    assert len(await bodies(await connect(pair.slave), "Mine", 0)) == 3
