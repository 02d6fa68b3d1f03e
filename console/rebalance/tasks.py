"""What beat starts: dividing the queues of groups in server-side mode."""

from celery import shared_task

from console.lag.services import system_now_ms
from console.rebalance import services


@shared_task(name="console.rebalance.tasks.rebalance", ignore_result=True)
def rebalance() -> None:
    """Every few seconds: enrol, compute, store, observe."""
    now_ms = system_now_ms()
    services.enrol_embedded_groups(now_ms)
    services.rebalance_due(now_ms)
