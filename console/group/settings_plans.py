"""The plan kinds of group configuration: create, change, quarantine, release, delete.

A group in quarantine may not consume (``consumeEnable`` false); deleting is offered from there only.
``group_force_delete`` skips the wait and needs ADMIN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from console.group import settings_config
from console.group.settings_facts import OFFSETS_KEPT_MAX, GroupFacts, impact, read_group_facts
from console.mqadmin import BlockingMQAdmin, MQBrokerError, dead_letter_topic, retry_topic
from console.operation.broker_queues import TOPIC_NOT_EXIST
from console.operation.config_by_hand import made_by
from console.operation.config_change import (
    GROUP,
    TOPIC,
    Config,
    ConfigPlan,
    ConfigRow,
    admin_of,
    broker_addrs,
    brokers_in_words,
    change_summary,
    chosen_brokers,
    counted,
    exact_rows,
    is_denied,
    nothing_changes,
    overwritten_warning,
    read_configs,
)
from console.operation.errors import PlanRejected
from console.operation.kinds import Draft, PlanWarning
from console.operation.models import Job, Plan
from console.operation.quarantine import quarantine_hours, quarantine_of, waiting
from console.operation.runner import JobRun


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a plan is asked for, and the way to the brokers. ``addrs``: broker name → address of its master."""

    admin: BlockingMQAdmin
    cluster: str
    addrs: Mapping[str, str]
    subject: str
    params: Mapping[str, Any]
    now_ms: int

    def found(self) -> dict[str, Config | None]:
        """The group's configuration on every broker. Raises BrokerUnavailable for a silent one."""
        return read_configs(self.admin, self.addrs, GROUP, self.subject)

    def existing(self) -> dict[str, Config]:
        """The brokers that have it. Raises PlanRejected("group") when none has."""
        here = {name: config for name, config in self.found().items() if config is not None}
        if not here:
            raise PlanRejected(f"No broker has a group {self.subject}.", "group")
        return here

    def facts(self) -> GroupFacts:
        """Who uses the group, on any broker."""
        return read_group_facts(self.admin, self.cluster, self.addrs, self.subject, self.now_ms)


class GroupPlan(ConfigPlan):
    """What the kinds of groups share: reading the group, the undo, and what a plan keeps."""

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the brokers and say what would change. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        admin = admin_of(cluster)
        asked = Asked(admin, cluster, broker_addrs(admin), subject, params, now_ms)
        return self._put_back(asked) if "exact" in params else self._compute(asked)

    def _compute(self, asked: Asked) -> Draft:
        raise NotImplementedError

    def _put_back(self, asked: Asked) -> Draft:
        """The undo of a plan of this kind: every broker gets the configuration it had, and the offsets."""
        rows = exact_rows(asked.admin, asked.addrs, asked.params["exact"])
        facts = asked.facts()
        goes = [row for row in rows if row.after is None and row.before is not None]
        where = brokers_in_words(list(dict.fromkeys(row.broker_name for row in rows)))
        blocked = nothing_changes(rows)
        if goes and (facts.offsets or facts.members):
            blocked = "The group is in use since: put it in quarantine and delete it instead."
        offsets = len(asked.params.get("offsets", ()))
        if goes:
            summary = f"This will delete the unused group {asked.subject} on {where} again."
        elif any(row.before is None for row in rows):
            summary = f"This will create {asked.subject} on {where} as it was, with its committed offsets ({offsets})."
        else:
            summary = f"This will put the configuration of {asked.subject} on {where} back, to the letter."
        return self._draft(
            asked, rows, facts, summary=summary, warnings=overwritten_warning(rows), blocked=blocked
        )

    def _draft(
        self,
        asked: Asked,
        rows: Sequence[ConfigRow],
        facts: GroupFacts,
        *,
        summary: str,
        warnings: Sequence[PlanWarning] = (),
        blocked: str = "",
        messages: int = 0,
        typed: bool = False,
    ) -> Draft:
        confirm = " --confirm {subject}" if typed or messages else ""
        is_undo = "exact" in asked.params
        return Draft(
            summary=summary,
            diff=[row.as_row() for row in rows],
            before={
                "impact": impact(facts, asked.subject),
                "members": len(facts.members),
                "read_at_ms": facts.read_at_ms,
            },
            messages=messages,
            warnings=list(warnings),
            blocked=blocked,
            command="manage.py groups apply {plan}" + confirm,
            made_by={} if is_undo else made_by(asked.cluster, self.kind, asked.subject, asked.params),
            typed=typed,
        )


