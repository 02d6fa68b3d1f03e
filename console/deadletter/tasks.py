"""Celery's side of dead letters: every task calls one service and adds nothing."""

from __future__ import annotations

import time

from celery import shared_task

from console.cluster import selectors as cluster_selectors
from console.deadletter import services, survey

SURVEY_EVERY_S = 60


@shared_task(name="console.deadletter.tasks.survey")
def survey_dead_letters() -> None:
    """Beat, once a minute: look into the dead letters that changed; a cluster that hangs holds up no other."""
    for cluster in cluster_selectors.clusters():
        survey_cluster.apply_async((cluster.name,), expires=SURVEY_EVERY_S)


@shared_task(name="console.deadletter.tasks.survey_cluster")
def survey_cluster(cluster: str) -> None:
    """One look at the dead letters of one cluster."""
    survey.survey_cluster(cluster, now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.deadletter.tasks.prune_ledger")
def prune_ledger() -> None:
    """Beat, every night: rows of finished replays that are older than LEDGER_RETENTION_DAYS."""
    services.prune_ledger(now_ms=time.time_ns() // 1_000_000)
