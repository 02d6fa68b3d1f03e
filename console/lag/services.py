"""Run collection: one lease per cluster, a round, live updates, and requests to the collector."""

import gc
import logging
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from django.conf import settings
from django.db.models import Q
from redis.exceptions import RedisError

from console.brokers.mqadmin import with_admin
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag.collect import filter_sampling, reset
from console.lag.collect.collector import ClockWentBack, Collector, Knowledge, RoundChanges
from console.lag.history import archive, chronicle
from console.lag.history.log import HistoryMoved
from console.lag.models import (
    BrokerRow,
    ClientRow,
    CollectorLease,
    Episode,
    GroupFilterSample,
    GroupMembers,
    GroupRow,
    GroupSlo,
    GroupWatch,
    OffsetMove,
    PromiseCourse,
    QueueSheet,
    Round,
    TopicQueueSheet,
    TopicRow,
)
from console.lag.round.series import QueueKey
from console.lag.round.view import ClientProgress, Members
from console.lag.rows import broadcast
from console.lag.rows.popped import HeldQueue, held_queues, popped_of
from console.live import hub as live
from console.live.update import Row
from console.text.value import text_of

logger = logging.getLogger(__name__)

# A round ends after its deadline of 4 s and its writes; the lease of a worker that died expires after this.
LEASE_MS = 30_000
# A host that began no round of a cluster for so long is down: any other host may run it.
HOST_SILENT_MS = 20_000
# Members that a broker confirmed longer ago than its own expiry of 120 s are unknown.
MEMBERS_VALID_MS = 150_000
# An open page repeats its request every 60 s.
WATCH_MS = 90_000
# In a cluster of more groups only those on an open page get live updates: publishing each of 10,000 groups
# takes 3 s of a round of 5, and nearly all of them have no reader.
GROUPS_PUBLISHED_MAX = 200
# The last value of a group's page is useless once it is no longer updated.
PUBLISHED_LIFE_ROUNDS = 3
ROW_MODELS = (
    GroupRow,
    QueueSheet,
    TopicRow,
    TopicQueueSheet,
    BrokerRow,
    ClientRow,
    GroupMembers,
    GroupWatch,
    GroupFilterSample,
    OffsetMove,
    PromiseCourse,
    Round,
)


class _Collectors:
    """Keep the collectors of this process, one per cluster. Any worker thread may call it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin without collectors, and with an owner of leases that no other process has."""
        self._lock = threading.Lock()
        self._by_cluster: dict[str, Collector] = {}
        self.owner = uuid.uuid4().hex

    def get(self, cluster: str, interval_ms: int, now_ms: int, *, elsewhere: int = 0) -> Collector:
        """Return the cluster's collector, opened.

        A new one is made for another interval, and when another host has run a round since (its number is `elsewhere`).
        """
        with self._lock:
            found = self._by_cluster.get(cluster)
        if found is not None and found.interval_ms == interval_ms:
            found.catch_up()
            if found.window.number >= elsewhere:
                return found
        made = Collector(cluster, interval_ms)
        made.open(now_ms)
        with self._lock:
            self._by_cluster[cluster] = made
        return made

    def drop(self, cluster: str) -> None:
        """Drop a collector; the next round makes one from what is on disk."""
        with self._lock:
            self._by_cluster.pop(cluster, None)

    def clear(self) -> None:
        """Drop all collectors, as a restart does."""
        with self._lock:
            self._by_cluster.clear()


collectors = _Collectors()
os.register_at_fork(after_in_child=collectors.begin)


def due_clusters(now_ms: int) -> list[str]:
    """Return the clusters whose next round is due."""
    leases = {lease.cluster: lease for lease in CollectorLease.objects.all()}
    due = []
    for cluster in cluster_selectors.live_clusters():
        lease = leases.get(cluster.name)
        if lease is None or _is_due(lease, cluster.poll_interval_s * 1000, now_ms):
            due.append(cluster.name)
    return due


