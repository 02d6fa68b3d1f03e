"""What is wrong with a connection: which of its settings, or what of the broker, is at fault.

The kinds of a refusal stand in remarks of brokers, which have no codes for them (protocol section 1.10): the fragments
below are those of Apache 4.x and 5.x. The broker's own sentence is always shown with it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from console.brokers.mqadmin import (
    CLOSED_BY_PEER,
    BrokerUnavailable,
    MQBrokerError,
    MQClientError,
    RemotingError,
    RemotingTimeout,
    ResponseCode,
)
from console.text import Text, text_of


class Fault(StrEnum):
    """What is wrong."""

    UNREACHABLE = "unreachable"
    SILENT = "silent"
    TLS_REQUIRED = "tls_required"
    TLS_NOT_OFFERED = "tls_not_offered"
    CERTIFICATE_UNKNOWN = "certificate_unknown"
    CERTIFICATE_EXPIRED = "certificate_expired"
    CERTIFICATE_OF_ANOTHER_HOST = "certificate_of_another_host"
    CLIENT_CERTIFICATE_REFUSED = "client_certificate_refused"
    KEY_REQUIRED = "key_required"
    KEY_UNKNOWN = "key_unknown"
    SIGNATURE_WRONG = "signature_wrong"
    RIGHT_MISSING = "right_missing"
    REFUSED = "refused"
    NOT_ROCKETMQ = "not_rocketmq"
    NO_BROKER = "no_broker"


# Faults of TLS and keys themselves: no request of the console can succeed with these settings.
OF_SETTINGS = frozenset(
    {
        Fault.TLS_REQUIRED,
        Fault.TLS_NOT_OFFERED,
        Fault.CERTIFICATE_UNKNOWN,
        Fault.CERTIFICATE_EXPIRED,
        Fault.CERTIFICATE_OF_ANOTHER_HOST,
        Fault.CLIENT_CERTIFICATE_REFUSED,
        Fault.KEY_REQUIRED,
        Fault.KEY_UNKNOWN,
        Fault.SIGNATURE_WRONG,
    }
)
# X509_V_ERR_… of OpenSSL.
BY_VERIFY_CODE = {
    9: Fault.CERTIFICATE_EXPIRED,  # not yet valid
    10: Fault.CERTIFICATE_EXPIRED,
    62: Fault.CERTIFICATE_OF_ANOTHER_HOST,
    64: Fault.CERTIFICATE_OF_ANOTHER_HOST,  # an IP address
}
# Of 4.9.7 (PlainAccessValidator) and 5.3.3 (DefaultAuthenticationProvider), in this order.
BY_REMARK = (
    ("No accessKey is configured", Fault.KEY_REQUIRED),
    ("username cannot be null", Fault.KEY_REQUIRED),
    ("No acl config for", Fault.KEY_UNKNOWN),
    ("is not found", Fault.KEY_UNKNOWN),
    ("heck signature failed", Fault.SIGNATURE_WRONG),
    ("ermission", Fault.RIGHT_MISSING),
)
ACL_EXCEPTION = "AclException"
WORDS: dict[Fault, Callable[[str, Text | str], Text]] = {
    Fault.TLS_REQUIRED: lambda addr, why: Text(
        "%(addr)s closed the connection without an answer. It may require TLS: switch TLS on for this cluster.",
        addr=addr,
    ),
    Fault.TLS_NOT_OFFERED: lambda addr, why: Text(
        "%(addr)s does not use TLS (%(why)s). Switch TLS off for this cluster, or enter the address of a port "
        "with TLS.",
        addr=addr,
        why=why,
    ),
    Fault.CERTIFICATE_UNKNOWN: lambda addr, why: Text(
        "The certificate of %(addr)s was issued by an authority that is not trusted here (%(why)s). Enter the "
        "certificate of that authority.",
        addr=addr,
        why=why,
    ),
    Fault.CERTIFICATE_EXPIRED: lambda addr, why: Text(
        "The certificate of %(addr)s is not valid now (%(why)s). Renew it there, or correct the clock of this "
        "machine.",
        addr=addr,
        why=why,
    ),
    Fault.CERTIFICATE_OF_ANOTHER_HOST: lambda addr, why: Text(
        "The certificate of %(addr)s is for another host (%(why)s). Enter an address that the certificate names.",
        addr=addr,
        why=why,
    ),
    Fault.CLIENT_CERTIFICATE_REFUSED: lambda addr, why: Text(
        "%(addr)s requires a client certificate, or refuses the one it got (%(why)s). Enter a certificate and "
        "key that it trusts.",
        addr=addr,
        why=why,
    ),
    Fault.KEY_REQUIRED: lambda addr, why: Text(
        "%(addr)s requires an access key (%(why)s). Enter one and its secret key.", addr=addr, why=why
    ),
    Fault.KEY_UNKNOWN: lambda addr, why: Text(
        "%(addr)s has no such access key (%(why)s). Enter one that exists there, or create it there.",
        addr=addr,
        why=why,
    ),
    Fault.SIGNATURE_WRONG: lambda addr, why: Text(
        "%(addr)s refuses the signature: the secret key is wrong (%(why)s). Enter it again.",
        addr=addr,
        why=why,
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong at one address."""

    addr: str
    fault: Fault
    text: Text


