"""The plan kind ``broker_config_change``: change one key of the configuration of one or more brokers.

A row is one broker with the key before and after. Writing is safe to repeat: a broker that already has the target is
skipped; one with neither the value before nor the target was changed by someone else and is not touched.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from django.utils.translation import gettext_noop

from console.access.rules import WILDCARD
from console.broker import services
from console.broker.config.keys import (
    KEY_LENGTH_MAX,
    VALUE_LENGTH_MAX,
    ConfigKey,
    Effect,
    config_key,
    is_key_name,
    problem_of,
)
from console.broker.models import BrokerSurvey
from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin
from console.brokers.queues import ask_each, require_answer
from console.operation.config.change import ConfigPlan, admin_of, chosen_brokers, covered_rows
from console.operation.config.row import Config, ConfigRow, left_out_rows, nothing_changes
from console.operation.config.write import Comparison, ConfigWrite, WriteEvent, writes_of
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, gone_words, read_coverage, recovered
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import BROKERS, Draft, Need, Place, PlanWarning
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Given, Parameter, Params
from console.text import Text
from console.text.stored import Stored

BROKER = "broker"
READ_DEADLINE_MS = 5_000


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRequest:
    """The requested change; `values` is {broker name: the key's new value}."""

    key: ConfigKey
    values: Mapping[str, str]


class KeyParams(Params, frozen=True, kw_only=True):
    """One value of a key for the chosen brokers, or ``values`` with one per broker."""

    key: str
    value: str | None = None
    values: dict[str, str] | None = None
    brokers: tuple[str, ...] = ()


ACCEPTED = Accepted(
    "BrokerConfigParams",
    "One value for the chosen brokers, or ``values`` with one per broker.",
    (
        ACCEPTING,
        ON_BROKERS,
        Parameter("key", most=KEY_LENGTH_MAX, required=True),
        Parameter("value", most=VALUE_LENGTH_MAX),
        Parameter("values", dict, most=VALUE_LENGTH_MAX, help_text="broker → value"),
    ),
    subject="name of the broker, or * for several",
)


class KeyBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The key when the plan was made: its value on each broker."""

    key: str
    values: dict[str, str]


class BrokerConfigPlan(ConfigPlan[KeyParams, KeyBefore]):
    """Plan to change one key. params: {key, value, brokers?} or {key, values: {broker name: value}}.

    An undo uses the latter. The subject is one broker, or ``*`` with ``brokers`` (all of them without): that needs the
    right to configure the whole cluster.
    """

    kind = "broker_config_change"
    past = {
        "Change %(name)s on %(where)s %(change)s.": gettext_noop("Changed %(name)s on %(where)s %(change)s."),
    }
    accepted = ACCEPTED
    title = Text("Broker configuration")
    action = Text("Change the key")
    program = "brokers"
    typed_reason = Text("This affects a whole broker")
    params_type, before_type = KeyParams, KeyBefore

    def read_params(self, given: Given) -> KeyParams:
        """Read the key, and its value or values. Raises PlanRejected(field)."""
        found = super().read_params(given)
        if found.values is not None:
            return msgspec.structs.replace(found, value=None, brokers=())
        if found.value is None:
            raise PlanRejected(Text("Enter the value as text, as in a broker's configuration file."), "value")
        return found

    def is_undo(self, params: KeyParams) -> bool:
        """Return False: an undo is a plan with the former values."""
        return False

    def place_of(self, plan: Plan) -> Place:
        """Return the page of the plan; for several brokers the key is typed to confirm."""
        if plan.subject == WILDCARD:
            return dataclasses.replace(BROKERS, page="", name_words=Text("Name of the key"))
        return BROKERS

    def compute(
        self, cluster: str, subject: str, params: KeyParams, now_ms: int
    ) -> Draft[KeyParams, KeyBefore, ConfigRow]:
        """Read the key on every broker. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params.accept_without)
        addrs = brokers.addrs
        requested = read_request(params, subject, brokers)
        cover = brokers.of_brokers(requested.values, [name for name in requested.values if name in addrs])
        configs = read_configs(
            admin, {name: addrs[name] for name in sorted(requested.values) if name in addrs}
        )
        if not configs:
            cover.require_some(requested.key.name)
        rows = [_row(requested, name, addrs[name], config) for name, config in configs.items()]
        goes = [row for row in rows if row.before != row.after]
        confirm = subject if subject != WILDCARD else requested.key.name
        return Draft(
            summary=_summary(requested, goes) if goes else _unchanged(requested, rows),
            diff=[*rows, *left_out_rows(cover, BROKER, requested.key.name)],
            coverage=cover,
            before=KeyBefore(
                key=requested.key.name, values={row.broker_name: _value(row.before) for row in rows}
            ),
            needs=(Need("CONFIGURE", WILDCARD),),  # as for a drain
            params=KeyParams(
                key=requested.key.name, values=dict(requested.values), accept_without=tuple(cover.accepted)
            ),
            warnings=_warnings(cluster, requested, configs),
            blocked=nothing_changes(rows),
            typed=bool(requested.key.danger),
            confirm_text=confirm,
        )

    def command_line(self, cluster: str, subject: str, params: KeyParams) -> str:
        """Return ``manage.py brokers config KEY --set broker-a=value …``."""
        words = ["manage.py", "brokers", "config", params.key]
        for name, value in (params.values or {}).items():
            words += ["--set", f"{name}={value}"]
        words += [word for name in params.accept_without for word in ("--accept-without", name)]
        return shlex.join([*words, "--cluster", cluster])

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read the key again and compare with the plan."""
        admin = admin_of(plan.cluster)
        cover = read_coverage(admin, plan.cluster)
        addrs, names = cover.addrs, [row.broker_name for row in covered_rows(plan)]
        before, sentences = self.before_of(plan), recovered(plan, cover)
        sentences += gone_words(cover, names)
        for name in names:
            if name not in addrs:
                continue
            now = read_configs(admin, {name: addrs[name]})[name].get(before.key)
            if now != before.values[name]:
                sentences.append(
                    Text(
                        "%(key)s on %(broker)s is %(now)s now, not %(before)s",
                        key=before.key,
                        broker=name,
                        now=repr(now),
                        before=repr(before.values[name]),
                    )
                )
        return sentences

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite) -> ConfigWrite:
        """Write the key (25) unless it was changed meanwhile."""
        key, now = _key_now(admin, write)
        before, after = _value(write.before), _value(write.after)
        if now not in (before, after):
            return write.changed_by_another(Text("%(key)s is %(now)s", key=key, now=repr(now)))
        if now != after:
            admin.update_broker_config(write.addr, {key: after})
        return write.written()

    def compare(self, run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
        """Read the key again (26) and compare it with its target."""
        found, wrong = [], []
        for write in writes:
            key, now = _key_now(admin, write)
            after = _value(write.after)
            if now == after:
                found.append(write.on(WriteEvent.SHOWN, at_ms=run.now_ms()))
                continue
            found.append(write.on(WriteEvent.NOT_SHOWN))
            text = Text(
                "%(broker)s reports %(key)s=%(now)s, not %(after)s",
                broker=write.broker_name,
                key=key,
                now=repr(now),
                after=repr(after),
            )
            wrong.append(text)
        return Comparison(found, wrong)

    def undo_params(self, plan: Plan, job: Job) -> KeyParams | None:
        """Return the values recorded on each broker that was written."""
        values = {write.broker_name: _value(write.before) for write in writes_of(job) if write.is_done}
        return KeyParams(key=self.before_of(plan).key, values=values) if values else None

    def refresh_pages(self, cluster: str) -> None:
        """Request a survey too: it reads the configurations that the pages show."""
        services.request_survey(cluster)
        super().refresh_pages(cluster)


def read_request(params: KeyParams, subject: str, cluster: Coverage) -> KeyRequest:
    """Return the requested change. Raises PlanRejected naming the parameter.

    `*` without brokers means all of the cluster, including those that do not answer.
    """
    key, values = config_key(params.key), params.values
    if values is None:
        wanted = params.brokers or (() if subject == WILDCARD else (subject,))
        everything = sorted({*cluster.addrs, *cluster.absent})
        values = dict.fromkeys(wanted or everything, params.value or "")
    if not values:
        raise PlanRejected(Text("No broker is chosen."), "brokers")
    chosen_brokers(cluster, list(values))
    if subject != WILDCARD and set(values) != {subject}:
        raise PlanRejected(
            Text(
                "A plan for %(broker)s changes only %(broker)s. Use the subject * to change several brokers.",
                broker=subject,
            ),
            "brokers",
        )
    for one in values.values():
        problem = problem_of(key, one)
        if problem:
            about_key = key.fixed or key.is_secret or not is_key_name(key.name)
            raise PlanRejected(problem, "key" if about_key else "value")
    return KeyRequest(key, values)


def _key_now(admin: BlockingMQAdmin, write: ConfigWrite) -> tuple[str, str | None]:
    """Return the key of a write and its value on the broker now."""
    key = next(iter(write.after or {}))
    return key, read_configs(admin, {write.broker_name: write.addr})[write.broker_name].get(key)


def read_configs(admin: BlockingMQAdmin, addrs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return broker name → configuration. Raises BrokerUnavailable for a silent broker."""

    async def ask(client: MQAdmin, addr: str) -> dict[str, str]:
        return await client.broker_config(addr)

    answers = ask_each(admin, addrs, ask, READ_DEADLINE_MS)
    return {
        name: require_answer(name, addrs[name], answer, Text("its configuration"))
        for name, answer in answers.items()
    }


