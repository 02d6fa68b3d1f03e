"""Unmodified Java clients use a broker that enforces TLS, and verify it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers import RemotingClientConfig, tls_context
from tests.support.apache_server import ApacheServer, Server, is_apache, is_by_hand
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.java_peer import RELEASES, JavaPeer, Jvm

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(400),
    # In the suite one release: the other takes a JVM of its own.
    pytest.mark.parametrize("release", RELEASES if is_by_hand() else RELEASES[:1], indirect=True),
]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def enforcing(tmp_path: Path, authority: Authority) -> Iterator[Server]:
    server = authority.issue("server")
    process: Server
    if is_apache():
        client = RemotingClientConfig(ssl_context=tls_context(authority.certificate, check_host_name=False))
        properties = authority.enforcing_properties(server)
        process = ApacheServer(tmp_path / "apache", properties=properties, client=client)
    else:
        settings = {**server.server_settings, "tls.server.mode": "enforcing"}
        process = BrokerProcess(tmp_path / "store", **settings)
    try:
        yield process.start()
    finally:
        process.stop()


def test_it_produces_and_consumes_by_tls(class_path: str, authority: Authority, enforcing: Server) -> None:
    where = ["--namesrv", enforcing.namesrv, "--topic", "Encrypted"]
    produce = ["produce", *where, "--count", "200", "--size", "3000"]
    consume = ["consume", *where, "--group", "encrypted", "--seconds", "120", "--expect", "200"]
    # In the JVM of other peers, which have no TLS.
    plain = JavaPeer(class_path, ["signed", *where, "--attempts", "send - - Encrypted"])
    jvm = Jvm(class_path, authority.trusting_properties)
    try:
        producer = JavaPeer(class_path, produce, jvm)
        assert producer.finish() == 0
        assert producer.failures() == []
        consumer = JavaPeer(class_path, consume, jvm)
        consumer.wait_for(lambda peer: len(peer.consumed) >= 200, "200 messages")
        assert {message.key for message in consumer.consumed} == {f"k{number}" for number in range(200)}
        assert plain.finish() == 0
        assert [line[:2] for line in plain.failures()] == [["FAILED", "0"]], "a plain connection is closed"
    finally:
        jvm.kill()
