"""Compute broadcasting groups: every client reads every queue and keeps its own offsets (lag.md 1.3).

Clients report what they consumed (307, mqTable) at a sweep; min and max offsets of those queues are read right after
it, so that a lag is of that moment and no race makes it negative. A group is as far behind as the furthest of its
clients. A client that does not report may be further behind: then a figure is "at least".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from console.brokers.mqadmin import is_retry_topic
from console.lag.round.figures import ClientFigures, ClientSums, GroupFigures, GroupTopic, TopicFigures
from console.lag.round.series import QueueKey
from console.lag.round.view import ClientProgress, Members, QueueProgress, RoundView, Sample
from console.lag.rows.group_sums import queue_name
from console.lag.rows.queue_row import QueueRow
from console.lag.rows.queue_rows import drain_columns
from console.lag.rows.reasons import about, joined, reason_text
from console.text import Text
from spark.lag.forecast import UNKNOWN_DRAIN, Drain, slowest
from spark.lag.round.round_arrays import age_of
from spark.lag.round.status import (
    SEVERITY,
    WINDOW_MS,
    Judgement,
    LagStatus,
    QueueHistory,
    attention,
    judge,
    worst,
)

BROADCASTING = "BROADCASTING"
# Five sweeps: what a client reported longer ago is out of date.
VALID_MS = 150_000
# Ten minutes of sweeps.
SAMPLES_MAX = 24
# Of one client; its other queues are unknown.
QUEUES_WATCHED_MAX = 256
# Of a group's row; all that reported count in its figures.
CLIENTS_SHOWN_MAX = 100
NO_ANSWERS = Text("broadcasting: each client keeps its own offsets, brokers do not store them")
Place = tuple[str, str, int]  # topic, broker name, queue id


class QueueReport(NamedTuple):
    """Hold one queue as one client reported it then; `judgement` null: the client's position is unknown."""

    key: QueueKey
    lag: int | None
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    judgement: Judgement | None


class Behind(NamedTuple):
    """Hold how far some queues, or the clients of a group, are behind; `partial`: not all of them are known."""

    status: str
    partial: bool
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    time_lag_lower_bound: bool


def positions_of(table: Mapping[Any, Any]) -> dict[Place, int | None]:
    """Return the next message a client has to consume of each queue (307, mqTable).

    Its offset, or before it stored any the first message it holds; null while it has neither.
    """
    found: dict[Place, int | None] = {}
    for queue, one in sorted(table.items()):
        if is_retry_topic(queue.topic):
            continue
        known = one.commit_offset if one.commit_offset >= 0 else None
        if known is None and one.cached_msg_count:
            known = one.cached_msg_min_offset
        found[queue.topic, queue.broker_name, queue.queue_id] = known
    return found


def progress_of(
    before: Iterable[QueueProgress],
    positions: Mapping[Place, int | None],
    offsets: Mapping[Place, tuple[int, int]],
    now_ms: int,
) -> list[QueueProgress]:
    """Return what to keep of a client.

    No sample is added where `positions` or `offsets` (min, max) lack the queue.
    """
    kept = {(one.topic, one.broker_name, one.queue_id): one.samples for one in before}
    found = []
    for number, (place, position) in enumerate(positions.items()):
        samples = [one for one in kept.get(place, ()) if one.at_ms > now_ms - WINDOW_MS]
        if place in offsets and number < QUEUES_WATCHED_MAX:
            low, high = offsets[place]
            if position is None and low == high:
                # An empty queue has nothing for any client.
                position = high
            if samples and high < samples[-1].high:
                # The queue was created again, or its tail was lost: another history.
                samples = []
            if position is not None:
                samples.append(Sample(now_ms, low, high, position))
        found.append(QueueProgress(*place, tuple(samples[-SAMPLES_MAX:])))
    return found


def kept_progress(kept: object) -> list[QueueProgress]:
    """Return the progress that `ClientRow.progress` has."""
    return msgspec.convert(kept, list[QueueProgress])


def queue_rows(group: str, client: ClientProgress) -> list[QueueRow]:
    """Return a client's queues for a page; unknown where its last answer did not include them."""
    rows = []
    read_at_ms = client.read_at_ms
    for one in client.queues:
        row = QueueRow(group=group, topic=one.topic, broker_name=one.broker_name, queue_id=one.queue_id)
        row.owner, row.read_at_ms = client.client_id, read_at_ms
        row.reason = Text("the client did not report its offset, or the broker the queue's end")
        if one.samples and one.samples[-1].at_ms == read_at_ms:
            _, row.min_offset, row.max_offset, row.committed_offset = one.samples[-1]
            waiting = row.max_offset - max(row.committed_offset, row.min_offset)
            row.lag = waiting if waiting >= 0 else None
            row.time_lag_ms = 0 if waiting == 0 else None
            row.reason = Text("of a client's queues only the oldest waiting message is dated")
        rows.append(row)
    return rows


