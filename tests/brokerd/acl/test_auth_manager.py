"""Users and policies of 5.x over real sockets; what Apache 5.3.3 was asked is asked here, and answered alike."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from brokerd.config import ConfigError
from brokerd.remoting.body.client import ConsumerData, HeartbeatData, SubscriptionData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, sign
from brokerd.tables.config_manager import TableUnreadable
from tests.brokerd.remoting.golden_frames import GoldenFrame, golden_frames
from tests.brokerd.running import RawClient, running, send_fields
from tests.support.broker_process import BrokerProcess
from tests.support.watched_broker import connect, read_answer

ADMIN = AccessKeys("rocketmq2", "12345678")
ALICE = AccessKeys("alice", "alice-secret")
ON = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"rocketmq2","password":"12345678"}',
}
HOST = "127.0.0.1"


async def ask(
    client: RawClient, code: int, fields: dict[str, str], keys: AccessKeys | None = ADMIN, body: object = None
) -> RemotingCommand:
    command = RemotingCommand.request(code, fields, b"" if body is None else orjson.dumps(body))
    if keys is not None:
        sign(command, keys)
    return await client.ask(code, command.ext_fields, command.body)


async def make_alice(client: RawClient, *entries: tuple[str, list[str], str]) -> None:
    user = {"username": "alice", "password": "alice-secret", "userType": "Normal"}
    assert (await ask(client, RequestCode.AUTH_CREATE_USER, {"username": "alice"}, body=user)).code == 0
    policies = [
        {"resource": resource, "actions": actions, "decision": word} for resource, actions, word in entries
    ]
    body = {"policies": [{"entries": policies}]}
    if entries:
        answer = await ask(client, RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, body=body)
        assert answer.code == 0, answer


async def send(client: RawClient, topic: str, keys: AccessKeys | None = ALICE) -> tuple[int, str | None]:
    answer = await ask(client, RequestCode.SEND_MESSAGE_V2, send_fields(topic), keys)
    return answer.code, answer.remark


async def test_each_reason_of_a_refusal_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        await make_alice(client, ("Topic:orders", ["Pub"], "Allow"), ("Topic:closed", ["All"], "Deny"))
        assert await send(client, "orders") == (0, None)
        assert await send(client, "orders", None) == (16, "username cannot be null.")
        assert await send(client, "orders", AccessKeys("bob", "x")) == (16, "User:bob is not found.")
        assert await send(client, "orders", AccessKeys("alice", "x")) == (
            16,
            "check signature failed. User:alice",
        )
        no_right = f"User:alice has no permission to access Topic:%s from {HOST}, "
        assert await send(client, "parcels") == (
            16,
            no_right % "parcels" + "no matched policies. It needs Pub",
        )
        assert await send(client, "closed") == (
            16,
            no_right % "closed" + "the decision is deny. It needs Pub",
        )
        update = {"userStatus": "disable"}
        assert (await ask(client, RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, body=update)).code == 0
        assert await send(client, "orders") == (16, "User:alice is disabled.")
        assert await send(client, "closed", ADMIN) == (0, None)


async def test_a_consumer_needs_its_group_and_topics(tmp_path: Path) -> None:
    group = ConsumerData(
        "billing", subscription_data_set=[SubscriptionData("orders"), SubscriptionData("%RETRY%billing")]
    )
    beat = orjson.loads(HeartbeatData("c", consumer_data_set=[group]).to_body())
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        await make_alice(client, ("Topic:orders", ["Sub"], "Allow"))
        answer = await ask(client, RequestCode.HEART_BEAT, {}, ALICE, beat)
        assert (answer.code, "access Group:billing" in (answer.remark or "")) == (16, True)
        entry = {"resource": "Group:bill*", "actions": ["Sub"], "decision": "Allow"}
        body = {"policies": [{"entries": [entry]}]}
        assert (
            await ask(client, RequestCode.AUTH_UPDATE_ACL, {"subject": "User:alice"}, body=body)
        ).code == 0
        assert (await ask(client, RequestCode.HEART_BEAT, {}, ALICE, beat)).code == 0
        fields = {"consumerGroup": "billing", "topic": "%RETRY%billing", "queueId": "0"}
        assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, fields, ALICE)).code != 16


async def test_users_only_are_checked_without_authorization(tmp_path: Path) -> None:
    async with running(
        tmp_path, **{**ON, "authorizationEnabled": "false", "authenticationWhitelist": "28"}
    ) as broker:
        client = await broker.client()
        await make_alice(client)
        assert await send(client, "anything") == (0, None)
        assert (await send(client, "anything", None))[0] == 16
        assert (await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO, {}, None)).code == 0
        making = {"username": "root2"}, ALICE, {"password": "secret-2", "userType": "super"}
        answer = await ask(client, RequestCode.AUTH_CREATE_USER, making[0], making[1], making[2])
        assert (answer.code, answer.remark) == (1, "The super user can only be create by super user")
        answer = await ask(client, RequestCode.AUTH_DELETE_USER, {"username": "rocketmq2"}, ALICE)
        assert (answer.code, answer.remark) == (16, "The super user can only be update by super user")


def history(version: str, is_signed: bool) -> list[tuple[GoldenFrame, GoldenFrame]]:
    """What mqadmin and clients asked Apache about users and policies, with the answers."""
    frames = {frame.name: frame for frame in golden_frames() if frame.version == version}
    pairs = []
    for frame in frames.values():
        response = frames.get(frame.name.replace(".request.", ".response."))
        fields = frame.header.get("extFields") or {}
        if (
            frame.is_request
            and 3001 <= frame.code <= 3010
            and ("AccessKey" in fields) is is_signed
            and response
        ):
            pairs.append((frame, response))
    return pairs


async def test_it_answers_as_apache_did(tmp_path: Path) -> None:
    """What was captured of an administrator, in the order it was asked."""
    pairs = sorted(history("5.3.3", True), key=lambda pair: int(pair[0].header["opaque"]))
    assert {request.code for request, _ in pairs} == set(range(3001, 3011))
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        for request, response in pairs:
            asked, expected = request.command(), response.command()
            answer = await client.ask(asked.code, asked.ext_fields, asked.body)
            assert answer.code == expected.code, request.name
            if expected.code:
                assert answer.remark == expected.remark, request.name
            read = [json.loads(body) if body else None for body in (answer.body, expected.body)]
            assert read[0] == read[1], request.name


async def test_lists_are_filtered(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        await make_alice(client, ("Topic:orders", ["Pub"], "Allow"), ("Group:billing", ["Sub"], "Allow"))
        users = await ask(client, RequestCode.AUTH_LIST_USER, {"filter": "ali"})
        alice = {
            "username": "alice",
            "password": "alice-secret",
            "userType": "Normal",
            "userStatus": "enable",
        }
        assert json.loads(users.body) == [alice]
        assert (await ask(client, RequestCode.AUTH_LIST_USER, {"filter": "bob"})).body == b""
        acls = await ask(
            client, RequestCode.AUTH_LIST_ACL, {"subjectFilter": "alice", "resourceFilter": "order"}
        )
        assert [entry["resource"] for entry in json.loads(acls.body)[0]["policies"][0]["entries"]] == [
            "Topic:orders"
        ]
        assert (await ask(client, RequestCode.AUTH_LIST_ACL, {"subjectFilter": "bob"})).body == b""
        denied = await ask(client, RequestCode.AUTH_LIST_USER, {}, ALICE)
        assert (denied.code, "access Cluster:DefaultCluster" in (denied.remark or "")) == (16, True)


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer"),
    [
        (3001, {"username": ""}, {"password": "x"}, (29, "The username is blank")),
        (3001, {"username": "bob"}, {"userType": "Normal"}, (16, "password can not be blank")),
        (
            3001,
            {"username": "bob"},
            {"password": "x", "userType": "King"},
            (29, "userType 'King' is none of Super, Normal"),
        ),
        (3002, {"username": "bob"}, {"password": "x"}, (16, "The user is not exist")),
        (3006, {"subject": "User:rocketmq2"}, {"policies": []}, (16, "The body of acl is null")),
        (
            3006,
            {"subject": "Role:x"},
            {"policies": [{"entries": []}]},
            (29, "subject 'Role:x' is not User:name"),
        ),
        (
            3006,
            {"subject": "User:bob"},
            {"policies": [{"entries": []}]},
            (16, "The subject of User:bob is not exist."),
        ),
        (
            3006,
            {"subject": "User:rocketmq2"},
            {"policies": [{"entries": []}]},
            (16, "The policy entries is empty."),
        ),
        (3008, {"subject": "User:rocketmq2"}, None, (16, "The acl is not exist.")),
        (3008, {"subject": "User:bob"}, None, (16, "The subject is not exist.")),
    ],
)
async def test_a_bad_change_is_refused_and_named(
    tmp_path: Path, code: int, fields: dict[str, str], body: object, answer: tuple[int, str]
) -> None:
    async with running(tmp_path, **ON) as broker:
        response = await ask(await broker.client(), code, fields, body=body)
        assert (response.code, response.remark) == answer


def test_users_and_policies_outlive_a_kill(tmp_path: Path) -> None:
    """What was answered is on the disk; passwords are readable by the broker's owner only."""
    broker = BrokerProcess(tmp_path / "store", **ON).start()
    try:
        steps: list[tuple[int, dict[str, str], AccessKeys, object]] = [
            (3001, {"username": "alice"}, ADMIN, {"password": "alice-secret"}),
            (
                3006,
                {"subject": "User:alice"},
                ADMIN,
                {
                    "policies": [
                        {"entries": [{"resource": "Topic:a*", "actions": ["Pub"], "decision": "Allow"}]}
                    ]
                },
            ),
        ]
        for code, fields, keys, body in steps:
            assert process_ask(broker, code, fields, keys, orjson.dumps(body)).code == 0
            broker.kill()
            broker.start()
        assert process_ask(broker, 310, send_fields("apples"), ALICE).code == 0
        assert process_ask(broker, 310, send_fields("pears"), ALICE).code == 16
        assert (tmp_path / "store/config/users.json").stat().st_mode & 0o777 == 0o600
        assert "alice-secret" not in broker.output()
        assert "12345678" not in broker.output()
    finally:
        broker.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_slave_takes_over_the_tables_of_a_master_that_checks_it(tmp_path: Path) -> None:
    keys = '{"accessKey":"inner-client","secretKey":"inner-secret"}'
    master = BrokerProcess(tmp_path / "master", **ON, innerClientAuthenticationCredentials=keys).start()
    settings = {"brokerRole": "SLAVE", "brokerId": 1, "namesrvAddr": master.namesrv}
    slave = BrokerProcess(tmp_path / "slave", **settings).start()
    topic = {"topic": "made", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    topics = tmp_path / "slave/config/topics.json"
    try:
        assert process_ask(master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic, ADMIN).code == 0
        wait_for(lambda: "tables not taken over" in slave.output())
        assert "username cannot be null." in slave.output()
        assert '"made"' not in topics.read_text()
        slave.stop()
        slave.settings["innerClientAuthenticationCredentials"] = keys
        slave.start()
        wait_for(lambda: '"made"' in topics.read_text())
    finally:
        slave.stop()
        master.stop()


def process_ask(
    broker: BrokerProcess, code: int, fields: dict[str, str], keys: AccessKeys, body: bytes = b""
) -> RemotingCommand:
    command = RemotingCommand.request(code, fields, body)
    sign(command, keys)
    with connect(broker.port) as peer:
        peer.sendall(command.encode())
        return read_answer(peer)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"authenticationEnabled": "true"}, "no super user exists"),
        (
            {"initAuthenticationUser": '{"username":"x"}'},
            'initAuthenticationUser: takes {"username":"…","password":"…"}',
        ),
        ({"initAuthenticationUser": "hidden-one"}, "initAuthenticationUser: takes"),
        ({"innerClientAuthenticationCredentials": "[]"}, "innerClientAuthenticationCredentials: takes"),
    ],
)
async def test_the_start_is_refused_without_usable_users(
    tmp_path: Path, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        async with running(tmp_path, **settings):
            pass
    assert reason in str(error.value)
    assert "hidden-one" not in str(error.value)


async def test_a_damaged_table_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/acls.json").write_text('{"acls":[{"subject":"User:a","policies":[]}]}')
    with pytest.raises(TableUnreadable):
        async with running(tmp_path, **ON):
            pass


async def test_secrets_of_settings_are_hidden(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        shown = await ask(await broker.client(), RequestCode.GET_BROKER_CONFIG, {})
        assert b"initAuthenticationUser=******\n" in shown.body
        assert b"12345678" not in shown.body
