from __future__ import annotations

import asyncio

from consumers.producer.in_flight import InFlight


async def entering(room: InFlight, *sizes: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(room.enter(size)) for size in sizes]
    await asyncio.sleep(0)
    return tasks


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_it_limits_messages_and_lets_them_in_in_order() -> None:
    room = InFlight(messages_max=2, bytes_max=1_000)
    tasks = await entering(room, 1, 1, 1, 1)
    assert [task.done() for task in tasks] == [True, True, False, False]
    room.leave(1)
    await settle()
    assert [task.done() for task in tasks] == [True, True, True, False]
    tasks[3].cancel()
    await settle()
    assert (room.messages, room.size_bytes) == (2, 2)


async def test_a_large_message_waits_and_is_not_overtaken() -> None:
    room = InFlight(messages_max=10, bytes_max=100)
    tasks = await entering(room, 60, 50, 10)
    assert [task.done() for task in tasks] == [True, False, False]
    room.leave(60)
    await settle()
    assert all(task.done() for task in tasks)
    assert (room.messages, room.size_bytes) == (2, 60)


async def test_a_message_larger_than_all_the_room_goes_alone() -> None:
    room = InFlight(messages_max=10, bytes_max=100)
    tasks = await entering(room, 500, 1)
    assert [task.done() for task in tasks] == [True, False]


async def test_who_gives_up_waiting_frees_the_way_for_the_next() -> None:
    room = InFlight(messages_max=10, bytes_max=100)
    tasks = await entering(room, 60, 50, 10)
    tasks[1].cancel()
    await settle()
    assert tasks[2].done() and not tasks[2].cancelled()
    assert (room.messages, room.size_bytes) == (2, 70)


async def test_it_is_empty_when_the_last_has_left() -> None:
    room = InFlight(messages_max=1, bytes_max=100)
    await room.wait_empty()
    await entering(room, 1, 1)
    waiting = [asyncio.create_task(room.wait_empty()) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    room.leave(1)  # the second has its room now
    await settle()
    assert (waiting[1].done(), room.messages) == (False, 1)
    room.leave(1)
    await settle()
    assert (waiting[0].cancelled(), waiting[1].done()) == (True, True)


async def test_room_given_to_a_cancelled_one_goes_to_the_next() -> None:
    room = InFlight(messages_max=1, bytes_max=100)
    tasks = await entering(room, 1, 1, 1)
    room.leave(1)
    tasks[1].cancel()
    await settle()
    assert tasks[1].cancelled() and tasks[2].done()
    assert (room.messages, room.size_bytes) == (1, 1)
