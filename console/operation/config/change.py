"""Configuration of topics and groups, broker by broker: read, compare, write, watch, put back.

What the plan kinds of topics and groups have in common. A row is one object on one broker: its configuration
before and after as the brokers spell it (``readQueueNums``), None where the broker does not have it. Writing
is safe to repeat: a broker that shows the target already is left alone, one that shows neither the state
before nor the target was changed by somebody else and is not touched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

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
from console.brokers.queues import ask_each, masters, told, topic_route
from console.cluster import selectors as cluster_selectors
from console.lag import services as lag_services
from console.operation.config.equivalents import command_line, config_plans_call
from console.operation.errors import OperationError, PlanRejected, VerificationFailed
from console.operation.job.runner import JobRun
from console.operation.models import Job, Plan
from console.operation.plan.coverage import LEFT_OUT, UNLISTED, Coverage, came_back, gone_words, read_coverage
from console.operation.plan.kinds import PlanKind, PlanWarning, RestCall
from console.text import Text, text_of

TOPIC, GROUP = "topic", "group"
Config = dict[str, Any]  # a TopicConfig or SubscriptionGroupConfig under its wire names
TOPIC_NOT_EXIST = 17
PERM_READ_WRITE = 6  # PermName: read 4, write 2
VERIFY_WITHIN_S = 30.0  # a broker tells its name servers at once; the slowest answer within their own limits
VERIFY_EVERY_S = 0.2
AWAY = (BrokerUnavailable, RemotingTimeout)


class ConfigRefused(OperationError):
    """Some brokers did not take the change; the job's rows say which and why."""

    code = "config_refused"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigRow:
    """One topic or group on one broker. ``note``: what a reader of the plan should know of this row."""

    what: str  # TOPIC | GROUP
    name: str
    broker_name: str
    addr: str
    before: Config | None
    after: Config | None
    note: Text = Text()

    @property
    def changes(self) -> list[dict[str, Any]]:
        """[{key, before, after}], only what differs; the whole configuration where it comes or goes."""
        keys = [*(self.before or {}), *(key for key in self.after or {} if key not in (self.before or {}))]
        return [
            {"key": key, "before": was, "after": becomes}
            for key in keys
            if (was := (self.before or {}).get(key)) != (becomes := (self.after or {}).get(key))
        ]

    def as_row(self) -> dict[str, Any]:
        """The row of a plan's diff. ``deed``: create | change | delete | stay."""
        deed = "stay" if self.before == self.after else "change"
        if deed == "change" and (self.before is None or self.after is None):
            deed = "create" if self.before is None else "delete"
        return {**dataclasses.asdict(self), "deed": deed, "changes": self.changes}


def admin_of(cluster: str) -> BlockingMQAdmin:
    """The way to the brokers of a registered cluster."""
    return with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)


def chosen_brokers(cover: Coverage, wanted: Collection[str] | None) -> dict[str, str]:
    """Those of the brokers named, or of all, that answer. Raises PlanRejected for a name that no broker has."""
    unknown = sorted(set(wanted or ()) - set(cover.addrs) - set(cover.absent))
    if unknown:
        known = ", ".join(sorted({*cover.addrs, *cover.absent}))
        raise PlanRejected(
            Text("There is no broker %(name)s; there is %(known)s.", name=", ".join(unknown), known=known),
            "brokers",
        )
    return {name: addr for name, addr in cover.addrs.items() if not wanted or name in wanted}


def left_out_rows(cover: Coverage, what: str, name: str) -> list[dict[str, Any]]:
    """Rows of a plan's diff for the brokers that it does not reach: what they have is unknown, and stays."""
    return [
        {
            "what": what,
            "name": name,
            "broker_name": broker,
            "addr": "",
            "before": None,
            "after": None,
            "note": each.words,
            "deed": LEFT_OUT,
            "changes": [],
        }
        for broker, each in sorted(cover.absent.items())
    ]


def covered_rows(plan: Plan) -> list[dict[str, Any]]:
    """The rows of a plan's diff without those of brokers that it leaves out."""
    return [row for row in plan.diff if row["deed"] != LEFT_OUT]


def addrs_of_plan(admin: BlockingMQAdmin, plan: Plan) -> dict[str, str]:
    """Broker name → address of its master now, of the brokers that a plan covers. Raises BrokerUnavailable for one that
    left the cluster.
    """
    addrs = masters(admin)
    names = sorted({row["broker_name"] for row in covered_rows(plan)})
    for name in names:
        if name not in addrs:
            raise BrokerUnavailable(name, UNLISTED)
    return {name: addrs[name] for name in names}


