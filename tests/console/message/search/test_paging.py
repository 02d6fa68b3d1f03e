"""Pages of a search over many queues: together they are the sorted union, whatever is written or expires."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageQueue, MessageRecord, PullResult, PullStatus, RemotingTimeout
from console.brokers.queues import BrokerQueue
from console.message.search.cursor import BadCursor, Cursor
from console.message.search.lanes import Hit
from console.message.search.message_search import Search, begin_search
from console.message.search.query import Query
from console.message.services import page_of

TOPIC = "orders"


@dataclasses.dataclass
class StoredQueue:
    """One queue as a broker keeps it: records by offset, those below ``first`` expired."""

    name: tuple[str, int]
    records: list[MessageRecord] = dataclasses.field(default_factory=list)
    first: int = 0

    def write(self, at_ms: int, tag: str) -> None:
        offset = len(self.records)
        body = f"{self.name[0]}-{self.name[1]}-{offset}".encode()
        host = ("10.0.0.1", 10911)
        self.records.append(
            MessageRecord(
                TOPIC,
                self.name[1],
                offset,
                offset,
                100,
                body,
                0,
                0,
                0,
                at_ms,
                host,
                at_ms,
                host,
                0,
                0,
                {"TAGS": tag},
            )
        )

    def pull(self, offset: int, count: int, expression: str, most: int) -> PullResult:
        """As a broker answers: at most ``most`` of what it looks at, tags filtered, expired offsets moved."""
        first, last = self.first, len(self.records)
        if offset < first:
            return PullResult(PullStatus.OFFSET_ILLEGAL, [], first, first, last)
        if offset >= last:
            return PullResult(PullStatus.NO_NEW_MSG, [], offset, first, last)
        seen = self.records[offset : offset + min(count, most)]
        found = [record for record in seen if expression in ("*", record.tags)]
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MSG
        return PullResult(status, found, offset + len(seen), first, last)


class StoredTopic:
    """Queues, and the calls of an admin that a search makes."""

    def __init__(self, names: list[tuple[str, int]], most: int = 32) -> None:
        self.queues = {name: StoredQueue(name) for name in names}
        self.most = most
        self.silent: set[str] = set()

    def gather(
        self, calls: Mapping[int, Callable[[Any], Awaitable[PullResult]]], deadline_ms: int
    ) -> dict[int, PullResult | Exception]:
        answers: dict[int, PullResult | Exception] = {}
        for key, call in calls.items():
            work: Any = call(self)
            try:
                work.send(None)
            except StopIteration as end:
                answers[key] = end.value
            except RemotingTimeout as error:
                answers[key] = error
        return answers

    async def pull(
        self,
        addr: str,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        expression: str,
        *,
        expression_type: str,
    ) -> PullResult:
        if addr in self.silent:
            raise RemotingTimeout(addr, 11, 3_000)
        return self.queues[addr, queue_id].pull(offset, count, expression, self.most)

    def search(self, query: Query, cursor: str | None, limit: int) -> Search:
        bounds = {
            BrokerQueue(MessageQueue(TOPIC, *queue.name), queue.name[0], queue.first, len(queue.records)): (
                queue.first,
                len(queue.records),
            )
            for queue in self.queues.values()
        }
        began = Cursor.from_text(cursor, query.fingerprint) if cursor else None
        admin: Any = self
        return begin_search(admin, query, bounds, began, limit=limit, deadline_s=time.monotonic() + 60)

    def page(self, query: Query, cursor: str | None, limit: int) -> tuple[list[str], str | None, str | None]:
        """(bodies in the list's order, next cursor, previous cursor)."""
        search = self.search(query, cursor, limit)
        while not search.is_done:
            search.step()
        page = page_of(search, has_cursor=bool(cursor))
        return [row.body_text for row in page.rows], page.cursor, page.previous

    def union(self, newest: bool, tag: str = "") -> list[str]:
        hits = [
            Hit(name[0], record)
            for name, queue in self.queues.items()
            for record in queue.records[queue.first :]
        ]
        hits.sort(key=lambda hit: hit.key, reverse=newest)
        return [hit.record.body.decode() for hit in hits if not tag or hit.record.tags == tag]


names = st.lists(
    st.tuples(st.sampled_from(["broker-a", "broker-b", "broker-c"]), st.integers(0, 3)),
    min_size=1,
    max_size=6,
    unique=True,
)
gaps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from(["x", "y"])), max_size=120)


def filled(queue_names: list[tuple[str, int]], writes: list[tuple[int, int, str]], most: int) -> StoredTopic:
    """Times only grow, often by 0: equal times on several queues are what merges get wrong."""
    topic = StoredTopic(queue_names, most)
    now_ms = 1_000
    for which, gap, tag in writes:
        now_ms += gap
        topic.queues[queue_names[which % len(queue_names)]].write(now_ms, tag)
    return topic


