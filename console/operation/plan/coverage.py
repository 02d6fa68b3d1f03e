"""What a plan covers: the brokers and queues that belong to it, and which of them answer now.

A broker that is away keeps its state and returns with it, so a change that does not reach it is incomplete. Every plan
names what it does not cover, and is blocked until its maker accepts each such broker by name (``accept_without``).
A plan covers more than the name server lists: also what the collector's rows and the history have. A plan keeps its
`Coverage` as a `KeptCoverage`, a job what it leaves out as a `Verdict`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from console.brokers.mqadmin import BlockingMQAdmin, BrokerUnavailable, MessageQueue, MQBrokerError
from console.brokers.queues import MASTER_ID, ask_each
from console.lag import last_seen
from console.lag.last_seen import BrokerSeen
from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPT_WITHOUT
from console.text import Moment, Names, Text, text_of
from console.text.stored import Stored, of_json

if TYPE_CHECKING:
    from console.operation.models import Job, Plan

PROBE_DEADLINE_MS = 5_000  # a broker that answers at all does so within milliseconds
QUEUES, BROKERS = "queues", "brokers"
# ``how`` or ``action`` of a diff's row that the plan does not touch.
LEFT_OUT = "left_out"
NO_MASTER = Text("no master of it is registered with the name server")
UNLISTED = Text("no name server lists it")


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """A broker that does not answer. ``since_ms`` None: the collector still read it last time."""

    broker_name: str
    since_ms: int | None
    why: Text
    # Whether the collector ever read it; if not, what it holds is unknown.
    was_read: bool = True
    queues: tuple[MessageQueue, ...] = ()
    # Of a broker of another cluster that the plan only reads: what is unknown without it.
    unknown: Text = Text()

    @property
    def words(self) -> Text:
        if self.why == NO_MASTER:
            return Text("%(broker)s has no master now", broker=self.broker_name)
        if self.since_ms is None:
            return Text("%(broker)s does not answer", broker=self.broker_name)
        return Text(
            "%(broker)s has not answered since %(time)s",
            broker=self.broker_name,
            time=Moment(self.since_ms),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """The brokers that a plan covers, and those it does not.

    ``addrs``: broker name → address of its master, of those that answer. ``absent``: those that belong to the plan
    and do not answer. ``unit``: what is counted, QUEUES or BROKERS; ``covered``: how many of them the plan reaches.
    """

    addrs: Mapping[str, str]
    absent: Mapping[str, Absent]
    accept_without: tuple[str, ...] = ()
    # Broker name → V5_3_3, as the broker reports it.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unit: str = BROKERS
    covered: int = 0
    # Brokers of another cluster, as cluster/broker, that the plan only reads and that answer.
    read_from: Collection[str] = ()

    def reading(self, answering: Collection[str], silent: Mapping[str, Absent]) -> Coverage:
        """Return the coverage of a plan that also reads brokers of another cluster, each as cluster/broker."""
        return dataclasses.replace(self, absent={**self.absent, **silent}, read_from=answering)

    def of_brokers(self, names: Collection[str], covered: Collection[str]) -> Coverage:
        """Return the coverage of some brokers. Raises PlanRejected as `_checked` does."""
        absent = {name: each for name, each in self.absent.items() if name in names}
        return dataclasses.replace(self, absent=absent, unit=BROKERS, covered=len(set(covered)))._checked(
            self
        )

    def of_queues(self, lost: Iterable[MessageQueue], covered: int) -> Coverage:
        """Return the coverage of some queues; ``lost`` are on silent brokers. Raises as `of_brokers`."""
        of_broker: dict[str, list[MessageQueue]] = {}
        for queue in sorted(lost):
            of_broker.setdefault(queue.broker_name, []).append(queue)
        absent = {
            name: dataclasses.replace(self.absent[name], queues=tuple(queues))
            for name, queues in of_broker.items()
        }
        absent |= {name: each for name, each in self.absent.items() if each.unknown}
        return dataclasses.replace(self, absent=absent, unit=QUEUES, covered=covered)._checked(self)

    def _checked(self, cluster: Coverage) -> Coverage:
        """Raise PlanRejected for an accepted name that no broker has; one that answers again is covered."""
        names = {*cluster.addrs, *cluster.absent, *cluster.read_from}
        for name in self.accept_without:
            if name not in names:
                known = Names(sorted(names))
                raise PlanRejected(
                    Text("There is no broker %(name)s. Brokers: %(known)s.", name=name, known=known),
                    ACCEPT_WITHOUT,
                )
        return self

    @property
    def accepted(self) -> list[str]:
        """Return the absent brokers that are accepted as left out."""
        return [name for name in sorted(self.absent) if name in self.accept_without]

    @property
    def open(self) -> list[Absent]:
        """Return the absent brokers that are not accepted yet."""
        return [self.absent[name] for name in sorted(self.absent) if name not in self.accept_without]

    @property
    def expected(self) -> int:
        """Return how many queues or brokers belong to the plan."""
        lost = sum(len(each.queues) for each in self.absent.values())
        return self.covered + (lost if self.unit == QUEUES else len(self.absent))

    @property
    def blocked(self) -> Text:
        """Return why the plan cannot be applied; empty if it can."""
        if not self.open:
            return Text()
        if len(self.open) == 1:
            way_out = Text("Wait until it answers, or accept that the change leaves it out.")
            return _two_sentences(self._with_loss(self.open[0]), way_out)
        silent = Text(
            "%(names)s do not answer", names=Text.of_names([each.broker_name for each in self.open])
        )
        held = sum(len(each.queues) for each in self.open)
        if held:
            silent = Text(
                "%(silent)s and hold %(number)s of %(total)s queues",
                silent=silent,
                number=held,
                total=self.expected,
            )
        way_out = Text("Wait until they answer, or accept that the change leaves them out.")
        return _two_sentences(silent, way_out)

    @property
    def notes(self) -> list[tuple[str, Text, Text]]:
        """Return (level, title, text) of a warning for each absent broker."""
        found = []
        for name, each in sorted(self.absent.items()):
            silent = self._with_loss(each)
            if each.why:
                silent = Text("%(silent)s: %(reason)s", silent=silent, reason=each.why)
            stays = Text("Its messages stay as they are, and are available again with it.")
            skips = Text("Messages that are unread on it alone may be skipped here.")
            text = _two_sentences(silent, skips if each.unknown else stays)
            if name in self.accept_without:
                found.append(("warn", Text("%(broker)s is left out", broker=name), text))
            else:
                found.append(("danger", Text("%(broker)s is not covered", broker=name), text))
        return found

    def kept(self) -> KeptCoverage:
        """Return the coverage as a plan keeps it."""
        return KeptCoverage(
            unit=self.unit,
            covered=self.covered,
            expected=self.expected,
            answering=tuple(sorted(self.addrs)),
            absent=tuple(
                KeptAbsent(
                    broker_name=name,
                    since_ms=each.since_ms,
                    why=each.why,
                    queues=len(each.queues) if self.unit == QUEUES and not each.unknown else None,
                    accepted=name in self.accept_without,
                )
                for name, each in sorted(self.absent.items())
            ),
        )

    def require_some(self, name: str) -> None:
        """Raise BrokerUnavailable if an object is only known on brokers that do not answer."""
        if self.absent:
            alone = Text(
                "%(name)s exists on %(brokers)s only",
                name=name,
                brokers=Text.of_names(sorted(self.absent)),
            )
            silent = Text.of_parts([each.words for _, each in sorted(self.absent.items())])
            raise BrokerUnavailable(" and ".join(sorted(self.absent)), _two_sentences(alone, silent))

    def _with_loss(self, absent: Absent) -> Text:
        """Describe a silent broker and what of the plan it holds."""
        if absent.unknown:
            return Text("%(silent)s, so %(unknown)s is unknown", silent=absent.words, unknown=absent.unknown)
        if self.unit == QUEUES:
            return Text(
                "%(silent)s and holds %(number)s of %(total)s queues",
                silent=absent.words,
                number=len(absent.queues),
                total=self.expected,
            )
        if not absent.was_read:
            return Text("%(silent)s and was never read, so what it holds is unknown", silent=absent.words)
        return absent.words


def _two_sentences(first: Text, second: Text) -> Text:
    return Text.of_parts([Text("%(sentence)s.", sentence=first), second])


def read_coverage(admin: BlockingMQAdmin, cluster: str, accepted: Sequence[str] = ()) -> Coverage:
    """Probe every broker of the cluster, including those that only the collector has seen.

    ``accepted``: silent brokers that the plan may leave out. Raises PlanRejected if no broker is known at all,
    BrokerUnavailable when no name server answers.
    """
    table = admin.cluster_info().broker_addr_table
    listed = {
        name: data.broker_addrs[MASTER_ID] for name, data in table.items() if MASTER_ID in data.broker_addrs
    }
    seen = last_seen.brokers_seen(cluster)
    if not listed and not seen:
        raise PlanRejected(Text("The name server lists no broker of this cluster."))
    answers = ask_each(admin, listed, lambda client, addr: client.runtime_info(addr), PROBE_DEADLINE_MS)
    silent = {
        name: text_of(answer)
        for name, answer in answers.items()
        if isinstance(answer, Exception) and not isinstance(answer, MQBrokerError)
    }
    silent |= {name: NO_MASTER for name in table if name not in listed}
    silent |= {name: UNLISTED for name in seen if name not in table}
    return Coverage(
        addrs={name: addr for name, addr in sorted(listed.items()) if name not in silent},
        absent={name: _absent(name, why, seen.get(name)) for name, why in silent.items()},
        accept_without=tuple(accepted),
        versions={
            name: answer.get("brokerVersionDesc", "")
            for name, answer in answers.items()
            if isinstance(answer, dict)
        },
    )


def with_seen(coverage: Coverage, names: Collection[str], read_at_ms: Mapping[str, int]) -> Coverage:
    """Add brokers that only rows or the history have. ``read_at_ms``: when each was last read."""
    gone = {
        name: Absent(name, read_at_ms.get(name), UNLISTED)
        for name in names
        if name not in coverage.addrs and name not in coverage.absent
    }
    return dataclasses.replace(coverage, absent={**coverage.absent, **gone}) if gone else coverage


def _absent(name: str, why: Text, seen: BrokerSeen | None) -> Absent:
    if seen is None:
        return Absent(name, None, why, was_read=False)
    # No round has seen it leave yet: it answered until then.
    since_ms = seen.silent_since_ms if seen.silent_since_ms is not None else seen.last_read_ms or None
    return Absent(name, since_ms, why, was_read=seen.was_read)


# --- Of an existing plan ------------------------------------------------------------------------------------


class KeptAbsent(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A broker that a plan does not reach. ``queues``: of the plan, where queues are counted."""

    broker_name: str
    since_ms: int | None
    why: Text
    queues: int | None
    accepted: bool