def _is_due(lease: CollectorLease, interval_ms: int, now_ms: int) -> bool:
    """Return whether a round is due: one in each slot of the interval, however late beat comes.

    A lease that starts in the future is ignored: the clock was set back.
    """
    if lease.started_at_ms > now_ms + interval_ms:
        return True
    is_new_slot = now_ms // interval_ms > lease.started_at_ms // interval_ms
    waited: bool = is_new_slot and now_ms - lease.started_at_ms >= interval_ms // 2
    return (waited or lease.refresh_requested) and lease.until_ms <= now_ms


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable the garbage collector.

    Rows hold no cycles, and their number makes it scan the whole memory again and again, a quarter of the time that a
    round of 60,000 rows takes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collections()
def collect(cluster_name: str, *, now_ms: int) -> Round | None:
    """Run one round of a cluster if it is due and no other process runs it; return it, None if not run.

    1. Take the lease by a conditional update. 2. Load what other processes did. 3. Read brokers, write history,
    save rows. 4. Give the lease back. 5. Publish what changed. Any error drops the collector; rows keep their age.
    """
    system_ms = system_now_ms()
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        drop_rows_of(cluster_name)
        return None
    interval_ms = cluster.poll_interval_s * 1000
    lease = _take_lease(cluster_name, interval_ms, now_ms)
    if lease is None:
        return None
    try:
        knowledge = _knowledge(cluster_name, now_ms)
        try:
            collector, changes = _run(cluster, lease, knowledge, now_ms, system_ms)
        except ClockWentBack as error:
            logger.warning("history begins anew cluster=%s reason=%s", cluster_name, error)
            collectors.drop(cluster_name)
            collector, changes = _run(cluster, lease, knowledge, now_ms, system_ms)
        except HistoryMoved as error:
            logger.warning("round not written cluster=%s reason=%s", cluster_name, error)
            if not _is_lease_held(cluster_name):
                chronicle.Gaps(cluster_name, interval_ms).replaced(
                    lease.started_at_ms, now_ms, text_of(error)
                )
                raise
            collectors.drop(cluster_name)
            collector, changes = _run(cluster, lease, knowledge, now_ms, system_ms)
    except BaseException:
        collectors.drop(cluster_name)
        _give_back(cluster_name, lease.round_number)
        raise
    _give_back(cluster_name, changes.round.number)
    if collector.is_expired:
        collectors.drop(cluster_name)
    _publish(collector, changes, knowledge.watched, now_ms)
    with collector.lock:
        collector.log.prepare(changes.round.started_at_ms + interval_ms)
    return changes.round


def _run(
    cluster: Cluster, lease: CollectorLease, knowledge: Knowledge, now_ms: int, system_ms: int
) -> tuple[Collector, RoundChanges]:
    """Run a round with this process's collector of the cluster."""
    interval_ms = cluster.poll_interval_s * 1000
    elsewhere = lease.round_number if lease.host != settings.HOST_ID else 0
    collector = collectors.get(cluster.name, interval_ms, now_ms, elsewhere=elsewhere)
    with collector.lock:
        return collector, collector.run_round(
            with_admin(cluster.connection),
            max(lease.round_number, collector.window.number) + 1,
            knowledge,
            tables=lease.refresh_requested or not collector.topic_tables,
            now_ms=now_ms,
            system_ms=system_ms,
        )


def _take_lease(cluster_name: str, interval_ms: int, now_ms: int) -> CollectorLease | None:
    """Return the lease as it was before, or None when another process holds it or the round is not due."""
    before, _ = CollectorLease.objects.get_or_create(cluster=cluster_name)
    if not _is_due(before, interval_ms, now_ms):
        return None
    claimed = CollectorLease.objects.filter(
        cluster=cluster_name, owner=before.owner, until_ms=before.until_ms, started_at_ms=before.started_at_ms
    ).update(
        owner=collectors.owner,
        host=settings.HOST_ID,
        until_ms=now_ms + LEASE_MS,
        started_at_ms=now_ms,
        refresh_requested=False,
    )
    return before if claimed == 1 else None


