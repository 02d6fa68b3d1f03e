"""Run one search: which queues, one round of pulls after another, and the results.

Reads brokers directly, as a tool (group TOOLS_CONSUMER): no offset of any group moves. Every search is limited in
time, messages and bytes, and reports what it did not read. A Search belongs to one thread at a time; `step` blocks
for one round of pulls, so the caller can stop between two rounds.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from console.brokers.body_format import ProtobufDecoder
from console.brokers.masking import Masks
from console.brokers.mqadmin import (
    BlockingMQAdmin,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    PullResult,
    RemotingTimeout,
    ResponseCode,
    with_admin,
)
from console.brokers.queues import BrokerQueue, ask_each, route_queues, topic_route
from console.brokers.time_search import first_offsets
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.message import schemas
from console.message.search.cursor import Cursor
from console.message.search.lanes import Hit, Lane, Merge, Pull, first_window, hits_ahead, hits_of
from console.message.search.query import Query, QueryRefused
from console.text import Text, text_of

ROUND_DEADLINE_MS = 5_000
SCANNED_MAX = 20_000_000  # messages read by one search
TAGS_COUNTED_MAX = 1_000  # distinct tags; a producer may put an id into its tags
BYTES_MAX = 2 * 1024**3  # received by one search


class TopicNotFound(Exception):
    """No name server of the cluster has a route of the topic."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What a search has done so far.

    ``to_go``: offsets of its range not read yet; sizes in bytes, times in ms.
    """

    scanned: int
    to_go: int
    queues: int
    queues_read: int  # to the end of their range
    queues_silent: int
    hits: int
    pulls: int
    received_bytes: int
    elapsed_ms: int


class Search:
    """``limit`` hits of a query, from a cursor on. Make one with `open_search`."""

    def __init__(
        self,
        admin: BlockingMQAdmin,
        query: Query,
        merge: Merge,
        limit: int,
        *,
        began: Cursor,
        silent: dict[str, Text],
        queues_silent: int,
        deadline_s: float,
    ) -> None:
        self.query, self.merge, self.limit = query, merge, limit
        self.picked: list[Hit] = []
        self.silent = silent
        self.stop_reason = Text()
        self.protobuf: ProtobufDecoder | None = None  # decoder of the hits' bodies
        self._admin, self._began, self._queues_silent = admin, began, queues_silent
        self._started_s, self._deadline_s = time.monotonic(), deadline_s
        self._hits = self._pulls = self._bytes = 0
        self.tags: Counter[str] = Counter()  # of the messages received, hits or not

    @property
    def is_done(self) -> bool:
        """Return whether the page is full, the topic is at its end, or a limit was reached."""
        return bool(self.stop_reason) or len(self.picked) >= self.limit or self.merge.is_ended

    def step(self) -> None:
        """Run one round of pulls and take the hits that became certain; raise nothing for silent brokers."""
        self._refuse_too_much()
        if not self.stop_reason and (pulls := self.merge.pulls()):
            left_ms = max(1, int((self._deadline_s - time.monotonic()) * 1000))
            calls = {index: self._puller(pull) for index, pull in enumerate(pulls)}
            answers = self._admin.gather(calls, min(left_ms, ROUND_DEADLINE_MS))
            for index, pull in enumerate(pulls):
                self._take(pull, answers[index])
        self.picked += self.merge.certain(self.limit - len(self.picked))

    def drain(self) -> list[Hit]:
        """Remove and return the certain hits; for exports, where ``limit`` counts all hits together."""
        hits, self.picked = self.picked, []
        self.limit -= len(hits)
        return hits

    def stop(self, reason: Text) -> None:
        """End the search between two rounds; what was found so far is kept."""
        self.stop_reason = self.stop_reason or reason

    def keep_rest(self) -> None:
        """Keep uncertain hits too, though messages before them may be missing; for a stopped search."""
        self.picked += self.merge.rest(self.limit - len(self.picked))

    def candidates(self) -> list[Hit]:
        """Return the hits of the page as far as known now."""
        return (self.picked + self.merge.found())[: self.limit]

    def figures(self) -> Figures:
        lanes = self.merge.lanes
        return Figures(
            scanned=sum(lane.read for lane in lanes),
            to_go=sum(lane.total - lane.read for lane in lanes if not lane.failure),
            queues=len(lanes),
            queues_read=sum(lane.is_ended and not lane.failure for lane in lanes),
            queues_silent=self._queues_silent + sum(bool(lane.failure) for lane in lanes),
            hits=self._hits,
            pulls=self._pulls,
            received_bytes=self._bytes,
            elapsed_ms=round((time.monotonic() - self._started_s) * 1000),
        )

    @property
    def far_cut(self) -> Cursor:
        """Return the cursor after the last returned hit, in the same direction."""
        cuts = {_place(lane.place.queue): lane.cut for lane in self.merge.lanes}
        kept = {place: cut for place, cut in self._began.cuts.items() if place not in cuts}
        return Cursor(self.query.fingerprint, self.merge.up, {**kept, **cuts})

    @property
    def near_cut(self) -> Cursor:
        """Return the cursor back from where this search began."""
        return dataclasses.replace(self._began, up=not self.merge.up)

    def _refuse_too_much(self) -> None:
        if time.monotonic() >= self._deadline_s:
            self.stop(Text("the time limit is reached"))
        elif sum(lane.read for lane in self.merge.lanes) >= SCANNED_MAX:
            self.stop(Text("the limit of %(number)s messages scanned is reached", number=SCANNED_MAX))
        elif self._bytes >= BYTES_MAX:
            self.stop(Text("the limit of %(number)s MiB received is reached", number=BYTES_MAX // 1024**2))

    def _puller(self, pull: Pull) -> Callable[[MQAdmin], Awaitable[PullResult]]:
        place, (expression, kind) = pull.lane.place, self.query.expression
        return lambda client: client.pull(
            place.addr,
            place.queue.topic,
            place.queue.queue_id,
            pull.offset,
            pull.count,
            expression,
            expression_type=kind,
        )

    def _take(self, pull: Pull, answer: PullResult | Exception) -> None:
        self._pulls += 1
        place = pull.lane.place
        if isinstance(answer, Exception):
            if isinstance(answer, RemotingTimeout) and time.monotonic() >= self._deadline_s:
                return
                # Our own deadline: the queue is read again with the next page.
            self.silent[place.queue.broker_name] = text_of(answer)
            pull.lane.fail(str(answer))
            return
        self._bytes += sum(record.store_size_bytes for record in answer.messages)
        if len(self.tags) < TAGS_COUNTED_MAX:
            self.tags.update(record.tags for record in answer.messages)
        hits = hits_of(self.query, place, answer)
        self._hits += len(hits)
        pull.lane.take(hits, answer.next_begin_offset)


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where to search: what the console's database has, so that reading brokers needs no database."""

    cluster: str
    admin: BlockingMQAdmin
    held_by: frozenset[str]  # brokers that had the topic in the last round
    silent: Mapping[str, Text]  # of all brokers, those that did not answer the last round
    masks: Masks  # of the cluster
    protobuf: ProtobufDecoder | None = None  # decoder of the topic's bodies, where it has a schema
    # Broker name → release, as of the last round.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)


