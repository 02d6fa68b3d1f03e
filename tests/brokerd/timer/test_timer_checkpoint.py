from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.timer.timer_checkpoint import LAYOUT, TimerCheckpoint, TimerProgress

PROGRESS = TimerProgress(1_800_000_000_000, 5_200, 100, 100, 0, 1_800_000_000_500, 3)


def saved(path: Path) -> TimerCheckpoint:
    checkpoint = TimerCheckpoint(path)
    checkpoint.save(PROGRESS)
    return checkpoint


def test_it_reads_what_it_saved_as_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config" / "timercheck"
    saved(path).note_enqueued(123)
    assert path.stat().st_size == 4096
    again = TimerCheckpoint(path)
    assert again.load()
    assert again.is_ours
    assert (again.saved.queue_offset, again.saved.master_queue_offset) == (100, 123)


def test_what_java_wrote_over_it_is_not_its_own(tmp_path: Path) -> None:
    saved(tmp_path / "timercheck")
    with (tmp_path / "timercheck").open("r+b") as file:
        file.write(LAYOUT.pack(1_800_000_009_000, 5_200, 110, 110, 0, 1_800_000_009_000, 4))
    again = TimerCheckpoint(tmp_path / "timercheck")
    assert again.load()
    assert not again.is_ours
    assert again.saved.queue_offset == 110


def test_a_torn_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "timercheck").write_bytes(b"short")
    assert not TimerCheckpoint(tmp_path / "timercheck").load()
    assert not TimerCheckpoint(tmp_path / "none").load()


def test_a_checkpoint_that_is_cut_short_is_refused() -> None:
    assert TimerProgress.decode(PROGRESS.encode() + b"more") == PROGRESS
    with pytest.raises(ValueError, match="of 55 bytes, 56 expected"):
        TimerProgress.decode(PROGRESS.encode()[:55])
