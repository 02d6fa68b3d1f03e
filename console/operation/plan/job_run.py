"""A claimed job in its worker: what a kind's `apply`, `verify` and `settle` work with.

A run renews its lease with every save of its progress, and obeys pause, cancel and rate within a second.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from console.operation import journal
from console.operation.models import Job, JobState
from console.operation.rules import HEARTBEAT_MS, LEASE_MS, SLICE_MS, fingerprint
from console.text import Text
from console.text.stored import Stored, of_json, with_fields

S = TypeVar("S", bound=Stored)

LOOK_MS = HEARTBEAT_MS // 2  # pause, cancel and rate are read twice as often as the pages promise
NAP_S = 0.1  # longest sleep between two looks at the clock
# The parts of a job's progress that change without any work being done.
BOOKKEEPING = frozenset({"retries", "waits_for", "bucket", "speed", "dlq_end", "dlq_growth"})


class Retries(Stored, frozen=True, kw_only=True):
    """In the progress of a job whose broker does not answer: how often in a row, and what it waits for."""

    retries: int = 0
    waits_for: Text = Text()


class JobCounts(Stored, frozen=True, kw_only=True):
    """In the progress of any job: how much of all is done."""

    done: int = 0
    total: int = 0


class JobInterrupted(Exception):
    """Stop working on the job now. ``why``: paused | cancelled | slice."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class LeaseLost(Exception):
    """Another worker holds the job, or it was taken away: stop and write nothing."""


class JobRun:
    """A claimed job in its worker: the argument of ``PlanKind.apply``, ``verify`` and ``settle``."""

    def __init__(
        self, job: Job, owner: str, claimed_s: float, gives_way: Callable[[], bool] = lambda: False
    ) -> None:
        """Take a claimed job; `claimed_s`: the monotonic clock before the claim.

        ``gives_way``: whether another job has waited for this one's place, which it leaves after a slice of time.
        """
        self.job = job
        self.plan = job.plan
        self.owner = owner
        self._progress, self._result = dict(job.progress), dict(job.result)
        self._started = self._looked = self._saved = self._published = claimed_s
        self._settling = False
        self._gives_way = gives_way
        self._began_with = self._work_done()

    @property
    def has_worked(self) -> bool:
        """Return whether this run has made progress since it took the job."""
        return self._work_done() != self._began_with

    @property
    def rate_per_s(self) -> int | None:
        """Return the requested rate, at most half a second old."""
        return self.job.rate_per_s

    def now_ms(self) -> int:
        """Return the time, for kinds that record when something happened."""
        return journal.now_ms()

    @property
    def is_alone(self) -> bool:
        """Return whether every earlier run of this job is over; False: one may be frozen and continue."""
        return bool(self.job.open_runs == [self.owner])

    @property
    def lease_ends_s(self) -> float:
        """Return the monotonic time when the lease ends.

        What must not happen twice must not begin after it.
        """
        return self._saved + LEASE_MS / 1000

    def progress_as(self, kept: type[S]) -> S:
        """Return what a kind keeps in the progress."""
        return of_json(kept, self._progress)

    def result_as(self, kept: type[S]) -> S:
        """Return what a kind keeps in the result."""
        return of_json(kept, self._result)

    def put_progress(self, value: Stored) -> None:
        """Replace these fields of the progress; the next save stores them."""
        self._progress = with_fields(self._progress, value)

    def put_result(self, value: Stored) -> None:
        """Replace these fields of the result; the next save stores them."""
        self._result = with_fields(self._result, value)

    def count(self, **counts: int) -> None:
        """Set counts of the progress: done, total, verified."""
        self._progress |= counts

    def write(self, held: QuerySet[Job], **fields: Any) -> bool:
        """Write progress, result and other fields of the job; return whether its row was still ours."""
        written = held.update(progress=self._progress, result=self._result, **fields) == 1
        if written:
            self.job.progress, self.job.result = self._progress, self._result
        return written

    def note(self, text: Text, *, level: str = "ok") -> None:
        """Add a line to the job's event list."""
        journal.note(self.job, text, level=level, at_ms=self.now_ms())

    def save(self) -> None:
        """Write progress and result and renew the lease, in one statement.

        Runs inside the caller's transaction if there is one. Raises LeaseLost, which also rolls that transaction back.
        """
        # Before the statement: a worker that freezes after it must find its lease over.
        began_s, at_ms = time.monotonic(), self.now_ms()
        held = Job.objects.filter(
            pk=self.job.pk, lease_owner=self.owner, lease_until__gt=journal.moment(at_ms)
        )
        lease_until = journal.moment(at_ms + LEASE_MS)
        if not self.write(held, lease_until=lease_until):
            raise LeaseLost(self.job.id)
        self.job.lease_until = lease_until
        self._saved = began_s

    @contextlib.contextmanager
    def atomic(self) -> Iterator[None]:
        """Run a transaction that ends with ``save``; if it fails, restore progress and result."""
        progress, result = copy.deepcopy(self._progress), copy.deepcopy(self._result)
        saved = self._saved
        try:
            with transaction.atomic():
                yield
                self.save()
        except BaseException:
            self._progress = self.job.progress = progress
            self._result = self.job.result = result
            self._saved = saved
            raise

    def renew(self) -> None:
        """Keep the lease during a wait, and report it. Raises LeaseLost.

        A run that saves its progress more often than that is reported too.
        """
        now = time.monotonic()
        if (now - self._saved) * 1000 >= HEARTBEAT_MS:
            self.save()
        if (now - self._published) * 1000 >= HEARTBEAT_MS:
            self._published = now
            journal.publish(self.job, at_ms=self.now_ms())

    def beat(self) -> None:
        """Check for interruption; call at least twice a second while working.

        Raises JobInterrupted (paused, cancelled, slice over) and LeaseLost.
        """
        now = time.monotonic()
        if (now - self._looked) * 1000 >= LOOK_MS:
            self._looked = now
            self.look()
        self.renew()

    def sleep(self, seconds: float) -> None:
        """Sleep, with beats."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))
            self.beat()

    def hold_lease(self) -> None:
        """Renew the lease directly before an action that must not happen late. Raises LeaseLost."""
        if (time.monotonic() - self._saved) * 1000 >= LEASE_MS / 2:
            self.save()

    def look(self) -> None:
        """Read what was requested of the job. Raises JobInterrupted and LeaseLost."""
        row = (
            Job.objects.filter(pk=self.job.pk)
            .values("state", "cancel_requested", "rate_per_s", "lease_owner")
            .get()
        )
        if row["lease_owner"] != self.owner:
            raise LeaseLost(self.job.id)
        self.job.rate_per_s = row["rate_per_s"]
        self.job.state, self.job.cancel_requested = row["state"], row["cancel_requested"]
        if self._settling:
            return
        if row["cancel_requested"] and row["state"] != JobState.VERIFYING:
            raise JobInterrupted("cancelled")
        if row["state"] not in (JobState.RUNNING, JobState.VERIFYING):
            raise JobInterrupted("paused")
        if (time.monotonic() - self._started) * 1000 >= SLICE_MS and self._gives_way():
            raise JobInterrupted("slice")

    def settling(self) -> None:
        """From here on let only the lease stop this run: a cancel is being carried out."""
        self._settling = True

    def _work_done(self) -> str:
        done = {name: value for name, value in self._progress.items() if name not in BOOKKEEPING}
        return fingerprint(done)
