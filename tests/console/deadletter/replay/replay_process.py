"""The console's side of a replay in processes of its own, on a database file of its own, to be killed.

A program of tests.support.forks, with these arguments:

prepare NAMESRV             prints the job's id
work JOB [WHEN N [PID]]
report JOB                  prints JSON

WHEN: before_send | while_sending | after_send of the N-th batch the process PID, or this one, is killed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import django
import pyarrow as pa

django.setup()
pa.array([0])  # imports pandas, if only to see that this is none of it; else every fork would

from console.access import services as access_services  # noqa: E402
from console.cluster.models import Cluster  # noqa: E402
from console.deadletter import selectors  # noqa: E402
from console.deadletter.replay import send as replay_send  # noqa: E402
from console.deadletter.replay import targets as replay_targets  # noqa: E402
from console.operation import selectors as operation_selectors  # noqa: E402
from console.operation import services  # noqa: E402
from console.operation.job import runner  # noqa: E402
from console.operation.models import Job  # noqa: E402
from tests.console.deadletter.letters import GROUP  # noqa: E402
from tests.support import migrated  # noqa: E402


def prepare(namesrv: str) -> None:
    migrated.migrate()
    cluster = Cluster.objects.create(name=f"test-{namesrv.rpartition(':')[2]}", namesrv_addrs=namesrv)
    admin = access_services.ensure_first_person()
    params = {"target": "failed_group", "rate_per_s": 4_000}
    plan = services.create_plan("dead_letter_replay", cluster.name, GROUP, params, admin)
    print(services.apply_plan(plan.id, admin, plan.confirm_text).id)


def work(job_id: str, when: str = "", at_batch: str = "0", victim: str = "") -> None:
    left = [int(at_batch)]

    def kill() -> None:
        os.kill(int(victim) if victim else os.getpid(), signal.SIGKILL)

    def deadly(original: Any) -> Any:
        def wrapped(self: replay_send.Sender, outgoing: list[replay_targets.Outgoing], until_s: float) -> Any:
            left[0] -= 1
            if left[0] == 0 and when == "before_send":
                kill()
            if left[0] == 0 and when == "while_sending":
                threading.Thread(target=kill).start()
            answers = original(self, outgoing, until_s)
            if left[0] == 0 and when == "after_send":
                kill()
            return answers

        return wrapped

    sender = replay_send.Sender
    sender.exchange = deadly(sender.exchange)  # type: ignore[method-assign]
    Job.objects.filter(pk=job_id).update(lease_until=None)  # as if its fifteen seconds were over
    runner.run(job_id, f"worker-{os.getpid()}")


def report(job_id: str) -> None:
    job = operation_selectors.job(job_id)
    print(
        json.dumps(
            {
                "state": job.state,
                "error": job.error,
                "attempts": job.attempts,
                "result": job.result,
                "ledger": selectors.ledger_counts(job.plan_id),
                "events": [event.text for event in job.events.all()],
            }
        )
    )


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    {"prepare": prepare, "work": work, "report": report}[arguments[0]](*arguments[1:])
    return 0
