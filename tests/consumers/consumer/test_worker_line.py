"""The line of work and its tasks."""

from __future__ import annotations

import asyncio

import pytest

from consumers.consumer.worker_line import WorkerLine


async def test_as_many_pieces_run_at_once_as_there_are_workers() -> None:
    running: list[int] = []
    go_on = asyncio.Event()

    async def work(number: int) -> None:
        running.append(number)
        await go_on.wait()

    line = WorkerLine(2, work)
    line.start()
    line.start()
    for number in range(4):
        line.put(number)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert running == [0, 1]
    assert await line.close(0) == [2, 3]


@pytest.mark.parametrize(("waits", "workers"), [(False, 1), (True, 3)])
async def test_workers_are_woken_as_far_as_work_waits(waits: bool, workers: int) -> None:
    by: list[asyncio.Task[None] | None] = []

    async def work(_: int) -> None:
        by.append(asyncio.current_task())
        if waits:
            await asyncio.sleep(0.01)

    line = WorkerLine(3, work)
    line.start()
    await asyncio.sleep(0)  # all of them wait
    for rounds in (1, 2):
        for number in range(5):
            line.put(number)
        while len(by) < 5 * rounds:
            await asyncio.sleep(0)
        assert len(set(by[-5:])) == workers
    await line.close(100)


async def test_running_work_ends_within_its_time_when_the_line_closes() -> None:
    done: list[int] = []

    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append(1)

    line = WorkerLine(2, work)
    line.start()
    line.put(0.02)
    line.put(600)
    await asyncio.sleep(0)
    assert await line.close(100) == []
    assert done == [1]


async def test_a_worker_goes_on_after_work_that_failed(caplog) -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        if number == 0:
            raise KeyError("handler")
        done.append(number)

    line = WorkerLine(1, work)
    line.start()
    line.put(0)
    line.put(1)
    while not done:
        await asyncio.sleep(0)
    await line.close(0)
    assert "consuming failed 0" in caplog.text
