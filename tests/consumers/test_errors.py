from __future__ import annotations

import pytest

from brokerd.remoting.errors import error_for
from consumers.errors import (
    BrokerUnavailable,
    ClientClosed,
    MessageNotSent,
    RemotingTimeout,
    TooManyRequests,
    TopicRouteNotFound,
    is_retriable,
)


@pytest.mark.parametrize(
    ("error", "text", "retriable"),
    [
        (BrokerUnavailable("a:1", "refused"), "a:1 is not available: refused", True),
        (RemotingTimeout("a:1", 11, 3_000), "a:1 did not answer within 3 s", True),
        (TooManyRequests("a:1", 9), "9 requests to a:1 are already waiting for an answer", True),
        (
            TopicRouteNotFound("T", "write"),
            "no queue of topic T to write is registered with the name servers",
            True,
        ),
        (MessageNotSent("T", 3, ValueError("x")), "message to T not sent in 3 attempts: x", False),
        (ClientClosed("closed"), "closed", False),
        (error_for(2, "busy"), "busy", True),
        (KeyError("a bug"), "a bug", False),
    ],
)
def test_it_shows_the_cause_and_whether_to_try_again(error: Exception, text: str, retriable: bool) -> None:
    assert text in str(error)
    assert is_retriable(error) is retriable
