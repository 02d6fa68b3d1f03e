"""A fault at every write of a plan's and a job's life, on a real brokerd, a real Valkey and a real database.

One round is one story from plan to end (an offset change with its undo, or a replay of dead letters) with one fault
at its k-th write: a commit, a statement of its own, or a request that changes the broker. The process is killed
before or after it, the database fails before or after it (the transaction is gone, or only its answer), or the
process is frozen before or after it for longer than its lease and thawed when others have finished. In every second
round Redis is gone. Then a person asks again with the same key, workers recover, and the end is judged.

The seed chooses story, write and fault: as many rounds as ``python -m tests.hard.plan_faults --count`` prints cover
each one once. SQLite, or what DATABASE_URL names (deploy/with-postgres.sh).
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A process of its own with data of its own: set before Django reads its settings.
FOLDER = Path(tempfile.mkdtemp(prefix="tm-", dir="/tmp"))
os.environ |= {
    "TIDEMARK_DATA": str(FOLDER / "data"),
    "SECRET_KEY": "only-for-tests",
    "REDIS_URL": f"unix://{FOLDER}/r.sock",
    "DJANGO_SETTINGS_MODULE": "console.settings",
    "LOG_LEVEL": "CRITICAL",
}
(FOLDER / "data").mkdir()
import django  # noqa: E402
import pyarrow as pa  # noqa: E402

django.setup()

from django.db import connections  # noqa: E402

import console.plans  # noqa: E402, F401  before the forks: a long run must not meet files that changed meanwhile
from console.access import services as access_services  # noqa: E402
from console.access.models import AuditEvent  # noqa: E402
from console.brokers.mqadmin import Message  # noqa: E402
from console.deadletter.models import ReplayLedger  # noqa: E402
from console.deadletter.replay import batches as replay  # noqa: E402
from console.deadletter.replay import recovery as replay_recovery  # noqa: E402
from console.operation import journal, services  # noqa: E402
from console.operation.job import runner  # noqa: E402
from console.operation.models import Job, JobState, Plan  # noqa: E402
from console.operation.plan import job_run  # noqa: E402
from tests.hard.tally import main  # noqa: E402
from tests.support import migrated  # noqa: E402
from tests.support.broker_process import BrokerProcess  # noqa: E402
from tests.support.redis_process import RedisProcess  # noqa: E402
from tests.support.write_faults import MODES, Fault, Mode, install, locks_note  # noqa: E402

LETTERS, BATCH = 20, 8
QUEUES, MESSAGES = 3, 10
BEFORE = {0: 5, 1: 6, 2: 7}
LEASE_MS = 1_500
PATIENCE_S = 60.0
NO_FAULT = Fault(0, MODES[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    """One plan's life. ``steps`` are what a person and the workers do, each in a process of its own."""

    name: str
    prepare: Callable[[str], None]
    steps: tuple[Callable[[str], Any], ...]
    judge: Callable[[str, Mode], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a child process ended: its exit code or minus its signal, and what it returned."""

    code: int
    value: Any


# --- Processes ----------------------------------------------------------------------------------------------


class World:
    """brokerd, Valkey and the database, once for all rounds."""

    def __init__(self) -> None:
        self.redis = RedisProcess(FOLDER).start()
        self.broker = BrokerProcess(FOLDER / "store").start()
        self.counter = FOLDER / "writes"
        pa.array([0])  # imports pandas, if only to see that this is none of it; else every child would
        atexit.register(self.close, os.getpid())
        done(in_child(functools.partial(prepare_database, self.broker.namesrv)))

    def close(self, owner: int) -> None:
        if os.getpid() == owner:
            self.broker.stop()
            self.redis.kill()
            shutil.rmtree(FOLDER, ignore_errors=True)

    def act(self, step: Callable[[], Any], fault: Fault) -> Child:
        """Start a step in a process of its own that runs into ``fault``."""
        return Child(step, fault, self.counter)


class Child:
    """A forked process that does one thing. It may be frozen by its fault."""

    def __init__(self, step: Callable[[], Any], fault: Fault = NO_FAULT, counter: Path | None = None) -> None:
        out, into = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(out)
            _be_child(step, fault, counter, into)
        os.close(into)
        self.out = out

    def wait(self) -> Outcome | None:
        """Its outcome; None when it is frozen."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return None
        with os.fdopen(self.out, "rb") as pipe:
            text = pipe.read()
        return Outcome(os.waitstatus_to_exitcode(status), json.loads(text) if text else None)

    def thaw(self) -> Outcome:
        os.kill(self.pid, signal.SIGCONT)
        found = self.wait()
        assert found is not None
        return found


def in_child(step: Callable[[], Any]) -> Outcome:
    found = Child(step).wait()
    assert found is not None
    return found


def _be_child(step: Callable[[], Any], fault: Fault, counter: Path | None, into: int) -> None:
    code, value = 0, None
    try:
        logging.disable(logging.CRITICAL)
        hurry()
        if counter is not None:
            install(fault, counter)
        value = step()
    except Exception:  # noqa: BLE001  what a person would see as an error
        code, value = 3, traceback.format_exc()[-1500:]
    os.write(into, json.dumps(value, default=str).encode())
    os._exit(code)


def hurry() -> None:
    """Shorter times, so that a frozen worker outlives its lease in seconds."""
    runner.LEASE_MS = job_run.LEASE_MS = LEASE_MS  # type: ignore[attr-defined]
    job_run.HEARTBEAT_MS = 300  # type: ignore[attr-defined]
    runner.RETRY_PAUSE_MS = 100
    if connections["default"].vendor == "sqlite":
        connections["default"].settings_dict["OPTIONS"]["timeout"] = 3
    replay_recovery.SETTLE_S = 0.2
    replay.BATCH_MAX = replay_recovery.BATCH_MAX = BATCH  # type: ignore[attr-defined]


# --- What persons and workers do ----------------------------------------------------------------------------


def prepare_database(namesrv: str) -> None:
    from console.cluster.models import Cluster

    migrated.migrate()
    Cluster.objects.update_or_create(name="hard", defaults={"namesrv_addrs": namesrv})
    access_services.ensure_first_person()
    connections.close_all()


def plan_and_apply(kind: str, params: dict[str, Any], group: str) -> None:
    """Asked again with the same keys after an error: one plan, one job."""
    admin = access_services.ensure_first_person()
    plan = services.create_plan(kind, "hard", group, params, admin, idempotency_key=f"{group} plan")
    services.apply_plan(plan.id, admin, plan.confirm_text, idempotency_key=f"{group} apply")


def undo(group: str) -> None:
    admin = access_services.ensure_first_person()
    first = Plan.objects.get(subject=group, undo_of=None)
    plan = services.undo(first.id, admin, idempotency_key=f"{group} undo")
    services.apply_plan(plan.id, admin, plan.confirm_text, idempotency_key=f"{group} apply undo")


def work(group: str) -> None:
    """One look of a worker: what beat finds is worked on."""
    runner.recover(now_ms=journal.now_ms())
    for job in Job.objects.filter(subject=group).order_by("created_at"):
        if not job.is_final:
            runner.run(job.id, f"worker-{os.getpid()}")


def is_done(group: str) -> bool:
    return (
        not Job.objects.filter(subject=group).exclude(state__in=("SUCCEEDED", "FAILED", "CANCELLED")).exists()
    )


def work_until_done(group: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done(group):
        assert time.monotonic() < deadline, [job.as_row() for job in Job.objects.filter(subject=group)]
        work(group)
        time.sleep(0.05)


# --- Stories ------------------------------------------------------------------------------------------------


def live() -> Any:
    from tests.console.operation.live_cluster import LiveCluster

    return LiveCluster(world().broker)


def prepare_offsets(group: str) -> None:
    cluster = live()
    cluster.create_topic(f"{group}-orders", queues=QUEUES)
    cluster.create_group(group)
    for queue_id, offset in BEFORE.items():
        cluster.send(f"{group}-orders", queue_id, [b"m"] * MESSAGES)
        cluster.commit(group, f"{group}-orders", queue_id, offset)


def judge_offsets(group: str, mode: Mode) -> None:
    first, undone = Job.objects.filter(subject=group).order_by("created_at")
    for job in (first, undone):
        assert (job.state, job.error) == (JobState.SUCCEEDED, ""), (job.state, job.error)
    rows = {row["queue_id"]: (row["before"], row["target"], row["state"]) for row in first.result["queues"]}
    assert rows == {queue_id: (offset, 0, "verified") for queue_id, offset in BEFORE.items()}, rows
    committed = live().committed(group, f"{group}-orders")
    if committed != BEFORE:
        # Frozen between its last look at the clock and the socket: no check can prevent it, but it is reported.
        assert mode.freezes and all(committed[queue] in (0, BEFORE[queue]) for queue in BEFORE), committed
        assert any("stood still" in event.text for job in (first, undone) for event in job.events.all())
    _judge_records(group, jobs=2)


def prepare_letters(group: str) -> None:
    cluster = live()
    cluster.create_topic(f"{group}-orders", queues=1)
    cluster.create_group(group)
    cluster.create_topic(f"%RETRY%{group}", queues=1)
    cluster.create_topic(f"%DLQ%{group}", queues=1)
    letters = []
    for number in range(LETTERS):
        properties = {
            "KEYS": f"k{number}",
            "UNIQ_KEY": f"7F000001{number:024d}",
            "RETRY_TOPIC": f"{group}-orders",
            "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{number:016d}",
        }
        letters.append((Message(f"%DLQ%{group}", b"letter %d" % number, properties), 0))
    for result in cluster.admin.send_many(cluster.addr, letters):
        assert not isinstance(result, Exception), result


def judge_letters(group: str, mode: Mode) -> None:
    job = Job.objects.get(subject=group)
    assert (job.state, job.error) == (JobState.SUCCEEDED, ""), (job.state, job.error)
    states = dict(ReplayLedger.objects.filter(plan=job.plan_id).values_list("keys", "state"))
    assert len(states) == LETTERS == ReplayLedger.objects.filter(plan=job.plan_id).count()
    copies: Counter[str] = Counter()
    cluster, offset = live(), 0
    while messages := cluster.admin.pull(cluster.addr, f"%RETRY%{group}", 0, offset).messages:
        copies.update(str(message.keys) for message in messages)
        offset = messages[-1].queue_offset + 1
    assert max(copies.values()) == 1, f"sent twice: {[key for key, number in copies.items() if number > 1]}"
    allowed = {"SENT", "UNKNOWN"} if mode.freezes else {"SENT"}
    assert set(states.values()) <= allowed, Counter(states.values())
    assert all(copies[key] == 1 for key, state in states.items() if state == "SENT"), "SENT and not there"
    unknown = sum(state == "UNKNOWN" for state in states.values())
    figures = {
        name: job.result[name] for name in ("matched", "sent", "skipped", "failed", "unknown", "pending")
    }
    assert figures == {
        "matched": LETTERS,
        "sent": LETTERS - unknown,
        "skipped": 0,
        "failed": unknown,
        "unknown": unknown,
        "pending": 0,
    }, figures
    _judge_records(group, jobs=1)


def _judge_records(group: str, jobs: int) -> None:
    """One plan and one job for each request, and one audit event for each thing that happened."""
    assert Plan.objects.filter(subject=group).count() == jobs
    verbs = Counter(AuditEvent.objects.filter(subject=group).values_list("verb", flat=True))
    assert verbs == {"plan": jobs, "apply": jobs, "job verified": jobs}, verbs
    for job in Job.objects.filter(subject=group):
        assert (job.holds, job.lease_owner, job.lease_until) == (None, "", None)
        ends = [event.text for event in job.events.all() if event.text.startswith("Verified")]
        assert len(ends) == 1, ends


REPLAY = {"target": "failed_group"}
STORIES = (
    Story(
        "offsets",
        prepare_offsets,
        (
            functools.partial(plan_and_apply, "offset_change", {"target": "earliest"}),
            work,
            undo,
            work,
        ),
        judge_offsets,
    ),
    Story(
        "replay",
        prepare_letters,
        (functools.partial(plan_and_apply, "dead_letter_replay", REPLAY), work),
        judge_letters,
    ),
)


# --- One round ----------------------------------------------------------------------------------------------


@functools.cache
def world() -> World:
    return World()


@functools.cache
def writes_of(story: Story) -> int:
    """How many writes the story has when nothing goes wrong."""
    tell(story, f"count-{story.name}", NO_FAULT)
    return world().counter.stat().st_size


def places() -> list[tuple[Story, int, Mode]]:
    """Every fault of every write of every story."""
    return [
        (story, number, mode)
        for story in STORIES
        for number in range(1, writes_of(story) + 1)
        for mode in MODES
    ]


def run_round(seed: int) -> str:
    """Story, write and fault by seed; raises AssertionError when a promise was broken."""
    every = places()
    # 101 is prime: neighbouring seeds, and so a short run, meet different stories, writes and faults.
    story, number, mode = every[seed * 101 % len(every)]
    tell(story, f"g{seed}-{time.time_ns() % 1_000_000}", Fault(number, mode), redis_is_gone=seed % 2 == 1)
    return f"{story.name}, {mode.name}"


def tell(story: Story, group: str, fault: Fault, *, redis_is_gone: bool = False) -> None:
    """The story once, with its fault; then recovery, and the judgement."""
    here = world()
    here.counter.write_bytes(b"")
    locks_note(here.counter).unlink(missing_ok=True)
    done(in_child(functools.partial(story.prepare, group)))
    if redis_is_gone:
        here.redis.kill()
    frozen: list[Child] = []
    try:
        for step in story.steps:
            child = here.act(functools.partial(step, group), fault)
            outcome = child.wait()
            if outcome is None:
                frozen.append(child)
                time.sleep(LEASE_MS / 1000 + 0.1)
                if locks_note(here.counter).exists():
                    frozen.pop().thaw()
            if outcome is None or outcome.code != 0:
                recovered = in_child(functools.partial(recover, step, group))
                if frozen and recovered.code != 0 and "locked" in str(recovered.value):
                    frozen.pop().thaw()  # another thread of it was within a transaction
                    recovered = in_child(functools.partial(recover, step, group))
                done(recovered)
            elif step is work:
                done(in_child(functools.partial(work_until_done, group)))
        for child in frozen:
            child.thaw()
        frozen.clear()
        done(in_child(functools.partial(work_until_done, group)))
        done(in_child(functools.partial(story.judge, group, fault.mode)))
    finally:
        for child in frozen:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        if redis_is_gone:
            here.redis.start()


def recover(step: Callable[[str], Any], group: str) -> None:
    """The person asks again, or other workers find the job."""
    if step is work:
        work_until_done(group)
    else:
        step(group)


def done(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.value


if __name__ == "__main__":
    if "--count" in sys.argv:
        print(json.dumps({story.name: writes_of(story) for story in STORIES} | {"rounds": len(places())}))
    else:
        main("plan_faults", run_round, rounds=len(places()))
