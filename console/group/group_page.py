"""The page of one group: chart marks, sorted and paged queues, clients and differing subscriptions.

Pure apart from the marks, which read events and jobs, and the findings, which read the promise and jobs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from django.utils.translation import gettext

from console.brokers.mqadmin import is_retry_topic
from console.group.findings import SEVERITY, Finding, OwnPlan, Queues, findings, subscribe_alike
from console.group.pauses import GroupPauses
from console.group.selectors import Reported, member_figures
from console.lag.models import ClientRow, GroupRow
from console.lag.past import mark_words, marks
from console.lag.promise_versions import promises_of
from console.lag.round.figures import ClientFigures
from console.lag.rows.queue_row import QueueRow
from console.lists.page import Page, cut
from console.lists.query import ListQuery
from console.lists.spec import MSGS, Column, ListSpec
from console.operation import selectors as operation_selectors
from console.text import Text
from spark.lag.round.status import LagStatus

# --- Findings ---------------------------------------------------------------------------------------------------


SEEN_WITHIN_MS = 60_000  # rounds see what a job set while its broker answers, some seconds later


def findings_at(
    now_ms: int,
    row: GroupRow,
    queues: Queues,
    clients: Sequence[Reported],
    paused: GroupPauses,
) -> list[Finding]:
    """Return what is wrong with a group, judged by the promise in force."""
    promise = promises_of(row.cluster, [row.group]).at(row.group, now_ms)

    @cache
    def plan_at(at_ms: int) -> OwnPlan | None:
        kinds = operation_selectors.plan_kinds().items()
        of_offsets = [name for name, kind in kinds if kind.chart_mark == mark_words.OFFSETS]
        job = operation_selectors.job_at(
            row.cluster, row.group, at_ms, kinds=of_offsets, within_ms=SEEN_WITHIN_MS
        )
        return None if job is None else OwnPlan(job.plan_id, job.created_by)

    return findings(row, queues, clients, paused, promise.slo_ms, plan_at)


# --- Marks ------------------------------------------------------------------------------------------------------

MARKS_MAX = 50  # per chart; more would hide the line
MARK_MEANINGS = (
    ("R", Text("offset change")),
    ("D", Text("dead-letter replay")),
    ("S", Text("settings")),
    ("M", Text("clients")),
    ("B", Text("broker restarted or silent")),
    ("L", Text("messages lost")),
    ("Q", Text("topic recreated, or its end lost")),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ChartMark:
    """One mark of a chart: time, letter, label."""

    t: int
    mark: str
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class ChartMarks:
    """The marks of a chart, oldest first; with `is_cut` only the newest of more."""

    marks: tuple[ChartMark, ...]
    is_cut: bool

    @property
    def meanings(self) -> list[tuple[str, Text]]:
        """The legend: the letters that occur."""
        letters = {one.mark for one in self.marks}
        return [(letter, words) for letter, words in MARK_MEANINGS if letter in letters]


def chart_marks(
    cluster: str, group: str, brokers: Collection[str], from_ms: int, to_ms: int, most: int = MARKS_MAX
) -> ChartMarks:
    """Return events and this console's jobs of a group in [from_ms, to_ms), in the reader's language."""
    found = marks.of_group(cluster, group, brokers, from_ms, to_ms, most)
    seen = [
        ChartMark(max(mark.at_ms, from_ms), mark_words.LETTERS[mark.kind], mark_words.words(mark))
        for mark in found.marks
        if not _is_ours(mark)
    ]
    done = _jobs(cluster, group, from_ms, to_ms, most + 1)
    both = sorted([*seen, *done], key=lambda one: (one.t, one.mark, one.label))
    return ChartMarks(tuple(both[-most:]), found.is_cut or len(both) > most)


def _is_ours(mark: marks.Mark) -> bool:
    """Return whether a job caused this change of offsets: the job has a mark of its own."""
    return mark_words.LETTERS[mark.kind] == mark_words.OFFSETS and bool(mark.cause)


def _jobs(cluster: str, group: str, from_ms: int, to_ms: int, most: int) -> Iterator[ChartMark]:
    for job in operation_selectors.jobs_page(cluster, subject=group, per_page=most).rows:
        at_ms = round(job.created_at.timestamp() * 1000)
        if from_ms <= at_ms < to_ms:
            kind = operation_selectors.plan_kind(job.kind)
            places = {"what": kind.title.local(), "person": job.created_by, "plan": job.plan_id}
            yield ChartMark(at_ms, kind.chart_mark, gettext("%(what)s by %(person)s, %(plan)s") % places)


# --- Queues -----------------------------------------------------------------------------------------------------

_WORST = {status: place for place, status in enumerate(SEVERITY)}
QUEUES = ListSpec(
    name="queues",
    key="queue_id",
    default="queue",
    columns=(
        Column(
            "queue",
            Text("Queue"),
            css="",
            order=lambda row: (row.topic, row.broker_name, row.queue_id),
            ascending=True,
            fields=("topic", "broker_name", "queue_id"),
        ),
        Column(
            "status",
            Text("Status"),
            css="",
            order=lambda row: -_WORST.get(row.status, len(_WORST)),
            fields=("status",),
            live=("status", "status"),
        ),
        Column("min", Text("Min"), css="num p3 muted", fields=("min_offset",), live=("min_offset", "count")),
        Column(
            "committed",
            Text("Committed"),
            css="num",
            fields=("committed_offset",),
            live=("committed_offset", "count"),
        ),
        Column(
            "pulled",
            Text("Pulled"),
            css="num p3",
            fields=("pulled_offset",),
            live=("pulled_offset", "optional"),
        ),
        Column("max", Text("Max"), css="num", fields=("max_offset",), live=("max_offset", "count")),
        Column("lag", Text("Lag"), MSGS, order=lambda row: row.lag, fields=("lag",), live=("lag", "count")),
        Column(
            "in_flight",
            Text("In flight"),
            css="num p2",
            order=lambda row: row.in_flight,
            fields=("in_flight",),
            live=("in_flight", "optional"),
        ),
        Column(
            "available",
            Text("Available"),
            css="num p3",
            order=lambda row: row.available,
            fields=("available",),
            live=("available", "optional"),
        ),
        Column(
            "time_lag",
            Text("Time lag"),
            order=lambda row: row.time_lag_ms,
            fields=("time_lag_ms",),
            live=("time_lag_ms", "time_lag"),
        ),
        Column(
            "commit",
            Text("Last commit"),
            css="num p2",
            order=lambda row: row.last_commit_ms,
            fields=("last_commit_ms",),
            live=("last_commit_ms", "seen"),
        ),
        Column(
            "owner",
            Text("Owner"),
            css="",
            order=lambda row: row.owner or None,
            ascending=True,
            fields=("owner",),
            live=("owner", "owner"),
        ),
    ),
    file_fields=("reason", "read_at_ms"),
    searched=("topic", "broker_name", "owner", "status"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Staying:
    """The queues that keep a group from draining: the one furthest behind, how many, and of how many."""

    worst: QueueRow
    number: int
    queues: int


def staying(queues: Queues) -> Staying | None:
    """Return the queues whose backlog never ends; None if that is none or all, for then no queue decides."""
    records = queues.records("topic", "status", "drain_never", "time_lag_ms", "lag")
    main = [one for one in records if not is_retry_topic(one.topic)]
    never = [one for one in main if one.drain_never and one.status != LagStatus.OK.value]
    if not never or len(never) == len(main):
        return None
    worst = max(never, key=lambda one: (one.time_lag_ms or 0, one.lag or 0))
    return Staying(next(iter(queues.part([worst.at]))), len(never), len(main))


def queue_page(queues: Queues, query: ListQuery) -> Page[QueueRow]:
    """Return one page of queues in the requested order; by name, which is theirs, the retry topic comes last."""
    if query.sort == "queue":
        is_retry = [is_retry_topic(topic) for topic in queues.values("topic")]
        by_name = range(len(queues))[:: -1 if query.descending else 1]
        order = sorted(by_name, key=is_retry.__getitem__)
    else:
        records = queues.records(*QUEUES.ordered_fields)
        order = [one.at for one in QUEUES.in_order(records, query.sort, query.descending)]
    counts = Counter(queues.values("status"))
    page = cut(order, page=query.page, per_page=query.per_page, counts_by_status=counts)
    return dataclasses.replace(page, rows=list(queues.part(page.rows)))


# --- Clients ----------------------------------------------------------------------------------------------------


def progress_of(row: GroupRow) -> dict[str, ClientFigures]:
    """Return the figures of a broadcasting group's members by client id; {} for other groups."""
    return {one.client_id: one for one in member_figures(row)}


