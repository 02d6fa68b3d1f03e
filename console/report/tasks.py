"""Celery's side of reports: every task calls one service and adds nothing."""

from __future__ import annotations

import time

from celery import shared_task

from console.report import services


@shared_task(name="console.report.tasks.run_report")
def run_report(run_id: str) -> None:
    """Compute one queued run."""
    services.run_report(run_id, now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.report.tasks.hourly")
def hourly() -> None:
    """Beat, some minutes past each full hour: the hour just over, for every cluster."""
    services.request_hourly(now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.report.tasks.daily")
def daily() -> None:
    """Beat, soon after midnight UTC: the day just over."""
    services.request_daily(now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.report.tasks.weekly")
def weekly() -> None:
    """Beat, early on Monday: the week just over."""
    services.request_weekly(now_ms=time.time_ns() // 1_000_000)


@shared_task(name="console.report.tasks.recover_runs")
def recover_runs() -> None:
    """Beat, every 10 s: runs whose worker died, and runs whose place in the task queue was lost."""
    services.recover_runs(now_ms=time.time_ns() // 1_000_000)
