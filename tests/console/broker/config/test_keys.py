"""Which values of which keys can be set, and which are never shown."""

from __future__ import annotations

import pytest

from console.broker.config.areas import AREAS, by_area
from console.broker.config.keys import KEYS, SET, config_key, is_secret, problem_of, without_secrets


def test_it_hides_secrets() -> None:
    config = {
        "initAuthenticationUser": '{"username":"root","password":"x"}',
        "innerClientAuthenticationCredentials": "{…}",
        "metricsGrpcExporterHeader": "",
        "accessMessageInMemoryMaxRatio": "40",
    }
    assert without_secrets(config) == {
        "initAuthenticationUser": SET,
        "innerClientAuthenticationCredentials": SET,
        "metricsGrpcExporterHeader": "",
        "accessMessageInMemoryMaxRatio": "40",
    }
    assert is_secret("tieredStoreSecretKey") and not is_secret("messageIndexEnable")


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [
        ("brokerPermission", "6", "read and write"),
        ("brokerPermission", "4", "read only"),
        ("maxMessageSize", "4194304", "4.2 MB"),
        ("registerNameServerPeriod", "30000", "30 s"),
        ("waitTimeMillsInSendQueue", "200", ""),
        ("startAcceptSendRequestTimeStamp", "1700000000000", ""),
        ("flushDiskType", "ASYNC_FLUSH", ""),
        ("nobodyKnowsThis", "4194304", ""),
    ],
)
def test_a_code_or_a_large_number_has_words_beside_it(key: str, value: str, meaning: str) -> None:
    assert config_key(key).meaning_of(value) == meaning


@pytest.mark.parametrize(
    ("key", "unit"), [("defaultTopicQueueNums", ""), ("fileReservedTime", "hours"), ("flushDiskType", "")]
)
def test_a_unit_with_which_the_meaning_begins_is_not_repeated(key: str, unit: str) -> None:
    assert config_key(key).unit_apart == unit


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("fileReservedTime", "48", ""),
        ("fileReservedTime", "0", "At least 1 hours."),
        ("fileReservedTime", "two days", "Enter a whole number of hours."),
        ("flushDiskType", "NO_FLUSH", "One of: ASYNC_FLUSH, SYNC_FLUSH."),
        ("nobodyKnowsThis", "anything", ""),
        ("nobodyKnowsThis", "a\nbrokerPermission=0", "Line breaks, control characters"),
        ("nobodyKnowsThis", " a", "Spaces at the start"),
        ("no key", "1", "is not a configuration key"),
        ("brokerName", "b", "brokerName cannot be changed here."),
        ("aclSecretKey", "b", "is a secret"),
    ],
)
def test_it_refuses_what_would_hurt(key: str, value: str, problem: str) -> None:
    found = problem_of(config_key(key), value)
    assert found.startswith(problem) if problem.endswith(".") else problem in found
    assert bool(found) == bool(problem)


def test_every_explained_key_has_one_area() -> None:
    named = [key for _, keys in AREAS for key in keys]
    assert sorted(named) == sorted(key.name for key in KEYS.values())
    lines = [(config_key(name), name) for name in ("deleteWhen", "noSuchKey", "brokerId")]
    assert [lines for _, lines in by_area(lines)] == [["deleteWhen"], ["brokerId"], ["noSuchKey"]]


def test_it_explains_every_key_of_its_table() -> None:
    assert [key.name for key in KEYS.values() if not key.says] == []
