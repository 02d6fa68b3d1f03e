"""Ports for the servers that tests start: no other process takes one before the server binds it.

A port that the system assigns (bind to 0) and that is released is soon assigned again: to the next test process,
or to a client's outgoing connection. So these are outside the range that the system assigns, and each is held by a
lock until the test process that took it ends.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tests.support.scratch import common_folder

LOWEST, HIGHEST = 12_000, 65_535  # below are the ports that products choose: 8080, 9876, 10911
SYSTEM_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 500  # half of all ports may be taken, and three at once are still found
IANA_RANGE = (49_152, 65_535)  # what systems without that file give out


def free_port(neighbours: Sequence[int] = ()) -> int:
    """Return a free port, ours while this process lives. ``neighbours``: distances of ports taken with it."""
    bindable = 0
    for port in _candidates():
        wanted = [port, *(port + each for each in neighbours)]
        # Asked first: where nothing can be bound, no port is taken from other processes either.
        if all(map(_is_bindable, wanted)):
            bindable += 1
            if all(map(_take, wanted)) and all(map(_is_bindable, wanted)):
                return port
    raise AssertionError(
        f"no free port: {bindable} could be bound, all of them taken by other test processes"
    )


def ports_to_take(system_range: tuple[int, int]) -> range:
    """The longer of the two stretches that the system's own range leaves."""
    low, high = system_range
    return max(range(LOWEST, max(LOWEST, low)), range(high + 1, HIGHEST + 1), key=len)


def _candidates() -> Iterable[int]:
    """Random ones: a port that was just used may still have connections that fade. Never one after the other, as each
    that fails keeps a neighbour of the next.
    """
    ports = ports_to_take(_system_range())
    assert len(ports) > 1_000, f"the system gives out nearly all ports: {SYSTEM_RANGE}"
    return random.sample(ports, TRIES)


def _system_range() -> tuple[int, int]:
    if not SYSTEM_RANGE.exists():
        return IANA_RANGE
    low, high = SYSTEM_RANGE.read_text().split()
    return int(low), int(high)


@cache
def _locks(process_id: int) -> int:
    """The file whose byte n stands for port n. A lock on it ends with the process, whatever ended that."""
    place = common_folder() / f"tidemark-test-ports-{os.getuid()}.lock"
    return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


_taken: set[int] = set()  # a process is granted its own locks again
_taking = threading.Lock()


def _take(port: int) -> bool:
    with _taking:
        if port in _taken:
            return False
        try:
            fcntl.lockf(_locks(os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        _taken.add(port)
        return True


def _is_bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
