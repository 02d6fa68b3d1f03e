"""Read, compare, write, verify and restore the configuration of topics and groups, broker by broker.

Shared by the plan kinds of topics and groups. A `ConfigRow` is one object on one broker before and after, a
`ConfigWrite` the same during a job. Writing is safe to repeat: a broker that already has the target is left alone; one
that has neither the state before nor the target was changed by another client and is not touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    RemotingTimeout,
    SubscriptionGroupConfig,
    TopicConfig,
    with_admin,
)
from console.brokers.queues import ask_each, masters, require_answer, topic_route
from console.cluster import selectors as cluster_selectors
from console.lag import services as lag_services
from console.operation.config.equivalents import command_line, config_plans_call
from console.operation.config.row import (
    PERM_READ_WRITE,
    TOPIC,
    Action,
    Config,
    ConfigRow,
    denied,
    difference,
    is_denied,
    terminal_rows,
)
from console.operation.config.write import (
    Comparison,
    ConfigResult,
    ConfigWrite,
    WriteEvent,
    Writes,
    WriteState,
    writes_of,
)
from console.operation.errors import OperationError, PlanRejected, VerificationFailed
from console.operation.models import Job, Plan
from console.operation.plan.coverage import UNLISTED, Coverage, gone_words, read_coverage, recovered
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import B, P, PlanKind, RestCall
from console.operation.plan.params import Params
from console.text import Names, Text, text_of
from console.text.stored import Stored, of_json

TOPIC_NOT_EXIST = 17
VERIFY_WITHIN_S = 30.0  # brokers register with name servers at once; slow ones answer within their limits
VERIFY_EVERY_S = 0.2
AWAY = (BrokerUnavailable, RemotingTimeout)


class ConfigRefused(OperationError):
    """Some brokers did not take the change; the job's rows name them with their reasons."""

    code = "config_refused"


def admin_of(cluster: str) -> BlockingMQAdmin:
    """Return the client for the brokers of a registered cluster."""
    return with_admin(cluster_selectors.cluster_by_name(cluster).connection)


def chosen_brokers(cover: Coverage, wanted: Collection[str] | None) -> dict[str, str]:
    """Return the named brokers, or all, that answer. Raises PlanRejected for a name that no broker has."""
    unknown = sorted(set(wanted or ()) - set(cover.addrs) - set(cover.absent))
    if unknown:
        known = Names(sorted({*cover.addrs, *cover.absent}))
        raise PlanRejected(
            Text("There is no broker %(name)s. Brokers: %(known)s.", name=Names(unknown), known=known),
            "brokers",
        )
    return {name: addr for name, addr in cover.addrs.items() if not wanted or name in wanted}


def covered_rows(plan: Plan) -> list[ConfigRow]:
    """Return the rows of a plan's diff without those of brokers that it leaves out."""
    return [row for row in of_json(list[ConfigRow], plan.diff) if row.is_covered]


def addrs_of_plan(admin: BlockingMQAdmin, plan: Plan) -> dict[str, str]:
    """Return the plan's brokers → current master addresses; raise BrokerUnavailable if one has left."""
    addrs = masters(admin)
    names = sorted({row.broker_name for row in covered_rows(plan)})
    for name in names:
        if name not in addrs:
            raise BrokerUnavailable(name, UNLISTED)
    return {name: addrs[name] for name in names}


def read_configs(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], what: str, name: str
) -> dict[str, Config | None]:
    """Return broker name → configuration, None if missing; raise BrokerUnavailable for a silent broker."""
    answers = ask_configs(admin, addrs, what, name)
    return {
        broker_name: require_answer(
            broker_name, addrs[broker_name], answer, Text("its part of %(name)s", name=name)
        )
        for broker_name, answer in answers.items()
    }


def ask_configs(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], what: str, name: str, deadline_ms: int = 10_000
) -> dict[str, Config | None | Exception]:
    """Return the same, with a broker's error in place of its configuration, for pages."""

    async def ask(client: MQAdmin, addr: str) -> Config | None:
        if what == TOPIC:
            try:
                return (await client.topic_config(addr, name)).to_value()
            except MQBrokerError as error:
                if error.code == TOPIC_NOT_EXIST:
                    return None
                raise
        # Request 352 reads one group and creates it if it is missing: read the whole table instead.
        config = (await client.all_subscription_groups(addr)).subscription_group_table.get(name)
        return None if config is None else config.to_value()

    return ask_each(admin, addrs, ask, deadline_ms)


