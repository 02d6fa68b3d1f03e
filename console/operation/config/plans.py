"""Create, change, quarantine, release and delete topics and groups, on each broker.

A kind is an action on an object. The action (`CreatePlan`, …) computes what becomes of the object on each broker; the
object (`ObjectPlan`, with a subclass in the app's own plans) defines how it is read, who uses it, and the texts.
Deleting is offered only from quarantine: first no client may use the object, then it shows whether a client needs it,
then it is deleted.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

from django.utils.translation import gettext_noop

from console.brokers.mqadmin import BlockingMQAdmin
from console.operation.config.change import (
    ConfigParams,
    ConfigPlan,
    admin_of,
    chosen_brokers,
    exact_rows,
    read_configs,
    undone,
)
from console.operation.config.quarantine import Quarantine, quarantine_hours, quarantine_of, waiting
from console.operation.config.row import (
    OBJECT_WORDS,
    Config,
    ConfigRow,
    change_summary,
    denied,
    left_out_rows,
    nothing_changes,
    overwritten_warning,
    reopened,
)
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, read_coverage
from console.operation.plan.kinds import B, Draft, PlanWarning
from console.operation.plan.params import NOTHING
from console.text import Text

# Summaries of every object, and the same of a plan that was carried out.
PAST: dict[str, str] = {
    "Change %(name)s: %(changes)s.": gettext_noop("Changed %(name)s: %(changes)s."),
    (
        "Put %(name)s on %(where)s in quarantine: %(closes)s. It can be deleted after %(hours)s "
        "hours and released at any time."
    ): gettext_noop("Put %(name)s on %(where)s in quarantine: %(closes)s."),
    "Release %(name)s on %(where)s: %(opens)s.": gettext_noop("Released %(name)s on %(where)s: %(opens)s."),
    "Restore the configuration of %(name)s on %(where)s exactly.": gettext_noop(
        "Restored the configuration of %(name)s on %(where)s exactly."
    ),
}

C = TypeVar("C", bound=ConfigParams)
Facts = TypeVar("Facts")


@dataclasses.dataclass(frozen=True)
class PlanInput(Generic[C]):
    """The request for a plan, and the brokers' answers, read once.

    ``brokers``: all of the cluster, including those that do not answer. ``held_by``: those that have the object, or may
    have it, according to the collector's rows.
    """

    admin: BlockingMQAdmin
    cluster: str
    brokers: Coverage
    held_by: frozenset[str]
    what: str  # TOPIC | GROUP
    subject: str
    params: C
    now_ms: int

    @property
    def addrs(self) -> Mapping[str, str]:
        """Return broker name → address of its master, of those that answer."""
        return self.brokers.addrs

    @cached_property
    def found(self) -> dict[str, Config | None]:
        """Read the object's configuration on every broker. Raises BrokerUnavailable for a silent one."""
        return read_configs(self.admin, self.addrs, self.what, self.subject)

    @property
    def existing(self) -> dict[str, Config]:
        """Return the configuration on each broker that has the object.

        Raises PlanRejected if none has it, BrokerUnavailable if one that does not answer may have it.
        """
        here = {name: config for name, config in self.found.items() if config is not None}
        if not here:
            self.brokers.of_brokers(self.held_by, ()).require_some(self.subject)
            raise PlanRejected(
                Text("There is no %(what)s %(subject)s.", what=OBJECT_WORDS[self.what], subject=self.subject),
                self.what,
            )
        return here

    @cached_property
    def quarantine(self) -> Quarantine | None:
        """Return the quarantine that this console began, unless it was ended."""
        return quarantine_of(self.cluster, self.what, self.subject)

    def row(self, broker: str, before: Config | None, after: Config | None, note: Text = Text()) -> ConfigRow:
        """Return what becomes of the object on one broker."""
        return ConfigRow.of(self.what, self.subject, broker, self.addrs[broker], before, after, note)


@dataclasses.dataclass(frozen=True, slots=True)
class Stakes:
    """What a plan means for those who use the object. ``messages`` and ``typed`` as in `Draft`."""

    warnings: Sequence[PlanWarning] = ()
    messages: int = 0
    typed: bool = False


def where(rows: Sequence[ConfigRow]) -> Text:
    """Join the brokers of some rows, each once: ``broker-a and broker-b``."""
    return Text.of_names(list(dict.fromkeys(row.broker_name for row in rows)))