def broadcast_figures(
    view: RoundView,
    group: str,
    members: Members,
    topics: Mapping[str, TopicFigures],
    before: GroupFigures,
) -> ClientSums:
    """Return the columns of a broadcasting group's row as its clients reported them, as of `read_at_ms`.

    Brokers have no offsets of such a group: what the clients did not report is unknown.
    """
    reporting = [one for one in members.progress if one.read_at_ms > view.now_ms - VALID_MS]
    if _is_same(reporting, members, before):
        return ClientSums(**{name: getattr(before, name) for name in ClientSums.__struct_fields__})
    was = {one.client_id: one for one in before.client_progress}
    queues = {one.client_id: [_report(view, group, one, each) for each in one.queues] for one in reporting}
    clients = [_client(one, queues[one.client_id], was.get(one.client_id)) for one in reporting]
    clients = [one for one in clients if one.status != LagStatus.UNKNOWN.value]
    clients.sort(key=lambda one: (-SEVERITY[LagStatus(one.status)], -(one.time_lag_ms or 0), -(one.lag or 0)))
    found = _furthest(clients, members.clients)
    status = LagStatus.OFFLINE if members.clients == 0 else LagStatus(found.status)
    drain = _drain([one for reports in queues.values() for one in reports], found.partial)
    return ClientSums(
        **found._replace(status=status.value)._asdict(),
        **drain_columns(drain)._asdict(),
        since_ms=clients[0].since_ms if clients else view.now_ms,
        reason=_reason(clients, members),
        worst_queue=clients[0].worst_queue if clients else "",
        stall_ms=_stall_ms(clients),
        clients_told=len(clients),
        client_progress=tuple(clients[:CLIENTS_SHOWN_MAX]),
        topics=_topics(members, queues),
        in_rate=_in_rate(members, topics),
        read_at_ms=min((one.read_at_ms for one in clients), default=view.now_ms),
        attention=attention(status, lag=found.lag),
    )


def _is_same(reporting: Sequence[ClientProgress], members: Members, before: GroupFigures) -> bool:
    """Return whether the row before was made of the same answers, with none of its ages missing."""
    was = {one.client_id: one.read_at_ms for one in before.client_progress}
    return (
        before.clients_told == len(was) == len(reporting)
        and members.clients == before.clients
        and was == {one.client_id: one.read_at_ms for one in reporting}
        and not any(one.time_lag_ms is None for one in before.client_progress)
    )


def _report(view: RoundView, group: str, client: ClientProgress, one: QueueProgress) -> QueueReport:
    key = QueueKey(group, one.topic, one.broker_name, one.queue_id)
    samples = np.array(one.samples, dtype=np.int64).reshape(-1, 4)
    if not len(samples) or samples[-1, 0] != client.read_at_ms:
        return QueueReport(key, None, None, False, None)
    low, high, committed = samples[-1, 1:].tolist()
    offsets = samples[:, 2], samples[:, 1], samples[:, 3]
    went_back = np.append(False, np.diff(samples[:, 3]) < 0)
    # Members report their own positions, whichever machine is read.
    history = QueueHistory(samples[:, 0], *offsets, went_back, np.zeros_like(went_back))
    if committed > high:
        return QueueReport(key, None, None, False, judge(history, time_lag_ms=None, clients=None))
    age_ms, is_bound = _age_then(view, key, max(committed, low), high, client.read_at_ms)
    judgement = judge(history, time_lag_ms=None if is_bound else age_ms, clients=1)
    return QueueReport(key, high - max(committed, low), age_ms, is_bound, judgement)


def _age_then(
    view: RoundView, key: QueueKey, first: int, high: int, read_at_ms: int
) -> tuple[int | None, bool]:
    """Return (age, is it a lower bound) of the first message a client had not consumed when it reported.

    Null: the newest round did not read that queue.
    """
    if first >= high:
        return 0, False
    head = view.window.newest(*key[1:])
    now = None if head is None else view.window.head(head)
    if head is None or now is None or now[1] <= first:
        return None, False
    age_ms, is_bound = age_of(view.window, head, first)
    return max(0, age_ms - (view.now_ms - read_at_ms)), is_bound


def _sum(queues: Sequence[QueueReport]) -> Behind:
    """Return the combined figures of a client's queues."""
    judged = [one for one in queues if one.judgement is not None]
    lags = [one.lag for one in judged if one.lag is not None]
    ages = [one.time_lag_ms for one in judged if one.time_lag_ms is not None]
    is_partial = len(lags) < len(queues)
    return Behind(
        status=worst(one.judgement.status for one in judged if one.judgement is not None).value,
        partial=is_partial,
        lag=sum(lags) if lags else None,
        lag_lower_bound=is_partial and bool(lags),
        time_lag_ms=max(ages) if ages and len(ages) == len(lags) else None,
        time_lag_lower_bound=bool(ages) and (is_partial or any(one.time_lag_lower_bound for one in judged)),
    )


