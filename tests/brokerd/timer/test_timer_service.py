"""When messages are delivered and what they carry; recalls; starts after every kind of end."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from unittest import mock

import pytest

from brokerd.remoting.message.names import TIMER_TOPIC
from brokerd.store.errors import WheelTimerFlowControl, WheelTimerMessageIllegal, WheelTimerNotEnable
from brokerd.store.message_store import MessageStore
from brokerd.timer import timer_service
from brokerd.timer.timer_message import Parking
from brokerd.timer.timer_store import Copy
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST
from tests.brokerd.timer.world import TOPIC, TimerWorld

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({"TIMER_DELAY_SEC": "5"}, 5_000),
        ({"TIMER_DELAY_MS": "5000"}, 5_000),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 5_000)}, 5_000),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 4_001)}, 5_000),
        ({"TIMER_DELAY_MS": "4999"}, 5_000),
        ({"TIMER_DELAY_MS": "1"}, 1_000),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "5000"}, 3_000),
    ],
)
def test_it_is_delivered_in_the_second_of_its_time(
    tmp_path: Path, properties: dict[str, str], due_ms: int
) -> None:
    world = TimerWorld(tmp_path)
    world.send("k", **properties)
    world.wait(due_ms - 1)
    assert (world.delivered(), world.waiting()) == ([], 1)
    world.wait(1)
    assert (world.delivered(), world.waiting()) == (["k"], 0)
    world.wait(5_000)
    assert world.delivered() == ["k"]
    world.stop()


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": str(NOW_MS)}, {"TIMER_DELAY_SEC": "-7"}])
def test_a_time_in_the_past_is_now(tmp_path: Path, properties: dict[str, str]) -> None:
    world = TimerWorld(tmp_path)
    world.send("k", **properties)
    assert (world.delivered(), world.records(TIMER_TOPIC)) == (["k"], [])
    assert not (tmp_path / "timerwheel").exists()
    world.stop()


def test_a_delivered_message_is_as_javas(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    world.send("k", TIMER_DELAY_MS="2000")
    world.wait(2_000)
    (waited,), (message,) = world.records(TIMER_TOPIC), world.records()
    times = {"TIMER_ENQUEUE_MS": str(NOW_MS), "TIMER_DEQUEUE_MS": str(NOW_MS + 2_000)}
    assert message.properties == waited.properties | times
    assert (
        message.properties
        == {
            "UNIQ_KEY": "k",
            "TAGS": "red",
            "TIMER_DELAY_MS": "2000",
            "TIMER_OUT_MS": str(NOW_MS + 1_000),
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "0",
        }
        | times
    )
    assert (message.body, message.born_timestamp_ms, message.born_host) == (b"body of k", NOW_MS, BORN_HOST)
    assert (message.store_host, message.sys_flag) == (STORE_HOST, 0)
    world.stop()


def test_refusals_are_javas(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    limit_ms = 3 * DAY_MS
    world.send_in(limit_ms)
    for properties in (
        {"TIMER_DELIVER_MS": str(NOW_MS + limit_ms + 1)},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELAY_MS": ""},
        {"TIMER_DELAY_MS": "9" * 40},
        {"TIMER_DELIVER_MS": str(NOW_MS), "TIMER_DEL_UNIQKEY": "Later+k"},
    ):
        with pytest.raises(WheelTimerMessageIllegal, match="bigger than the max delay 259200000ms"):
            world.send("k", **properties)
    world.config.broker = type(world.config.broker)(timer_wheel_enable=False)
    with pytest.raises(WheelTimerNotEnable, match="timerWheelEnable is false"):
        world.send_in(5_000)
    world.stop()


def test_a_delay_level_beats_a_time(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    world.send("k", TIMER_DELAY_SEC="50", DELAY="1")
    (waiting,) = world.records("SCHEDULE_TOPIC_XXXX")
    assert waiting.properties["DELAY"] == "1"
    assert "TIMER_DELAY_SEC" not in waiting.properties
    world.stop()


def test_messages_of_a_second_keep_their_order(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    keys = [f"k{number}" for number in range(250)]
    for key in keys:
        world.send_in(9_000, key)
        if key in ("k70", "k200"):
            world.wait(1_000)
    world.wait(20_000)
    assert sorted(world.delivered()) == sorted(keys)
    for low, high in ((0, 71), (71, 201), (201, 250)):
        part = set(keys[low:high])
        assert [key for key in world.delivered() if key in part] == keys[low:high]
    world.stop()


def test_a_recalled_message_is_not_delivered(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    for key in ("a", "b", "c"):
        world.send_in(5_000, key)
    world.send("b", topic="Other", TIMER_DELIVER_MS=str(NOW_MS + 5_000))
    world.recall("b", NOW_MS + 4_001)
    world.wait(6_000)
    assert (world.delivered(), world.delivered("Other")) == (["a", "c"], ["b"])
    assert world.timer.metrics.counts[TOPIC].waiting_count == 0
    world.stop()


def test_a_recall_counts_however_late_it_is_enqueued(tmp_path: Path) -> None:
    """The broker stood still, or was down, from before the recall until long after the time."""
    world = TimerWorld(tmp_path)
    for number in range(100):
        world.send_in(5_000, f"k{number}")
    world.recall("k99", NOW_MS + 4_001)
    world.now_ms += DAY_MS
    world.work()
    assert "k99" not in world.delivered()
    assert len(world.delivered()) == 99
    world.stop()


def test_a_recall_of_what_is_not_there_is_no_message(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    world.recall("gone", NOW_MS + 3_000)
    world.wait(5_000)
    assert (world.delivered(), world.waiting()) == ([], 0)
    assert world.timer.metrics.counts[TOPIC].waiting_count == 0
    world.stop()


def test_one_too_far_for_the_wheel_comes_in_time(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path, roll_window_slots=30)
    world.send_in(100_000, "k")
    world.send_in(100_000, "recalled")
    world.recall("recalled", NOW_MS + 99_001)
    world.wait(99_999)
    assert world.delivered() == []
    world.wait(1)
    assert world.delivered() == ["k"]
    assert int(world.records()[0].properties["TIMER_ROLL_TIMES"]) >= 3
    world.stop()


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_each_is_delivered_once_over_ends_at_any_time(tmp_path: Path, end: str) -> None:
    world = TimerWorld(tmp_path)
    sent = []
    for second in range(9):
        for number in range(7):
            key = f"k{second}-{number}"
            sent.append(key)
            world.send_in(1_000 * (1 + number * 3), key)
        if second % 2:
            world.work()
        if second % 3 == 0:
            world.save()
        getattr(world, end)()
        world.now_ms += 700
        world.work()
        getattr(world, end)()
    world.wait(30_000)
    assert sorted(world.delivered()) == sorted(sent)
    assert world.waiting() == 0
    world.stop()


@pytest.mark.parametrize("is_put", [False, True])
def test_a_kill_in_the_middle_of_a_slot_doubles_nothing(tmp_path: Path, is_put: bool) -> None:
    """Killed at each message, before its copy is put or right after it."""
    world = TimerWorld(tmp_path)
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        world.send_in(3_000, key)
    world.work()
    world.now_ms += 3_000
    put = timer_service.put
    for key in keys:

        def dying(store: MessageStore, copy: Copy, now_ms: int, key: str = key) -> None:
            if copy.message.record.message_id != key:
                put(store, copy, now_ms)
                return
            if is_put:
                put(store, copy, now_ms)
            raise KeyboardInterrupt

        with mock.patch.object(timer_service, "put", dying), pytest.raises(KeyboardInterrupt):
            world.work()
        world.kill()
    world.work()
    assert world.delivered() == keys
    world.stop()


def test_a_power_cut_loses_no_message_that_was_on_the_disk(tmp_path: Path) -> None:
    """The end of the log is gone, with copies that were delivered, but not what was saved."""
    world = TimerWorld(tmp_path / "store")
    for number in range(10):
        world.send_in(3_000, f"k{number}")
    world.work()
    world.save()
    end = world.store.commit_log_max_offset
    world.wait(4_000)
    assert len(world.delivered()) == 10
    for number in range(10):
        world.send_in(3_000, f"lost{number}")
    world.work()
    world.snapshot(tmp_path / "cut")
    log = tmp_path / "cut" / "commitlog" / f"{0:020d}"
    data = log.read_bytes()
    log.write_bytes(data[:end].ljust(len(data), b"\0"))
    world.stop()
    world.root = tmp_path / "cut"
    world.open()
    world.wait(2_000)
    assert world.delivered() == [f"k{number}" for number in range(10)]
    for number in range(5):
        world.send_in(2_000, f"new{number}")
    world.wait(8_000)
    assert world.delivered()[10:] == [f"new{number}" for number in range(5)]
    world.stop()


def test_a_lost_wheel_is_made_anew(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    for number in range(300):  # several files of the timer log
        world.send_in(1_000 * (1 + number % 9), f"k{number}")
    world.wait(4_000)
    delivered = len(world.delivered())
    assert 0 < delivered < 300
    world.stop()
    (tmp_path / "timerwheel").unlink()
    world.open()
    assert world.waiting() == 300 - delivered
    world.wait(9_000)
    assert sorted(world.delivered()) == sorted(f"k{number}" for number in range(300))
    world.stop()


def test_a_lost_checkpoint_loses_and_doubles_nothing(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    for number in range(20):
        world.send_in(1_000 * (1 + number % 9), f"k{number}")
    world.wait(4_000)
    (tmp_path / "config" / "timercheck").unlink()
    world.send_in(1_000, "new")
    world.now_ms += 1_000
    with pytest.raises(FileNotFoundError):
        world.work()
    world.kill()
    world.wait(9_000)
    assert sorted(world.delivered()) == sorted([*(f"k{number}" for number in range(20)), "new"])
    world.stop()


def test_a_clock_that_is_set_back_delivers_neither_early_nor_twice(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    world.send_in(5_000, "before")
    world.wait(6_000)
    assert world.delivered() == ["before"]
    world.now_ms -= 3_600_000
    world.work()
    world.send_in(60_000, "after")
    world.wait(59_000)
    assert world.delivered() == ["before"]
    world.wait(1_000)
    assert world.delivered() == ["before", "after"]
    world.wait(3_600_000, 60_000)
    assert world.delivered() == ["before", "after"]
    assert world.waiting() == 0
    world.stop()


def test_a_clock_that_is_set_forward_delivers_what_it_passes(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    for hours in (1, 2, 60):
        world.send_in(hours * 3_600_000, f"h{hours}")
    world.work()
    world.now_ms += 3 * 3_600_000
    world.work()
    assert world.delivered() == ["h1", "h2"]
    world.stop()


def test_a_broker_that_was_down_for_a_month_loses_nothing(tmp_path: Path) -> None:
    """Java's loses what was due more than seven days before."""
    world = TimerWorld(tmp_path)
    world.send_in(1_000, "a")
    world.send_in(2 * DAY_MS - 1_000, "b")
    world.work()
    world.send_in(3 * DAY_MS, "not enqueued yet")
    world.stop()
    world.now_ms += 30 * DAY_MS
    world.open()
    world.work()
    world.wait(2_000)  # it was too far for the wheel
    assert world.delivered() == ["a", "b", "not enqueued yet"]
    world.stop()


