"""What a replay's job keeps: where it reads on, its rate, and its sums from the ledger's counts with their checks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from console.deadletter import selectors
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.replay.before import ReplayBefore
from console.deadletter.replay.token_bucket import TokenBucket
from console.operation.errors import VerificationFailed
from console.operation.plan.job_run import JobRun
from console.text import Text
from console.text.stored import Stored, as_json, of_json

GIVEN_UP = Text("the job failed before the broker's answer was known: it may have been sent")


class Sums(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The sums of a replay, as its result keeps them.

    matched = sent + skipped + failed (+ pending while a batch is in flight); unknown is the part of failed
    that may have arrived, handled the part of skipped that was marked as handled.
    """

    matched: int = 0
    sent: int = 0
    skipped: int = 0
    failed: int = 0
    unknown: int = 0
    handled: int = 0
    pending: int = 0


class Figures(Sums, frozen=True, kw_only=True, omit_defaults=False):
    """The sums so far, as the job's progress has them: `matched` is all letters of the plan, `done` of `total`."""

    done: int = 0
    total: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int], before: ReplayBefore) -> Figures:
        """Return the figures of a ledger; ``counts``: state → letters."""
        sent, handled = counts[LedgerState.SENT], counts[LedgerState.HANDLED]
        skipped = counts[LedgerState.SKIPPED] + handled
        unknown, pending = counts[LedgerState.UNKNOWN], counts[LedgerState.PENDING]
        failed = counts[LedgerState.FAILED] + unknown
        total = max(sent + skipped + failed + pending, before.matched or 0)
        return cls(
            matched=total,
            sent=sent,
            skipped=skipped,
            failed=failed,
            unknown=unknown,
            handled=handled,
            pending=pending,
            done=sent + skipped + failed,
            total=total,
        )

    @property
    def sums(self) -> Sums:
        """Return the sums of an ended job, where `matched` are the letters that have an outcome or may have one."""
        return msgspec.structs.replace(of_json(Sums, as_json(self)), matched=self.done + self.pending)


class Cursors(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """In the progress: ``broker/queue`` → the offset to read on from."""

    cursors: dict[str, int] = {}


class KeptBucket(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """In the progress: the token bucket of the rate."""

    bucket: TokenBucket = msgspec.field(default_factory=TokenBucket)


class Growth(Stored, frozen=True, kw_only=True):
    """In the progress: the end of the dead-letter topic when the job began, and its growth since."""

    dlq_end: int | None = None
    dlq_growth: int | None = None


class SpeedNow(Stored, frozen=True, kw_only=True):
    """In the progress: copies per second of the last seconds."""

    speed: float


class ReplaySpeed(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """In the result: copies per second of the last run; None: it took no time."""

    sent_per_s: float | None


class ReadBack(Stored, frozen=True, kw_only=True):
    """In the result: how many copies were read back from their topics."""

    read_back: int


def verify_sums(before: ReplayBefore, reported: Sums, counts: Mapping[str, int]) -> None:
    """Check that the ledger has one outcome for each letter of the plan, and that the job's sums agree.

    Raises VerificationFailed.
    """
    found = Figures.of(counts, before)
    if found.pending:
        raise VerificationFailed(Text("The outcome of %(number)s sends is unknown", number=found.pending))
    for name in Sums.__struct_fields__:
        number, kept = getattr(reported, name), getattr(found, name)
        if number != kept:
            raise VerificationFailed(
                Text(
                    "The job counted %(number)s %(what)s, its ledger has %(kept)s",
                    number=str(number),
                    what=name,
                    kept=kept,
                )
            )
    counted, is_complete = before.counted, before.matched is not None
    if found.done < counted:
        raise VerificationFailed(
            Text(
                "The plan counted %(counted)s dead letters, the replay processed %(matched)s: %(number)s were "
                "deleted by their broker or left out. Make a new plan for the rest.",
                counted=counted,
                matched=found.done,
                number=counted - found.done,
            )
        )
    if is_complete and found.done > counted:
        raise VerificationFailed(
            Text(
                "The plan counted %(counted)s dead letters, the replay processed %(matched)s: the topic changed in "
                "the meantime. The ledger lists every dead letter.",
                counted=counted,
                matched=found.done,
            )
        )


def close_open_letters(run: JobRun) -> None:
    """Mark letters without an outcome as UNKNOWN and update the job's sums. Call inside a transaction."""
    still_open = ReplayLedger.objects.filter(plan=run.plan, state=LedgerState.PENDING)
    still_open.update(state=LedgerState.UNKNOWN, reason=GIVEN_UP, updated_at_ms=run.now_ms())
    found = Figures.of(selectors.ledger_counts(run.plan.id), ReplayBefore.of(run.plan))
    run.put_progress(found)
    run.put_result(found.sums)
