"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from brokerd.remoting.body.broker import BrokerStatsData, HARuntimeInfo, KVTable
from brokerd.remoting.body.client import ConsumerConnection
from brokerd.remoting.body.group import GroupList, SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
)
from brokerd.remoting.body.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList, TopicStatsTable
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import decode_frame
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import decode_records
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import RawClient, pull_fields, running, send_fields

GOLDEN = Path(__file__).parents[3] / "golden" / "wire"
Q = MessageQueue("T", "broker-a", 0)
CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
TOPIC = {
    "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "order": "false",
}  # fmt: skip


async def progress(client: RawClient) -> None:
    """Group g committed 1 of T and pulled up to 2."""
    await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g"}')
    commit = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 1))


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "bad topic"}, 29, "bad topic"),
        ({"topic": "TBW102"}, 29, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "rmq_sys_mine"}, 29, "conflict with system topic"),
        ({"readQueueNums": "0"}, 29, "read_queue_nums 0 is not within 1 and 100000"),
        ({"perm": "99"}, 29, "perm 99"),
        ({"topicFilterType": "ANY"}, 29, "topicFilterType 'ANY'"),
        ({"attributes": "+no.such.key=1"}, 1, "unsupported key: no.such.key"),
        ({"attributes": "+message.type=ODD"}, 1, "value is not in set: ODD"),
        ({"attributes": "+queue.type=BatchCQ"}, 1, "value is not in set: BatchCQ"),
        ({"attributes": "-message.type"}, 1, "only add attribute is supported while creating topic"),
        ({"attributes": "message.type=FIFO"}, 1, "kv string format wrong"),
        ({"attributes": "+message.type"}, 1, "kv string format wrong"),
        ({"writeQueueNums": "x"}, 1, "header field writeQueueNums"),
    ],
)
async def test_it_refuses_bad_topics(tmp_path: Path, fields: dict[str, str], code: int, says: str) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(CREATE, {**TOPIC, **fields})
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark
        assert "T" not in broker.broker.topics.topics


async def test_it_creates_changes_and_deletes_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert (await client.ask(CREATE, {**TOPIC, "attributes": "+message.type=FIFO"})).code == 0
        assert (await client.ask(CREATE, {**TOPIC, "readQueueNums": "3"})).code == 0
        config = TopicConfig.from_body((await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).body)
        assert (config.read_queue_nums, config.write_queue_nums) == (3, 2)
        assert config.attributes == {"message.type": "FIFO"}
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
    async with running(tmp_path) as broker:
        client = await broker.client()
        await progress(client)
        body = (await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
        assert TopicConfigSerializeWrapper.from_body(body).topic_config_table["T"].read_queue_nums == 3
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"})).code == 29
        assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).code == 17
        assert broker.broker.offsets.topics_of_group("g") == []
        assert broker.broker.store.max_offset("T", 0) == 0


