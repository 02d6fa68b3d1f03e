"""Our client with brokers that take TLS and signed requests alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from consumers import (
    AccessKeys,
    BrokerUnavailable,
    ClientConfig,
    MessageNotSent,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    Producer,
    ProducerConfig,
    PushConsumer,
    RemotingClientConfig,
    tls_context,
)
from tests.peers.our_client.world import Reader, config, expected, send_numbered, until
from tests.peers.test_apache_connection import ADMIN, PLAIN_ACL, SECRET, SETTINGS
from tests.support.apache_server import APACHE_RELEASES, ApacheServer, server_kind
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority

KEYS = AccessKeys(ADMIN, SECRET)


@dataclass(frozen=True, slots=True)
class Secured:
    namesrv: str
    address: str
    certificate: Path

    def client(self, keys: AccessKeys | None = KEYS, *, uses_tls: bool = True) -> ClientConfig:
        context = tls_context(self.certificate, check_host_name=False) if uses_tls else None
        return ClientConfig(remoting=RemotingClientConfig(ssl_context=context, keys=keys))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    server = authority.issue("server")
    release = APACHE_RELEASES.get(server_kind())
    if release is None:
        (folder / "conf").mkdir()
        (folder / "conf/plain_acl.yml").write_text(PLAIN_ACL)
        settings = {**server.server_settings, "tls.server.mode": "enforcing", "aclEnable": "true"}
        process = BrokerProcess(folder / "store", rocketmqHome=str(folder), **settings).start()
        yield Secured(process.namesrv, process.address, authority.certificate)
        process.stop()
        return
    context = tls_context(authority.certificate, check_host_name=False)
    client = RemotingClientConfig(ssl_context=context, keys=KEYS)
    properties = authority.enforcing_properties(server)
    theirs = ApacheServer(folder / "apache", SETTINGS[release], release, properties, client, PLAIN_ACL)
    yield Secured(theirs.namesrv, theirs.start().address, authority.certificate)
    theirs.stop()


async def create(secured: Secured, topic: str) -> None:
    async with MQAdmin([secured.namesrv], config=secured.client().remoting) as admin:
        await admin.create_topic(secured.address, TopicConfig(topic, read_queue_nums=4, write_queue_nums=4))


async def test_it_produces_and_consumes_by_tls(secured: Secured) -> None:
    await create(secured, "Encrypted")
    reader, client = Reader(), secured.client()
    async with (
        PushConsumer("encrypted", secured.namesrv, reader, {"Encrypted": "*"}, config=config(client=client)),
        Producer(
            "senders", secured.namesrv, ProducerConfig(client=client, send_timeout_ms=30_000)
        ) as producer,
    ):
        await send_numbered(producer, "Encrypted", 200)
        await until(lambda: set(reader.keys) == expected(200))


@pytest.mark.parametrize("wrong", ["plain", "unsigned", "secret", "key"])
async def test_what_is_refused_says_why(secured: Secured, wrong: str) -> None:
    await create(secured, "Refused")
    clients = {
        "plain": secured.client(uses_tls=False),
        "unsigned": secured.client(None),
        "secret": secured.client(AccessKeys(ADMIN, "wrong-secret")),
        "key": secured.client(AccessKeys("nobody-here", SECRET)),
    }
    settings = ProducerConfig(client=clients[wrong], retry_times_when_send_failed=0)
    async with Producer("refused", secured.namesrv, settings) as producer:
        with pytest.raises((MQBrokerError, MQClientError)) as refusal:
            await send_numbered(producer, "Refused", 1)
    error = refusal.value
    if wrong == "plain":
        assert isinstance(error, BrokerUnavailable | MessageNotSent | MQClientError)
    else:
        words = {
            "unsigned": "accessKey|username",
            "secret": "signature",
            "key": "nobody-here|acl config|not found",
        }
        assert any(word in str(error) for word in words[wrong].split("|")), error
