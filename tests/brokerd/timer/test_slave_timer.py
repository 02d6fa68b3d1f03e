"""A slave takes over from its master at any moment: what waited comes once at its time, what was delivered does not."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from brokerd.cold_reads import ColdReads
from brokerd.queue_files import QueueFiles
from brokerd.remoting.message.names import TIMER_TOPIC
from brokerd.timer.slave_timer import SlaveTimer
from brokerd.timer.timer_checkpoint import TimerProgress
from tests.brokerd.store.stores import kill, open_store
from tests.brokerd.timer.world import PRECISION_MS, TIMER_LOG_BYTES, TOPIC, TimerWorld

LOG_FILE_BYTES = 65_536


class Slave:
    """Follows the world of a master when a test says so."""

    def __init__(self, root: Path, master: TimerWorld, roll_window_slots: int = 172_800) -> None:
        self._root, self._master, self._roll_window_slots = root, master, roll_window_slots
        self.store = open_store(root, broker_role="SLAVE", mapped_file_size_commit_log=LOG_FILE_BYTES)
        self.timer = SlaveTimer(root, TIMER_LOG_BYTES, PRECISION_MS, roll_window_slots)
        self.timer.start(
            self.store, lambda _: None, ColdReads(), QueueFiles(self.store), lambda: master.now_ms
        )

    def receive(self) -> None:
        """The log, as far as the master has it."""
        master, offset = self._master.store, self.store.transferred.begin()
        while offset < master.commit_log_max_offset:
            data = bytes(master.pieces.piece(offset, LOG_FILE_BYTES))
            self.store.transferred.receive(offset, data)
            offset += len(data)
        self.store.dispatch_pending()

    def follow(self) -> None:
        """The timer, as far as the master has come, over the wire."""
        self.timer.follow(TimerProgress.decode(self._master.timer.progress().encode()))
        self.work()

    def work(self) -> None:
        asyncio.run(self.timer.work())

    def take_over(self, *, killed: bool = False) -> TimerWorld:
        """Start it as a master; it was saved within the last second when it was killed."""
        if killed:
            asyncio.run(self.timer.save())
            kill(self.store)
            self.timer.files.close()
        else:
            self.timer.save_last()
            self.store.close(self._master.now_ms)
        now_ms, slots = self._master.now_ms, self._roll_window_slots
        return TimerWorld(self._root, now_ms=now_ms, roll_window_slots=slots)


@pytest.mark.parametrize("killed", [False, True])
def test_what_waits_is_delivered_by_the_slave_that_became_master(tmp_path: Path, killed: bool) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(2_000, "early")
    master.send_in(10_000, "late")
    master.send_in(12_000, "recalled")
    master.recall("recalled", master.now_ms + 12_000)
    master.wait(5_000)
    slave.receive()
    slave.follow()
    assert slave.timer.files.waiting_count == master.waiting() == 1  # a recall counts -1
    new_master = slave.take_over(killed=killed)
    assert new_master.delivered() == ["early"]
    new_master.wait(4_999)
    assert new_master.delivered() == ["early"]
    new_master.wait(10_000)
    assert new_master.delivered() == ["early", "late"]
    new_master.stop()
    master.stop()


def test_nothing_comes_again_when_all_was_delivered(tmp_path: Path) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(2_000)
    master.wait(5_000)
    slave.receive()
    slave.follow()
    assert not (tmp_path / "slave" / "timerwheel").exists()
    new_master = slave.take_over()
    new_master.wait(20_000)
    assert new_master.delivered() == ["k"]
    new_master.stop()
    master.stop()


def test_it_follows_the_masters_offset_and_no_further(tmp_path: Path) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(50_000, "a")
    slave.receive()
    slave.work()
    assert slave.timer.queue_offset == 0, "nothing is known of the master yet"
    master.work()
    master.send_in(50_000, "b")
    slave.receive()
    slave.follow()
    assert (slave.timer.queue_offset, slave.timer.behind_messages) == (1, 1)
    master.stop()


def test_what_was_delivered_since_the_last_checkpoint_comes_again(tmp_path: Path) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(3_000, "before")
    master.send_in(6_000, "since")
    master.wait(4_000)
    slave.receive()
    slave.follow()
    master.wait(4_000)
    slave.receive()
    new_master = slave.take_over()
    new_master.wait(5_000)
    assert new_master.delivered() == ["before", "since", "since"]
    new_master.stop()
    master.stop()


def test_a_clock_set_back_at_the_master_loses_nothing(tmp_path: Path) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(30_000, "first")
    master.wait(10_000)
    slave.receive()
    slave.follow()
    master.now_ms -= 8_000
    master.work()
    master.send_in(3_000, "second")
    master.work()
    slave.receive()
    slave.follow()
    assert slave.timer.files.waiting_count == 2
    new_master = slave.take_over()
    new_master.wait(40_000)
    assert new_master.delivered() == ["second", "first"]
    new_master.stop()
    master.stop()


def test_its_counts_are_the_masters(tmp_path: Path) -> None:
    master = TimerWorld(tmp_path / "master")
    slave = Slave(tmp_path / "slave", master)
    master.send_in(20_000)
    master.work()
    slave.receive()
    slave.follow()
    assert slave.timer.metrics.counts == {}
    slave.timer.metrics.follow(master.timer.metrics.document())
    assert slave.timer.metrics.counts[TOPIC].waiting_count == 1
    new_master = slave.take_over()
    new_master.wait(21_000)
    assert new_master.timer.metrics.counts[TOPIC].waiting_count == 0
    new_master.stop()
    master.stop()


@pytest.mark.parametrize("seed", range(12))
def test_each_message_comes_once_whenever_the_slave_takes_over(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    window = 10  # messages of more than 10 s come into the topic again on their way
    master = TimerWorld(tmp_path / "master", roll_window_slots=window)
    slave = Slave(tmp_path / "slave", master, window)
    due_ms: dict[str, int] = {}
    recalled: set[str] = set()
    for number in range(chance.randrange(20, 60)):
        key = f"k{number}"
        due_ms[key] = master.now_ms + chance.randrange(1, 35_000)
        master.send(key, TIMER_DELIVER_MS=str(due_ms[key]))
        if chance.random() < 0.2 and due_ms[key] - master.now_ms > 2_000:
            master.recall(key, due_ms[key])
            recalled.add(key)
        master.wait(chance.randrange(1_500), step_ms=chance.choice((100, 700, 1_000)))
        if chance.random() < 0.3:
            slave.receive()
        if chance.random() < 0.3:
            slave.follow()
        if chance.random() < 0.1:
            slave.timer.save_last()
            slave.timer.start(
                slave.store,
                lambda _: None,
                ColdReads(),
                QueueFiles(slave.store),
                lambda: master.now_ms,
            )
    slave.receive()
    slave.follow()
    new_master = slave.take_over(killed=chance.random() < 0.5)
    assert [record.message_id for record in new_master.records()] == master.delivered()
    new_master.wait(60_000)
    assert sorted(new_master.delivered()) == sorted(due_ms.keys() - recalled)
    for record in new_master.records():
        assert record.store_timestamp_ms >= due_ms[record.message_id] - PRECISION_MS
    assert len(new_master.records(TIMER_TOPIC)) > len(due_ms) + len(recalled), "some were rolled"
    new_master.stop()
    master.stop()
