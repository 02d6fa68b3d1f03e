"""Celery tasks of groups: each calls one service."""

from celery import shared_task

from console.cluster import selectors as cluster_selectors
from console.group import refusals
from console.lag.services import system_now_ms

SURVEY_EVERY_S = 30


@shared_task(name="console.group.tasks.survey_refusals", ignore_result=True)
def survey_refusals() -> None:
    """Start a survey per cluster, twice a minute; a cluster that hangs delays no other."""
    refusals.drop_removed_clusters()
    for cluster in cluster_selectors.live_clusters():
        survey_cluster_refusals.apply_async((cluster.name,), expires=SURVEY_EVERY_S)


@shared_task(name="console.group.tasks.survey_cluster_refusals", ignore_result=True)
def survey_cluster_refusals(cluster: str) -> None:
    """Survey the brokers of one cluster."""
    refusals.survey_cluster(cluster, now_ms=system_now_ms())
