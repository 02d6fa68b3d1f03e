"""What the plan kinds ``acl_…`` have in common: read, compare, write, verify and restore, broker by broker.

A row is one object on one broker before and after, without its secret. The secret of a plan is in `kept_secrets`; a row
shows `stored` and `new` in its place. No broker gives a secret back, so an undo restores rights and leaves the secret.
"""

from __future__ import annotations

import copy
import dataclasses
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from django.urls import reverse
from django.utils.translation import gettext_noop

from console.access.rules import WILDCARD
from console.broker.acl.facts import BrokerAcl, Generation, NewSecret, read_acls
from console.broker.acl.params import (
    KEY_LENGTH_MIN,
    SECRET,
    AclBefore,
    AclParams,
    ObjectChange,
    check_name,
    check_secret,
)
from console.broker.acl.rights import (
    ACCOUNT,
    GROUP_RIGHT,
    NEW,
    SECRET_KEYS,
    TOPIC_RIGHT,
    perms_of,
    without_new_secret,
)
from console.broker.acl.write import is_between, send
from console.brokers.mqadmin import BlockingMQAdmin
from console.cluster import kept_secrets
from console.cluster import selectors as cluster_selectors
from console.operation.config.change import ConfigPlan, admin_of, chosen_brokers, covered_rows, undone
from console.operation.config.equivalents import config_plans_call
from console.operation.config.row import (
    OBJECT_WORDS,
    Config,
    ConfigRow,
    difference,
    left_out_rows,
    nothing_changes,
    overwritten_warning,
)
from console.operation.config.write import Comparison, ConfigWrite, WriteEvent
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, gone_words, read_coverage, recovered
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Draft, Link, Place, PlanWarning, RestCall
from console.operation.plan.params import Accepted, Given
from console.text import Text