class GroupCreatePlan(GroupPlan):
    """params: {brokers?} and the fields of ``settings_config.FIELDS``."""

    kind = "group_create"

    def _compute(self, asked: Asked) -> Draft:
        settings_config.check_new_name(asked.subject)
        brokers, values = settings_config.read_wish(asked.params)
        found = asked.found()
        chosen = chosen_brokers(asked.addrs, brokers)
        rows = settings_config.create_rows(
            asked.subject, values, asked.addrs, {name: found[name] for name in chosen}
        )
        facts = asked.facts()
        new = [row.broker_name for row in rows if row.before is None]
        warnings = []
        left_out = [name for name in asked.addrs if name not in chosen and found[name] is None]
        if left_out:
            text = "A member that reads queues there is refused, unless the broker makes groups by itself."
            warnings.append(PlanWarning("warn", f"Not on {brokers_in_words(left_out)}", text))
        if facts.offsets:
            text = (
                f"{len(facts.offsets)} offsets were committed under this name before: it goes on from there."
            )
            warnings.append(PlanWarning("warn", "There are offsets of this name already", text))
        return self._draft(
            asked,
            rows,
            facts,
            summary=f"This will create the group {asked.subject} on {brokers_in_words(new)}.",
            warnings=warnings,
        )


class GroupChangePlan(GroupPlan):
    """params as group_create; what is not named stays. ``brokers``: only these."""

    kind = "group_change"

    def _compute(self, asked: Asked) -> Draft:
        settings_config.check_changeable(asked.subject)
        brokers, values = settings_config.read_wish(asked.params)
        chosen_brokers(asked.addrs, brokers)
        rows = settings_config.change_rows(asked.subject, brokers, values, asked.addrs, asked.existing())
        facts = asked.facts()
        stops = any(row.before and row.after and _stops(row.before, row.after) for row in rows)
        return self._draft(
            asked,
            rows,
            facts,
            summary=change_summary(asked.subject, rows),
            warnings=change_warnings(rows, facts),
            blocked=nothing_changes(rows),
            messages=_lag(facts) if stops else 0,
            typed=stops and (bool(facts.members) or _is_lag_unknown(facts)),
        )


class GroupQuarantinePlan(GroupPlan):
    """No params: its members may not consume any more. What it was is kept; release puts it back."""

    kind = "group_quarantine"

    def _compute(self, asked: Asked) -> Draft:
        settings_config.check_changeable(asked.subject)
        rows = [
            ConfigRow(
                GROUP, asked.subject, name, asked.addrs[name], before, {**before, "consumeEnable": False}
            )
            for name, before in asked.existing().items()
        ]
        facts = asked.facts()
        where = brokers_in_words([row.broker_name for row in rows])
        return self._draft(
            asked,
            rows,
            facts,
            summary=f"This will put {asked.subject} on {where} in quarantine: its members may not consume, its "
            f"offsets stay. Deleting is offered after {quarantine_hours()} hours; release takes one click.",
            warnings=use_warnings(facts),
            blocked="" if any(row.changes for row in rows) else f"{asked.subject} may not consume already.",
            messages=_lag(facts),
            typed=bool(facts.members) or _is_lag_unknown(facts),
        )


class GroupReleasePlan(GroupPlan):
    """No params: its members may consume again."""

    kind = "group_release"

    def _compute(self, asked: Asked) -> Draft:
        found = asked.existing()
        quarantine = quarantine_of(asked.cluster, GROUP, asked.subject)
        if quarantine is None:
            raise PlanRejected(
                f"This console did not put {asked.subject} in quarantine; change consumeEnable instead."
            )
        rows = [
            ConfigRow(
                GROUP,
                asked.subject,
                name,
                asked.addrs[name],
                before,
                {**before, "consumeEnable": True} if name in quarantine.former else before,
            )
            for name, before in found.items()
        ]
        where = brokers_in_words([row.broker_name for row in rows])
        return self._draft(
            asked,
            rows,
            asked.facts(),
            summary=f"This will release {asked.subject} on {where}: its members may consume again.",
            blocked=nothing_changes(rows),
        )


