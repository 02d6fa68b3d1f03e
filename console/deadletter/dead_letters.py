"""Read dead letters: the queues of ``%DLQ%group``, the filter, windows of letters, the newest that match."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Collection, Iterator

from django.conf import settings

from console.brokers.masking import Masks
from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    BlockingMQAdmin,
    BodyError,
    MessageProperty,
    MessageRecord,
    MQAdmin,
    dead_letter_topic,
)
from console.brokers.queues import PERM_READ, BrokerQueue, route_queues, topic_route, with_offsets
from console.operation.errors import PlanRejected
from console.text import JsonObject, Text
from console.text.stored import Stored

PULL_MAX = 32  # messages per pull: the brokers' limit
WINDOW = 1_024  # letters read at once: 32 pulls of 32 in flight on one connection
# Bytes of bodies in a window: a replay holds three windows, and a letter may have 4 MiB.
WINDOW_BYTES_MAX = 32 * 1024 * 1024
WINDOW_DEADLINE_MS = 15_000
SAMPLE_SCAN_MAX = 20_000  # letters read for a sample
SAMPLE_SCAN_MS = 5_000
SAMPLE_WINDOW = 256
TEXT_FILTERS = ("tag", "key", "property", "body", "cause")
TEXT_LENGTH_MAX = 255
CAUSE_LENGTH_MAX = 120
ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"  # MessageConst.PROPERTY_DLQ_ORIGIN_TOPIC, 4.9.1+


class Filter(Stored, frozen=True, kw_only=True):
    """Conditions on dead letters; all must match.

    Time is the store time in the dead-letter topic (from inclusive, to exclusive). ``property`` is ``name``
    or ``name=value``. ``body`` and ``cause`` are texts they must contain.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    tag: str = ""
    key: str = ""
    property: str = ""
    body: str = ""
    cause: str = ""

    def checked(self) -> Filter:
        """Return it; raises PlanRejected naming the field at fault."""
        for field, at in (("from_ms", self.from_ms), ("to_ms", self.to_ms)):
            if at is not None and (isinstance(at, bool) or not isinstance(at, int) or at < 0):
                raise PlanRejected(
                    Text("%(field)s must be a time in ms since 1970 UTC.", field=field),
                    field=f"filter.{field}",
                )
        if self.from_ms is not None and self.to_ms is not None and self.from_ms >= self.to_ms:
            raise PlanRejected(Text("The filter's end must lie after its start."), field="filter.to_ms")
        for field in TEXT_FILTERS:
            text = getattr(self, field)
            if len(text) > TEXT_LENGTH_MAX or "\x00" in text:
                raise PlanRejected(
                    Text("At most %(number)s characters, no zero byte.", number=TEXT_LENGTH_MAX),
                    field=f"filter.{field}",
                )
        if self.property.startswith("="):
            raise PlanRejected(Text("A property is name or name=value."), field="filter.property")
        return self

    def matches(self, record: MessageRecord) -> bool:
        """Return whether the letter meets every condition.

        ``key`` is one of KEYS, or the unique key. Body and cause ignore case; a body that cannot be
        decompressed matches no text.
        """
        if self.from_ms is not None and record.store_timestamp_ms < self.from_ms:
            return False
        if self.to_ms is not None and record.store_timestamp_ms >= self.to_ms:
            return False
        if self.tag and record.tags != self.tag:
            return False
        if self.key and self.key not in (record.keys or "").split() and self.key != record.message_id:
            return False
        if self.property and not _has_property(record, self.property):
            return False
        if self.cause and self.cause.casefold() not in cause_of(record).casefold():
            return False
        return not self.body or self.body.casefold() in _body_text(record).casefold()


