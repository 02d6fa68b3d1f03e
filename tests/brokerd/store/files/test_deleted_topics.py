from __future__ import annotations

from pathlib import Path

from brokerd.store.files.deleted_topics import DeletedTopics


def opened(path: Path) -> DeletedTopics:
    topics = DeletedTopics(path)
    topics.load()
    return topics


def test_it_keeps_deletions_until_their_records_have_expired(tmp_path: Path) -> None:
    path = tmp_path / "deletedtopics.json"
    topics = opened(path)
    topics.add("old", 1_000)
    topics.add("new", 9_000)
    topics.save()
    again = opened(path)
    assert again.ends == {"old": 1_000, "new": 9_000}
    again.fit(log_min_offset=1_000, log_max_offset=5_000)
    assert (again.ends, opened(path).end_of("new"), opened(path).end_of("old")) == ({"new": 5_000}, 5_000, 0)


def test_a_damaged_file_counts_as_empty_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "deletedtopics.json"
    topics = opened(path)
    topics.add("T", 7)
    topics.save()
    path.write_bytes(path.read_bytes().replace(b"7", b"8", 1))
    damaged = opened(path)
    assert (damaged.ends, damaged.is_readable) == ({}, False)
