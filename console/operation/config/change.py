"""Read, compare, write, verify and restore the configuration of topics and groups, broker by broker.

Shared by the plan kinds of topics and groups. A row is one object on one broker: its configuration before and
after under the brokers' own key names (``readQueueNums``), None where the broker does not have it. Writing is safe
to repeat: a broker that already has the target is left alone; one that has neither the state before nor the
target was changed by another client and is not touched.
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
from console.operation.plan.kinds import PlanWarning, RawPlanKind, RestCall
from console.text import Text, text_of

TOPIC, GROUP = "topic", "group"
Config = dict[str, Any]  # a TopicConfig or SubscriptionGroupConfig under its wire names
TOPIC_NOT_EXIST = 17
PERM_READ_WRITE = 6  # PermName: read 4, write 2
VERIFY_WITHIN_S = 30.0  # brokers register with name servers at once; slow ones answer within their limits
VERIFY_EVERY_S = 0.2
AWAY = (BrokerUnavailable, RemotingTimeout)


class ConfigRefused(OperationError):
    """Some brokers did not take the change; the job's rows name them with their reasons."""

    code = "config_refused"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigRow:
    """One topic or group on one broker. ``note``: what to know about this row of the plan."""

    what: str  # TOPIC | GROUP
    name: str
    broker_name: str
    addr: str
    before: Config | None
    after: Config | None
    note: Text = Text()

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Return [{key, before, after}] of what differs; every key if the object is created or deleted."""
        keys = [*(self.before or {}), *(key for key in self.after or {} if key not in (self.before or {}))]
        return [
            {"key": key, "before": was, "after": becomes}
            for key in keys
            if (was := (self.before or {}).get(key)) != (becomes := (self.after or {}).get(key))
        ]

    def as_row(self) -> dict[str, Any]:
        """Return the row of a plan's diff. ``deed``: create | change | delete | stay."""
        deed = "stay" if self.before == self.after else "change"
        if deed == "change" and (self.before is None or self.after is None):
            deed = "create" if self.before is None else "delete"
        return {**dataclasses.asdict(self), "deed": deed, "changes": self.changes}


def admin_of(cluster: str) -> BlockingMQAdmin:
    """Return the client for the brokers of a registered cluster."""
    return with_admin(cluster_selectors.cluster_by_name(cluster).namesrv_addrs)


def chosen_brokers(cover: Coverage, wanted: Collection[str] | None) -> dict[str, str]:
    """Return the named brokers, or all, that answer. Raises PlanRejected for a name that no broker has."""
    unknown = sorted(set(wanted or ()) - set(cover.addrs) - set(cover.absent))
    if unknown:
        known = ", ".join(sorted({*cover.addrs, *cover.absent}))
        raise PlanRejected(
            Text("There is no broker %(name)s; there is %(known)s.", name=", ".join(unknown), known=known),
            "brokers",
        )
    return {name: addr for name, addr in cover.addrs.items() if not wanted or name in wanted}


def left_out_rows(cover: Coverage, what: str, name: str) -> list[dict[str, Any]]:
    """Return diff rows for the brokers the plan leaves out: their state is unknown and stays."""
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
    """Return the rows of a plan's diff without those of brokers that it leaves out."""
    return [row for row in plan.diff if row["deed"] != LEFT_OUT]


def addrs_of_plan(admin: BlockingMQAdmin, plan: Plan) -> dict[str, str]:
    """Return the plan's brokers → current master addresses; raise BrokerUnavailable if one has left."""
    addrs = masters(admin)
    names = sorted({row["broker_name"] for row in covered_rows(plan)})
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
        broker_name: told(broker_name, addrs[broker_name], answer, Text("its part of %(name)s", name=name))
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


def is_denied(what: str, config: Mapping[str, Any]) -> bool:
    """Return whether no client may use it: a topic without read and write, a group that may not consume."""
    if what == TOPIC:
        return not int(config.get("perm", PERM_READ_WRITE)) & PERM_READ_WRITE
    return not config.get("consumeEnable", True)


SWITCHES: Mapping[str, tuple[str, Any]] = {TOPIC: ("perm", 0), GROUP: ("consumeEnable", False)}


def denied(what: str, config: Config) -> Config:
    """Return the configuration that denies all use: no read and write, or no consumption."""
    key, closed = SWITCHES[what]
    return {**config, key: closed}


def reopened(what: str, config: Config, former: Config) -> Config:
    """Return a closed object as open as it was; one that was opened since stays as it is."""
    key, _ = SWITCHES[what]
    return {**config, key: former[key]} if is_denied(what, config) else config


# --- Applying -----------------------------------------------------------------------------------------------


