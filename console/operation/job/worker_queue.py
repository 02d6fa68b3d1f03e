"""Queue tasks for the workers: jobs, and runs of reports."""

from __future__ import annotations

import logging

from celery import current_app
from kombu import Connection
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

# kombu tries three times, two seconds apart, before it reports that Redis is away, and waits for one that hangs as long
# as workers do: too long for a button.
ONE_TRY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "socket_timeout": 2,
    "socket_connect_timeout": 2,
}
# By name: tasks import services, not the other way round.
RUN_JOB_TASK = "console.operation.tasks.run_job"


def enqueue(job_id: str) -> None:
    """Hand a job to the workers.

    Losing this message costs RECOVERY_MS, never the job (see `runner.recover`).
    """
    send(RUN_JOB_TASK, job_id)


def send(task: str, row_id: str) -> bool:
    """Send a task about one row; return whether Redis has it."""
    options = {**(current_app.conf.broker_transport_options or {}), **ONE_TRY}
    url = current_app.conf.broker_write_url or current_app.conf.broker_url
    try:
        with Connection(url, transport_options=options) as redis:
            current_app.send_task(task, args=[row_id], retry=False, connection=redis)
    except (OperationalError, OSError) as error:
        logger.warning("task not queued, recovery will do it task=%s row=%s reason=%s", task, row_id, error)
        return False
    return True
