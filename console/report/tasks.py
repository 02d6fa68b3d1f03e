"""The Celery tasks of reports: every task only calls one service."""

from __future__ import annotations

import time
from typing import Any

from celery import Task, shared_task

from console.report import services
from console.report.delivery import schedules
from console.report.delivery import sending as delivery
from console.report.models import ReportRun

DELIVERY_TRIES = 3


@shared_task(name="console.report.tasks.run_report")
def run_report(run_id: str) -> None:
    """Compute one queued run."""
    services.run_report(run_id, now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.report.tasks.fire_due")
def fire_due() -> None:
    """Request the reports whose schedule is due; beat calls it every 20 s."""
    schedules.fire_due(now_ms=time.time_ns() // 1_000_000)


@shared_task(bind=True, name="console.report.tasks.deliver", max_retries=DELIVERY_TRIES)
def deliver(self: Task[Any, Any], run_id: str) -> None:
    """Notify the receivers of a scheduled run; retry failed ones three times."""
    run = ReportRun.objects.filter(pk=run_id).first()
    if run is None:
        return
    deliveries = delivery.deliver(run, now_ms=time.time_ns() // 1_000_000)
    if not all(each.ok for each in deliveries) and self.request.retries < DELIVERY_TRIES:
        raise self.retry(countdown=30 * 4**self.request.retries, max_retries=DELIVERY_TRIES)


@shared_task(name="console.report.tasks.recover_runs")
def recover_runs() -> None:
    """Requeue runs whose worker died or whose queue message was lost; beat calls it every 10 s."""
    services.recover_runs(now_ms=time.time_ns() // 1_000_000)
