"""The base of plan kinds: texts, pages, REST call and command line, and what a plan does.

A kind is a stateless object of the table ``settings.PLAN_KINDS`` (``console.plans.PLAN_KINDS``: name → kind). To add
one: docs/contributing.md.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from django.urls import reverse
from django.utils.http import urlencode

from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage
from console.operation.plan.job_run import JobRun
from console.operation.plan.params import Accepted, Given
from console.text import JsonObject, Text
from console.text.stored import Stored, of_json

PLAIN_DIFF, PLAIN_JOB = "operation/_diff_plain.html", "operation/_job_plain.html"
SETTINGS_MARK = "S"

# Of a kind: its parameters, the state that its plans are computed from, and a row of their diff.
P = TypeVar("P")
B = TypeVar("B")
R = TypeVar("R")


# --- Where a kind stands in the pages ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link on a page; without ``url`` only its text."""

    words: Text
    url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The pages of a kind's subjects: their list, the page of one, and the label of its name."""

    # Of the list.
    words: Text
    list_page: str  # URL name
    page: str = ""  # URL name of one subject's page
    # Without such a page: the parameter of the list that selects the subject.
    filters_by: str = ""
    name_words: Text = Text("Name of the group")

    def trail(self, cluster: str, subject: str) -> list[Link]:
        """Return the links above the title of a plan."""
        url = reverse(self.list_page, args=[cluster])
        own = reverse(self.page, args=[cluster, subject]) if self.page else ""
        if self.filters_by:
            own = f"{url}?{urlencode({self.filters_by: subject})}"
        return [Link(self.words, url), Link(Text.foreign(subject), own)]


GROUPS = Place(Text("Groups"), "groups", "group")
TOPICS = Place(Text("Topics"), "topics", "topic", name_words=Text("Name of the topic"))
BROKERS = Place(Text("Brokers"), "brokers", "broker", name_words=Text("Name of the broker"))


@dataclasses.dataclass(frozen=True, slots=True)
class Another:
    """The page where another plan of a kind is made."""

    page: str  # URL name
    words: Text
    # Whether its address names the subject.
    of_subject: bool = True

    def link(self, plan: Plan) -> Link:
        """Link to the page for the subject of ``plan``."""
        args = [plan.cluster, plan.subject] if self.of_subject else [plan.cluster]
        return Link(self.words, reverse(self.page, args=args))


# --- Between a kind and ``services.py`` ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class RestCall:
    """A POST that makes a plan: path and body."""

    path: str
    body: JsonObject