def finding_of(addr: str, error: Exception, *, uses_tls: bool, limit_s: int, request: str = "") -> Finding:
    """Return what an error of a call means; ``request``: of a broker, else of a name server."""
    if isinstance(error, MQBrokerError):
        return _of_answer(addr, error, request)
    if isinstance(error, RemotingTimeout):
        return Finding(addr, Fault.SILENT, _silent(addr, limit_s, request))
    if isinstance(error, BrokerUnavailable):
        return _of_connection(addr, error, uses_tls=uses_tls, request=request)
    if isinstance(error, MQClientError | RemotingError):
        why = Text("%(addr)s does not use the remoting protocol: %(why)s", addr=addr, why=text_of(error))
        return Finding(addr, Fault.NOT_ROCKETMQ, why)
    return Finding(addr, Fault.NOT_ROCKETMQ, Text("%(name)s: %(reason)s", name=addr, reason=text_of(error)))


def _silent(addr: str, limit_s: int, request: str) -> Text:
    if request:
        return Text(
            "%(addr)s, a broker that the name server lists, accepted the connection but did not answer within "
            "%(number)s s. Is it overloaded or stopped?",
            addr=addr,
            number=limit_s,
        )
    return Text(
        "%(addr)s accepted the connection but did not answer within %(number)s s: it is probably not a "
        "RocketMQ name server (the usual port is 9876).",
        addr=addr,
        number=limit_s,
    )


def _of_answer(addr: str, error: MQBrokerError, request: str) -> Finding:
    is_acl = error.code == ResponseCode.NO_PERMISSION or ACL_EXCEPTION in error.remark
    matches = (fault for fragment, fault in BY_REMARK if fragment in error.remark)
    fault = next(matches, Fault.RIGHT_MISSING) if is_acl else Fault.REFUSED
    if fault in WORDS:
        return Finding(addr, fault, WORDS[fault](addr, error.remark))
    if request:
        text = Text(
            "%(addr)s refuses %(request)s: %(remark)s (code %(code)s).",
            addr=addr,
            request=request,
            remark=error.remark,
            code=str(error.code),
        )
        if fault == Fault.RIGHT_MISSING:
            text = Text("%(text)s Give this access key the permission there.", text=text)
        return Finding(addr, fault, text)
    text = Text(
        "%(addr)s uses the RocketMQ protocol but refused the request: %(remark)s (code %(code)s). It is "
        "probably a broker; the usual port of a name server is 9876.",
        addr=addr,
        remark=error.remark,
        code=str(error.code),
    )
    return Finding(addr, fault, text)


def _of_connection(addr: str, error: BrokerUnavailable, *, uses_tls: bool, request: str) -> Finding:
    fault, why = _fault_of(error, uses_tls=uses_tls), _why(error)
    if fault in WORDS:
        return Finding(addr, fault, WORDS[fault](addr, why))
    if request:
        text = Text(
            "%(addr)s, a broker that the name server lists, cannot be reached: %(why)s. Check that it is "
            "running and that this machine can reach this address (brokerIP1 of the broker).",
            addr=addr,
            why=why,
        )
        return Finding(addr, fault, text)
    text = Text(
        "%(addr)s: %(why)s. Check that this is the address of a name server and that this machine can "
        "reach it.",
        addr=addr,
        why=why,
    )
    return Finding(addr, fault, text)


def _fault_of(error: BrokerUnavailable, *, uses_tls: bool) -> Fault:
    # While connecting, or an alert that ends a connection which was made: TLS 1.3 verifies clients late.
    cause = error.__cause__ or _ended_by(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return BY_VERIFY_CODE.get(cause.verify_code, Fault.CERTIFICATE_UNKNOWN)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        return Fault.CLIENT_CERTIFICATE_REFUSED
    # A server without TLS closes a connection that begins with it, or sends something else.
    if uses_tls and isinstance(
        cause, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError
    ):
        return Fault.TLS_NOT_OFFERED
    if not uses_tls and (
        error.reason == CLOSED_BY_PEER or isinstance(_ended_by(error), ConnectionResetError)
    ):
        return Fault.TLS_REQUIRED
    return Fault.UNREACHABLE


def _ended_by(error: BrokerUnavailable) -> BaseException | None:
    ended = None if isinstance(error.reason, str) else error.reason.values.get("why")
    return ended if isinstance(ended, BaseException) else None


def _why(error: BrokerUnavailable) -> Text:
    """Return the operating system's own message if there is one: asyncio hides "Connection refused"."""
    cause = error.__cause__
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and (cause.errno or 0) > 0:
        return Text("cannot connect: %(why)s", why=os.strerror(cause.errno or 0))
    return text_of(error.reason)
