"""The plan kinds of group configuration: create, change, quarantine, release, delete.

A group in quarantine may not consume (``consumeEnable`` false). ``group_force_delete`` skips it and needs ADMIN.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from django.utils.translation import gettext_noop

from console.brokers.mqadmin import BlockingMQAdmin, MQBrokerError, dead_letter_topic, retry_topic
from console.brokers.queues import TOPIC_NOT_EXIST
from console.group.settings import config as settings_config
from console.group.settings.config import CommittedOffset, GroupParams
from console.group.settings.facts import OFFSETS_KEPT_MAX, GroupFacts, impact, read_group_facts
from console.lag.collect.reset import note_moves
from console.operation.config.change import addrs_of_plan, admin_of, read_configs
from console.operation.config.plans import (
    PAST,
    ChangePlan,
    CreatePlan,
    DeletePlan,
    ObjectPlan,
    PlanInput,
    QuarantinePlan,
    ReleasePlan,
    Stakes,
    where,
)
from console.operation.config.row import GROUP, TOPIC, Config, ConfigRow, ImpactRow, is_denied
from console.operation.config.write import writes_of
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, PlanWarning
from console.text import Names, Text
from console.text.stored import Stored, of_json


class GroupBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The use of a group when its plan was made."""

    impact: tuple[ImpactRow, ...]
    members: int
    read_at_ms: int


class DroppedOffsets(Stored, frozen=True, kw_only=True):
    """The committed offsets that brokers delete with a group, in the result of its job; None: they stay."""

    offsets: tuple[CommittedOffset, ...] | None = None


class GroupPlan(ObjectPlan[GroupFacts, GroupParams, GroupBefore]):
    """Base of all plans of consumer groups."""

    params_type, before_type = GroupParams, GroupBefore

    what = GROUP
    program = "groups"
    past = PAST | {
        "Create the group %(name)s on %(where)s.": gettext_noop("Created the group %(name)s on %(where)s."),
        "Delete the unused group %(name)s on %(where)s again.": gettext_noop(
            "Deleted the unused group %(name)s on %(where)s again."
        ),
        "Create %(name)s on %(where)s as it was, with its committed offsets (%(number)s).": gettext_noop(
            "Created %(name)s on %(where)s as it was, with its committed offsets (%(number)s)."
        ),
        "Delete the group %(group)s on %(where)s.": gettext_noop("Deleted the group %(group)s on %(where)s."),
        "Its committed offsets (%(number)s) stay on the brokers.": gettext_noop(
            "Its committed offsets (%(number)s) stayed on the brokers."
        ),
        "Its committed offsets (%(number)s) are deleted too, and recorded for the undo.": gettext_noop(
            "Its committed offsets (%(number)s) were deleted too, and recorded for the undo."
        ),
        "It has no retry or dead-letter topic.": gettext_noop("It had no retry or dead-letter topic."),
    }

    def facts(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow]) -> GroupFacts:
        """Return who uses the group, on any broker."""
        return read_group_facts(inputs.admin, inputs.cluster, inputs.addrs, inputs.subject, inputs.now_ms)

    def held_by(self, cluster: str, subject: str, brokers: Coverage) -> frozenset[str]:
        """Return every broker that does not answer: no row records which brokers have a group's settings."""
        return frozenset(brokers.absent)

    def recorded(
        self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts
    ) -> GroupBefore:
        """Return the impact and the number of members online, for later comparison."""
        return GroupBefore(
            impact=impact(facts, inputs.subject), members=len(facts.members), read_at_ms=facts.read_at_ms
        )

    def check_changeable(self, inputs: PlanInput[GroupParams]) -> None:
        """Refuse changes of RocketMQ's own groups."""
        settings_config.check_changeable(inputs.subject)

    def removed_again(
        self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts
    ) -> tuple[Text, Text]:
        """Return summary and refusal of an undone creation: only an unused group needs no quarantine."""
        in_use = Text("The group has been used since: put it in quarantine and delete it instead.")
        summary = Text(
            "Delete the unused group %(name)s on %(where)s again.",
            name=inputs.subject,
            where=where(rows),
        )
        return summary, in_use if facts.offsets or facts.members else Text()

    def created_again(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow]) -> Text:
        """Return the summary of an undone deletion: the group with its offsets."""
        return Text(
            "Create %(name)s on %(where)s as it was, with its committed offsets (%(number)s).",
            name=inputs.subject,
            where=where(rows),
            number=len(inputs.params.offsets),
        )


