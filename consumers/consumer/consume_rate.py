"""How fast handlers may be given messages: at most so many a second, evenly."""

from __future__ import annotations

import asyncio

# A changed limit counts within this time, also for who waits already.
LOOK_AGAIN_S = 1.0


class ConsumeRate:
    """The limit of one consumer, in messages a second; None: as fast as handlers are.

    **Caller:** what is about to call the handler waits for `wait`, and without another await reports what it takes.
    """

    def __init__(self, messages_per_s: float | None = None) -> None:
        self._per_s = messages_per_s
        self._free_at_s = 0.0  # of the loop's clock

    @property
    def messages_per_s(self) -> float | None:
        return self._per_s

    def limit(self, messages_per_s: float | None) -> None:
        """Change the limit. Raises ValueError where it is not above 0."""
        if messages_per_s is not None and not messages_per_s > 0:
            raise ValueError(
                f"a rate is above 0 messages a second, or None for no limit, not {messages_per_s}"
            )
        self._per_s = messages_per_s
        self._free_at_s = 0.0

    @property
    def is_limited(self) -> bool:
        return self._per_s is not None

    @property
    def is_free(self) -> bool:
        """Whether a message may begin now."""
        return self._wait_s() <= 0

    async def wait(self) -> None:
        """Return when a message may begin."""
        while (wait_s := self._wait_s()) > 0:  # noqa: ASYNC110 - it is the time that comes
            await asyncio.sleep(min(wait_s, LOOK_AGAIN_S))

    def count(self, messages: int) -> None:
        """Record that so many begin now. Affects: when the next may."""
        if self._per_s is not None:
            now_s = asyncio.get_running_loop().time()
            self._free_at_s = max(self._free_at_s, now_s) + messages / self._per_s

    def _wait_s(self) -> float:
        if self._per_s is None:
            return 0.0
        return self._free_at_s - asyncio.get_running_loop().time()
