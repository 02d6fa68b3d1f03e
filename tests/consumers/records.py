"""Stored messages for tests."""

from __future__ import annotations

from brokerd.remoting.message.record import MessageRecord


def record(
    queue_offset: int,
    body: bytes = b"body",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    reconsume_times: int = 0,
    sys_flag: int = 0,
    properties: dict[str, str] | None = None,
) -> MessageRecord:
    return MessageRecord(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=1000 + queue_offset,
        store_size_bytes=100,
        body=body,
        body_crc=0,
        flag=0,
        sys_flag=sys_flag,
        born_timestamp_ms=1_700_000_000_000,
        born_host=("127.0.0.1", 50_000),
        store_timestamp_ms=1_700_000_000_001,
        store_host=("127.0.0.1", 10_911),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        properties={"UNIQ_KEY": f"key-{queue_offset}"} if properties is None else properties,
    )
