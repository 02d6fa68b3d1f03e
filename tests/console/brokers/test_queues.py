"""Reads across brokers: what is said of one that does not answer."""

from __future__ import annotations

import pytest

from console.brokers.queues import require_answer
from console.text import text_of
from consumers.errors import BrokerUnavailable


def test_a_silent_broker_is_named_once_with_its_reason() -> None:
    silent = BrokerUnavailable("10.0.0.1:10911", "cannot connect")
    with pytest.raises(BrokerUnavailable) as raised:
        require_answer("broker-a", silent.addr, silent)
    words = "10.0.0.1:10911 is not available: broker-a did not answer, so its part is unknown: cannot connect"
    assert str(text_of(raised.value)) == words
