"""The Celery application: settings from Django's, the fixed beat schedule from the table below.

On one machine ``python -m console.workers`` runs beat and all pools. On several, one of them runs ``celery -A
console.celery beat``, and each any of ``celery -A console.celery worker -Q collect -P threads -c 4 --without-gossip
--without-mingle``, the same with ``-Q operate`` and with ``-Q report``. Schedules that operators edit (reports) are in
the database; `fire_due` checks them.
"""

import ctypes
import os
import signal
import sys
import time
import warnings
from typing import Any

import redis
from celery import Celery
from celery.exceptions import SecurityWarning
from celery.signals import celeryd_after_setup, worker_ready
from django.conf import settings

# Celery warns root about pickled tasks; ours are JSON only. Units and images run it as an unprivileged user anyway.
warnings.filterwarnings("ignore", category=SecurityWarning)

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("tidemark")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()
# Task → (how often, in seconds; seconds after which a waiting call is dropped, so that a worker that was away does not
# work off an hour of ticks).
FIXED_BEAT = {
    "console.broker.tasks.survey_due": (10.0, 10),
    "console.lag.tasks.collect_due": (1.0, 2),
    "console.lag.tasks.compact_history": (300.0, 240),
    "console.group.tasks.survey_refusals": (30.0, 25),
    "console.operation.tasks.recover_jobs": (10.0, 10),
    "console.deadletter.tasks.survey": (60.0, 50),
    "console.deadletter.tasks.prune_ledger": (3600.0, 3600),
    "console.rebalance.tasks.rebalance": (5.0, 5),
    "console.report.tasks.fire_due": (20.0, 20),
    "console.report.tasks.recover_runs": (10.0, 10),
}
app.conf.beat_schedule = {
    task: {"task": task, "schedule": schedule, "options": {"expires": expires_s}}
    for task, (schedule, expires_s) in FIXED_BEAT.items()
}
TICK = "console.celery.tick"
# A tick for each pool that must answer at once; all threads of `report` may be busy for minutes.
for _pool in settings.TICKING_POOLS:
    app.conf.beat_schedule[f"{TICK} {_pool}"] = {
        "task": TICK,
        "schedule": 5.0,
        "args": (_pool,),
        "options": {"expires": 5, "queue": _pool},
    }


@app.task(name=TICK)
def tick(pool: str) -> None:
    """Prove that beat and a worker of this pool both run: `/readyz` reads the time stored in Redis."""
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2) as client:
        client.set(f"{settings.TICK_KEY}:{pool}", time.time_ns() // 1_000_000, ex=3600)


@celeryd_after_setup.connect
def listen_to_own_host(instance: Any, **_: Any) -> None:
    """Let a collecting worker also consume the queue of this host."""
    queues = instance.app.amqp.queues
    if settings.CELERY_TASK_DEFAULT_QUEUE in queues.consume_from:
        queues.select_add(settings.HOST_QUEUE.format(host=settings.HOST_ID))


@worker_ready.connect
def upload_own_log(sender: Any, **_: Any) -> None:
    """Upload the log that this host collected before it stopped: others wait for it."""
    own = settings.HOST_QUEUE.format(host=settings.HOST_ID)
    if own in sender.app.amqp.queues.consume_from:
        app.send_task("console.lag.tasks.tend_own_log", queue=own, expires=240)


def die_with_parent() -> None:
    """End with the parent process: a fork clears the supervisor's PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
