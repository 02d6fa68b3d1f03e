"""The file of a group's offsets: written as JSON or CSV, read back, with the line of what is wrong. Pure.

JSON: what the file is of, and an entry for each queue. CSV: the same columns, a line for each queue. A queue that was
never committed, or whose offset is unknown, has a state and no offset; it is never 0.
"""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

import msgspec

from console.group.offsets.stored import FileOrigin, QueueOffset
from console.operation.errors import PlanRejected
from console.text import JsonObject, Names, Text
from console.text.stored import as_json
from console.web.spreadsheet import FORMULA_STARTS, csv_line

FORMAT = "tidemark-offsets-1"
# ``last_known``: committed, as its broker listed it before it fell silent or lost it.
COMMITTED, LAST_KNOWN, NEVER_COMMITTED, UNKNOWN = STATES = (
    "committed",
    "last_known",
    "never_committed",
    "unknown",
)
WITH_OFFSET = (COMMITTED, LAST_KNOWN)
# A line of JSON has about 250 bytes; a request has 8 MiB at most.
FILE_BYTES_MAX = 4 * 1024 * 1024
FILE_QUEUES_MAX = 10_000
NAME_LENGTH_MAX = 255
OFFSET_MAX, QUEUE_ID_MAX = 2**63 - 1, 2**31 - 1
DIGITS_MAX = 19  # of OFFSET_MAX; int() refuses thousands of them
PROBLEMS_MAX = 5
FIELD = "file"
NEEDED = ("topic", "broker_name", "queue_id", "offset")


class FileQueue(msgspec.Struct, frozen=True, kw_only=True):
    """One queue; ``offset`` None where the state is not of WITH_OFFSET. ``read_at_ms`` None: it was not read."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int | None
    state: str
    min_offset: int | None = None
    max_offset: int | None = None
    read_at_ms: int | None = None


class OffsetFile(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a group as of ``read_at_ms``, the newest reading among its queues; written at ``at_ms``."""

    cluster: str
    group: str
    read_at_ms: int
    at_ms: int
    queues: tuple[FileQueue, ...]

    @property
    def origin(self) -> FileOrigin:
        """Return what a plan keeps of the file."""
        without = sum(queue.offset is None for queue in self.queues)
        return FileOrigin(
            cluster=self.cluster, group=self.group, read_at_ms=self.read_at_ms, without_offset=without
        )

    def offsets(self, renamed: Mapping[str, str], topics: Iterable[str] = ()) -> list[QueueOffset]:
        """Return the committed offsets under the broker names of another cluster; only of ``topics``, if any.

        Raises PlanRejected when none is left, and for two queues that become one.
        """
        wanted = frozenset(topics)
        found: dict[tuple[str, str, int], QueueOffset] = {}
        for queue in self.queues:
            if queue.offset is None or (wanted and queue.topic not in wanted):
                continue
            name = renamed.get(queue.broker_name, queue.broker_name)
            place = queue.topic, name, queue.queue_id
            if place in found:
                raise PlanRejected(
                    Text(
                        "%(queue)s stands for two queues of the file: give each broker another name.",
                        queue=" · ".join(map(str, place)),
                    ),
                    "brokers",
                )
            found[place] = QueueOffset(
                topic=queue.topic, broker_name=name, queue_id=queue.queue_id, offset=queue.offset
            )
        if not found:
            raise PlanRejected(Text("The file has no committed offset of these topics."), FIELD)
        return list(found.values())


def file_params(file: OffsetFile, renamed: Mapping[str, str], topics: Iterable[str] = ()) -> JsonObject:
    """Return the parameters of a plan of the target ``file``. Raises PlanRejected."""
    return {
        "target": "file",
        "offsets": as_json(file.offsets(renamed, topics)),
        "origin": as_json(file.origin),
    }


# --- Writing ------------------------------------------------------------------------------------------------


def document(file: OffsetFile) -> JsonObject:
    """Return the file as REST has it."""
    return {
        "format": FORMAT,
        "cluster": file.cluster,
        "group": file.group,
        "read_at": _iso(file.read_at_ms),
        "read_at_ms": file.read_at_ms,
        "written_at": _iso(file.at_ms),
        "queues": [{"topic": queue.topic, **_columns(file, queue)} for queue in file.queues],
    }