class _Scope(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """How much of what belongs to a plan it reaches."""

    unit: str
    covered: int
    expected: int
    absent: tuple[KeptAbsent, ...]


class KeptCoverage(_Scope, frozen=True, kw_only=True, omit_defaults=False):
    """The coverage of an existing plan."""

    # In the plan's column of its state before.
    key: ClassVar[str] = "coverage"

    answering: tuple[str, ...]

    @property
    def open(self) -> list[KeptAbsent]:
        """Return the absent brokers that are not accepted."""
        return [each for each in self.absent if not each.accepted]

    @property
    def accepted(self) -> list[str]:
        """Return the names of the absent brokers that are accepted as left out."""
        return [each.broker_name for each in self.absent if each.accepted]


class Verdict(_Scope, frozen=True, kw_only=True, omit_defaults=False):
    """What a job does not cover, and who accepted it."""

    # In the job's result.
    key: ClassVar[str] = "coverage"

    accepted_by: str

    @property
    def words(self) -> Text:
        """Format it: ``2 of 4 queues; broker-b left out, accepted by alice``."""
        names = Text.of_names([each.broker_name for each in self.absent])
        counted = Text("%(covered)s of %(total)s brokers", covered=self.covered, total=self.expected)
        if self.unit == QUEUES:
            counted = Text("%(covered)s of %(total)s queues", covered=self.covered, total=self.expected)
        return Text(
            "%(counted)s; %(names)s left out, accepted by %(by)s",
            counted=counted,
            names=names,
            by=self.accepted_by,
        )


def of_plan(plan: Plan) -> KeptCoverage | None:
    """Return the kept coverage of a plan; None for one that reaches everything."""
    found = plan.before.get(KeptCoverage.key)
    return of_json(KeptCoverage, found) if found else None


def of_job(job: Job) -> Verdict | None:
    """Return what a job does not cover; None if it covers everything."""
    found = job.result.get(Verdict.key)
    return of_json(Verdict, found) if found else None


def verdict(plan: Plan, accepted_by: str) -> Verdict | None:
    """Return what the job of a plan does not cover; None if it covers everything."""
    kept = of_plan(plan)
    if kept is None or not kept.absent:
        return None
    return Verdict(
        unit=kept.unit,
        covered=kept.covered,
        expected=kept.expected,
        absent=kept.absent,
        accepted_by=accepted_by,
    )


def recovered(plan: Plan, now: Coverage) -> list[Text]:
    """Return a sentence for each broker that the plan leaves out and that answers now."""
    kept = of_plan(plan)
    return [
        Text("%(broker)s answers again and is not part of this plan", broker=each.broker_name)
        for each in (kept.absent if kept else ())
        if each.broker_name in now.addrs
    ]


def gone_words(now: Coverage, planned: Collection[str]) -> list[Text]:
    """Return a sentence for each broker that the plan covers and that no longer answers."""
    return [silence(now, name) for name in sorted(planned) if name not in now.addrs]


def silence(now: Coverage, name: str) -> Text:
    """Describe a broker that does not answer, or has left the cluster."""
    return now.absent[name].words if name in now.absent else Text("%(broker)s is gone", broker=name)
