"""The plan kinds ``group_pause`` and ``group_resume``: whether a group may read topics, by broker (353).

RocketMQ pauses a group on a topic, not on one queue, and only members whose pulls use the subscription of
their heartbeat (push members). When one topic is resumed, Apache's broker drops *all* paused topics of the
group, and saves that to disk only with the next change of a group. So the others are paused again at once,
and the group's settings are written once more unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from django.utils.translation import gettext_noop

from console.brokers.mqadmin import BlockingMQAdmin, retry_topic
from console.brokers.queues import topic_route
from console.group import refusals
from console.group.pause.facts import (
    PauseFacts,
    arriving,
    kept_for_ms,
    paused_topics,
    read_pause_facts,
    read_places,
    waiting,
)
from console.group.pause.words import closing_warnings, impact, opening_warnings, summary
from console.group.pauses import READING
from console.group.settings import config as settings_config
from console.operation.config.change import (
    ConfigPlan,
    admin_of,
    chosen_brokers,
    covered_rows,
)
from console.operation.config.row import (
    GROUP,
    Config,
    ConfigRow,
    ImpactRow,
    left_out_rows,
    overwritten_warning,
)
from console.operation.config.write import Comparison, ConfigWrite, WriteEvent, Writes, writes_of
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, gone_words, read_coverage, recovered
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, Draft
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Parameter, Params
from console.text import Text
from console.text.stored import Stored

TOPICS_MAX = 200  # per plan: each is a request to each broker, before and after


class ExactReading(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What an undo puts back for one topic on one broker; ``expected``: what the job left there."""

    topic: str
    broker_name: str
    readable: bool
    expected: bool


class ReadingParams(Params, frozen=True, kw_only=True):
    """Topics and brokers; without them all that the group reads, and all brokers. ``exact``: of an undo."""

    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    exact: tuple[ExactReading, ...] = ()


