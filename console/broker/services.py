"""Survey a cluster: claim, read, save. About once a minute, beside the collector's rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from django.db import transaction

from console.broker import selectors
from console.broker.config.keys import without_secrets
from console.broker.models import BrokerSample, BrokerSurvey, NameServerRow, RouteDifference, Survey
from console.broker.survey import disk, held_back, runtime
from console.broker.survey import reads as survey
from console.broker.survey.connections import as_kept
from console.broker.survey.held_back import HeldBack
from console.broker.survey.reads import BrokerAnswer, BrokerPlace, NameServerAnswer, RouteComparison
from console.brokers.mqadmin import split_addrs, with_admin
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag.database_router import METRICS
from console.lag.models import BrokerRow
from console.text import Text

logger = logging.getLogger(__name__)

SURVEY_EVERY_MS = 60_000
SAMPLES_KEPT_MS = 48 * 3_600_000  # charts of a day with the day before; 2,880 rows a broker
# A broker or slave is removed when no name server lists it and it has been silent for so long.
DROP_AFTER_MS = 24 * 3_600_000
MODELS = (BrokerSurvey, BrokerSample, NameServerRow, RouteDifference, Survey)


def due_clusters(now_ms: int) -> list[str]:
    """Return the clusters whose next survey is due; delete rows of clusters that are not registered."""
    names = [cluster.name for cluster in cluster_selectors.live_clusters()]
    for gone in set(Survey.objects.values_list("cluster", flat=True)) - set(names):
        for model in MODELS:
            model.objects.filter(cluster=gone).delete()
    waiting = set(Survey.objects.filter(until_ms__gt=now_ms).values_list("cluster", flat=True))
    return [name for name in names if name not in waiting]


def request_survey(cluster_name: str) -> None:
    """Let the next survey begin at once, after a change."""
    Survey.objects.filter(cluster=cluster_name).update(until_ms=0)


def survey_cluster(cluster_name: str, *, now_ms: int) -> Survey | None:
    """Run a survey if one is due and unclaimed. Return its row, or None when there was nothing to do.

    1. Claim by a conditional update. 2. Read the name servers. 3. Read brokers and slaves. 4. Compare routes. 5. Save.
    """
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        return None
    before, _ = Survey.objects.get_or_create(cluster=cluster_name)
    claimed = Survey.objects.filter(cluster=cluster_name, until_ms=before.until_ms, until_ms__lte=now_ms)
    if claimed.update(until_ms=now_ms + SURVEY_EVERY_MS, started_at_ms=now_ms) != 1:
        return None
    started = time.monotonic()
    admin = with_admin(cluster.connection)
    servers = survey.ask_name_servers(admin, split_addrs(cluster.namesrv_addrs))
    rows = {(row.broker_name, row.broker_id): row for row in BrokerRow.objects.filter(cluster=cluster_name)}
    places = _places(servers, rows)
    masters = [place for place in places if (place.broker_name, place.broker_id) in rows]
    answers = survey.ask_brokers(admin, places, masters)
    suspects = list(RouteDifference.objects.filter(cluster=cluster_name).values_list("topic", flat=True))
    compared = survey.compare_routes(admin, servers, suspects, before.route_cursor)
    with transaction.atomic(using=METRICS):
        held = _save_brokers(cluster_name, answers, rows, now_ms)
        _save_samples(cluster_name, list(rows.values()), held, now_ms)
        _save_name_servers(cluster_name, servers, now_ms)
        _save_differences(cluster_name, servers, compared, now_ms)
        Survey.objects.filter(cluster=cluster_name).update(
            duration_ms=round((time.monotonic() - started) * 1000),
            rpcs=compared.rpcs + sum(one.rpcs for one in servers) + sum(one.rpcs for one in answers),
            route_cursor=compared.cursor,
            routes_compared_at_ms=now_ms
            if compared.compared and not compared.cursor
            else before.routes_compared_at_ms,
        )
    return selectors.last_survey(cluster_name)


def _places(
    servers: Sequence[NameServerAnswer], rows: Mapping[tuple[str, int], BrokerRow]
) -> list[BrokerPlace]:
    """Return every address that a name server lists, and brokers of rounds that no name server lists."""
    places = {
        (name, broker_id): BrokerPlace(name, broker_id, addr)
        for server in servers
        for name, addrs in server.brokers.items()
        for broker_id, addr in addrs.items()
    }
    for key, row in rows.items():
        places.setdefault(key, BrokerPlace(row.broker_name, row.broker_id, row.addr))
    return sorted(places.values())


def _save_brokers(
    cluster_name: str,
    answers: Sequence[BrokerAnswer],
    rows: Mapping[tuple[str, int], BrokerRow],
    now_ms: int,
) -> dict[str, HeldBack]:
    """Save every answer; return what each master holds back."""
    known = {
        (one.broker_name, one.broker_id): one for one in BrokerSurvey.objects.filter(cluster=cluster_name)
    }
    logs, queues = _logs(cluster_name, now_ms), selectors.queue_counts(cluster_name)
    held: dict[str, HeldBack] = {}
    for answer in answers:
        key = answer.place.broker_name, answer.place.broker_id
        found = known.pop(key, None) or BrokerSurvey(
            cluster=cluster_name, broker_name=key[0], broker_id=key[1], read_at_ms=now_ms
        )
        row = rows.get(key)
        _take_over(found, answer, row, now_ms)
        if row is not None:
            found.queues = queues.get(row.broker_name, 0)
            _judge_disk(found, row, logs.get(row.broker_name, []), now_ms)
            held[row.broker_name] = held_back.held_back(found, row.runtime, row.clock_offset_ms)
        found.save()
    gone = [one.pk for one in known.values() if now_ms - one.read_at_ms > DROP_AFTER_MS]
    BrokerSurvey.objects.filter(pk__in=gone).delete()
    return held


def _take_over(found: BrokerSurvey, answer: BrokerAnswer, row: BrokerRow | None, now_ms: int) -> None:
    """Replace known values by the answer; what was not answered keeps its value, its age and the reason."""
    found.addr = answer.place.addr
    found.config_reason, found.producers_reason = answer.config_reason, answer.producers_reason
    found.replicas_reason = answer.replicas_reason
    if answer.config is not None:
        found.config, found.config_at_ms = without_secrets(answer.config), now_ms
    found.producers, found.replicas = as_kept(answer.producers), as_kept(answer.replicas)
    found.epoch, found.epoch_reason = answer.epoch, answer.epoch_reason
    found.master_epoch = answer.master_epoch
    found.sync_set, found.sync_set_reason = as_kept(answer.sync_set), answer.sync_set_reason
    if row is not None:
        found.delayed, found.half, found.timed = as_kept(answer.delayed), answer.half, answer.timed
        found.delayed_reason, found.half_reason = answer.delayed_reason, answer.half_reason
        found.timed_reason, found.held_back_at_ms = answer.timed_reason, now_ms
    figures, at_ms = (
        (row.runtime, row.read_at_ms) if row is not None and row.answered else (answer.runtime, now_ms)
    )
    found.runtime_reason = row.reason if row is not None else answer.runtime_reason
    if figures:
        found.runtime, found.runtime_at_ms = dict(figures), at_ms
    if answer.config is not None or figures:
        found.read_at_ms = now_ms


def _logs(cluster_name: str, now_ms: int) -> dict[str, list[disk.LogSample]]:
    """Return the commit log positions of the last hour per broker, oldest first."""
    rows = BrokerSample.objects.filter(
        cluster=cluster_name, at_ms__gte=now_ms - disk.WINDOW_MS, log_max_offset__isnull=False
    ).order_by("at_ms")
    found: dict[str, list[disk.LogSample]] = {}
    for name, at_ms, offset in rows.values_list("broker_name", "at_ms", "log_max_offset"):
        assert offset is not None  # the query left those out
        found.setdefault(name, []).append(disk.LogSample(at_ms, offset))
    return found


def _judge_disk(found: BrokerSurvey, row: BrokerRow, log: list[disk.LogSample], now_ms: int) -> None:
    if not row.answered:
        # Results of an earlier answer do not apply now.
        found.filling, found.full_in_ms, found.write_bytes_per_s = disk.Filling.UNKNOWN, None, None
        found.full_words = (
            Text("it does not answer: %(reason)s", reason=row.reason)
            if row.reason
            else Text("it does not answer")
        )
        return
    offset = runtime.size_bytes(row.runtime.get("commitLogMaxOffset"))
    samples = log if offset is None else [*log, disk.LogSample(now_ms, offset)]
    judged = disk.full_in(
        samples,
        row.disk_ratio,
        disk.usable_bytes(row.runtime.get("commitLogDirCapacity", ""), row.disk_ratio),
        disk.refuses_at(found.config),
    )
    found.filling, found.full_in_ms = judged.filling, judged.full_in_ms
    found.full_words, found.write_bytes_per_s = judged.words, judged.write_bytes_per_s


def _save_samples(
    cluster_name: str, rows: Sequence[BrokerRow], held: Mapping[str, HeldBack], now_ms: int
) -> None:
    """Save one sample of each broker that answers; silent brokers leave a gap in the charts."""
    answered = [row for row in rows if row.answered]
    BrokerSample.objects.bulk_create(
        [_sample(cluster_name, row, held[row.broker_name], now_ms) for row in answered], ignore_conflicts=True
    )
    BrokerSample.objects.filter(cluster=cluster_name, at_ms__lt=now_ms - SAMPLES_KEPT_MS).delete()


def _sample(cluster_name: str, row: BrokerRow, held: HeldBack, now_ms: int) -> BrokerSample:
    """A broker that has just started has no rate yet: its first seconds include all that its clients had kept."""
    table = row.runtime
    sample = BrokerSample(
        cluster=cluster_name,
        broker_name=row.broker_name,
        at_ms=now_ms,
        disk_ratio=row.disk_ratio,
        log_min_offset=runtime.size_bytes(table.get("commitLogMinOffset")),
        log_max_offset=runtime.size_bytes(table.get("commitLogMaxOffset")),
        put_p99_ms=runtime.put_p99_ms(table)[0],
        delayed=held.delayed,
        timed=held.timed,
        half=held.half,
        log_lock_ms=runtime.log_lock_ms(table),
        waiting_sends=runtime.number(table.get("sendThreadPoolQueueSize")),
        loop_p99_ms=runtime.number(table.get("loopDelay99")),
        unflushed_bytes=runtime.size_bytes(table.get("remainHowManyDataToFlush")),
        undispatched_bytes=runtime.size_bytes(table.get("dispatchBehindBytes")),
    )
    if not _is_young(row, now_ms):
        sample.in_rate, sample.out_rate = row.in_rate, row.out_rate
        sample.found_rate = runtime.number(table.get("getFoundTps"))
        sample.miss_rate = runtime.number(table.get("getMissTps"))
    return sample


def _is_young(row: BrokerRow, now_ms: int) -> bool:
    """Whether the broker, by its own report, has run for less than one sample's interval."""
    started_ms = runtime.number(row.runtime.get("bootTimestamp"))
    return started_ms is not None and now_ms - started_ms < SURVEY_EVERY_MS


