"""The plan kinds of topics: create, change, quarantine, release, delete.

``topic_force_delete`` skips the quarantine and needs ADMIN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django.utils.translation import gettext_noop

from console.brokers.mqadmin import BlockingMQAdmin
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
from console.operation.config.quarantine import MessagesWritten
from console.operation.config.row import TOPIC, Config, ConfigRow, ImpactRow
from console.operation.models import Plan
from console.operation.plan.coverage import Coverage
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import TOPICS, Another, PlanWarning
from console.text import Text
from console.text.stored import Stored
from console.topic import selectors, topic_config
from console.topic.topic_config import READ, TopicParams
from console.topic.topic_facts import TopicFacts, impact, read_topic_facts, unread_in
from console.topic.topic_judgement import (
    change_warnings,
    config_warnings,
    delete_warnings,
    losing,
    own_names,
    use_warnings,
    written_lately,
)


class TopicBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The use of a topic when its plan was made. ``unread``: figures that could not be read."""

    impact: tuple[ImpactRow, ...]
    unread: tuple[str, ...]
    written: int
    members: int
    read_at_ms: int


class TopicPlan(ObjectPlan[TopicFacts, TopicParams, TopicBefore]):
    """Base of all plans of topics."""

    params_type, before_type = TopicParams, TopicBefore

    what = TOPIC
    place = TOPICS
    program = "topics"
    past = PAST | {
        (
            "Create the topic %(name)s on %(where)s: %(write)s write and %(read)s read "
            "queues per broker, permission %(perm)s."
        ): gettext_noop(
            "Created the topic %(name)s on %(where)s: %(write)s write and %(read)s read "
            "queues per broker, permission %(perm)s."
        ),
        (
            "Delete %(name)s on %(where)s permanently: %(stored)s message(s) and the committed offsets "
            "of %(groups)s group(s)."
        ): gettext_noop(
            "Deleted %(name)s on %(where)s permanently: %(stored)s message(s) and the committed offsets "
            "of %(groups)s group(s)."
        ),
        "Delete the empty topic %(name)s on %(where)s again.": gettext_noop(
            "Deleted the empty topic %(name)s on %(where)s again."
        ),
        "Create %(name)s on %(where)s as it was. Its messages cannot be restored.": gettext_noop(
            "Created %(name)s on %(where)s as it was. Its messages could not be restored."
        ),
    }

    def facts(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow]) -> TopicFacts:
        """Return who uses the topic on the brokers that have it."""
        holders = {row.broker_name: row.addr for row in rows if row.before is not None}
        return read_topic_facts(inputs.admin, inputs.cluster, holders, inputs.subject, inputs.now_ms)

    def recorded(
        self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts
    ) -> TopicBefore:
        """Return the impact, messages written and members, for later comparison."""
        return TopicBefore(
            impact=impact(facts) if any(row.before is not None for row in rows) else (),
            unread=facts.unread,
            written=facts.written,
            members=facts.members,
            read_at_ms=facts.read_at_ms,
        )

    def check_changeable(self, inputs: PlanInput[TopicParams]) -> None:
        """Refuse changes of RocketMQ's own topics."""
        topic_config.check_changeable(inputs.subject, own_names(inputs.admin))

    def held_by(self, cluster: str, subject: str, brokers: Coverage) -> frozenset[str]:
        """Return brokers that had the topic when last read, and those that were never read."""
        row = selectors.topic(cluster, subject)
        held = frozenset() if row is None else frozenset(row.brokers)
        return held | {name for name, each in brokers.absent.items() if not each.was_read}

    def removed_again(
        self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts
    ) -> tuple[Text, Text]:
        """Return summary and refusal of an undone creation: only an empty topic needs no quarantine."""
        summary = Text(
            "Delete the empty topic %(name)s on %(where)s again.",
            name=inputs.subject,
            where=where(rows),
        )
        if not facts.written:
            return summary, Text()
        return summary, Text(
            "%(number)s message(s) {was|were} written to it since: put it in quarantine and delete it "
            "instead.",
            number=facts.written,
        )

    def created_again(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow]) -> Text:
        """Return the summary of an undone deletion: the topic without its messages."""
        return Text(
            "Create %(name)s on %(where)s as it was. Its messages cannot be restored.",
            name=inputs.subject,
            where=where(rows),
        )