class Reopened(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """In the progress, by broker: topics that stay paused, and how often it had saved its groups."""

    stay_paused: dict[str, list[str]] = {}
    saved: dict[str, int] = {}


class ReadingBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """Who feels the change, and how many members were online."""

    impact: tuple[ImpactRow, ...]
    members: int
    read_at_ms: int


ACCEPTED = Accepted(
    "GroupReadingParams",
    "RocketMQ pauses a group on a topic, not one queue; its %RETRY% topic is one of them.",
    (
        ACCEPTING,
        ON_BROKERS,
        Parameter(
            "topics",
            tuple,
            most=TOPICS_MAX,
            help_text="only these; without it all that the group reads, or all that are paused",
        ),
    ),
)
ReadingDraft = Draft[ReadingParams, ReadingBefore, ConfigRow]


class ReadingPlan(ConfigPlan[ReadingParams, ReadingBefore]):
    """Allow or forbid a group to read topics."""

    params_type, before_type = ReadingParams, ReadingBefore
    accepted = ACCEPTED
    program = "groups"
    readable: ClassVar[bool]  # what the topics become

    def is_undo(self, params: ReadingParams) -> bool:
        """Return whether a plan restores what the job of another one recorded."""
        return bool(params.exact)

    def compute(self, cluster: str, subject: str, params: ReadingParams, now_ms: int) -> ReadingDraft:
        """Read every broker. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        settings_config.check_name(subject)
        settings_config.check_changeable(subject)
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params.accept_without)
        addrs = brokers.addrs
        facts = read_pause_facts(admin, cluster, addrs, subject, now_ms)
        if not facts.has_group and facts.row is None and not any(facts.forbidden.values()):
            brokers.require_some(subject)
            raise PlanRejected(Text("There is no group %(group)s.", group=subject), "group")
        if params.exact:
            rows = _exact_rows(admin, brokers, subject, params.exact)
            meant = {each.broker_name for each in params.exact}
        else:
            topics, chosen = self._requested(admin, brokers, subject, params, facts)
            rows = self._rows(admin, addrs, subject, topics, chosen, facts)
            meant = set(params.brokers or brokers.absent)
        cover = brokers.of_brokers(meant, {row.broker_name for row in rows})
        if not rows:
            cover.require_some(subject)
        return self._draft(cluster, subject, params, facts, rows, cover)

    def _requested(
        self,
        admin: BlockingMQAdmin,
        cluster: Coverage,
        group: str,
        params: ReadingParams,
        facts: PauseFacts,
    ) -> tuple[list[str], list[str]]:
        """Return the requested (topics, brokers)."""
        topics = list(params.topics)
        paused = sorted(frozenset().union(*facts.forbidden.values()))
        if not self.readable:
            known = facts.topics(group)
            strange = [topic for topic in topics if topic not in known and topic_route(admin, topic) is None]
            if strange:
                raise PlanRejected(Text("There is no topic %(topic)s.", topic=strange[0]), "topics")
            topics = topics or known
        elif not topics:
            topics = paused
        if not topics:
            raise PlanRejected(Text("No topic is paused for %(group)s.", group=group), "topics")
        if len(topics) > TOPICS_MAX:
            text = Text(
                "%(number)s topics are more than one plan takes (%(most)s). Name some of them.",
                number=len(topics),
                most=TOPICS_MAX,
            )
            raise PlanRejected(text, "topics")
        return topics, list(chosen_brokers(cluster, params.brokers))

    def _rows(
        self,
        admin: BlockingMQAdmin,
        addrs: Mapping[str, str],
        group: str,
        topics: Sequence[str],
        brokers: Sequence[str],
        facts: PauseFacts,
    ) -> list[ConfigRow]:
        able = [name for name in brokers if name not in facts.unable]
        places = [(topic, name) for name in able for topic in topics]
        found = read_places(admin, addrs, group, places)
        return [_row(addrs, topic, name, found[topic, name], self.readable) for topic, name in places]

    def _draft(
        self,
        cluster: str,
        group: str,
        params: ReadingParams,
        facts: PauseFacts,
        rows: Sequence[ConfigRow],
        cover: Coverage,
    ) -> ReadingDraft:
        changing = [row for row in rows if row.before != row.after]
        is_closing = any(row.after == {"readable": False} for row in changing)
        topics = list(dict.fromkeys(row.name for row in changing))
        brokers = list(dict.fromkeys(row.broker_name for row in changing))
        waits = waiting(facts.row, topics)
        rate = arriving(cluster, [topic for topic in topics if topic != retry_topic(group)])
        kept_ms = kept_for_ms(facts, brokers, waits)
        warnings = overwritten_warning(rows)
        if is_closing:
            warnings += closing_warnings(group, topics, facts, rate, kept_ms)
        elif changing:
            others = _others(facts, changing)
            warnings += opening_warnings(facts, waits, others)
        messages = (waits.messages or 0) if is_closing else 0
        return Draft(
            summary=summary(group, changing, is_closing),
            diff=[*rows, *left_out_rows(cover, GROUP, group)],
            coverage=cover,
            before=ReadingBefore(
                impact=tuple(impact(facts, rate, waits, kept_ms if is_closing else None, is_closing)),
                members=len(facts.members.client_ids),
                read_at_ms=facts.read_at_ms,
            ),
            messages=messages,
            warnings=warnings,
            blocked=_blocked(group, params, facts, rows, self.readable),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read each topic and broker again and compare with the plan."""
        admin = admin_of(plan.cluster)
        cover = read_coverage(admin, plan.cluster)
        addrs = cover.addrs
        rows = {(row.name, row.broker_name): row for row in covered_rows(plan)}
        sentences = [*recovered(plan, cover), *gone_words(cover, {name for _, name in rows})]
        places = [place for place in rows if place[1] in addrs]
        for place, readable in read_places(admin, addrs, plan.subject, places).items():
            if readable != _readable(rows[place].before):
                sentences.append(
                    Text(
                        "%(topic)s on %(broker)s may be read again since the plan was made",
                        topic=place[0],
                        broker=place[1],
                    )
                    if readable
                    else Text(
                        "%(topic)s on %(broker)s is paused since the plan was made",
                        topic=place[0],
                        broker=place[1],
                    )
                )
        return sentences

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record which other topics are paused there, and how often the broker has saved its groups."""
        opened = _by_broker(write for write in Writes(run) if _readable(write.after))
        stay_paused, saved = {}, {}
        for broker_name, topics in opened.items():
            table = admin.all_subscription_groups(_addr(run, broker_name))
            paused = paused_topics(table.forbidden_table, run.plan.subject)
            stay_paused[broker_name] = sorted(paused - topics)
            saved[broker_name] = table.data_version.counter
        run.put_progress(Reopened(stay_paused=stay_paused, saved=saved))

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite) -> ConfigWrite:
        """Allow or forbid one topic on one broker; a repetition changes nothing."""
        readable = _readable(write.after)
        if admin.group_forbidden(write.addr, run.plan.subject, write.name).readable != readable:
            run.hold_lease()
            admin.group_forbidden(write.addr, run.plan.subject, write.name, readable=readable)
        if readable:
            _pause_again(run, admin, write.broker_name)
        return write.written()

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Pause the other topics again, and make a broker save a permission that is only in memory."""
        group = run.plan.subject
        for broker_name, counter in run.progress_as(Reopened).saved.items():
            run.beat()
            _pause_again(run, admin, broker_name)
            addr = _addr(run, broker_name)
            table = admin.all_subscription_groups(addr)
            config = table.subscription_group_table.get(group)
            if table.data_version.counter != counter:
                continue
            if config is None:
                text = Text(
                    "%(broker)s has no settings of %(group)s to save with it: a restart would pause it again",
                    broker=broker_name,
                    group=group,
                )
                run.note(text, level="warn")
                continue
            config.attributes = {}  # no attribute changes
            admin.create_subscription_group(addr, config)

    def compare(self, run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
        """Read each topic and broker again and compare them with their targets."""
        addrs = {write.broker_name: write.addr for write in writes}
        by_place = {(write.name, write.broker_name): write for write in writes}
        stay = [
            (topic, name)
            for name, topics in run.progress_as(Reopened).stay_paused.items()
            for topic in topics
        ]
        found = read_places(admin, addrs, run.plan.subject, [*by_place, *stay])
        wrong = [
            Text(
                "%(topic)s is readable on %(broker)s, but should have stayed paused", topic=topic, broker=name
            )
            for topic, name in stay
            if found[topic, name]
        ]
        after = []
        for place, write in by_place.items():
            if found[place] == _readable(write.after):
                after.append(write.on(WriteEvent.SHOWN, at_ms=write.at_ms or run.now_ms()))
            else:
                after.append(write.on(WriteEvent.NOT_SHOWN))
                wrong.append(
                    Text("%(broker)s does not report it for %(topic)s", broker=place[1], topic=place[0])
                )
        return Comparison(after, wrong)

    def verify(self, run: JobRun) -> None:
        """Verify, and update at once what pages show of the brokers' permissions."""
        super().verify(run)
        refusals.survey_cluster(run.plan.cluster, now_ms=run.now_ms())

    def undo_params(self, plan: Plan, job: Job) -> ReadingParams | None:
        """Return the previous permission of each broker that was changed."""
        exact = tuple(
            ExactReading(
                topic=write.name,
                broker_name=write.broker_name,
                readable=_readable(write.before),
                expected=_readable(write.after),
            )
            for write in writes_of(job)
            if write.is_done
        )
        return ReadingParams(exact=exact) if exact else None


class GroupPausePlan(ReadingPlan):
    """Forbid a group to read topics."""

    kind = "group_pause"
    past = {
        (
            "Pause %(group)s on %(topics)s at %(brokers)s. Its clients stop receiving messages. Its "
            "offsets stay, and messages wait until the group is resumed."
        ): gettext_noop(
            "Paused %(group)s on %(topics)s at %(brokers)s. Its offsets stay, and messages wait until "
            "the group is resumed."
        ),
    }
    title = Text("Group pause")
    action = Text("Pause reading")
    another = Another("group-settings", Text("Stop the whole group (consumeEnable)"))
    readable = False


class GroupResumePlan(ReadingPlan):
    """Allow a group to read topics again; without ``topics`` all that are paused."""

    kind = "group_resume"
    past = {
        (
            "Resume %(group)s on %(topics)s at %(brokers)s. Its clients continue from their offsets "
            "within seconds."
        ): gettext_noop(
            "Resumed %(group)s on %(topics)s at %(brokers)s. Its clients continued from their offsets."
        ),
    }
    title = Text("Group resumption")
    action = Text("Resume reading")
    only_adds = True
    another = Another("group-pause", Text("Choose other topics or brokers"))
    readable = True


def _row(
    addrs: Mapping[str, str], topic: str, broker_name: str, before: bool, after: bool, note: Text = Text()
) -> ConfigRow:
    return ConfigRow.of(
        READING, topic, broker_name, addrs[broker_name], {"readable": before}, {"readable": after}, note
    )


def _exact_rows(
    admin: BlockingMQAdmin, cluster: Coverage, group: str, wanted: Sequence[ExactReading]
) -> list[ConfigRow]:
    addrs = chosen_brokers(cluster, [each.broker_name for each in wanted])
    exact = [each for each in wanted if each.broker_name in addrs]
    found = read_places(admin, addrs, group, [(each.topic, each.broker_name) for each in exact])
    rows = []
    for each in exact:
        now = found[each.topic, each.broker_name]
        note = Text() if now == each.expected else Text("changed elsewhere since")
        rows.append(_row(addrs, each.topic, each.broker_name, now, each.readable, note))
    return rows


def _others(facts: PauseFacts, changing: Sequence[ConfigRow]) -> dict[str, list[str]]:
    """Return broker → topics that are paused there and not resumed by this plan."""
    opened: dict[str, set[str]] = {}
    for row in changing:
        opened.setdefault(row.broker_name, set()).add(row.name)
    others = {name: sorted(facts.forbidden[name] - topics) for name, topics in opened.items()}
    return {name: topics for name, topics in others.items() if topics}


def _blocked(
    group: str, params: ReadingParams, facts: PauseFacts, rows: Sequence[ConfigRow], readable: bool
) -> Text:
    unable = [name for name in facts.unable if name in (params.brokers or facts.unable)]
    if unable and not readable and not params.exact:
        return Text(
            "%(brokers)s cannot pause a group on a topic: its release does not support the "
            "request (353, added in "
            "RocketMQ 5.0). Stop the whole group there with consumeEnable in its settings, or choose other brokers.",
            brokers=Text.of_names(unable),
        )
    if any(row.before != row.after for row in rows):
        return Text()
    if rows and all(row.after == {"readable": True} for row in rows):
        return Text("Nothing would change: %(group)s may read this already.", group=group)
    return Text("Nothing would change: this is paused for %(group)s already.", group=group)


def _readable(config: Config | None) -> bool:
    return bool(config and config["readable"])


def _by_broker(writes: Iterable[ConfigWrite]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for write in writes:
        found.setdefault(write.broker_name, set()).add(write.name)
    return {name: frozenset(topics) for name, topics in found.items()}


def _addr(run: JobRun, broker_name: str) -> str:
    return next(write.addr for write in Writes(run) if write.broker_name == broker_name)


def _pause_again(run: JobRun, admin: BlockingMQAdmin, broker_name: str) -> None:
    """Pause the other topics again: Apache's brokers resume them together with the first one."""
    addr, group = _addr(run, broker_name), run.plan.subject
    for topic in run.progress_as(Reopened).stay_paused[broker_name]:
        if admin.group_forbidden(addr, group, topic).readable:
            admin.group_forbidden(addr, group, topic, readable=False)
            run.note(
                Text(
                    "%(broker)s also resumed %(topic)s; it was paused again at once",
                    broker=broker_name,
                    topic=topic,
                ),
                level="info",
            )
