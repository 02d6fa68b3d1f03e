"""The plan kinds of topics: create, change, quarantine, release, delete.

Deleting is offered from quarantine only: first nobody may use the topic, then one sees whether anybody
misses it, then it goes. ``topic_force_delete`` skips the wait and needs ADMIN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from console.mqadmin import BlockingMQAdmin
from console.operation.config_by_hand import made_by
from console.operation.config_change import (
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
    denied_topic,
    exact_rows,
    is_denied,
    nothing_changes,
    overwritten_warning,
    read_configs,
)
from console.operation.errors import PlanRejected
from console.operation.kinds import Draft, PlanWarning
from console.operation.models import Plan
from console.operation.quarantine import quarantine_hours, quarantine_of, waiting
from console.operation.runner import JobRun
from console.topic import topic_config
from console.topic.topic_config import READ
from console.topic.topic_facts import TopicFacts, impact, read_topic_facts, unread_in
from console.topic.topic_judgement import (
    change_warnings,
    config_warnings,
    delete_warnings,
    existing,
    losing,
    own_names,
    silent_warning,
    use_warnings,
    written_lately,
)


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
        """The topic's configuration on every broker. Raises BrokerUnavailable for a silent one."""
        return read_configs(self.admin, self.addrs, TOPIC, self.subject)

    def facts(self, rows: Sequence[ConfigRow]) -> TopicFacts:
        """Who uses the topic on the brokers that have it."""
        holders = {row.broker_name: row.addr for row in rows if row.before is not None}
        return read_topic_facts(self.admin, self.cluster, holders, self.subject, self.now_ms)


