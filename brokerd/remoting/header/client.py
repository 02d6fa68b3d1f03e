"""The headers of requests about clients (protocol section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class UnregisterClientRequestHeader(HeaderFields):
    """UNREGISTER_CLIENT (35)."""

    client_id: str = of("clientID", "s")
    producer_group: str | None = of("producerGroup", "s", None)
    consumer_group: str | None = of("consumerGroup", "s", None)
