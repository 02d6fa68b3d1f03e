"""What a broker reports of producers, its slaves, its replicas and delay levels; the survey keeps it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Producer(msgspec.Struct, frozen=True, kw_only=True):
    """A connected producer."""

    group: str
    client_id: str
    address: str = ""
    language: str = ""
    version: str = ""
    seen_ms: int | None = None


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A slave that is connected to its master."""

    addr: str
    behind_bytes: int
    in_sync: bool
    bytes_per_s: int


class ControlledReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as the controller has it, by the id that it gave; `in_sync`: it may become master."""

    broker_id: int
    addr: str
    is_master: bool
    in_sync: bool
    alive: bool | None = None


class WaitingLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A delay level with messages.

    ``waiting``: how many are not delivered; ``newest_ms``: when the newest was stored, by the broker's clock.
    """

    level: int
    waiting: int
    newest_ms: int | None


def as_kept(values: Sequence[Producer | Replica | ControlledReplica | WaitingLevel] | None) -> Any:
    """Return the values as a JSON column keeps them; None: not reported."""
    return None if values is None else [msgspec.structs.asdict(value) for value in values]