@dataclasses.dataclass(frozen=True, slots=True)
class Sieve:
    """A filter that sees letters as people do: without masked values, which it must not find."""

    wanted: Filter
    masks: Masks

    def matches(self, record: MessageRecord) -> bool:
        """Return whether the letter meets every condition."""
        return self.wanted.matches(self.masks.masked(record))


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be decoded."""

    queue_offset: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """Readable queues of a dead-letter topic; ``problem`` says why there are none, and is empty otherwise.

    ``is_missing``: the topic does not exist.
    """

    queues: list[BrokerQueue]
    problem: Text = Text()
    is_missing: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Letters:
    """Newest matching letters as (broker name, record)."""

    records: list[tuple[str, MessageRecord]]
    scanned: int
    problem: Text


def read_filter(value: JsonObject) -> Filter:
    """Read a filter of a request body; raises PlanRejected naming the field."""
    unknown = sorted(set(value) - {"from_ms", "to_ms", *TEXT_FILTERS})
    if unknown:
        raise PlanRejected(
            Text("A dead-letter filter has no %(field)s.", field=repr(unknown[0])), field="filter"
        )
    texts = {field: str(value.get(field) or "") for field in TEXT_FILTERS}
    return Filter(from_ms=value.get("from_ms"), to_ms=value.get("to_ms"), **texts).checked()


def _has_property(record: MessageRecord, wanted: str) -> bool:
    name, separator, value = wanted.partition("=")
    found = record.properties.get(name)
    return found is not None and (not separator or found == value)


def _body_text(record: MessageRecord) -> str:
    try:
        return record.decoded_body().decode(errors="replace")
    except BodyError:
        return ""


def topic_of(group: str) -> str:
    """Return ``%DLQ%group``."""
    return dead_letter_topic(group)


def group_of(topic: str) -> str:
    """Return the group whose dead letters a topic holds."""
    return topic.removeprefix(DLQ_TOPIC_PREFIX)


def original_topic(record: MessageRecord) -> str:
    """Return the topic the message was first sent to; "" when its properties do not name it."""
    topic = record.properties.get(MessageProperty.RETRY_TOPIC) or record.properties.get(ORIGIN_TOPIC, "")
    return "" if topic.startswith(DLQ_TOPIC_PREFIX) else topic


def cause_of(record: MessageRecord) -> str:
    """Return why the letter died, in one line; "" when unknown.

    Brokers write no cause into a dead letter; applications may. The first property of
    ``settings.DEAD_LETTER_CAUSE_PROPERTIES`` that the letter carries is used.
    """
    for name in settings.DEAD_LETTER_CAUSE_PROPERTIES:
        text = record.properties.get(name, "").strip()
        if text:
            return text.splitlines()[0][:CAUSE_LENGTH_MAX]
    return ""


def places(admin: BlockingMQAdmin, topic: str, brokers: Collection[str] | None = None) -> Places:
    """Return the queues to read, or the reason why none can be read; ``brokers`` limits them to these."""
    route = topic_route(admin, topic)
    if route is None:
        text = Text("There is no topic %(topic)s: the group has no dead letters.", topic=topic)
        return Places([], text, is_missing=True)
    queues = {
        queue: addr
        for queue, addr in route_queues(route, topic).items()
        if brokers is None or queue.broker_name in brokers
    }
    if not queues and any(not data.perm & PERM_READ for data in route.queue_datas):
        return Places(
            [],
            Text(
                "The topic %(topic)s is write-only (perm 2), as brokers up to 4.9.0 create it: no client can read "
                "it. Allow reading first, with the plan that this page offers, or with mqadmin updateTopicPerm -n "
                "<name server> -c <cluster> -t %(topic)s -p 6",
                topic=topic,
            ),
        )
    return Places(with_offsets(admin, queues))


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Letters in offset order; ``end`` is the offset after the last one read, expired ones included."""

    letters: list[MessageRecord | Unreadable]
    end: int


class LetterReader:
    """Read a range of a queue in windows of at most WINDOW letters, fewer where letters are large."""

    def __init__(self, admin: BlockingMQAdmin, place: BrokerQueue) -> None:
        self.admin = admin
        self.place = place
        self.at = place.min_offset
        self._size = WINDOW

    def __iter__(self) -> Iterator[Window]:
        while self.at < self.place.max_offset:
            yield self.read()

    def read(self) -> Window:
        """Read the next window. Raises BrokerUnavailable, RemotingTimeout, MQBrokerError."""
        high = min(self.at + self._size, self.place.max_offset)
        window = _read(self.admin, self.place, self.at, high)
        # Large letters shrink the next window, so that few are read in vain; a full window lets it grow again.
        self._size = (
            min(WINDOW, 2 * (window.end - self.at)) if window.end < high else min(WINDOW, 2 * self._size)
        )
        self.at = window.end
        return window


