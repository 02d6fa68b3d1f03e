"""The revive log's records in the store are Java's."""

from __future__ import annotations

from pathlib import Path

from brokerd.pop.checkpoint import Ack, Checkpoint, CheckpointKey
from brokerd.pop.revive_log import ReviveLog
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.stores import NOW_MS, STORE_HOST, small_config

KEY = CheckpointKey("T", "g", 1, 10, NOW_MS, "broker-a")


def test_records_carry_what_java_reads(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path))
    store.open(NOW_MS)
    log = ReviveLog(store, "c", STORE_HOST)
    log.need_queue(7)
    checkpoint = Checkpoint(KEY, 60_000, (10, 11))
    assert log.put_checkpoint(7, checkpoint, NOW_MS) == 0
    assert log.put_ack(7, Ack(KEY, (10,)), checkpoint.revive_ms, NOW_MS) == 1
    assert log.put_ack(7, Ack(KEY, (10, 11)), checkpoint.revive_ms, NOW_MS) == 2
    assert log.offsets(7) == (0, 0)
    store.dispatch_pending()
    assert (log.offsets(7), log.offsets(6)) == ((0, 3), (0, 0))
    records = [record for record in log.read(7, 0) if record is not None]
    assert [(record.topic, record.tags) for record in records] == [
        ("rmq_sys_REVIVE_LOG_c", "ck"),
        ("rmq_sys_REVIVE_LOG_c", "ack"),
        ("rmq_sys_REVIVE_LOG_c", "bAck"),
    ]
    revive_ms = NOW_MS + 60_000
    assert [record.properties["TIMER_DELIVER_MS"] for record in records] == [
        str(revive_ms - 1_000),
        str(revive_ms),
        str(revive_ms),
    ]
    assert [record.queue_offset for record in log.read(7, 2) if record is not None] == [2]
    store.close(NOW_MS)
