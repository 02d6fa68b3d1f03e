"""Unmodified clients and mqadmin of 4.9.7 and 5.3.3 against a broker with access control of either generation.

Apache has accounts in 4.9.7 and users in 5.3.3: `python -m tests.peers.side_by_side` takes the release that has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import AccessKeys, sign
from consumers import MQAdmin, RemotingClientConfig
from tests.peers.test_apache_connection import ADMIN as NAME
from tests.peers.test_apache_connection import SECRET, SETTINGS
from tests.support import java_peer
from tests.support.apache_cluster import OLD_RELEASE, RELEASE
from tests.support.apache_server import ApacheServer, Server, is_apache
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer, Jvm
from tests.support.watched_broker import connect, read_answer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

ADMIN = AccessKeys(NAME, SECRET)
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
# What each attempt comes to on brokerd and on Apache: its result, or words of its refusal.
ACCOUNT_RESULTS = [
    "SEND_OK",
    "No default permission for topic:Closed",
    "Check signature failed for accessKey=alice-key",
    "No acl config for unknown-key",
    "No accessKey is configured",
    "1",
    "No default permission for group:shipping",
    "SEND_OK",
]
USER_RESULTS = [
    "SEND_OK",
    "User:alice-key has no permission to access Topic:Closed from 127.0.0.1, no matched policies.",
    "check signature failed.",
    "User:unknown-key is not found.",
    "username cannot be null.",
    "1",
    "User:alice-key has no permission to access Group:shipping from 127.0.0.1",
    "SEND_OK",
]
# What brokerd says beside that: the right that is missing.
MISSING = {
    "topic:Closed": "accessKey=alice-key needs PUB on it",
    "group:shipping": "accessKey=alice-key needs SUB on it",
    "Topic:Closed": "It needs Pub",
    "Group:shipping": "It needs Sub",
    "check signature failed.": "User:alice-key",
}
NO_PERMISSION = "CODE: 16"
# Apache's 4.9.7 answers SYSTEM_ERROR (docs/reference/acl.md).
APACHE_ACCOUNTS_REFUSE = "CODE: 1 "


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Server]:
    settings = {"aclEnable": "true"}
    client = RemotingClientConfig(keys=ADMIN)
    if is_apache():
        with serving(ApacheServer(tmp_path, settings, OLD_RELEASE, (), client, ACCOUNTS)) as broker:
            yield broker
        return
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_text(ACCOUNTS)
    with serving(BrokerProcess(tmp_path / "store", rocketmqHome=str(tmp_path), **settings)) as broker:
        yield broker


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Server]:
    settings = SETTINGS[RELEASE]
    client = RemotingClientConfig(keys=ADMIN)
    with serving(
        ApacheServer(tmp_path, settings, RELEASE, (), client)
        if is_apache()
        else BrokerProcess(tmp_path / "store", **settings)
    ) as broker:
        yield broker


def account_file(broker: Server, folder: Path) -> Path:
    return broker.plain_acl if isinstance(broker, ApacheServer) else folder / "conf/plain_acl.yml"


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


def mqadmin(jvm: Jvm, broker: Server, *lines: str) -> list[str]:
    """What mqadmin writes to each of the command lines, which are given the broker's address."""
    return java_peer.mqadmin("", *(f"{line} -b {broker.address}" for line in lines), jvm=jvm)


def ask(broker: Server, code: int, fields: dict[str, str], body: object = None) -> None:
    """As the administrator; it must succeed."""
    command = RemotingCommand.request(code, fields, b"" if body is None else orjson.dumps(body))
    sign(command, ADMIN)
    with connect(broker.port) as peer:
        peer.sendall(command.encode())
        answer = read_answer(peer)
    assert answer.code == 0, answer


def make_topics(broker: Server) -> None:
    async def create() -> None:
        async with MQAdmin([broker.namesrv], config=RemotingClientConfig(keys=ADMIN)) as admin:
            for topic in ("Orders", "Closed"):
                await admin.create_topic(broker.address, TopicConfig(topic, 1, 1))

    asyncio.run(create())


def check_attempts(jvm: Jvm, broker: Server, expected: list[str], refuses: str) -> None:
    peer = JavaPeer("", ["signed", "--namesrv", broker.namesrv, "--attempts", ",".join(ATTEMPTS)], jvm)
    assert peer.finish() == 0
    found = [line[2] for line in peer.lines if line[0] in ("DONE", "FAILED")]
    assert len(found) == len(expected)
    assert [text for text, words in zip(found, expected, strict=True) if words not in text] == []
    refusals = [line[2] for line in peer.failures()]
    assert len(refusals) == 5 and all(refuses in text for text in refusals), refusals
    if not is_apache():
        named = [(text, right) for text in found for what, right in MISSING.items() if what in text]
        assert len(named) >= 2 and [text for text, right in named if right not in text] == []


def consume_one(jvm: Jvm, broker: Server) -> None:
    keys = ["--access-key", "alice-key", "--secret-key", "alice-secret"]
    where = ["--namesrv", broker.namesrv, "--topic", "Orders", "--group", "billing"]
    peer = JavaPeer("", ["consume", *where, *keys, "--expect", "1", "--seconds", "100"], jvm)
    assert peer.finish() == 0
    assert len(peer.consumed) == 1


def test_accounts_decide_what_a_client_may(jvm: Jvm, accounts: Server) -> None:
    make_topics(accounts)
    check_attempts(jvm, accounts, ACCOUNT_RESULTS, APACHE_ACCOUNTS_REFUSE if is_apache() else NO_PERMISSION)
    consume_one(jvm, accounts)


def test_users_decide_what_a_client_may(jvm: Jvm, users: Server) -> None:
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
    check_attempts(jvm, users, USER_RESULTS, NO_PERMISSION)
    consume_one(jvm, users)


@pytest.mark.parametrize("release", ["4.9.7"], scope="session", indirect=True)
def test_mqadmin_edits_accounts(tmp_path: Path, accounts: Server, jvm: Jvm) -> None:
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
    assert "plain_acl.yml" in written[2] and "broker-a" in written[2]
    assert "CODE: 209" in written[4]
    assert is_apache() or "accessKey=short has 5 characters" in written[4]
    assert "carol-key" in written[5] and "[192.0.2.7]" in written[5] and "alice-key" not in written[5]
    saved = account_file(accounts, tmp_path).read_text()
    assert "accessKey: carol-key" in saved and "Closed=DENY" in saved and "192.0.2.7" in saved
    assert "alice-key" not in saved


@pytest.mark.parametrize("release", ["5.3.3"], scope="session", indirect=True)
def test_mqadmin_edits_users_and_policies(users: Server, jvm: Jvm) -> None:
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
