"""The beat table names tasks that exist, and the worker's application is everybody's."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from celery import current_app

from console.celery import FIXED_BEAT, app

ROOT = Path(__file__).parent.parent.parent


def test_it_is_the_current_application() -> None:
    assert current_app._get_current_object() is app


def test_it_beats_only_tasks_that_a_worker_knows() -> None:
    app.loader.import_default_modules()
    assert set(FIXED_BEAT) - set(app.tasks) == set()


def test_it_drops_late_calls_before_they_pile_up() -> None:
    entries = app.conf.beat_schedule
    ticks = {"console.celery.tick collect": "collect", "console.celery.tick operate": "operate"}
    assert set(entries) == set(FIXED_BEAT) | set(ticks)
    assert {name: entries[name]["options"]["queue"] for name in ticks} == ticks
    assert entries["console.lag.tasks.collect_due"] == {
        "task": "console.lag.tasks.collect_due",
        "schedule": 1.0,
        "options": {"expires": 2},
    }
    assert all(entry["options"]["expires"] > 0 for entry in entries.values())


@pytest.mark.parametrize(
    ("task", "queue"),
    [
        ("console.lag.tasks.collect", "collect"),
        ("console.lag.tasks.sweep_clients", "collect"),
        ("console.operation.tasks.run_job", "operate"),
        ("console.operation.tasks.recover_jobs", "operate"),
        ("console.report.tasks.run_report", "report"),
        ("console.report.tasks.fire_due", "report"),
    ],
)
def test_each_task_waits_in_the_queue_of_its_pool(task: str, queue: str) -> None:
    assert app.amqp.router.route({}, task)["queue"].name == queue


def test_it_stores_no_results_and_survives_a_dead_connection() -> None:
    assert app.conf.task_ignore_result is True
    assert app.conf.broker_transport_options == {
        "socket_timeout": 15,
        "health_check_interval": 5,
        "socket_keepalive": True,
    }


def runs(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_dies_with_its_parent() -> None:
    """What every pool and beat do at their start, in a process whose parent then ends."""
    child = (
        "import time; from console.celery import die_with_parent; die_with_parent(); print('bound', flush=True);"
        "time.sleep(60)"
    )
    parent = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE);"
        "child.stdout.readline(); print(child.pid, flush=True); import os; os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent, child],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    deadline = time.monotonic() + 60
    while runs(int(done.stdout)):
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.02)
