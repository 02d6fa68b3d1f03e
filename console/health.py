"""Readiness of this installation (`/readyz`) and its metrics (`/metrics`)."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connections
from django.db.models import Count
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from console.broker.survey.runtime import loop_delay_s
from console.cluster import selectors as cluster_selectors
from console.lag import metrics as lag_metrics
from console.lag import selectors as lag_selectors
from console.live import hub as live
from console.operation.models import Job
from console.text import JsonObject
from console.web.disk_room import no_room
from console.web.outage import is_old_schema

TICK_AGE_MAX_S = 60  # a worker that was busy with a long job for some rounds is late, not dead
PROBE_TIMEOUT_S = 2.0
JUDGED_EVERY_S = 1.0
METRICS_CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4.encode()


# --- Readiness ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the installation; ``reason`` is what is wrong, "" when nothing is."""

    name: str
    reason: str = ""
    needed: bool = True  # a broker that is away is reported, but pages that show it must stay reachable


@dataclass(frozen=True, slots=True)
class Readiness:
    parts: Sequence[Part]

    @property
    def ready(self) -> bool:
        return not any(part.reason for part in self.parts if part.needed)

    def as_json(self) -> JsonObject:
        return {
            "ready": self.ready,
            "parts": {part.name: part.reason or "ok" for part in self.parts},
        }


class _Last:
    """The last result of `was_ready`, its only caller, in the one thread of Django's blocking code."""

    def __init__(self) -> None:
        self.is_ready = False
        self.until_s = 0.0


_last = _Last()


def was_ready() -> bool:
    """Whether every needed part answers; checked once a second at most: strangers may call this often."""
    now_s = time.monotonic()
    if now_s >= _last.until_s:
        _last.is_ready = readiness().ready
        _last.until_s = time.monotonic() + JUDGED_EVERY_S
    return _last.is_ready


def readiness(now_ms: int | None = None) -> Readiness:
    """Check every part once. Never raises for a part that is away: that is the result."""
    at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    parts = [Part(f"database {alias}", _database_reason(alias)) for alias in settings.DATABASES]
    parts += _redis_parts(at_ms)
    parts.append(Part("disk", no_room(), needed=False))  # pages that report it must stay reachable
    if not parts[0].reason and not parts[1].reason:
        parts += _broker_parts()
    return Readiness(parts)


def _database_reason(alias: str) -> str:
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1 FROM django_migrations")
    except DatabaseError as error:
        advice = (
            "run manage.py prepare --migrate"
            if is_old_schema(error)
            else "check that its server runs and is reachable from here"
        )
        return f"{' '.join(str(error).split())}; {advice}"
    return ""


def _redis_parts(at_ms: int) -> list[Part]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PROBE_TIMEOUT_S) as client:
            ticks = client.mget([f"{settings.TICK_KEY}:{pool}" for pool in settings.TICKING_POOLS])
    except (RedisError, OSError) as error:
        return [Part("redis", f"{settings.REDIS_URL.split('@')[-1]}: {error}")]
    late = ""
    for pool, tick in zip(settings.TICKING_POOLS, ticks, strict=True):
        age_s = None if tick is None else (at_ms - int(tick)) / 1000
        if age_s is None:
            late = f"no worker of the pool {pool} has run a beat tick yet"
        elif age_s > TICK_AGE_MAX_S:
            late = f"the last beat tick of the pool {pool} was run {age_s:.0f} s ago; do beat and that worker run?"
        if late:
            break
    return [Part("redis"), Part("worker and beat", late)]


def _broker_parts() -> Iterator[Part]:
    for cluster in cluster_selectors.live_clusters():
        found = lag_selectors.last_round(cluster.name)
        silent = lag_selectors.silent_brokers(cluster.name)
        if found is None:
            reason = "not collected yet"
        elif found.error:
            reason = found.error
        else:
            reason = "; ".join(f"{row.broker_name} does not answer: {row.reason}" for row in silent)
        yield Part(f"cluster {cluster.name}", reason, needed=False)


# --- Metrics ------------------------------------------------------------------------------------------------


def metrics_text(now_ms: int | None = None) -> bytes:
    """Return all metrics in Prometheus' text format. An unknown or old figure has no sample: it is not 0."""
    at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    registry = CollectorRegistry()
    registry.register(_Rows(at_ms))
    return generate_latest(registry) + lag_metrics.metrics_text(at_ms)


class _Rows(Collector):
    """Metrics from the rows of the last collection round; calls no broker."""

    def __init__(self, now_ms: int) -> None:
        self.fresh = lag_metrics.fresh_clusters(now_ms)

    def collect(self) -> Iterator[Metric]:
        yield from self._brokers()
        yield from self._rounds()
        yield GaugeMetricFamily(
            "tidemark_websocket_clients", "Browsers with live pages of this process", live.client_count()
        )
        jobs = GaugeMetricFamily("tidemark_jobs", "Jobs by state", labels=["state"])
        for state, count in Job.objects.values_list("state").annotate(Count("pk")):
            jobs.add_metric([state], count)
        yield jobs

    def _brokers(self) -> Iterator[Metric]:
        labels = ["cluster", "broker", "broker_id"]
        up = GaugeMetricFamily("tidemark_broker_up", "1 when it answered the last round", labels=labels)
        in_rate = GaugeMetricFamily("tidemark_broker_in_rate", "Messages per second", labels=labels)
        out_rate = GaugeMetricFamily("tidemark_broker_out_rate", "Messages per second", labels=labels)
        disk = GaugeMetricFamily(
            "tidemark_broker_disk_ratio", "Used share of the store's disk", labels=labels
        )
        p99 = GaugeMetricFamily(
            "tidemark_broker_loop_delay_p99_seconds",
            "Wait of the slowest 1 % for its event loop, last minute",
            labels=labels,
        )
        longest = GaugeMetricFamily(
            "tidemark_broker_loop_delay_max_seconds",
            "Longest wait for its event loop, last minute",
            labels=labels,
        )
        for cluster in self.fresh:
            for row in lag_selectors.broker_rows(cluster):
                p99_s, longest_s = loop_delay_s(row.runtime)
                key = [row.cluster, row.broker_name, str(row.broker_id)]
                up.add_metric(key, int(row.answered))
                for family, value in (
                    (in_rate, row.in_rate),
                    (out_rate, row.out_rate),
                    (disk, row.disk_ratio),
                    (p99, p99_s),
                    (longest, longest_s),
                ):
                    if row.answered and value is not None:
                        family.add_metric(key, value)
        yield from (up, in_rate, out_rate, disk, p99, longest)

    def _rounds(self) -> Iterator[Metric]:
        labels = ["cluster"]
        started = GaugeMetricFamily(
            "tidemark_collector_last_round_timestamp_seconds", "Its start", labels=labels
        )
        took = GaugeMetricFamily(
            "tidemark_collector_round_seconds", "Duration of the last round", labels=labels
        )
        calls = GaugeMetricFamily(
            "tidemark_collector_round_calls", "Broker calls of the last round", labels=labels
        )
        for cluster in cluster_selectors.live_clusters():
            found = lag_selectors.last_round(cluster.name)
            if found is not None:
                started.add_metric([cluster.name], found.started_at_ms / 1000)
                took.add_metric([cluster.name], found.duration_ms / 1000)
                calls.add_metric([cluster.name], found.rpcs)
        yield from (started, took, calls)