class GroupDeletePlan(GroupPlan):
    """params: {keep_offsets?: false, with_topics?: false}. Blocked until the group has been in quarantine for
    QUARANTINE_HOURS. ``with_topics``: its %RETRY% and %DLQ% topics go too.
    """

    kind = "group_delete"
    must_wait = True

    def _compute(self, asked: Asked) -> Draft:
        settings_config.check_changeable(asked.subject)
        keep_offsets, with_topics = _flags(asked.params)
        found = asked.existing()
        rows = [
            ConfigRow(GROUP, asked.subject, name, asked.addrs[name], before, None)
            for name, before in found.items()
        ]
        if with_topics:
            rows += _topic_rows(asked)
        facts = asked.facts()
        if len(facts.offsets) > OFFSETS_KEPT_MAX and not keep_offsets:
            text = f"{len(facts.offsets):,} offsets are more than a job keeps for its undo ({OFFSETS_KEPT_MAX:,})."
            raise PlanRejected(f"{text} Delete it with keep_offsets.", "keep_offsets")
        quarantine = quarantine_of(asked.cluster, GROUP, asked.subject)
        return self._draft(
            asked,
            rows,
            facts,
            summary=_delete_summary(asked.subject, rows, facts, keep_offsets, with_topics),
            warnings=[*use_warnings(facts), *_delete_warnings(asked.subject, facts, with_topics)],
            blocked=waiting(GROUP, found, quarantine, asked.now_ms) if self.must_wait else "",
            messages=max(_lag(facts), sum(facts.stored.values()) if with_topics else 0),
            typed=True,
        )

    def drift(self, plan: Plan, now_ms: int) -> list[str]:
        """Also refused when members came online since the plan."""
        moved = super().drift(plan, now_ms)
        if moved or "exact" in plan.params:
            return moved
        admin = admin_of(plan.cluster)
        facts = read_group_facts(admin, plan.cluster, broker_addrs(admin), plan.subject, now_ms)
        if len(facts.members) > plan.before["members"]:
            moved.append(
                f"{counted(len(facts.members), 'member', 'are')} online, {plan.before['members']} were"
            )
        return moved

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """The committed offsets, which the brokers forget with the group."""
        if "exact" in run.plan.params or run.plan.params.get("keep_offsets"):
            return
        addrs = broker_addrs(admin)
        facts = read_group_facts(admin, run.plan.cluster, addrs, run.plan.subject, run.now_ms())
        run.result["offsets"] = [[*place, offset] for place, offset in sorted(facts.offsets.items())]

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """An undo commits the recorded offsets again, once the group is there."""
        addrs = broker_addrs(admin)
        gone: set[str] = set()
        for broker_name, topic, queue_id, offset in run.plan.params.get("offsets", ()):
            run.beat()
            try:
                admin.update_consumer_offset(addrs[broker_name], run.plan.subject, topic, queue_id, offset)
            except MQBrokerError as error:
                if error.code != TOPIC_NOT_EXIST:
                    raise
                gone.add(topic)
        for topic in sorted(gone):
            run.note(f"Offsets of {topic} are not put back: the topic is gone", level="warn")

    def verify(self, run: JobRun) -> None:
        """Also that the offsets of an undo are back; members that read on may be further by now."""
        super().verify(run)
        wanted = run.plan.params.get("offsets", ())
        if not wanted:
            return
        admin = admin_of(run.plan.cluster)
        facts = read_group_facts(admin, run.plan.cluster, broker_addrs(admin), run.plan.subject, run.now_ms())
        back = sum(
            facts.offsets.get((broker_name, topic, queue_id), -1) >= offset
            for broker_name, topic, queue_id, offset in wanted
        )
        run.note(
            f"{back} of {len(wanted)} committed offsets are back",
            level="ok" if back == len(wanted) else "warn",
        )

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """The configurations and the offsets that were recorded."""
        params = super().undo_params(plan, job)
        written = {row["broker_name"] for row in job.result.get("brokers", []) if row["state"] != "waiting"}
        if params is None or "offsets" not in job.result:
            return params
        retry_kept = not plan.params.get("with_topics")
        offsets = [
            each
            for each in job.result["offsets"]
            if each[0] in written and (retry_kept or each[1] != retry_topic(plan.subject))
        ]
        return {**params, "offsets": offsets}


class GroupForceDeletePlan(GroupDeletePlan):
    """The same without quarantine."""

    kind = "group_force_delete"
    verb = "ADMIN"
    must_wait = False


# --- Words and judgements -----------------------------------------------------------------------------------


def _flags(params: Mapping[str, Any]) -> tuple[bool, bool]:
    unknown = sorted(set(params) - {"keep_offsets", "with_topics"})
    if unknown:
        raise PlanRejected(
            f"There is no parameter {unknown[0]!r}; there is keep_offsets, with_topics.", unknown[0]
        )
    for field in ("keep_offsets", "with_topics"):
        if not isinstance(params.get(field, False), bool):
            raise PlanRejected(f"{field} is true or false.", field)
    return bool(params.get("keep_offsets")), bool(params.get("with_topics"))


