"""Data of the overview: top lists of groups, sums over brokers, the collector's health. Calls no broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Case, Count, F, Q, QuerySet, Sum, When

from console.access.name_scope import EVERYTHING, NameScope
from console.broker import findings as broker_findings
from console.broker import selectors as broker_selectors
from console.broker.findings import Finding
from console.broker.models import NameServerRow
from console.broker.samples import samples
from console.broker.selectors import BrokerView
from console.deadletter.selectors import DeadLetterRow
from console.group.findings import CLIENT_WORDS
from console.lag import selectors as lag_selectors
from console.lag.models import BrokerRow, ClientRow, GroupRow, Round, TopicRow
from console.lag.rows import queues
from console.rebalance.observed.findings import Finding as OwnershipFinding
from console.rebalance.observed.in_cluster import cluster_findings
from console.text import Names, Text
from spark.lag.local_time import DAY_MS

TOP_ROWS = 5  # what fits beside each other without scrolling
FINDINGS_SHOWN = 8
# Columns that a top list shows of a group: sorting 10,000 rows with their lists of topics and trends is expensive.
SHOWN = (
    *("cluster", "group", "status", "partial", "reason", "unknown_since_ms"),
    *("time_lag_ms", "time_lag_lower_bound"),
    *("time_to_loss_ms", "time_to_loss_lower_bound", "time_to_loss_never"),
)
TROUBLES_MAX = 100  # groups that are counted; of a cluster that is down as a whole the first few are enough
# Judging who owns what reads every client of a cluster and every queue of their groups: beyond this a page would wait.
OWNERSHIP_CLIENTS_MAX = 500
OWNERSHIP_QUEUES_MAX = 20_000
GROWTH_MIN = 0.05  # messages per second below which a lag is level
# Kinds of findings about ownership that the overview shows.
KINDS = {
    "TWO_OWNERS": Text("two owners"),
    "NO_OWNER": Text("no owner"),
    "IDLE_CLIENT": Text("idle client"),
    "INCONSISTENT_SUBSCRIPTION": Text("inconsistent subscription"),
}


# status of a group in trouble, or kind of a finding about ownership → what to do next
ADVICE = {
    "LOST": Text("To prevent it, speed up the group or extend retention (fileReservedTime)."),
    "STALLED": Text("Check the message it waits for, and the threads of the client that owns the queue."),
    "STOPPED": Text("Check its clients."),
    "FALLING_BEHIND": Text("Speed up the listener, or add clients, up to the number of queues."),
    "OFFLINE": Text("Start a client before retention deletes the waiting messages."),
    "TWO_OWNERS": Text(
        "Each message there may be consumed twice. Check whether both clients run the same version."
    ),
    "NO_OWNER": Text("Messages there wait. The group's Rebalance names the client that should read them."),
    "IDLE_CLIENT": Text("If the group has more clients than queues, stop it or add queues."),
    "INCONSISTENT_SUBSCRIPTION": Text("Give each subscription a group of its own."),
}


@dataclass(frozen=True, slots=True)
class TopGroup:
    """A group of a top list; `growth` in messages per second."""

    row: GroupRow
    growth: float | None = None

    @property
    def is_in_sight(self) -> bool:
        """Whether it loses messages, or will."""
        return self.row.status == "LOST" or self.row.time_to_loss_ms is not None

    @property
    def partial(self) -> bool:
        """Whether `growth` is a lower bound."""
        return self.row.partial

    @property
    def reason(self) -> Text:
        """Why it is one."""
        return self.row.reason


@dataclass(frozen=True, slots=True)
class Ranking:
    """The groups at the top of a list, worst first.

    `field` and `cell` are what is shown of each row; without a field it is the growth. `calm` is the status of an empty
    list, `empty` its words.
    """

    name: str
    title: Text
    note: Text
    heading: Text
    empty: Text
    rows: Sequence[TopGroup]
    calm: str
    field: str = ""
    cell: str = ""


def by_time_lag(rows: Sequence[TopGroup], calm: str) -> Ranking:
    """Rank by time lag."""
    empty = (
        Text("No message waits.")
        if calm == "OK"
        else Text("No known message waits; some groups are unknown.")
    )
    return Ranking(
        "time_lag",
        Text("Longest time lag"),
        Text("worst queue"),
        Text("Time lag"),
        empty,
        rows,
        calm,
        "time_lag_ms",
        "time_lag",
    )


def by_growth(rows: Sequence[TopGroup], calm: str) -> Ranking:
    """Rank by growth of the lag."""
    title, note = Text("Growing fastest"), Text("in minus out, 1 h")
    return Ranking("growth", title, note, Text("Growth per second"), Text("No known lag grows."), rows, calm)


def by_loss(rows: Sequence[TopGroup], calm: str) -> Ranking:
    """Rank by the time until retention deletes unread messages."""
    return Ranking(
        "loss",
        Text("Nearest data loss"),
        Text("by retention"),
        Text("Time to data loss"),
        Text("No group is known to be near data loss."),
        rows,
        calm,
        "time_to_loss_ms",
        "loss",
    )


def group_counts(cluster_name: str, scope: NameScope = EVERYTHING) -> dict[str, int]:
    """Return how many groups have each status; RocketMQ's own groups are left out."""
    counts = _groups(cluster_name, scope).values_list("status").annotate(count=Count("pk")).order_by()
    return dict(counts)


