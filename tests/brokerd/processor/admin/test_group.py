"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

from pathlib import Path

from brokerd.remoting.body.client import ConsumerConnection
from brokerd.remoting.body.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.codes import RequestCode
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import running


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
