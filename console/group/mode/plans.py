"""The plan kind ``group_mode``: whether members of a group pull a topic's queues or pop its messages (401).

The mode applies to members that let the broker assign queues (``clientRebalance`` false, RocketMQ 5.0). They
ask any broker of the topic, so all brokers should have the same mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext_noop

from console.brokers.mqadmin import RETRY_TOPIC_PREFIX, BlockingMQAdmin, is_retry_topic
from console.group.mode.facts import (
    MODES,
    POP,
    PULL,
    BrokerModes,
    Followers,
    ModeSetting,
    ModeValue,
    ask_followers,
    read_modes,
)
from console.group.pause.words import NAMED_MAX
from console.group.settings import config as settings_config
from console.operation.config.change import (
    ConfigPlan,
    admin_of,
    chosen_brokers,
    covered_rows,
    read_configs,
)
from console.operation.config.row import (
    GROUP,
    TOPIC,
    Config,
    ConfigRow,
    ImpactRow,
    left_out_rows,
    nothing_changes,
)
from console.operation.config.write import Comparison, ConfigWrite, WriteEvent, writes_of
from console.operation.errors import PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, gone_words, read_coverage, recovered
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, Draft, PlanWarning
from console.operation.plan.params import ACCEPTING, ON_BROKERS, Accepted, Given, Parameter, Params
from console.text import Names, Text
from console.text.stored import Stored, of_json

MODE = Text("consume mode")  # ``what`` of a row
SHARE_MAX = 1_024  # a queue shared among more members is shared among all


class ExactModes(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What an undo puts back: broker name → mode."""

    topic: str
    brokers: Mapping[str, ModeValue]


class ModeParams(Params, frozen=True, kw_only=True):
    """The mode of a topic; no brokers: all that have the topic. ``exact``: of an undo."""

    topic: str = ""
    mode: str = ""
    pop_share_queues: int = 0
    brokers: tuple[str, ...] = ()
    exact: ExactModes | None = None

    @property
    def setting(self) -> ModeSetting:
        """The requested setting."""
        return ModeSetting(self.mode, self.pop_share_queues if self.mode == POP else 0, is_set=True)


class ModeBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """Which members follow the mode."""

    impact: tuple[ImpactRow, ...]
    read_at_ms: int


ACCEPTED = Accepted(
    "GroupModeParams",
    "Applies to members that let the broker divide the queues (clientRebalance false).",
    (
        ACCEPTING,
        ON_BROKERS,
        Parameter("topic", required=True),
        Parameter("mode", choices=MODES, required=True),
        Parameter(
            "pop_share_queues",
            int,
            most=SHARE_MAX,
            help_text="POP: over how many further members a queue is shared; 0: over all",
        ),
    ),
)
ModeDraft = Draft[ModeParams, ModeBefore, ConfigRow]


