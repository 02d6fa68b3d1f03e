"""TLS and plain on one port: real clients of the ssl module, cut handshakes, modes, client certificates, bad files."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import ssl
import weakref
from pathlib import Path

import pytest

from brokerd.config import TlsConfig
from brokerd.connections import tls
from brokerd.connections.server import WRITE_HIGH_BYTES
from brokerd.connections.tls import TlsContexts
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.tables.topic_config import topic_config
from tests.brokerd.running import RunningBroker, running, send_fields
from tests.support.certificates import Authority, Issued

WITHIN_S = 60


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Lines of warnings, without what differs between two runs before the first colon and space."""
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    return [line.partition(": ")[2] for line in lines]


def request(opaque: int, body: bytes = b"", code: int = RequestCode.GET_BROKER_CONFIG) -> bytes:
    command = RemotingCommand.request(code, {}, body)
    command.opaque = opaque
    return command.encode()


class RecordClient:
    """A TLS client whose records a test cuts, holds back or damages before they are sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext):
        self.reader, self.writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    @classmethod
    async def connect(cls, broker: RunningBroker, context: ssl.SSLContext) -> RecordClient:
        host, _, port = broker.controller.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)), context)

    def flight(self, received: bytes = b"") -> bytes:
        """Take in what the server sent; return the next bytes of the handshake."""
        self._incoming.write(received)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    def take(self) -> bytes:
        return self._outgoing.read()

    async def shake_hands(self) -> None:
        self.writer.write(self.flight())
        while self._tls.version() is None or not self._is_done():
            self.writer.write(self.flight(await self.reader.read(65_536)))

    def _is_done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def records(self, data: bytes) -> bytes:
        assert self._tls.write(data) == len(data)
        return self._outgoing.read()

    async def read_until(self, wanted: bytes) -> int:
        """Decrypt until `wanted` has come; return how many bytes that were."""
        count, last = 0, b""
        while wanted not in last:
            try:
                part = self._tls.read(65_536)
            except ssl.SSLWantReadError:
                data = await asyncio.wait_for(self.reader.read(65_536), WITHIN_S)
                assert data, f"no {wanted!r} in {count} bytes"
                self._incoming.write(data)
            else:
                assert part, f"it ended the connection behind {count} bytes"
                count += len(part)
                last = last[-100:] + part
        return count

    async def end(self) -> None:
        await asyncio.wait_for(self.reader.read(), WITHIN_S)
        self.writer.close()


async def test_it_serves_plain_and_tls_on_each_port(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        context = authority.client_context()
        for connect in (broker.client, broker.namesrv_client):
            encrypted, plain = await connect(context), await connect()
            for opaque_code in (9999, 9998):
                for client in (encrypted, plain):
                    answer = await client.ask(opaque_code)
                    assert answer.remark == f" request type {opaque_code} not supported"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_it_carries_the_largest_messages_both_ways(
    tmp_path: Path, authority: Authority, server: Issued, version: ssl.TLSVersion
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    async with running(tmp_path, mappedFileSizeCommitLog=str(5 << 20), **server.server_settings) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        client = await broker.client(context)
        body = bytes(range(256)) * (15 << 10)
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), body)
        assert sent.code == 0
        stored = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})
        assert body in stored.body


async def test_a_handshake_may_come_in_two_pieces_cut_anywhere(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    """Both flights of the client, every byte as the place of the cut; the request follows the last one at once."""
    context = authority.client_context()
    offered = TlsContexts(
        TlsConfig(server_cert_path=str(server.certificate), server_key_path=str(server.key))
    )
    assert offered.server is not None
    sizes = [517, 80]  # at least; the loop ends by itself
    for flight in range(2):
        cut = 1
        while True:
            socket, above = Socket(), Above()
            client = RecordClient(None, None, context)  # type: ignore[arg-type]
            layer = tls.TlsLayer(socket, above, offered.server)  # type: ignore[arg-type]
            flights = [client.flight()]
            if flight == 0:
                feed(layer, flights[0], cut)
            else:
                layer.data_received(flights[0])
            flights.append(client.flight(socket.taken()) + client.records(b"the request"))
            if flight == 1:
                feed(layer, flights[1], cut)
            else:
                layer.data_received(flights[1])
            assert (b"".join(above.received), above.transports) == (b"the request", [layer]), (flight, cut)
            layer.connection_lost(None)
            cut += 1
            if cut == len(flights[flight]):
                break
        assert cut >= sizes[flight]


async def test_a_closed_connection_leaves_nothing_behind(authority: Authority, server: Issued) -> None:
    """Without the garbage collector: OpenSSL's memory of many short connections would pile up until it runs."""
    offered = TlsContexts(
        TlsConfig(server_cert_path=str(server.certificate), server_key_path=str(server.key))
    )
    assert offered.server is not None
    client = RecordClient(None, None, authority.client_context())  # type: ignore[arg-type]
    socket, above = Socket(), Above()
    layer = tls.TlsLayer(socket, above, offered.server)  # type: ignore[arg-type]
    layer.data_received(client.flight())
    layer.data_received(client.flight(socket.taken()))
    assert above.transports == [layer]
    left = weakref.ref(layer)
    gc.disable()
    try:
        layer.connection_lost(None)
        del layer, above
        assert left() is None
    finally:
        gc.enable()


