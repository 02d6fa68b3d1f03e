"""What this process is doing: where tasks of the event loop wait, and where threads are, in the form of a jstack.

Source: UtilAll.java (jstack): a line with name, id and state, then a line for each frame, the innermost first.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from types import FrameType

# Tasks that wait at the same place are one stack, so that only as many different ones fill an answer.
STACKS_MAX = 200
FRAMES_MAX = 50
NAME_WIDTH = 40
# Of a coroutine, a generator and an asynchronous generator.
FRAME_NAMES = ("cr_frame", "gi_frame", "ag_frame")
AWAITED_NAMES = ("cr_await", "gi_yieldfrom", "ag_await")


def all_stacks() -> str:
    """Return the stacks of the running loop's tasks, but not of the calling one, and of all threads."""
    stacks = [*_task_stacks(), *_thread_stacks()]
    text = "\n".join(stacks[:STACKS_MAX])
    left_out = len(stacks) - STACKS_MAX
    return text if left_out <= 0 else f"{text}\n{left_out} more stacks\n"


def _task_stacks() -> Iterator[str]:
    names: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        names[_task_frames(task)].append(task.get_name())
    for frames, alike in sorted(names.items(), key=lambda item: min(item[1])):
        name = min(alike) + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")
        yield _stack(name, threading.get_ident(), "WAITING", frames)


def _task_frames(task: asyncio.Task[object]) -> tuple[str, ...]:
    """The places from the task's coroutine along what each awaits, innermost first."""
    frames: list[str] = []
    awaited: object = task.get_coro()
    while len(frames) < FRAMES_MAX:
        frame = next((getattr(awaited, name) for name in FRAME_NAMES if hasattr(awaited, name)), None)
        if frame is None:
            break
        frames.append(_place(frame))
        awaited = next((getattr(awaited, name) for name in AWAITED_NAMES if hasattr(awaited, name)), None)
    return tuple(reversed(frames))


def _thread_stacks() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, innermost in sorted(sys._current_frames().items()):
        frames: list[str] = []
        frame: FrameType | None = innermost
        while frame is not None and len(frames) < FRAMES_MAX:
            frames.append(_place(frame))
            frame = frame.f_back
        # Python does not report whether another thread waits.
        state = "RUNNABLE" if ident == threading.get_ident() else "UNKNOWN"
        yield _stack(names.get(ident, "thread"), ident, state, tuple(frames))


def _place(frame: FrameType) -> str:
    code = frame.f_code
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}({file}:{frame.f_lineno})"


def _stack(name: str, ident: int, state: str, frames: tuple[str, ...]) -> str:
    lines = [f"TID: {ident} STATE: {state}", *frames]
    return "".join(f"{name:<{NAME_WIDTH}}{line}\n" for line in lines)