# --- Applying -----------------------------------------------------------------------------------------------


def apply_writes(run: JobRun, apply_row: Callable[[ConfigWrite], ConfigWrite]) -> None:
    """Write every waiting row with ``apply_row``.

    A broker that is away does not delay the others: its error is raised at the end, so that the job comes back for it.
    Raises ConfigRefused if a broker refused or was changed meanwhile.
    """
    away: Exception | None = None
    writes = Writes(run)
    for write in [each for each in writes if each.is_waiting]:
        run.beat()
        try:
            after = apply_row(write)
        except AWAY as error:
            away = error
            text = Text("%(broker)s does not answer: %(why)s", broker=write.broker_name, why=text_of(error))
            after = write.with_(error=text)
        except (MQBrokerError, MQClientError) as error:
            text = Text("%(broker)s refused: %(why)s", broker=write.broker_name, why=text_of(error))
            after = write.on(WriteEvent.REFUSED, error=text)
        writes.put([after.with_(at_ms=run.now_ms())])
        run.count(done=writes.handled)
        run.save()
    if away is not None:
        raise away
    failed = [write.error for write in writes if write.state is WriteState.FAILED]
    if failed:
        raise ConfigRefused(Text.of_parts(failed))


def write_config(
    run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite, *, clean_offset: bool
) -> ConfigWrite:
    """Bring one broker to its target, unless another client changed it meanwhile."""
    now = read_configs(admin, {write.broker_name: write.addr}, *write.object)[write.broker_name]
    half_deleted = (
        write.after is None
        and write.before is not None
        and write.what == TOPIC
        and now == denied(TOPIC, write.before)
    )
    if now not in (write.before, write.after) and not half_deleted:
        return write.changed_by_another(difference(write.before, now))
    if now != write.after:
        run.hold_lease()
        send_config(admin, *write.object, write.addr, now, write.after, clean_offset=clean_offset)
    return write.written()


def send_config(
    admin: BlockingMQAdmin,
    what: str,
    name: str,
    addr: str,
    before: Config | None,
    after: Config | None,
    *,
    clean_offset: bool = True,
) -> None:
    """Bring one broker to ``after``."""
    if what == TOPIC and after is None:
        if before is not None and not is_denied(TOPIC, before):
            # A broker that deletes a topic does not notify its name servers; one that changes it does. So no
            # client is routed here while other brokers keep the topic.
            admin.create_topic(addr, TopicConfig.from_value(denied(TOPIC, before)), before.get("attributes"))
        admin.delete_topic(addr, name)
    elif what == TOPIC:
        former = TopicConfig.from_value(before or {}).attributes
        admin.create_topic(addr, TopicConfig.from_value(after), former)
    elif after is None:
        admin.delete_subscription_group(addr, name, clean_offset=clean_offset)
    else:
        config = SubscriptionGroupConfig.from_value(after)
        config.attributes = _attribute_words((before or {}).get("attributes", {}), config.attributes)
        admin.create_subscription_group(addr, config)