def source_of(cluster: str, topic: str) -> Source:
    """Read the database. Raises Cluster.DoesNotExist."""
    row = TopicRow.objects.filter(cluster=cluster, topic=topic).first()
    return Source(
        cluster,
        with_admin(cluster_selectors.cluster_by_name(cluster).connection),
        frozenset(row.brokers if row is not None else ()),
        {each.broker_name: each.reason for each in lag_selectors.silent_brokers(cluster)},
        masks_of(cluster),
        schemas.decoder_of(cluster, topic),
        {each.broker_name: each.version for each in lag_selectors.broker_rows(cluster)},
    )


def masked_query(source: Source, query: Query) -> Query:
    """Return the query as it sees messages: without masked values. Raises QueryRefused for SQL92 about one."""
    words = {word.casefold() for word in re.findall(r"[\w$]+", query.sql)}
    for name in sorted(source.masks.properties_of(query.topic)):
        if name.casefold() in words:
            raise QueryRefused(
                Text("The property %(name)s is masked: brokers cannot filter by it.", name=name), "sql"
            )
    return dataclasses.replace(query, masks=source.masks)


@dataclasses.dataclass(slots=True)
class Queues:
    """The queues of a search as they are now. ``silent``: broker name → why its queues are missing."""

    places: list[BrokerQueue]
    silent: dict[str, Text]
    missing: int  # queues on brokers that do not answer


