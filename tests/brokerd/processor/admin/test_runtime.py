"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.config import read_properties
from brokerd.remoting.body.broker import BrokerStatsData, HARuntimeInfo, KVTable
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import decode_frame
from brokerd.remoting.message.record import decode_records
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import pull_fields, running, send_fields

GOLDEN = Path(__file__).parents[3] / "golden" / "wire"


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_it_tells_its_runtime_with_every_key_of_apaches_brokers(tmp_path: Path, release: str) -> None:
    golden = GOLDEN / release / "28-get_broker_runtime_info-2.response.bin"
    theirs = KVTable.from_body(decode_frame(golden.read_bytes()[4:]).body).table
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = KVTable.from_body(answer.body).table
        own = {key for key in theirs if not key.startswith(("commitLogDiskRatio_", "scheduleMessageOffset_"))}
        assert own - table.keys() == set()
        assert (table["brokerVersion"], table["brokerVersionDesc"]) == ("479", "V5_3_3")
        assert (table["msgPutTotalTodayNow"], table["putMessageTimesTotal"]) == ("1", "1")
        assert table["putMessageSizeTotal"] == table["commitLogMaxOffset"]
        assert int(table["earliestMessageTimeStamp"]) > 1_700_000_000_000


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_it_times_puts_and_reads(tmp_path: Path, flush: str) -> None:
    async with running(tmp_path, flushDiskType=flush) as broker:
        client = await filled(broker, *"abcde")
        assert (await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))).code == 0
        stats = broker.broker.stats
        assert stats.put_times.total == 5
        assert stats.get_longest_ns > 0
        stats.put_times.roll(stats.boot_timestamp_ms + 60_000)
        table = KVTable.from_body((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        spans = [int(each.rpartition(":")[2]) for each in table["putMessageDistributeTime"].split()]
        assert (len(spans), sum(spans)) == (13, 5)
        assert 0 < float(table["putLatency99"]) <= float(table["putLatency999"])
        assert int(table["putMessageEntireTimeMax"]) >= float(table["putLatency99"]) - 1


async def test_it_says_that_a_changed_setting_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr("brokerd.tables.config_manager.write_pieces", full)
            answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"autoCreateTopicEnable=false\n")
            assert (answer.code, "changed, but not saved" in (answer.remark or "")) == (1, True)
            assert not broker.broker.config.broker.auto_create_topic_enable
    assert (tmp_path / "config" / "broker.properties").read_text() == "autoCreateTopicEnable=false\n"


async def test_it_changes_hot_settings_and_refuses_the_others(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        update = RequestCode.UPDATE_BROKER_CONFIG
        assert (await client.ask(update, body=b"autoCreateTopicEnable=false\n")).code == 0
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("New"), b"x")).code == 17
        shown = (await client.ask(RequestCode.GET_BROKER_CONFIG)).body.decode()
        assert "autoCreateTopicEnable=false\n" in shown
        assert f"listenPort={broker.broker.store_host[1]}\n" in shown
        for key in ("brokerRole", "filterServerNums", "slaveReadEnable", "useTLS"):  # exportConfigs of 4.9.7
            assert f"\n{key}=" in shown
        for body, says in (
            (
                b"longPollingEnable=false\nlistenPort=1\n",
                "listenPort: cannot be changed while the broker runs",
            ),
            (b"longPollingEnable=maybe", "longPollingEnable=maybe: takes true or false"),
            (b"defaultTopicQueueNums=0", "defaultTopicQueueNums=0: takes 1 or more"),
            (b"nonsense", "is not key=value"),
        ):
            answer = await client.ask(update, body=body)
            assert (answer.code, says in (answer.remark or "")) == (29, True), answer.remark
        assert broker.broker.config.broker.long_polling_enable is True


async def test_it_shows_counters(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        now_ms = broker.broker.stats.boot_timestamp_ms
        broker.broker.stats.sample(now_ms + 20_000, now_ms + 20_000)
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
        broker.broker.stats.sample(now_ms + 30_000, now_ms + 30_000)
        fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
        answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)
        assert BrokerStatsData.from_body(answer.body).stats_minute.sum == 3
        assert (await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, {**fields, "statsKey": "No"})).code == 1


async def test_it_is_a_master_without_slaves(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        status = HARuntimeInfo.from_body((await client.ask(RequestCode.GET_BROKER_HA_STATUS)).body)
        assert (status.master, status.in_sync_slave_nums, status.ha_connection_info) == (True, 0, [])
        assert status.master_commit_log_max_offset == broker.broker.store.commit_log_max_offset > 0


async def test_it_relays_a_question_to_a_member(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        consumer = await broker.consumer("c1", "g", "T")
        await consumer.pushed()
        fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}
        asking = asyncio.create_task(client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))
        question = await consumer.pushed()
        assert (question.code, question.ext_fields, question.is_oneway) == (307, fields, False)
        consumer.respond(question.response(0, "fine", body=b'{"properties":{}}'))
        answer = await asking
        assert (answer.code, answer.remark, answer.body) == (0, "fine", b'{"properties":{}}')


