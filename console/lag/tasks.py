"""Define the periodic tasks: rounds, sweeps of clients, and compaction of history."""

from celery import shared_task
from django.conf import settings

from console.lag import services
from console.lag.collect import filter_sampling, sweep
from console.lag.history import uploads
from console.lag.services import system_now_ms


def queue_of(host: str) -> str:
    """Return the queue of one host's workers, the common queue when `host` is empty."""
    return settings.HOST_QUEUE.format(host=host) if host else settings.CELERY_TASK_DEFAULT_QUEUE


@shared_task(name="console.lag.tasks.collect_due", ignore_result=True)
def collect_due() -> None:
    """Start a round of every due cluster, every second, on the host that ran the one before."""
    now_ms = system_now_ms()
    for cluster_name in services.due_clusters(now_ms):
        host = services.host_of(cluster_name, now_ms)
        collect.apply_async((cluster_name,), expires=5, queue=queue_of(host))
    services.drop_removed_clusters()


@shared_task(name="console.lag.tasks.collect", ignore_result=True)
def collect(cluster_name: str) -> None:
    """Run one round of a cluster; then start a sweep of its clients when that is due."""
    done = services.collect(cluster_name, now_ms=system_now_ms())
    if done is not None and sweep.is_due(cluster_name, system_now_ms()):
        sweep_clients.apply_async((cluster_name,), expires=30)


@shared_task(name="console.lag.tasks.sweep_clients", ignore_result=True)
def sweep_clients(cluster_name: str) -> None:
    """Read the clients of each group, what each reports, and what their filters let through."""
    sweep.sweep_clients(cluster_name, now_ms=system_now_ms())
    filter_sampling.sample_filters(cluster_name, now_ms=system_now_ms())


@shared_task(name="console.lag.tasks.compact_history", ignore_result=True)
def compact_history() -> None:
    """Turn past hours into chunks and delete old files, every few minutes; have each host upload its log."""
    if uploads.is_shared():
        for host in uploads.hosts(system_now_ms()):
            tend_own_log.apply_async(expires=240, queue=queue_of(host))
    services.compact_history(now_ms=system_now_ms())


@shared_task(name="console.lag.tasks.tend_own_log", ignore_result=True)
def tend_own_log() -> None:
    """Upload the finished log segments of this host."""
    uploads.maintain_own(system_now_ms())
