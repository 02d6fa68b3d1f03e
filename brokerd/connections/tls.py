"""TLS and plain on one port: a first byte of 0x16 begins a TLS handshake, any other byte a frame.

The layer encrypts what is written at once and passes on what a read brought at once, so that it holds nothing: limits,
pauses and the order of answers are those of the plain connection above it. Source: protocol §1.8; TlsSystemConfig,
NettyRemotingServer.TlsModeHandler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from dataclasses import dataclass
from typing import Protocol, cast

from brokerd.config import ConfigError, TlsConfig
from brokerd.connections.channel import address_text

logger = logging.getLogger(__name__)

HANDSHAKE_BYTE = 0x16  # the record type "handshake"; a frame's length never begins with it
HANDSHAKE_TIMEOUT_S = 10.0  # Netty's SslHandler
RECORD_BYTES = 16_384  # one `read` of OpenSSL brings one record at most
SELF_TEST_FLIGHTS_MAX = 10
MODES = ("disabled", "permissive", "enforcing")
CLIENT_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
NOT_OFFERED = "it began a TLS handshake, and this broker offers none: set tls.server.certPath and keyPath"
NOT_ENCRYPTED = "it does not use TLS, and tls.server.mode=enforcing"


class Secured(Protocol):
    """The connection above TLS."""

    remote_address: tuple[str, int]

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def secured(self, transport: asyncio.Transport) -> None:
        """Write to `transport` from now on."""

    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class TlsContexts:
    """What listening ports offer (`server`), and what name servers elsewhere are reached with (`client`).

    None where that is plain connections only.
    """

    def __init__(self, config: TlsConfig) -> None:
        """Raise ConfigError naming the key, its file and what is wrong with it."""
        self._config = config
        self.server = _server_context(config)
        self.client = _client_context(config)
        self._files = self._look()

    @property
    def is_enforced(self) -> bool:
        return self._config.server_mode == "enforcing"

    def refresh(self) -> None:
        """Serve new connections with files that were replaced; keep the ones in use where the new do not fit."""
        if self.server is None or (files := self._look()) == self._files:
            return
        self._files = files
        try:
            self.server = _server_context(self._config)
        except ConfigError as error:
            logger.error("TLS files changed and are not used: %s", error)  # noqa: TRY400  the sentence says it all

    def _look(self) -> list[tuple[int, int, int]]:
        config = self._config
        files: list[tuple[int, int, int]] = []
        for path in (config.server_cert_path, config.server_key_path, config.server_trust_cert_path):
            try:
                found = os.stat(path)
            except OSError:  # not configured, or between two renames
                files.append((0, 0, 0))
            else:
                files.append((found.st_ino, found.st_size, found.st_mtime_ns))
        return files


class FirstByte(asyncio.Protocol):
    """A connection before its first byte: nothing later passes through here."""

    def __init__(self, connection: Secured, tls: TlsContexts) -> None:
        self._connection, self._tls = connection, tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        transport, connection, tls = self._transport, self._connection, self._tls
        if data[0] == HANDSHAKE_BYTE:
            if tls.server is None:
                _refuse(transport, connection, NOT_OFFERED)
                return
            layer = TlsLayer(transport, connection, tls.server)
            transport.set_protocol(layer)
            layer.data_received(data)
        elif tls.is_enforced:
            _refuse(transport, connection, NOT_ENCRYPTED)
        else:
            transport.set_protocol(cast(asyncio.Protocol, connection))
            connection.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)


class TlsLayer(asyncio.Protocol, asyncio.Transport):
    """One TLS connection: the socket's protocol, and the transport of the connection above.

    `close` and `abort` of the connection act on the socket until the handshake is done.
    """

    def __init__(self, socket: asyncio.Transport, connection: Secured, context: ssl.SSLContext) -> None:
        super().__init__()
        self._socket, self._connection = socket, connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_secured = False
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_S, self._expire)

    # the socket's calls

    def data_received(self, data: bytes) -> None:
        if self._socket.is_closing():
            return
        self._incoming.write(data)
        try:
            if not self._is_secured:
                self._shake_hands()
            self._receive()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that shows the peer why
            step = "a TLS record" if self._is_secured else "the TLS handshake"
            _refuse(self._socket, self._connection, f"{step} failed: {_reason(error)}")

    def eof_received(self) -> None:
        if not self._is_secured:
            logger.info(
                "connection closed peer=%s: it left during the TLS handshake: it may not trust the certificate",
                address_text(self._connection.remote_address),
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._connection.connection_lost(exc)
        # It has this as its transport, and memory must not wait for the garbage collector.
        del self._connection

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def _shake_hands(self) -> None:
        self._tls.do_handshake()
        self._is_secured = True
        self._deadline.cancel()
        self._flush()
        self._connection.secured(self)

    def _receive(self) -> None:
        """Pass on what complete records hold, in one piece as a plain read would."""
        parts: list[bytes] = []
        is_over = False
        with contextlib.suppress(ssl.SSLWantReadError):
            while part := self._tls.read(RECORD_BYTES):
                parts.append(part)
            is_over = True  # an empty one: the peer sends nothing behind this
        self._flush()
        if parts:
            self._connection.data_received(b"".join(parts))
        if is_over:
            self.close()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def _expire(self) -> None:
        reason = f"the TLS handshake was not finished within {HANDSHAKE_TIMEOUT_S:g} s"
        _refuse(self._socket, self._connection, reason)

    # the connection's calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._socket.is_closing():
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def close(self) -> None:
        if self._socket.is_closing():
            return
        with contextlib.suppress(ssl.SSLError):  # the peer's own end of the connection is not awaited
            self._tls.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)


def _refuse(socket: asyncio.Transport, connection: Secured, reason: str) -> None:
    if not socket.is_closing():
        logger.warning("connection refused peer=%s: %s", address_text(connection.remote_address), reason)
        socket.close()


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a setting; errors name both."""

    key: str
    path: str

    def __str__(self) -> str:
        return f"{self.key}={self.path}"

    def check_readable(self) -> None:
        try:
            with open(self.path, "rb"):
                pass
        except OSError as error:
            raise ConfigError(f"{self}: {error.strerror}") from error

    def trust(self, context: ssl.SSLContext) -> None:
        """Load its certificates as those that are believed."""
        self.check_readable()
        try:
            context.load_verify_locations(self.path)
        except ssl.SSLError as error:
            raise ConfigError(f"{self}: holds no certificate (PEM): {_reason(error)}") from error


