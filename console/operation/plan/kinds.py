"""What a kind of plan is: its words, its pages, its ways without a page, and what it does.

A kind is a stateless object of the table ``settings.PLAN_KINDS`` (``console.plans.PLAN_KINDS``: name → kind). To add
one: docs/contributing.md.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import reverse
from django.utils.http import urlencode

from console.operation.plan.coverage import Coverage
from console.text import Text

if TYPE_CHECKING:
    from console.operation.job.runner import JobRun
    from console.operation.models import Job, Plan

PLAIN_DIFF, PLAIN_JOB = "operation/_diff_plain.html", "operation/_job_plain.html"
SETTINGS_MARK = "S"


# --- Where a kind stands in the pages ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link of a page; no ``url``: words alone."""

    words: Text
    url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where the subjects of a kind are found: their list, the page of one, and the label of its name."""

    words: Text  # of the list
    list_page: str  # URL name
    page: str = ""  # URL name of one subject's page
    filters_by: str = ""  # instead of a page: the parameter of the list that selects the subject
    name_words: Text = Text("Name of the group")

    def trail(self, cluster: str, subject: str) -> list[Link]:
        """The links above the title of a plan."""
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
    of_subject: bool = True  # whether its address names the subject

    def link(self, plan: Plan) -> Link:
        """The page for the subject of ``plan``."""
        args = [plan.cluster, plan.subject] if self.of_subject else [plan.cluster]
        return Link(self.words, reverse(self.page, args=args))


# --- What passes between a kind and ``services.py`` ----------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class RestCall:
    """A POST that makes a plan: path and body."""

    path: str
    body: Mapping[str, Any]


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
    diff: Sequence[Mapping[str, Any]]
    before: dict[str, Any]  # "needs": [[verb, topic or group], …] are rights needed besides the kind's own
    messages: int = 0  # blast radius: decides inline, typed or second person
    warnings: list[PlanWarning] = dataclasses.field(default_factory=list)
    params: dict[str, Any] | None = None  # normalised parameters, where they differ from the request's
    repeat_with: Mapping[str, Any] | None = None  # parameters that make this plan again, where those do not
    blocked: Text = Text()  # why it cannot be applied; empty where it can
    undo_of: str = ""  # id of the plan that this one takes back, where the parameters name it
    confirm_text: str = ""  # what is typed where that is not the subject's name
    typed: bool = False  # the name must be typed however few messages are touched: it cannot be taken back
    coverage: Coverage | None = None  # what the plan reaches, and what it does not; None: all of it


class PlanKind(ABC):
    """A change of one sort. Errors of ``compute``: PlanRejected (bad parameters), BrokerUnavailable,
    MQBrokerError."""

    # --- Name, rights and words ---

    kind: ClassVar[str]  # in the table, in URLs, REST and the audit: ``offset_change``
    verb: ClassVar[str]  # the access verb it needs: RESET, REPLAY, CONFIGURE, …
    title: ClassVar[Text]  # as a heading: ``Offset change``
    typed_reason: ClassVar[Text] = Text("This cannot simply be taken back")  # why a name is typed
    cancel_words: ClassVar[Text] = Text(
        "What is done stays done: queues that were moved stay where they are; Undo puts them back."
    )
    chart_mark: ClassVar[str] = SETTINGS_MARK  # its letter on the charts of a group

    # --- Pages, and ways without one ---

    place: ClassVar[Place] = GROUPS
    diff_template: ClassVar[str] = PLAIN_DIFF
    job_template: ClassVar[str] = PLAIN_JOB
    another: ClassVar[Another | None] = None
    program: ClassVar[str] = ""  # the management command that plans, applies and undoes it

    # --- How its jobs run ---

    runs_long: ClassVar[bool] = False  # minutes or hours: only some threads take such jobs

    def place_of(self, plan: Plan) -> Place:
        """Where the subject of this plan is found."""
        return self.place

    def button(self, plan: Plan) -> Text:
        """The label of the button that applies the plan: the consequence, not "OK"."""
        return Text("Apply the plan")

    def is_harmless(self, plan: Plan) -> bool:
        """Whether the plan takes nothing away: its button is no danger."""
        return False

    def sums(self, plan: Plan) -> Any:
        """What the diff template shows below the rows."""
        return None

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """The diff as the commands print it."""
        return ()

    def rest_call(self, cluster: str, subject: str, params: Mapping[str, Any]) -> RestCall | None:
        """The request that makes such a plan; None where there is none, as for an undo."""
        return None

    def command_line(self, cluster: str, subject: str, params: Mapping[str, Any]) -> str:
        """The shell command that makes such a plan."""
        return ""

    def same_plan(self, cluster: str, subject: str, params: Mapping[str, Any]) -> dict[str, str]:
        """How to make this plan without a page, quoted for a shell; {} where that is not possible."""
        call = self.rest_call(cluster, subject, params)
        if call is None:
            return {}
        return {
            "path": call.path,
            "body": shlex.quote(json.dumps(dict(call.body), ensure_ascii=False)),
            "command": self.command_line(cluster, subject, params),
        }

    # --- What it does ---

    def also_reads(self, params: Mapping[str, Any]) -> list[str]:
        """Other groups or topics that the plan shows something of: its maker must be allowed to see them too."""
        return []

    def holds(self, cluster: str, subject: str) -> str:
        """What one job at a time may work on, unique over all kinds, at most 400 characters; "" for nothing."""
        return ""

    @abstractmethod
    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the brokers and work out what would change. Changes nothing."""

    @abstractmethod
    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Sentences about what moved beyond normal progress since the plan was computed; [] = still true."""

    @abstractmethod
    def apply(self, run: JobRun) -> None:
        """Make the change. Called again after a crash: goes on where ``run.progress`` and its own rows stand."""

    @abstractmethod
    def verify(self, run: JobRun) -> None:
        """Watch until the brokers show the target; raise VerificationFailed when they do not."""

    @abstractmethod
    def settle(self, run: JobRun) -> None:
        """The job is being cancelled: resolve what is in flight and write the result so far."""

    def give_up(self, run: JobRun) -> None:  # noqa: B027 (most kinds keep no such rows)
        """The job failed: close rows without outcome, with no broker, inside the transaction that ends the job."""

    @abstractmethod
    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """Parameters of the plan that puts everything back, or None when physics does not allow it."""