class Socket(asyncio.Transport):
    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written.append(bytes(data))

    def taken(self) -> bytes:
        taken, self._written = b"".join(self._written), []
        return taken

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Above:
    """The connection above TLS."""

    remote_address = ("127.0.0.1", 1)

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.transports: list[asyncio.Transport] = []

    def secured(self, transport: asyncio.Transport) -> None:
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        pass


def feed(layer: tls.TlsLayer, data: bytes, cut: int) -> None:
    layer.data_received(data[:cut])
    layer.data_received(data[cut:])


async def test_a_client_may_leave_at_any_byte_of_its_handshake(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    context = authority.client_context()
    async with running(tmp_path, **server.server_settings) as broker:
        good = await broker.client(context)
        hello = RecordClient(None, None, context).flight()  # type: ignore[arg-type]
        for cut in range(1, len(hello) + 1, 3):
            _, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
            writer.write(hello[:cut])
            writer.close()
        connections = broker.controller._broker_server.connections
        async with asyncio.timeout(WITHIN_S):
            assert (await good.ask(9999)).code == 3
            while len(connections) > 1:
                await asyncio.sleep(0.01)


async def test_a_half_sent_record_waits_for_its_rest(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        client = await RecordClient.connect(broker, authority.client_context())
        await client.shake_hands()
        record = client.records(request(1, code=9999))
        for byte in record:
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        await client.read_until(b"not supported")
        client.writer.close()


async def test_an_unfinished_request_counts_as_that_of_a_plain_client(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        client = await broker.client(authority.client_context())
        client.write(request(1, b"x" * 300_000)[:200_000])
        port = broker.controller._broker_server
        async with asyncio.timeout(WITHIN_S):
            while port.unfinished_bytes != 200_000:
                await asyncio.sleep(0.005)
        for connection in list(port.connections):
            connection.give_up()
        await asyncio.wait_for(client.is_closed.wait(), WITHIN_S)


async def test_a_client_that_does_not_read_is_not_read_from(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    count, size = 120, 200_000
    async with running(tmp_path, **server.server_settings) as broker:
        sender = await broker.client(authority.client_context())
        assert (await sender.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * size)).code == 0
        client = await RecordClient.connect(broker, authority.client_context())
        await client.shake_hands()
        for opaque in range(count):
            command = RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})
            command.opaque = opaque
            client.writer.write(client.records(command.encode()))
            await client.writer.drain()
            await asyncio.sleep(0.001)
        unread = max(each.unread_bytes for each in broker.controller._broker_server.connections)
        assert WRITE_HIGH_BYTES / 2 < unread < 1.5 * WRITE_HIGH_BYTES
        assert (await sender.ask(9999)).code == 3
        async with asyncio.timeout(WITHIN_S):
            assert await client.read_until(b'"opaque":%d,' % (count - 1)) > (count - 1) * size
        client.writer.close()


async def test_a_damaged_record_closes_its_connection_only(
    tmp_path: Path, authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        good = await broker.client(authority.client_context())
        bad = await RecordClient.connect(broker, authority.client_context())
        await bad.shake_hands()
        record = bytearray(bad.records(request(1)))
        record[-1] ^= 1
        with caplog.at_level(logging.WARNING):
            bad.writer.write(record)
            await bad.end()
        assert sum("a TLS record failed" in line.getMessage() for line in caplog.records) == 1
        assert (await good.ask(9999)).code == 3


@pytest.mark.parametrize(
    "data",
    [b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + b"x" * 65_535, b"\x16" * 100],
    ids=["one-byte", "no-hello", "too-long", "repeated"],
)
async def test_what_is_no_handshake_closes_its_connection_only(
    tmp_path: Path,
    server: Issued,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT_S", 0.1)
    async with running(tmp_path, **server.server_settings) as broker:
        good = await broker.client()
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
        with caplog.at_level(logging.WARNING):
            writer.write(data)
            await asyncio.wait_for(reader.read(), WITHIN_S)
        assert sum("the TLS handshake" in line.getMessage() for line in caplog.records) == 1
        assert (await good.ask(9999)).code == 3
        writer.close()


async def test_the_deadline_ends_with_the_handshake(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        client = await broker.client(authority.client_context())
        assert (await client.ask(9999)).code == 3
        (connection,) = broker.controller._broker_server.connections
        layer = connection._transport
        assert isinstance(layer, tls.TlsLayer)
        assert layer._deadline.cancelled()


async def test_connections_in_their_handshake_count(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, serverMaxConnections="2", **server.server_settings) as broker:
        halves = [await RecordClient.connect(broker, authority.client_context()) for _ in range(2)]
        for half in halves:
            half.writer.write(half.flight()[:100])
        refused = await broker.client()
        await asyncio.wait_for(refused.is_closed.wait(), WITHIN_S)
        for half in halves:
            half.writer.close()


async def test_enforcing_refuses_plain_with_a_log_line(
    tmp_path: Path, authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, **server.server_settings, **{"tls.server.mode": "enforcing"}) as broker:
        good, plain = await broker.client(authority.client_context()), await broker.client()
        with caplog.at_level(logging.WARNING):
            plain.write(request(1))
            await asyncio.wait_for(plain.is_closed.wait(), WITHIN_S)
        assert plain.received == []
        assert warnings(caplog) == ["it does not use TLS, and tls.server.mode=enforcing"]
        assert (await good.ask(9999)).code == 3


@pytest.mark.parametrize("mode", ["disabled", "permissive"])
async def test_it_says_why_it_offers_no_tls(
    tmp_path: Path, authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    settings = server.server_settings if mode == "disabled" else {}
    async with running(tmp_path, **settings, **{"tls.server.mode": mode}) as broker:
        with caplog.at_level(logging.WARNING), pytest.raises(ConnectionError):
            await broker.client(authority.client_context())
        assert "this broker offers none: set tls.server.certPath" in caplog.text
        assert (await (await broker.client()).ask(9999)).code == 3


async def test_it_requires_certificates_of_clients(
    tmp_path: Path, authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    known = authority.issue("client")
    stranger = Authority(tmp_path, "other").issue("stranger")
    settings = {
        **server.server_settings,
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(authority.certificate),
    }
    async with running(tmp_path / "store", **settings) as broker:
        good = await broker.client(authority.client_context(known))
        with caplog.at_level(logging.WARNING):
            for context in (authority.client_context(), authority.client_context(stranger)):
                refused = await RecordClient.connect(broker, context)
                await refused.shake_hands()
                with pytest.raises(ssl.SSLError, match="ALERT"):
                    await refused.read_until(b"never")
                refused.writer.close()
        assert warnings(caplog) == [
            "the TLS handshake failed: peer did not return a certificate",
            "the TLS handshake failed: its certificate is refused: unable to get local issuer certificate",
        ]
        assert (await good.ask(9999)).code == 3


async def test_a_client_that_refuses_the_certificate_is_named(
    tmp_path: Path, server: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    context = Authority(tmp_path, "other").client_context()
    async with running(tmp_path / "store", **server.server_settings) as broker:
        with pytest.raises(ssl.SSLCertVerificationError):
            await broker.client(context)
        client = await RecordClient.connect(broker, context)
        with pytest.raises(ssl.SSLCertVerificationError):
            await client.shake_hands()
        client.writer.write(client.take())
        await client.end()
        assert "the TLS handshake failed: tlsv1 alert unknown ca" in warnings(caplog)
        assert "it left during the TLS handshake: it may not trust the certificate" in caplog.text


async def test_it_ends_a_connection_with_the_alert_of_tls(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        client = await RecordClient.connect(broker, authority.client_context())
        await client.shake_hands()
        client.writer.write(client.records(request(1, code=9999)))
        await client.read_until(b"not supported")
        (connection,) = broker.controller._broker_server.connections
        connection.close("test")
        with pytest.raises(AssertionError, match="it ended the connection behind 0 bytes"):
            await client.read_until(b"never")


async def test_it_answers_what_came_before_the_end_of_a_client(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with running(tmp_path, **server.server_settings) as broker:
        client = await RecordClient.connect(broker, authority.client_context())
        await client.shake_hands()
        data = client.records(request(1, code=9999))
        with pytest.raises(ssl.SSLWantReadError):
            client._tls.unwrap()
        client.writer.write(data + client.take())
        received = await asyncio.wait_for(client.reader.read(), WITHIN_S)
        client._incoming.write(received)
        assert b"not supported" in client._tls.read(65_536)


async def test_new_connections_get_a_renewed_certificate(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    first = authority.issue("renewed")
    async with running(tmp_path, **first.server_settings) as broker:
        offered, context = broker.controller._tls, authority.client_context()

        async def serial() -> object:
            _, writer = await asyncio.open_connection(*broker.controller.address.split(":"), ssl=context)
            certificate = writer.get_extra_info("peercert")
            writer.close()
            return certificate["serialNumber"]

        before = await serial()
        held = await broker.client(context)
        offered.refresh()
        assert await serial() == before
        authority.issue("renewed")
        offered.refresh()
        renewed = await serial()
        assert renewed != before
        first.key.write_text("nonsense")
        offered.refresh()
        offered.refresh()
        assert caplog.text.count("TLS files changed and are not used: tls.server.keyPath=") == 1
        assert await serial() == renewed
        assert (await held.ask(9999)).code == 3


async def test_it_registers_with_a_name_server_by_tls(
    tmp_path: Path, authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    client = authority.issue("registering")
    settings = {
        **server.server_settings,
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(authority.certificate),
    }
    joining = {
        "tls.enable": "true",
        "tls.client.trustCertPath": str(authority.certificate),
        "tls.client.certPath": str(client.certificate),
        "tls.client.keyPath": str(client.key),
        "brokerName": "broker-b",
    }
    async with running(tmp_path / "a", **settings) as broker:
        address = broker.controller.namesrv_address
        async with running(tmp_path / "b", namesrvAddr=address, **joining), asyncio.timeout(WITHIN_S):
            while "broker registered broker=broker-b" not in caplog.text:
                await asyncio.sleep(0.01)
        other = Authority(tmp_path, "other").certificate
        joining["tls.client.trustCertPath"] = str(other)
        async with running(tmp_path / "c", namesrvAddr=address, **joining), asyncio.timeout(WITHIN_S):
            while "certificate verify failed" not in caplog.text:
                await asyncio.sleep(0.01)
    assert caplog.text.count("broker registered broker=broker-b") == 1
