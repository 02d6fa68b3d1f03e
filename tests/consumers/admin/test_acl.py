"""MQAdmin's calls about access control: accounts of 4.x and users of 5.x, each on a real brokerd with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokerd.remoting.body.acl import AclInfo, PlainAccessConfig, PolicyEntryInfo, PolicyInfo, UserInfo
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.signature import AccessKeys
from consumers import RemotingClientConfig
from consumers.admin.mqadmin import MQAdmin
from tests.support.broker_process import BrokerProcess

ADMIN = AccessKeys("rocketmq2", "12345678")
ACCOUNTS = """\
accounts:
- accessKey: rocketmq2
  secretKey: 12345678
  admin: true
"""


async def signed(broker: BrokerProcess) -> AsyncIterator[tuple[MQAdmin, str]]:
    broker.start()
    try:
        async with MQAdmin(broker.namesrv, config=RemotingClientConfig(keys=ADMIN)) as admin:
            yield admin, broker.address
    finally:
        broker.stop()


@pytest.fixture
async def accounts(tmp_path: Path) -> AsyncIterator[tuple[MQAdmin, str]]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    async for each in signed(BrokerProcess(tmp_path / "store", rocketmqHome=str(tmp_path), aclEnable="true")):
        yield each


@pytest.fixture
async def users(tmp_path: Path) -> AsyncIterator[tuple[MQAdmin, str]]:
    first = '{"username":"rocketmq2","password":"12345678"}'
    settings = {"authenticationEnabled": "true", "initAuthenticationUser": first}
    async for each in signed(BrokerProcess(tmp_path / "store", **settings)):
        yield each


async def test_accounts_are_made_changed_and_deleted(accounts: tuple[MQAdmin, str]) -> None:
    admin, addr = accounts
    await admin.put_account(
        addr, PlainAccessConfig("alice-key", "alice-secret", topic_perms=["orders=PUB", "closed=DENY"])
    )
    await admin.put_account(addr, PlainAccessConfig("alice-key", "other-secret", topic_perms=[]))
    found = {each.access_key: each for each in (await admin.acl_config(addr)).plain_access_configs}
    assert (found["alice-key"].secret_key, found["alice-key"].topic_perms) == ("other-secret", [])
    await admin.delete_account(addr, "alice-key")
    assert [each.access_key for each in (await admin.acl_config(addr)).plain_access_configs] == ["rocketmq2"]
    with pytest.raises(MQBrokerError, match="no account has accessKey=alice-key"):
        await admin.delete_account(addr, "alice-key")


async def test_white_addresses_are_replaced_and_files_are_named(accounts: tuple[MQAdmin, str]) -> None:
    admin, addr = accounts
    await admin.put_white_addresses(addr, ["192.0.2.7", "192.0.2.{8,9}"])
    assert (await admin.acl_config(addr)).global_white_addrs == ["192.0.2.7", "192.0.2.{8,9}"]
    assert [Path(path).name for path in await admin.acl_files(addr)] == ["plain_acl.yml"]


async def test_users_and_policies_are_made_changed_and_deleted(users: tuple[MQAdmin, str]) -> None:
    admin, addr = users
    assert await admin.user(addr, "alice") is None
    await admin.create_user(addr, UserInfo("alice", "alice-secret", "Normal"))
    await admin.update_user(addr, UserInfo("alice", user_status="disable"))
    assert await admin.user(addr, "alice") == UserInfo("alice", "alice-secret", "Normal", "disable")
    assert [each.username for each in await admin.users(addr)] == ["alice", "rocketmq2"]
    assert await admin.acls(addr) == []
    orders = PolicyEntryInfo("Topic:orders", ["Pub"], ["192.0.2.0/24"], "Allow")
    billing = PolicyEntryInfo("Group:billing", ["Sub"], None, "Deny")
    await admin.create_acl(addr, AclInfo("User:alice", [PolicyInfo("Custom", [orders])]))
    await admin.update_acl(addr, AclInfo("User:alice", [PolicyInfo("Custom", [billing])]))
    both = AclInfo("User:alice", [PolicyInfo("Custom", [orders, billing])])
    assert await admin.acl(addr, "User:alice") == both
    await admin.delete_acl(addr, "User:alice", "Topic:orders")
    assert await admin.acls(addr) == [AclInfo("User:alice", [PolicyInfo("Custom", [billing])])]
    await admin.delete_acl(addr, "User:alice")
    assert await admin.acl(addr, "User:alice") is None
    await admin.delete_user(addr, "alice")
    assert [each.username for each in await admin.users(addr)] == ["rocketmq2"]