def _attribute_words(former: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return a group's attributes as request 200 takes them: ``+key`` new or changed, ``-key`` removed."""
    added = {f"+{key}": value for key, value in wanted.items() if former.get(key) != value}
    return added | {f"-{key}": "" for key in former if key not in wanted}


def drop_routes(admin: BlockingMQAdmin, writes: Iterable[ConfigWrite]) -> None:
    """Delete the routes of topics that no broker has any more: brokers do not withdraw them."""
    gone = sorted({write.name for write in writes if write.what == TOPIC and write.after is None})
    for topic in gone:
        # A broker that is away may still have the topic: its route returns with it.
        held = read_configs(admin, masters(admin), TOPIC, topic)
        if all(config is None for config in held.values()) and topic_route(admin, topic) is not None:
            admin.delete_topic_in_namesrv(topic)


def watch_writes(
    run: JobRun, compare: Callable[[JobRun, BlockingMQAdmin, Sequence[ConfigWrite]], Comparison]
) -> None:
    """Check again until ``compare`` finds no difference. Raises VerificationFailed with what it found."""
    admin, writes = admin_of(run.plan.cluster), Writes(run)
    waited_s = 0.0
    while True:
        run.beat()
        found = compare(run, admin, [write for write in writes if write.is_done])
        writes.put(found.writes)
        run.count(verified=sum(write.state is WriteState.VERIFIED for write in found.writes))
        if not found.wrong:
            run.save()
            return
        if waited_s >= VERIFY_WITHIN_S:
            raise VerificationFailed(Text.of_parts(found.wrong))
        run.sleep(VERIFY_EVERY_S)
        waited_s += VERIFY_EVERY_S


def compare_configs(run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
    """Read the objects again and compare them with their targets."""
    found, wrong = [], []
    for what, name in sorted({write.object for write in writes}):
        of_object = {write.broker_name: write for write in writes if write.object == (what, name)}
        addrs = {broker_name: write.addr for broker_name, write in of_object.items()}
        for broker_name, now in read_configs(admin, addrs, what, name).items():
            write = of_object[broker_name]
            if now == write.after:
                found.append(write.on(WriteEvent.SHOWN, at_ms=run.now_ms()))
                continue
            found.append(write.on(WriteEvent.NOT_SHOWN))
            text = Text(
                "%(broker)s does not report it: %(difference)s",
                broker=broker_name,
                difference=difference(write.after, now),
            )
            wrong.append(text)
    return Comparison(found, wrong)


def _wrong_routes(admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> list[Text]:
    wrong = []
    for topic in sorted({write.name for write in writes if write.what == TOPIC}):
        route = topic_route(admin, topic)
        data = {} if route is None else {each.broker_name: each for each in route.queue_datas}
        for write in writes:
            if write.object != (TOPIC, topic):
                continue
            shown, after = data.get(write.broker_name), write.after
            if after is None:
                # Another broker may keep the topic; here clients may neither read nor write.
                if shown is not None and shown.perm & PERM_READ_WRITE:
                    wrong.append(
                        Text(
                            "the route of %(topic)s still leads to %(broker)s",
                            topic=topic,
                            broker=write.broker_name,
                        )
                    )
            elif shown is None or (shown.perm, shown.read_queue_nums, shown.write_queue_nums) != (
                after["perm"],
                after["readQueueNums"],
                after["writeQueueNums"],
            ):
                wrong.append(
                    Text(
                        "the route of %(topic)s does not show %(broker)s as it is now",
                        topic=topic,
                        broker=write.broker_name,
                    )
                )
    return wrong


# --- Comparing and putting back -----------------------------------------------------------------------------


def config_drift(plan: Plan) -> list[Text]:
    """Return a sentence per broker whose configuration changed, or that left or returned, since the plan."""
    admin = admin_of(plan.cluster)
    cover = read_coverage(admin, plan.cluster)
    addrs, planned = cover.addrs, covered_rows(plan)
    sentences = [
        *recovered(plan, cover),
        *gone_words(cover, {row.broker_name for row in planned}),
    ]
    for what, name in sorted({(row.what, row.name) for row in planned}):
        rows = {row.broker_name: row for row in planned if (row.what, row.name) == (what, name)}
        here = {broker_name: addr for broker_name, addr in addrs.items() if broker_name in rows}
        for broker_name, now in read_configs(admin, here, what, name).items():
            if now != rows[broker_name].before:
                sentences.append(
                    Text(
                        "%(name)s on %(broker)s: %(difference)s",
                        name=name,
                        broker=broker_name,
                        difference=difference(rows[broker_name].before, now),
                    )
                )
    return sentences


class Exact(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What an undo puts back on one broker; ``expected``: what the job left there."""

    what: str
    name: str
    broker_name: str
    config: Config | None
    expected: Config | None


class ConfigParams(Params, frozen=True, kw_only=True):
    """Parameters of a change of configuration: no brokers means all of them. ``exact``: of an undo."""

    brokers: tuple[str, ...] = ()
    exact: tuple[Exact, ...] = ()


def undone(job: Job) -> tuple[Exact, ...]:
    """Return what the job really changed, reversed."""
    return tuple(
        Exact(
            what=write.what,
            name=write.name,
            broker_name=write.broker_name,
            config=write.before,
            expected=write.after,
        )
        for write in writes_of(job)
        if write.is_done
    )


def exact_rows(admin: BlockingMQAdmin, cover: Coverage, exact: Sequence[Exact]) -> list[ConfigRow]:
    """Return the rows of an undo: every broker that answers gets the recorded configuration back."""
    rows = []
    for what, name in dict.fromkeys((each.what, each.name) for each in exact):
        wanted = {each.broker_name: each for each in exact if (each.what, each.name) == (what, name)}
        here = chosen_brokers(cover, list(wanted))
        for broker_name, now in read_configs(admin, here, what, name).items():
            each = wanted[broker_name]
            note = Text()
            if now not in (each.expected, each.config):
                note = Text(
                    "changed elsewhere since: %(difference)s",
                    difference=difference(each.expected, now),
                )
            rows.append(ConfigRow.of(what, name, broker_name, here[broker_name], now, each.config, note))
    return rows


class ConfigPlan(PlanKind[P, B, ConfigRow], ABC):
    """A change of configuration.

    A subclass computes the plan; it overrides writing and verifying for rows of other kinds.
    """

    verb = "CONFIGURE"
    row_type = ConfigRow
    diff_template = "operation/_diff_config.html"
    job_template = "operation/_job_config.html"
    action: ClassVar[Text]  # the label of its button
    only_adds: ClassVar[bool] = False
    shown_with_next_round: ClassVar[bool] = True

    @abstractmethod
    def is_undo(self, params: P) -> bool:
        """Return whether a plan restores exactly what the job of another one recorded."""

    def button(self, plan: Plan) -> Text:
        """Name the change, or what the undo restores."""
        return Text("Restore it") if self.is_undo(self.params_of(plan)) else self.action

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether the plan only creates or reopens an object; an undo is never harmless."""
        return self.only_adds and not self.is_undo(self.params_of(plan))

    def rest_call(self, cluster: str, subject: str, params: P) -> RestCall | None:
        """Return the REST request; None for an undo, which restores what was recorded."""
        return None if self.is_undo(params) else config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: P) -> str:
        """Return the command line: ``manage.py topics change NAME …``, ``manage.py groups …``."""
        return command_line(cluster, self.kind, subject, params)

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Yield, for an object on one broker, the action and every key that changes."""
        return terminal_rows(self.rows_of(plan))

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read the brokers again and compare with the plan."""
        return config_drift(plan)

    def apply(self, run: JobRun) -> None:
        """Write broker by broker, then have the next collection round read the tables again."""
        admin = admin_of(run.plan.cluster)
        if run.result_as(ConfigResult).brokers is None:
            changing = [row for row in covered_rows(run.plan) if row.action is not Action.STAY]
            Writes(run).put(ConfigWrite.of(row) for row in changing)
            run.count(done=0, total=len(changing))
            self.before_apply(run, admin)
            run.save()
        apply_writes(run, lambda write: self.apply_row(run, admin, write))
        drop_routes(admin, Writes(run))
        self.after_apply(run, admin)
        names = list(dict.fromkeys(write.broker_name for write in Writes(run)))
        run.note(Text("Written to %(where)s", where=Text.of_names(names)))
        self.refresh_pages(run.plan.cluster)

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, write: ConfigWrite) -> ConfigWrite:
        """Write one row; return it with its new state."""
        return write_config(run, admin, write, clean_offset=self.cleans_offsets(run.plan))

    def cleans_offsets(self, plan: Plan) -> bool:
        """Return whether the committed offsets of a deleted group are deleted too."""
        return True

    def refresh_pages(self, cluster: str) -> None:
        """Have the data of the pages read again soon."""
        lag_services.request_refresh(cluster)

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record what the undo needs and the brokers drop."""

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Run once every broker has the new configuration."""

    def verify(self, run: JobRun) -> None:
        """Poll the brokers and the route until all have the target."""
        watch_writes(run, self.compare)
        self.refresh_pages(run.plan.cluster)

    def settle(self, run: JobRun) -> None:
        """Report how many brokers were written before the job was cancelled."""
        writes = run.result_as(ConfigResult).brokers
        run.put_result(ConfigResult(brokers=writes, written=sum(write.is_done for write in writes or ())))
        self.refresh_pages(run.plan.cluster)

    def compare(self, run: JobRun, admin: BlockingMQAdmin, writes: Sequence[ConfigWrite]) -> Comparison:
        """Compare every broker and route with its target."""
        found = compare_configs(run, admin, writes)
        return Comparison(found.writes, [*found.wrong, *_wrong_routes(admin, writes)])
