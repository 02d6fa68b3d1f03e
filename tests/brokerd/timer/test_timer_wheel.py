from __future__ import annotations

from pathlib import Path

from brokerd.timer.timer_wheel import EMPTY, SLOTS, WHEEL_BYTES, Slot, TimerWheel

SECOND_MS = 1_000


def wheel(folder: Path) -> TimerWheel:
    made = TimerWheel(folder / "timerwheel", SECOND_MS)
    made.make()
    return made


def test_a_slot_is_that_of_its_time_only(tmp_path: Path) -> None:
    used = wheel(tmp_path)
    slot = Slot(1_800_000_007, 52, 104, 2)
    used.put(slot)
    assert used.slot(1_800_000_007_999) == slot
    assert used.slot((1_800_000_007 + SLOTS) * SECOND_MS) == EMPTY
    assert (tmp_path / "timerwheel").stat().st_size == WHEEL_BYTES == 38_707_200
    used.close()


def test_the_first_slot_in_use_is_found_in_long_ranges(tmp_path: Path) -> None:
    used = wheel(tmp_path)
    begin = SLOTS * 1_000 + SLOTS - 100_000  # the range goes over the end of the file
    for time in (begin + 3, begin + 99_000, begin + 700_000):
        used.put(Slot(time, 0, 0, 1))
    found, time = [], begin
    while (slot := used.first_slot(time * SECOND_MS, (begin + SLOTS) * SECOND_MS)) is not None:
        found.append(slot.time - begin)
        time = slot.time + 1
    assert found == [3, 99_000, 700_000]
    assert used.first_slot(begin * SECOND_MS, (begin + 3) * SECOND_MS) is None
    assert sorted(slot.time - begin for slot in used.slots()) == found
    used.close()


def test_a_file_of_another_size_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(bytes(32))
    assert not TimerWheel(tmp_path / "timerwheel", SECOND_MS).open()