def trouble_count(cluster_name: str, scope: NameScope = EVERYTHING) -> int:
    """Return how many groups are in trouble: those that `findings` names."""
    return lag_selectors.in_trouble(_groups(cluster_name, scope)).count()


def topic_count(cluster_name: str, scope: NameScope = EVERYTHING) -> int:
    """Return how many ordinary topics exist: no retry, dead-letter or system topics."""
    return _topics(cluster_name, scope).count()


def slowest_groups(cluster_name: str, scope: NameScope = EVERYTHING) -> list[TopGroup]:
    """Return the groups with the longest time lag, longest first; those that are level too."""
    rows = _groups(cluster_name, scope).filter(time_lag_ms__isnull=False).order_by("-time_lag_ms", "group")
    return [TopGroup(row) for row in rows.only(*SHOWN)[:TOP_ROWS]]


def growing_groups(cluster_name: str, scope: NameScope = EVERYTHING) -> list[TopGroup]:
    """Return the groups whose lag grows fastest: messages in less messages confirmed, per second."""
    rows = _groups(cluster_name, scope).filter(lag__gt=0).annotate(growth=F("in_rate") - F("out_rate"))
    fastest = rows.filter(growth__gte=GROWTH_MIN).order_by("-growth", "group")
    growth = dict(fastest.values_list("pk", "growth")[:TOP_ROWS])
    found = GroupRow.objects.filter(pk__in=growth).only(*SHOWN, "trend")
    return sorted(
        (TopGroup(row, growth[row.pk]) for row in found), key=lambda one: (-(one.growth or 0), one.row.group)
    )


def losing_groups(cluster_name: str, scope: NameScope = EVERYTHING) -> list[TopGroup]:
    """Return the groups that lose messages now, those that retention reaches first, then those it does not reach.

    Lower bounds come late: where nothing was deleted yet, such a bound means little.
    """
    rows = _groups(cluster_name, scope).filter(
        Q(status="LOST") | Q(time_to_loss_ms__isnull=False) | Q(time_to_loss_never=True)
    )
    urgency = Case(
        When(status="LOST", then=0),
        When(time_to_loss_ms__isnull=True, then=3),
        When(time_to_loss_lower_bound=False, then=1),
        default=2,
    )
    first = rows.order_by(urgency, F("time_to_loss_ms").asc(nulls_last=True), "group")
    return [TopGroup(row) for row in first.only(*SHOWN)[:TOP_ROWS]]


def _groups(cluster_name: str, scope: NameScope) -> QuerySet[GroupRow]:
    return scope.filter(GroupRow.objects.filter(cluster=cluster_name, is_system=False), "group")


def _topics(cluster_name: str, scope: NameScope) -> QuerySet[TopicRow]:
    return scope.filter(TopicRow.objects.filter(cluster=cluster_name, kind="NORMAL"), "topic")


@dataclass(frozen=True, slots=True)
class Totals:
    """Rates of all brokers together; `partial` when one has none, silent or just started, so that sums read "≥".

    `answered`: how many are counted.
    """

    in_rate: float | None
    out_rate: float | None
    partial: bool
    reason: Text
    unknown_since_ms: int | None
    answered: int
    brokers: int

    @property
    def readers(self) -> float | None:
        """Return how many groups read each message, by the rates; None when nothing comes in."""
        return self.out_rate / self.in_rate if self.in_rate and self.out_rate is not None else None