def _save_name_servers(cluster_name: str, servers: Sequence[NameServerAnswer], now_ms: int) -> None:
    known = {row.addr: row for row in NameServerRow.objects.filter(cluster=cluster_name)}
    for server in servers:
        row = known.pop(server.addr, None) or NameServerRow(cluster=cluster_name, addr=server.addr)
        if row.pk is None or row.answered != server.answered:
            row.since_ms = now_ms
        row.answered, row.reason, row.rpc_ms = server.answered, server.reason, server.rpc_ms
        if server.answered:
            row.brokers, row.unwritable, row.read_at_ms = server.brokers, server.unwritable, now_ms
            row.topic_count = None if server.topics is None else len(server.topics)
            row.config = None if server.config is None else without_secrets(server.config)
            row.config_reason = server.config_reason
        row.save()
    NameServerRow.objects.filter(cluster=cluster_name, addr__in=list(known)).delete()


def _save_differences(
    cluster_name: str, servers: Sequence[NameServerAnswer], compared: RouteComparison, now_ms: int
) -> None:
    """Save new differences from now on; end those compared and equal, or of topics no longer listed."""
    rows = {row.topic: row for row in RouteDifference.objects.filter(cluster=cluster_name)}
    for topic, views in compared.differences.items():
        row = rows.pop(topic, None) or RouteDifference(cluster=cluster_name, topic=topic, since_ms=now_ms)
        row.views, row.read_at_ms = dict(views), now_ms
        row.save()
    listed = {topic for server in servers for topic in server.topics or ()}
    have_all_answered = all(server.answered for server in servers)
    over = [
        row.pk
        for row in rows.values()
        if row.topic in compared.compared or (have_all_answered and row.topic not in listed)
    ]
    RouteDifference.objects.filter(pk__in=over).delete()