def as_json_lines(file: OffsetFile) -> Iterator[str]:
    """Yield the file as JSON, a line for each queue."""
    found = document(file)
    rows = found.pop("queues")
    yield json.dumps(found, ensure_ascii=False)[:-1] + ', "queues": ['
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n  " + json.dumps(row, ensure_ascii=False)
    yield "\n]}\n"


def as_csv_lines(file: OffsetFile) -> Iterator[str]:
    """Yield the file as CSV with a line of names."""
    for number, queue in enumerate(file.queues):
        row = {"cluster": file.cluster, "group": file.group, "topic": queue.topic, **_columns(file, queue)}
        if not number:
            yield csv_line(row)
        yield csv_line(row.values())


def _columns(file: OffsetFile, queue: FileQueue) -> dict[str, str | int | None]:
    age_ms = None if queue.read_at_ms is None else file.at_ms - queue.read_at_ms
    return {
        "broker_name": queue.broker_name,
        "queue_id": queue.queue_id,
        "offset": queue.offset,
        "state": queue.state,
        "min_offset": queue.min_offset,
        "max_offset": queue.max_offset,
        "read_at": None if queue.read_at_ms is None else _iso(queue.read_at_ms),
        "read_at_ms": queue.read_at_ms,
        "age_ms": age_ms,
    }


