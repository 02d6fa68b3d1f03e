"""Queue jobs for the workers."""

from __future__ import annotations

import logging

from celery import current_app
from kombu import Connection
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

# kombu tries three times, two seconds apart, before it reports that Redis is away: too long for a button.
ONE_TRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
# By name: tasks import services, not the other way round.
RUN_JOB_TASK = "console.operation.tasks.run_job"


def enqueue(job_id: str) -> None:
    """Hand a job to the workers.

    Losing this message costs RECOVERY_MS, never the job (see `runner.recover`).
    """
    options = {**(current_app.conf.broker_transport_options or {}), **ONE_TRY}
    try:
        with Connection(
            current_app.conf.broker_write_url or current_app.conf.broker_url, transport_options=options
        ) as redis:
            current_app.send_task(RUN_JOB_TASK, args=[job_id], retry=False, connection=redis)
    except (OperationalError, OSError) as error:
        logger.warning("job not queued, recovery will do it job=%s reason=%s", job_id, error)
