"""Queues are kept as sheets and read back as they were: by group, topic and broker, whole or in part."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from console.lag.models import QueueSheet
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey
from console.lag.rows import queues, sheets
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.lag.rows.sheets import QUEUES, TOPIC_QUEUES, SheetStore
from console.text import Text
from tests.support import sample_queues

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
GROUPS = [f"group-{number:03}" for number in range(200)]


def row(
    group: str, topic: str = "orders", broker_name: str = "a", queue_id: int = 0, **values: Any
) -> QueueRow:
    return QueueRow(group=group, topic=topic, broker_name=broker_name, queue_id=queue_id, **values)


def key(one: QueueRow) -> QueueKey:
    return QueueKey(one.group, one.topic, one.broker_name, one.queue_id)


def write(*rows: QueueRow, cluster: str = "local") -> None:
    sample_queues.write(QUEUES, cluster, {key(one): one for one in rows})


def test_it_gives_back_what_was_written() -> None:
    known = row(
        "billing",
        committed_offset=7,
        lag=0,
        speed=1.5,
        drain_never=True,
        status="LOST",
        owner="c@1",
        reason=Text("— ü"),
        read_at_ms=1_790_000_000_000,
    )
    unknown = row("billing", queue_id=1)
    write(known, unknown)
    assert list(queues.of_groups("local", ["billing"])) == [known, unknown]


def test_it_finds_queues_by_group_topic_and_broker(django_assert_num_queries: Any) -> None:
    write(
        *(
            row(name, topic=f"topic-{place % 7}", broker_name="ab"[place % 2])
            for place, name in enumerate(GROUPS)
        )
    )
    write(row("group-003", topic="topic-3", broker_name="b"), cluster="other")
    with django_assert_num_queries(5, using="metrics"):
        one = queues.of_groups("local", ["group-003"])
        some = queues.of_groups("local", ["group-017", "group-003", "nobody"])
        of_topic = queues.of_topics("local", ["topic-3", "topic-4"])
        on_broker = list(queues.on_broker("local", "b", "group", "lag"))
        names = [group for (group,) in queues.every("local", "group")]
    assert [(found.group, found.topic, found.broker_name) for found in one] == [("group-003", "topic-3", "b")]
    assert [found.group for found in some] == ["group-003", "group-017"]
    assert [found.group for found in of_topic] == [one for at, one in enumerate(GROUPS) if at % 7 in (3, 4)]
    assert sorted(on_broker) == [(name, None) for name in GROUPS[1::2]]
    assert sorted(names) == GROUPS
    assert QueueSheet.objects.filter(cluster="local").count() <= sheets.SHEETS
    assert list(queues.of_topics("nowhere", ["topic-3"])) == []
    assert list(queues.every("nowhere", "group", "lag")) == []


def test_it_holds_exactly_the_queues_of_the_last_round() -> None:
    write(*map(row, GROUPS))
    write(row("group-003"), cluster="other")
    write(row("group-003", lag=4), row("group-005"))
    assert [(found.group, found.lag) for found in sample_queues.find()] == [
        ("group-003", 4),
        ("group-005", None),
    ]
    assert QueueSheet.objects.filter(cluster="local").count() == 2
    write()
    assert sample_queues.find() == []
    assert [found.group for found in sample_queues.find("other")] == ["group-003"]


def test_it_takes_over_what_is_stored() -> None:
    rows = [row(name, lag=place) for place, name in enumerate(GROUPS)]
    write(*rows)
    store = SheetStore(QUEUES, "local")
    store.load()
    assert store.rows.rows(QueueRow) == {key(one): one for one in rows}
    store.replace(store.rows)
    assert sample_queues.find() == rows
    empty = SheetStore(TOPIC_QUEUES, "local")
    empty.load()
    assert empty.rows.rows(TopicQueueRow) == {} and empty.rows.keys == []


def test_it_reads_sheets_of_a_version_with_fewer_and_other_columns() -> None:
    sample_queues.save("local", TopicQueueRow(topic="orders", broker_name="a", queue_id=0, in_rate=1.5))
    sheet = TOPIC_QUEUES.model._default_manager.get()
    with pa.ipc.open_stream(sheet.data) as stream:
        table = stream.read_all().drop_columns(["in_rate", "max_offset", "last_write_ms"])
    sink = pa.BufferOutputStream()
    table = table.append_column("former", pa.array([3], pa.int64()))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    sheet.data = sink.getvalue().to_pybytes()
    sheet.save()
    (found,) = queues.topic_queues("local", ["orders"])
    assert found == TopicQueueRow(topic="orders", broker_name="a", queue_id=0)
    store = SheetStore(TOPIC_QUEUES, "local")
    store.load()
    assert [*store.rows.columns] == ["min_offset", "max_offset", "last_write_ms", "in_rate", "read_at_ms"]


def test_it_sums_how_far_the_readers_of_a_topic_are_behind() -> None:
    rows = [
        row("a", lag=3, time_lag_ms=9),
        row("a", queue_id=1, lag=4),
        row("b", status="UNKNOWN"),
        row("c", lag=0, time_lag_ms=0),
        row("c", topic="other", lag=8),
    ]
    sample_queues.save("local", *rows)
    found, unknown = queues.by_reader("local", "orders")
    assert {
        name: (one.queues, one.lag, one.lag_lower_bound, one.time_lag_ms) for name, one in found.items()
    } == {
        "a": (2, 7, False, 9),
        "b": (1, None, False, None),
        "c": (1, 0, False, 0),
    }
    assert [found[name].time_lag_lower_bound for name in "abc"] == [True, False, False]
    assert unknown == {"b"}
    sample_queues.save("local", row("a", queue_id=2))
    found, _ = queues.by_reader("local", "orders")
    assert found["a"].lag_lower_bound
    assert sorted(found, key=lambda name: queues.worst_first(found[name])) == ["a", "c", "b"]
    assert queues.by_reader("local", "nowhere") == ({}, set())


def columns(**lags: int | None) -> KeyedColumns[QueueKey]:
    kinds = {"lag": int, "speed": float, "status": str, "read_at_ms": int}
    rows = {
        QueueKey(group, "orders", "a", 0): row(group, lag=lag, status="OK", read_at_ms=at_ms)
        for at_ms, (group, lag) in enumerate(lags.items())
    }
    return KeyedColumns.of_rows(kinds, rows)


def test_rows_that_differ_only_in_their_age_are_no_news() -> None:
    before, after = (
        columns(gone=1, same=1, other=1, unknown=None),
        columns(same=1, other=2, unknown=None, new=1),
    )
    places = after.places_of(after.keys)
    assert [after.keys[at].group for at in after.changed(before, places, but="read_at_ms")] == [
        "other",
        "new",
    ]
    assert [one.group for one in before.keys_without(after.keys)] == ["gone"]
    assert after.changed(KeyedColumns.nothing(), places, but="read_at_ms").tolist() == [0, 1, 2, 3]
    assert after.places_of([*before.keys]).tolist() == [-1, 0, 1, 2]
