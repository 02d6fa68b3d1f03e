"""Errors of the client runtime: each shows whose mistake it was and carries what a caller decides on.

    MQClientError
      BrokerUnavailable       the address cannot be reached, or the connection broke before the answer
      RemotingTimeout         connected, but no answer in time: the request may or may not have been done
      TooManyRequests         more requests outstanding on one connection than its limit
      TopicRouteNotFound      no name server has a queue of this topic that fits the purpose
      MessageNotSent          a producer has used up its attempts; `cause` is the last error
      NoReply                 a request was sent, and no consumer has replied to it in time
      ClientClosed            the object was closed before or while it was used

What a broker answers is an `MQBrokerError` of `brokerd.remoting.errors` and no MQClientError. `retriable`:
the same request may be sent again, elsewhere or later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerd.remoting.errors import MQBrokerError

__all__ = [
    "BrokerUnavailable",
    "ClientClosed",
    "MQBrokerError",
    "MQClientError",
    "MessageNotSent",
    "NoReply",
    "Reason",
    "RemotingTimeout",
    "TooManyRequests",
    "TopicRouteNotFound",
    "is_retriable",
]


@dataclass(frozen=True, slots=True)
class Reason:
    """Words with ``%(name)s`` for each of their values: English here, and a reader's language where pages show them."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text % self.values


class MQClientError(Exception):
    """Something went wrong on our side of the wire, or on the wire itself. `text` and `values` as in `Reason`."""

    retriable: bool = False
    text: str = ""

    @property
    def values(self) -> Mapping[str, object]:
        return {}

    def __str__(self) -> str:
        return self.text % self.values if self.text else super().__str__()


class BrokerUnavailable(MQClientError):
    """`addr` cannot be reached, or its connection ended before the answer came."""

    retriable = True
    text = "%(address)s is not available: %(why)s"

    def __init__(self, addr: str, reason: Reason | str) -> None:
        super().__init__(addr, reason)
        self.addr = addr
        self.reason = reason

    @property
    def values(self) -> Mapping[str, object]:
        return {"address": self.addr or "broker", "why": self.reason}


class RemotingTimeout(MQClientError):
    """No answer from `addr` to request `code` within `timeout_ms`. The request may have been carried out."""

    retriable = True
    text = "%(address)s did not answer within %(seconds)s s"

    def __init__(self, addr: str, code: int, timeout_ms: int) -> None:
        super().__init__(addr, code, timeout_ms)
        self.addr = addr
        self.code = code
        self.timeout_ms = timeout_ms

    @property
    def values(self) -> Mapping[str, object]:
        return {"address": self.addr, "seconds": f"{self.timeout_ms / 1000:g}"}


class TooManyRequests(MQClientError):
    """`outstanding` requests already wait for `addr`; nothing was sent."""

    retriable = True
    text = "%(number)s requests to %(address)s are already waiting for an answer"

    def __init__(self, addr: str, outstanding: int) -> None:
        super().__init__(addr, outstanding)
        self.addr = addr
        self.outstanding = outstanding

    @property
    def values(self) -> Mapping[str, object]:
        return {"number": self.outstanding, "address": self.addr}


class TopicRouteNotFound(MQClientError):
    """No queue of `topic` that allows the purpose ("write", "read") is known."""

    retriable = True
    text = "no queue of topic %(topic)s to %(purpose)s is registered with the name servers"

    def __init__(self, topic: str, purpose: str) -> None:
        super().__init__(topic, purpose)
        self.topic = topic
        self.purpose = purpose

    @property
    def values(self) -> Mapping[str, object]:
        return {"topic": self.topic, "purpose": self.purpose}


class MessageNotSent(MQClientError):
    """All attempts to send failed. A timeout among them means that the message may be stored all the same."""

    text = "message to %(topic)s not sent in %(number)s attempts: %(why)s"

    def __init__(self, topic: str, attempts: int, cause: Exception) -> None:
        super().__init__(topic, attempts, cause)
        self.topic = topic
        self.attempts = attempts
        self.cause = cause

    @property
    def values(self) -> Mapping[str, object]:
        return {"topic": self.topic, "number": self.attempts, "why": self.cause}


class NoReply(MQClientError):
    """A request of `topic` got no reply within `timeout_ms`. A consumer may have worked on it."""

    def __init__(self, topic: str, timeout_ms: int) -> None:
        super().__init__(f"no reply to a message of topic {topic} within {timeout_ms / 1000:g} s")
        self.topic = topic
        self.timeout_ms = timeout_ms


class ClientClosed(MQClientError):
    """The client is closed; nothing was sent."""


def is_retriable(error: Exception) -> bool:
    """Return whether a fresh attempt, elsewhere or later, may succeed.

    Unknown errors are bugs and not retried.
    """
    return isinstance(error, MQClientError | MQBrokerError) and error.retriable