def _topic_rows(asked: Asked) -> list[ConfigRow]:
    return [
        ConfigRow(TOPIC, topic, name, asked.addrs[name], config, None)
        for topic in (retry_topic(asked.subject), dead_letter_topic(asked.subject))
        for name, config in read_configs(asked.admin, asked.addrs, TOPIC, topic).items()
        if config is not None
    ]


def _lag(facts: GroupFacts) -> int:
    """Messages that wait, as far as known; `_is_lag_unknown` says when that says nothing."""
    return 0 if facts.row is None else facts.row.lag or 0


def _is_lag_unknown(facts: GroupFacts) -> bool:
    return facts.row is not None and facts.row.lag is None


def _stops(before: Config, after: Config) -> bool:
    return not is_denied(GROUP, before) and is_denied(GROUP, after)


def change_warnings(rows: Sequence[ConfigRow], facts: GroupFacts) -> list[PlanWarning]:
    """What a change means for messages that wait for a retry, and for members that are online."""
    warnings = []
    for row in rows:
        before, after = row.before or {}, row.after or {}
        if _stops(before, after) and facts.members:
            text = "Their pulls are refused (NO_PERMISSION, 16) from the next one on."
            warnings.append(
                PlanWarning("danger", f"{counted(len(facts.members), 'member', 'are')} online", text)
            )
        if 0 <= after["retryMaxTimes"] < before["retryMaxTimes"]:
            text = "Messages that were retried as often already become dead letters at their next failure."
            warnings.append(PlanWarning("warn", f"At most {after['retryMaxTimes']} retries", text))
        if after["retryQueueNums"] < before["retryQueueNums"]:
            text = "The %RETRY% topic keeps the queues it has; new ones are made with this number."
            warnings.append(PlanWarning("info", "Fewer retry queues", text))
    return list(dict.fromkeys(warnings))


def use_warnings(facts: GroupFacts) -> list[PlanWarning]:
    """Who is using the group that is about to be taken away."""
    warnings = []
    if facts.members:
        names = ", ".join(facts.members[:3])
        warnings.append(
            PlanWarning("danger", f"{counted(len(facts.members), 'member', 'are')} online", f"Now: {names}.")
        )
    if _is_lag_unknown(facts):
        warnings.append(
            PlanWarning(
                "warn", "How many messages wait is unknown", "As of the last round; they may be many."
            )
        )
    elif _lag(facts):
        least = "at least " if facts.row is not None and facts.row.lag_lower_bound else ""
        words = f"{least}{counted(_lag(facts), 'message', 'are')} not handled yet"
        warnings.append(PlanWarning("warn", words[:1].upper() + words[1:], "As of the last round."))
    if not warnings:
        warnings.append(PlanWarning("ok", "Nobody uses it now", "No member is online, nothing waits for it."))
    return warnings


def _delete_summary(
    group: str, rows: Sequence[ConfigRow], facts: GroupFacts, keep_offsets: bool, with_topics: bool
) -> str:
    where = brokers_in_words([row.broker_name for row in rows if row.what == GROUP])
    offsets = "stay on the brokers" if keep_offsets else "go too and are recorded for the undo"
    topics = " and ".join(facts.stored)
    if not topics:
        about = "It has no retry or dead-letter topic."
    elif with_topics:
        about = f"Gone for good: {topics} with {counted(sum(facts.stored.values()), 'message')}."
    else:
        about = f"What stays: {topics} with {counted(sum(facts.stored.values()), 'message')}."
    offsets = f"Its committed offsets ({len(facts.offsets)}) {offsets}."
    return f"This will delete the group {group} on {where}. {offsets} {about}"


def _delete_warnings(group: str, facts: GroupFacts, with_topics: bool) -> list[PlanWarning]:
    warnings = []
    letters = facts.stored.get(dead_letter_topic(group), 0)
    if letters and with_topics:
        warnings.append(
            PlanWarning(
                "danger", f"{counted(letters, 'dead letter', 'are')} lost", "Undo does not bring them back."
            )
        )
    if facts.auto_create:
        text = "autoCreateSubscriptionGroup is true: a member that connects makes the group with default settings."
        warnings.append(
            PlanWarning("warn", f"{brokers_in_words(facts.auto_create)} would make it again", text)
        )
    return warnings
