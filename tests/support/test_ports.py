"""Two test processes at once are never given the same port, and the system gives none of them to a client."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.support.ports import SYSTEM_RANGE, free_port, ports_to_take

MANY = "from tests.support.ports import free_port; print(*(free_port() for _ in range(500))); input()"


def test_processes_that_choose_at_once_never_choose_the_same() -> None:
    choosing = [
        subprocess.Popen(
            [sys.executable, "-c", MANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    try:
        chosen = []
        for one in choosing:
            assert one.stdout is not None
            chosen += one.stdout.readline().split()
    finally:
        for one in choosing:
            one.communicate("\n")
    assert len(set(chosen)) == len(chosen) == 1_500


def test_the_system_gives_none_of_them_to_anybody() -> None:
    low, high = map(int, SYSTEM_RANGE.read_text().split())
    assert not low <= free_port() <= high


def test_the_ports_beside_it_are_free_too_and_stay_ours() -> None:
    port = free_port(neighbours=(-2, 1))
    assert not {port - 2, port, port + 1} & {free_port() for _ in range(500)}
    with socket.create_server(("127.0.0.1", port + 1)):
        pass


def test_a_neighbour_that_is_taken_costs_one_try_only() -> None:
    chosen = [free_port(neighbours=(-2, 1)) for _ in range(100)]
    together = {port + distance for port in chosen for distance in (-2, 0, 1)}
    assert len(together) == 300


def test_the_longer_stretch_outside_of_the_systems_range_is_taken() -> None:
    assert ports_to_take((32_768, 60_999)) == range(12_000, 32_768)
    assert ports_to_take((1_024, 30_000)) == range(30_001, 65_536)


def test_threads_take_different_ports() -> None:
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: free_port(), range(200)))
    assert len(set(taken)) == 200
