"""Read collection, brokers and the past for pages and REST. No function here calls a broker."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from django.db.models import Q, QuerySet
from msgspec import structs

from console.cluster.models import Cluster
from console.lag.history import chronicle, uploads
from console.lag.models import BrokerRow, GroupRow, HistoryGap, LagEvent, Round
from console.lag.past import by_client, history_reads, measures
from console.lag.past.history_reads import LagLine
from console.lag.rows import queues
from console.lag.rows.queue_row import QueueRow
from console.text import Moment, Text

StaleRow = TypeVar("StaleRow", GroupRow, QueueRow)
DEFAULT_INTERVAL_MS = 5_000
# Intervals without a round until rows are stale; `static/js/live.js` uses the same for an open page.
STALE_ROUNDS = 3
TROUBLED = ("LOST", "STALLED", "STOPPED", "FALLING_BEHIND", "OFFLINE")
# On one chart: more cannot be distinguished.
MARKERS_MAX = 500


def broker_rows(cluster_name: str) -> Sequence[BrokerRow]:
    """Return every broker known to the cluster, silent ones included, by name and id."""
    return list(BrokerRow.objects.filter(cluster=cluster_name).order_by("broker_name", "broker_id"))


def short_broker_names(cluster_name: str) -> Mapping[str, str]:
    """Return every broker's name without what all of them begin with: `broker-a`, `broker-b` are `a`, `b`."""
    names = list(BrokerRow.objects.filter(cluster=cluster_name).values_list("broker_name", flat=True))
    shared = re.match(r".*[-_.]|", os.path.commonprefix(names))
    return {name: name[shared.end() if shared else 0 :] for name in names}


def system_groups(cluster_name: str) -> list[str]:
    """Return the names of RocketMQ's own groups."""
    found = GroupRow.objects.filter(cluster=cluster_name, is_system=True)
    return list(found.values_list("group", flat=True))


def in_trouble(groups: QuerySet[GroupRow]) -> QuerySet[GroupRow]:
    """Return those that need an operator, as `is_in_trouble`."""
    return groups.filter(status__in=TROUBLED).exclude(status="OFFLINE", lag=0)


def is_in_trouble(status: str, lag: int | None) -> bool:
    """Return whether a group needs an operator; one without a client does while messages wait for it."""
    return status in TROUBLED and (status != "OFFLINE" or lag != 0)


def silent_brokers(cluster_name: str) -> Sequence[BrokerRow]:
    """Return the brokers that did not answer the last round, with `since_ms` and `reason`."""
    rows = BrokerRow.objects.filter(cluster=cluster_name, answered=False)
    return list(rows.order_by("broker_name", "broker_id"))


def silent_or_without_master(cluster_name: str) -> Sequence[BrokerRow]:
    """Return the brokers that pages have a banner for: those silent in the last round, and slaves read for a master."""
    rows = BrokerRow.objects.filter(Q(answered=False) | Q(broker_id__gt=0), cluster=cluster_name)
    return list(rows.order_by("broker_name", "broker_id"))


def without_master_count(cluster_name: str) -> int:
    """Return for how many brokers a slave was read in the last round, in the place of a master that is gone."""
    return BrokerRow.objects.filter(cluster=cluster_name, answered=True, broker_id__gt=0).count()


def last_round(cluster_name: str) -> Round | None:
    """Return the newest collection round, or None before the first."""
    return Round.objects.filter(cluster=cluster_name).order_by("-number").first()


def is_stale(latest: Round | None, interval_ms: int, now_ms: int) -> bool:
    """Return whether the newest round is so old that its rows no longer describe the present."""
    return latest is not None and now_ms - ended_ms(latest) > STALE_ROUNDS * interval_ms


def ended_ms(latest: Round) -> int:
    """Return when a round ended: its rows are as of then."""
    return latest.started_at_ms + latest.duration_ms


