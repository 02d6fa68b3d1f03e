"""Hits as NDJSON, CSV or Parquet, written while they are found: one batch in memory, however long the export.

A Parquet file is a stream too: its row groups are sent as they are made, its footer at the end. Every format marks
an incomplete export at its end: NDJSON in its last line (always there), CSV in a last line that begins with #,
Parquet in the key ``tidemark.end`` of its metadata.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from console.brokers.body_unpack import unpack
from console.message.search.lanes import Hit
from console.message.search.message_search import Search
from console.text import Text
from console.web.spreadsheet import csv_line

EXPORT_MS = 30 * 60 * 1000
EXPORT_MESSAGES_MAX = 1_000_000
BATCH_MESSAGES = 1_000  # rows of a Parquet row group
BATCH_BYTES = 8 * 1024 * 1024  # of bodies; a batch ends early when its messages are large

COLUMNS = (
    "topic",
    "broker_name",
    "queue_id",
    "queue_offset",
    "store_timestamp_ms",
    "born_timestamp_ms",
    "born_host",
    "message_id",
    "keys",
    "tags",
    "reconsume_times",
    "properties",
    "body",
    "body_encoding",
    "body_problem",
)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("broker_name", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("store_timestamp_ms", pa.int64()),
        ("born_timestamp_ms", pa.int64()),
        ("born_host", pa.string()),
        ("message_id", pa.string()),
        ("keys", pa.string()),
        ("tags", pa.string()),
        ("reconsume_times", pa.int32()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("body_encoding", pa.string()),
        ("body_problem", pa.string()),
    ]
)


def row_of(hit: Hit) -> dict[str, Any]:
    """Return a message with its whole body: decompressed bytes, times in ms since 1970 UTC."""
    record = hit.record
    unpacked = unpack(record.body, record.sys_flag)
    return {
        "topic": record.topic,
        "broker_name": hit.broker_name,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_timestamp_ms": record.store_timestamp_ms,
        "born_timestamp_ms": record.born_timestamp_ms,
        "born_host": f"{record.born_host[0]}:{record.born_host[1]}",
        "message_id": record.message_id,
        "keys": record.keys,
        "tags": record.tags,
        "reconsume_times": record.reconsume_times,
        "properties": dict(record.properties),
        "body": unpacked.body,
        "body_encoding": "",
        "body_problem": unpacked.problem,
    }


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """Replace the body by text, or by base64 if it is not text."""
    try:
        return {**row, "body": row["body"].decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {**row, "body": base64.b64encode(row["body"]).decode(), "body_encoding": "base64"}


class Writer(Protocol):
    """Convert rows to bytes."""

    def start(self) -> bytes: ...
    def rows(self, rows: Sequence[dict[str, Any]]) -> bytes: ...
    def end(self, facts: Mapping[str, Any]) -> bytes: ...


class NdjsonWriter:
    """One message per line; the last line is {"end": facts}."""

    def start(self) -> bytes:
        return b""

    def rows(self, rows: Sequence[dict[str, Any]]) -> bytes:
        return b"".join(json.dumps(_with_text(row), ensure_ascii=False).encode() + b"\n" for row in rows)

    def end(self, facts: Mapping[str, Any]) -> bytes:
        return json.dumps({"end": facts}, ensure_ascii=False).encode() + b"\n"


class CsvWriter:
    """RFC 4180 with a header; a last line that begins with # only if the export is incomplete."""

    def start(self) -> bytes:
        return self._lines([list(COLUMNS)])

    def rows(self, rows: Sequence[dict[str, Any]]) -> bytes:
        return self._lines([list(self._values(_with_text(row))) for row in rows])

    def end(self, facts: Mapping[str, Any]) -> bytes:
        if facts["complete"]:
            return b""
        return self._lines([[f"# incomplete: {json.dumps(facts, ensure_ascii=False)}"]])

    def _values(self, row: Mapping[str, Any]) -> Iterator[Any]:
        for name in COLUMNS:
            yield json.dumps(row[name], ensure_ascii=False) if name == "properties" else row[name]

    def _lines(self, lines: Sequence[Sequence[Any]]) -> bytes:
        return "".join(map(csv_line, lines)).encode()


class _Pipe(io.RawIOBase):
    """A write-only file that returns what was written since the last `take`."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class ParquetWriter:
    """One row group per batch, ZSTD; bodies are bytes."""

    def __init__(self) -> None:
        self._pipe = _Pipe()
        self._writer = pq.ParquetWriter(self._pipe, SCHEMA, compression="zstd")

    def start(self) -> bytes:
        return self._pipe.take()

    def rows(self, rows: Sequence[dict[str, Any]]) -> bytes:
        table = pa.Table.from_pylist(
            [
                {**row, "properties": list(row["properties"].items()), "body_encoding": "bytes"}
                for row in rows
            ],
            schema=SCHEMA,
        )
        self._writer.write_table(table)
        return self._pipe.take()

    def end(self, facts: Mapping[str, Any]) -> bytes:
        self._writer.add_key_value_metadata({"tidemark.end": json.dumps(facts, ensure_ascii=False)})
        self._writer.close()
        return self._pipe.take()


FORMATS: Mapping[str, tuple[str, str, Callable[[], Writer]]] = {
    # Name in addresses and in the file name: label, content type, writer.
    "ndjson": ("NDJSON", "application/x-ndjson", NdjsonWriter),
    "csv": ("CSV", "text/csv; charset=utf-8", CsvWriter),
    "parquet": ("Parquet", "application/vnd.apache.parquet", ParquetWriter),
}


def export(search: Search, writer: Writer) -> Generator[bytes, None, None]:
    """Run the search to its end and yield the hits in order.

    Each step is one round of pulls, so the caller can stop in between.
    """
    yield writer.start()
    written = 0
    batch: list[dict[str, Any]] = []
    size = 0
    while True:
        for hit in search.drain():
            batch.append(row_of(hit))
            size += len(batch[-1]["body"])
            if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
                written += len(batch)
                yield writer.rows(batch)
                batch, size = [], 0
        if search.is_done:
            break
        search.step()
        yield b""  # nothing yet: the caller can stop here
    if batch:
        written += len(batch)
        yield writer.rows(batch)
    yield writer.end(end_facts(search, written))


def end_facts(search: Search, written: int) -> dict[str, Any]:
    """Return the facts that an export records at its end."""
    figures = search.figures()
    reason = search.stop_reason
    if not reason and search.limit <= 0 and not search.merge.is_ended:
        reason = Text("it has %(number)s messages, the most of one export", number=written)
    return {
        "messages": written,
        "scanned": figures.scanned,
        "complete": not search.silent and not reason,
        "ended_because": reason,
        "silent": dict(search.silent),
        "cursor": None if search.merge.is_ended else search.far_cut.to_text(),
    }
