"""Celery's side of groups: the task calls one service and adds nothing."""

from celery import shared_task

from console.cluster import selectors as cluster_selectors
from console.group import refusals
from console.lag.services import system_now_ms

SURVEY_EVERY_S = 30


@shared_task(name="console.group.tasks.survey_refusals", ignore_result=True)
def survey_refusals() -> None:
    """Beat, twice a minute: ask the brokers of every cluster; one that hangs does not hold up the others."""
    refusals.forget_removed_clusters()
    for cluster in cluster_selectors.clusters():
        survey_cluster_refusals.apply_async((cluster.name,), expires=SURVEY_EVERY_S)


@shared_task(name="console.group.tasks.survey_cluster_refusals", ignore_result=True)
def survey_cluster_refusals(cluster: str) -> None:
    """One look at the brokers of one cluster."""
    refusals.survey_cluster(cluster, now_ms=system_now_ms())
