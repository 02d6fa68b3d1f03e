"""Clients by TLS against a brokerd that enforces it and verifies clients: what works, and what each refusal says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from consumers import (
    BrokerUnavailable,
    ClientConfig,
    ConsumeFromWhere,
    ConsumeStatus,
    InvalidClientConfig,
    MQAdmin,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    RemotingClientConfig,
    tls_context,
)
from consumers.__main__ import parse_arguments, tls_of
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority, Issued
from tests.support.documented import example


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("client")


@pytest.fixture(scope="module")
def brokerd(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        **authority.issue("server").server_settings,
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(authority.certificate),
    }
    process = BrokerProcess(tmp_path_factory.mktemp("tls") / "store", **settings).start()
    yield process
    process.stop()


def context_of(authority: Authority, issued: Issued, *, check_host_name: bool = True) -> ssl.SSLContext:
    return tls_context(
        authority.certificate,
        check_host_name=check_host_name,
        certificate_file=issued.certificate,
        key_file=issued.key,
    )


async def refusal(namesrv: str, context: ssl.SSLContext | None) -> str:
    async with MQAdmin(namesrv, config=RemotingClientConfig(ssl_context=context)) as admin:
        with pytest.raises(BrokerUnavailable) as refused:
            await admin.cluster_info()
    return str(refused.value)


async def test_producer_consumer_and_admin_work_by_tls(
    brokerd: BrokerProcess, authority: Authority, issued: Issued
) -> None:
    remoting = RemotingClientConfig(ssl_context=context_of(authority, issued))
    client = ClientConfig(remoting=remoting)
    bodies: set[bytes] = set()
    is_complete = asyncio.Event()

    async def consume(messages, context) -> ConsumeStatus:  # type: ignore[no-untyped-def]
        bodies.update(message.decoded_body() for message in messages)
        if len(bodies) == 20:
            is_complete.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with MQAdmin(brokerd.namesrv, config=remoting) as admin:
        await admin.create_topic(
            brokerd.address, TopicConfig("orders", read_queue_nums=4, write_queue_nums=4)
        )
    config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, client=client)
    async with (
        Producer("shop", brokerd.namesrv, config=ProducerConfig(client=client)) as producer,
        PushConsumer("billing", brokerd.namesrv, consume, {"orders": "*"}, config=config),
    ):
        sent = {b"%d" % number * 10_000 for number in range(10, 30)}
        for body in sent:
            await producer.send(Message("orders", body))
        await asyncio.wait_for(is_complete.wait(), 60)
    assert bodies == sent


async def test_the_example_of_the_documentation_runs(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**authority.issue("documented").server_settings, "tls.server.mode": "enforcing"}
    broker = BrokerProcess(tmp_path / "store", **settings).start()
    try:
        await example("consumers.md", "TLS")(broker.namesrv, str(authority.certificate))
    finally:
        broker.stop()
    assert capsys.readouterr().out == "SEND_OK\n"


async def test_a_refused_connection_is_explained(
    brokerd: BrokerProcess, authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    said = await refusal(brokerd.namesrv, context_of(other, issued))
    assert "cannot connect: its certificate is refused: self-signed certificate in certificate chain" in said
    assert "it closed the connection" in await refusal(brokerd.namesrv, None)
    said = await refusal(brokerd.namesrv, tls_context(authority.certificate))
    assert "connection lost" in said


async def test_the_check_of_the_host_name_can_be_left_out(
    brokerd: BrokerProcess, authority: Authority, issued: Issued
) -> None:
    """The certificate names 127.0.0.1 alone."""
    namesrv = f"localhost:{brokerd.namesrv_port}"
    said = await refusal(namesrv, context_of(authority, issued))
    assert "its certificate is refused: Hostname mismatch, certificate is not valid for 'localhost'" in said
    context = context_of(authority, issued, check_host_name=False)
    async with MQAdmin(namesrv, config=RemotingClientConfig(ssl_context=context)) as admin:
        assert "broker-a" in (await admin.cluster_info()).broker_addr_table


async def test_it_works_in_uvloop_too(brokerd: BrokerProcess, authority: Authority, issued: Issued) -> None:
    uvloop = pytest.importorskip("uvloop")
    config = RemotingClientConfig(ssl_context=context_of(authority, issued))

    async def names() -> list[str]:
        async with MQAdmin(brokerd.namesrv, config=config) as admin:
            return list((await admin.cluster_info()).broker_addr_table)

    assert await asyncio.to_thread(uvloop.run, names()) == ["broker-a"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda a, i: tls_context("/nowhere.pem"), "/nowhere.pem: No such file"),
        (lambda a, i: tls_context(i.key), "client.key holds no certificate"),
        (lambda a, i: tls_context(a.certificate, key_file=i.key), "has no certificate file"),
        (
            lambda a, i: tls_context(certificate_file=i.certificate),
            "the key inside are no certificate with its",
        ),
        (lambda a, i: tls_context(certificate_file=a.certificate, key_file=i.key), "KEY_VALUES_MISMATCH"),
    ],
)
def test_a_wrong_file_is_named(
    authority: Authority, issued: Issued, make: Callable[[Authority, Issued], ssl.SSLContext], says: str
) -> None:
    with pytest.raises(InvalidClientConfig, match=says):
        make(authority, issued)


def test_the_command_takes_its_options(authority: Authority, issued: Issued) -> None:
    run = ["run", "module:handler", "--group", "g", "--topic", "t"]
    assert tls_of(parse_arguments(run, "x:1")) is None
    context = tls_of(parse_arguments([*run, "--tls"], "x:1"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    options = ["--tls-ca", str(authority.certificate), "--tls-any-host"]
    context = tls_of(parse_arguments([*run, *options], "x:1"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    with pytest.raises(InvalidClientConfig, match="/nowhere"):
        tls_of(parse_arguments([*run, "--tls-certificate", "/nowhere"], "x:1"))