def test_the_event_loop_gets_its_turn_in_a_large_slot(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    for number in range(300):
        world.send_in(2_000, f"k{number}")
    world.now_ms += 3_000
    turns = 0

    async def others() -> None:
        nonlocal turns
        working = asyncio.ensure_future(world.timer.work())
        while not working.done():
            turns += 1
            await asyncio.sleep(0)

    with mock.patch.object(timer_service, "SLICE_NS", 0):
        asyncio.run(others())
    assert len(world.delivered()) == 300
    assert turns > 300
    world.stop()


def set_timer(world: TimerWorld, **settings: int) -> None:
    world.store.reconfigure(dataclasses.replace(world.store.config, **settings))


def test_it_keeps_messages_out_of_the_wheel_while_enqueuing_is_stopped(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    set_timer(world, timer_stop_enqueue=True)
    world.send_in(1_000, "a")
    world.wait(5_000)
    assert (world.waiting(), world.delivered()) == (0, [])
    set_timer(world, timer_stop_enqueue=False)
    world.wait(2_000)
    assert world.delivered() == ["a"]
    world.stop()


def test_it_keeps_messages_in_the_wheel_while_dequeuing_is_stopped(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    set_timer(world, timer_stop_dequeue=True)
    world.send_in(1_000, "a")
    world.wait(5_000)
    assert (world.waiting(), world.delivered()) == (1, [])
    set_timer(world, timer_stop_dequeue=False)
    world.wait(1_000)
    assert (world.waiting(), world.delivered()) == (0, ["a"])
    world.stop()


def test_it_refuses_sends_to_a_slot_with_twice_its_limit(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    set_timer(world, timer_congest_num_each_slot=2)
    for number in range(4):
        world.send_in(60_000, f"k{number}")
    world.work()
    slot_ms = (world.now_ms + 60_000 - 1) // 1_000 * 1_000
    assert world.timer.is_congested(slot_ms)
    assert not world.timer.is_congested(slot_ms + 1_000)
    parking = Parking(world.config, 18, 1_000, world.timer.is_congested)
    properties = {"TIMER_DELIVER_MS": str(world.now_ms + 60_000)}
    with pytest.raises(WheelTimerFlowControl, match="timerCongestNumEachSlot"):
        parking.park(properties, "T", 0, world.now_ms)
    set_timer(world, timer_congest_num_each_slot=4)
    assert not world.timer.is_congested(slot_ms)
    world.stop()