async def test_it_changes_the_attributes_that_are_named(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()

        async def ask(words: str) -> tuple[int, str, dict[str, str]]:
            answer = await client.ask(CREATE, {**TOPIC, "attributes": words})
            return answer.code, answer.remark or "", broker.broker.topics.topics["T"].attributes

        assert await ask("+message.type=FIFO, +queue.type=SimpleCQ") == (
            0, "", {"message.type": "FIFO", "queue.type": "SimpleCQ"},
        )  # fmt: skip
        assert (await ask(""))[2] == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
        assert (await ask("+message.type=DELAY"))[2]["message.type"] == "DELAY"
        for words, says in (
            ("+queue.type=SimpleCQ", "attempt to update an unchangeable attribute. key: queue.type"),
            ("-cleanup.policy", "attempt to delete a nonexistent key: cleanup.policy"),
            ("+message.type=FIFO,-message.type", "alter duplication key"),
            ("+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        ):
            code, remark, attributes = await ask(words)
            assert (code, says in remark, attributes["message.type"]) == (1, True, "DELAY"), remark
        assert (await ask("-message.type"))[2] == {"queue.type": "SimpleCQ"}


async def test_lists_of_topics_and_groups_name_attributes_with_their_sign(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        body = b'{"topicConfigList":[{"topicName":"A","attributes":{"+message.type":"FIFO"}}]}'
        code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
        assert (await client.ask(code, body=body)).code == 0
        assert broker.broker.topics.topics["A"].attributes == {"message.type": "FIFO"}
        wrong = await client.ask(code, body=body.replace(b"+", b""))
        assert (wrong.code, "wrong format key" in (wrong.remark or "")) == (1, True), wrong.remark
        for code, body in (
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"g","attributes":{"+a":"1"}}'),
            (
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                b'{"groupConfigList":[{"groupName":"g","attributes":{"+a":"1"}}]}',
            ),
        ):
            refused = await client.ask(code, body=body)
            assert (refused.code, refused.remark) == (1, "unsupported key: a")
        assert "g" not in broker.broker.groups.groups


async def test_it_creates_many_topics_or_none(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
        bad = b'{"topicConfigList":[{"topicName":"One"},{"topicName":"no good"}]}'
        assert (await client.ask(code, body=bad)).code == 29
        assert "One" not in broker.broker.topics.topics
        assert (await client.ask(code, body=bad.replace(b"no good", b"Two"))).code == 0
        assert {"One", "Two"} <= set(broker.broker.topics.topics)


async def test_it_refuses_a_body_that_is_no_json(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b"{nonsense")
        assert answer.code == 1
        assert (answer.remark or "").startswith("request 200: ")
        blank = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":" "}')
        assert (blank.code, blank.remark) == (29, "groupName must not be blank")


async def test_it_tells_the_statistics_of_a_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        (found,) = TopicStatsTable.from_body(answer.body).offset_table.items()
        assert (found[0], found[1].min_offset, found[1].max_offset) == (Q, 0, 2)
        assert found[1].last_update_timestamp > 1_700_000_000_000
        assert (await client.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "No"})).code == 17


async def test_it_finds_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        place = {"topic": "T", "queueId": "0"}
        for code, fields, expected in (
            (RequestCode.GET_MAX_OFFSET, {}, "2"),
            (RequestCode.GET_MIN_OFFSET, {}, "0"),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": "0"}, "0"),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": "9999999999999"}, "2"),
            (
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                {"timestamp": "9999999999999", "boundaryType": "UPPER"},
                "1",
            ),
        ):
            assert (await client.ask(code, {**place, **fields})).ext_fields == {"offset": expected}
        answer = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, place)
        assert int(answer.ext_fields["timestamp"]) > 1_700_000_000_000
        empty = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "No", "queueId": "0"})
        assert empty.ext_fields == {"timestamp": "-1"}


async def test_it_tells_the_progress_of_groups(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b", "c")
        await progress(client)
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
        queue = ConsumeStats.from_body(answer.body).offset_table[Q]
        assert (queue.broker_offset, queue.consumer_offset, queue.pull_offset) == (3, 1, 3)
        assert queue.last_timestamp > 1_700_000_000_000
        answer = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        listed = ConsumeStatsList.from_body(answer.body)
        assert (listed.total_diff, listed.total_inflight_diff) == (2, 2)
        assert [list(each) for each in listed.consume_stats_list] == [["g"]]
        answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert ConsumerOffsetWrapper.from_body(answer.body).offset_table == {("T", "g"): {0: 1}}
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "Missing"})
        assert (answer.code, ConsumeStats.from_body(answer.body).offset_table) == (0, {})
        answer = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
        assert GroupList.from_body(answer.body).group_list == ["g"]
        answer = await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
        assert TopicList.from_body(answer.body).topic_list == ["T"]
        answer = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"})
        (span,) = QueryConsumeTimeSpanBody.from_body(answer.body).consume_time_span_set
        assert span.min_time_stamp <= span.consume_time_stamp <= span.max_time_stamp


