"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig, TopicConfigSerializeWrapper, TopicStatsTable
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RawClient, pull_fields, running, send_fields

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
