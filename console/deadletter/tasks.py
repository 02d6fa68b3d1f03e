"""Celery tasks of dead letters: each calls one service."""

from __future__ import annotations

import time

from celery import shared_task

from console.cluster import selectors as cluster_selectors
from console.deadletter import services, survey

SURVEY_EVERY_S = 60


@shared_task(name="console.deadletter.tasks.survey")
def survey_dead_letters() -> None:
    """Start a survey per cluster, once a minute; a cluster that hangs delays no other."""
    for cluster in cluster_selectors.live_clusters():
        survey_cluster.apply_async((cluster.name,), expires=SURVEY_EVERY_S)


@shared_task(name="console.deadletter.tasks.survey_cluster")
def survey_cluster(cluster: str) -> None:
    """Survey the dead letters of one cluster."""
    survey.survey_cluster(cluster, now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.deadletter.tasks.prune_ledger")
def prune_ledger() -> None:
    """Delete ledger rows of finished replays older than LEDGER_RETENTION_DAYS."""
    services.prune_ledger(now_ms=time.time_ns() // 1_000_000)
