"""Finding messages: newest first over all queues, from a time on, by id, by key, by place.

Reads brokers directly, as a tool (group TOOLS_CONSUMER): no offset of any group moves. Every search is
bounded in messages, calls and time, and says what it did not see. "Newest" is by store time; within one
queue that is offset order.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import heapq
import json
import time
from collections.abc import Awaitable, Callable

from console.cluster import selectors as cluster_selectors
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageQueue,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
    decode_offset_message_id,
    with_admin,
)
from console.operation.broker_queues import BrokerQueue, masters, route_queues, topic_route, with_offsets
from console.operation.message_view import BODY_IN_LIST_BYTES, BODY_SHOWN_BYTES, MessageView, message_view

__all__ = [
    "BadCursor",
    "MessagePage",
    "MessageView",
    "TopicNotFound",
    "browse",
    "by_key",
    "message_at",
    "message_by_id",
]

LIMIT_MAX = 200  # messages on a page
PULL_MAX = 32  # of one pull; brokers cap it there (maxTransferCountOnMessageInMemory)
WINDOW_MAX = 4_096  # offsets of one queue looked at in one round when a tag filters at the broker
SEARCH_MS = 8_000  # for one page; a search that needs longer goes on with the cursor
PULLS_PER_WINDOW = 64
ROUND_DEADLINE_MS = 5_000
KEY_HITS_MAX = 64
QUERY_DEADLINE_MS = 5_000
NOT_FOUND_CODES = (1, 17, 22)  # SYSTEM_ERROR of 33, TOPIC_NOT_EXIST, QUERY_NOT_FOUND

SilentError = (BrokerUnavailable, RemotingTimeout, MQBrokerError)


class TopicNotFound(Exception):
    """No name server of the cluster knows the topic."""


class BadCursor(ValueError):
    """The cursor is not one of ours, or belongs to another search."""


@dataclasses.dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of one page. ``cursor`` continues behind the last one and stays valid while new ones
    arrive."""

    rows: list[MessageView]
    cursor: str | None
    end_cursor: str  # the same also at the end of the topic: oldest first, it follows what arrives
    scanned: int  # offsets looked at for this page
    queues: int
    silent: dict[str, str]  # broker name → why it could not be read; its messages are missing above
    cut: bool  # time was up before the page was full; the cursor goes on


@dataclasses.dataclass(slots=True)
class _Scan:
    """One queue while it is read: ``low`` and ``high`` bound what is left, ``found`` is ready to be
    merged."""

    place: BrokerQueue
    low: int
    high: int
    window: int
    found: list[MessageRecord] = dataclasses.field(default_factory=list)
    failed: bool = False  # its broker fell silent: nothing more of it on this page

    @property
    def ended(self) -> bool:
        return self.failed or self.low >= self.high

    @property
    def unsure(self) -> bool:
        """Whether its next message may still have to be shown before those of other queues."""
        return not self.found and not self.ended


