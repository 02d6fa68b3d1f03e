from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.tables.unserved_topics import is_in_batches, read_static_topics, reason_of
from tests.brokerd.popping import pop_fields
from tests.brokerd.running import pull_fields, running, send_fields
from tests.brokerd.store.stores import NOW_MS, open_store, put, settle

STATIC = '{"dataVersion":{"counter":1},"topicQueueMappingInfoMap":{"S":{"topic":"S","currIdMap":{0:0}}}}'
SENTENCES = {
    "B": "topic[B] keeps its messages in batches (queue.type=BatchCQ), which this broker does not serve",
    "C": "topic[C] keeps the newest message of each key (cleanup.policy=COMPACTION), which this broker does not",
    "S": "topic[S] is a static topic (topicQueueMapping.json), which this broker does not serve",
}
ATTRIBUTES = {"B": "queue.type=BatchCQ", "C": "cleanup.policy=COMPACTION", "S": ""}


def test_it_tells_which_topics_are_not_served() -> None:
    topics = [TopicConfig(name, attributes=attributes(name)) for name in "BCST"]
    assert [reason_of(topic, frozenset("S"))[:40] for topic in topics] == [
        *(SENTENCES[name][:40] for name in "BCS"), ""
    ]  # fmt: skip
    assert [is_in_batches(topic) for topic in topics] == [True, False, False, False]


def attributes(name: str) -> dict[str, str]:
    key, _, value = ATTRIBUTES.get(name, "").partition("=")
    return {key: value} if key else {}


def test_it_reads_which_topics_apache_has_mapped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_static_topics(tmp_path) == frozenset()
    (tmp_path / "topicQueueMapping.json").write_text(STATIC)
    assert read_static_topics(tmp_path) == frozenset({"S"})
    assert not caplog.text
    (tmp_path / "topicQueueMapping.json").write_text("[")
    assert read_static_topics(tmp_path) == frozenset()
    assert "its topics are served as ordinary ones" in caplog.text


def write_tables(root: Path) -> None:
    (root / "config").mkdir()
    topics = {name: {"topicName": name, "attributes": attributes(name)} for name in "BCS"}
    (root / "config" / "topics.json").write_text(str({"topicConfigTable": topics}).replace("'", '"'))
    (root / "config" / "topicQueueMapping.json").write_text(STATIC)


@pytest.mark.parametrize("topic", ["B", "C", "S"])
async def test_their_clients_get_the_reason(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_tables(tmp_path)
    async with running(tmp_path) as broker:
        assert SENTENCES[topic] in caplog.text
        client = await broker.client()
        for code, fields in (
            (RequestCode.SEND_MESSAGE_V2, send_fields(topic)),
            (RequestCode.PULL_MESSAGE, pull_fields("g", topic, 0)),
            (RequestCode.POP_MESSAGE, pop_fields("g", topic)),
            (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}),
        ):
            for _ in range(2):
                answer = await client.ask(code, fields, b"body")
                assert (answer.code, SENTENCES[topic] in (answer.remark or "")) == (16, True), answer


async def test_a_topic_in_batches_gets_no_queue_of_another_kind(tmp_path: Path) -> None:
    """With one Apache does not start any more. The log may have records of it that have no unit here."""
    store = open_store(
        tmp_path, mapped_file_size_commit_log=1 << 20, max_hash_slot_num=1000, max_index_num=4000
    )
    for topic in ("B", "T"):
        put(store, topic=topic)
    settle(store)
    store.close(NOW_MS)
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "consumequeue" / "B" / "0" / f"{0:020d}").unlink()
    (tmp_path / "consumequeue" / "B" / "0").rmdir()
    (tmp_path / "consumequeue" / "B").rmdir()
    write_tables(tmp_path)
    async with running(tmp_path, mappedFileSizeConsumeQueue="200") as broker:
        assert broker.broker.store.topics() == ["T"]
    assert [path.name for path in (tmp_path / "consumequeue").iterdir()] == ["T"]
