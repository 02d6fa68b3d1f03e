"""Celery tasks: surveys of brokers and name servers."""

from celery import shared_task

from console.broker import services
from console.lag.services import system_now_ms


@shared_task(name="console.broker.tasks.survey_due", ignore_result=True)
def survey_due() -> None:
    """Survey every cluster that is due; runs every ten seconds."""
    for cluster_name in services.due_clusters(system_now_ms()):
        survey.apply_async((cluster_name,), expires=30)


@shared_task(name="console.broker.tasks.survey", ignore_result=True)
def survey(cluster_name: str) -> None:
    """Survey one cluster."""
    services.survey_cluster(cluster_name, now_ms=system_now_ms())
