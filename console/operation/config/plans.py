"""The deeds that topics and groups have in common: create, change, quarantine, release, delete, each on every broker.

A kind is a deed of an object. The deed (`CreatePlan`, …) says what becomes of the object on each broker; the object
(`ObjectPlan`, with a subclass in the app's own plans) says how it is read, who uses it and in which words that is told.
Deleting is offered from quarantine only: first nobody may use the object, then one sees whether anybody misses it, then
it goes.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from console.brokers.mqadmin import BlockingMQAdmin
from console.operation.config.change import (
    Config,
    ConfigPlan,
    ConfigRow,
    admin_of,
    change_summary,
    chosen_brokers,
    denied,
    exact_rows,
    left_out_rows,
    nothing_changes,
    overwritten_warning,
    read_configs,
    reopened,
)
from console.operation.config.quarantine import Quarantine, quarantine_hours, quarantine_of, waiting
from console.operation.errors import PlanRejected
from console.operation.models import Plan
from console.operation.plan.coverage import Coverage, read_coverage
from console.operation.plan.kinds import Draft, PlanWarning
from console.operation.plan.params import broker_names, refuse_unknown
from console.text import Text

Facts = TypeVar("Facts")


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a plan is asked for, and what the brokers say to that, read once. ``brokers``: all of the cluster, those
    that do not answer included; ``held_by``: those that have the object, or may have it, as far as rows know.
    """

    admin: BlockingMQAdmin
    cluster: str
    brokers: Coverage
    held_by: frozenset[str]
    what: str  # TOPIC | GROUP
    subject: str
    params: Mapping[str, Any]
    now_ms: int

    @property
    def addrs(self) -> Mapping[str, str]:
        """Broker name → address of its master, of those that answer."""
        return self.brokers.addrs

    @cached_property
    def found(self) -> dict[str, Config | None]:
        """The object's configuration on every broker. Raises BrokerUnavailable for a silent one."""
        return read_configs(self.admin, self.addrs, self.what, self.subject)

    @property
    def existing(self) -> dict[str, Config]:
        """The brokers that have it. Raises PlanRejected when none has, BrokerUnavailable when one that does not answer
        may have it.
        """
        here = {name: config for name, config in self.found.items() if config is not None}
        if not here:
            self.brokers.of_brokers(self.held_by, ()).require_some(self.subject)
            raise PlanRejected(
                Text("There is no %(what)s %(subject)s.", what=self.what, subject=self.subject), self.what
            )
        return here

    @cached_property
    def quarantine(self) -> Quarantine | None:
        """The quarantine that this console began, if nobody ended it."""
        return quarantine_of(self.cluster, self.what, self.subject)

    def row(self, broker: str, before: Config | None, after: Config | None, note: Text = Text()) -> ConfigRow:
        """What becomes of the object on one broker."""
        return ConfigRow(self.what, self.subject, broker, self.addrs[broker], before, after, note)


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """Parameters of create and change: the values that are named, and the brokers; none named: all of them."""

    brokers: tuple[str, ...]
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Stakes:
    """What a plan means for those who use the object. ``messages`` and ``typed`` as in `Draft`."""

    warnings: Sequence[PlanWarning] = ()
    messages: int = 0
    typed: bool = False


