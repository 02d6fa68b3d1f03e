from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.topic_config import TopicConfigManager, topic_config


def manager(path: Path, **settings: object) -> TopicConfigManager:
    live = LiveConfig(BrokerConfig(**settings), NamesrvConfig())  # type: ignore[arg-type]
    return TopicConfigManager(path / "topics.json", live, 18, 0)


def test_it_has_the_system_topics_from_the_start(tmp_path: Path) -> None:
    topics = manager(tmp_path).topics
    found = {name: (topics[name].write_queue_nums, topics[name].perm) for name in topics}
    assert found == {
        "SELF_TEST_TOPIC": (1, 6),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_wheel_timer": (1, 6),
        "TBW102": (8, 7),
    }
    assert "TBW102" not in manager(tmp_path, auto_create_topic_enable=False).topics


def test_it_makes_topics_of_templates_with_the_inherit_bit_only(tmp_path: Path) -> None:
    topics = manager(tmp_path)
    assert topics.create_in_send("A", "DefaultCluster", 4, 0) == topic_config("A", 4, 6)
    assert topics.create_in_send("B", "A", 4, 0) is None
    assert topics.create_in_send("C", "Missing", 4, 0) is None
    assert topics.create_retry_topic_of_send("%RETRY%g", 0) == topic_config("%RETRY%g", 1, 6)
    assert topics.create_retry_topic_of_send("D", 0) is None


def test_it_saves_every_change_and_tells_it(tmp_path: Path) -> None:
    topics = manager(tmp_path)
    told: list[str] = []
    topics.on_change = lambda configs: told.extend(c.topic_name for c in configs)
    topics.on_delete = told.append
    topics.put(topic_config("T", 3, 6), 5)
    topics.file.write_now()
    assert manager(tmp_path).topics["T"].read_queue_nums == 3
    assert (topics.data_version.counter, topics.data_version.timestamp) == (1, 5)
    assert topics.delete("T", 6)
    assert not topics.delete("T", 7)
    topics.file.write_now()
    assert (told, "T" in manager(tmp_path).topics) == (["T", "T"], False)


def test_it_reads_what_a_java_broker_saved(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(
        '{"dataVersion":{"counter":3,"timestamp":9},"topicConfigTable":{"J":{"order":true,"perm":6,'
        '"readQueueNums":5,"topicFilterType":"SINGLE_TAG","topicName":"J","topicSysFlag":0,"writeQueueNums":7}}}'
    )
    topics = manager(tmp_path)
    assert (topics.topics["J"].read_queue_nums, topics.topics["J"].write_queue_nums) == (5, 7)
    assert topics.data_version.counter == 3


@pytest.mark.parametrize(
    ("group", "is_made"), [("g", True), ("bad group", False), ("x" * 256, False), ("CID_RMQ_SYS_A", True)]
)
def test_it_makes_groups_on_first_use_if_the_name_is_legal(tmp_path: Path, group: str, is_made: bool) -> None:
    live = LiveConfig(BrokerConfig(), NamesrvConfig())
    groups = SubscriptionGroupManager(tmp_path / "subscriptionGroup.json", live, 0)
    assert (groups.find_or_create(group, 1) is not None) == is_made
    groups.file.write_now()
    again = SubscriptionGroupManager(tmp_path / "subscriptionGroup.json", live, 0)
    assert (again.get(group) is not None) == is_made


def test_it_makes_system_groups_even_when_making_groups_is_off(tmp_path: Path) -> None:
    live = LiveConfig(BrokerConfig(auto_create_subscription_group=False), NamesrvConfig())
    groups = SubscriptionGroupManager(tmp_path / "subscriptionGroup.json", live, 0)
    assert groups.find_or_create("mine", 0) is None
    assert groups.find_or_create("CID_RMQ_SYS_A", 0) is not None
    assert groups.get("TOOLS_CONSUMER") is not None


def test_it_keeps_no_number_that_json_cannot_hold(tmp_path: Path) -> None:
    topics = manager(tmp_path)
    live = LiveConfig(BrokerConfig(), NamesrvConfig())
    groups = SubscriptionGroupManager(tmp_path / "subscriptionGroup.json", live, 0)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        topics.put(dataclasses.replace(topic_config("Odd", 1, 6), topic_sys_flag=10**30), 1)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        groups.put(SubscriptionGroupConfig(group_name="odd", retry_max_times=10**30), 1)
    topics.put(topic_config("Next", 1, 6), 1)
    groups.find_or_create("next", 1)
    assert ("Odd" in topics.topics, "odd" in groups.groups) == (False, False)


def test_it_makes_no_topics_of_sends_beyond_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = manager(tmp_path)
    monkeypatch.setattr("brokerd.tables.topic_config.TOPICS_MAX", len(topics.topics) + 1)
    assert topics.create_in_send("One", "TBW102", 4, 1) is not None
    assert topics.create_in_send("Two", "TBW102", 4, 1) is None
    assert topics.put(topic_config("Three", 1, 6), 1) is not None  # an operator may


def test_topics_whose_messages_are_there_are_made_anew(tmp_path: Path) -> None:
    topics = manager(tmp_path)
    topics.put(topic_config("Known", 4, 4), 0)
    topics.adopt({"Known": 2, "Lost": 3, "Large": 5, "%RETRY%g": 1}, 0)
    assert topics.get("Known") == topic_config("Known", 4, 4)
    # clients were given four queues, three of which have messages
    assert topics.get("Lost") == topic_config("Lost", 4, 6)
    assert topics.get("Large") == topic_config("Large", 5, 6)
    assert topics.get("%RETRY%g") == topic_config("%RETRY%g", 1, 6)