async def test_it_relays_a_message_to_be_consumed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        consumer = await broker.consumer("c1", "g", "T")
        await consumer.pushed()
        (record,) = decode_records(
            (await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))).body
        )
        fields = {"consumerGroup": "g", "clientId": "c1", "msgId": record.offset_message_id}
        asking = asyncio.create_task(client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields))
        question = await consumer.pushed()
        assert question.ext_fields["brokerName"] == "broker-a"
        assert decode_records(question.body) == [record]
        await consumer.close()
        answer = await asking
        assert (answer.code, "invoke consumer <g> <c1> Exception" in (answer.remark or "")) == (1, True)


@pytest.mark.parametrize(
    "code", [RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY]
)
async def test_it_says_when_the_member_asked_for_is_not_there(tmp_path: Path, code: int) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(code, {"consumerGroup": "g", "clientId": "x", "msgId": "00"})
        assert (answer.code, answer.remark) == (1, "The Consumer <g> <x> not online")


async def test_it_changes_the_stores_settings_while_it_serves(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, update = await filled(broker, "a", "b", "c"), RequestCode.UPDATE_BROKER_CONFIG
        body = b"maxMessageSize=9\nmaxTransferCountOnMessageInMemory=2\nfileReservedTime=5\ndeleteWhen=07\n"
        assert (await client.ask(update, body=body)).code == 0
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), bytes(10))).code == 13
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        assert len(decode_records(pulled.body)) == 2
        shown = read_properties((await client.ask(RequestCode.GET_BROKER_CONFIG)).body.decode())
        assert (shown["fileReservedTime"], shown["deleteWhen"]) == ("5", "07")
        config = broker.broker.store.cleaner.config
        assert (config.file_reserved_time_h, config.delete_when) == (5, "07")
    saved = read_properties((tmp_path / "config" / "broker.properties").read_text())
    assert saved["maxMessageSize"] == "9"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("brokerNam=x", "brokerNam: no setting that a broker (25) changes; check the spelling"),
        ("storePathRootDir=/x\nbrokerNam=x", "brokerNam: no setting"),
        ("storePathRootDir=/x\nbrokerNam=x", "storePathRootDir: cannot be changed while the broker runs"),
        ("enableAllTopicList=false", "enableAllTopicList: cannot be changed"),
        ("diskMaxUsedSpaceRatio=0", "diskMaxUsedSpaceRatio=0: takes a percentage from 1 to 100"),
        ("maxMessageSize=0", "maxMessageSize=0: takes 1 or more"),
        ("deleteWhen=25", "deleteWhen '25': hours from 00 to 23"),
        ("fileReservedTime=soon", "fileReservedTime=soon: takes a whole number"),
    ],
)
async def test_it_refuses_settings_by_name_and_applies_none(tmp_path: Path, change: str, says: str) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        before = (await client.ask(RequestCode.GET_BROKER_CONFIG)).body
        body = f"longPollingEnable=false\nmaxMsgsNumBatch=7\n{change}\n".encode()
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        assert (answer.code, says in (answer.remark or "")) == (29, True), answer.remark
        assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).body == before
        assert not (tmp_path / "config" / "broker.properties").exists()


async def test_region_and_trace_of_sends_follow_the_settings(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker)
        changes = b"regionId=north\ntraceOn=false"
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=changes)).code == 0
        for binary in (False, True):
            answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x", binary=binary)
            assert (answer.ext_fields["MSG_REGION"], answer.ext_fields["TRACE_ON"]) == ("north", "false")
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        for record in decode_records(pulled.body):
            assert (record.properties["MSG_REGION"], record.properties["TRACE_ON"]) == ("north", "false")


async def test_routes_lose_what_the_broker_does_not_permit(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, namesrv = await filled(broker), await broker.namesrv_client()
        address = broker.controller.namesrv_address
        async with running(tmp_path / "b", brokerName="broker-b", namesrvAddr=address) as elsewhere:
            other = await filled(elsewhere)

            async def until_perms(**wanted: int) -> None:
                async with asyncio.timeout(30):
                    while True:
                        answer = await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
                        queues = TopicRouteData.from_body(answer.body).queue_datas
                        if {each.broker_name[-1]: each.perm for each in queues} == wanted:
                            return
                        await asyncio.sleep(0.01)

            await until_perms(a=6, b=6)
            await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4")
            await until_perms(a=4, b=6)
            await other.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2")
            await until_perms(a=4, b=2)
            await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6")
            await until_perms(a=6, b=2)