class GroupModePlan(ConfigPlan[ModeParams, ModeBefore]):
    """Set the mode of a group on a topic."""

    params_type, before_type = ModeParams, ModeBefore
    accepted = ACCEPTED
    kind = "group_mode"
    past = {
        "Set how clients of %(group)s get messages of %(topic)s: %(modes)s.": gettext_noop(
            "Changed how clients of %(group)s get messages of %(topic)s: %(modes)s."
        ),
    }
    title = Text("Group consume mode")
    action = Text("Set the consume mode")
    program = "groups"
    another = Another("group-mode", Text("Choose another topic or mode"))

    def read_params(self, given: Given) -> ModeParams:
        """Read the mode of a topic, which is no retry topic. Raises PlanRejected(field)."""
        found = super().read_params(given)
        if is_retry_topic(found.topic):
            raise PlanRejected(Text("A retry topic is always pulled."), "topic")
        return found

    def is_undo(self, params: ModeParams) -> bool:
        """Return whether a plan restores what the job of another one recorded."""
        return params.exact is not None

    def compute(self, cluster: str, subject: str, params: ModeParams, now_ms: int) -> ModeDraft:
        """Read every broker. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        settings_config.check_name(subject)
        settings_config.check_changeable(subject)
        admin = admin_of(cluster)
        brokers = read_coverage(admin, cluster, params.accept_without)
        addrs = brokers.addrs
        modes = read_modes(admin, addrs)
        if params.exact is not None:
            topic, meant = params.exact.topic, set(params.exact.brokers)
            wanted = {
                name: params.exact.brokers[name].setting for name in chosen_brokers(brokers, sorted(meant))
            }
        else:
            topic, meant = params.topic, set(params.brokers or brokers.absent)
            wanted = dict.fromkeys(self._holders(admin, brokers, subject, params), params.setting)
        rows = [
            _row(topic, name, addrs[name], modes[name].of(topic, subject), setting)
            for name, setting in wanted.items()
            if modes[name].is_able
        ]
        cover = brokers.of_brokers(meant, wanted)
        if not wanted:
            cover.require_some(subject)
        followers = ask_followers(admin, addrs, subject)
        return Draft(
            summary=_summary(subject, topic, rows),
            diff=[*rows, *left_out_rows(cover, MODE, topic)],
            coverage=cover,
            before=ModeBefore(impact=tuple(_impact(followers, now_ms)), read_at_ms=now_ms),
            warnings=_warnings(subject, topic, rows, modes, followers),
            blocked=_blocked(wanted, modes) or nothing_changes(rows),
            typed=bool(followers.follow),
        )

    def _holders(
        self, admin: BlockingMQAdmin, cluster: Coverage, group: str, params: ModeParams
    ) -> list[str]:
        """Return the chosen brokers that have both topic and group; others would refuse.

        Raises BrokerUnavailable when only brokers that do not answer may have them, PlanRejected when none
        has.
        """
        chosen = chosen_brokers(cluster, params.brokers)
        if not chosen:
            cluster.of_brokers(params.brokers, ()).require_some(group)
        holders: dict[str, list[str]] = {}
        for what, name in ((TOPIC, params.topic), (GROUP, group)):
            found = read_configs(admin, chosen, what, name)
            holders[what] = [broker for broker, config in found.items() if config is not None]
            if not holders[what]:
                cluster.of_brokers(params.brokers or cluster.absent, ()).require_some(name)
                raise PlanRejected(
                    Text(
                        "There is no %(what)s %(name)s on %(brokers)s.",
                        what=what,
                        name=name,
                        brokers=Text.of_names(list(chosen)),
                    ),
                    what,
                )
        both = [broker for broker in holders[TOPIC] if broker in holders[GROUP]]
        if not both:
            text = Text(
                "No broker has both the topic %(topic)s and the group %(group)s.",
                topic=params.topic,
                group=group,
            )
            raise PlanRejected(text, "topic")
        return both

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read every broker of the plan again."""
        admin = admin_of(plan.cluster)
        cover = read_coverage(admin, plan.cluster)
        addrs = cover.addrs
        rows = {row.broker_name: row for row in covered_rows(plan)}
        sentences = [*recovered(plan, cover), *gone_words(cover, rows)]
        modes = read_modes(admin, {name: addrs[name] for name in rows if name in addrs})
        for name, one in modes.items():
            now = one.of(rows[name].name, plan.subject).value()
            if now != rows[name].before:
                sentences.append(
                    Text(
                        "the mode on %(broker)s is %(mode)s since the plan was made",
                        broker=name,
                        mode=_words(now),
                    )
                )
        return sentences

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite) -> ConfigWrite:
        """Set the mode on one broker, unless it was changed by others meanwhile."""
        now = read_modes(admin, {write.broker_name: write.addr})[write.broker_name]
        shown = now.of(write.name, run.plan.subject).value()
        if shown not in (write.before, write.after):
            return write.changed_by_another(_words(shown))
        if write.after is not None and shown != write.after:
            admin.set_message_request_mode(
                write.addr,
                write.name,
                run.plan.subject,
                write.after["mode"],
                write.after["popShareQueueNum"],
            )
        return write.written()

    def compare(self, run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
        """Read the modes again and compare them with their targets."""
        modes = read_modes(admin, {write.broker_name: write.addr for write in writes})
        after, wrong = [], []
        for write in writes:
            shown = modes[write.broker_name].of(write.name, run.plan.subject).value()
            if shown == write.after:
                after.append(write.on(WriteEvent.SHOWN, at_ms=write.at_ms or run.now_ms()))
            else:
                after.append(write.on(WriteEvent.NOT_SHOWN))
                wrong.append(
                    Text("%(broker)s reports %(what)s", broker=write.broker_name, what=_words(shown))
                )
        return Comparison(after, wrong)

    def undo_params(self, plan: Plan, job: Job) -> ModeParams | None:
        """Return the previous modes; a broker's default is set explicitly, since modes cannot be removed."""
        written = [write for write in writes_of(job) if write.is_done]
        if not written:
            return None
        brokers = {write.broker_name: of_json(ModeValue, write.before) for write in written}
        return ModeParams(exact=ExactModes(topic=written[0].name, brokers=brokers))


def _row(topic: str, broker_name: str, addr: str, now: ModeSetting, wanted: ModeSetting) -> ConfigRow:
    note = Text() if now.is_set else Text("currently the broker's default")
    return ConfigRow.of(MODE, topic, broker_name, addr, now.value(), wanted.value(), note)


def _words(value: Config | None) -> Text:
    shown = value or {}
    if shown.get("popShareQueueNum"):
        return Text(
            "%(mode)s, shared by %(number)s",
            mode=str(shown.get("mode")),
            number=int(shown["popShareQueueNum"]),
        )
    return Text.foreign(str(shown.get("mode")))


def _summary(group: str, topic: str, rows: Sequence[ConfigRow]) -> Text:
    changing = [row for row in rows if row.changes]
    if not changing:
        return Text("Nothing would change for %(group)s.", group=group)
    by_mode: dict[Text, list[str]] = {}
    for row in changing:
        by_mode.setdefault(_words(row.after), []).append(row.broker_name)
    modes = [
        Text("%(mode)s at %(brokers)s", mode=words, brokers=Text.of_names(names))
        for words, names in by_mode.items()
    ]
    return Text(
        "Set how clients of %(group)s get messages of %(topic)s: %(modes)s.",
        group=group,
        topic=topic,
        modes=Text.of_parts(modes),
    )


def _blocked(wanted: Mapping[str, ModeSetting], modes: Mapping[str, BrokerModes]) -> Text:
    unable = [name for name in wanted if not modes[name].is_able]
    if unable:
        return Text(
            "%(broker)s does not support consume modes: they were added in RocketMQ 5.0 (requests 401, "
            "402). Clients there always pull.",
            broker=Text.of_names(unable),
        )
    for name, setting in wanted.items():
        if setting.mode == POP and modes[name].no_pop:
            return Text(
                "%(broker)s cannot be set to POP: %(reason)s.", broker=name, reason=modes[name].no_pop
            )
    return Text()


def _impact(followers: Followers, now_ms: int) -> list[ImpactRow]:
    parts = (
        (Text("Clients that follow it"), followers.follow, Text("they let the broker divide the queues")),
        (
            Text("Clients that ignore it"),
            followers.ignore,
            Text("they divide the queues themselves, or do not support POP"),
        ),
        (Text("Unknown clients"), followers.unknown, Text("they did not report how they rebalance")),
    )
    return [
        ImpactRow(
            name=name,
            value=len(members),
            words=Text("%(what)s: %(names)s", what=words, names=Text.of_names(members, NAMED_MAX))
            if members
            else Text("no client"),
            source=Text("clients"),
            at_ms=now_ms,
        )
        for name, members, words in parts
    ]


def _warnings(
    group: str, topic: str, rows: Sequence[ConfigRow], modes: Mapping[str, BrokerModes], followers: Followers
) -> list[PlanWarning]:
    warnings = []
    if followers.follow:
        title = Text("%(number)s client(s) will follow within 20 s", number=len(followers.follow))
        text = Text(
            "They query a broker for their queues every 20 s, and finish the messages they hold first."
        )
        warnings.append(PlanWarning("warn", title, text))
    elif followers.online and not followers.unknown:
        text = Text(
            "They divide the queues themselves (clientRebalance = true, the default) and keep pulling. "
            "The mode applies to clients with clientRebalance = false."
        )
        warnings.append(PlanWarning("warn", Text("No online client follows it"), text))
    elif not followers.online:
        text = Text("It applies to clients with clientRebalance = false that come online later.")
        warnings.append(PlanWarning("info", Text("No client is online"), text))
    after = {name: one.of(topic, group).value() for name, one in modes.items() if one.is_able}
    after |= {row.broker_name: row.after or {} for row in rows}
    if len({str(value) for value in after.values()}) > 1:
        says = Names(f"{name} {_words(value)}" for name, value in sorted(after.items()))
        text = Text(
            "Clients may query any of them, so their mode would change from one request to the next: "
            "%(says)s.",
            says=says,
        )
        warnings.append(PlanWarning("danger", Text("The brokers will differ"), text))
    if any((row.after or {}).get("mode") == POP and (row.before or {}).get("mode") == PULL for row in rows):
        text = Text(
            "Brokers hide unacknowledged messages for a while and then deliver them again, failed ones "
            "through %(retry_topic)s. The offset advances when all messages before it are acknowledged.",
            retry_topic=f"{RETRY_TOPIC_PREFIX}{group}_{topic}",
        )
        warnings.append(PlanWarning("info", Text("Brokers track popped messages"), text))
    return warnings