@settings(max_examples=150, deadline=None)
@given(names, gaps, st.integers(1, 40), st.booleans(), st.sampled_from(["", "x"]), st.integers(1, 40))
def test_pages_are_the_sorted_union(
    queue_names: list[tuple[str, int]],
    writes: list[tuple[int, int, str]],
    limit: int,
    newest: bool,
    tag: str,
    most: int,
) -> None:
    topic = filled(queue_names, writes, most)
    query = Query(TOPIC, newest=newest, tags=(tag,) if tag else ())
    read: list[str] = []
    pages: list[tuple[list[str], str | None]] = []
    cursor: str | None = None
    while True:
        rows, cursor, previous = topic.page(query, cursor, limit)
        assert len(rows) == limit or cursor is None
        pages.append((rows, previous))
        read += rows
        if cursor is None:
            break
    assert read == topic.union(newest, tag)
    while len(pages) > 1:  # and the way back gives the same pages
        _, previous = pages.pop()
        rows, _, _ = topic.page(query, previous, limit)
        assert rows == pages[-1][0]


@settings(max_examples=100, deadline=None)
@given(names, gaps, st.integers(1, 20), st.booleans(), st.data())
def test_pages_neither_skip_nor_repeat_while_messages_arrive_and_expire(
    queue_names: list[tuple[str, int]],
    writes: list[tuple[int, int, str]],
    limit: int,
    newest: bool,
    data: st.DataObject,
) -> None:
    topic = filled(queue_names, writes, most=8)
    query = Query(TOPIC, newest=newest)
    before = topic.union(newest)
    read: list[str] = []
    cursor: str | None = None
    for _ in range(200):
        rows, cursor, _ = topic.page(query, cursor, limit)
        read += rows
        if cursor is None:
            break
        name = data.draw(st.sampled_from(queue_names))
        for _ in range(data.draw(st.integers(0, 3))):
            topic.queues[name].write(10_000, "x")
        queue = topic.queues[name]
        queue.first = min(len(queue.records), queue.first + data.draw(st.integers(0, 3)))
    assert len(read) == len(set(read)), "nothing comes twice"
    kept = topic.union(newest)
    if newest:
        assert set(read) <= set(before), "what came later is not pushed in between"
        assert set(before) & set(kept) <= set(read), "what is still there was read"
    else:
        assert set(kept) <= set(read)


def test_it_goes_on_without_a_silent_broker_and_says_so() -> None:
    topic = filled([("broker-a", 0), ("broker-b", 0)], [(index, 1, "x") for index in range(20)], most=8)
    topic.silent = {"broker-b"}
    search = topic.search(Query(TOPIC), None, 50)
    while not search.is_done:
        search.step()
    assert [hit.record.queue_offset for hit in search.picked] == list(range(9, -1, -1))
    assert list(search.silent) == ["broker-b"] and search.figures().queues_silent == 1
    assert search.figures().to_go == 0, "what cannot be read is not to go"


def test_a_stopped_search_gives_what_it_has_and_goes_on_behind_it() -> None:
    topic = filled([("broker-a", 0), ("broker-b", 0)], [(0, 1, "x")] * 4 + [(1, 1, "y")] * 3_000, most=32)
    query = Query(TOPIC, newest=False, tags=("x",))
    search = topic.search(query, None, 10)
    search.step()
    assert search.picked == [], "broker-b might hold an earlier one"
    assert [hit.record.body for hit in search.candidates()] == [f"broker-a-0-{n}".encode() for n in range(4)]
    search.stop("stopped")
    search.keep_rest()
    page = page_of(search, has_cursor=False)
    assert len(page.rows) == 4 and page.cut and page.cursor is not None
    rows, cursor, _ = topic.page(query, page.cursor, 10)
    assert (rows, cursor) == ([], None)


def test_a_queue_that_came_later_is_not_part_of_an_older_list() -> None:
    topic = filled([("broker-a", 0)], [(0, 1, "x")] * 5, most=8)
    query = Query(TOPIC)
    _, cursor, _ = topic.page(query, None, 2)
    topic.queues["broker-a", 1] = StoredQueue(("broker-a", 1))
    topic.queues["broker-a", 1].write(9_000, "x")
    rows, _, previous = topic.page(query, cursor, 10)
    assert rows == ["broker-a-0-2", "broker-a-0-1", "broker-a-0-0"]
    assert topic.page(query, previous, 10)[0] == ["broker-a-1-0", "broker-a-0-4", "broker-a-0-3"]


@pytest.mark.parametrize("text", ["x", "e30", "bm9wZQ", "WzFd", "€", "A" * 30_000, "eJwDAAAAAAE"])
def test_it_refuses_what_is_no_cursor(text: str) -> None:
    with pytest.raises(BadCursor, match="not a cursor"):
        Cursor.from_text(text, "f")


def test_a_cursor_belongs_to_its_search() -> None:
    cursor = Cursor("f", True, {("broker-a", 3): 7, ("broker-b", 0): 2**40})
    assert Cursor.from_text(cursor.to_text(), "f") == cursor
    with pytest.raises(BadCursor, match="another search"):
        Cursor.from_text(cursor.to_text(), "g")
    assert Query(TOPIC).fingerprint != Query(TOPIC, tags=("x",)).fingerprint
