"""The file of a group's offsets: what is written is read again; what is wrong is named by its line."""

from __future__ import annotations

import json

import pytest

from console.group.offset_file.layout import (
    FILE_QUEUES_MAX,
    FileQueue,
    OffsetFile,
    as_csv_lines,
    as_json_lines,
    read_offset_file,
)
from console.operation.errors import PlanRejected

NAMES = ("orders", "broker-a")
FILE = OffsetFile(
    cluster="local",
    group="billing",
    read_at_ms=1_773_288_374_000,
    at_ms=1_773_288_375_500,
    queues=(
        FileQueue(
            topic="orders",
            broker_name="broker-a",
            queue_id=0,
            offset=2**62,
            state="committed",
            min_offset=0,
            max_offset=2**62,
            read_at_ms=1_773_288_374_000,
        ),
        FileQueue(topic="-dash", broker_name="broker-a", queue_id=1, offset=5, state="last_known"),
        FileQueue(topic="orders", broker_name="b", queue_id=2, offset=None, state="never_committed"),
        FileQueue(topic="%RETRY%billing", broker_name="b", queue_id=0, offset=None, state="unknown"),
    ),
)
HEAD = "topic,broker_name,queue_id,offset,state\n"


def test_json_has_a_line_for_each_queue_with_time_and_age() -> None:
    lines = "".join(as_json_lines(FILE)).splitlines()
    assert lines[0] == (
        '{"format": "tidemark-offsets-1", "cluster": "local", "group": "billing", '
        '"read_at": "2026-03-12T04:06:14.000Z", "read_at_ms": 1773288374000, '
        '"written_at": "2026-03-12T04:06:15.500Z", "queues": ['
    )
    first, never = json.loads(lines[1].rstrip(",")), json.loads(lines[3].rstrip(","))
    assert (first["offset"], first["read_at"], first["age_ms"]) == (2**62, "2026-03-12T04:06:14.000Z", 1_500)
    assert (never["offset"], never["state"], never["age_ms"]) == (None, "never_committed", None)


def test_csv_has_the_same_columns_and_no_formula() -> None:
    lines = "".join(as_csv_lines(FILE)).splitlines()
    assert lines[0] == (
        "cluster,group,topic,broker_name,queue_id,offset,state,min_offset,max_offset,read_at,read_at_ms,age_ms"
    )
    assert lines[2] == "local,billing,'-dash,broker-a,1,5,last_known,,,,,"
    assert lines[3] == "local,billing,orders,b,2,,never_committed,,,,,"


@pytest.mark.parametrize("lines", [as_json_lines, as_csv_lines])
def test_a_written_file_is_read_again(lines: object) -> None:
    read = read_offset_file("\ufeff" + "".join(lines(FILE)))  # type: ignore[operator]
    assert (read.cluster, read.group, read.read_at_ms) == ("local", "billing", 1_773_288_374_000)
    assert [(each.topic, each.broker_name, each.queue_id, each.offset) for each in read.offsets({})] == [
        ("orders", "broker-a", 0, 2**62),
        ("-dash", "broker-a", 1, 5),
    ]
    assert read.origin.without_offset == 2


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_file_that_a_spreadsheet_saved_again_is_read(delimiter: str) -> None:
    text = "".join(as_csv_lines(FILE)).replace(",", delimiter).replace("\n", "\r\n")
    assert read_offset_file(text.encode()).offsets({}) == read_offset_file(
        "".join(as_csv_lines(FILE))
    ).offsets({})


def test_offsets_take_other_broker_names_and_only_some_topics() -> None:
    (only,) = FILE.offsets({"broker-a": "broker-z"}, ["orders"])
    assert (only.broker_name, only.offset) == ("broker-z", 2**62)
    with pytest.raises(PlanRejected, match="no committed offset of these topics"):
        FILE.offsets({}, ["refunds"])
    two = read_offset_file(HEAD + "t,a,0,1,\nt,b,0,2,\n")
    with pytest.raises(PlanRejected, match="t · a · 0 stands for two queues") as refusal:
        two.offsets({"b": "a"})
    assert refusal.value.field == "brokers"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "The file is empty."),
        ("{\n \"format\": 'x'}", "Line 2 is no JSON: Expecting value."),
        ('{"format": "other", "queues": []}', "it must have the format 'tidemark-offsets-1' and queues"),
        ('{"format": "tidemark-offsets-1", "queues": [], "read_at_ms": "x"}', "read_at_ms must be a time"),
        ('{"format": "tidemark-offsets-1", "queues": [7], "read_at_ms": 1}', "Queue 1: topic is missing."),
        ('{"format": "tidemark-offsets-1", "queues": [], "read_at_ms": 1}', "The file has no queue."),
        (b"topic\n\xff", "Line 2 is no UTF-8"),
        ("topic,broker_name\n", "Line 1 must name the columns. Missing: queue_id, offset."),
        (HEAD, "The file has no queue."),
        (HEAD + 't,b,0,1,\n"t,b,1,1,\n', "Line 3 is no CSV"),
        (HEAD + "t,b,0,1,\n\nt,b,0,2,\n", "Line 4: t · b · 0 is listed twice."),
        (HEAD + ",b,0,1,\n", "Line 2: topic is missing."),
        (HEAD + "t,b,0,1,,,\n", "Line 2: topic is missing."),
        (HEAD + "t\0,b,0,1,\n", "Line 2: topic is no name."),
        (HEAD + "\ud800,b,0,1,\n", "Line 2: topic is no name."),
        (HEAD + f"t,b,0,{'9' * 5000},\n", "Line 2: offset must be a whole number from 0;"),
        ('{"format": ' + "9" * 5000, "Line 1 is no JSON"),
        ('{"a": ' + "[" * 100_000, "Line 1 is no JSON"),
        (
            '{"format": "tidemark-offsets-1", "queues": [], "read_at_ms": 1, "group": "\\ud800"}',
            "group is no name",
        ),
        (HEAD + "t,b,-1,1,\n", "Line 2: queue_id must be a whole number from 0."),
        (HEAD + "t,b,0,1.5,\n", "Line 2: offset must be a whole number from 0;"),
        (HEAD + "t,b,0,9223372036854775808,\n", "Line 2: offset must be a whole number from 0;"),
        (HEAD + "t,b,0,,\n", "a queue without one has the state never_committed or unknown."),
        (HEAD + "t,b,0,0,unknown\n", "Line 2: a queue of state unknown has no offset."),
        (HEAD + "t,b,0,1,gone\n", "Line 2: state must be one of committed, last_known,"),
        (HEAD + "t,b,x,1,\n" * 7, "And 2 more lines."),
        ("x" * (4 * 1024 * 1024 + 1), "larger than 4 MiB"),
        (
            HEAD + "".join(f"t,b,{number},1,\n" for number in range(FILE_QUEUES_MAX + 1)),
            "at most 10,000 are read",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_line(content: str | bytes, words: str) -> None:
    with pytest.raises(PlanRejected) as refusal:
        read_offset_file(content)
    assert words in str(refusal.value)
    assert refusal.value.field == "file"