class _Pair:
    """A certificate and its key, of the settings that begin with `prefix`."""

    def __init__(self, prefix: str, certificate: str, key: str, password: str) -> None:
        self._prefix, self._password = prefix, password
        self.certificate = _File(f"{prefix}.certPath", certificate)
        self.key = _File(f"{prefix}.keyPath", key)

    @property
    def is_set(self) -> bool:
        return bool(self.certificate.path or self.key.path)

    def load(self, context: ssl.SSLContext) -> None:
        for file in (self.certificate, self.key):
            if not file.path:
                prefix = self._prefix
                raise ConfigError(f"{file}: {prefix}.certPath and {prefix}.keyPath go together; set both")
            file.check_readable()
        self.certificate.trust(
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )  # so that what follows is about the key
        try:
            # A function: without one OpenSSL would read a password from the terminal.
            context.load_cert_chain(self.certificate.path, self.key.path, password=lambda: self._password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ConfigError(f"{self.key}: is not the key of {self.certificate}") from error
            raise ConfigError(
                f"{self.key}: no private key (PEM) that opens with {self._prefix}.keyPassword,"
                f" or a certificate that is too weak: {_reason(error)}"
            ) from error


def _client_context(config: TlsConfig) -> ssl.SSLContext | None:
    """Return what connections to name servers elsewhere use, None without TLS. Raises ConfigError.

    Name servers are verified by their authority and not by their address, as in Java.
    """
    if not config.enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not config.client_auth_server:
        context.verify_mode = ssl.CERT_NONE
    elif not config.client_trust_cert_path:
        raise ConfigError(
            "tls.enable=true: needs tls.client.trustCertPath, the authorities of name servers' certificates;"
            " tls.client.authServer=false believes any"
        )
    else:
        _File("tls.client.trustCertPath", config.client_trust_cert_path).trust(context)
    pair = _Pair("tls.client", config.client_cert_path, config.client_key_path, config.client_key_password)
    if pair.is_set:
        pair.load(context)
    return context


def _server_context(config: TlsConfig) -> ssl.SSLContext | None:
    if config.server_mode not in MODES:
        raise ConfigError(f"tls.server.mode={config.server_mode}: takes {', '.join(MODES)}")
    pair = _Pair("tls.server", config.server_cert_path, config.server_key_path, config.server_key_password)
    if config.server_mode == "disabled" or not pair.is_set:
        if config.server_mode == "enforcing":
            raise ConfigError(
                "tls.server.mode=enforcing: needs a certificate; set tls.server.certPath and tls.server.keyPath"
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and 1.3
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that a write never waits for a read
    pair.load(context)
    _set_client_auth(context, config)
    expires = _expiry(context, pair.certificate)
    logger.info(
        "TLS offered mode=%s certificate=%s expires=%s", config.server_mode, config.server_cert_path, expires
    )
    return context


def _set_client_auth(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Certificates of clients are verified or not requested; Java can also request them and believe any."""
    wanted = config.server_need_client_auth.lower()
    if wanted not in CLIENT_AUTH:
        raise ConfigError(
            f"tls.server.need.client.auth={config.server_need_client_auth}: takes {', '.join(CLIENT_AUTH)}"
        )
    context.verify_mode = CLIENT_AUTH[wanted]
    if wanted == "none":
        if config.server_auth_client:
            raise ConfigError(
                "tls.server.authClient=true: needs tls.server.need.client.auth=require or optional"
            )
        return
    if not config.server_auth_client or not config.server_trust_cert_path:
        raise ConfigError(
            f"tls.server.need.client.auth={wanted}: needs tls.server.authClient=true and tls.server.trustCertPath,"
            " the certificates that clients' ones are verified with"
        )
    _File("tls.server.trustCertPath", config.server_trust_cert_path).trust(context)


def _expiry(context: ssl.SSLContext, certificate: _File) -> str:
    """Shake hands in memory with a client that trusts this certificate alone; return until when it is valid."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    certificate.trust(client)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server),
        context.wrap_bio(to_server, to_client, server_side=True),
    )
    for flight in range(SELF_TEST_FLIGHTS_MAX):
        try:
            sides[flight % 2].do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(f"{certificate}: {error.verify_message}; clients refuse it") from error
        except ssl.SSLError as error:
            raise ConfigError(f"{certificate}: no client can use it: {_reason(error)}") from error
        break
    shown = sides[0].getpeercert()
    assert shown is not None
    return str(shown.get("notAfter", "unknown"))