def read_wish(
    params: Mapping[str, Any],
    known: Collection[str],
    values_of: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> Wish:
    """Raises PlanRejected(field) for a parameter that nobody knows and for what ``values_of`` refuses."""
    refuse_unknown(params, sorted({*known, "brokers"}))
    return Wish(broker_names(params), values_of(params))


def where(rows: Sequence[ConfigRow]) -> Text:
    """``broker-a and broker-b``: the brokers of some rows, each once."""
    return Text.of_names(list(dict.fromkeys(row.broker_name for row in rows)))


class ObjectPlan(ConfigPlan, ABC, Generic[Facts]):
    """A deed of one object: what happens on which broker, and what a person must know before it does."""

    what: ClassVar[str]  # TOPIC | GROUP

    # --- Of the deed ---

    @abstractmethod
    def rows(self, asked: Asked) -> list[ConfigRow]:
        """What becomes of the object, broker by broker. Raises PlanRejected."""

    @abstractmethod
    def summary(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """The plan in one or two sentences."""

    def stakes(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> Stakes:
        """What it means for those who use the object."""
        return Stakes()

    def blocked(self, asked: Asked, rows: Sequence[ConfigRow]) -> Text:
        """Why it can not be applied; empty where it can."""
        return nothing_changes(rows)

    # --- Of the object ---

    @abstractmethod
    def facts(self, asked: Asked, rows: Sequence[ConfigRow]) -> Facts:
        """Who uses the object now."""

    @abstractmethod
    def recorded(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> dict[str, Any]:
        """What the plan keeps of that: `Draft.before`, with the rows of its impact."""

    @abstractmethod
    def check_changeable(self, asked: Asked) -> None:
        """Raise PlanRejected for an object that RocketMQ needs as it is."""

    @abstractmethod
    def removed_again(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> tuple[Text, Text]:
        """(summary, why not) of an undo that takes a created object away again."""

    @abstractmethod
    def created_again(self, asked: Asked, rows: Sequence[ConfigRow]) -> Text:
        """The summary of an undo that makes a deleted object again: how much of it comes back."""

    @abstractmethod
    def held_by(self, cluster: str, subject: str, brokers: Coverage) -> frozenset[str]:
        """The brokers that do not answer and have the object, or may have it, as far as rows know."""

    def scope(self, asked: Asked) -> frozenset[str]:
        """The brokers that the plan is about: those that are named, else those that have the object."""
        if "exact" in asked.params:
            return frozenset(each["broker_name"] for each in asked.params["exact"])
        return frozenset(broker_names(asked.params)) or asked.held_by

    # --- The same for all ---

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the brokers and say what would change. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        asked = self._asked(cluster, subject, params, now_ms)
        is_undo = "exact" in params
        rows = exact_rows(asked.admin, asked.brokers, params["exact"]) if is_undo else self.rows(asked)
        cover = asked.brokers.of_brokers(self.scope(asked), [row.broker_name for row in rows])
        if not rows:
            cover.require_some(subject)
        facts = self.facts(asked, rows)
        if is_undo:
            summary, blocked = self._put_back(asked, rows, facts)
            stakes = Stakes(overwritten_warning(rows))
        else:
            summary, blocked = self.summary(asked, rows, facts), self.blocked(asked, rows)
            stakes = self.stakes(asked, rows, facts)
        return Draft(
            summary=summary,
            diff=[row.as_row() for row in rows] + left_out_rows(cover, self.what, subject),
            before=self.recorded(asked, rows, facts),
            messages=stakes.messages,
            warnings=list(stakes.warnings),
            coverage=cover,
            blocked=blocked,
            typed=stakes.typed,
        )

    def _asked(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Asked:
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params)
        held_by = self.held_by(cluster, subject, brokers)
        return Asked(admin, cluster, brokers, held_by, self.what, subject, params, now_ms)

    def _put_back(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> tuple[Text, Text]:
        """(summary, why not) of the undo of a plan of this kind: every broker gets the configuration it had."""
        if any(row.after is None and row.before is not None for row in rows):
            summary, why_not = self.removed_again(asked, rows, facts)
            return summary, why_not or nothing_changes(rows)
        if any(row.before is None for row in rows):
            summary = self.created_again(asked, rows)
        else:
            summary = Text(
                "This will put the configuration of %(name)s on %(where)s back, to the letter.",
                name=asked.subject,
                where=where(rows),
            )
        return summary, nothing_changes(rows)


class CreatePlan(ObjectPlan[Facts]):
    """params: {brokers?} and the object's settings; what is not named gets RocketMQ's default."""

    def scope(self, asked: Asked) -> frozenset[str]:
        """The brokers that are named, or all of the cluster."""
        if "exact" in asked.params:
            return super().scope(asked)
        return frozenset(broker_names(asked.params)) or frozenset({*asked.addrs, *asked.brokers.absent})

    @abstractmethod
    def new_config(self, asked: Asked) -> tuple[Wish, Config]:
        """What is wished, and the configuration it makes. Raises PlanRejected for an illegal name or value."""

    def rows(self, asked: Asked) -> list[ConfigRow]:
        """A row per chosen broker. A broker that has the object stays as it is; refused if all have it."""
        wish, config = self.new_config(asked)
        rows = []
        for broker in chosen_brokers(asked.brokers, wish.brokers):
            before = asked.found[broker]
            note = Text() if before is None else Text("has the %(what)s already", what=self.what)
            rows.append(asked.row(broker, before, config if before is None else before, note))
        if rows and all(row.before is not None for row in rows):
            raise PlanRejected(
                Text(
                    "There is a %(what)s %(subject)s already; change it instead.",
                    what=self.what,
                    subject=asked.subject,
                ),
                self.what,
            )
        return rows


class ChangePlan(ObjectPlan[Facts]):
    """params as for create; what is not named stays. ``brokers``: only these."""

    settings_words: ClassVar[Text]  # what can be changed

    @abstractmethod
    def wish(self, asked: Asked) -> Wish:
        """Raises PlanRejected(field)."""

    @abstractmethod
    def changed(self, before: Config, values: Mapping[str, Any]) -> Config:
        """The configuration with the wished values in it; everything else stays to the letter."""

    def rows(self, asked: Asked) -> list[ConfigRow]:
        """A row per broker that has the object; those not chosen stay."""
        self.check_changeable(asked)
        wish = self.wish(asked)
        chosen_brokers(asked.brokers, wish.brokers)
        existing = asked.existing
        for broker in wish.brokers:
            if broker in asked.addrs and broker not in existing:
                raise PlanRejected(
                    Text(
                        "%(broker)s does not have the %(what)s %(subject)s; create it there first.",
                        broker=broker,
                        what=self.what,
                        subject=asked.subject,
                    ),
                    "brokers",
                )
        if not wish.values:
            raise PlanRejected(Text("Say what shall change: %(settings)s.", settings=self.settings_words))
        chosen = wish.brokers or tuple(existing)
        return [
            asked.row(broker, before, self.changed(before, wish.values) if broker in chosen else before)
            for broker, before in existing.items()
        ]

    def summary(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """What changes where."""
        return change_summary(asked.subject, rows)


class QuarantinePlan(ObjectPlan[Facts]):
    """No params: nobody may use it any more. What it was is kept; release puts it back."""

    closes: ClassVar[Text]  # what nobody may do from now on, and what stays
    is_closed: ClassVar[Text]  # why there is nothing to do

    def rows(self, asked: Asked) -> list[ConfigRow]:
        """Every broker that has it."""
        self.check_changeable(asked)
        return [
            asked.row(broker, before, denied(self.what, before)) for broker, before in asked.existing.items()
        ]

    def summary(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """What ends, and what comes next."""
        return Text(
            "This will put %(name)s on %(where)s in quarantine: %(closes)s. Deleting is offered after "
            "%(hours)s hours; release takes one click.",
            name=asked.subject,
            where=where(rows),
            closes=self.closes,
            hours=quarantine_hours(),
        )

    def blocked(self, asked: Asked, rows: Sequence[ConfigRow]) -> Text:
        """It is closed on every broker already."""
        if any(row.changes for row in rows):
            return Text()
        return Text("%(name)s %(is_closed)s.", name=asked.subject, is_closed=self.is_closed)


class ReleasePlan(ObjectPlan[Facts]):
    """No params: what was allowed before the quarantine is allowed again."""

    opens: ClassVar[Text]  # what is allowed again
    switch: ClassVar[Text]  # what to change where this console did not begin the quarantine

    def rows(self, asked: Asked) -> list[ConfigRow]:
        """Every broker that has it; those that were not closed by the quarantine stay."""
        existing, quarantine = asked.existing, asked.quarantine
        if quarantine is None:
            raise PlanRejected(
                Text(
                    "This console did not put %(subject)s in quarantine; change %(switch)s instead.",
                    subject=asked.subject,
                    switch=self.switch,
                )
            )
        former = quarantine.former
        return [
            asked.row(
                broker, before, reopened(self.what, before, former[broker]) if broker in former else before
            )
            for broker, before in existing.items()
        ]

    def summary(self, asked: Asked, rows: Sequence[ConfigRow], facts: Facts) -> Text:
        """Which brokers let it go."""
        released = [row for row in rows if row.changes] or rows
        return Text(
            "This will release %(name)s on %(where)s: %(opens)s.",
            name=asked.subject,
            where=where(released),
            opens=self.opens,
        )


class DeletePlan(ObjectPlan[Facts]):
    """Blocked until the object has been in quarantine for QUARANTINE_HOURS, unless ``must_wait`` is false."""

    must_wait: ClassVar[bool] = True

    @abstractmethod
    def used_since(self, plan: Plan, now: Mapping[str, Any]) -> list[Text]:
        """Sentences about who began to use it since the plan. ``now``: what `recorded` gives now."""

    def rows(self, asked: Asked) -> list[ConfigRow]:
        """It goes from every broker that has it."""
        self.check_changeable(asked)
        return [asked.row(broker, before, None) for broker, before in asked.existing.items()]

    def blocked(self, asked: Asked, rows: Sequence[ConfigRow]) -> Text:
        """How long it has to wait."""
        if not self.must_wait:
            return Text()
        return waiting(self.what, asked.existing, asked.quarantine, asked.now_ms)

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Also refused when somebody began to use it since the plan."""
        moved = super().drift(plan, now_ms)
        if moved or "exact" in plan.params:
            return moved
        asked = self._asked(plan.cluster, plan.subject, plan.params, now_ms)
        rows = self.rows(asked)
        return self.used_since(plan, self.recorded(asked, rows, self.facts(asked, rows)))