@dataclasses.dataclass(slots=True)
class _Search:
    """What all queues of one page have in common."""

    admin: BlockingMQAdmin
    newest: bool
    tag: str | None
    silent: dict[str, str]
    deadline_s: float  # monotonic

    def refill(self, scans: list[_Scan]) -> None:
        """Read windows of these queues in parallel until each has a message or has ended, or time is up."""
        while waiting := [scan for scan in scans if scan.unsure]:
            left_ms = int((self.deadline_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                return
            windows = {index: _next_window(scan, self.newest) for index, scan in enumerate(waiting)}
            calls = {
                index: _reader(scan.place, *windows[index], self.tag) for index, scan in enumerate(waiting)
            }
            answers = self.admin.gather(calls, min(left_ms, ROUND_DEADLINE_MS))
            for index, scan in enumerate(waiting):
                self._take(scan, windows[index], answers[index])

    def _take(self, scan: _Scan, window: tuple[int, int], answer: list[MessageRecord] | Exception) -> None:
        if isinstance(answer, Exception):
            self.silent[scan.place.queue.broker_name] = str(answer)
            scan.failed = True
            return
        scan.low, scan.high = (scan.low, window[0]) if self.newest else (window[1], scan.high)
        scan.found = sorted(answer, key=lambda record: record.queue_offset, reverse=self.newest)
        if self.tag is not None:
            scan.window = min(scan.window * 4, WINDOW_MAX)


def browse(
    cluster: str,
    topic: str,
    *,
    newest: bool = True,
    queue: tuple[str, int] | None = None,
    tag: str | None = None,
    from_ms: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> MessagePage:
    """A page of a topic's messages: newest first, or with ``newest=False`` oldest first from ``from_ms`` on.

    ``queue`` = (broker name, queue id) restricts to one queue, ``tag`` to one tag (compared as text). Raises
    TopicNotFound, BadCursor, BrokerUnavailable when no name server answers.
    """
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)
    route = topic_route(admin, topic)
    if route is None:
        raise TopicNotFound(f"There is no topic {topic} in {cluster}.")
    queues = {
        each: addr
        for each, addr in route_queues(route, topic).items()
        if queue is None or (each.broker_name, each.queue_id) == queue
    }
    silent = _gone(cluster, topic, {data.broker_name for data in route.queue_datas})
    places = _reachable(admin, queues, silent)
    starts = _starts(admin, places, from_ms, silent) if from_ms is not None else {}
    scans = _scans(places, starts, _positions(cursor, newest), newest=newest)
    limit = max(1, min(limit, LIMIT_MAX))
    search = _Search(admin, newest, tag, silent, time.monotonic() + SEARCH_MS / 1000)
    picked, cut = _merge(search, scans, limit)
    rows = [message_view(record, name, limit_bytes=BODY_IN_LIST_BYTES) for name, record in picked]
    more = any(scan.found or scan.low < scan.high for scan in scans)
    end_cursor = _cursor(scans, newest)
    return MessagePage(
        rows=rows,
        cursor=end_cursor if more else None,
        end_cursor=end_cursor,
        scanned=sum(place.max_offset - place.min_offset for place in places)
        - sum(scan.high - scan.low + len(scan.found) for scan in scans),
        queues=len(places),
        silent=silent,
        cut=cut,
    )


def _gone(cluster: str, topic: str, routed: set[str]) -> dict[str, str]:
    """Brokers that held the topic in the last round and that the name server has dropped since."""
    row = TopicRow.objects.filter(cluster=cluster, topic=topic).first()
    silent = {each.broker_name: each.reason for each in lag_selectors.silent_brokers(cluster)}
    held = set(row.brokers) & set(silent) - routed if row is not None else set()
    return {name: silent[name] or "not registered" for name in sorted(held)}


def _reachable(
    admin: BlockingMQAdmin, queues: dict[MessageQueue, str], silent: dict[str, str]
) -> list[BrokerQueue]:
    """Offsets of every queue whose broker answers; the others go to ``silent``."""
    places: list[BrokerQueue] = []
    for addr in sorted(set(queues.values())):
        own = {queue: where for queue, where in queues.items() if where == addr}
        try:
            places.extend(with_offsets(admin, own))
        except SilentError as error:
            silent[next(iter(own)).broker_name] = str(error)
    return places


def _starts(
    admin: BlockingMQAdmin, places: list[BrokerQueue], from_ms: int, silent: dict[str, str]
) -> dict[MessageQueue, int]:
    """The first offset at or after a time, per queue (29)."""

    def search(place: BrokerQueue) -> Callable[[MQAdmin], Awaitable[int]]:
        return lambda client: client.search_offset(
            place.addr, place.queue.topic, place.queue.queue_id, from_ms
        )

    answers = admin.gather({place.queue: search(place) for place in places}, ROUND_DEADLINE_MS)
    starts: dict[MessageQueue, int] = {}
    for queue, answer in answers.items():
        if isinstance(answer, Exception):
            silent[queue.broker_name] = str(answer)
        else:
            starts[queue] = answer
    return starts


def _scans(
    places: list[BrokerQueue], starts: dict[MessageQueue, int], positions: dict[str, int], *, newest: bool
) -> list[_Scan]:
    scans = []
    for place in places:
        low, high = max(place.min_offset, starts.get(place.queue, 0)), place.max_offset
        position = positions.get(_name(place.queue))
        if position is not None and newest:
            high = min(high, position)
        elif position is not None:
            low = max(low, position)
        scans.append(_Scan(place, min(low, high), high, PULL_MAX))
    return scans


def _merge(search: _Search, scans: list[_Scan], limit: int) -> tuple[list[tuple[str, MessageRecord]], bool]:
    """Pick ``limit`` messages in time order. Ends early (cut) at a queue whose next message is not known
    yet."""
    picked: list[tuple[str, MessageRecord]] = []
    search.refill(scans)
    heap = [entry for index, scan in enumerate(scans) if (entry := _head(index, scan, search.newest))]
    heapq.heapify(heap)
    while len(picked) < limit:
        if any(scan.unsure for scan in scans):
            return picked, True
        if not heap:
            break
        index = heapq.heappop(heap)[-1]
        scan = scans[index]
        picked.append((scan.place.queue.broker_name, scan.found.pop(0)))
        search.refill([scan])
        entry = _head(index, scan, search.newest)
        if entry:
            heapq.heappush(heap, entry)
    return picked, False


def _head(index: int, scan: _Scan, newest: bool) -> tuple[int, int, int] | None:
    """Sort key of a queue's next message: time, then offset, then the queue's place in the list."""
    if not scan.found:
        return None
    record = scan.found[0]
    sign = -1 if newest else 1
    return (sign * record.store_timestamp_ms, sign * record.queue_offset, index)


def _next_window(scan: _Scan, newest: bool) -> tuple[int, int]:
    if newest:
        return max(scan.low, scan.high - scan.window), scan.high
    return scan.low, min(scan.high, scan.low + scan.window)


def _reader(
    place: BrokerQueue, low: int, high: int, tag: str | None
) -> Callable[[MQAdmin], Awaitable[list[MessageRecord]]]:
    async def read(client: MQAdmin) -> list[MessageRecord]:
        """Messages with low ≤ offset < high; the broker drops other tags by hash, we by text."""
        found: list[MessageRecord] = []
        position = low
        for _ in range(PULLS_PER_WINDOW):
            if position >= high:
                break
            count = min(PULL_MAX, high - position) if tag is None else PULL_MAX
            result = await client.pull(
                place.addr, place.queue.topic, place.queue.queue_id, position, count, tag or "*"
            )
            found += [record for record in result.messages if record.queue_offset < high]
            if result.next_begin_offset <= position:
                break
            position = result.next_begin_offset
        return [record for record in found if tag is None or record.tags == tag]

    return read


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _cursor(scans: list[_Scan], newest: bool) -> str:
    """Per queue the offset to go on at: found but not shown messages are read again."""
    positions = {}
    for scan in scans:
        if newest:
            position = scan.found[0].queue_offset + 1 if scan.found else scan.high
        else:
            position = scan.found[0].queue_offset if scan.found else scan.low
        positions[_name(scan.place.queue)] = position
    text = json.dumps({"newest": newest, "at": positions}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _positions(cursor: str | None, newest: bool) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        value = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if value["newest"] is not newest:
            raise BadCursor("This cursor belongs to a search in the other direction.")
        return {str(name): int(position) for name, position in value["at"].items()}
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCursor(f"This is not a cursor of a message search: {error}") from error


# --- One message --------------------------------------------------------------------------------------------


def message_by_id(cluster: str, message_id: str, topic: str | None = None) -> MessageView | None:
    """A message by its unique key (needs the topic) or by its offset id. None when no broker has it.

    Both ids are 32 hexadecimal digits, so the unique key is tried first. An offset id names an address: only
    a broker of this cluster is asked, never an address out of the request.
    """
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)
    addrs = masters(admin)
    if topic:
        hits = _query(admin, addrs, topic, message_id, unique_key=True)
        if hits:
            name, record = hits[-1]  # the newest: a replayed copy keeps the unique key
            return message_view(record, name)
    try:
        host, port, commit_log_offset = decode_offset_message_id(message_id)
    except ValueError:
        return None
    names = {addr: name for name, addr in addrs.items()}
    addr = f"{host}:{port}"
    if addr not in names:
        return None
    try:
        record = admin.view_message(addr, commit_log_offset)
    except MQBrokerError as error:
        if error.code in NOT_FOUND_CODES:
            return None
        raise
    if topic and record.topic != topic:
        return None
    return message_view(record, names[addr])


def message_at(
    cluster: str, topic: str, broker_name: str, queue_id: int, queue_offset: int
) -> MessageView | None:
    """The message at a place of a queue: what a permalink topic/queue/offset opens."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)
    addr = masters(admin).get(broker_name)
    if addr is None:
        return None
    result = admin.pull(addr, topic, queue_id, queue_offset, 1)
    found = [record for record in result.messages if record.queue_offset == queue_offset]
    return message_view(found[0], broker_name) if found else None


def by_key(
    cluster: str,
    topic: str,
    key: str,
    *,
    begin_ms: int = 0,
    end_ms: int | None = None,
    limit: int = KEY_HITS_MAX,
) -> list[MessageView]:
    """Messages of a topic with this key, newest first. Raises the error when no broker answered at all."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)
    hits = _query(
        admin, masters(admin), topic, key, unique_key=False, begin_ms=begin_ms, end_ms=end_ms, limit=limit
    )
    hits.sort(key=lambda hit: (hit[1].store_timestamp_ms, hit[1].queue_offset), reverse=True)
    return [message_view(record, name, limit_bytes=BODY_SHOWN_BYTES) for name, record in hits[:limit]]


def _query(
    admin: BlockingMQAdmin,
    addrs: dict[str, str],
    topic: str,
    key: str,
    *,
    unique_key: bool,
    begin_ms: int = 0,
    end_ms: int | None = None,
    limit: int = KEY_HITS_MAX,
) -> list[tuple[str, MessageRecord]]:
    """(broker name, record) of every hit (12), oldest first; brokers that do not answer are passed over
    unless all are."""
    bounds: dict[str, int] = {"begin_ms": begin_ms} | ({} if end_ms is None else {"end_ms": end_ms})

    def ask(addr: str) -> Callable[[MQAdmin], Awaitable[list[MessageRecord]]]:
        return lambda client: client.query_message(
            addr, topic, key, min(limit, KEY_HITS_MAX), unique_key=unique_key, **bounds
        )

    answers = admin.gather({name: ask(addr) for name, addr in addrs.items()}, QUERY_DEADLINE_MS)
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    hits = [
        (name, record)
        for name, answer in answers.items()
        if not isinstance(answer, Exception)
        for record in answer
    ]
    return sorted(hits, key=lambda hit: (hit[1].store_timestamp_ms, hit[1].queue_offset))
