"""Units over several files, chains, cuts and expiry; the bytes are those of Java's files (test_timer_files.py)."""

from __future__ import annotations

import os
from pathlib import Path

from brokerd.timer.timer_log import BLANK, BLANK_MAGIC, NONE, UNIT_BYTES, TimerLog, TimerUnit, decode_unit

FILE_BYTES = 52 * 10 + 16


def unit(previous: int = NONE, number: int = 0) -> TimerUnit:
    return TimerUnit(previous, 1, 1_000, 5_000, number * 100, 100, 0xFFFFFFFF)


def filled(folder: Path, count: int) -> tuple[TimerLog, list[int]]:
    """A log whose units are one chain, and their positions."""
    log, positions, previous = TimerLog(folder, FILE_BYTES), [], NONE
    log.open()
    for number in range(count):
        positions.append(log.position_for(log.end))
        log.append([unit(previous, number).encode()])
        previous = positions[-1]
    return log, positions


def test_units_run_over_files_as_javas_do(tmp_path: Path) -> None:
    log, positions = filled(tmp_path, 25)
    assert positions[9:11] == [9 * UNIT_BYTES, FILE_BYTES]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n * FILE_BYTES:020d}" for n in range(3)]
    assert [position for position, _ in log.scan(0)] == positions
    assert [each.commit_log_offset for _, each in log.chain(positions[-1])] == [
        number * 100 for number in reversed(range(25))
    ]
    blank = (tmp_path / f"{0:020d}").read_bytes()[-16:]
    assert blank == (16).to_bytes(4) + bytes(8) + 0xCBD43194.to_bytes(4)
    log.close()


def test_many_at_once_lie_as_one_by_one(tmp_path: Path) -> None:
    one, positions = filled(tmp_path / "one", 25)
    many = TimerLog(tmp_path / "many", FILE_BYTES)
    many.open()
    many.append([unit(previous, number).encode() for number, previous in enumerate([NONE, *positions[:-1]])])
    assert many.end == one.end
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "many" / path.name).read_bytes() == path.read_bytes()
    one.close()
    many.close()


def test_a_cut_leaves_nothing_behind_it(tmp_path: Path) -> None:
    log, positions = filled(tmp_path, 25)
    log.cut(positions[12])
    log.append([unit(number=99).encode()])
    assert [each.commit_log_offset for _, each in log.scan(0)] == [n * 100 for n in range(12)] + [9_900]
    log.close()


def test_a_kill_before_a_new_file_has_its_size_loses_nothing(tmp_path: Path) -> None:
    log, positions = filled(tmp_path, 10)
    log.close()
    with (tmp_path / f"{0:020d}").open("r+b") as first:
        first.seek(10 * UNIT_BYTES)
        first.write(BLANK.pack(16, 0, BLANK_MAGIC))
    (tmp_path / f"{FILE_BYTES:020d}").touch()
    log.open()
    assert [position for position, _ in log.scan(0)] == positions
    log.cut(positions[-1] + UNIT_BYTES)
    log.append([unit(number=99).encode()])
    assert (tmp_path / f"{FILE_BYTES:020d}").stat().st_size == FILE_BYTES
    assert [each.commit_log_offset for _, each in log.scan(0)] == [n * 100 for n in range(10)] + [9_900]
    log.close()


def test_a_file_that_is_cut_short_ends_the_log(tmp_path: Path) -> None:
    log, positions = filled(tmp_path, 25)
    os.truncate(tmp_path / f"{FILE_BYTES:020d}", 2 * UNIT_BYTES)
    assert [position for position, _ in log.scan(0)] == positions[:12]
    log.close()


def test_a_mark_says_where_the_copy_goes(tmp_path: Path) -> None:
    log, positions = filled(tmp_path, 12)
    log.mark_delivered(positions[11], 77)
    marked = log.unit(positions[11])
    assert marked is not None
    assert (marked.delivered_as, marked._replace(delivered_as=0)) == (78, unit(positions[10], 11))
    log.close()


def test_files_of_expired_messages_go_but_the_last(tmp_path: Path) -> None:
    log, _ = filled(tmp_path, 25)
    assert log.delete_expired(1_900) == 1
    assert log.start == FILE_BYTES
    assert log.delete_expired(99_999) == 1
    assert log.delete_expired(99_999) == 0
    log.close()
    log.open()
    assert (log.start, log.file_size_bytes) == (2 * FILE_BYTES, FILE_BYTES)
    log.close()


def test_what_was_never_written_is_no_unit() -> None:
    assert decode_unit(bytes(UNIT_BYTES)) is None
    assert decode_unit(unit().encode()[:-1]) is None
    assert decode_unit(unit()._replace(magic=16).encode()) is None
