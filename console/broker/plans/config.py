"""The plan kind ``broker_config_change``: one key of a broker's configuration, on one or several brokers.

A row is one broker with the key before and after. Writing is safe to repeat: a broker that shows the target already is
left alone, one that shows neither the value before nor the target was changed by somebody else and is not touched.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from console.access.rules import WILDCARD
from console.broker import services
from console.broker.config.keys import ConfigKey, Effect, config_key, problem_of
from console.broker.models import BrokerSurvey
from console.broker.plans import equivalents
from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin
from console.brokers.queues import ask_each, told
from console.operation.config.change import (
    ConfigPlan,
    ConfigRow,
    admin_of,
    brokers_in_words,
    chosen_brokers,
    counted,
    covered_rows,
    left_out_rows,
    nothing_changes,
)
from console.operation.errors import PlanRejected
from console.operation.job.runner import JobRun
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, came_back, gone_words, read_coverage
from console.operation.plan.kinds import Draft, PlanWarning
from console.operation.plan.params import ACCEPT_WITHOUT, broker_names, refuse_unknown

BROKER = "broker"
READ_DEADLINE_MS = 5_000


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """`values` is {broker name: the key's new value}."""

    key: ConfigKey
    values: Mapping[str, str]


class BrokerConfigPlan(ConfigPlan):
    """params: {key, value, brokers?} or, for an undo, {key, values: {broker name: value}}.

    The subject is one broker, or ``*`` with ``brokers`` (all of them without): that needs the right to configure the
    whole cluster.
    """

    kind = "broker_config_change"

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the key on every broker. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params)
        addrs = brokers.addrs
        wish = read_wish(params, subject, brokers)
        cover = brokers.of_brokers(wish.values, [name for name in wish.values if name in addrs])
        configs = read_configs(admin, {name: addrs[name] for name in sorted(wish.values) if name in addrs})
        if not configs:
            cover.require_some(wish.key.name)
        rows = [_row(wish, name, addrs[name], config) for name, config in configs.items()]
        goes = [row for row in rows if row.before != row.after]
        accepted = {ACCEPT_WITHOUT: cover.accepted} if cover.accepted else {}
        asked = {"key": wish.key.name, "values": dict(wish.values), **accepted}
        confirm = subject if subject != WILDCARD else wish.key.name
        return Draft(
            summary=_summary(wish, goes or rows),
            diff=[row.as_row() for row in rows] + left_out_rows(cover, BROKER, wish.key.name),
            coverage=cover,
            before={
                "needs": [["CONFIGURE", "*"]],  # as for a drain
                "key": wish.key.name,
                "values": {row.broker_name: _value(row.before) for row in rows},
            },
            params=asked,
            warnings=_warnings(cluster, wish, configs),
            blocked=nothing_changes(rows),
            typed=bool(wish.key.danger),
            confirm_text=confirm,
            command="manage.py brokers apply {plan}" + (f" --confirm {confirm}" if wish.key.danger else ""),
            made_by=equivalents.made_by(cluster, self.kind, subject, asked),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[str]:
        """Read the key again and compare with the plan."""
        admin = admin_of(plan.cluster)
        cover = read_coverage(admin, plan.cluster, {})
        addrs, rows = cover.addrs, covered_rows(plan)
        key, sentences = plan.before["key"], came_back(plan.before, cover)
        sentences += gone_words(cover, [row["broker_name"] for row in rows])
        for row in rows:
            name = row["broker_name"]
            if name not in addrs:
                continue
            now = read_configs(admin, {name: addrs[name]})[name].get(key)
            if now != plan.before["values"][name]:
                sentences.append(f"{key} on {name} is {now!r} now, not {plan.before['values'][name]!r}")
        return sentences

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, row: dict[str, Any]) -> None:
        """Write the key (25) unless somebody else changed it meanwhile."""
        (key, after), before = next(iter(row["after"].items())), _value(row["before"])
        now = read_configs(admin, {row["broker_name"]: row["addr"]})[row["broker_name"]].get(key)
        if now not in (before, after):
            row["state"] = "failed"
            row["error"] = f"{row['broker_name']} was changed by somebody else meanwhile: {key} is {now!r}"
            return
        if now != after:
            admin.update_broker_config(row["addr"], {key: after})
        row["state"], row["error"] = "applied", ""

    def unlike(self, run: JobRun, admin: BlockingMQAdmin, rows: Sequence[dict[str, Any]]) -> list[str]:
        """Read the key again (26); sentences for the brokers that do not show their target yet."""
        wrong = []
        for row in rows:
            key, after = next(iter(row["after"].items()))
            now = read_configs(admin, {row["broker_name"]: row["addr"]})[row["broker_name"]].get(key)
            if now == after:
                row["state"], row["at_ms"] = "verified", run.now_ms()
            else:
                wrong.append(f"{row['broker_name']} shows {key}={now!r}, not {after!r}")
        return wrong

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """The values recorded on each broker that was written."""
        values = {
            row["broker_name"]: _value(row["before"])
            for row in job.result.get("brokers", [])
            if row["state"] in ("applied", "verified")
        }
        return {"key": plan.before["key"], "values": values} if values else None

    def look_again(self, cluster: str) -> None:
        """The survey too: it reads the configurations that the pages show."""
        services.request_survey(cluster)
        super().look_again(cluster)


