"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

from pathlib import Path

from brokerd.remoting.body.group import GroupList
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
)
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RawClient, pull_fields, running

Q = MessageQueue("T", "broker-a", 0)


async def progress(client: RawClient) -> None:
    """Group g committed 1 of T and pulled up to 2."""
    await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g"}')
    commit = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 1))


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


async def test_it_finds_the_least_offset_of_all_groups_by_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b", "c")
        offsets = broker.broker.offsets
        for group, queues in {"slow": (1, 7), "fast": (3, 9), "left": (0, 0)}.items():
            for queue_id, offset in enumerate(queues):
                offsets.commit(group, "T", queue_id, offset, 1)
        broker.broker.store.table.queues["T", 0].min_offset = 1  # 0 lies before the first message
        ask = {"topic": "T", "compareGroup": "fast", "filterGroups": "left"}
        answer = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, ask)
        assert answer.body == b'{"correctionOffsets":{0:1,1:7}}'
        offsets.commit("fast", "T", 1, 5, 1)
        answer = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, {**ask, "filterGroups": "left,fast"})
        assert answer.body == b'{"correctionOffsets":{0:1,1:9223372036854775807}}'
        assert offsets.topics_of_group("left") == ["T"]  # Java would have deleted them
