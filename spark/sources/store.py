"""Python data sources over the store files of a broker: `commitlog` (a row per record) and `consumequeue` (per unit).

    spark.dataSource.register(CommitLogSource)
    spark.read.format("commitlog").options(path=store, cluster="c", broker_name="b", from_ms="…", to_ms="…").load()

`path` is a store's root (with `commitlog/` and `consumequeue/`) where every task can read it: a broker's own folder,
which is only read, a copy, or an fsspec URL. Partitions are files, and queues packed together. Rows with a `warning`,
what could not be read, have null in every other column but the names of cluster and broker.

Filters come down as options, `from_ms`, `to_ms` and `topic_prefix`: a filter of Spark's own would take the warnings
away with the rows. Bodies are never read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from brokerd.remoting.message.names import MessageProperty
from spark.lag.history import files
from spark.schemas import ddl
from spark.sources.store_files import LogRecord, first_store_time_ms, log_files, records, units

ROWS_PER_BATCH = 10_000
QUEUE_PARTITIONS_MAX = 8  # a task costs 20-50 ms, a queue's file is read in one
NAMES = (pa.field("cluster", pa.string()), pa.field("broker_name", pa.string()))
COMMIT_LOG_SCHEMA = pa.schema(
    [
        *NAMES,
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("commit_log_offset", pa.int64()),
        pa.field("size_bytes", pa.int32()),
        pa.field("body_bytes", pa.int32()),
        pa.field("born_timestamp_ms", pa.int64()),
        pa.field("store_timestamp_ms", pa.int64()),
        pa.field("reconsume_times", pa.int32()),
        pa.field("tags", pa.string()),
        pa.field("origin_topic", pa.string()),
        pa.field("origin_message_id", pa.string()),
        pa.field("warning", pa.string()),
    ]
)
CONSUME_QUEUE_SCHEMA = pa.schema(
    [
        *NAMES,
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("commit_log_offset", pa.int64()),
        pa.field("size_bytes", pa.int32()),
        pa.field("tags_code", pa.int64()),
        pa.field("warning", pa.string()),
    ]
)


class StoreError(Exception):
    """The options name no store."""


@dataclass
class Files(InputPartition):
    """Files of one partition: (topic, queue id, path); of a commit log without the first two."""

    files: Sequence[tuple[str, int, str]]


class _Store:
    """The options of both sources."""

    def __init__(self, options: Any) -> None:
        try:
            self.root = str(options["path"])
            self.names = {name: options[name] for name in ("cluster", "broker_name")}
        except KeyError as error:
            raise StoreError(f"the option {error.args[0]} is missing") from None
        self.from_ms, self.to_ms = int(options.get("from_ms", 0)), int(options.get("to_ms", 2**62))
        self.topic_prefix = options.get("topic_prefix", "")
        if "commitlog" not in files.names_in(self.root):
            raise StoreError(f"{self.root} holds no commitlog: it is no store, or not on this machine")


class CommitLogSource(DataSource):
    """One row per record of a commit log."""

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    def schema(self) -> str:
        return ddl(COMMIT_LOG_SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:
        return CommitLogReader(_Store(self.options))


class CommitLogReader(DataSourceReader):
    """Leaves out files that end before `from_ms` or begin at `to_ms`; rows outside of them are left out too."""

    def __init__(self, store: _Store) -> None:
        self.store = store

    def partitions(self) -> Sequence[Files]:
        store = self.store
        found = log_files(posixpath.join(store.root, "commitlog"))
        begins = [first_store_time_ms(path) for path in found]
        wanted = []
        for number, (path, begin) in enumerate(zip(found, begins, strict=True)):
            following = next((one for one in begins[number + 1 :] if one is not None), None)
            is_over = following is not None and following < store.from_ms
            if not is_over and (begin is None or begin < store.to_ms):
                wanted.append(Files([("", -1, path)]))
        return wanted or [Files([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        warnings: list[str] = []
        rows: list[dict[str, Any]] = []
        for _, _, path in partition.files:
            for record in records(path, warnings.append, self.store.topic_prefix):
                if self.store.from_ms <= record.store_timestamp_ms < self.store.to_ms:
                    rows.append({**self.store.names, **_record_row(record)})
                if len(rows) >= ROWS_PER_BATCH:
                    yield _batch(rows, COMMIT_LOG_SCHEMA)
                    rows = []
        rows += [{**self.store.names, "warning": text} for text in warnings]
        yield _batch(rows, COMMIT_LOG_SCHEMA)


def _record_row(record: LogRecord) -> dict[str, Any]:
    properties = record.properties
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "commit_log_offset": record.commit_log_offset,
        "size_bytes": record.store_size_bytes,
        "body_bytes": record.body_bytes,
        "born_timestamp_ms": record.born_timestamp_ms,
        "store_timestamp_ms": record.store_timestamp_ms,
        "reconsume_times": record.reconsume_times,
        "tags": properties.get(MessageProperty.TAGS),
        "origin_topic": properties.get(MessageProperty.DLQ_ORIGIN_TOPIC)
        or properties.get(MessageProperty.RETRY_TOPIC),
        "origin_message_id": properties.get(MessageProperty.DLQ_ORIGIN_MESSAGE_ID)
        or properties.get(MessageProperty.ORIGIN_MESSAGE_ID),
    }


class ConsumeQueueSource(DataSource):
    """One row per unit of every consume queue."""

    @classmethod
    def name(cls) -> str:
        return "consumequeue"

    def schema(self) -> str:
        return ddl(CONSUME_QUEUE_SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:
        return ConsumeQueueReader(_Store(self.options))


class ConsumeQueueReader(DataSourceReader):
    """Leaves out the folders of other topics than those with the prefix."""

    def __init__(self, store: _Store) -> None:
        self.store = store

    def partitions(self) -> Sequence[Files]:
        root = posixpath.join(self.store.root, "consumequeue")
        found = []
        for topic in files.names_in(root):
            for queue in files.names_in(posixpath.join(root, topic)) if self._is_wanted(topic) else ():
                if queue.isdigit():
                    paths = log_files(posixpath.join(root, topic, queue))
                    found += [(topic, int(queue), path) for path in paths]
        count = min(max(len(found), 1), QUEUE_PARTITIONS_MAX)
        return [Files(found[number::count]) for number in range(count)]

    def _is_wanted(self, topic: str) -> bool:
        return topic.startswith(self.store.topic_prefix)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        warnings: list[str] = []
        for topic, queue_id, path in partition.files:
            first, found = units(path, warnings.append)
            count = len(found)
            columns = {
                **{name: [value] * count for name, value in self.store.names.items()},
                "topic": [topic] * count,
                "queue_id": [queue_id] * count,
                "queue_offset": range(first, first + count),
                "commit_log_offset": found["commit_log_offset"].astype("=i8"),
                "size_bytes": found["size_bytes"].astype("=i4"),
                "tags_code": found["tags_code"].astype("=i8"),
                "warning": [None] * count,
            }
            yield pa.RecordBatch.from_pydict(columns, schema=CONSUME_QUEUE_SCHEMA)
        yield _batch([{**self.store.names, "warning": text} for text in warnings], CONSUME_QUEUE_SCHEMA)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)