def totals(views: Sequence[BrokerView]) -> Totals:
    """Sum the rates of the brokers that have them."""
    silent = [view.row for view in views if not view.row.answered]
    missing = [
        view for view in views if not view.row.answered or None in (view.row.in_rate, view.row.out_rate)
    ]

    def total(name: str) -> float | None:
        known = [getattr(view.row, name) for view in views if getattr(view.row, name) is not None]
        return sum(known) if known else None

    return Totals(
        in_rate=total("in_rate"),
        out_rate=total("out_rate"),
        partial=bool(missing),
        reason=_silence(silent) or (Text("some rates are not known yet") if missing else Text()),
        unknown_since_ms=min((row.since_ms for row in silent), default=None),
        answered=len(views) - len(missing),
        brokers=len(views),
    )


class Traffic(NamedTuple):
    """Messages a second into and out of a cluster, minute by minute; null where every broker was silent.

    `sampled`: [brokers that were sampled, brokers] where not all were: the rates are lower bounds there.
    """

    times: list[int]
    sampled: list[list[int] | None]
    in_rate: list[float | None]
    out_rate: list[float | None]


def traffic(cluster_name: str, views: Sequence[BrokerView], now_ms: int) -> Traffic:
    """Return the rates of all brokers together over the last day, up to the last round."""
    line = samples(cluster_name, now_ms - DAY_MS, now_ms)
    chart = Traffic(line["times"], line["sampled"], line["in_rate"], line["out_rate"])
    total, read_at_ms = totals(views), max((view.row.read_at_ms for view in views), default=0)
    if total.answered and chart.times and read_at_ms > chart.times[-1]:
        chart.times.append(read_at_ms)
        chart.sampled.append([total.answered, total.brokers] if total.partial else None)
        chart.in_rate.append(total.in_rate)
        chart.out_rate.append(total.out_rate)
    return chart


def _silence(silent: Sequence[BrokerRow]) -> Text:
    return Text.of_parts(
        [Text("%(name)s: %(reason)s", name=row.broker_name, reason=row.reason) for row in silent]
    )


def own_totals(cluster_name: str, scope: NameScope, views: Sequence[BrokerView]) -> Totals:
    """Sum the rates of a reader's own topics and groups, those in `scope`. Two queries."""
    topics = _topics(cluster_name, scope).aggregate(
        sum=Sum("in_rate"),
        known=Count("in_rate"),
        all=Count("pk"),
        partial=Count("pk", filter=Q(partial=True)),
    )
    groups = _groups(cluster_name, scope).aggregate(
        sum=Sum("out_rate"),
        known=Count("out_rate"),
        all=Count("pk"),
        partial=Count("pk", filter=Q(partial=True)),
    )
    silent = [view.row for view in views if not view.row.answered]
    is_partial = any(one["partial"] or one["known"] < one["all"] for one in (topics, groups))
    return Totals(
        in_rate=topics["sum"] if topics["all"] else 0.0,
        out_rate=groups["sum"] if groups["all"] else 0.0,
        partial=is_partial,
        reason=_silence(silent) or Text("some rates are not known yet"),
        unknown_since_ms=min((row.since_ms for row in silent), default=None),
        answered=len(views) - len(silent),
        brokers=len(views),
    )


def first_full(views: Sequence[BrokerView]) -> BrokerView | None:
    """Return the broker whose disk is full first; None when no disk fills or none is known."""
    full = [view for view in views if view.filling == "FULL"]
    filling = [view for view in views if view.full_in_ms is not None]
    return next(iter(full), None) or min(filling, key=lambda view: view.full_in_ms or 0, default=None)


@dataclass(frozen=True, slots=True)
class DeadTotal:
    """Dead letters of all groups; a lower bound while some are unknown."""

    count: int
    count_lower_bound: bool
    growth_per_h: float | None
    growth_lower_bound: bool
    reason: Text
    unknown_since_ms: int | None = None
    status: str = ""


def dead_total(rows: Sequence[DeadLetterRow]) -> DeadTotal:
    known = [row.count for row in rows if row.count is not None]
    growth = [row.growth_per_h for row in rows if row.growth_per_h is not None]
    unsure = [row for row in rows if row.count is None or row.lower_bound]
    return DeadTotal(
        count=sum(known),
        count_lower_bound=bool(unsure),
        growth_per_h=sum(growth) if growth else None,
        growth_lower_bound=any(row.growth_lower_bound for row in rows),
        reason=Text.of_parts(
            [Text("%(name)s: %(reason)s", name=row.group, reason=row.reason) for row in unsure]
        ),
    )


@dataclass(frozen=True, slots=True)
class Health:
    """The collector over its last `rounds`: `p99_ms` of durations, `covered` share with every broker."""

    latest: Round
    p99_ms: int
    covered: float
    rounds: int
    rpcs_per_broker: float | None