async def test_it_keeps_groups_and_deletes_them_with_their_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        body = SubscriptionGroupConfig(group_name="g", retry_max_times=3).to_body()
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == 0
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = SubscriptionGroupWrapper.from_body(answer.body).subscription_group_table
        assert (table["g"].retry_max_times, "TOOLS_CONSUMER" in table) == (3, True)
        broker.broker.offsets.commit("g", "T", 0, 1, 0)
        fields = {"groupName": "g", "cleanOffset": "true"}
        assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)).code == 0
        assert ("g" in broker.broker.groups.groups, broker.broker.offsets.offsets) == (False, {})


async def test_it_shows_who_is_connected(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("c1", "g", "T", version=407)
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
        connection = ConsumerConnection.from_body(answer.body)
        (member,) = connection.connection_set
        assert (member.client_id, member.version, member.language) == ("c1", 407, "PYTHON")
        assert member.client_addr.startswith("127.0.0.1:")
        assert list(connection.subscription_table) == ["T"]
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "none"})
        assert (answer.code, answer.remark) == (206, "the consumer group[none] not online")


async def test_it_finds_messages_by_key_and_id(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T")
        for i in range(3):
            fields = send_fields("T", properties=f"KEYS\x01order-{i % 2} all\x02UNIQ_KEY\x01U{i}\x02")
            sent = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, str(i).encode())
        query = {"topic": "T", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9999999999999"}

        async def found(key: str, **more: str) -> list[bytes]:
            answer = await client.ask(RequestCode.QUERY_MESSAGE, {**query, "key": key, **more})
            assert answer.ext_fields.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
            assert answer.code == (0 if answer.body else 22)
            return [record.body for record in decode_records(answer.body)]

        assert await found("order-0") == [b"0", b"2"]
        assert await found("all", maxNum="2") == [b"1", b"2"]
        assert await found("U1", _UNIQUE_KEY_QUERY="true") == [b"1"]
        assert await found("nothing") == []
        offset = int(sent.ext_fields["msgId"][16:], 16)
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
        assert [record.body for record in decode_records(answer.body)] == [b"2"]
        missing = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "999999"})
        assert (missing.code, missing.remark) == (1, "can not find message by the offset, 999999")


async def test_it_answers_with_the_newest_messages_that_fit_one_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.processor.query_message.ANSWER_BYTES_MAX", 5_000)
    async with running(tmp_path) as broker:
        client = await broker.client()
        for i in range(4):
            body = str(i).encode() * 2_000
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", properties="KEYS\x01k\x02"), body)
        query = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**60)}
        answer = await client.ask(RequestCode.QUERY_MESSAGE, query)
        assert [record.body[:1] for record in decode_records(answer.body)] == [b"2", b"3"]


async def test_it_looks_up_a_key_of_very_many_messages_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.processor.query_message.VISITS_AT_ONCE", 3)
    async with running(tmp_path) as broker:
        client = await broker.client()
        for i in range(5):
            body = str(i).encode()
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", properties="KEYS\x01k\x02"), body)
        query = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**60)}
        threads = set()
        look_up = broker.broker.store.query_by_key

        def noted(*arguments: object, **options: object) -> object:
            threads.add(threading.current_thread())
            return look_up(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(type(broker.broker.store), "query_by_key", lambda _, *a, **o: noted(*a, **o))
        answers = await asyncio.gather(*(client.ask(RequestCode.QUERY_MESSAGE, query) for _ in range(8)))
        assert [[record.body for record in decode_records(answer.body)] for answer in answers] == [
            [b"0", b"1", b"2", b"3", b"4"]
        ] * 8
        assert len(threads - {threading.main_thread()}) >= 1
        assert broker.broker.long_lookups == 0
        broker.broker.long_lookups = 8
        busy = await client.ask(RequestCode.QUERY_MESSAGE, query)
        assert (busy.code, "[OVERLOAD]" in (busy.remark or "")) == (2, True)
        broker.broker.long_lookups = 0
        none = await client.ask(RequestCode.QUERY_MESSAGE, {**query, "endTimestamp": "5"})
        assert none.code == 22


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
        assert BrokerStatsData.from_body(answer.body).stats_minute.sum == 1
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
