"""A stored message for people: every field of the record, and a body that is safe to show.

Bodies longer than the limits are cut and marked; one that does not decompress or decode is shown as stored,
with the reason (`body_unpack`, `body_format`).
"""

from __future__ import annotations

import dataclasses

from console.brokers.body_format import FORMAT_LABELS, STRUCTURED_FORMATS, ProtobufDecoder, render_body
from console.brokers.body_unpack import unpack
from console.brokers.masking import Masks
from console.brokers.mqadmin import MessageRecord
from console.text import Text

# Of one message on its own page; a 4 MiB body would freeze the browser.
BODY_SHOWN_BYTES = 256 * 1024
# Of each message in a list: about two lines.
BODY_IN_LIST_BYTES = 512


@dataclasses.dataclass(frozen=True, slots=True)
class MessageView:
    """One message. Times in ms since 1970 UTC, sizes in bytes; ``body_bytes`` is the decompressed size."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_message_id: str
    keys: str
    tags: str
    store_timestamp_ms: int
    born_timestamp_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    body_bytes: int
    body_text: str
    body_format: str  # json | text | msgpack | protobuf | hex | base64
    body_cut: bool
    body_problem: str  # "" or why it is shown as stored, or not in the requested format
    properties: dict[str, str]
    size_bytes: int
    flag: int
    sys_flag: int
    commit_log_offset: int
    body_stored_bytes: int = 0
    body_packing: str = ""  # "ZSTD flag, gzip": the layers that were undone, from the outside in
    batch_index: int = 0  # from 1, of a message inside a stored batch; 0 for any other
    batch_size: int = 0
    is_masked: bool = False  # values are hidden by rule

    @property
    def is_structured(self) -> bool:
        """Return whether the body is shown as indented JSON."""
        return self.body_format in STRUCTURED_FORMATS

    @property
    def format_label(self) -> Text | str:
        """Return the name of the body's format for readers."""
        return FORMAT_LABELS[self.body_format]


def message_view(
    record: MessageRecord,
    broker_name: str,
    *,
    masks: Masks,
    limit_bytes: int = BODY_SHOWN_BYTES,
    body_format: str = "auto",
    protobuf: ProtobufDecoder | None = None,
    batch: tuple[int, int] = (0, 0),
) -> MessageView:
    """Render one record; never raises for what a producer put into the body.

    ``batch``: (index from 1, size) of a message from a stored batch.
    """
    original, record = record, masks.masked(record)
    stored = unpack(original.body, original.sys_flag)
    unpacked = stored if record is original else unpack(record.body, record.sys_flag)
    shown = render_body(unpacked.body, limit_bytes, body_format, protobuf)
    return MessageView(
        topic=record.topic,
        broker_name=broker_name,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        message_id=record.message_id,
        offset_message_id=record.offset_message_id,
        keys=record.keys or "",
        tags=record.tags or "",
        store_timestamp_ms=record.store_timestamp_ms,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=_host(record.born_host),
        store_host=_host(record.store_host),
        reconsume_times=record.reconsume_times,
        body_bytes=len(stored.body),
        body_text=shown.text,
        body_format=shown.format,
        body_cut=shown.is_cut,
        body_problem="; ".join(filter(None, (unpacked.problem, shown.problem))),
        properties=dict(record.properties),
        size_bytes=record.store_size_bytes,
        flag=record.flag,
        sys_flag=record.sys_flag,
        commit_log_offset=record.commit_log_offset,
        body_stored_bytes=len(original.body),
        body_packing=", ".join(stored.how),
        batch_index=batch[0],
        batch_size=batch[1],
        is_masked=record is not original,
    )


def _host(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"