def queues_now(source: Source, query: Query) -> Queues:
    """Read name server and brokers. Raises TopicNotFound, and BrokerUnavailable if no name server answers."""
    route = topic_route(source.admin, query.topic)
    if route is None and (held := sorted(source.held_by & set(source.silent))):
        return Queues([], {name: source.silent[name] or Text("not registered") for name in held}, 0)
    if route is None:
        raise TopicNotFound(
            Text("%(cluster)s has no topic %(topic)s.", topic=query.topic, cluster=source.cluster)
        )
    routed = route_queues(route, query.topic)
    wanted = {queue: addr for queue, addr in routed.items() if query.needs_queue(queue)}
    # Brokers of the last round without a route since: their messages are missing too.
    gone = source.held_by & set(source.silent) - {data.broker_name for data in route.queue_datas}
    silent = {name: source.silent[name] or Text("not registered") for name in sorted(gone)}
    places = _reachable(source.admin, wanted, silent)
    return Queues(places, silent, len(wanted) - len(places))


def open_search(
    source: Source,
    query: Query,
    *,
    limit: int,
    time_ms: int,
    cursor_text: str = "",
    up: bool | None = None,
) -> Search:
    """Find the queues and where to begin; read no message yet.

    ``up`` None: the direction of the query, or the cursor's. Raises TopicNotFound, BadCursor, QueryRefused, and
    BrokerUnavailable if no name server answers.
    """
    deadline_s = time.monotonic() + time_ms / 1000
    query = masked_query(source, query)
    cursor = Cursor.from_text(cursor_text, query.fingerprint) if cursor_text else None
    queues = queues_now(source, query)
    if query.sql:
        check_sql(source.admin, query, queues.places)
    bounds = _bounds(source, queues.places, query, queues.silent)
    search = begin_search(
        source.admin,
        query,
        bounds,
        cursor,
        up=up,
        limit=limit,
        silent=queues.silent,
        queues_silent=queues.missing + len(queues.places) - len(bounds),
        deadline_s=deadline_s,
    )
    search.protobuf = source.protobuf
    return search


def begin_search(
    admin: BlockingMQAdmin,
    query: Query,
    bounds: Mapping[BrokerQueue, tuple[int, int]],
    cursor: Cursor | None,
    *,
    limit: int,
    deadline_s: float,
    up: bool | None = None,
    silent: dict[str, Text] | None = None,
    queues_silent: int = 0,
) -> Search:
    """Start a search over queues whose ranges are known."""
    going_up = cursor.up if cursor is not None else not query.newest if up is None else up
    window = first_window(len(bounds), limit)
    lanes, cuts = [], {}
    for place, (low, high) in bounds.items():
        cut = _first_cut(place, query, cursor, low, high)
        cuts[_place(place.queue)] = cut
        ends = (max(low, cut), high) if going_up else (low, min(high, cut))
        lanes.append(Lane(place, *ends, up=going_up, window=window))
    return Search(
        admin,
        query,
        Merge(lanes, up=going_up, ahead=hits_ahead(len(lanes), limit)),
        limit,
        began=Cursor(query.fingerprint, going_up, {**(cursor.cuts if cursor else {}), **cuts}),
        silent={} if silent is None else silent,
        queues_silent=queues_silent,
        deadline_s=deadline_s,
    )