def health(rounds: Sequence[Round]) -> Health | None:
    """Compute the collector's health from `rounds`, newest first; None before the first round."""
    if not rounds:
        return None
    durations = sorted(one.duration_ms for one in rounds)
    whole = sum(one.brokers_answered == one.brokers_total and not one.error for one in rounds)
    latest = rounds[0]
    return Health(
        latest=latest,
        p99_ms=durations[min(len(durations) - 1, len(durations) * 99 // 100)],
        covered=whole / len(rounds),
        rounds=len(rounds),
        rpcs_per_broker=latest.rpcs / latest.brokers_total if latest.brokers_total else None,
    )


def ownership(cluster_name: str, now_ms: int, scope: NameScope = EVERYTHING) -> list[Finding] | None:
    """Return the findings about who owns what; None: too many clients or queues to judge on every page load."""
    rows = scope.filter(ClientRow.objects.filter(cluster=cluster_name), "group")
    if rows.count() > OWNERSHIP_CLIENTS_MAX:
        return None
    try:
        return ownership_findings(
            cluster_findings(cluster_name, now_ms, scope, most_queues=OWNERSHIP_QUEUES_MAX)
        )
    except queues.TooManyQueues:
        return None


def _group_findings(cluster_name: str, scope: NameScope) -> list[Finding]:
    """Return every group in trouble of which at least one message waits, the longest wait first."""
    rows = lag_selectors.in_trouble(_groups(cluster_name, scope))
    fields = ("group", "status", "reason", "since_ms", "offline_since_ms")
    found = []
    for row in rows.order_by(F("time_lag_ms").desc(nulls_last=True), "group").only(*fields)[:TROUBLES_MAX]:
        state = CLIENT_WORDS.get(row.status, Text("no client is online"))
        reason = Text("Reason: %(reason)s.", reason=row.reason) if row.reason else Text()
        since_ms = row.offline_since_ms if row.status == "OFFLINE" else row.since_ms
        found.append(
            Finding(
                row.status,
                Text("%(name)s: %(what)s", name=row.group, what=state),
                Text.of_parts([reason, ADVICE[row.status]]),
                since_ms or None,
                group=row.group,
            )
        )
    return found


def ownership_findings(problems: Iterable[tuple[str, OwnershipFinding]]) -> list[Finding]:
    """Return one finding for each group and kind: of several topics the first, and how many more."""
    by_kind: dict[tuple[str, str], list[OwnershipFinding]] = {}
    for group, one in problems:
        if one.kind in KINDS:
            by_kind.setdefault((group, one.kind), []).append(one)
    found = []
    for (group, kind), same in by_kind.items():
        parts = [Text("%(sentence)s.", sentence=same[0].title), ADVICE[kind]]
        if len(same) > 1:
            parts.append(Text("%(number)s more {is|are} on the page of the group.", number=len(same) - 1))
        title = Text("%(name)s: %(what)s", name=group, what=KINDS[kind])
        since_ms = min((one.since_ms for one in same if one.since_ms is not None), default=None)
        found.append(Finding("FALLING_BEHIND", title, Text.of_parts(parts), since_ms, group=group))
    return found


def findings(
    cluster_name: str,
    views: Sequence[BrokerView],
    servers: Sequence[NameServerRow],
    scope: NameScope = EVERYTHING,
    owned: Sequence[Finding] | None = None,
) -> list[Finding]:
    """Return problems of groups, brokers and name servers, with those of `ownership`; worst first.

    For a reader of some names only, without values of broker configuration and without other names.
    """
    found = _group_findings(cluster_name, scope)
    found += [finding for view in views for finding in broker_findings.findings(view, servers)]
    if scope.is_everything:
        table = broker_selectors.config_table(cluster_name, only_differences=True)
        found += broker_findings.config_findings(table)
    found += [
        Finding(
            "UNKNOWN", Text("Name server %(addr)s does not answer", addr=row.addr), row.reason, row.since_ms
        )
        for row in servers
        if not row.answered
    ]
    differing = broker_selectors.route_differences(cluster_name, scope=scope, per_page=3)
    if differing.total:
        title = Text("The name servers disagree about %(number)s topic(s)", number=differing.total)
        names = Names(row.topic for row in differing.rows)
        text = (
            Text(
                "%(names)s and more: what a client uses depends on the name server that answers it.",
                names=names,
            )
            if differing.total > len(differing.rows)
            else Text(
                "%(names)s: what a client uses depends on the name server that answers it.", names=names
            )
        )
        found.append(Finding("FALLING_BEHIND", title, text, differing.rows[0].since_ms, tab="name-servers"))
    found += owned or ()
    return sorted(found, key=lambda one: broker_findings.SEVERITY.index(one.status))