def read_configs(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], what: str, name: str
) -> dict[str, Config | None]:
    """Broker name → configuration, None where it does not exist. Raises BrokerUnavailable for a silent broker:
    a change that does not see every broker would be made blind.
    """
    answers = ask_configs(admin, addrs, what, name)
    return {
        broker_name: told(broker_name, addrs[broker_name], answer, Text("its part of %(name)s", name=name))
        for broker_name, answer in answers.items()
    }


def ask_configs(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], what: str, name: str, deadline_ms: int = 10_000
) -> dict[str, Config | None | Exception]:
    """The same with each broker's error in its place, for pages that show what they can."""

    async def ask(client: MQAdmin, addr: str) -> Config | None:
        if what == TOPIC:
            try:
                return (await client.topic_config(addr, name)).to_value()
            except MQBrokerError as error:
                if error.code == TOPIC_NOT_EXIST:
                    return None
                raise
        # 352 asks for one group, and makes it where it is missing: the whole table only reads.
        config = (await client.all_subscription_groups(addr)).subscription_group_table.get(name)
        return None if config is None else config.to_value()

    return ask_each(admin, addrs, ask, deadline_ms)


def is_denied(what: str, config: Mapping[str, Any]) -> bool:
    """Whether nobody may use it: a topic that may be neither read nor written, a group that may not consume."""
    if what == TOPIC:
        return not int(config.get("perm", PERM_READ_WRITE)) & PERM_READ_WRITE
    return not config.get("consumeEnable", True)


SWITCHES: Mapping[str, tuple[str, Any]] = {TOPIC: ("perm", 0), GROUP: ("consumeEnable", False)}


def denied(what: str, config: Config) -> Config:
    """The same object for nobody: a topic that is neither read nor written, a group that may not consume."""
    key, closed = SWITCHES[what]
    return {**config, key: closed}


def reopened(what: str, config: Config, former: Config) -> Config:
    """A closed object as open as it was; one that somebody opened since stays as it is."""
    key, _ = SWITCHES[what]
    return {**config, key: former[key]} if is_denied(what, config) else config


# --- Applying -----------------------------------------------------------------------------------------------