def _is_lease_held(cluster_name: str) -> bool:
    """Return whether this process still has the lease: after it expired another one may have taken it."""
    return CollectorLease.objects.filter(cluster=cluster_name, owner=collectors.owner).exists()


def host_of(cluster_name: str, now_ms: int) -> str:
    """Return the host that runs the rounds of a cluster; "" when it is down and any host may.

    A round needs what the one before left in memory and in the log of its host.
    """
    lease = CollectorLease.objects.filter(cluster=cluster_name).first()
    if lease is None or not 0 <= now_ms - lease.started_at_ms <= HOST_SILENT_MS:
        return ""
    return lease.host


def _give_back(cluster_name: str, number: int) -> None:
    CollectorLease.objects.filter(cluster=cluster_name, owner=collectors.owner).update(
        until_ms=0, round_number=number
    )


def _knowledge(cluster_name: str, now_ms: int) -> Knowledge:
    published: dict[str, list[tuple[list[HeldQueue] | None, int]]] = defaultdict(list)
    owners: dict[QueueKey, str] = {}
    clients = ClientRow.objects.filter(cluster=cluster_name)
    for group, client_id, kept, read_at_ms in clients.values_list(
        "group", "client_id", "queues", "read_at_ms"
    ):
        queues = held_queues(kept)
        published[group].append((queues, read_at_ms))
        for queue in queues or ():
            owners[QueueKey(group, queue.topic, queue.broker_name, queue.queue_id)] = client_id
    groups = list(GroupMembers.objects.filter(cluster=cluster_name))
    progress = _progress(cluster_name, [row.group for row in groups if row.model == broadcast.BROADCASTING])
    members = {
        row.group: Members(
            row.clients if now_ms - row.read_at_ms <= MEMBERS_VALID_MS else None,
            row.model,
            row.consume_mode,
            tuple(row.topics),
            row.offline_since_ms,
            replace(popped_of(published[row.group]), since_ms=row.popped_since_ms),
            progress.get(row.group, ()),
        )
        for row in groups
    }
    watched = GroupWatch.objects.filter(cluster=cluster_name, until_ms__gt=now_ms)
    names = tuple(watched.order_by("group").values_list("group", flat=True))
    filters = filter_sampling.samples(cluster_name, now_ms)
    return Knowledge(members, owners, names, filters, reset.recent_moves(cluster_name, now_ms=now_ms))


def _progress(cluster_name: str, groups: Sequence[str]) -> dict[str, list[ClientProgress]]:
    """Return the progress of the members of broadcasting groups, by group; no query without such a group."""
    found: dict[str, list[ClientProgress]] = defaultdict(list)
    if groups:
        rows = ClientRow.objects.filter(cluster=cluster_name, group__in=groups).order_by("group", "client_id")
        for group, client_id, kept in rows.values_list("group", "client_id", "progress"):
            found[group].append(ClientProgress(client_id, broadcast.kept_progress(kept)))
    return found


def _publish(collector: Collector, changes: RoundChanges, watched: Sequence[str], now_ms: int) -> None:
    """Publish what changed to live pages; without Redis pages are not live, the round is kept."""
    cluster_name = collector.cluster
    life_s = PUBLISHED_LIFE_ROUNDS * collector.interval_ms // 1000
    try:
        for subject, rows in _list_subjects(collector, changes).items():
            live.publish(subject, rows, now_ms=now_ms)
        for group, (rows, is_first) in _group_subjects(collector, changes, watched).items():
            subject = f"c/{cluster_name}/group/{group}"
            live.publish(subject, rows, full=is_first, now_ms=now_ms, life_s=life_s)
    except RedisError as error:
        # What they missed is in the first full rows they get.
        collector.published_groups = frozenset()
        logger.warning(
            "not published cluster=%s round=%d reason=%s", cluster_name, changes.round.number, error
        )


