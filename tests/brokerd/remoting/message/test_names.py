from __future__ import annotations

import pytest

from brokerd.remoting.message.names import (
    PROXY_TOPIC,
    dead_letter_topic,
    is_broker_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
    validate_group,
    validate_topic,
)


def test_it_names_the_topics_of_a_group() -> None:
    assert retry_topic("billing") == "%RETRY%billing"
    assert dead_letter_topic("billing") == "%DLQ%billing"


@pytest.mark.parametrize(
    "name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "OFFSET_MOVED_EVENT", PROXY_TOPIC]
)
def test_it_knows_system_topics(name: str) -> None:
    assert is_system_topic(name)


@pytest.mark.parametrize("name", ["orders", "%RETRY%billing", "%DLQ%billing", "RMQ_SYS", "tbw102"])
def test_it_knows_other_topics(name: str) -> None:
    assert not is_system_topic(name)


def test_proxies_may_make_their_topic() -> None:
    assert is_broker_topic("TBW102") and not is_broker_topic(PROXY_TOPIC)


def test_it_knows_system_groups() -> None:
    assert is_system_group("TOOLS_CONSUMER")
    assert is_system_group("CID_RMQ_SYS_anything")
    assert is_system_group("CID_DefaultHeartBeatSyncerTopic")
    assert not is_system_group("billing")


@pytest.mark.parametrize("name", ["orders", "a", "%RETRY%" + "g" * 248, "a|b-c_D9", "t" * 127])
def test_it_accepts_legal_topics(name: str) -> None:
    validate_topic(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a b", "characters other than"),
        ("标签", "characters other than"),
        ("a.b", "characters other than"),
        ("a\n", "characters other than"),
        ("t" * 128, "128 characters; at most 127"),
        ("%DLQ%" + "g" * 251, "256 characters; at most 255"),
    ],
)
def test_it_says_why_a_topic_is_illegal(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"the topic name .*{reason}"):
        validate_topic(name)


def test_it_says_why_a_group_is_illegal() -> None:
    validate_group("g" * 255)
    with pytest.raises(ValueError, match="the group name has 256 characters; at most 255"):
        validate_group("g" * 256)
    with pytest.raises(ValueError, match="the group name 'a@b'"):
        validate_group("a@b")