def _place(queue: MessageQueue) -> tuple[str, int]:
    return queue.broker_name, queue.queue_id


def _first_cut(place: BrokerQueue, query: Query, cursor: Cursor | None, low: int, high: int) -> int:
    """Return where a queue begins: at its cut, else at the end the search starts from.

    A queue without a cut was added after the search began: a list of the newest does not show it further down, a
    list from a time on starts at its beginning.
    """
    known = None if cursor is None else cursor.cut(place.queue)
    if known is not None:
        return min(known, place.max_offset)  # a topic that was recreated ends earlier
    if cursor is not None:
        return low
    return high if query.newest else low


def _reachable(
    admin: BlockingMQAdmin, queues: Mapping[MessageQueue, str], silent: dict[str, Text]
) -> list[BrokerQueue]:
    """Return offsets of every queue whose broker answers; put the others into ``silent``.

    Reads all brokers at once.
    """
    addrs = sorted(set(queues.values()))
    places: list[BrokerQueue] = []
    if not queues:
        return places
    topic = next(iter(queues)).topic
    answers = ask_each(
        admin,
        {addr: addr for addr in addrs},
        lambda client, addr: client.topic_stats(addr, topic),
        ROUND_DEADLINE_MS,
    )
    for addr, table in answers.items():
        own = [queue for queue, where in queues.items() if where == addr]
        if isinstance(table, Exception):
            silent[own[0].broker_name] = text_of(table)
            continue
        for queue in own:
            offsets = table.offset_table.get(queue)
            low, high = (0, 0) if offsets is None else (offsets.min_offset, offsets.max_offset)
            places.append(BrokerQueue(queue, addr, low, high))
    return places


def check_sql(admin: BlockingMQAdmin, query: Query, places: Sequence[BrokerQueue]) -> None:
    """Check with each broker that it can filter so (request 46). Raises QueryRefused.

    A pull whose expression the broker cannot parse would return every message.
    """
    addrs = {place.queue.broker_name: place.addr for place in places}
    answers = ask_each(
        admin,
        addrs,
        lambda client, addr: client.check_filter(addr, query.topic, query.sql),
        ROUND_DEADLINE_MS,
    )
    for name, answer in sorted(answers.items()):
        if not isinstance(answer, MQBrokerError):
            continue
        if answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            raise QueryRefused(
                Text("%(name)s cannot read this expression: %(reason)s", name=name, reason=answer.remark),
                "sql",
            )
        raise QueryRefused(
            Text(
                "%(name)s does not filter by SQL92: %(reason)s. Set enablePropertyFilter=true on it, or use a tag or a "
                "filter in the console.",
                name=name,
                reason=answer.remark.rstrip("."),
            ),
            "sql",
        )


def _bounds(
    source: Source, places: list[BrokerQueue], query: Query, silent: dict[str, Text]
) -> dict[BrokerQueue, tuple[int, int]]:
    """Return [low, high) of each queue: what is retained, limited by time (request 29) or offset."""
    admin, versions = source.admin, source.versions
    times = {"low": query.from_ms, "high": None if query.to_ms is None else query.to_ms + 1}
    requests = {
        (place, moment): versions.get(place.queue.broker_name, "")
        for place in places
        for moment in times.values()
        if moment is not None
    }
    answers = first_offsets(admin, requests, ROUND_DEADLINE_MS)
    bounds = {}
    for place in places:
        found = {end: None if moment is None else answers[place, moment] for end, moment in times.items()}
        failure = next((answer for answer in found.values() if isinstance(answer, Exception)), None)
        if failure is not None:
            silent[place.queue.broker_name] = text_of(failure)
            continue
        low, high = place.min_offset, place.max_offset
        if isinstance(found["low"], int):
            low = max(low, found["low"])
        if query.from_offset is not None:
            low = max(low, query.from_offset)
        if isinstance(found["high"], int):
            high = min(high, found["high"])
        bounds[place] = (min(low, high), high)
    return bounds
