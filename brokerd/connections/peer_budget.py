"""Memory that peers make the broker hold, by address: beyond the limits the one who holds most gives up first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class PeerBudget(Generic[Holder]):
    """Bytes per holder (a connection) and address. Single-threaded: the event loop."""

    def __init__(self, total_max: int, address_max: int) -> None:
        self._total_max, self._address_max = total_max, address_max
        self._held: dict[Holder, tuple[str, int]] = {}  # in the order in which they began to hold
        self._of_address: dict[str, int] = {}
        self.total_bytes = 0

    def hold(self, holder: Holder, address: str, size_bytes: int) -> None:
        """Record what `holder` holds now; 0 removes it."""
        before = self._held.get(holder, (address, 0))[1]
        self.total_bytes += size_bytes - before
        of_address = self._of_address.get(address, 0) + size_bytes - before
        if size_bytes:
            self._held[holder] = (address, size_bytes)
        else:
            self._held.pop(holder, None)
        if of_address:
            self._of_address[address] = of_address
        else:
            self._of_address.pop(address, None)

    def is_over(self, address: str) -> bool:
        """Return whether all, or those of this address, hold too much; quicker than one_too_many."""
        return self.total_bytes > self._total_max or self._of_address.get(address, 0) > self._address_max

    def one_too_many(self) -> Holder | None:
        """Who is to give up: the largest holder (of equals the oldest) of the address that holds most."""
        if not self._held:
            return None
        address = max(self._of_address, key=self._of_address.__getitem__)
        if self.total_bytes <= self._total_max and self._of_address[address] <= self._address_max:
            return None
        return max(
            (holder for holder, (other, _) in self._held.items() if other == address),
            key=lambda holder: self._held[holder][1],
        )