def _row(requested: KeyRequest, name: str, addr: str, config: Mapping[str, str]) -> ConfigRow:
    key = requested.key.name
    if key not in config:
        raise PlanRejected(
            Text(
                "%(name)s has no key %(key)s: this release would ignore it. The page of the broker lists "
                "all keys.",
                name=name,
                key=key,
            ),
            "key",
        )
    return ConfigRow.of(
        BROKER, name, name, addr, {key: config[key]}, {key: requested.values[name]}, _note(requested.key)
    )


def _note(key: ConfigKey) -> Text:
    return {
        Effect.RESTART: Text("takes effect after a restart"),
        Effect.AT_ONCE: Text("takes effect immediately"),
    }.get(key.effect, Text())


def _value(config: Config | None) -> str:
    return str(next(iter((config or {}).values()), ""))


def _summary(requested: KeyRequest, rows: Sequence[ConfigRow]) -> Text:
    key, where = requested.key, Text.of_names([row.broker_name for row in rows])
    befores, afters = {_value(row.before) for row in rows}, {_value(row.after) for row in rows}
    if len(befores) == len(afters) == 1:
        change = Text(
            "from %(before)s to %(after)s",
            before=befores.pop() or Text("empty"),
            after=key.with_unit(Text.foreign(after)) if (after := afters.pop()) else Text("empty"),
        )
    else:
        change = Text("to %(values)s", values=key.with_unit(Text.of_names(sorted(afters))))
    name = Text("%(key)s (%(says)s)", key=key.name, says=key.says) if key.says else Text.foreign(key.name)
    return Text("Change %(name)s on %(where)s %(change)s.", name=name, where=where, change=change)