def data_ms(latest: Round) -> int | None:
    """Return as of when figures are: the end of the last round that reached a broker, None without one."""
    if unreachable_since(latest) is None:
        return ended_ms(latest)
    good = Round.objects.filter(cluster=latest.cluster, brokers_answered__gt=0).order_by("-number").first()
    return None if good is None else ended_ms(good)


def stale_since_ms(cluster_name: str, now_ms: int) -> int | None:
    """Return the time the rows of a cluster are from, None while rounds take place. Two queries."""
    latest = last_round(cluster_name)
    stale = is_stale(latest, collect_interval_ms(cluster_name), now_ms)
    return ended_ms(latest) if stale and latest is not None else None


def is_current(cluster_name: str, now_ms: int) -> bool:
    """Return whether rounds take place: without them nothing is known about now."""
    latest = last_round(cluster_name)
    return latest is not None and not is_stale(latest, collect_interval_ms(cluster_name), now_ms)


def made_stale(row: StaleRow, since_ms: int | None) -> StaleRow:
    """Return a row as UNKNOWN if `since_ms` is given, with its figures as of then. Do not save it."""
    if since_ms is not None:
        row.status = "UNKNOWN"
        row.reason = Text("no round took place since %(time)s; figures are as of then", time=Moment(since_ms))
    return row


def rounds(cluster_name: str, *, limit: int = 120) -> Sequence[Round]:
    """Return the newest rounds, newest first, for the collector's health."""
    return list(Round.objects.filter(cluster=cluster_name).order_by("-number")[:limit])


def unreachable_since(latest: Round | None) -> int | None:
    """Return since when no round reached a name server or a broker, None when the last one, `latest`, did.

    Two queries at most, none while the cluster answers; as far back as rounds are kept.
    """
    if latest is None or latest.brokers_answered or not (latest.error or latest.brokers_total):
        return None
    rounds = Round.objects.filter(cluster=latest.cluster)
    good = rounds.filter(brokers_answered__gt=0).order_by("-number").values_list("number", flat=True).first()
    after = rounds.filter(number__gt=-1 if good is None else good).order_by("number")
    return after.values_list("started_at_ms", flat=True).first()


def collect_interval_ms(cluster_name: str) -> int:
    """Return the collector's interval, shown on charts and in reports."""
    found = Cluster.objects.filter(name=cluster_name).values_list("poll_interval_s", flat=True).first()
    return DEFAULT_INTERVAL_MS if found is None else found * 1000


class LagHistory(LagLine, frozen=True, kw_only=True):
    """Hold a group's line with what happened, and when no rounds took place or a broker was silent.

    `clients_min` and `clients_max`: the fewest and the most clients, as far as changes were recorded; null: unknown.
    """

    markers: Sequence[LagEvent]
    markers_lower_bound: bool
    gaps: Sequence[HistoryGap]
    clients_min: int | None
    clients_max: int | None


def lag_line(
    cluster_name: str, group: str, from_ms: int, to_ms: int, points: int = 600, topic: str | None = None
) -> LagLine:
    """Return a group's lag and time lag over time for a chart; see `past.history_reads.lag_series`."""
    interval_ms = collect_interval_ms(cluster_name)
    return history_reads.lag_series(
        cluster_name, group, from_ms, to_ms, points, interval_ms=interval_ms, topic=topic
    )


def lag_history(
    cluster_name: str, group: str, from_ms: int, to_ms: int, points: int = 600, topic: str | None = None
) -> LagHistory:
    """Return a group's line with its markers, gaps and clients."""
    marked = markers(cluster_name, group, from_ms, to_ms, topic)
    counts = chronicle.client_counts(cluster_name, from_ms, to_ms, [group]).get(group, [])
    numbers = [clients for _, clients in counts]
    return LagHistory(
        **structs.asdict(lag_line(cluster_name, group, from_ms, to_ms, points, topic)),
        markers=marked[-MARKERS_MAX:],
        markers_lower_bound=len(marked) > MARKERS_MAX,
        gaps=gaps(cluster_name, from_ms, to_ms),
        clients_min=min(numbers, default=None),
        clients_max=max(numbers, default=None),
    )