class ObjectPlan(ConfigPlan[C, B], ABC, Generic[Facts, C, B]):
    """An action on one object: what happens on which broker, and what to know before it is applied."""

    what: ClassVar[str]  # TOPIC | GROUP
    accepted = NOTHING  # of most actions
    past = PAST

    # --- Defined by the action ---

    @abstractmethod
    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return what becomes of the object, broker by broker. Raises PlanRejected."""

    @abstractmethod
    def summary(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """Summarize the plan in one or two sentences."""

    def stakes(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> Stakes:
        """Return what the plan means for those who use the object."""
        return Stakes()

    def blocked(self, inputs: PlanInput[C], rows: Sequence[ConfigRow]) -> Text:
        """Return why the plan cannot be applied; empty if it can."""
        return nothing_changes(rows)

    # --- Defined by the object ---

    @abstractmethod
    def facts(self, inputs: PlanInput[C], rows: Sequence[ConfigRow]) -> Facts:
        """Return who uses the object now."""

    @abstractmethod
    def recorded(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> B:
        """Return what the plan keeps of the facts: `Draft.before`, with the rows of its impact."""

    @abstractmethod
    def check_changeable(self, inputs: PlanInput[C]) -> None:
        """Raise PlanRejected for an object that RocketMQ needs as it is."""

    @abstractmethod
    def removed_again(
        self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts
    ) -> tuple[Text, Text]:
        """Return (summary, why not) of an undo that deletes a created object."""

    @abstractmethod
    def created_again(self, inputs: PlanInput[C], rows: Sequence[ConfigRow]) -> Text:
        """Summarize an undo that recreates a deleted object: how much of it is restored."""

    @abstractmethod
    def held_by(self, cluster: str, subject: str, brokers: Coverage) -> frozenset[str]:
        """Return the silent brokers that have the object, or may have it, according to the collector's rows."""

    def scope(self, inputs: PlanInput[C]) -> frozenset[str]:
        """Return the brokers of the plan: the named ones, else those that have the object."""
        if inputs.params.exact:
            return frozenset(each.broker_name for each in inputs.params.exact)
        return frozenset(inputs.params.brokers) or inputs.held_by

    # --- The same for all ---

    def is_undo(self, params: C) -> bool:
        """Return whether a plan restores exactly what the job of another one recorded."""
        return bool(params.exact)

    def undo_params(self, plan: Plan, job: Job) -> C | None:
        """Return the configurations recorded on each broker that was written."""
        exact = undone(job)
        return self.params_type(exact=exact) if exact else None

    def compute(self, cluster: str, subject: str, params: C, now_ms: int) -> Draft[C, B, ConfigRow]:
        """Read the brokers and compute the change. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        inputs = self._inputs(cluster, subject, params, now_ms)
        is_undo = self.is_undo(params)
        rows = exact_rows(inputs.admin, inputs.brokers, params.exact) if is_undo else self.rows(inputs)
        cover = inputs.brokers.of_brokers(self.scope(inputs), [row.broker_name for row in rows])
        if not rows:
            cover.require_some(subject)
        facts = self.facts(inputs, rows)
        if is_undo:
            summary, blocked = self._put_back(inputs, rows, facts)
            stakes = Stakes(overwritten_warning(rows))
        else:
            summary, blocked = self.summary(inputs, rows, facts), self.blocked(inputs, rows)
            stakes = self.stakes(inputs, rows, facts)
        return Draft(
            summary=summary,
            diff=[*rows, *left_out_rows(cover, self.what, subject)],
            before=self.recorded(inputs, rows, facts),
            messages=stakes.messages,
            warnings=list(stakes.warnings),
            coverage=cover,
            blocked=blocked,
            typed=stakes.typed,
        )

    def _inputs(self, cluster: str, subject: str, params: C, now_ms: int) -> PlanInput[C]:
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params.accept_without)
        held_by = self.held_by(cluster, subject, brokers)
        return PlanInput(admin, cluster, brokers, held_by, self.what, subject, params, now_ms)

    def _put_back(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> tuple[Text, Text]:
        """Return (summary, why not) of the undo: every broker gets back the configuration it had."""
        if any(row.after is None and row.before is not None for row in rows):
            summary, why_not = self.removed_again(inputs, rows, facts)
            return summary, why_not or nothing_changes(rows)
        if any(row.before is None for row in rows):
            summary = self.created_again(inputs, rows)
        else:
            summary = Text(
                "Restore the configuration of %(name)s on %(where)s exactly.",
                name=inputs.subject,
                where=where(rows),
            )
        return summary, nothing_changes(rows)


class CreatePlan(ObjectPlan[Facts, C, B]):
    """Create an object. params: {brokers?} and its settings; the others get RocketMQ's defaults."""

    def scope(self, inputs: PlanInput[C]) -> frozenset[str]:
        """Return the named brokers, or all of the cluster."""
        if inputs.params.exact:
            return super().scope(inputs)
        return frozenset(inputs.params.brokers) or frozenset({*inputs.addrs, *inputs.brokers.absent})

    @abstractmethod
    def new_config(self, inputs: PlanInput[C]) -> Config:
        """Return the configuration of the new object. Raises PlanRejected for an illegal name."""

    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return a row per chosen broker.

        A broker that has the object stays as it is; PlanRejected if all have it.
        """
        config, rows = self.new_config(inputs), []
        for broker in chosen_brokers(inputs.brokers, inputs.params.brokers):
            before = inputs.found[broker]
            note = (
                Text() if before is None else Text("has the %(what)s already", what=OBJECT_WORDS[self.what])
            )
            rows.append(inputs.row(broker, before, config if before is None else before, note))
        if rows and all(row.before is not None for row in rows):
            raise PlanRejected(
                Text(
                    "There is a %(what)s %(subject)s already; change it instead.",
                    what=OBJECT_WORDS[self.what],
                    subject=inputs.subject,
                ),
                self.what,
            )
        return rows


class ChangePlan(ObjectPlan[Facts, C, B]):
    """Change settings. params as for create; the others stay. ``brokers``: change only these."""

    # The settings that can be changed.
    settings_words: ClassVar[Text]

    @abstractmethod
    def has_settings(self, params: C) -> bool:
        """Return whether the parameters name a setting."""

    @abstractmethod
    def changed(self, before: Config, params: C) -> Config:
        """Return the configuration with the requested settings; everything else stays exactly as it is."""

    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return a row per broker that has the object; those not chosen stay."""
        self.check_changeable(inputs)
        params = inputs.params
        chosen_brokers(inputs.brokers, params.brokers)
        existing = inputs.existing
        for broker in params.brokers:
            if broker in inputs.addrs and broker not in existing:
                raise PlanRejected(
                    Text(
                        "%(broker)s does not have the %(what)s %(subject)s; create it there first.",
                        broker=broker,
                        what=OBJECT_WORDS[self.what],
                        subject=inputs.subject,
                    ),
                    "brokers",
                )
        if not self.has_settings(params):
            raise PlanRejected(
                Text("Give at least one setting to change: %(settings)s.", settings=self.settings_words)
            )
        chosen = params.brokers or tuple(existing)
        return [
            inputs.row(broker, before, self.changed(before, params) if broker in chosen else before)
            for broker, before in existing.items()
        ]

    def summary(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """Summarize what changes where."""
        return change_summary(inputs.subject, rows)


class QuarantinePlan(ObjectPlan[Facts, C, B]):
    """Deny all use of the object, without params. The former configuration is kept; release restores it."""

    # What clients may not do from now on, and what stays.
    closes: ClassVar[Text]
    # Why there is nothing to do.
    is_closed: ClassVar[Text]

    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return a row for every broker that has the object."""
        self.check_changeable(inputs)
        return [
            inputs.row(broker, before, denied(self.what, before))
            for broker, before in inputs.existing.items()
        ]

    def summary(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """Summarize what ends, and what comes next."""
        return Text(
            "Put %(name)s on %(where)s in quarantine: %(closes)s. It can be deleted after %(hours)s "
            "hours and released at any time.",
            name=inputs.subject,
            where=where(rows),
            closes=self.closes,
            hours=quarantine_hours(),
        )

    def blocked(self, inputs: PlanInput[C], rows: Sequence[ConfigRow]) -> Text:
        """Return that the object is closed on every broker already, if so."""
        if any(row.changes for row in rows):
            return Text()
        return Text("%(name)s %(is_closed)s.", name=inputs.subject, is_closed=self.is_closed)


class ReleasePlan(ObjectPlan[Facts, C, B]):
    """Allow again what was allowed before the quarantine, without params."""

    # What is allowed again.
    opens: ClassVar[Text]
    # What to change if this console did not begin the quarantine.
    switch: ClassVar[Text]

    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return a row for every broker that has the object; those the quarantine did not close stay."""
        existing, quarantine = inputs.existing, inputs.quarantine
        if quarantine is None:
            raise PlanRejected(
                Text(
                    "This console did not put %(subject)s in quarantine; change %(switch)s instead.",
                    subject=inputs.subject,
                    switch=self.switch,
                )
            )
        former = quarantine.former
        return [
            inputs.row(
                broker, before, reopened(self.what, before, former[broker]) if broker in former else before
            )
            for broker, before in existing.items()
        ]

    def summary(self, inputs: PlanInput[C], rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """Summarize which brokers are released."""
        released = [row for row in rows if row.changes] or rows
        return Text(
            "Release %(name)s on %(where)s: %(opens)s.",
            name=inputs.subject,
            where=where(released),
            opens=self.opens,
        )


class DeletePlan(ObjectPlan[Facts, C, B]):
    """Delete the object; blocked until QUARANTINE_HOURS in quarantine, unless ``must_wait`` is false."""

    must_wait: ClassVar[bool] = True

    @abstractmethod
    def used_since(self, plan: Plan, now: B) -> list[Text]:
        """Return a sentence for each new user since the plan. ``now``: what `recorded` returns now."""

    def rows(self, inputs: PlanInput[C]) -> list[ConfigRow]:
        """Return a deletion for every broker that has the object."""
        self.check_changeable(inputs)
        return [inputs.row(broker, before, None) for broker, before in inputs.existing.items()]

    def blocked(self, inputs: PlanInput[C], rows: Sequence[ConfigRow]) -> Text:
        """Return how long the object has to wait."""
        if not self.must_wait:
            return Text()
        return waiting(self.what, inputs.existing, inputs.quarantine, inputs.now_ms)

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Also refuse if a client began to use the object since the plan."""
        moved, params = super().drift(plan, now_ms), self.params_of(plan)
        if moved or self.is_undo(params):
            return moved
        inputs = self._inputs(plan.cluster, plan.subject, params, now_ms)
        rows = self.rows(inputs)
        return self.used_since(plan, self.recorded(inputs, rows, self.facts(inputs, rows)))
