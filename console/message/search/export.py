"""Hits as NDJSON, CSV or Parquet, written while they are found: one batch in memory, however long the export.

A Parquet file is a stream too: its row groups are sent as they are made, its footer at the end. Every format marks
an incomplete export at its end: NDJSON in its last line (always there), CSV in a last line that begins with #,
Parquet in the key ``tidemark.end`` of its metadata.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from console.brokers.body_unpack import unpack
from console.lists.export_size import ExportSize
from console.message.search.lanes import Hit
from console.message.search.message_search import Search
from console.text import Text
from console.web.spreadsheet import csv_line

EXPORT_MS = 30 * 60 * 1000
EXPORT_MESSAGES_MAX = 1_000_000
BATCH_MESSAGES = 1_000  # rows of a Parquet row group
BATCH_BYTES = 8 * 1024 * 1024  # of bodies; a batch ends early when its messages are large

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


@dataclasses.dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message with its whole body, as one line or row; times in ms since 1970 UTC.

    ``body`` is bytes, decompressed; where it is text, ``body_encoding`` says how it was made of them.
    """

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    born_timestamp_ms: int
    born_host: str
    message_id: str
    keys: str | None
    tags: str | None
    reconsume_times: int
    properties: Mapping[str, str]
    body: bytes | str
    body_encoding: str
    body_problem: str

    @classmethod
    def of_hit(cls, hit: Hit) -> ExportedMessage:
        """Return the message of a hit, its body as bytes."""
        record = hit.record
        unpacked = unpack(record.body, record.sys_flag)
        return cls(
            topic=record.topic,
            broker_name=hit.broker_name,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            store_timestamp_ms=record.store_timestamp_ms,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=f"{record.born_host[0]}:{record.born_host[1]}",
            message_id=record.message_id,
            keys=record.keys,
            tags=record.tags,
            reconsume_times=record.reconsume_times,
            properties=record.properties,
            body=unpacked.body,
            body_encoding="bytes",
            body_problem=unpacked.problem,
        )

    def with_text(self) -> ExportedMessage:
        """Return it with the body as text, or as base64 if it is not text."""
        assert isinstance(self.body, bytes)
        try:
            return dataclasses.replace(self, body=self.body.decode(), body_encoding="utf-8")
        except UnicodeDecodeError:
            text = base64.b64encode(self.body).decode()
            return dataclasses.replace(self, body=text, body_encoding="base64")

    def values(self) -> Iterator[Any]:
        """Iterate over the values in the order of ``COLUMNS``."""
        return (getattr(self, name) for name in COLUMNS)


COLUMNS = tuple(field.name for field in dataclasses.fields(ExportedMessage))


@dataclasses.dataclass(frozen=True, slots=True)
class ExportEnd:
    """The facts that an export records at its end.

    ``cursor`` continues it; None at the end of the topic. ``silent``: broker → why it could not be read.
    """

    messages: int
    scanned: int
    complete: bool
    ended_because: Text
    silent: Mapping[str, Text]
    cursor: str | None

    @classmethod
    def of(cls, search: Search, written: int) -> ExportEnd:
        """Return the end of a search of which ``written`` messages were written."""
        reason = search.stop_reason
        if not reason and search.limit <= 0 and not search.merge.is_ended:
            reason = Text("the limit of one export, %(number)s messages, is reached", number=written)
        return cls(
            messages=written,
            scanned=search.figures().scanned,
            complete=not search.silent and not reason,
            ended_because=reason,
            silent=dict(search.silent),
            cursor=None if search.merge.is_ended else search.far_cut.to_text(),
        )

    def to_json(self) -> str:
        """Return the facts as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


class Writer(Protocol):
    """Convert messages to bytes."""

    def start(self) -> bytes: ...
    def rows(self, rows: Sequence[ExportedMessage]) -> bytes: ...
    def end(self, facts: ExportEnd) -> bytes: ...


class NdjsonWriter:
    """One message per line; the last line is {"end": facts}."""

    def start(self) -> bytes:
        return b""

    def rows(self, rows: Sequence[ExportedMessage]) -> bytes:
        return b"".join(map(self._line, rows))

    def end(self, facts: ExportEnd) -> bytes:
        return f'{{"end": {facts.to_json()}}}\n'.encode()

    def _line(self, row: ExportedMessage) -> bytes:
        named = dict(zip(COLUMNS, row.with_text().values(), strict=True))
        return json.dumps(named, ensure_ascii=False).encode() + b"\n"


class CsvWriter:
    """RFC 4180 with a header; a last line that begins with # only if the export is incomplete."""

    def start(self) -> bytes:
        return self._lines([list(COLUMNS)])

    def rows(self, rows: Sequence[ExportedMessage]) -> bytes:
        return self._lines([list(self._values(row.with_text())) for row in rows])

    def end(self, facts: ExportEnd) -> bytes:
        return b"" if facts.complete else self._lines([[f"# incomplete: {facts.to_json()}"]])

    def _values(self, row: ExportedMessage) -> Iterator[Any]:
        for name, value in zip(COLUMNS, row.values(), strict=True):
            yield json.dumps(value, ensure_ascii=False) if name == "properties" else value

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

    def rows(self, rows: Sequence[ExportedMessage]) -> bytes:
        columns = [list(column) for column in zip(*(row.values() for row in rows), strict=True)]
        properties = COLUMNS.index("properties")
        columns[properties] = [list(each.items()) for each in columns[properties]]
        table = pa.table(columns, schema=SCHEMA)
        self._writer.write_table(table)
        return self._pipe.take()

    def end(self, facts: ExportEnd) -> bytes:
        self._writer.add_key_value_metadata({"tidemark.end": facts.to_json()})
        self._writer.close()
        return self._pipe.take()


FORMATS: Mapping[str, tuple[str, str, Callable[[], Writer]]] = {
    # Name in addresses and in the file name: label, content type, writer.
    "ndjson": ("NDJSON", "application/x-ndjson", NdjsonWriter),
    "csv": ("CSV", "text/csv; charset=utf-8", CsvWriter),
    "parquet": ("Parquet", "application/vnd.apache.parquet", ParquetWriter),
}


def export_size(
    form: str, sample: Sequence[Hit], rows: int | None, *, is_most: bool, scope: Text | None = None
) -> ExportSize:
    """Return the size of an export in one of FORMATS, by a sample of its messages; ``rows``: None is unknown.

    A row group of a sample compresses worse than a full one: Parquet is at most that large.
    """
    most = is_most or form == "parquet" or (rows or 0) > EXPORT_MESSAGES_MAX
    rows = None if rows is None else min(rows, EXPORT_MESSAGES_MAX)
    total = None
    if rows is not None and sample:
        _, _, writer = FORMATS[form]
        made = writer().rows([ExportedMessage.of_hit(hit) for hit in sample])
        total = round(len(made) / len(sample) * rows)
    return ExportSize(rows, total, is_most=most, scope=scope)


def export(search: Search, writer: Writer) -> Generator[bytes, None, None]:
    """Run the search to its end and yield the hits in order.

    Each step is one round of pulls, so the caller can stop in between.
    """
    yield writer.start()
    written = 0
    batch: list[ExportedMessage] = []
    size = 0
    while True:
        for hit in search.drain():
            batch.append(ExportedMessage.of_hit(hit))
            size += len(batch[-1].body)
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
    yield writer.end(ExportEnd.of(search, written))
