"""Rights of 4.x accounts over real sockets: who may do what, the files, the administration codes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from brokerd.acl.plain_acl_file import AclFileError
from brokerd.remoting.body.acl import AclConfig
from brokerd.remoting.body.client import ConsumerData, HeartbeatData, SubscriptionData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, sign
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields

ADMIN = AccessKeys("rocketmq2", "12345678")
ALICE = AccessKeys("alice-key", "alice-secret")
ACCOUNTS = """\
accounts:
- accessKey: rocketmq2
  secretKey: 12345678
  admin: true
- accessKey: alice-key
  secretKey: alice-secret
  defaultTopicPerm: SUB
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB, closed=DENY]
  groupPerms: [billing=SUB]
- accessKey: near-key
  secretKey: near-secret
  whiteRemoteAddress: 127.0.0.*
"""
ON = {"aclEnable": "true"}


def write(root: Path, text: str = ACCOUNTS, name: str = "plain_acl.yml") -> Path:
    path = root / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def ask(
    client: RawClient,
    code: int,
    fields: dict[str, str] | None = None,
    keys: AccessKeys | None = None,
    body: bytes = b"",
    **more: bool,
) -> RemotingCommand:
    command = RemotingCommand.request(code, fields or {}, body)
    if keys is not None:
        sign(command, keys)
    return await client.ask(code, command.ext_fields, body, **more)


async def send(
    client: RawClient, topic: str, keys: AccessKeys | None, **more: bool
) -> tuple[int, str | None]:
    answer = await ask(client, RequestCode.SEND_MESSAGE_V2, send_fields(topic), keys, b"x", **more)
    return answer.code, answer.remark


def consumer(group: str, topic: str) -> bytes:
    subscription = SubscriptionData(topic=topic, sub_string="*")
    group_data = ConsumerData(group_name=group, subscription_data_set=[subscription])
    return HeartbeatData(client_id="c", consumer_data_set=[group_data]).to_body()


@pytest.mark.parametrize("binary", [False, True])
async def test_a_signed_request_of_an_allowed_account_is_served(tmp_path: Path, binary: bool) -> None:
    write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        assert await send(client, "orders", ALICE, binary=binary) == (0, None)
        beat = await ask(client, RequestCode.HEART_BEAT, {}, ALICE, consumer("billing", "invoices"))
        assert beat.code == 0
        pulled = await ask(client, RequestCode.PULL_MESSAGE, pull_fields("billing", "invoices", 0), ALICE)
        assert pulled.code == 17, "no such topic: the right is there"


async def test_a_refusal_names_the_missing_right(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        assert await send(client, "orders", None) == (
            16,
            "No accessKey is configured: the request is not signed",
        )
        assert await send(client, "orders", AccessKeys("unknown-key", "1")) == (
            16,
            "No acl config for unknown-key",
        )
        wrong = AccessKeys("alice-key", "alice-secreu")
        assert await send(client, "orders", wrong) == (16, "Check signature failed for accessKey=alice-key")
        needs = "No default permission for topic:closed: accessKey=alice-key needs PUB on it"
        assert await send(client, "closed", ALICE) == (16, needs)
        assert (await send(client, "invoices", ALICE))[0] == 16, "the default is SUB"
        beat = await ask(client, RequestCode.HEART_BEAT, {}, ALICE, consumer("shipping", "invoices"))
        needs = "No default permission for group:shipping: accessKey=alice-key needs SUB on it"
        assert (beat.code, beat.remark) == (16, needs)
        admin = await ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, ALICE)
        assert (admin.code, admin.remark) == (
            16,
            "Need admin permission for request code=215, but accessKey=alice-key is not",
        )
        assert broker.broker.topics.get("orders") is None, "no message was stored"


async def test_an_administrator_and_trusted_addresses_may_all(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        topic = {"topic": "made", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        assert (await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic, ADMIN)).code == 0
        assert await send(client, "closed", ADMIN) == (0, None)
        assert await send(client, "anything", AccessKeys("near-key", "of no matter")) == (0, None)
    write(tmp_path, "globalWhiteRemoteAddresses: [127.0.0.1]\n")
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        assert await send(client, "orders", None) == (0, None)
        assert await send(client, "orders", None, binary=True) == (0, None)


async def test_a_trace_may_be_sent_by_every_account(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, traceTopicEnable="true", **ON) as broker:
        client = await broker.client()
        assert await send(client, "RMQ_SYS_TRACE_TOPIC", ALICE) == (0, None)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.SEND_MESSAGE, {"topic": "invoices", "group": "p"}),
        (RequestCode.SEND_BATCH_MESSAGE, {"b": "invoices", "a": "p"}),
        (RequestCode.SEND_MESSAGE_V2, {"b": "%RETRY%shipping", "a": "shipping"}),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "shipping"}),
        (RequestCode.PULL_MESSAGE, {"topic": "closed", "consumerGroup": "billing"}),
        (RequestCode.LITE_PULL_MESSAGE, {"topic": "orders", "consumerGroup": "shipping"}),
        (RequestCode.POP_MESSAGE, {"topic": "closed", "consumerGroup": "billing"}),
        (RequestCode.ACK_MESSAGE, {"topic": "%RETRY%shipping", "consumerGroup": "billing"}),
        (RequestCode.QUERY_MESSAGE, {"topic": "closed"}),
        (RequestCode.UNREGISTER_CLIENT, {"consumerGroup": "shipping"}),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "shipping"}),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "billing", "topic": "closed"}),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, {}),
        (RequestCode.UPDATE_BROKER_CONFIG, {}),
        (RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, {}),
        (RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {}),
        (RequestCode.AUTH_CREATE_USER, {}),
    ],
)
async def test_each_request_needs_its_right(
    served: tuple[RunningBroker, RawClient], code: int, fields: dict[str, str]
) -> None:
    answer = await ask(served[1], code, fields, ALICE)
    assert (answer.code, "needs" in answer.remark or "Need admin" in answer.remark) == (16, True), answer
    assert (await ask(served[1], code, fields, ADMIN)).code != 16


@pytest.fixture
async def served(tmp_path: Path) -> object:
    write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        yield broker, await broker.client()


async def test_a_changed_file_is_in_force_and_a_bad_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        client, access = await broker.client(), broker.broker.access
        write(tmp_path, ACCOUNTS.replace("orders=PUB", "parcels=PUB"))
        access.look()
        assert (await send(client, "orders", ALICE))[0] == 16
        assert await send(client, "parcels", ALICE) == (0, None)
        extra = "accounts: [{accessKey: bob-key1, secretKey: bob-secret, defaultTopicPerm: PUB}]\n"
        write(tmp_path, extra, "acl/team/more.yaml")
        access.look()
        assert await send(client, "parcels", AccessKeys("bob-key1", "bob-secret")) == (0, None)
        with caplog.at_level(logging.ERROR):
            write(tmp_path, "accounts: 7\n")
            access.look()
            access.look()
        assert caplog.text.count("accounts must be a list") == 1
        assert await send(client, "parcels", ALICE) == (0, None), "what was read before stays in force"
        runtime = await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO, {}, ADMIN)
        assert b'"aclError":"' in runtime.body and b"line 1: accounts must be a list" in runtime.body
        path.unlink()
        (tmp_path / "conf/acl/team/more.yaml").unlink()
        access.look()
        assert await send(client, "parcels", ALICE) == (0, None), "nor do deleted files let nobody in"
        write(tmp_path)
        access.look()
        runtime = await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO, {}, ADMIN)
        assert b"aclError" not in runtime.body


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "hold no account"), ("accounts: 7\n", "line 1: accounts must")]
)
async def test_the_start_is_refused_without_usable_accounts(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    if text is not None:
        write(tmp_path, text)
    with pytest.raises(AclFileError, match=reason):
        async with running(tmp_path, **ON):
            pass


async def test_an_administrator_edits_accounts_and_they_are_saved(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.chmod(0o600)
    carol = AccessKeys("carol-key", "carol-secret")
    change = {
        "accessKey": "carol-key",
        "secretKey": "carol-secret",
        "admin": "false",
        "topicPerms": "a=PUB,b=SUB",
    }
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        assert (await ask(client, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, change, ADMIN)).code == 0
        assert "carol-key" in path.read_text(), "the answer promises that it is saved"
        assert path.stat().st_mode & 0o777 == 0o600
        assert await send(client, "a", carol) == (0, None)
        change = {"accessKey": "carol-key", "secretKey": "carol-secret", "defaultTopicPerm": "PUB"}
        assert (await ask(client, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, change, ADMIN)).code == 0
        assert await send(client, "c", carol) == (0, None)
        white = {"globalWhiteAddrs": "192.0.2.{7,8},192.0.3.*"}
        assert (await ask(client, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, white, ADMIN)).code == 0
        broker.broker.access.look()
        answer = await ask(client, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, {}, ADMIN)
        config = AclConfig.from_body(answer.body)
        assert config.global_white_addrs == ["192.0.2.{7,8}", "192.0.3.*"]
        saved = config.plain_access_configs[-1]
        assert (saved.access_key, saved.topic_perms, saved.default_topic_perm) == (
            "carol-key",
            ["a=PUB", "b=SUB"],
            "PUB",
        )
        info = await ask(client, RequestCode.GET_BROKER_CLUSTER_ACL_INFO, {}, ALICE)
        assert (info.ext_fields["clusterName"], '"counter":3' in info.ext_fields["version"]) == (
            "DefaultCluster",
            True,
        )
        assert f'"{path}"' in info.ext_fields["allAclFileVersion"]
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        assert await send(client, "a", carol) == (0, None)
        assert (await ask(client, RequestCode.DELETE_ACL_CONFIG, {"accessKey": "carol-key"}, ADMIN)).code == 0
        assert await send(client, "a", carol) == (16, "No acl config for carol-key")
        assert "carol-key" not in path.read_text()


@pytest.mark.parametrize(
    ("code", "fields", "failure", "reason"),
    [
        (50, {"accessKey": "short", "secretKey": "12345678"}, 209, "accessKey=short has 5 characters"),
        (50, {"accessKey": "long-enough", "secretKey": "x"}, 209, "secretKey of accessKey=long-enough has 1"),
        (
            50,
            {"accessKey": "long-enough", "secretKey": "12345678", "topicPerms": "a"},
            209,
            "'a' is not name=perm",
        ),
        (
            50,
            {"accessKey": "long-enough", "secretKey": "12345678", "groupPerms": "a=X"},
            209,
            "permission 'X' is none",
        ),
        (
            50,
            {"accessKey": "long-enough", "secretKey": "12345678", "whiteRemoteAddress": "x"},
            209,
            "is no address",
        ),
        (51, {"accessKey": "unknown-key"}, 210, "no account has accessKey=unknown-key"),
        (53, {"globalWhiteAddrs": "nowhere"}, 211, "'nowhere' is no address"),
        (53, {"globalWhiteAddrs": "*", "aclFileFullPath": "/etc/passwd.yml"}, 211, "is no account file"),
    ],
)
async def test_a_bad_change_is_refused_and_named(
    served: tuple[RunningBroker, RawClient], code: int, fields: dict[str, str], failure: int, reason: str
) -> None:
    before = served[0].broker.access.plain
    assert before is not None
    table = before.table
    answer = await ask(served[1], code, fields, ADMIN)
    assert (answer.code, reason in (answer.remark or "")) == (failure, True), answer
    assert before.table is table


async def test_without_access_control_its_codes_are_not_served(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert await send(client, "orders", None) == (0, None)
        for code in range(50, 55):
            answer = await client.ask(code, {"accessKey": "rocketmq2", "globalWhiteAddrs": ""})
            assert (answer.code, "aclEnable is false" in (answer.remark or "")) == (3, True)


async def test_refusals_are_logged_once_a_minute_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path)
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        with caplog.at_level(logging.INFO):
            for _ in range(3):
                await send(client, "closed", ALICE)
            broker.broker.access.log_anew()
            await send(client, "closed", ALICE)
            change = {"accessKey": "carol-key", "secretKey": "carol-secret"}
            await ask(client, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, change, ADMIN)
            shown = await ask(client, RequestCode.GET_BROKER_CONFIG, {}, ADMIN)
        assert (
            caplog.text.count(
                "request denied code=310 host=127.0.0.1: No default permission for topic:closed"
            )
            == 2
        )
        assert "secret" not in caplog.text.replace("secretKey", "")
        assert b"aclEnable=true\n" in shown.body
    assert os.listdir(tmp_path / "conf") != []
