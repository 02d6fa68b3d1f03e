"""Celery tasks that assign the queues of groups in server-side mode."""

from celery import shared_task

from console.lag.services import system_now_ms
from console.rebalance import services


@shared_task(name="console.rebalance.tasks.rebalance", ignore_result=True)
def rebalance() -> None:
    """Enrol groups, then start one task per cluster, every few seconds; one that hangs delays no other."""
    services.enrol_embedded_groups(system_now_ms())
    for cluster_name in services.clusters_with_groups():
        rebalance_cluster.apply_async((cluster_name,), expires=5)


@shared_task(name="console.rebalance.tasks.rebalance_cluster", ignore_result=True)
def rebalance_cluster(cluster_name: str) -> None:
    """Compute, store and check the assignments of one cluster."""
    services.rebalance_due(cluster_name, system_now_ms())
