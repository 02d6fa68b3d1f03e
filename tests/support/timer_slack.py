"""How much later than they ask the kernel may wake threads up, so that it wakes many at once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_TIMERSLACK = 29  # linux/prctl.h
DEFAULT = 0


@contextmanager
def timer_slack(ms: int) -> Iterator[None]:
    """Give it to the processes that this thread starts meanwhile, and all their threads. Linux only; 0: the default."""
    _set(ms * 1_000_000)
    try:
        yield
    finally:
        _set(DEFAULT)


def _set(slack_ns: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), 0, 0, 0)
