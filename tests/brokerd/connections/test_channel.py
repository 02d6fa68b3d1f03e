from __future__ import annotations

from brokerd.connections.channel import address_text


def test_it_shows_host_and_port() -> None:
    assert address_text(("10.0.0.1", 50000)) == "10.0.0.1:50000"
