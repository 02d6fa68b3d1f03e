"""Unmodified clients and mqadmin of 4.9.7 and 5.3.3 against a brokerd with access control of either generation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, sign
from tests.support import java_peer
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer, Jvm
from tests.support.watched_broker import connect, read_answer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

ADMIN = AccessKeys("rocketmq2", "12345678")
ACCOUNTS = """\
accounts:
- accessKey: rocketmq2
  secretKey: 12345678
  admin: true
- accessKey: alice-key
  secretKey: alice-secret
  topicPerms: [Orders=PUB|SUB]
  groupPerms: [billing=SUB]
"""
USERS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"rocketmq2","password":"12345678"}',
}
ATTEMPTS = [
    "send alice-key alice-secret Orders",
    "send alice-key alice-secret Closed",
    "send alice-key wrong-secret Orders",
    "send unknown-key some-secret Orders",
    "send - - Orders",
    "pull alice-key alice-secret billing Orders",
    "pull alice-key alice-secret shipping Orders",
    "send rocketmq2 12345678 Closed",
]
# What each attempt comes to: its result, or words of its refusal.
ACCOUNT_RESULTS = [
    "SEND_OK",
    "No default permission for topic:Closed: accessKey=alice-key needs PUB on it",
    "Check signature failed for accessKey=alice-key",
    "No acl config for unknown-key",
    "No accessKey is configured",
    "1",
    "No default permission for group:shipping: accessKey=alice-key needs SUB on it",
    "SEND_OK",
]
USER_RESULTS = [
    "SEND_OK",
    "User:alice-key has no permission to access Topic:Closed from 127.0.0.1, no matched policies. It needs Pub",
    "check signature failed. User:alice-key",
    "User:unknown-key is not found.",
    "username cannot be null.",
    "1",
    "User:alice-key has no permission to access Group:shipping from 127.0.0.1",
    "SEND_OK",
]


@contextmanager
def broker_with(root: Path, **settings: str) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(root / "store", rocketmqHome=str(root), **settings).start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[BrokerProcess]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_text(ACCOUNTS)
    with broker_with(tmp_path, aclEnable="true") as broker:
        yield broker


@pytest.fixture
def users(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_with(tmp_path, **USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory, class_path: str) -> Iterator[Jvm]:
    """One for each release, whose mqadmin signs as the administrator."""
    home = tmp_path_factory.mktemp("tools")
    (home / "conf").mkdir()
    (home / "conf/tools.yml").write_text("accessKey: rocketmq2\nsecretKey: '12345678'\n")
    (home / "conf/logback_tools.xml").write_text('<configuration><root level="OFF"/></configuration>')
    jvm = Jvm(class_path, [f"rocketmq.home.dir={home}"])
    yield jvm
    jvm.kill()


def mqadmin(jvm: Jvm, broker: BrokerProcess, *lines: str) -> list[str]:
    """What mqadmin writes to each of the command lines, which are given the broker's address."""
    return java_peer.mqadmin("", *(f"{line} -b {broker.address}" for line in lines), jvm=jvm)


def ask(broker: BrokerProcess, code: int, fields: dict[str, str], body: object = None) -> None:
    """As the administrator; it must succeed."""
    command = RemotingCommand.request(code, fields, b"" if body is None else orjson.dumps(body))
    sign(command, ADMIN)
    with connect(broker.port) as peer:
        peer.sendall(command.encode())
        answer = read_answer(peer)
    assert answer.code == 0, answer


