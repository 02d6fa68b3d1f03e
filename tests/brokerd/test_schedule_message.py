"""Delayed messages: what becomes of one that can never be delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.remoting.message.properties import encode_properties
from brokerd.schedule_message import RETRY_AFTER_MS, ScheduleMessageService
from brokerd.store.errors import FlushFailed, ServiceNotAvailable
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.stores import NOW_MS, failing_disk, open_store, put

LEVEL_MS = 1_000
DUE_MS = NOW_MS + LEVEL_MS


def parked(store: MessageStore, *queue_ids: str) -> ScheduleMessageService:
    """Messages waiting in level 1 for queues of TopicTest."""
    for queue_id in queue_ids:
        properties = {"DELAY": "1", "REAL_TOPIC": "TopicTest", "REAL_QID": queue_id}
        put(store, topic=SCHEDULE_TOPIC, properties=encode_properties(properties))
    store.dispatch_pending()
    return ScheduleMessageService(store.config.store_path_root_dir / "delayOffset.json", [LEVEL_MS])


def test_it_passes_over_a_message_that_no_queue_can_take(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    service = parked(store, "99999999999", "0", "1")
    assert service.deliver_due(store, DUE_MS, DUE_MS) == 3
    store.dispatch_pending()
    assert [store.max_offset("TopicTest", queue_id) for queue_id in (0, 1)] == [1, 1]
    assert service.offsets == {1: 3}
    assert store.max_offset(SCHEDULE_TOPIC, 0) == 3  # still there to be read
    store.close(DUE_MS)


def test_it_delivers_a_backlog_in_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many were parked at once: as after an outage of what a group's handler needs."""
    store = open_store(tmp_path)
    service = parked(store, *["0"] * 450)
    assert [service.deliver_due(store, DUE_MS, DUE_MS) for _ in range(4)] == [200, 200, 50, 0]
    store.dispatch_pending()
    assert store.max_offset("TopicTest", 0) == 450
    store.close(DUE_MS)


def test_no_level_waits_for_the_backlog_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.schedule_message.LEVEL_MAX", 4)
    monkeypatch.setattr("brokerd.schedule_message.ROUND_MAX", 4)
    store = open_store(tmp_path)
    parked(store, *["0"] * 9)
    properties = {"DELAY": "2", "REAL_TOPIC": "TopicTest", "REAL_QID": "1"}
    put(store, topic=SCHEDULE_TOPIC, queue_id=1, properties=encode_properties(properties))
    store.dispatch_pending()
    path = store.config.store_path_root_dir / "delayOffset.json"
    service = ScheduleMessageService(path, [LEVEL_MS, LEVEL_MS])
    assert service.deliver_due(store, DUE_MS, DUE_MS) == 4
    assert service.offsets == {1: 4}
    assert service.deliver_due(store, DUE_MS, DUE_MS) == 5
    assert service.offsets == {1: 8, 2: 1}
    store.close(DUE_MS)


def test_it_waits_while_the_store_can_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    service = parked(store, "0")
    with monkeypatch.context() as patch:
        for error in (ServiceNotAvailable("the disk is full"), OSError("no room")):
            patch.setattr(MessageStore, "put_message", raising(error))
            assert service.deliver_due(store, DUE_MS, DUE_MS) == 0
    assert service.deliver_due(store, DUE_MS + RETRY_AFTER_MS - 1, DUE_MS + RETRY_AFTER_MS - 1) == 0
    assert service.deliver_due(store, DUE_MS + RETRY_AFTER_MS, DUE_MS + RETRY_AFTER_MS) == 1
    store.close(DUE_MS)


def raising(error: Exception):  # type: ignore[no-untyped-def]
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


def test_an_offset_is_saved_behind_its_delivered_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may take what is not flushed: never the copy alone, with an offset behind it."""
    store = open_store(tmp_path)
    service = parked(store, "0")
    service.start(store)
    assert service.deliver_due(store, DUE_MS, DUE_MS) == 1
    document = service.take_document()
    assert document is not None
    assert store.flushed_offset < store.commit_log_max_offset
    service.write(document)
    assert store.flushed_offset == store.commit_log_max_offset
    path = tmp_path / "delayOffset.json"
    saved = path.read_bytes()
    put(store, b"more")
    monkeypatch.setattr("brokerd.store.files.mapped_file.sync_pages", failing_disk)
    with pytest.raises(FlushFailed):
        service.write(b"{}")
    assert path.read_bytes() == saved


def flip(store: MessageStore, queue_offset: int, position: int) -> None:
    """Damage one byte of a waiting message's record."""
    offset, _, _ = store.units(SCHEDULE_TOPIC, 0, queue_offset, 1)[0]
    mapped_file = store._log.files.find(offset)
    assert mapped_file is not None
    mapped_file.map[offset - mapped_file.start_offset + position] ^= 0x40


@pytest.mark.parametrize("position", [0, 4, 8, 84, 90], ids=["size", "magic", "crc", "body length", "body"])
def test_a_damaged_message_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, position: int
) -> None:
    store = open_store(tmp_path)
    service = parked(store, "0", "0", "0")
    flip(store, 1, position)
    assert service.deliver_due(store, DUE_MS, 0) == 3
    store.dispatch_pending()
    assert (store.max_offset("TopicTest", 0), service.damaged_count, service.offsets) == (2, 1, {1: 3})
    assert "delayed message passed over level=1" in caplog.text


def waits(store: MessageStore, service: ScheduleMessageService, now_ms: int, elapsed_ms: int) -> bool:
    return service.deliver_due(store, now_ms, elapsed_ms) == 0


def test_a_clock_set_forward_delivers_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    service = parked(store, "0")
    assert waits(store, service, NOW_MS, 50_000)
    assert service.deliver_due(store, NOW_MS + 3_600_000, 51_000) == 1
    store.close(DUE_MS)


def test_a_clock_set_back_delays_by_the_level_at_most(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    service = parked(store, "0")
    assert waits(store, service, NOW_MS, 50_000)
    assert service.deliver_due(store, NOW_MS - 3_600_000, 51_000) == 1, "an hour away, in a level of 1 s"
    parked(store, "0")
    assert waits(store, service, NOW_MS, 52_000)
    assert waits(store, service, NOW_MS - 400, 52_500), "not looked at before its second is over"
    assert service.deliver_due(store, DUE_MS, 53_000) == 1
    store.close(DUE_MS)
