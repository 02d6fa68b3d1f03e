"""Dead letters as lines of NDJSON or CSV, read in windows: memory does not grow with the export."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BodyError,
    BrokerUnavailable,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
    with_admin,
)
from console.brokers.queues import BrokerQueue
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.deadletter import selectors
from console.deadletter.dead_letters import (
    Filter,
    LetterReader,
    Sieve,
    cause_of,
    original_topic,
    places,
    topic_of,
)
from console.lists.export_size import SAMPLE_ROWS_MAX, ExportSize, estimated
from console.operation.errors import PlanRejected
from console.text import Text
from console.web.spreadsheet import csv_line

CONTENT_TYPES = {"ndjson": "application/x-ndjson; charset=utf-8", "csv": "text/csv; charset=utf-8"}


@dataclasses.dataclass(frozen=True, slots=True)
class ExportedLetter:
    """One letter of an export.

    ``body`` is text where it is UTF-8 (``body_encoding`` utf-8), else base64; ``base64 of stored`` when the
    body cannot be decompressed.
    """

    broker_name: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    message_id: str
    keys: str
    tags: str
    original_topic: str
    cause: str
    reconsume_times: int
    properties: Mapping[str, str]
    body: str
    body_encoding: str

    @classmethod
    def of(cls, record: MessageRecord, broker_name: str) -> ExportedLetter:
        """Return a letter with its decoded body."""
        body, encoding = _body_of(record)
        return cls(
            broker_name=broker_name,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            store_timestamp_ms=record.store_timestamp_ms,
            message_id=record.message_id,
            keys=record.keys or "",
            tags=record.tags or "",
            original_topic=original_topic(record),
            cause=cause_of(record),
            reconsume_times=record.reconsume_times,
            properties=record.properties,
            body=body,
            body_encoding=encoding,
        )

    def to_line(self, kind: str) -> str:
        """Format it as a line of NDJSON or CSV."""
        named = {name: getattr(self, name) for name in COLUMNS}
        if kind == "ndjson":
            return json.dumps(named, ensure_ascii=False) + "\n"
        named["properties"] = json.dumps(self.properties, ensure_ascii=False)
        return csv_line(list(named.values()))


COLUMNS = tuple(field.name for field in dataclasses.fields(ExportedLetter))


def letters(cluster: str, group: str, wanted: Filter) -> Iterator[ExportedLetter]:
    """Iterate over every matching letter, queue by queue in offset order.

    Raises PlanRejected at once for a bad filter or a topic that cannot be read. The iterator raises
    BrokerUnavailable, RemotingTimeout or MQBrokerError when a broker stops answering.
    """
    wanted.checked()
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    found = places(admin, topic_of(group))
    if found.problem:
        raise PlanRejected(found.problem, field="group")
    return _read(admin, found.queues, Sieve(wanted, masks_of(cluster)))


def _read(admin: BlockingMQAdmin, queues: Sequence[BrokerQueue], wanted: Sieve) -> Iterator[ExportedLetter]:
    for place in queues:
        for window in LetterReader(admin, place):
            for letter in window.letters:
                if isinstance(letter, MessageRecord) and wanted.matches(letter):
                    yield ExportedLetter.of(wanted.masks.masked(letter), place.queue.broker_name)


def letter_lines(found: Iterator[ExportedLetter], kind: str) -> Iterator[str]:
    """Format letters as text, one line each; CSV begins with a header line.

    When a broker stops answering, the last line is ``{"incomplete": …}`` or ``incomplete,…``.
    """
    if kind == "csv":
        yield csv_line(COLUMNS)
    try:
        for letter in found:
            yield letter.to_line(kind)
    except (BrokerUnavailable, MQBrokerError, RemotingTimeout) as trouble:
        yield (
            json.dumps({"incomplete": str(trouble)}) + "\n"
            if kind == "ndjson"
            else csv_line(["incomplete", str(trouble)])
        )


def export_sizes(
    rows: int | None, sample: Sequence[tuple[str, MessageRecord]], *, is_filtered: bool
) -> dict[str, ExportSize]:
    """Return the size of an export of each kind, by a sample of the letters; ``rows``: of the whole topic."""
    found = [ExportedLetter.of(record, broker_name) for broker_name, record in sample]
    scope = Text("the dead letters that match the filter") if is_filtered else Text("every dead letter")
    sizes = {}
    for kind in CONTENT_TYPES:
        head = csv_line(COLUMNS) if kind == "csv" else ""
        total = estimated(rows, [each.to_line(kind) for each in found], head)
        sizes[kind] = ExportSize(rows, total, is_most=is_filtered, scope=scope)
    return sizes


def ledger_size(plan_id: str, rows: int) -> ExportSize:
    """Return the size of a replay's ledger as CSV, by its first rows."""
    sample = [csv_line(row) for row in selectors.ledger_rows(plan_id, SAMPLE_ROWS_MAX)]
    total = estimated(rows, sample, csv_line(selectors.LEDGER_COLUMNS))
    return ExportSize(rows, total, scope=Text("every row of the ledger, whatever its state"))


def ledger_lines(plan_id: str) -> Iterator[str]:
    """Format the whole ledger of a replay as CSV."""
    yield csv_line(selectors.LEDGER_COLUMNS)
    for row in selectors.ledger_rows(plan_id):
        yield csv_line(row)


def _body_of(record: MessageRecord) -> tuple[str, str]:
    """Return (body, encoding)."""
    try:
        body = record.decoded_body()
    except BodyError:
        return base64.b64encode(record.body).decode(), "base64 of stored"
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