def _client(
    client: ClientProgress, queues: Sequence[QueueReport], before: ClientFigures | None
) -> ClientFigures:
    """Return a client's entry in its group's row."""
    sums = _sum(queues)
    bad = [one for one in queues if one.judgement is not None and one.judgement.status == sums.status]
    first = max(bad, key=lambda one: (one.time_lag_ms or 0, one.lag or 0), default=None)
    since_ms, reason = client.read_at_ms, Text()
    if first is not None and first.judgement is not None:
        since_ms = min(one.judgement.since_ms for one in bad if one.judgement is not None)
        reason = reason_text(first.judgement.reason)
    if before is not None and before.status == sums.status:
        since_ms = before.since_ms
    return ClientFigures(
        client_id=client.client_id,
        status=sums.status,
        lag=sums.lag,
        lag_lower_bound=sums.lag_lower_bound,
        time_lag_ms=sums.time_lag_ms,
        time_lag_lower_bound=sums.time_lag_lower_bound,
        since_ms=since_ms,
        reason=reason,
        worst_queue="" if first is None else queue_name(first.key),
        read_at_ms=client.read_at_ms,
    )


def _furthest(reporting: Sequence[Behind | ClientFigures], of: int | None) -> Behind:
    """Return the figures of the client furthest behind, lower bounds while a client's figures are missing."""
    lags = [one.lag for one in reporting if one.lag is not None]
    ages = [one.time_lag_ms for one in reporting if one.time_lag_ms is not None]
    is_partial = of != 0 and (of is None or len(lags) < of or any(one.lag_lower_bound for one in reporting))
    return Behind(
        status=worst(LagStatus(one.status) for one in reporting).value,
        partial=is_partial,
        lag=max(lags, default=None),
        lag_lower_bound=is_partial and bool(lags),
        time_lag_ms=max(ages, default=None),
        time_lag_lower_bound=bool(ages)
        and (is_partial or len(ages) < len(reporting) or any(one.time_lag_lower_bound for one in reporting)),
    )


def _topics(members: Members, queues: Mapping[str, Sequence[QueueReport]]) -> tuple[GroupTopic, ...]:
    """Return the entry of each topic; a topic that no client reported is unknown."""
    reported = {one.key.topic for reports in queues.values() for one in reports}
    found = []
    for topic in sorted({*members.topics, *reported}):
        own = [[one for one in reports if one.key.topic == topic] for reports in queues.values()]
        sums = _furthest([_sum(each) for each in own if each], members.clients)
        count = max((len(each) for each in own), default=0)
        found.append(GroupTopic(topic=topic, queues=count, **sums._asdict()))
    return tuple(found)


def _drain(queues: Sequence[QueueReport], is_partial: bool) -> Drain:
    """Return when the last client has read everything; while some are unseen only "never" is certain."""
    judged = [
        one.judgement.drain for one in queues if one.judgement and one.judgement.status is not LagStatus.OK
    ]
    if is_partial and not any(one.never for one in judged):
        return UNKNOWN_DRAIN
    if judged or not queues:
        return slowest(judged)
    return Drain(None if any(one.lag for one in queues) else 0, False)


def _reason(clients: Sequence[ClientFigures], members: Members) -> Text:
    if members.clients == 0:
        return Text("broadcasting: no client is connected, and each keeps its own offsets")
    if not clients:
        return NO_ANSWERS
    reporting, of = len(clients), members.clients
    whole = Text(
        "broadcasting: the furthest behind of %(number)s client(s), as they report", number=reporting
    )
    if of is None or reporting < of or any(one.lag_lower_bound for one in clients):
        whole = Text(
            "broadcasting: %(reporting)s of %(number)s clients reported their offsets; others may be further behind",
            reporting=reporting,
            number=Text("an unknown number of") if of is None else of,
        )
    first = clients[0]
    if not first.reason:
        return whole
    return joined(whole, about(first.client_id, about(first.worst_queue, first.reason)))


def _stall_ms(clients: Sequence[ClientFigures]) -> int | None:
    standing = (LagStatus.STALLED.value, LagStatus.STOPPED.value)
    return max((one.read_at_ms - one.since_ms for one in clients if one.status in standing), default=None)


def _in_rate(members: Members, topics: Mapping[str, TopicFigures]) -> float | None:
    rates = [topics[name].in_rate for name in members.topics if name in topics]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
