"""Unmodified Java clients use a brokerd that enforces TLS, and verify it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.java_peer import JavaPeer, Jvm

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]


@pytest.mark.parametrize("release", ["5.3.3"], scope="session", indirect=True)
def test_it_produces_and_consumes_by_tls(tmp_path: Path, class_path: str) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server")
    settings = {**server.server_settings, "tls.server.mode": "enforcing"}
    trusting = [
        "tls.enable=true",
        "tls.test.mode.enable=false",
        "tls.client.authServer=true",
        f"tls.client.trustCertPath={authority.certificate}",
    ]
    broker = BrokerProcess(tmp_path / "store", **settings).start()
    where = ["--namesrv", broker.namesrv, "--topic", "Encrypted"]
    produce = ["produce", *where, "--count", "200", "--size", "3000"]
    consume = ["consume", *where, "--group", "encrypted", "--seconds", "120", "--expect", "200"]
    jvm = Jvm(class_path, trusting)
    try:
        producer = JavaPeer(class_path, produce, jvm)
        assert producer.finish() == 0
        assert producer.failures() == []
        consumer = JavaPeer(class_path, consume, jvm)
        consumer.wait_for(lambda peer: len(peer.consumed) >= 200, "200 messages")
        assert {message.key for message in consumer.consumed} == {f"k{number}" for number in range(200)}
        assert "it does not use TLS" not in broker.output(), "no connection of theirs is plain"
    finally:
        jvm.kill()
        broker.stop()