def _list_subjects(collector: Collector, changes: RoundChanges) -> dict[str, dict[str, Row | None]]:
    """Return what changed on the cluster's pages: subject → key → row, None for a removed row."""
    place = f"c/{collector.cluster}"
    return {
        f"{place}/collector": {"round": changes.round.as_row()},
        f"{place}/counts": {"groups": collector.group_counts()},
        f"{place}/groups": {**changes.groups.changed, **dict.fromkeys(changes.groups.removed)},
        f"{place}/topics": {**changes.topics.changed, **dict.fromkeys(changes.topics.removed)},
        f"{place}/brokers": {
            **{f"{key.broker_name}/{key.broker_id}": row for key, row in changes.brokers.changed.items()},
            **{f"{key.broker_name}/{key.broker_id}": None for key in changes.brokers.removed},
        },
    }


def _group_subjects(
    collector: Collector, changes: RoundChanges, watched: Sequence[str]
) -> dict[str, tuple[dict[str, Row | None], bool]]:
    """Return group → (rows of its page, whether they are all of them) for groups that have a live page.

    A group that had none in the round before gets every row: changes alone would leave out what happened meanwhile.
    """
    gone = changes.groups.removed
    names = set(collector.groups.rows)
    published = names if len(names) <= GROUPS_PUBLISHED_MAX else names & set(watched)
    first = published - collector.published_groups
    found: dict[str, dict[str, Row | None]] = {name: {} for name in published | gone}
    for name in gone:
        found[name]["summary"] = None
    for name in published:
        if name in first or name in changes.groups.changed:
            found[name]["summary"] = collector.groups.rows[name]
    for key, row in changes.queues.news_of(published | gone, first).items():
        found[key.group][_queue_name(key)] = row
    collector.published_groups = frozenset(published)
    return {name: (rows, name in first) for name, rows in found.items() if rows}


def _queue_name(key: QueueKey) -> str:
    return f"q/{key.topic}/{key.broker_name}/{key.queue_id}"


def request_refresh(cluster_name: str) -> None:
    """Start the next round at once and have it read the topic and group tables: something just changed."""
    CollectorLease.objects.filter(cluster=cluster_name).update(refresh_requested=True)


def watch_group(cluster_name: str, group: str, *, now_ms: int) -> None:
    """Read a group's pulled offsets every round for the next 90 s: its page is open."""
    GroupWatch.objects.update_or_create(
        cluster=cluster_name, group=group, defaults={"until_ms": now_ms + WATCH_MS}
    )
    GroupWatch.objects.filter(until_ms__lt=now_ms).delete()


def drop_rows_of(cluster_name: str) -> None:
    """Drop the rows of a cluster that was removed; its history stays until it expires."""
    for model in ROW_MODELS:
        model.objects.filter(cluster=cluster_name).delete()
    CollectorLease.objects.filter(cluster=cluster_name).delete()
    collectors.drop(cluster_name)


def drop_cluster(cluster_name: str, *, now_ms: int) -> None:
    """Delete everything that was collected or generated for a cluster, its history included."""
    archive.drop_cluster(cluster_name, now_ms=now_ms)
    for model in (Episode, GroupSlo):
        model._default_manager.filter(cluster=cluster_name).delete()
    drop_rows_of(cluster_name)


def drop_removed_clusters() -> list[str]:
    """Drop rows of every cluster that is no longer registered; return their names."""
    known = [cluster.name for cluster in cluster_selectors.clusters()]
    gone = list(CollectorLease.objects.filter(~Q(cluster__in=known)).values_list("cluster", flat=True))
    for name in gone:
        drop_rows_of(name)
    return gone


def compact_history(*, now_ms: int) -> int:
    """Make every hour and day file that is due and delete expired files; return how many hours were made."""
    intervals = {one.name: one.poll_interval_s * 1000 for one in cluster_selectors.clusters()}
    made = sum(
        archive.maintain(name, interval_ms=intervals.get(name, 5_000), now_ms=now_ms)
        for name in archive.clusters_with_history()
    )
    deleted = archive.delete_expired(now_ms)
    if deleted:
        logger.info("deleted expired history files count=%d", deleted)
    return made


def system_now_ms() -> int:
    """Return the collector's clock; only tasks and commands read it."""
    return time.time_ns() // 1_000_000
