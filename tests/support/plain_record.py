"""Encode stored records in the plainest way: the twin of the store's fast encoder, and answers of fake brokers."""

from __future__ import annotations

import struct

from brokerd.remoting.message.hosts import IPV6_BYTES, PORT, encode_host
from brokerd.remoting.message.names import SysFlag
from brokerd.remoting.message.properties import PROPERTIES_BYTES_MAX, encode_properties
from brokerd.remoting.message.record import (
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    MessageRecord,
)

TIMESTAMP = struct.Struct(">q")
# Reconsume times, prepared transaction offset.
TAIL = struct.Struct(">iq")
# Java's byte is signed.
TOPIC_V1_BYTES_MAX = 127


def encode_record(record: MessageRecord) -> bytes:
    """Encode a record; its size is computed, not taken from the record.

    Raises ValueError for a topic or properties too long for their lengths, or hosts that do not go with the sysFlag.
    """
    topic = record.topic.encode()
    if len(topic) <= TOPIC_V1_BYTES_MAX:
        magic, topic_length = MAGIC_V1, TOPIC_LENGTH_V1.pack(len(topic))
    elif len(topic) < 1 << 16:
        magic, topic_length = MAGIC_V2, TOPIC_LENGTH_V2.pack(len(topic))
    else:
        raise ValueError(f"topic of {len(topic)} bytes")
    properties = encode_properties(record.properties)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"properties of {len(properties)} bytes; at most {PROPERTIES_BYTES_MAX} are allowed")
    for host, bit in ((record.born_host, SysFlag.BORN_HOST_V6), (record.store_host, SysFlag.STORE_HOST_V6)):
        if (len(encode_host(host)) == IPV6_BYTES + PORT.size) != bool(record.sys_flag & bit):
            raise ValueError(f"host {host[0]} does not go with sysFlag {record.sys_flag:#x}")
    rest = b"".join(
        (
            encode_host(record.born_host),
            TIMESTAMP.pack(record.store_timestamp_ms),
            encode_host(record.store_host),
            TAIL.pack(record.reconsume_times, record.prepared_transaction_offset),
            len(record.body).to_bytes(4, "big"),
            record.body,
            topic_length,
            topic,
            PROPERTIES_LENGTH.pack(len(properties)),
            properties,
        )
    )
    head = HEAD.pack(
        HEAD.size + len(rest),
        magic,
        record.body_crc,
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.commit_log_offset,
        record.sys_flag,
        record.born_timestamp_ms,
    )
    return head + rest