A = TypeVar("A", bound=AclParams)
HIDDEN = "…"
PAST = {
    "Change %(name)s: %(changes)s.": gettext_noop("Changed %(name)s: %(changes)s."),
    "Create %(what)s %(name)s on %(where)s.": gettext_noop("Created %(what)s %(name)s on %(where)s."),
    "Delete %(what)s %(name)s on %(where)s.": gettext_noop("Deleted %(what)s %(name)s on %(where)s."),
    "Restore %(what)s %(name)s on %(where)s, without its secret.": gettext_noop(
        "Restored %(what)s %(name)s on %(where)s, without its secret."
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class AclPlace(Place):
    """The page of a cluster's access control; ``name``: what the plan changes."""

    name: str = ""

    def trail(self, cluster: str, subject: str) -> list[Link]:
        """Return the links above the title of a plan."""
        return [
            Link(self.words, reverse(self.list_page, args=[cluster])),
            Link(Text.foreign(self.name or subject)),
        ]


@dataclasses.dataclass(frozen=True)
class Inputs(Generic[A]):
    """The request for a plan, and what the brokers answered."""

    brokers: Coverage
    acls: Mapping[str, BrokerAcl]
    what: str
    generation: Generation
    params: A

    @cached_property
    def speaking(self) -> dict[str, BrokerAcl]:
        """Return the brokers that have such objects. Raises PlanRejected for a named one that has none."""
        found = {name: acl for name, acl in self.acls.items() if acl.generation == self.generation}
        for name in self.params.brokers:
            if name in self.acls and name not in found:
                raise PlanRejected(
                    Text("%(broker)s does not use them for access control.", broker=name), "brokers"
                )
        if not found and not self.brokers.absent:
            raise PlanRejected(Text("No broker of this cluster uses them for access control."), "brokers")
        return found

    @property
    def holders(self) -> dict[str, Config]:
        """Return the object on each broker that has it. Raises PlanRejected where none has, or as Coverage."""
        found = {
            name: config
            for name, acl in self.speaking.items()
            if (config := acl.of(self.what, self.params.name)) is not None
        }
        if not found:
            self.brokers.require_some(self.params.name)
            raise PlanRejected(
                Text(
                    "There is no %(what)s %(subject)s.",
                    what=OBJECT_WORDS[self.what],
                    subject=self.params.name,
                ),
                "name",
            )
        return found

    def row(self, broker: str, before: Config | None, after: Config | None, note: Text = Text()) -> ConfigRow:
        """Return what becomes of the object on one broker."""
        addr = self.brokers.addrs[broker]
        return ConfigRow.of(self.what, self.params.name, broker, addr, before, after, note)


class AclPlan(ConfigPlan[A, AclBefore], ABC, Generic[A]):
    """A change of one account, of one user or of the white addresses, broker by broker."""

    verb = "ADMIN"
    before_type = AclBefore
    past = PAST
    shown_with_next_round = False  # its page reads the brokers themselves
    program = "brokers"
    typed_reason = Text("Clients may lose access, or get access without an account")
    place = AclPlace(Text("Broker ACL"), "broker-acl", name_words=Text("Name of the account or user"))
    what: ClassVar[str]
    generation: ClassVar[Generation]

    # --- Defined by the action and the object ---

    @abstractmethod
    def rows(self, inputs: Inputs[A]) -> list[ConfigRow]:
        """Return what becomes of the object, broker by broker. Raises PlanRejected."""

    @abstractmethod
    def summary(self, name: str, rows: Sequence[ConfigRow]) -> Text:
        """Summarize the plan in a sentence."""

    def warnings(self, params: A, rows: Sequence[ConfigRow]) -> list[PlanWarning]:
        """Return what to know before it is applied; one of level danger makes the name be typed."""
        return []

    # --- The same for all ---

    def read_params(self, given: Given) -> A:
        """Read a request; its secret is kept apart. Raises PlanRejected(field)."""
        accepted: Accepted | None = self.accepted
        assert accepted is not None, self.kind
        fields = dict(given.read(accepted))
        secret = fields.pop(SECRET, "")
        if "name" in fields:
            check_name(fields["name"], KEY_LENGTH_MIN if self.what == ACCOUNT else 1)
        if secret:
            check_secret(secret)
            fields["secret_ref"] = kept_secrets.keep(secret)
        return self.params_type(**fields)

    def is_undo(self, params: A) -> bool:
        """Return whether a plan restores exactly what the job of another one recorded."""
        return bool(params.exact)

    def undo_params(self, plan: Plan, job: Job) -> A | None:
        """Return what each broker that was written had before."""
        exact = undone(job)
        return self.params_type(name=self.params_of(plan).name, exact=exact) if exact else None

    def place_of(self, plan: Plan) -> Place:
        """Return the page of access control, with the name of the object."""
        return dataclasses.replace(self.place, name=self.params_of(plan).name)

    def shown_to(self, plan: Plan, person: Any) -> Plan:
        """Return the plan without the reference of its secret."""
        shown = copy.copy(plan)
        shown.params = {key: value for key, value in plan.params.items() if key != "secret_ref"}
        return shown

    def rest_call(self, cluster: str, subject: str, params: A) -> RestCall | None:
        """Return the REST request, in which the secret has to be filled in; None for an undo."""
        if self.is_undo(params):
            return None
        call = config_plans_call(cluster, self.kind, subject, msgspec.structs.replace(params, secret_ref=""))
        if params.secret_ref:
            call.body["params"][SECRET] = HIDDEN
        return call

    def command_line(self, cluster: str, subject: str, params: A) -> str:
        """Return no command line: a secret on one would be in the history of a shell."""
        return ""

    def compute(self, cluster: str, subject: str, params: A, now_ms: int) -> Draft[A, AclBefore, ConfigRow]:
        """Read every broker and compute the change. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        if subject != WILDCARD:
            raise PlanRejected(
                Text("Accounts and users belong to the whole cluster: the subject must be *."), "subject"
            )
        inputs = self._inputs(admin_of(cluster), cluster, params)
        rows = _exact_rows(inputs) if params.exact else self.rows(inputs)
        scope = {each.broker_name for each in params.exact} or set(params.brokers)
        cover = inputs.brokers.of_brokers(
            scope or set(inputs.brokers.absent), [row.broker_name for row in rows]
        )
        if not rows:
            cover.require_some(params.name)
        if takes_secret(rows) and not params.secret_ref:
            # A secret that no person has: rights are restored, the account is of use once it gets another.
            params = msgspec.structs.replace(params, secret_ref=kept_secrets.keep(secrets.token_urlsafe(30)))
        warnings = (
            overwritten_warning(rows) + _undo_warnings(rows) if params.exact else self.warnings(params, rows)
        )
        return Draft(
            summary=self._summary(params, rows),
            diff=[*rows, *left_out_rows(cover, self.what, params.name)],
            coverage=cover,
            before=AclBefore(
                name=params.name,
                brokers={row.broker_name: ObjectChange(before=row.before, after=row.after) for row in rows},
            ),
            params=params,
            warnings=warnings,
            blocked=_own_key(cluster, self.what, rows) or _last_right(rows) or nothing_changes(rows),
            typed=any(each.level == "danger" for each in warnings),
            confirm_text=params.name,
        )

    def _inputs(self, admin: BlockingMQAdmin, cluster: str, params: A) -> Inputs[A]:
        brokers = read_coverage(admin, cluster, params.accept_without)
        named = params.brokers or tuple(each.broker_name for each in params.exact)
        acls = read_acls(admin, chosen_brokers(brokers, named))
        return Inputs(brokers, acls, self.what, self.generation, params)

    def _summary(self, params: A, rows: Sequence[ConfigRow]) -> Text:
        if not params.exact:
            return self.summary(params.name, rows)
        return Text(
            "Restore %(what)s %(name)s on %(where)s, without its secret.",
            what=OBJECT_WORDS[self.what],
            name=params.name,
            where=where(rows),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read every broker of the plan again and compare; a secret cannot be compared."""
        admin, rows = admin_of(plan.cluster), {row.broker_name: row for row in covered_rows(plan)}
        cover = read_coverage(admin, plan.cluster)
        sentences = [*recovered(plan, cover), *gone_words(cover, rows)]
        acls = read_acls(admin, {name: cover.addrs[name] for name in rows if name in cover.addrs})
        for broker, acl in acls.items():
            row = rows[broker]
            now = acl.of(row.what, row.name)
            if now != row.before:
                sentences.append(
                    Text("%(broker)s: %(difference)s", broker=broker, difference=difference(row.before, now))
                )
        if takes_secret(rows.values()) and self._secret(plan) is None:
            sentences.append(Text("its new secret has expired: enter it again"))
        return sentences

    def _secret(self, plan: Plan) -> NewSecret | None:
        params = self.params_of(plan)
        value = kept_secrets.secret_of(params.secret_ref) if params.secret_ref else None
        return None if value is None else NewSecret(params.name, value)

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite) -> ConfigWrite:
        """Bring one broker to its target, unless another client changed it meanwhile."""
        secret = self._secret(run.plan)
        if secret is None and NEW in (write.after or {}).values():
            return write.on(WriteEvent.REFUSED, error=Text("its new secret has expired: make the plan again"))
        acls = read_acls(admin, {write.broker_name: write.addr}, secret)
        now = acls[write.broker_name].of(*write.object)
        if not is_between(now, write.before, write.after):
            return write.changed_by_another(difference(write.before, now))
        if now != write.after:
            run.hold_lease()
            send(admin, write.addr, *write.object, now, write.after, secret)
        return write.written()

    def compare(self, run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
        """Read every broker again and compare with its target, the secret too."""
        acls = read_acls(admin, {write.broker_name: write.addr for write in writes}, self._secret(run.plan))
        found, wrong = [], []
        for write in writes:
            now = acls[write.broker_name].of(*write.object)
            if now == write.after:
                found.append(write.on(WriteEvent.SHOWN, at_ms=run.now_ms()))
                continue
            found.append(write.on(WriteEvent.NOT_SHOWN))
            wrong.append(
                Text(
                    "%(broker)s does not report it: %(difference)s",
                    broker=write.broker_name,
                    difference=difference(write.after, now),
                )
            )
        return Comparison(found, wrong)

    def verify(self, run: JobRun) -> None:
        """Poll the brokers until all have the target; then the secret is needed no more."""
        super().verify(run)
        if reference := self.params_of(run.plan).secret_ref:
            kept_secrets.drop(reference)


def where(rows: Sequence[ConfigRow]) -> Text:
    """Join the brokers of some rows."""
    return Text.of_names([row.broker_name for row in rows])


def takes_secret(rows: Iterable[ConfigRow]) -> bool:
    """Return whether a plan sets a secret."""
    return any(NEW in (row.after or {}).values() for row in rows)


def _exact_rows(inputs: Inputs[A]) -> list[ConfigRow]:
    """Return the rows of an undo: rights as they were; an account that was deleted gets a new secret."""
    rows = []
    for each in inputs.params.exact:
        acl = inputs.acls.get(each.broker_name)
        if acl is None:
            continue
        now, after = acl.of(each.what, each.name), without_new_secret(each.config)
        if now is None and after is not None and each.what in SECRET_KEYS:
            after = {**after, SECRET_KEYS[each.what]: NEW}
        note = Text()
        if now not in (without_new_secret(each.expected), without_new_secret(each.config)):
            left = without_new_secret(each.expected)
            note = Text("changed by another program since: %(difference)s", difference=difference(left, now))
        rows.append(inputs.row(each.broker_name, now, after, note))
    return rows


def _undo_warnings(rows: Sequence[ConfigRow]) -> list[PlanWarning]:
    if takes_secret(rows):
        text = Text(
            "The secret of a deleted account or user is not stored anywhere. It gets a random secret "
            "that is not shown: afterwards, set the secret that its clients use."
        )
        return [PlanWarning("warn", Text("Its secret cannot be restored"), text)]
    if any(row.after is None for row in rows):
        return [PlanWarning("danger", Text("Its clients will be refused"))]
    text = Text("A changed secret keeps its present value.")
    return [PlanWarning("info", Text("Permissions are restored, secrets are not"), text)]


def _own_key(cluster: str, what: str, rows: Sequence[ConfigRow]) -> Text:
    """Return why the account that the console itself signs with is left alone; empty for others."""
    own = cluster_selectors.cluster_by_name(cluster).access_key
    for row in rows:
        changes = row.after is None or NEW in row.after.values()
        if what in SECRET_KEYS and own and row.name == own and row.before is not None and changes:
            return Text(
                "This console signs its requests as %(name)s: set another access key in its connection "
                "first.",
                name=own,
            )
    return Text()


def _last_right(rows: Sequence[ConfigRow]) -> Text:
    """Return why the last right of an account cannot be taken away: 4.9.7 refuses a list without entries."""
    for row in rows:
        for prefix in (TOPIC_RIGHT, GROUP_RIGHT):
            before, after = perms_of(prefix, row.before or {}), perms_of(prefix, row.after or {})
            if row.what == ACCOUNT and row.after is not None and before and not after:
                return Text(
                    "RocketMQ 4.x cannot remove the last topic or group permission of an account: set it "
                    "to DENY."
                )
    return Text()