def read_window(
    admin: BlockingMQAdmin, place: BrokerQueue, low: int, high: int
) -> list[MessageRecord | Unreadable]:
    """Return letters with low ≤ offset < high in offset order, without expired ones.

    Raises BrokerUnavailable, RemotingTimeout, MQBrokerError.
    """
    reader = LetterReader(admin, dataclasses.replace(place, min_offset=low, max_offset=high))
    return [letter for window in reader for letter in window.letters]


def _read(admin: BlockingMQAdmin, place: BrokerQueue, low: int, high: int) -> Window:
    """Read from ``low`` to ``high``, or to where WINDOW_BYTES_MAX was reached."""
    room = _Room(WINDOW_BYTES_MAX)

    async def read(client: MQAdmin) -> list[Window]:
        starts = range(low, high, PULL_MAX)
        return await asyncio.gather(
            *(_read_piece(client, place, start, min(start + PULL_MAX, high), room) for start in starts)
        )

    answer = admin.gather({"window": read}, WINDOW_DEADLINE_MS)["window"]
    if isinstance(answer, Exception):
        raise answer
    letters: list[MessageRecord | Unreadable] = []
    end = low
    for piece in answer:
        whole = min(end + PULL_MAX, high)
        letters += piece.letters
        end = piece.end
        if end < whole:
            break
    return Window(letters, end)


@dataclasses.dataclass(slots=True)
class _Room:
    """Bytes that the parts of a window may still read."""

    left: int


async def _read_piece(client: MQAdmin, place: BrokerQueue, low: int, high: int, room: _Room) -> Window:
    """Read at most 32 letters.

    A broker may return fewer per pull (its transfer limit), so pull until the end, or until no bytes are
    left. Pull at least once, so that reading always makes progress.
    """
    found: list[MessageRecord | Unreadable] = []
    position, count = low, high - low
    while position < high and (position == low or room.left > 0):
        try:
            result = await client.pull(
                place.addr, place.queue.topic, place.queue.queue_id, position, min(count, high - position)
            )
        except ValueError as error:  # a record cannot be decoded: read this part one by one
            if count > 1:
                count = 1
                continue
            found.append(Unreadable(position, str(error)))
            position += 1
            continue
        letters = [record for record in result.messages if record.queue_offset < high]
        found += letters
        room.left -= sum(len(record.body) for record in letters)
        if result.next_begin_offset <= position:
            return Window(found, high)  # the rest has expired
        position = min(result.next_begin_offset, high)
    return Window(found, position)


def sample_letters(admin: BlockingMQAdmin, topic: str, wanted: Sieve, limit: int) -> Letters:
    """Return the newest matching letters of all queues, read backwards within the scan limits."""
    found = places(admin, topic)
    if found.problem:
        return Letters([], 0, found.problem)
    records: list[tuple[str, MessageRecord]] = []
    scanned, deadline = 0, time.monotonic() + SAMPLE_SCAN_MS / 1000
    share = max(SAMPLE_WINDOW, SAMPLE_SCAN_MAX // max(1, len(found.queues)))
    for place in found.queues:
        own: list[MessageRecord] = []
        high = place.max_offset
        floor = max(place.min_offset, high - share)
        while high > floor and len(own) < limit and time.monotonic() < deadline:
            low = max(floor, high - SAMPLE_WINDOW)
            window = read_window(admin, place, low, high)
            own += [each for each in window if isinstance(each, MessageRecord) and wanted.matches(each)]
            scanned += high - low
            high = low
        records += [(place.queue.broker_name, record) for record in own]
    records.sort(key=lambda each: (each[1].store_timestamp_ms, each[1].queue_offset), reverse=True)
    return Letters(records[:limit], scanned, Text())