def result_rows(diff: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a job keeps of each row that changes something: its state and its error."""
    kept = ("what", "name", "broker_name", "addr", "before", "after", "changes", "deed")
    return [
        {**{key: row[key] for key in kept}, "state": "waiting", "error": "", "at_ms": None}
        for row in diff
        if row["deed"] not in ("stay", LEFT_OUT)
    ]


def apply_rows(run: JobRun, apply_row: Callable[[dict[str, Any]], None]) -> None:
    """Write every waiting row; ``apply_row`` sets its state.

    A broker that is away does not delay the others: its error is raised at the end, so that the job comes back for it.
    Raises ConfigRefused if a broker refused or was changed meanwhile.
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
    """Bring one broker to its target, unless another client changed it meanwhile."""
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


def forget_routes(admin: BlockingMQAdmin, rows: Iterable[Mapping[str, Any]]) -> None:
    """Delete the routes of topics that no broker has any more: brokers do not withdraw them."""
    gone = sorted({row["name"] for row in rows if row["what"] == TOPIC and row["after"] is None})
    for topic in gone:
        # A broker that is away may still have the topic: its route returns with it.
        held = read_configs(admin, masters(admin), TOPIC, topic)
        if all(config is None for config in held.values()) and topic_route(admin, topic) is not None:
            admin.delete_topic_in_namesrv(topic)


def watch_rows(
    run: JobRun, unlike: Callable[[JobRun, BlockingMQAdmin, Sequence[dict[str, Any]]], list[Text]]
) -> None:
    """Check again until ``unlike`` finds no difference. Raises VerificationFailed with what it found."""
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
            if after is None:
                # Another broker may keep the topic; here clients may neither read nor write.
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
    """Return how a configuration differs from the expected one: ``perm is 4, not 6``."""
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
    """Return a sentence per broker whose configuration changed, or that left or returned, since the plan."""
    admin = admin_of(plan.cluster)
    cover = read_coverage(admin, plan.cluster)
    addrs, planned = cover.addrs, covered_rows(plan)
    sentences = [
        *came_back(plan, cover),
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
    """Return what the job really changed, reversed: the parameter ``exact`` of the undo plan."""
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
    """Return the rows of an undo: every broker that answers gets the recorded configuration back."""
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
    """Warn where the undo also reverts what another client changed since."""
    notes = [Text("%(broker)s: %(note)s.", broker=row.broker_name, note=row.note) for row in rows if row.note]
    if not notes:
        return []
    return [PlanWarning("warn", Text("Later changes are taken back too"), Text.of_parts(notes))]


def nothing_changes(rows: Sequence[ConfigRow]) -> Text:
    """Return why a plan without changes cannot be applied; empty if it has changes."""
    if any(row.before != row.after for row in rows):
        return Text()
    return Text("Nothing would change: the brokers show it already.")


def shown(value: Any) -> str:
    """Format a configuration value for people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    return "none" if value is None else str(value)


def change_summary(name: str, rows: Sequence[ConfigRow]) -> Text:
    """Describe what changes where; brokers with the same change are named together."""
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
    """Return whether a plan restores exactly what the job of another one recorded."""
    return "exact" in params


def terminal_rows(diff: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the rows of such a diff with the keys that change, as the commands print them."""
    for row in diff:
        yield f"{row['broker_name']}  {row['deed']} {row['what']} {row['name']}  {row['note']}".rstrip()
        for one in row["changes"]:
            yield f"  {one['key']:<30} {_in_terminal(one['before']):>12} → {_in_terminal(one['after'])}"


def _in_terminal(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def counted(number: int, noun: str, verb: str = "") -> str:
    """Count a noun: ``1 message``, ``1,204 messages``; with a plural verb (``were``): ``1 message was``."""
    singular = {"were": "was", "are": "is"}.get(verb, verb)
    words = f"{number:,} {noun}{'' if number == 1 else 's'}"
    return f"{words} {singular if number == 1 else verb}" if verb else words


class ConfigPlan(RawPlanKind):
    """A change of configuration.

    A subclass computes the plan; it overrides writing and verifying for rows of other kinds.
    """

    verb = "CONFIGURE"
    diff_template = "operation/_diff_config.html"
    job_template = "operation/_job_config.html"
    action: ClassVar[Text]  # the label of its button
    only_adds: ClassVar[bool] = False

    def button(self, plan: Plan) -> Text:
        """Name the change, or what the undo restores."""
        return Text("Put it back") if is_undo(plan.params) else self.action

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether the plan only creates or reopens an object; an undo is never harmless."""
        return self.only_adds and not is_undo(plan.params)

    def rest_call(self, cluster: str, subject: str, params: Mapping[str, Any]) -> RestCall | None:
        """Return the REST request; None for an undo, which restores what was recorded."""
        return None if is_undo(params) else config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: Mapping[str, Any]) -> str:
        """Return the command line: ``manage.py topics change NAME …``, ``manage.py groups …``."""
        return command_line(cluster, self.kind, subject, params)

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Yield, for an object on one broker, the action and every key that changes."""
        return terminal_rows(plan.diff)

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read the brokers again and compare with the plan."""
        return config_drift(plan)

    def apply(self, run: JobRun) -> None:
        """Write broker by broker, then have the next collection round read the tables again."""
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
        """Have the data of the pages read again soon."""
        lag_services.request_refresh(cluster)

    def before_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Record what the undo needs and the brokers drop."""

    def after_apply(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Run once every broker has the new configuration."""

    def verify(self, run: JobRun) -> None:
        """Poll the brokers and the route until all have the target."""
        watch_rows(run, self.unlike)
        self.look_again(run.plan.cluster)

    def settle(self, run: JobRun) -> None:
        """Report how many brokers were written before the job was cancelled."""
        rows = run.result.get("brokers", [])
        run.result["written"] = sum(row["state"] in ("applied", "verified") for row in rows)
        self.look_again(run.plan.cluster)

    def unlike(self, run: JobRun, admin: BlockingMQAdmin, rows: Sequence[dict[str, Any]]) -> list[Text]:
        """Return a sentence for each broker and route that differs from its target; set the rows' states."""
        return [*_wrong_rows(run, admin, rows), *_wrong_routes(admin, rows)]

    def undo_params(self, plan: Plan, job: Job) -> Mapping[str, Any] | None:
        """Return the configurations recorded on each broker that was written."""
        rows = undo_rows(job)
        return {"exact": rows} if rows else None
