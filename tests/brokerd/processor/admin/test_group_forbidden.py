"""Groups that may not read a topic (353): what members are told, what stays, what a restart remembers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.remoting.body.group import GroupForbidden, SubscriptionGroupWrapper
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from brokerd.tables import subscription_group
from brokerd.tables.subscription_group import SubscriptionGroupManager
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RawClient, pull_fields, running, send_fields

ASK = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
PULL = RequestCode.PULL_MESSAGE


async def readable(client: RawClient, topic: str = "T", wanted: str = "", group: str = "g") -> bool:
    fields = {"group": group, "topic": topic} | ({"readable": wanted} if wanted else {})
    answer = await client.ask(ASK, fields)
    assert answer.code == 0, answer.remark
    body = GroupForbidden.from_body(answer.body)
    assert (body.group, body.topic) == (group, topic)
    return body.readable


async def test_it_refuses_pulls_of_a_group_that_may_not_read_the_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await filled(broker, "a")
        member = await broker.consumer("c1", "g", "T")
        assert await readable(member) is True, "asking changes nothing"
        assert await readable(member, wanted="false") is False
        assert await readable(member) is False
        refused = await member.ask(PULL, pull_fields("g", "T", 0, flags=0, subVersion="1"))
        assert (refused.code, refused.remark) == (16, "the consumer group[g] is forbidden for topic[T]")
        assert refused.ext_fields == {"forbiddenType": "5"}
        # As in Java: a pull that brings its subscription along is not looked up, and not held back.
        assert (await member.ask(PULL, pull_fields("g", "T", 0, flags=4))).code == 0
        other = await broker.consumer("c2", "other", "T")
        assert (await other.ask(PULL, pull_fields("other", "T", 0, flags=0, subVersion="1"))).code == 0
        assert await readable(member, wanted="true") is True
        answer = await member.ask(PULL, pull_fields("g", "T", 0, flags=0, subVersion="1"))
        assert [record.body for record in decode_records(answer.body)] == [b"0"]


@pytest.mark.parametrize("how", ["topic", "group"])
async def test_it_gives_nothing_to_a_pull_that_was_held_when_its_group_was_stopped(
    tmp_path: Path, how: str
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker, "a")
        member = await broker.consumer("c1", "g", "T")
        held = asyncio.create_task(member.ask(PULL, pull_fields("g", "T", 1, flags=2, subVersion="1")))
        admin = await broker.client()
        async with asyncio.timeout(30):
            while not broker.broker.hold.count:
                await asyncio.sleep(0.01)
        if how == "topic":
            assert await readable(admin, wanted="false") is False
        else:
            body = b'{"groupName":"g","consumeEnable":false}'
            await admin.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await admin.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"late")
        refused = await held
        assert (refused.code, refused.ext_fields["forbiddenType"]) == (16, "5" if how == "topic" else "2")


async def test_it_keeps_other_topics_and_remembers_both_ways(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        for topic in ("T", "U", "%RETRY%g"):
            await readable(client, topic, "false")
        assert await readable(client, "U", "true") is True
        assert await readable(client, "T") is False, "Java would have allowed it too"
    async with running(tmp_path) as broker:
        client = await broker.client()
        wrapper = SubscriptionGroupWrapper.from_body(
            (await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        )
        assert wrapper.forbidden_table == {"g": {"T": 4, "%RETRY%g": 4}}
        version = wrapper.data_version.counter
        assert await readable(client, "T", "false") is False
        assert broker.broker.groups.data_version.counter == version, "nothing new, nothing saved"
        await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
        assert await readable(client, "T") is True, "a deleted group leaves nothing behind"
    saved = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text())
    assert saved["forbiddenTable"] == {}


def test_it_reads_what_an_apache_broker_wrote(tmp_path: Path) -> None:
    path = tmp_path / "subscriptionGroup.json"
    # Bits of other permissions stay; Java takes a negative value for none.
    table = {"g": {"T": 4, "U": 2, "V": -3}}
    path.write_text(json.dumps({"forbiddenTable": table, "subscriptionGroupTable": {}}))
    groups = SubscriptionGroupManager(path, LiveConfig(BrokerConfig(), NamesrvConfig()), 0)
    assert [groups.is_read_forbidden("g", topic) for topic in "TUVW"] == [True, False, False, False]
    groups.set_readable("g", "U", False, 1)
    groups.set_readable("g", "T", True, 2)
    assert groups.forbidden["g"]["U"] == 6
    groups.set_readable("g", "U", True, 3)
    assert groups.forbidden == {"g": {"U": 2}}


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "T"}, 1, "header field group"),
        ({"group": "g"}, 1, "header field topic"),
        ({"group": "bad group", "topic": "T", "readable": "false"}, 29, "bad group"),
        ({"group": "g", "topic": "bad topic", "readable": "false"}, 29, "bad topic"),
        ({"group": "g", "topic": "second", "readable": "false"}, 1, "1 topics of groups are forbidden"),
    ],
)
async def test_it_says_what_is_wrong(
    tmp_path: Path, fields: dict[str, str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_group, "FORBIDDEN_MAX", 1)
    async with running(tmp_path) as broker:
        client = await broker.client()
        await readable(client, "first", "false")
        answer = await client.ask(ASK, fields)
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark
