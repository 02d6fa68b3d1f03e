"""What each request needs in 5.x, and that no request is forgotten."""

from __future__ import annotations

import pytest

from brokerd.acl.auth_rights import RULES, needed_accesses
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.remoting.command import RemotingCommand

# As in Java any user may: what reads no message, and 4.x's own administration, which needs its accounts.
FREE = {21, 26, 28, 43, 45, 46, *range(50, 55), 60, 61, 201, 305, 324, 325, 400, 402, 907, 75002, 200056}


def test_each_code_has_a_rule_or_is_free_on_purpose() -> None:
    assert set(BROKER_HANDLERS) - set(RULES) == FREE


@pytest.mark.parametrize(
    ("code", "fields", "body", "needed"),
    [
        (10, {"topic": "%RETRY%g", "group": "g"}, b"", ["Group:g Sub"]),
        (310, {"a": "p", "b": "t"}, b"", ["Topic:t Pub"]),
        (320, {"a": "p", "b": "t"}, b"", ["Topic:t Pub"]),
        (11, {"topic": "t", "consumerGroup": "g"}, b"", ["Topic:t Sub", "Group:g Sub"]),
        (11, {"topic": "%RETRY%g", "consumerGroup": "g"}, b"", ["Group:g Sub"]),
        (15, {"topic": "t", "consumerGroup": "g"}, b"", ["Topic:t Sub Update", "Group:g Sub Update"]),
        (17, {"topic": "t"}, b"", ["Topic:t Create"]),
        (18, {}, b'{"topicConfigList":[{"topicName":"t"},{"topicName":"u"}]}', ["Topic:t Create", "Topic:u Create"]),
        (25, {}, b"", ["Cluster:c Update"]),
        (35, {"clientID": "x", "consumerGroup": ""}, b"", []),
        (41, {}, b'{"consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}',
         ["Topic:t Sub", "Group:g Sub"]),
        (200, {}, b'{"groupName":"g"}', ["Group:g Create Update"]),
        (208, {"consumerGroup": "g", "topicList": "t;u"}, b"", ["Group:g Get", "Topic:t Get", "Topic:u Get"]),
        (222, {"topic": "t", "group": "g"}, b"", ["Topic:t Update", "Group:g Update"]),
        (308, {"topic": "t", "filterGroups": "g,h"}, b"", ["Group:g Get", "Group:h Get", "Topic:t Get"]),
        (200151, {}, b'{"acks":[{"c":"g","t":"t"}]}', ["Topic:t Sub", "Group:g Sub"]),
        (3005, {}, b"", ["Cluster:c Get"]),
    ],
)  # fmt: skip
def test_a_request_needs(code: int, fields: dict[str, str], body: bytes, needed: list[str]) -> None:
    accesses = needed_accesses(RemotingCommand.request(code, fields, body), "c")
    assert [f"{access.resource} {' '.join(access.actions)}" for access in accesses] == needed
