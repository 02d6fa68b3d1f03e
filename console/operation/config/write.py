"""A configuration on one broker during a job: its states, and its row in the job's result."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from console.operation.config.row import Action, Config, ConfigRow, KeyChange
from console.operation.models import Job
from console.operation.plan.job_run import JobRun
from console.operation.rules import Transitions
from console.text import Text
from console.text.stored import Stored, of_json


class WriteState(enum.StrEnum):
    """State of a write; the values are stored in the results of jobs."""

    WAITING = "waiting"
    APPLIED = "applied"
    FAILED = "failed"
    VERIFIED = "verified"


class WriteEvent(enum.Enum):
    """Event of a write."""

    WRITTEN = "the broker has the target"
    REFUSED = "the broker refused it, or was changed by another client"
    SHOWN = "the broker shows the target"
    NOT_SHOWN = "the broker does not show the target"


WRITE = Transitions[WriteState, WriteEvent](
    {
        (WriteState.WAITING, WriteEvent.WRITTEN): WriteState.APPLIED,
        (WriteState.WAITING, WriteEvent.REFUSED): WriteState.FAILED,
        (WriteState.APPLIED, WriteEvent.SHOWN): WriteState.VERIFIED,
        (WriteState.APPLIED, WriteEvent.NOT_SHOWN): WriteState.APPLIED,
        (WriteState.VERIFIED, WriteEvent.SHOWN): WriteState.VERIFIED,
        (WriteState.VERIFIED, WriteEvent.NOT_SHOWN): WriteState.APPLIED,
    }
)


class ConfigWrite(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A row of the job's result: what becomes of one object on one broker, and how far that is."""

    what: str
    name: str
    broker_name: str
    addr: str
    before: Config | None
    after: Config | None
    changes: tuple[KeyChange, ...]
    action: Action = msgspec.field(name="deed")
    state: WriteState = WriteState.WAITING
    error: Text = Text()
    at_ms: int | None = None

    @classmethod
    def of(cls, row: ConfigRow) -> ConfigWrite:
        """Return the write of a row of the plan, before it begins."""
        return cls(
            what=row.what,
            name=row.name,
            broker_name=row.broker_name,
            addr=row.addr,
            before=row.before,
            after=row.after,
            changes=row.changes,
            action=row.action,
        )

    def on(self, event: WriteEvent, **changes: Any) -> ConfigWrite:
        """Return the write after an event, with other changes. Raises IllegalTransition."""
        return self.with_(state=WRITE.next(self.state, event), **changes)

    def with_(self, **changes: Any) -> ConfigWrite:
        """Return the same write with changes."""
        return msgspec.structs.replace(self, **changes)

    def written(self) -> ConfigWrite:
        """Return the write once the broker has its target."""
        return self.on(WriteEvent.WRITTEN, error=Text())

    def changed_by_another(self, changed: Text) -> ConfigWrite:
        """Return the write refused because another client changed the broker meanwhile."""
        text = Text(
            "%(name)s on %(broker)s was changed elsewhere in the meantime: %(difference)s",
            name=self.name,
            broker=self.broker_name,
            difference=changed,
        )
        return self.on(WriteEvent.REFUSED, error=text)

    @property
    def object(self) -> tuple[str, str]:
        """What it is and its name."""
        return self.what, self.name

    @property
    def is_waiting(self) -> bool:
        return self.state is WriteState.WAITING

    @property
    def is_done(self) -> bool:
        """Whether the broker was written."""
        return self.state in (WriteState.APPLIED, WriteState.VERIFIED)


class Comparison(NamedTuple):
    """Writes after the brokers were read again, and a sentence for each difference from a target."""

    writes: list[ConfigWrite]
    wrong: list[Text]


class ConfigResult(Stored, frozen=True, kw_only=True):
    """What such a job keeps. ``brokers`` None: it has not begun. ``written``: how many, if it was cancelled."""

    brokers: tuple[ConfigWrite, ...] | None = None
    written: int | None = None


class Writes:
    """The writes of one job; ``put`` puts them into its result, which the next save stores."""

    def __init__(self, run: JobRun) -> None:
        self._run = run
        self._of_place = {_place(write): write for write in run.result_as(ConfigResult).brokers or ()}

    def __iter__(self) -> Iterator[ConfigWrite]:
        return iter(self._of_place.values())

    def put(self, writes: Iterable[ConfigWrite]) -> None:
        """Replace the writes of these objects on these brokers."""
        self._of_place |= {_place(write): write for write in writes}
        self._run.put_result(ConfigResult(brokers=tuple(self)))

    @property
    def handled(self) -> int:
        """Number of writes that need no further request."""
        return sum(not write.is_waiting for write in self)


def _place(write: ConfigWrite) -> tuple[str, str, str]:
    return write.what, write.name, write.broker_name


def writes_of(job: Job) -> tuple[ConfigWrite, ...]:
    """Return the writes of a job; none before it began, and of other kinds."""
    return of_json(ConfigResult, job.result).brokers or ()