def markers(
    cluster_name: str, group: str, from_ms: int, to_ms: int, topic: str | None = None
) -> list[LagEvent]:
    """Return what happened to a group, and restarts of its brokers, in [from_ms, to_ms), oldest first.

    The newest `MARKERS_MAX`, and one more where there are more.
    """
    brokers = queues.brokers_of(cluster_name, [group]).get(group, ())
    own = Q(group=group) if topic is None else Q(group=group, topic__in=[topic, ""])
    restarts = Q(group="", kind=LagEvent.Kind.BROKER_RESTART, broker_name__in=brokers)
    found = LagEvent.objects.filter(own | restarts, cluster=cluster_name, at_ms__gte=from_ms, at_ms__lt=to_ms)
    return list(found.order_by("-at_ms", "-pk")[: MARKERS_MAX + 1])[::-1]


def gaps(cluster_name: str, from_ms: int, to_ms: int) -> list[HistoryGap]:
    """Return the gaps of history that touch [from_ms, to_ms), oldest first.

    Times that no round covered, when a broker was silent, whose file was set aside, or whose log another host has not
    uploaded.
    """
    still = Q(to_ms__isnull=True) | Q(to_ms__gt=from_ms)
    found = HistoryGap.objects.filter(still, cluster=cluster_name, from_ms__lt=to_ms)
    newest = list(found.order_by("-from_ms", "-pk")[:MARKERS_MAX])
    aside = [
        HistoryGap(
            cluster=cluster_name,
            from_ms=row.ts_lo_ms,
            to_ms=row.ts_hi_ms,
            reason=Text("history file set aside: %(reason)s", reason=row.reason),
        )
        for row in history_reads.lost_files(cluster_name, from_ms, to_ms)[:MARKERS_MAX]
    ]
    elsewhere = uploads.absent(cluster_name).filter(ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms)
    absent = [
        HistoryGap(
            cluster=cluster_name,
            from_ms=row.ts_lo_ms,
            to_ms=row.ts_hi_ms,
            reason=uploads.why_absent(row),
        )
        for row in elsewhere.order_by("ts_lo_ms")[:MARKERS_MAX]
    ]
    return sorted([*newest, *aside, *absent], key=lambda gap: gap.from_ms)


def latency(
    cluster_name: str,
    group: str,
    from_ms: int,
    to_ms: int,
    *,
    slo_ms: int,
    target: float,
    topic: str | None = None,
) -> measures.Latency:
    """Return how long messages waited and how a promise was kept; see `past.measures.latency_of`."""
    interval_ms = collect_interval_ms(cluster_name)
    return measures.latency_of(
        cluster_name,
        group,
        from_ms,
        to_ms,
        interval_ms=interval_ms,
        slo_ms=slo_ms,
        target=target,
        topic=topic,
    )


def throughput(
    cluster_name: str, group: str, from_ms: int, to_ms: int, points: int = 600, topic: str | None = None
) -> measures.Throughput:
    """Return messages written and read by the minute; see `past.measures.throughput_of`."""
    interval_ms = collect_interval_ms(cluster_name)
    return measures.throughput_of(
        cluster_name, group, from_ms, to_ms, points, interval_ms=interval_ms, topic=topic
    )


def by_client_between(
    cluster_name: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int = 12,
    *,
    slo_ms: int,
    topic: str | None = None,
) -> by_client.ByClient:
    """Return how slow each client and host was; see `past.by_client.by_client_of`."""
    interval_ms = collect_interval_ms(cluster_name)
    return by_client.by_client_of(
        cluster_name, group, from_ms, to_ms, points, interval_ms=interval_ms, slo_ms=slo_ms, topic=topic
    )