def owned_words(client: ClientRow) -> list[str] | None:
    """Return the queues of a client as words: [] for none, None when it did not report them.

    `clicks: broker-a · 0, 1, 2` per topic and broker; `clicks: broker-a · POP, 30` where it pops and holds 30
    messages.
    """
    if client.queues is None:
        return None
    ids: dict[tuple[str, str], list[int]] = {}
    popped = []
    for queue in client.queues:
        if is_retry_topic(queue["topic"]):
            continue
        if "popped" in queue:
            popped.append(f"{queue['topic']}: {queue['broker_name']} · POP, {queue['popped']:,}")
        else:
            ids.setdefault((queue["topic"], queue["broker_name"]), []).append(queue["queue_id"])
    owned = [
        f"{topic}: {broker} · {', '.join(map(str, sorted(found)))}"
        for (topic, broker), found in sorted(ids.items())
    ]
    return owned + popped


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """Members with the same subscription of a topic: count, versions, expression.

    ``parts`` are the parts of the expression, marked when the other side does not have them.
    """

    clients: int
    versions: str
    parts: list[tuple[str, bool]]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One topic with differing subscriptions; ``most`` is the most frequent one."""

    topic: str
    most: Side
    others: list[Side]


NOT_SUBSCRIBED = Text("not subscribed")


def differences(clients: Sequence[Reported]) -> list[Difference]:
    """Return topics whose subscription is not the same for all members that reported one."""
    if subscribe_alike(clients):
        return []
    saying = [client for client in clients if client.subscription]
    topics = sorted({topic for client in saying for topic in client.subscription})
    found = []
    for topic in topics:
        if is_retry_topic(topic):
            continue
        sides: dict[str, list[Reported]] = defaultdict(list)
        for client in saying:
            sides[_expression(client, topic)].append(client)
        if len(sides) > 1:
            found.append(_difference(topic, sides))
    return found


def _difference(topic: str, sides: dict[str, list[Reported]]) -> Difference:
    ranked = sorted(sides.items(), key=lambda side: (-len(side[1]), side[0]))
    common = ranked[0][0]
    others = [_side(text, clients, against=common) for text, clients in ranked[1:]]
    return Difference(topic, _side(common, ranked[0][1], against=ranked[1][0]), others)


def _side(text: str, clients: Sequence[Reported], against: str) -> Side:
    theirs = {part.strip() for part in against.split("||")}
    parts = [(part, part.strip() not in theirs) for part in text.split("||")]
    return Side(len(clients), ", ".join(sorted({client.version or "?" for client in clients})), parts)


def _expression(client: Reported, topic: str) -> str:
    subscribed = client.subscription.get(topic)
    if subscribed is None:
        return NOT_SUBSCRIBED
    kind = subscribed.get("type") or "TAG"
    expression = subscribed.get("expression") or "*"
    return expression if kind == "TAG" else f"{kind} {expression}"


def differing_clients(clients: Sequence[Reported], found: Sequence[Difference]) -> set[str]:
    """Return ids of members whose subscription is not the most frequent one, by `differences` of them."""
    ids: set[str] = set()
    for topic in {difference.topic for difference in found}:
        counts = Counter(_expression(client, topic) for client in clients if client.subscription)
        common = min(counts, key=lambda text: (-counts[text], text))
        ids |= {
            client.client_id
            for client in clients
            if client.subscription and _expression(client, topic) != common
        }
    return ids


def has_filter(clients: Sequence[Reported]) -> bool:
    """Return whether a member subscribes to less than every message of a topic."""
    reported = [client for client in clients if client.subscription]
    compared = reported[:1] if subscribe_alike(reported) else reported
    return any(
        ((subscribed or {}).get("expression") or "*") != "*"
        for client in compared
        for topic, subscribed in client.subscription.items()
        if not is_retry_topic(topic)
    )
