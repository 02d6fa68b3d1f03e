"""Dead letters as lines of NDJSON or CSV, read in windows: memory does not grow with the export."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
    with_admin,
)
from console.brokers.queues import BrokerQueue
from console.cluster import selectors as cluster_selectors
from console.deadletter import selectors
from console.deadletter.dead_letters import (
    Filter,
    LetterReader,
    cause_of,
    original_topic,
    places,
    read_filter,
    topic_of,
)
from console.operation.errors import PlanRejected
from console.web.spreadsheet import csv_line

CONTENT_TYPES = {"ndjson": "application/x-ndjson; charset=utf-8", "csv": "text/csv; charset=utf-8"}
PIECE_LINES = 500  # lines per write to the browser
COLUMNS = (
    "broker_name",
    "queue_id",
    "queue_offset",
    "store_timestamp_ms",
    "message_id",
    "keys",
    "tags",
    "original_topic",
    "cause",
    "reconsume_times",
    "properties",
    "body",
    "body_encoding",
)


def letters(cluster: str, group: str, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over every matching letter, queue by queue in offset order.

    Raises PlanRejected at once for a bad filter or a topic that cannot be read. The iterator raises
    BrokerUnavailable, RemotingTimeout or MQBrokerError when a broker stops answering.
    """
    matching = read_filter(wanted)
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)
    found = places(admin, topic_of(group))
    if found.problem:
        raise PlanRejected(found.problem, field="group")
    return _read(admin, found.queues, matching)


def _read(admin: BlockingMQAdmin, queues: Sequence[BrokerQueue], wanted: Filter) -> Iterator[dict[str, Any]]:
    for place in queues:
        for window in LetterReader(admin, place):
            for letter in window.letters:
                if isinstance(letter, MessageRecord) and wanted.matches(letter):
                    yield _letter(letter, place.queue.broker_name)


def letter_lines(found: Iterator[dict[str, Any]], kind: str) -> Iterator[str]:
    """Format letters as text, one line each; CSV begins with a header line.

    When a broker stops answering, the last line is ``{"incomplete": …}`` or ``incomplete,…``.
    """
    if kind == "csv":
        yield csv_line(COLUMNS)
    try:
        for letter in found:
            if kind == "ndjson":
                yield json.dumps(letter, ensure_ascii=False) + "\n"
                continue
            letter["properties"] = json.dumps(letter["properties"], ensure_ascii=False)
            yield csv_line([letter[column] for column in COLUMNS])
    except (BrokerUnavailable, MQBrokerError, RemotingTimeout) as trouble:
        yield (
            json.dumps({"incomplete": str(trouble)}) + "\n"
            if kind == "ndjson"
            else csv_line(["incomplete", str(trouble)])
        )


def ledger_lines(plan_id: str) -> Iterator[str]:
    """Format the whole ledger of a replay as CSV."""
    yield csv_line(selectors.LEDGER_COLUMNS)
    for row in selectors.ledger_rows(plan_id):
        yield csv_line(row)


def _letter(record: MessageRecord, broker_name: str) -> dict[str, Any]:
    """Return one letter by column.

    ``body`` is text where it is UTF-8 (``body_encoding`` utf-8), else base64; ``base64 of stored`` when the
    body cannot be decompressed.
    """
    try:
        body, encoding = record.decoded_body(), "base64"
    except Exception:  # noqa: BLE001  decompressors raise many types
        body, encoding = record.body, "base64 of stored"
    text = ""
    if encoding == "base64":
        with contextlib.suppress(UnicodeDecodeError):
            text, encoding = body.decode(), "utf-8"
    return {
        "broker_name": broker_name,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_timestamp_ms": record.store_timestamp_ms,
        "message_id": record.message_id,
        "keys": record.keys or "",
        "tags": record.tags or "",
        "original_topic": original_topic(record),
        "cause": cause_of(record),
        "reconsume_times": record.reconsume_times,
        "properties": dict(record.properties),
        "body": text if encoding == "utf-8" else base64.b64encode(body).decode(),
        "body_encoding": encoding,
    }
