"""Errors of the client runtime: each shows whose mistake it was and carries what a caller decides on.

    MQClientError
      BrokerUnavailable       the address cannot be reached, or the connection broke before the answer
      RemotingTimeout         connected, but no answer in time: the request may or may not have been done
      TooManyRequests         more requests outstanding on one connection than its limit
      TopicRouteNotFound      no name server has a queue of this topic that fits the purpose
      MessageNotSent          a producer has used up its attempts; `cause` is the last error
      ClientClosed            the object was closed before or while it was used

What a broker answers is an `MQBrokerError` of `brokerd.remoting.errors` and no MQClientError. `retriable`:
the same request may be sent again, elsewhere or later.
"""

from __future__ import annotations

from brokerd.remoting.errors import MQBrokerError

__all__ = [
    "BrokerUnavailable",
    "ClientClosed",
    "MQBrokerError",
    "MQClientError",
    "MessageNotSent",
    "RemotingTimeout",
    "TooManyRequests",
    "TopicRouteNotFound",
    "is_retriable",
]


class MQClientError(Exception):
    """Something went wrong on our side of the wire, or on the wire itself."""

    retriable: bool = False


class BrokerUnavailable(MQClientError):
    """`addr` cannot be reached, or its connection ended before the answer came."""

    retriable = True

    def __init__(self, addr: str, reason: str) -> None:
        super().__init__(addr, reason)
        self.addr = addr
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.addr or 'broker'} is not available: {self.reason}"


class RemotingTimeout(MQClientError):
    """No answer from `addr` to request `code` within `timeout_ms`. The request may have been carried out."""

    retriable = True

    def __init__(self, addr: str, code: int, timeout_ms: int) -> None:
        super().__init__(addr, code, timeout_ms)
        self.addr = addr
        self.code = code
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"{self.addr} did not answer request {self.code} within {self.timeout_ms} ms"


class TooManyRequests(MQClientError):
    """`outstanding` requests already wait for `addr`; nothing was sent."""

    retriable = True

    def __init__(self, addr: str, outstanding: int) -> None:
        super().__init__(addr, outstanding)
        self.addr = addr
        self.outstanding = outstanding

    def __str__(self) -> str:
        return f"{self.outstanding} requests to {self.addr} are waiting for an answer already"


class TopicRouteNotFound(MQClientError):
    """No queue of `topic` that allows the purpose ("write", "read") is known."""

    retriable = True

    def __init__(self, topic: str, purpose: str) -> None:
        super().__init__(topic, purpose)
        self.topic = topic
        self.purpose = purpose

    def __str__(self) -> str:
        return f"no queue of topic {self.topic} to {self.purpose} is registered with the name servers"


class MessageNotSent(MQClientError):
    """All attempts to send failed. A timeout among them means that the message may be stored all the same."""

    def __init__(self, topic: str, attempts: int, cause: Exception) -> None:
        super().__init__(topic, attempts, cause)
        self.topic = topic
        self.attempts = attempts
        self.cause = cause

    def __str__(self) -> str:
        return f"message to {self.topic} not sent in {self.attempts} attempts: {self.cause}"


class ClientClosed(MQClientError):
    """The client is closed; nothing was sent."""


def is_retriable(error: Exception) -> bool:
    """Return whether a fresh attempt, elsewhere or later, may succeed. Unknown errors are bugs and not
    retried."""
    return isinstance(error, MQClientError | MQBrokerError) and error.retriable