def _unchanged(requested: KeyRequest, rows: Sequence[ConfigRow]) -> Text:
    key, values = requested.key, sorted({_value(row.after) for row in rows})
    return Text(
        "Nothing would change: %(key)s on %(where)s is %(values)s already.",
        key=key.name,
        where=Text.of_names([row.broker_name for row in rows]),
        values=key.with_unit(Text.of_names(values)) if any(values) else Text("empty"),
    )


def _warnings(
    cluster: str, requested: KeyRequest, configs: Mapping[str, Mapping[str, str]]
) -> list[PlanWarning]:
    key, found = requested.key, []
    if key.danger:
        found.append(PlanWarning("danger", Text("%(key)s is a dangerous key", key=key.name), key.danger))
    if key.effect == Effect.RESTART:
        found.append(PlanWarning("warn", Text("Used after a restart only"), RESTART_WORDS))
    elif key.effect == Effect.UNKNOWN:
        title = Text("This console has no description of %(key)s", key=key.name)
        found.append(
            PlanWarning(
                "info",
                title,
                Text("The broker decides whether the value is valid, and when it takes effect."),
            )
        )
    surveys = list(BrokerSurvey.objects.filter(cluster=cluster).order_by("broker_name", "broker_id"))
    slaves = sorted(
        {one.broker_name for one in surveys if one.broker_id and one.broker_name in requested.values}
    )
    if slaves:
        title = Text("Slaves of %(names)s keep their value", names=Text.of_names(slaves))
        found.append(PlanWarning("info", title, Text("Each slave has its own configuration.")))
    others = {one.broker_name: one.config for one in surveys if one.config is not None and one.broker_id == 0}
    return found + _difference_warning(requested, {**others, **configs})


RESTART_WORDS = Text(
    "The broker stores and reports the new value, but uses the old one until it "
    "restarts. A broker that cannot "
    "change the key at run time refuses, and nothing is changed there."
)


def _difference_warning(requested: KeyRequest, configs: Mapping[str, Mapping[str, str]]) -> list[PlanWarning]:
    """Warn when brokers will have different values; those not chosen as of the last survey."""
    after = {
        name: requested.values.get(name, config.get(requested.key.name, ""))
        for name, config in configs.items()
    }
    if len(set(after.values())) < 2:
        return []
    usual = Counter(after.values()).most_common(1)[0][0]
    odd = [
        Text("%(broker)s has %(value)s", broker=name, value=value or Text("nothing"))
        for name, value in sorted(after.items())
        if value != usual
    ]
    text = Text(
        "%(number)s broker(s) will have %(value)s; %(others)s.",
        number=len(after) - len(odd),
        value=usual or Text("nothing"),
        others=Text.of_list(odd),
    )
    return [PlanWarning("warn", Text("The brokers will differ"), text)]