def _iso(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- Reading ------------------------------------------------------------------------------------------------


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of an entry, unchecked."""

    topic: Any = None
    broker_name: Any = None
    queue_id: Any = None
    offset: Any = None
    state: Any = None
    cluster: Any = None
    group: Any = None
    read_at_ms: Any = None


NUMBERS = ("queue_id", "offset", "read_at_ms")


class _Entry(NamedTuple):
    """An entry as it was read, and how its place in the file is named."""

    place: Text
    fields: _Fields


class _JsonFile(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a file, its entries unchecked."""

    format: str
    queues: list[Any]
    cluster: str = ""
    group: str = ""
    read_at_ms: Any = None


def read_offset_file(content: object) -> OffsetFile:
    """Read a file: JSON or CSV as text or bytes, or JSON that is parsed already. Raises PlanRejected with lines."""
    if not isinstance(content, str | bytes):
        return _of_json(content)
    if len(content) > FILE_BYTES_MAX:
        raise _refused(Text("The file is larger than %(mib)s MiB.", mib=FILE_BYTES_MAX >> 20))
    text = _decoded(content)
    if not text.strip():
        raise _refused(Text("The file is empty."))
    if not text.lstrip().startswith("{"):
        return _of_csv(text)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        line = getattr(error, "lineno", 1)
        why = Text.foreign(getattr(error, "msg", str(error)))
        raise _refused(Text("Line %(line)s is no JSON: %(why)s.", line=line, why=why)) from error
    return _of_json(parsed)


def _decoded(content: str | bytes) -> str:
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(Text("Line %(line)s is no UTF-8: save the file as UTF-8.", line=line)) from error


def _of_json(parsed: object) -> OffsetFile:
    words = Text(
        "This is not an offsets file: it must have the format %(format)s and queues.", format=repr(FORMAT)
    )
    try:
        found = msgspec.convert(parsed, _JsonFile)
    except msgspec.ValidationError as error:
        raise _refused(words) from error
    if found.format != FORMAT:
        raise _refused(words)
    entries = [
        _Entry(
            Text("Queue %(number)s", number=number),
            msgspec.convert(each, _Fields) if isinstance(each, dict) else _Fields(),
        )
        for number, each in enumerate(found.queues, 1)
    ]
    if not _is_number(found.read_at_ms, OFFSET_MAX):
        raise _refused(Text("read_at_ms must be a time in milliseconds."))
    return _file(found.cluster, found.group, found.read_at_ms, entries)


def _of_csv(text: str) -> OffsetFile:
    rows = text.splitlines()
    # Spreadsheets of many countries write semicolons.
    delimiter = max(",;\t", key=rows[0].count) if rows else ","
    lines = csv.reader(rows, strict=True, delimiter=delimiter)
    try:
        head = [name.strip() for name in next(lines)]
        absent = [name for name in NEEDED if name not in head]
        if absent:
            raise _refused(Text("Line 1 must name the columns. Missing: %(names)s.", names=Names(absent)))
        entries = []
        for values in lines:
            place = Text("Line %(line)s", line=lines.line_num)
            if any(value.strip() for value in values):
                entries.append(_Entry(place, _cells(head, values)))
    except csv.Error as error:
        line = max(1, lines.line_num)
        raise _refused(
            Text("Line %(line)s is no CSV: %(why)s.", line=line, why=Text.foreign(str(error)))
        ) from error
    first = entries[0].fields if entries else _Fields()
    read = [at for each in entries if _is_number(at := each.fields.read_at_ms, OFFSET_MAX)]
    return _file(str(first.cluster or ""), str(first.group or ""), max(read, default=0), entries)


def _cells(head: list[str], values: list[str]) -> _Fields:
    """Return the cells of a line by column; whole numbers as such, names without a spreadsheet's quote."""
    if len(values) > len(head):
        return _Fields()
    cells = dict(zip(head, map(str.strip, values), strict=False))
    return _Fields(
        **{name: _cell(name, cells[name]) for name in _Fields.__struct_fields__ if cells.get(name)}
    )


def _cell(name: str, cell: str) -> str | int:
    if name in NUMBERS and cell.isascii() and cell.isdecimal() and len(cell) <= DIGITS_MAX:
        return int(cell)
    return cell[1:] if cell[0] == "'" and cell[1:2] in FORMULA_STARTS else cell


def _file(cluster: str, group: str, read_at_ms: int, entries: list[_Entry]) -> OffsetFile:
    for name, value in (("cluster", cluster), ("group", group)):
        if value and not _is_name(value):
            raise _refused(Text("%(field)s is no name", field=name))
    if len(entries) > FILE_QUEUES_MAX:
        raise _refused(
            Text(
                "The file has %(number)s queues, at most %(most)s are read: split it by topic.",
                number=len(entries),
                most=FILE_QUEUES_MAX,
            )
        )
    queues: dict[tuple[str, str, int], FileQueue] = {}
    problems = []
    for entry in entries:
        problem = _problem(entry.fields)
        if not problem:
            queue = _queue(entry.fields)
            place = queue.topic, queue.broker_name, queue.queue_id
            if place in queues:
                problem = Text("%(queue)s is listed twice", queue=" · ".join(map(str, place)))
            queues[place] = queue
        if problem:
            problems.append(Text("%(place)s: %(why)s.", place=entry.place, why=problem))
    if len(problems) > PROBLEMS_MAX:
        more = Text("And %(number)s more lines.", number=len(problems) - PROBLEMS_MAX)
        problems = [*problems[:PROBLEMS_MAX], more]
    if problems:
        raise _refused(Text.of_parts(problems))
    if not queues:
        raise _refused(Text("The file has no queue."))
    return OffsetFile(
        cluster=cluster, group=group, read_at_ms=read_at_ms, at_ms=read_at_ms, queues=tuple(queues.values())
    )


def _problem(fields: _Fields) -> Text:
    """Return what is wrong with an entry; empty where it is good."""
    for name in ("topic", "broker_name"):
        value = getattr(fields, name)
        if not value:
            return Text("%(field)s is missing", field=name)
        if not _is_name(value):
            return Text("%(field)s is no name", field=name)
    if not _is_number(fields.queue_id, QUEUE_ID_MAX):
        return Text("%(field)s must be a whole number from 0", field="queue_id")
    state = fields.state or COMMITTED
    if state not in STATES:
        return Text("%(field)s must be one of %(names)s", field="state", names=Names(STATES))
    offset = fields.offset
    if state in WITH_OFFSET and not _is_number(offset, OFFSET_MAX):
        return Text(
            "offset must be a whole number from 0; a queue without one has the state never_committed or unknown"
        )
    if state not in WITH_OFFSET and offset is not None:
        return Text("a queue of state %(state)s has no offset", state=str(state))
    return Text()


def _queue(fields: _Fields) -> FileQueue:
    return FileQueue(
        topic=fields.topic,
        broker_name=fields.broker_name,
        queue_id=fields.queue_id,
        offset=fields.offset,
        state=fields.state or COMMITTED,
    )


def _is_name(value: object) -> TypeGuard[str]:
    """Whether pages and databases take it: no NUL, no half of a surrogate pair."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH_MAX and value.isprintable()


def _is_number(value: object, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _refused(reason: Text) -> PlanRejected:
    return PlanRejected(reason, FIELD)