def result_rows(diff: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a job keeps of each row that changes something: its state and what went wrong."""
    kept = ("what", "name", "broker_name", "addr", "before", "after", "changes", "deed")
    return [
        {**{key: row[key] for key in kept}, "state": "waiting", "error": "", "at_ms": None}
        for row in diff
        if row["deed"] not in ("stay", LEFT_OUT)
    ]


def apply_rows(run: JobRun, apply_row: Callable[[dict[str, Any]], None]) -> None:
    """Write every row that waits: ``apply_row`` sets its state. A broker that is away does not hold up the others;
    the job then comes back for it. Raises what says that it is away, ConfigRefused when a broker refused or was
    changed meanwhile.
    """
    away: Exception | None = None
    for row in run.result["brokers"]:
        if row["state"] != "waiting":
            continue
        run.beat()
        try:
            apply_row(row)
        except AWAY as error:
            away, row["error"] = (
                error,
                Text("%(broker)s is away: %(why)s", broker=row["broker_name"], why=text_of(error)),
            )
        except (MQBrokerError, MQClientError) as error:
            row["state"] = "failed"
            row["error"] = Text("%(broker)s refused: %(why)s", broker=row["broker_name"], why=text_of(error))
        row["at_ms"] = run.now_ms()
        run.progress |= {"done": sum(each["state"] != "waiting" for each in run.result["brokers"])}
        run.save()
    if away is not None:
        raise away
    failed = [row["error"] for row in run.result["brokers"] if row["state"] == "failed"]
    if failed:
        raise ConfigRefused(Text.of_parts(failed))


def write_row(run: JobRun, admin: BlockingMQAdmin, row: dict[str, Any], *, clean_offset: bool) -> None:
    """Make one broker show its target, unless somebody else changed it meanwhile."""
    now = read_configs(admin, {row["broker_name"]: row["addr"]}, row["what"], row["name"])[row["broker_name"]]
    half_deleted = row["after"] is None and row["what"] == TOPIC and now == denied(TOPIC, row["before"])
    if now not in (row["before"], row["after"]) and not half_deleted:
        row["state"] = "failed"
        row["error"] = Text(
            "%(broker)s was changed by somebody else meanwhile: %(difference)s",
            broker=row["broker_name"],
            difference=difference(row["before"], now),
        )
        return
    if now != row["after"]:
        run.hold_lease()
        write(admin, row["what"], row["name"], row["addr"], now, row["after"], clean_offset=clean_offset)
    row["state"], row["error"] = "applied", ""


def write(
    admin: BlockingMQAdmin,
    what: str,
    name: str,
    addr: str,
    before: Config | None,
    after: Config | None,
    *,
    clean_offset: bool = True,
) -> None:
    """Make one broker show ``after``."""
    if what == TOPIC and after is None:
        if before is not None and not is_denied(TOPIC, before):
            # A broker that deletes a topic does not tell its name servers; one that changes it does. So no
            # client is led here while other brokers keep the topic.
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
    """Attributes of a group as request 200 takes them: ``+key`` for new and changed ones, ``-key`` to go."""
    added = {f"+{key}": value for key, value in wanted.items() if former.get(key) != value}
    return added | {f"-{key}": "" for key in former if key not in wanted}


def forget_routes(admin: BlockingMQAdmin, rows: Iterable[Mapping[str, Any]]) -> None:
    """Tell the name servers of topics that no broker has any more: brokers do not take their routes back."""
    gone = sorted({row["name"] for row in rows if row["what"] == TOPIC and row["after"] is None})
    for topic in gone:
        # A broker that is away may have the topic still: its route comes back with it.
        held = read_configs(admin, masters(admin), TOPIC, topic)
        if all(config is None for config in held.values()) and topic_route(admin, topic) is not None:
            admin.delete_topic_in_namesrv(topic)


def watch_rows(
    run: JobRun, unlike: Callable[[JobRun, BlockingMQAdmin, Sequence[dict[str, Any]]], list[Text]]
) -> None:
    """Ask again until ``unlike`` has nothing more to say. Raises VerificationFailed with what it says."""
    admin = admin_of(run.plan.cluster)
    rows = [row for row in run.result["brokers"] if row["state"] in ("applied", "verified")]
    waited_s = 0.0
    while True:
        run.beat()
        wrong = unlike(run, admin, rows)
        run.progress |= {"verified": sum(row["state"] == "verified" for row in rows)}
        if not wrong:
            run.save()
            return
        if waited_s >= VERIFY_WITHIN_S:
            raise VerificationFailed(Text.of_parts(wrong))
        run.sleep(VERIFY_EVERY_S)
        waited_s += VERIFY_EVERY_S


def _wrong_rows(run: JobRun, admin: BlockingMQAdmin, rows: Sequence[dict[str, Any]]) -> list[Text]:
    wrong = []
    for what, name in sorted({(row["what"], row["name"]) for row in rows}):
        of_object = {row["broker_name"]: row for row in rows if (row["what"], row["name"]) == (what, name)}
        addrs = {broker_name: row["addr"] for broker_name, row in of_object.items()}
        for broker_name, now in read_configs(admin, addrs, what, name).items():
            row = of_object[broker_name]
            if now == row["after"]:
                row["state"], row["at_ms"] = "verified", run.now_ms()
            else:
                row["state"] = "applied"
                wrong.append(
                    Text(
                        "%(broker)s does not show it: %(difference)s",
                        broker=broker_name,
                        difference=difference(row["after"], now),
                    )
                )
    return wrong


def _wrong_routes(admin: BlockingMQAdmin, rows: Sequence[Mapping[str, Any]]) -> list[Text]:
    wrong = []
    for topic in sorted({row["name"] for row in rows if row["what"] == TOPIC}):
        route = topic_route(admin, topic)
        data = {} if route is None else {each.broker_name: each for each in route.queue_datas}
        for row in rows:
            if row["what"] != TOPIC or row["name"] != topic:
                continue
            shown, after = data.get(row["broker_name"]), row["after"]
            if after is None:  # another broker may keep the topic; what clients may do there is nothing
                if shown is not None and shown.perm & PERM_READ_WRITE:
                    wrong.append(
                        Text(
                            "the route of %(topic)s still leads to %(broker)s",
                            topic=topic,
                            broker=row["broker_name"],
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
                        broker=row["broker_name"],
                    )
                )
    return wrong


# --- Comparing and putting back -----------------------------------------------------------------------------


def difference(expected: Config | None, found: Config | None) -> Text:
    """``perm is 4, not 6``: how a configuration differs from the expected one, in words."""
    if found is None:
        return Text("it does not exist there")
    if expected is None:
        return Text("it exists there")
    return Text.of_list(
        [
            Text(
                "%(key)s is %(value)s, not %(expected)s",
                key=key,
                value=repr(found.get(key)),
                expected=repr(expected.get(key)),
            )
            for key in sorted({*expected, *found})
            if expected.get(key) != found.get(key)
        ]
    )


def config_drift(plan: Plan) -> list[Text]:
    """A sentence per broker whose configuration is not what the plan saw, that is gone, or that is back."""
    admin = admin_of(plan.cluster)
    cover = read_coverage(admin, plan.cluster, {})
    addrs, planned = cover.addrs, covered_rows(plan)
    sentences = [
        *came_back(plan.before, cover),
        *gone_words(cover, {row["broker_name"] for row in planned}),
    ]
    for what, name in sorted({(row["what"], row["name"]) for row in planned}):
        rows = {row["broker_name"]: row for row in planned if (row["what"], row["name"]) == (what, name)}
        here = {broker_name: addr for broker_name, addr in addrs.items() if broker_name in rows}
        for broker_name, now in read_configs(admin, here, what, name).items():
            if now != rows[broker_name]["before"]:
                sentences.append(
                    Text(
                        "%(name)s on %(broker)s: %(difference)s",
                        name=name,
                        broker=broker_name,
                        difference=difference(rows[broker_name]["before"], now),
                    )
                )
    return sentences


def undo_rows(job: Job) -> list[dict[str, Any]]:
    """What the job really changed, turned round: the parameter ``exact`` of the plan that puts it back."""
    return [
        {
            "what": row["what"],
            "name": row["name"],
            "broker_name": row["broker_name"],
            "config": row["before"],
            "expected": row["after"],
        }
        for row in job.result.get("brokers", [])
        if row["state"] in ("applied", "verified")
    ]


def exact_rows(
    admin: BlockingMQAdmin, cover: Coverage, exact: Sequence[Mapping[str, Any]]
) -> list[ConfigRow]:
    """The rows of an undo: every broker that answers gets back the very configuration that was recorded."""
    rows = []
    for what, name in dict.fromkeys((each["what"], each["name"]) for each in exact):
        wanted = {each["broker_name"]: each for each in exact if (each["what"], each["name"]) == (what, name)}
        here = chosen_brokers(cover, list(wanted))
        for broker_name, now in read_configs(admin, here, what, name).items():
            each = wanted[broker_name]
            note = Text()
            if now not in (each["expected"], each["config"]):
                note = Text(
                    "changed since by somebody else: %(difference)s",
                    difference=difference(each["expected"], now),
                )
            rows.append(ConfigRow(what, name, broker_name, here[broker_name], now, each["config"], note))
    return rows


def overwritten_warning(rows: Iterable[ConfigRow]) -> list[PlanWarning]:
    """A warning where putting back also takes back what somebody else changed since."""
    notes = [Text("%(broker)s: %(note)s.", broker=row.broker_name, note=row.note) for row in rows if row.note]
    if not notes:
        return []
    return [PlanWarning("warn", Text("Later changes are taken back too"), Text.of_parts(notes))]


def nothing_changes(rows: Sequence[ConfigRow]) -> Text:
    """Why such a plan can not be applied; empty where it can."""
    if any(row.before != row.after for row in rows):
        return Text()
    return Text("Nothing would change: the brokers show it already.")


def shown(value: Any) -> str:
    """A configuration value as a person reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    return "none" if value is None else str(value)


def change_summary(name: str, rows: Sequence[ConfigRow]) -> Text:
    """What changes where; brokers with the same change are named together."""
    by_change: dict[str, list[str]] = {}
    for row in rows:
        if row.changes:
            words = ", ".join(
                f"{one['key']} {shown(one['before'])} → {shown(one['after'])}" for one in row.changes
            )
            by_change.setdefault(words, []).append(row.broker_name)
    if not by_change:
        return Text("This would change nothing: %(name)s is as asked for on every broker.", name=name)
    changes = [
        Text("%(change)s on %(brokers)s", change=words, brokers=Text.of_names(names))
        for words, names in by_change.items()
    ]
    return Text("This will change %(name)s: %(changes)s.", name=name, changes=Text.of_parts(changes))


def is_undo(params: Mapping[str, Any]) -> bool:
    """Whether a plan puts back, to the letter, what the job of another one recorded."""
    return "exact" in params


def terminal_rows(diff: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Rows of such a diff with the keys that change, as the commands print them."""
    for row in diff:
        yield f"{row['broker_name']}  {row['deed']} {row['what']} {row['name']}  {row['note']}".rstrip()
        for one in row["changes"]:
            yield f"  {one['key']:<30} {_in_terminal(one['before']):>12} → {_in_terminal(one['after'])}"


def _in_terminal(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def counted(number: int, noun: str, verb: str = "") -> str:
    """``1 message``, ``1,204 messages``; with a verb in the plural (``were``): ``1 message was``."""
    singular = {"were": "was", "are": "is"}.get(verb, verb)
    words = f"{number:,} {noun}{'' if number == 1 else 's'}"
    return f"{words} {singular if number == 1 else verb}" if verb else words


class ConfigPlan(PlanKind):
    """What every kind that changes configuration does the same way. A subclass computes the plan; it writes and
    watches the rows itself where they are not the configuration of a topic or group.
    """

    verb = "CONFIGURE"
    diff_template = "operation/_diff_config.html"
    job_template = "operation/_job_config.html"
    action: ClassVar[Text]  # the label of its button
    only_adds: ClassVar[bool] = False

    def button(self, plan: Plan) -> Text:
        """What it does, or that it puts back what another plan did."""
        return Text("Put it back") if is_undo(plan.params) else self.action

    def is_harmless(self, plan: Plan) -> bool:
        """A new or reopened object; its undo takes away again."""
        return self.only_adds and not is_undo(plan.params)

    def rest_call(self, cluster: str, subject: str, params: Mapping[str, Any]) -> RestCall | None:
        """None for an undo: it puts back what was recorded."""
        return None if is_undo(params) else config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: Mapping[str, Any]) -> str:
        """``manage.py topics change NAME …``, ``manage.py groups …``."""
        return command_line(cluster, self.kind, subject, params)

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """An object on one broker: what is done to it, and every key that changes."""
        return terminal_rows(plan.diff)

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read the brokers again and compare with the plan."""
        return config_drift(plan)

    def apply(self, run: JobRun) -> None:
        """Write broker by broker; then the next collection round reads the tables again."""
        admin = admin_of(run.plan.cluster)
        if "brokers" not in run.result:
            run.result["brokers"] = result_rows(run.plan.diff)
            run.progress |= {"done": 0, "total": len(run.result["brokers"])}
            self.before_apply(run, admin)
            run.save()
        apply_rows(run, lambda row: self.apply_row(run, admin, row))
        forget_routes(admin, run.result["brokers"])
        self.after_apply(run, admin)
        names = [row["broker_name"] for row in run.result["brokers"]]
        run.note(Text("Written to %(where)s", where=Text.of_names(list(dict.fromkeys(names)))))
        self.look_again(run.plan.cluster)

    def apply_row(self, run: JobRun, admin: BlockingMQAdmin, row: dict[str, Any]) -> None:
        """Write one row and set its state."""
        write_row(run, admin, row, clean_offset=not run.plan.params.get("keep_offsets"))

    def look_again(self, cluster: str) -> None:
        """Let what the pages show be read again soon."""
        lag_services.request_refresh(cluster)

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record what the undo will need and the brokers will forget."""

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """What follows when every broker has the new configuration."""

    def verify(self, run: JobRun) -> None:
        """Watch the brokers and the route until all show the target."""
        watch_rows(run, self.unlike)
        self.look_again(run.plan.cluster)

    def settle(self, run: JobRun) -> None:
        """Cancelled before every broker was written: say how many were."""
        rows = run.result.get("brokers", [])
        run.result["written"] = sum(row["state"] in ("applied", "verified") for row in rows)
        self.look_again(run.plan.cluster)

    def unlike(self, run: JobRun, admin: BlockingMQAdmin, rows: Sequence[dict[str, Any]]) -> list[Text]:
        """A sentence for each broker, and each route, that does not show its target; sets the rows' states."""
        return [*_wrong_rows(run, admin, rows), *_wrong_routes(admin, rows)]

    def undo_params(self, plan: Plan, job: Job) -> dict[str, Any] | None:
        """The configurations recorded on each broker that was written."""
        rows = undo_rows(job)
        return {"exact": rows} if rows else None
