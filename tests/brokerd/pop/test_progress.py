"""Offsets of pops are committed once what they rely on is on the disk."""

from __future__ import annotations

from pathlib import Path

from brokerd.pop.checkpoint import GroupQueue
from brokerd.pop.progress import PopProgress
from brokerd.tables.consumer_offset import ConsumerOffsetManager

QUEUE, OTHER = GroupQueue("T", "g", 0), GroupQueue("T", "h", 0)


def parts(root: Path) -> tuple[ConsumerOffsetManager, PopProgress]:
    offsets = ConsumerOffsetManager(root / "consumerOffset.json", 0)
    for queue in (QUEUE, OTHER):
        offsets.commit(queue.group, queue.topic, queue.queue_id, 1, 0)
    return offsets, PopProgress(offsets)


def test_pops_go_on_at_once_and_commits_follow_the_flush(tmp_path: Path) -> None:
    offsets, progress = parts(tmp_path)
    progress.popped(QUEUE, 5, log_end=100)
    progress.popped(QUEUE, 9, log_end=200)
    assert (progress.next_offset(QUEUE), offsets.committed("g", "T", 0)) == (9, 1)
    progress.hand_over(99, 0)
    assert offsets.committed("g", "T", 0) == 1
    progress.hand_over(199, 0)
    assert (progress.next_offset(QUEUE), offsets.committed("g", "T", 0)) == (9, 5)
    progress.hand_over(200, 0)
    assert (progress.next_offset(QUEUE), offsets.committed("g", "T", 0)) == (9, 9)


def test_a_reset_drops_what_was_popped(tmp_path: Path) -> None:
    offsets, progress = parts(tmp_path)
    for queue in (QUEUE, OTHER):
        progress.popped(queue, 5, log_end=100)
    progress.move_to(QUEUE, 2, 0)
    progress.hand_over(100, 0)
    assert (offsets.committed("g", "T", 0), offsets.committed("h", "T", 0)) == (2, 5)


def test_a_deleted_group_is_dropped(tmp_path: Path) -> None:
    offsets, progress = parts(tmp_path)
    progress.popped(QUEUE, 5, log_end=100)
    offsets.remove_group("g")
    progress.drop(group="g")
    progress.hand_over(100, 0)
    assert offsets.committed("g", "T", 0) is None
