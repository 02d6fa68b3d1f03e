"""The Celery tasks of jobs: every task only calls one service."""

from __future__ import annotations

import os
import socket
import threading

from celery import shared_task

from console.operation import journal, services
from console.operation.job import runner


@shared_task(name="console.operation.tasks.run_job")
def run_job(job_id: str) -> None:
    """Work on one job if it is free."""
    runner.run(job_id, f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}")


@shared_task(name="console.operation.tasks.recover_jobs")
def recover_jobs() -> None:
    """Queue the jobs that no worker has, and expire old plans; beat calls it every 10 s."""
    at_ms = journal.now_ms()
    runner.recover(now_ms=at_ms)
    services.expire_plans(now_ms=at_ms)