def read_wish(params: Mapping[str, Any], subject: str, cluster: Coverage) -> Wish:
    """`*` without brokers is all of the cluster, those that do not answer included. Raises PlanRejected naming the
    parameter.
    """
    refuse_unknown(params, ("key", "value", "values", "brokers"))
    name, value, values = params.get("key"), params.get("value"), params.get("values")
    if not isinstance(name, str) or not name:
        raise PlanRejected("Name the key that changes.", "key")
    key = config_key(name)
    if values is None:
        if not isinstance(value, str):
            raise PlanRejected("Give the value as text, as it stands in a broker's file.", "value")
        wanted = broker_names(params) or (() if subject == WILDCARD else (subject,))
        everything = sorted({*cluster.addrs, *cluster.absent})
        values = dict.fromkeys(wanted or everything, value)
    elif not isinstance(values, Mapping) or not all(isinstance(one, str) for one in values.values()):
        raise PlanRejected("Values is one text for each broker name.", "values")
    if not values:
        raise PlanRejected("No broker is chosen.", "brokers")
    chosen_brokers(cluster, list(values))
    if subject != WILDCARD and set(values) != {subject}:
        raise PlanRejected(
            f"A plan of {subject} changes only {subject}; name * to change several.", "brokers"
        )
    for one in values.values():
        problem = problem_of(key, one)
        if problem:
            about_key = key.fixed or key.is_secret or "is not a configuration key" in problem
            raise PlanRejected(problem, "key" if about_key else "value")
    return Wish(key, values)


def read_configs(admin: BlockingMQAdmin, addrs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Broker name → configuration. Raises BrokerUnavailable for a silent one: nothing is changed blind."""

    async def ask(client: MQAdmin, addr: str) -> dict[str, str]:
        return await client.broker_config(addr)

    answers = ask_each(admin, addrs, ask, READ_DEADLINE_MS)
    return {name: told(name, addrs[name], answer, "its configuration") for name, answer in answers.items()}


def _row(wish: Wish, name: str, addr: str, config: Mapping[str, str]) -> ConfigRow:
    key = wish.key.name
    if key not in config:
        raise PlanRejected(
            f"{name} has no key {key}: a broker of this release would ignore it. Its page lists all keys.",
            "key",
        )
    return ConfigRow(BROKER, name, name, addr, {key: config[key]}, {key: wish.values[name]}, _note(wish.key))


def _note(key: ConfigKey) -> str:
    return {Effect.RESTART: "used after a restart", Effect.AT_ONCE: "used at once"}.get(key.effect, "")


def _value(config: Mapping[str, str] | None) -> str:
    return next(iter((config or {}).values()), "")


def _summary(wish: Wish, rows: Sequence[ConfigRow]) -> str:
    key, where = wish.key, brokers_in_words([row.broker_name for row in rows])
    befores, afters = {_value(row.before) for row in rows}, {_value(row.after) for row in rows}
    unit = f" {key.unit}" if key.unit else ""
    if len(befores) == len(afters) == 1:
        change = f"from {befores.pop() or 'empty'} to {afters.pop() or 'empty'}{unit}"
    else:
        change = f"to {' and '.join(sorted(afters))}{unit}"
    says = f" ({key.says})" if key.says else ""
    return f"This will change {key.name}{says} on {where} {change}."


def _warnings(cluster: str, wish: Wish, configs: Mapping[str, Mapping[str, str]]) -> list[PlanWarning]:
    key, found = wish.key, []
    if key.danger:
        found.append(PlanWarning("danger", f"{key.name} is a dangerous key", key.danger))
    if key.effect == Effect.RESTART:
        found.append(PlanWarning("warn", "Used after a restart only", RESTART_WORDS))
    elif key.effect == Effect.UNKNOWN:
        title = f"Nothing is known here about {key.name}"
        found.append(
            PlanWarning(
                "info", title, "The broker judges whether the value is possible, and when it is used."
            )
        )
    surveys = list(BrokerSurvey.objects.filter(cluster=cluster).order_by("broker_name", "broker_id"))
    slaves = sorted({one.broker_name for one in surveys if one.broker_id and one.broker_name in wish.values})
    if slaves:
        title = f"Slaves of {brokers_in_words(slaves)} keep their value"
        found.append(PlanWarning("info", title, "Each has a file of its own."))
    others = {one.broker_name: one.config for one in surveys if one.config is not None and one.broker_id == 0}
    return found + _difference_warning(wish, {**others, **configs})


RESTART_WORDS = (
    "The broker keeps the new value and shows it, and works by the old one until it starts anew. A broker that can "
    "not change the key while it runs refuses, and nothing is changed there."
)


def _difference_warning(wish: Wish, configs: Mapping[str, Mapping[str, str]]) -> list[PlanWarning]:
    """Which brokers will have another value afterwards; those not chosen as the last survey saw them."""
    after = {name: wish.values.get(name, config.get(wish.key.name, "")) for name, config in configs.items()}
    if len(set(after.values())) < 2:
        return []
    usual = Counter(after.values()).most_common(1)[0][0]
    odd = [f"{name} has {value or 'nothing'}" for name, value in sorted(after.items()) if value != usual]
    text = f"{counted(len(after) - len(odd), 'broker')} will have {usual or 'nothing'}; {', '.join(odd)}."
    return [PlanWarning("warn", "The brokers will not be alike", text)]
