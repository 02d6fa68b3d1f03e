"""Stacks of tasks and threads, as a jstack prints them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from consumers.client import stacks
from consumers.client.stacks import all_stacks


async def outer(event: asyncio.Event) -> None:
    await inner(event)


async def inner(event: asyncio.Event) -> None:
    await event.wait()


def stack_of(name: str, text: str) -> list[str]:
    """The lines of a stack, without the name that each begins with."""
    (stack,) = (each for each in text.split("\n\n") if each.startswith(f"{name} "))
    lines = stack.splitlines()
    assert {line[:40].strip() for line in lines} == {name}
    return [line[40:] for line in lines]


async def test_it_shows_where_a_task_waits_from_within() -> None:
    event = asyncio.Event()
    task = asyncio.create_task(outer(event), name="Waiting")
    await asyncio.sleep(0)
    head, *frames = stack_of("Waiting", all_stacks())
    assert head == f"TID: {threading.get_ident()} STATE: WAITING"
    assert [frame.partition("(")[0] for frame in frames] == [
        "asyncio.locks.Event.wait",
        "tests.consumers.client.test_stacks.inner",
        "tests.consumers.client.test_stacks.outer",
    ]
    assert frames[1].endswith("(test_stacks.py:19)")
    event.set()
    await task


async def test_tasks_that_wait_at_the_same_place_are_one_stack() -> None:
    event = asyncio.Event()
    tasks = [asyncio.create_task(inner(event), name=f"Worker {number}") for number in range(20)]
    await asyncio.sleep(0)
    text = all_stacks()
    assert len(stack_of("Worker 0 and 19 more", text)) == 3
    assert text.count(" more  ") == 3, "one stack of a head and two frames"
    event.set()
    await asyncio.gather(*tasks)


async def test_it_shows_threads() -> None:
    going, end = threading.Event(), threading.Event()

    def work() -> None:
        going.set()
        end.wait()

    thread = threading.Thread(target=work, name="handler of ours")
    thread.start()
    going.wait()
    text = all_stacks()
    end.set()
    thread.join()
    head, *frames = stack_of("handler of ours", text)
    assert head == f"TID: {thread.ident} STATE: UNKNOWN"
    assert any(
        frame.startswith("tests.consumers.client.test_stacks.test_it_shows_threads.") for frame in frames
    )
    head, *frames = stack_of(threading.current_thread().name, text)
    assert head == f"TID: {threading.get_ident()} STATE: RUNNABLE"


async def test_it_bounds_stacks_and_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "STACKS_MAX", 1)
    monkeypatch.setattr(stacks, "FRAMES_MAX", 2)
    event = asyncio.Event()
    task = asyncio.create_task(outer(event), name="Waiting")
    await asyncio.sleep(0)
    text = all_stacks()
    assert len(stack_of("Waiting", text)) == 3
    assert text.splitlines()[-1].endswith(" more stacks")
    event.set()
    await task
