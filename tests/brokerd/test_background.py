"""No background loop ends silently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from brokerd import background
from brokerd.background import Background
from tests.consumers.fake_broker import wait_until


@pytest.fixture
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Background]:
    monkeypatch.setattr(background, "RESTART_MS", 1)
    running = Background()
    yield running
    await running.stop()


class Outcomes:
    """What each run comes to: an error, or an end."""

    def __init__(self, *errors: BaseException | None) -> None:
        self._errors = errors
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        error = self._errors[(self.runs - 1) % len(self._errors)]
        if error is not None:
            raise error


ERRORS = (ZeroDivisionError(), OSError(28, "No space left on device"), asyncio.CancelledError(), None)


async def test_a_job_runs_again_whatever_it_came_to(
    running: Background, caplog: pytest.LogCaptureFixture
) -> None:
    job = Outcomes(*ERRORS)
    running.every("flush", 1, job.run)
    await wait_until(lambda: job.runs > len(ERRORS))
    lines = [record.getMessage() for record in caplog.records][:3]
    assert lines == [
        "flush failed; again in 1 ms",
        "flush failed: [Errno 28] No space left on device; again in 1 ms",
        "flush failed; again in 1 ms",
    ]


async def test_a_loop_of_its_own_is_started_again(
    running: Background, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Outcomes(*ERRORS)
    running.keep_running("registration", loop.run)
    await wait_until(lambda: loop.runs > len(ERRORS))
    lines = [record.getMessage() for record in caplog.records][:4]
    assert lines == ["registration failed; started again in 1 ms"] * 3 + [
        "registration ended; started again in 1 ms"
    ]


@pytest.mark.parametrize("is_amid_work", [True, False])
async def test_a_stop_ends_them(running: Background, is_amid_work: bool) -> None:
    job, began = Outcomes(None), asyncio.Event()

    async def long() -> None:
        began.set()
        await asyncio.sleep(60)

    running.keep_running("long", long if is_amid_work else job.run)
    running.every("job", 1, long if is_amid_work else job.run)
    await began.wait() if is_amid_work else await wait_until(lambda: job.runs > 1)
    tasks = list(running._tasks)
    await asyncio.wait_for(running.stop(), 10)
    assert all(task.cancelled() for task in tasks)