class TopicPlan(ConfigPlan):
    """What the kinds of topics share: reading the topic, the undo, and what a plan keeps."""

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> Draft:
        """Read the brokers and say what would change. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        admin = admin_of(cluster)
        asked = Asked(admin, cluster, broker_addrs(admin), subject, params, now_ms)
        return self._put_back(asked) if "exact" in params else self._compute(asked)

    def _compute(self, asked: Asked) -> Draft:
        raise NotImplementedError

    def _put_back(self, asked: Asked) -> Draft:
        """The undo of a plan of this kind: every broker gets the configuration it had."""
        subject = asked.subject
        rows = exact_rows(asked.admin, asked.addrs, asked.params["exact"])
        facts = asked.facts(rows)
        goes = [row for row in rows if row.after is None and row.before is not None]
        blocked = nothing_changes(rows)
        if goes and facts.written:
            blocked = (
                f"{counted(facts.written, 'message', 'were')} written to it since: "
                "put it in quarantine and delete it instead."
            )
        where = brokers_in_words([row.broker_name for row in rows])
        if goes:
            summary = f"This will delete the empty topic {subject} on {where} again."
        elif any(row.before is None for row in rows):
            summary = f"This will create {subject} on {where} as it was. Its messages do not come back."
        else:
            summary = f"This will put the configuration of {subject} on {where} back, to the letter."
        return self._draft(
            asked, rows, facts, summary=summary, warnings=overwritten_warning(rows), blocked=blocked
        )

    def _draft(
        self,
        asked: Asked,
        rows: Sequence[ConfigRow],
        facts: TopicFacts,
        *,
        summary: str,
        warnings: Sequence[PlanWarning] = (),
        blocked: str = "",
        messages: int = 0,
        typed: bool = False,
    ) -> Draft:
        confirm = " --confirm {subject}" if typed or messages else ""
        return Draft(
            summary=summary,
            diff=[row.as_row() for row in rows],
            before={
                "impact": impact(facts) if any(row.before is not None for row in rows) else [],
                "unread": list(facts.unread),
                "written": facts.written,
                "members": facts.members,
                "read_at_ms": facts.read_at_ms,
            },
            messages=messages,
            warnings=[*warnings, *silent_warning(asked.cluster, asked.subject, rows)],
            blocked=blocked,
            command="manage.py topics apply {plan}" + confirm,
            made_by={}
            if "exact" in asked.params
            else made_by(asked.cluster, self.kind, asked.subject, asked.params),
            typed=typed,
        )


class TopicCreatePlan(TopicPlan):
    """params: {brokers?, read_queues?, write_queues?, perm?, order?, message_type?}."""

    kind = "topic_create"

    def _compute(self, asked: Asked) -> Draft:
        subject = asked.subject
        wish = topic_config.read_wish(asked.params)
        topic_config.check_new_name(subject, own_names(asked.admin))
        chosen = chosen_brokers(asked.addrs, wish.brokers)
        everywhere = asked.found()
        rows = topic_config.create_rows(
            subject, wish, asked.addrs, {name: everywhere[name] for name in chosen}
        )
        new = [row for row in rows if row.before is None]
        after = new[0].after or {}
        elsewhere = [name for name, config in everywhere.items() if config is not None]
        warnings = config_warnings(after)
        if elsewhere:
            warnings.append(
                PlanWarning(
                    "warn",
                    f"The topic exists on {brokers_in_words(elsewhere)} already",
                    "It stays there as it is; producers and consumers then use all brokers together.",
                )
            )
        left_out = [name for name in asked.addrs if name not in chosen]
        if left_out:
            warnings.append(
                PlanWarning(
                    "info", f"Not on {brokers_in_words(left_out)}", "Those brokers get no queue of it."
                )
            )
        summary = (
            f"This will create the topic {subject} on {brokers_in_words([row.broker_name for row in new])}: "
            f"{after['writeQueueNums']} write and {after['readQueueNums']} read queues per broker, "
            f"permission {topic_config.permission_word(after['perm'])}."
        )
        return self._draft(asked, rows, asked.facts(rows), summary=summary, warnings=warnings)


class TopicChangePlan(TopicPlan):
    """params as topic_create; what is not named stays. ``brokers``: only these."""

    kind = "topic_change"

    def _compute(self, asked: Asked) -> Draft:
        subject = asked.subject
        topic_config.check_changeable(subject, own_names(asked.admin))
        wish = topic_config.read_wish(asked.params)
        chosen_brokers(asked.addrs, wish.brokers)
        rows = topic_config.change_rows(subject, wish, asked.addrs, asked.found())
        facts = asked.facts(rows)
        changing = [row for row in rows if row.changes]
        keep = {
            row.broker_name: row.after["readQueueNums"]
            for row in changing
            if row.after and row.before and row.after["readQueueNums"] < row.before["readQueueNums"]
        }
        unread = unread_in(asked.admin, asked.addrs, facts, subject, keep) if keep else {}
        warnings = change_warnings(changing, facts, unread, keep)
        lost = losing(changing)
        messages = max(unread.values(), default=0)
        if lost & READ:
            messages = max(messages, facts.backlog or 0)
        return self._draft(
            asked,
            rows,
            facts,
            summary=change_summary(subject, rows),
            warnings=warnings,
            blocked=nothing_changes(rows),
            messages=messages,
            typed=bool(unread) or bool(lost and (facts.members or facts.producers)),
        )


class TopicQuarantinePlan(TopicPlan):
    """No params: nobody may read or write it any more. What it was is kept; release puts it back."""

    kind = "topic_quarantine"

    def _compute(self, asked: Asked) -> Draft:
        subject = asked.subject
        topic_config.check_changeable(subject, own_names(asked.admin))
        found = existing(subject, asked.found())
        rows = [
            ConfigRow(TOPIC, subject, name, asked.addrs[name], before, denied_topic(before))
            for name, before in found.items()
        ]
        facts = asked.facts(rows)
        where = brokers_in_words([row.broker_name for row in rows])
        hours = quarantine_hours()
        return self._draft(
            asked,
            rows,
            facts,
            summary=f"This will put {subject} on {where} in quarantine: nobody may read or write it, its "
            f"messages and offsets stay. Deleting is offered after {hours} hours; release takes one click.",
            warnings=use_warnings(facts),
            blocked="" if any(row.changes for row in rows) else f"{subject} is closed for everybody already.",
            messages=facts.backlog or 0,
            typed=bool(facts.members)
            or written_lately(facts)
            or (bool(facts.readers) and facts.backlog is None),  # unknown is not few
        )

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """The count of messages now: what is written later came in spite of the quarantine."""
        run.result["written_messages"] = run.plan.before["written"]


class TopicReleasePlan(TopicPlan):
    """No params: the permissions from before the quarantine."""

    kind = "topic_release"

    def _compute(self, asked: Asked) -> Draft:
        subject = asked.subject
        found = existing(subject, asked.found())
        quarantine = quarantine_of(asked.cluster, TOPIC, subject)
        if quarantine is None:
            raise PlanRejected(
                f"This console did not put {subject} in quarantine; change its permission instead."
            )
        rows = [
            ConfigRow(
                TOPIC,
                subject,
                name,
                asked.addrs[name],
                before,
                {**before, "perm": quarantine.former[name]["perm"]}
                if name in quarantine.former and is_denied(TOPIC, before)
                else before,
            )
            for name, before in found.items()
        ]
        where = brokers_in_words(
            [row.broker_name for row in rows if row.changes] or [row.broker_name for row in rows]
        )
        return self._draft(
            asked,
            rows,
            asked.facts(rows),
            summary=f"This will release {subject} on {where}: the permissions from before the quarantine.",
            blocked=nothing_changes(rows),
        )


class TopicDeletePlan(TopicPlan):
    """No params. Blocked until the topic has been in quarantine for QUARANTINE_HOURS."""

    kind = "topic_delete"
    must_wait = True

    def _compute(self, asked: Asked) -> Draft:
        subject = asked.subject
        topic_config.check_changeable(subject, own_names(asked.admin))
        found = existing(subject, asked.found())
        rows = [
            ConfigRow(TOPIC, subject, name, asked.addrs[name], before, None) for name, before in found.items()
        ]
        facts = asked.facts(rows)
        quarantine = quarantine_of(asked.cluster, TOPIC, subject)
        where = brokers_in_words([row.broker_name for row in rows])
        return self._draft(
            asked,
            rows,
            facts,
            summary=f"This will delete {subject} on {where} for good: {counted(facts.stored, 'message')} "
            f"and the committed offsets of {counted(len(facts.readers), 'group')}.",
            warnings=[*use_warnings(facts), *delete_warnings(facts, quarantine)],
            blocked=waiting(TOPIC, found, quarantine, asked.now_ms) if self.must_wait else "",
            messages=facts.stored,
            typed=True,
        )

    def drift(self, plan: Plan, now_ms: int) -> list[str]:
        """Also refused when somebody began to use it since the plan."""
        moved = super().drift(plan, now_ms)
        if moved or "exact" in plan.params:
            return moved
        holders = {row["broker_name"]: row["addr"] for row in plan.diff if row["before"] is not None}
        facts = read_topic_facts(admin_of(plan.cluster), plan.cluster, holders, plan.subject, now_ms)
        more = facts.written - plan.before["written"]
        if more > 0:
            moved.append(f"{counted(more, 'message', 'were')} written to {plan.subject} since")
        if facts.members > plan.before["members"]:
            moved.append(f"{counted(facts.members, 'consumer', 'are')} online, {plan.before['members']} were")
        return moved


class TopicForceDeletePlan(TopicDeletePlan):
    """The same without quarantine."""

    kind = "topic_force_delete"
    verb = "ADMIN"
    must_wait = False
