"""What a kind of plan must be able to do, and the values that pass between a kind and ``services.py``.

A kind is a stateless object found in the table ``settings.PLAN_KINDS`` (``console.plans.PLAN_KINDS``: name →
kind). To add one: write a class with this shape in the app's own ``plans.py`` and name it in
``console/plans.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from console.operation.plan.coverage import Coverage
from console.text import Text

if TYPE_CHECKING:
    from console.operation.job.runner import JobRun
    from console.operation.models import Job, Plan


@dataclasses.dataclass(frozen=True, slots=True)
class PlanWarning:
    """One banner of the plan page. ``level``: ok | info | warn | danger."""

    level: str
    title: Text
    text: Text = Text()


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """What ``PlanKind.compute`` found: everything a plan row holds apart from who, when and how it is
    confirmed."""

    summary: Text
    diff: list[dict[str, Any]]
    before: dict[str, Any]  # "needs": [[verb, topic or group], …] are rights asked for besides the kind's own
    messages: int = 0  # blast radius: decides inline, typed or second person
    warnings: list[PlanWarning] = dataclasses.field(default_factory=list)
    params: dict[str, Any] | None = None  # normalised parameters, when they differ from what was asked
    blocked: Text = Text()  # why it can not be applied; empty where it can
    command: str = ""  # the same as a shell command
    made_by: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # this plan by hand: {path, body, command}
    undo_of: str = ""  # id of the plan that this one takes back, where the parameters name it
    rate_per_s: int | None = None  # rate the job starts with
    confirm_text: str = ""  # what is typed where that is not the subject's name
    typed: bool = False  # the name must be typed however few messages are touched: it can not be taken back
    coverage: Coverage | None = (
        None  # what the plan reaches, and what it does not; None: nothing can be missed
    )


class PlanKind(Protocol):
    """A change of one sort. Errors of ``compute``: PlanRejected (bad parameters), BrokerUnavailable,
    MQBrokerError."""

    @property
    def kind(self) -> str:
        """Name in the table, in URLs and in the audit: ``offset_change``."""
        ...

    @property
    def verb(self) -> str:
        """The access verb this change needs: RESET, REPLAY, CONFIGURE, …"""
        ...

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the brokers and say what would change. Changes nothing."""
        ...

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Sentences that say what moved beyond normal progress since the plan was computed; [] = still
        true."""
        ...

    def apply(self, run: JobRun) -> None:
        """Make the change. Called again after a crash: must go on where ``run.progress`` and its own rows
        say."""
        ...

    def verify(self, run: JobRun) -> None:
        """Watch until the brokers show the target; raise VerificationFailed when they do not."""
        ...

    def settle(self, run: JobRun) -> None:
        """The job is being cancelled: resolve what is in flight and write the result so far."""
        ...

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """Parameters of the plan that puts everything back, or None when physics does not allow it."""
        ...


@runtime_checkable
class ReadsOthers(Protocol):
    """A kind whose plan shows something of other groups or topics than its subject."""

    def also_reads(self, params: Mapping[str, Any]) -> list[str]:
        """Names that the person who asks must be allowed to see too."""
        ...


@runtime_checkable
class Exclusive(Protocol):
    """A kind of which one job at a time may work on the same thing."""

    def holds(self, cluster: str, subject: str) -> str:
        """The name of that thing: unique over all kinds, at most 400 characters."""
        ...


@runtime_checkable
class KeepsAccounts(Protocol):
    """A kind whose rows must not stay open when its job fails."""

    def give_up(self, run: JobRun) -> None:
        """Close what has no outcome, without asking a broker; inside the transaction that ends the job."""
        ...


@runtime_checkable
class RunsLong(Protocol):
    """A kind whose jobs take minutes or hours: only some threads work on such, so that short changes never wait."""

    @property
    def runs_long(self) -> bool:
        """Always True."""
        ...
