"""What a broker reports of producers, of its slaves and of delay levels; the survey keeps it as JSON."""

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


class WaitingLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A delay level with messages.

    ``waiting``: how many are not delivered; ``newest_ms``: when the newest was stored, by the broker's clock.
    """

    level: int
    waiting: int
    newest_ms: int | None


def as_kept(values: Sequence[Producer | Replica | WaitingLevel] | None) -> Any:
    """Return the values as a JSON column keeps them; None: not reported."""
    return None if values is None else [msgspec.structs.asdict(value) for value in values]