def make_topics(broker: BrokerProcess) -> None:
    for topic in ("Orders", "Closed"):
        fields = {"topic": topic, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def check_attempts(jvm: Jvm, broker: BrokerProcess, expected: list[str]) -> None:
    peer = JavaPeer("", ["signed", "--namesrv", broker.namesrv, "--attempts", ",".join(ATTEMPTS)], jvm)
    assert peer.finish() == 0
    found = [line[2] for line in peer.lines if line[0] in ("DONE", "FAILED")]
    assert len(found) == len(expected)
    assert [text for text, words in zip(found, expected, strict=True) if words not in text] == []
    refusals = [line[2] for line in peer.failures()]
    assert len(refusals) == 5 and all("CODE: 16" in text for text in refusals), refusals


def consume_one(jvm: Jvm, broker: BrokerProcess) -> None:
    keys = ["--access-key", "alice-key", "--secret-key", "alice-secret"]
    where = ["--namesrv", broker.namesrv, "--topic", "Orders", "--group", "billing"]
    peer = JavaPeer("", ["consume", *where, *keys, "--expect", "1", "--seconds", "100"], jvm)
    assert peer.finish() == 0
    assert len(peer.consumed) == 1


def test_accounts_decide_what_a_client_may(jvm: Jvm, accounts: BrokerProcess) -> None:
    make_topics(accounts)
    check_attempts(jvm, accounts, ACCOUNT_RESULTS)
    consume_one(jvm, accounts)


def test_users_decide_what_a_client_may(jvm: Jvm, users: BrokerProcess) -> None:
    user = {"username": "alice-key", "password": "alice-secret"}
    ask(users, RequestCode.AUTH_CREATE_USER, {"username": "alice-key"}, user)
    entries = [
        {"resource": resource, "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": ["127.0.0.1"]}
        for resource in ("Topic:Orders", "Group:billing")
    ]
    ask(
        users,
        RequestCode.AUTH_CREATE_ACL,
        {"subject": "User:alice-key"},
        {"policies": [{"entries": entries}]},
    )
    make_topics(users)
    check_attempts(jvm, users, USER_RESULTS)
    consume_one(jvm, users)


@pytest.mark.parametrize("release", ["4.9.7"], scope="session", indirect=True)
def test_mqadmin_edits_accounts(tmp_path: Path, accounts: BrokerProcess, jvm: Jvm) -> None:
    carol = "-a carol-key -s carol-secret -i DENY -u SUB -t Orders=PUB,Closed=DENY -g billing=SUB -m false"
    written = mqadmin(
        jvm,
        accounts,
        f"updateAclConfig {carol}",
        "updateGlobalWhiteAddr -g 192.0.2.7",
        "clusterAclConfigVersion",
        "deleteAclConfig -a alice-key",
        "updateAclConfig -a short -s carol-secret -m false",
        "getAclConfig",
    )
    assert all(f"{accounts.address} success" in text for text in (written[0], written[1], written[3])), (
        written
    )
    assert "plain_acl.yml" in written[2] and "DefaultCluster" in written[2]
    assert "accessKey=short has 5 characters" in written[4]
    assert "carol-key" in written[5] and "[192.0.2.7]" in written[5] and "alice-key" not in written[5]
    saved = (tmp_path / "conf/plain_acl.yml").read_text()
    assert "accessKey: carol-key" in saved and "Closed=DENY" in saved and "192.0.2.7" in saved
    assert "alice-key" not in saved


@pytest.mark.parametrize("release", ["5.3.3"], scope="session", indirect=True)
def test_mqadmin_edits_users_and_policies(users: BrokerProcess, jvm: Jvm) -> None:
    alice = "-s User:alice-key"
    written = mqadmin(
        jvm,
        users,
        "createUser -u alice-key -p alice-secret -t Normal",
        f"createAcl {alice} -r Topic:Orders,Group:billing -a Pub,Sub -d Allow -i 127.0.0.1",
        "listUser",
        f"getAcl {alice}",
        f"updateAcl {alice} -r Topic:Orders -a Pub -d Deny",
        f"deleteAcl {alice} -r Group:billing",
        "listAcl",
        "updateUser -u alice-key -s disable",
        "getUser -u alice-key",
        "deleteUser -u alice-key",
        "listUser",
        "createUser -u rocketmq2 -p another-secret",
    )
    changes = [written[index] for index in (0, 1, 4, 5, 7, 9)]
    assert all("success" in text for text in changes), changes
    assert "rocketmq2" in written[2] and "alice-key" in written[2]
    assert all(word in written[3] for word in ("Topic:Orders", "Group:billing", "127.0.0.1", "Allow"))
    assert "Deny" in written[6] and "Group:billing" not in written[6]
    assert "disable" in written[8]
    assert "alice-key" not in written[10]
    assert "The user is existed" in written[11]