class GroupCreatePlan(GroupPlan, CreatePlan[GroupFacts, GroupParams, GroupBefore]):
    """Create a group. params: {brokers?} and the fields of ``settings_config.FIELDS``."""

    kind = "group_create"
    title = Text("New group")
    action = Text("Create the group")
    only_adds = True
    another = Another("group-create", Text("Fill in the form again"), of_subject=False)

    accepted = settings_config.ACCEPTED

    def new_config(self, inputs: PlanInput[GroupParams]) -> Config:
        """Return the requested group."""
        settings_config.check_new_name(inputs.subject)
        return settings_config.new_config(inputs.subject, inputs.params)

    def summary(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Text:
        """Name the brokers that will have it."""
        new = [row for row in rows if row.before is None]
        return Text("Create the group %(name)s on %(where)s.", name=inputs.subject, where=where(new))

    def stakes(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Stakes:
        """Warn of brokers without the group, and of offsets committed under its name before."""
        warnings = []
        chosen = {row.broker_name for row in rows}
        left_out = [name for name in inputs.addrs if name not in chosen and inputs.found[name] is None]
        if left_out:
            text = Text(
                "A client that reads queues there is refused, unless the broker creates groups automatically."
            )
            warnings.append(
                PlanWarning("warn", Text("Not on %(where)s", where=Text.of_names(left_out)), text)
            )
        if facts.offsets:
            text = Text(
                "%(number)s offsets were committed under this name before: the group continues from them.",
                number=len(facts.offsets),
            )
            warnings.append(PlanWarning("warn", Text("Offsets exist under this name already"), text))
        return Stakes(warnings)


class GroupChangePlan(GroupPlan, ChangePlan[GroupFacts, GroupParams, GroupBefore]):
    """Change a group. params as group_create; what is not named stays. ``brokers``: only these."""

    kind = "group_change"
    title = Text("Group change")
    action = Text("Change the group")
    another = Another("group-settings", Text("Change something else"))
    settings_words = Text("retries, retry queues, timeout, or one of the switches")

    accepted = settings_config.ACCEPTED

    def has_settings(self, params: GroupParams) -> bool:
        """Return whether the parameters name a setting."""
        return bool(params.settings)

    def changed(self, before: Config, params: GroupParams) -> Config:
        """Return the group of one broker with the requested settings."""
        return {**before, **params.settings}

    def stakes(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Stakes:
        """Warn of members that may not consume any more, and of messages waiting for a retry."""
        stops = any(row.before and row.after and _stops(row.before, row.after) for row in rows)
        return Stakes(
            warnings=change_warnings(rows, facts),
            messages=_lag(facts) if stops else 0,
            typed=stops and (bool(facts.members) or _is_lag_unknown(facts)),
        )


class GroupQuarantinePlan(GroupPlan, QuarantinePlan[GroupFacts, GroupParams, GroupBefore]):
    """Put a group in quarantine: its members may not consume any more. No params."""

    kind = "group_quarantine"
    title = Text("Group quarantine")
    action = Text("Put it in quarantine")
    closes = Text("its clients cannot consume, its offsets stay")
    is_closed = Text("is already not allowed to consume")

    def stakes(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Stakes:
        """Warn who is stopped, and what waits meanwhile."""
        typed = bool(facts.members) or _is_lag_unknown(facts)
        return Stakes(warnings=use_warnings(facts), messages=_lag(facts), typed=typed)


class GroupReleasePlan(GroupPlan, ReleasePlan[GroupFacts, GroupParams, GroupBefore]):
    """End the quarantine of a group: its members may consume again. No params."""

    kind = "group_release"
    title = Text("Group release")
    action = Text("Release it")
    only_adds = True
    opens = Text("its clients can consume again")
    switch = Text("consumeEnable")


class GroupDeletePlan(GroupPlan, DeletePlan[GroupFacts, GroupParams, GroupBefore]):
    """Delete a group.

    params: {keep_offsets?: false, with_topics?: false}. ``with_topics``: its %RETRY% and %DLQ% topics are
    deleted too.
    """

    kind = "group_delete"
    title = Text("Group deletion")
    action = Text("Delete the group")

    accepted = settings_config.OF_DELETION

    def cleans_offsets(self, plan: Plan) -> bool:
        """Return whether the committed offsets are deleted too."""
        return not self.params_of(plan).keep_offsets

    def rows(self, inputs: PlanInput[GroupParams]) -> list[ConfigRow]:
        """Return the rows of the group, and of its topics where requested."""
        rows = super().rows(inputs)
        if not inputs.params.with_topics:
            return rows
        return rows + [
            ConfigRow.of(TOPIC, topic, name, inputs.addrs[name], config, None)
            for topic in (retry_topic(inputs.subject), dead_letter_topic(inputs.subject))
            for name, config in read_configs(inputs.admin, inputs.addrs, TOPIC, topic).items()
            if config is not None
        ]

    def summary(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Text:
        """Name what is deleted with it and what stays."""
        return _delete_summary(inputs.subject, rows, facts, inputs.params)

    def stakes(self, inputs: PlanInput[GroupParams], rows: Sequence[ConfigRow], facts: GroupFacts) -> Stakes:
        """Warn who still uses it, and what is lost.

        Raises PlanRejected for more offsets than undo can restore.
        """
        with_topics = inputs.params.with_topics
        if len(facts.offsets) > OFFSETS_KEPT_MAX and not inputs.params.keep_offsets:
            text = Text(
                "A job keeps at most %(most)s offsets for its undo, and these are %(number)s. Delete it with "
                "keep_offsets.",
                number=len(facts.offsets),
                most=OFFSETS_KEPT_MAX,
            )
            raise PlanRejected(text, "keep_offsets")
        return Stakes(
            warnings=[*use_warnings(facts), *_delete_warnings(inputs.subject, facts, with_topics)],
            messages=max(_lag(facts), sum(facts.stored.values()) if with_topics else 0),
            typed=True,
        )

    def used_since(self, plan: Plan, now: GroupBefore) -> list[Text]:
        """Report members that came online."""
        was = self.before_of(plan).members
        if now.members <= was:
            return []
        return [Text("%(number)s client(s) {is|are} online, %(before)s were", number=now.members, before=was)]

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record the committed offsets, which brokers delete with the group."""
        params = self.params_of(run.plan)
        if params.exact or params.keep_offsets:
            return
        addrs = addrs_of_plan(admin, run.plan)
        facts = read_group_facts(admin, run.plan.cluster, addrs, run.plan.subject, run.now_ms())
        offsets = tuple(CommittedOffset(*place, offset) for place, offset in sorted(facts.offsets.items()))
        run.put_result(DroppedOffsets(offsets=offsets))

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Commit the recorded offsets again in an undo, once the group exists."""
        addrs = addrs_of_plan(admin, run.plan)
        gone: set[str] = set()
        offsets = self.params_of(run.plan).offsets
        moved = [
            (topic, name, number, None, offset) for name, topic, number, offset in offsets if name in addrs
        ]
        note_moves(run.plan.cluster, run.plan.subject, moved, now_ms=run.now_ms())
        for broker_name, topic, queue_id, offset in offsets:
            if broker_name not in addrs:
                continue  # the plan leaves this broker out
            run.beat()
            try:
                admin.update_consumer_offset(
                    addrs[broker_name],
                    run.plan.subject,
                    topic,
                    queue_id,
                    offset,
                    send_until_s=run.lease_ends_s,
                )
            except MQBrokerError as error:
                if error.code != TOPIC_NOT_EXIST:
                    raise
                gone.add(topic)
        for topic in sorted(gone):
            run.note(
                Text("The offsets of %(topic)s are not restored: the topic no longer exists", topic=topic),
                level="warn",
            )

    def verify(self, run: JobRun) -> None:
        """Verify also that the offsets of an undo are restored; members may have read on since."""
        super().verify(run)
        wanted = self.params_of(run.plan).offsets
        if not wanted:
            return
        admin = admin_of(run.plan.cluster)
        addrs = addrs_of_plan(admin, run.plan)
        facts = read_group_facts(admin, run.plan.cluster, addrs, run.plan.subject, run.now_ms())
        back = sum(
            facts.offsets.get((broker_name, topic, queue_id), -1) >= offset
            for broker_name, topic, queue_id, offset in wanted
        )
        run.note(
            Text("%(back)s of %(total)s committed offsets are back", back=back, total=len(wanted)),
            level="ok" if back == len(wanted) else "warn",
        )

    def undo_params(self, plan: Plan, job: Job) -> GroupParams | None:
        """Return the recorded configurations and offsets."""
        params = super().undo_params(plan, job)
        dropped = of_json(DroppedOffsets, job.result).offsets
        if params is None or dropped is None:
            return params
        written = {write.broker_name for write in writes_of(job) if not write.is_waiting}
        retry_kept = not self.params_of(plan).with_topics
        offsets = tuple(
            each
            for each in dropped
            if each.broker_name in written and (retry_kept or each.topic != retry_topic(plan.subject))
        )
        return msgspec.structs.replace(params, offsets=offsets)


class GroupForceDeletePlan(GroupDeletePlan):
    """Delete a group without quarantine."""

    kind = "group_force_delete"
    title = Text("Group deletion without quarantine")
    action = Text("Delete the group without quarantine")
    verb = "ADMIN"
    must_wait = False


# --- Words and judgements -----------------------------------------------------------------------------------


def _lag(facts: GroupFacts) -> int:
    """Return the known number of waiting messages; meaningless where `_is_lag_unknown`."""
    return 0 if facts.row is None else facts.row.lag or 0


def _is_lag_unknown(facts: GroupFacts) -> bool:
    return facts.row is not None and facts.row.lag is None


def _stops(before: Config, after: Config) -> bool:
    return not is_denied(GROUP, before) and is_denied(GROUP, after)


def change_warnings(rows: Sequence[ConfigRow], facts: GroupFacts) -> list[PlanWarning]:
    """Warn what a change means for messages waiting for a retry, and for members online."""
    warnings = []
    for row in rows:
        before, after = row.before or {}, row.after or {}
        if _stops(before, after) and facts.members:
            text = Text("Their pulls are refused (NO_PERMISSION, 16) from the next one on.")
            warnings.append(
                PlanWarning(
                    "danger", Text("%(number)s client(s) {is|are} online", number=len(facts.members)), text
                )
            )
        if 0 <= after["retryMaxTimes"] < before["retryMaxTimes"]:
            text = Text("Messages already retried that often become dead letters at their next failure.")
            warnings.append(
                PlanWarning(
                    "warn",
                    Text("At most %(number)s {retry|retries}", number=after["retryMaxTimes"]),
                    text,
                )
            )
        if after["retryQueueNums"] < before["retryQueueNums"]:
            text = Text("The %%RETRY%% topic keeps the queues it has; new ones are made with this number.")
            warnings.append(PlanWarning("info", Text("Fewer retry queues"), text))
    return list(dict.fromkeys(warnings))


def use_warnings(facts: GroupFacts) -> list[PlanWarning]:
    """Warn who uses the group that is about to be taken away."""
    warnings = []
    if facts.members:
        names = Names(facts.members[:3])
        warnings.append(
            PlanWarning(
                "danger",
                Text("%(number)s client(s) {is|are} online", number=len(facts.members)),
                Text("Now: %(names)s.", names=names),
            )
        )
    if _is_lag_unknown(facts):
        warnings.append(
            PlanWarning(
                "warn",
                Text("How many messages wait is unknown"),
                Text("As of the last round; there may be many."),
            )
        )
    elif _lag(facts):
        title = (
            Text("At least %(number)s message(s) {is|are} not consumed yet", number=_lag(facts))
            if facts.row is not None and facts.row.lag_lower_bound
            else Text("%(number)s message(s) {is|are} not consumed yet", number=_lag(facts))
        )
        warnings.append(PlanWarning("warn", title, Text("As of the last round.")))
    if not warnings:
        warnings.append(
            PlanWarning(
                "ok", Text("No client uses it now"), Text("No client is online, nothing waits for it.")
            )
        )
    return warnings


def _delete_summary(group: str, rows: Sequence[ConfigRow], facts: GroupFacts, params: GroupParams) -> Text:
    where = Text.of_names([row.broker_name for row in rows if row.what == GROUP])
    number, topics = len(facts.offsets), " and ".join(facts.stored)
    offsets = (
        Text("Its committed offsets (%(number)s) stay on the brokers.", number=number)
        if params.keep_offsets
        else Text(
            "Its committed offsets (%(number)s) are deleted too, and recorded for the undo.", number=number
        )
    )
    messages = sum(facts.stored.values())
    if not topics:
        about = Text("It has no retry or dead-letter topic.")
    elif params.with_topics:
        about = Text(
            "Deleted permanently: %(topics)s with %(number)s message(s).", topics=topics, number=messages
        )
    else:
        about = Text("Kept: %(topics)s with %(number)s message(s).", topics=topics, number=messages)
    deleted = Text("Delete the group %(group)s on %(where)s.", group=group, where=where)
    return Text.of_parts([deleted, offsets, about])


def _delete_warnings(group: str, facts: GroupFacts, with_topics: bool) -> list[PlanWarning]:
    warnings = []
    letters = facts.stored.get(dead_letter_topic(group), 0)
    if letters and with_topics:
        warnings.append(
            PlanWarning(
                "danger",
                Text("%(number)s dead letter(s) {is|are} lost", number=letters),
                Text("Undo does not restore them."),
            )
        )
    if facts.auto_create:
        text = Text(
            "autoCreateSubscriptionGroup is true: a client that connects makes the group with default "
            "settings."
        )
        warnings.append(
            PlanWarning(
                "warn", Text("%(where)s would create it again", where=Text.of_names(facts.auto_create)), text
            )
        )
    return warnings