class SamePlan(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """How to make a plan without a page, quoted for a shell."""

    path: str
    body: str
    command: str


class Equivalent(Stored, frozen=True, kw_only=True, omit_defaults=True):
    """How to apply a plan without a page, and to make it where that is possible."""

    rest: str
    command: str
    made_by: SamePlan | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PlanWarning:
    """One banner of the plan page. ``level``: ok | info | warn | danger."""

    level: str
    title: Text
    text: Text = Text()


class Need(NamedTuple):
    """A right that a plan needs in addition to the one of its kind."""

    verb: str
    # A topic or group.
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Draft(Generic[P, B, R]):
    """The result of ``PlanKind.compute``: a plan row without who, when, and how it is confirmed."""

    summary: Text
    diff: Sequence[R]
    before: B
    # Blast radius: decides between confirming inline, by typed name, or by a second person.
    messages: int = 0
    warnings: list[PlanWarning] = dataclasses.field(default_factory=list)
    needs: tuple[Need, ...] = ()
    # Normalised parameters, where they differ from the request's.
    params: P | None = None
    # Parameters that make this plan again, where ``params`` do not.
    repeat_with: P | None = None
    # Why it cannot be applied; empty if it can.
    blocked: Text = Text()
    # Id of the plan that this one takes back, where the parameters name it.
    undo_of: str = ""
    # The text to type, if it is not the subject's name.
    confirm_text: str = ""
    # The name must be typed however few messages are affected: the change cannot be undone.
    typed: bool = False
    # What the plan reaches and what it does not; None: all of it.
    coverage: Coverage | None = None


class JobRow(Protocol):
    """A row of a job's result, as its page shows it."""

    @property
    def state(self) -> str:
        """Return how far it is."""


class PlanKind(ABC, Generic[P, B, R]):
    """A kind of change, with the values in the columns of its plans: ``params``, ``before``, rows of ``diff``.

    ``compute`` raises PlanRejected (bad parameters), BrokerUnavailable and MQBrokerError.
    """

    # --- Its values ---

    params_type: type[P]
    before_type: type[B]
    row_type: type[R]

    # What a request for a plan may name; None: the kind reads it by itself.
    accepted: ClassVar[Accepted | None] = None

    def read_params(self, given: Given) -> P:
        """Read the parameters of a form, a request body or a command line. Raises PlanRejected(field)."""
        assert self.accepted is not None, self.kind
        return self.params_type(**given.read(self.accepted))

    def params_of(self, plan: Plan) -> P:
        """Return the parameters of a plan."""
        return of_json(self.params_type, plan.params)

    def before_of(self, plan: Plan) -> B:
        """Return the state that a plan was computed from."""
        return of_json(self.before_type, plan.before)

    def rows_of(self, plan: Plan) -> list[R]:
        """Return the rows of a plan's diff."""
        return [of_json(self.row_type, row) for row in plan.diff]

    def leaving_out(self, params: P, brokers: Sequence[str]) -> P:
        """Return the parameters with these silent brokers left out."""
        return msgspec.structs.replace(params, accept_without=tuple(brokers))  # type: ignore[type-var]

    # --- Name, rights and words ---

    # In the table, in URLs, REST and the audit: ``offset_change``.
    kind: ClassVar[str]
    # The access verb it needs: RESET, REPLAY, CONFIGURE, …
    verb: ClassVar[str]
    # As a heading: ``Offset change``.
    title: ClassVar[Text]
    # Why the name must be typed.
    typed_reason: ClassVar[Text] = Text("This change cannot be undone directly")
    cancel_words: ClassVar[Text] = Text("Queues that were moved stay where they are; Undo moves them back.")
    # Its letter on the charts of a group.
    chart_mark: ClassVar[str] = SETTINGS_MARK

    # --- Pages, and ways without one ---

    place: ClassVar[Place] = GROUPS
    diff_template: ClassVar[str] = PLAIN_DIFF
    job_template: ClassVar[str] = PLAIN_JOB
    another: ClassVar[Another | None] = None
    # Sentences of its summaries, and what they read once the plan is carried out.
    past: ClassVar[Mapping[str, str]] = {}
    # The management command that plans, applies and undoes it.
    program: ClassVar[str] = ""

    # --- How its jobs run ---

    # Minutes or hours: only some threads take such jobs.
    runs_long: ClassVar[bool] = False

    def place_of(self, plan: Plan) -> Place:
        """Return where the subject of this plan is found."""
        return self.place

    def shown_to(self, plan: Plan, person: Any) -> Plan:
        """Return the plan as a person may see it, never to be saved; None is a person without any right."""
        return plan

    def done_words(self, plan: Plan) -> Text:
        """Return the summary of a plan that was carried out."""
        return plan.summary.put_as(self.past)

    def button(self, plan: Plan) -> Text:
        """Label the button that applies the plan with the consequence, not "OK"."""
        return Text("Apply the plan")

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether the plan takes nothing away: its button is no danger."""
        return False

    def sums(self, plan: Plan) -> Any:
        """Return what the diff template shows below the rows."""
        return None

    def step_values(self, plan: Plan) -> tuple[Text, ...]:
        """Return the chosen scope and target in a few words, for the steps above a plan and its job."""
        return ()

    def job_rows(self, job: Job) -> Sequence[JobRow]:
        """Return the rows of a job that its template shows."""
        return ()

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Yield the diff as the commands print it."""
        return ()

    def rest_call(self, cluster: str, subject: str, params: P) -> RestCall | None:
        """Return the request that makes such a plan; None if there is none, as for an undo."""
        return None

    def command_line(self, cluster: str, subject: str, params: P) -> str:
        """Return the shell command that makes such a plan."""
        return ""

    def same_plan(self, cluster: str, subject: str, params: P) -> SamePlan | None:
        """Return how to make this plan without a page; None if not possible."""
        call = self.rest_call(cluster, subject, params)
        if call is None:
            return None
        return SamePlan(
            path=call.path,
            body=shlex.quote(json.dumps(dict(call.body), ensure_ascii=False)),
            command=self.command_line(cluster, subject, params),
        )

    # --- What it does ---

    def also_reads(self, params: P) -> list[str]:
        """Return other groups or topics that the plan shows: its maker must be allowed to see them too."""
        return []

    def also_reads_elsewhere(self, params: P) -> list[tuple[str, str]]:
        """Return (cluster, group or topic) of other clusters, likewise."""
        return []

    def rate_per_s(self, plan: Plan) -> int | None:
        """Return the rate its job starts with, in messages per second; None: as fast as it goes."""
        return None

    def holds(self, cluster: str, subject: str) -> str:
        """Return the name that only one job at a time may work on; "" for nothing.

        Unique over all kinds, at most 400 characters.
        """
        return ""

    @abstractmethod
    def compute(self, cluster: str, subject: str, params: P, now_ms: int) -> Draft[P, B, R]:
        """Read the brokers and work out what would change. Changes nothing."""

    @abstractmethod
    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Return what moved beyond normal progress since the plan was computed; [] if nothing did."""

    @abstractmethod
    def apply(self, run: JobRun) -> None:
        """Make the change.

        Called again after a crash: resumes from ``run.progress_as(…)`` and the kind's own rows.
        """

    @abstractmethod
    def verify(self, run: JobRun) -> None:
        """Poll until the brokers show the target; raise VerificationFailed if they do not."""

    @abstractmethod
    def settle(self, run: JobRun) -> None:
        """Resolve what is in flight and write the result so far: the job is being cancelled."""

    def give_up(self, run: JobRun) -> None:  # noqa: B027 (most kinds keep no such rows)
        """Close rows without outcome after a failure, without brokers, in the transaction that ends the job."""

    @abstractmethod
    def undo_params(self, plan: Plan, job: Job) -> P | None:
        """Return the parameters of the plan that restores everything, or None if that is impossible."""


AnyPlanKind: TypeAlias = PlanKind[Any, Any, Any]