class TopicCreatePlan(TopicPlan, CreatePlan[TopicFacts, TopicParams, TopicBefore]):
    """Create a topic. params: {brokers?, read_queues?, write_queues?, perm?, order?, message_type?}."""

    kind = "topic_create"
    accepted = topic_config.ACCEPTED
    title = Text("New topic")
    action = Text("Create the topic")
    only_adds = True
    place = dataclasses.replace(TOPICS, page="")  # there is no page of it yet
    another = Another("topic-create", Text("Fill in the form again"), of_subject=False)

    def new_config(self, inputs: PlanInput[TopicParams]) -> Config:
        """Return the requested topic."""
        topic_config.check_new_name(inputs.subject, own_names(inputs.admin))
        return topic_config.new_config(inputs.subject, inputs.params)

    def summary(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Text:
        """Name the number of queues and the brokers."""
        new = [row for row in rows if row.before is None]
        after = new[0].after or {}
        return Text(
            "Create the topic %(name)s on %(where)s: %(write)s write and %(read)s read queues "
            "per broker, permission %(perm)s.",
            name=inputs.subject,
            where=where(new),
            write=after["writeQueueNums"],
            read=after["readQueueNums"],
            perm=topic_config.permission_word(after["perm"]),
        )

    def stakes(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Stakes:
        """Warn of unusual settings, and of brokers that have or do not get the topic."""
        warnings = config_warnings(next(row.after or {} for row in rows if row.before is None))
        elsewhere = [name for name, config in inputs.found.items() if config is not None]
        if elsewhere:
            warnings.append(
                PlanWarning(
                    "warn",
                    Text("The topic exists on %(where)s already", where=Text.of_names(elsewhere)),
                    Text(
                        "It is not changed there; producers and consumers will use the topic on all "
                        "these brokers."
                    ),
                )
            )
        chosen = {row.broker_name for row in rows}
        left_out = [name for name in inputs.addrs if name not in chosen]
        if left_out:
            title = Text("Not on %(where)s", where=Text.of_names(left_out))
            warnings.append(
                PlanWarning("info", title, Text("The topic will have no queues on these brokers."))
            )
        return Stakes(warnings)


class TopicChangePlan(TopicPlan, ChangePlan[TopicFacts, TopicParams, TopicBefore]):
    """Change a topic. params as topic_create; what is not named stays. ``brokers``: only these."""

    kind = "topic_change"
    accepted = topic_config.ACCEPTED
    title = Text("Topic change")
    action = Text("Change the topic")
    another = Another("topic-change", Text("Change something else"))
    settings_words = Text("queues, permission, order or message type")

    def has_settings(self, params: TopicParams) -> bool:
        """Return whether the parameters name a setting."""
        return params.has_settings

    def changed(self, before: Config, params: TopicParams) -> Config:
        """Return the topic of one broker with the requested settings."""
        return topic_config.changed(before, params)

    def stakes(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Stakes:
        """Warn of messages in removed queues, and of clients that lose a permission."""
        changing = [row for row in rows if row.changes]
        keep = {
            row.broker_name: row.after["readQueueNums"]
            for row in changing
            if row.after and row.before and row.after["readQueueNums"] < row.before["readQueueNums"]
        }
        unread = unread_in(inputs.admin, inputs.addrs, facts, inputs.subject, keep) if keep else {}
        lost = losing(changing)
        messages = max(unread.values(), default=0)
        if lost & READ:
            messages = max(messages, facts.backlog or 0)
        return Stakes(
            warnings=change_warnings(changing, facts, unread, keep),
            messages=messages,
            typed=bool(unread) or bool(lost and (facts.members or facts.producers)),
        )


class TopicQuarantinePlan(TopicPlan, QuarantinePlan[TopicFacts, TopicParams, TopicBefore]):
    """Put a topic in quarantine: no client may read or write it. No params."""

    kind = "topic_quarantine"
    title = Text("Topic quarantine")
    action = Text("Put it in quarantine")
    closes = Text("reads and writes are refused; its messages and offsets stay")
    is_closed = Text("is closed for all clients already")

    def stakes(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Stakes:
        """Warn which clients are shut out."""
        is_backlog_unknown = bool(facts.readers) and facts.backlog is None  # unknown is not few
        return Stakes(
            warnings=use_warnings(facts),
            messages=facts.backlog or 0,
            typed=bool(facts.members) or written_lately(facts) or is_backlog_unknown,
        )

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record the number of messages: later ones were written in spite of the quarantine."""
        run.put_result(MessagesWritten(written_messages=self.before_of(run.plan).written))


class TopicReleasePlan(TopicPlan, ReleasePlan[TopicFacts, TopicParams, TopicBefore]):
    """End the quarantine of a topic: restore its previous permissions. No params."""

    kind = "topic_release"
    title = Text("Topic release")
    action = Text("Release it")
    only_adds = True
    opens = Text("the permissions from before the quarantine")
    switch = Text("its permission")


class TopicDeletePlan(TopicPlan, DeletePlan[TopicFacts, TopicParams, TopicBefore]):
    """Delete a topic with its messages and its readers' committed offsets. No params."""

    kind = "topic_delete"
    title = Text("Topic deletion")
    action = Text("Delete the topic")

    def summary(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Text:
        """Name what is lost for good."""
        return Text(
            "Delete %(name)s on %(where)s permanently: %(stored)s message(s) and the committed offsets "
            "of %(groups)s group(s).",
            name=inputs.subject,
            where=where(rows),
            stored=facts.stored,
            groups=len(facts.readers),
        )

    def stakes(self, inputs: PlanInput[TopicParams], rows: Sequence[ConfigRow], facts: TopicFacts) -> Stakes:
        """Warn who still uses it, and what happened in quarantine."""
        warnings = [*use_warnings(facts), *delete_warnings(facts, inputs.quarantine)]
        return Stakes(warnings, messages=facts.stored, typed=True)

    def used_since(self, plan: Plan, now: TopicBefore) -> list[Text]:
        """Report messages written and consumers that came online since."""
        was, sentences = self.before_of(plan), []
        more = now.written - was.written
        if more > 0:
            sentences.append(
                Text(
                    "%(number)s message(s) {was|were} written to %(name)s since",
                    number=more,
                    name=plan.subject,
                )
            )
        if now.members > was.members:
            sentences.append(
                Text(
                    "%(number)s consumer(s) {is|are} online, %(before)s were",
                    number=now.members,
                    before=was.members,
                )
            )
        return sentences


class TopicForceDeletePlan(TopicDeletePlan):
    """Delete a topic without quarantine."""

    kind = "topic_force_delete"
    title = Text("Topic deletion without quarantine")
    action = Text("Delete the topic without quarantine")
    verb = "ADMIN"
    must_wait = False
