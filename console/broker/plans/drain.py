"""The plan kind ``broker_drain``: offer a broker to no producer while readers continue; and the reverse.

Every name server receives the request (205, reverse: 327). Then the job watches the routes and the broker's own count
of messages until no client has sent to it for as long as producers take to refresh their routes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from console.broker import services
from console.broker.models import BrokerSurvey
from console.broker.survey import routes, runtime
from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
    TopicRouteData,
    is_system_topic,
    split_addrs,
)
from console.lag.models import BrokerRow
from console.operation.config.change import admin_of, terminal_rows
from console.operation.config.equivalents import config_plans_call
from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.job.runner import JobRun
from console.operation.models import Job, Plan
from console.operation.plan.kinds import BROKERS, Draft, Need, PlanWarning, RawDraft, RawPlanKind, RestCall
from console.operation.plan.params import refuse_unknown
from console.text import Text, text_of

READ_DEADLINE_MS = 15_000  # routes of all topics from all name servers, pipelined
NAMED_MAX = 10  # topics named in a sentence; all of them stand in the plan's before-state
STRANDED_KEPT = 500
# Clients refresh their routes every 30 s (pollNameServerInterval); one that still sends after that will not stop.
QUIET_MS = 30_000
QUIET_WITHIN_MS = 300_000
LOOK_EVERY_S = 1.0
WIPES_MAX = 5  # times a topic's permission may come back while the job watches
DRAIN, GIVE_BACK = "drain", "give_back"
AWAY = (BrokerUnavailable, RemotingTimeout)


class ServerView:
    """One name server's routes of a broker: {topic: offered?}, and topics without other writable queues."""

    def __init__(self, addr: str) -> None:
        self.addr = addr
        self.offered: dict[str, bool] = {}
        self.stranded: set[str] = set()
        self.other_brokers: set[str] = set()

    @property
    def writable(self) -> int:
        return sum(self.offered.values())

    def take(self, broker_name: str, answers: Mapping[str, TopicRouteData | Exception]) -> None:
        for topic, route in answers.items():
            offered = routes.offers(route, broker_name) if isinstance(route, TopicRouteData) else None
            if offered is None:
                continue
            assert isinstance(route, TopicRouteData)
            self.offered[topic] = offered
            if routes.writable_queues(route, without=broker_name) == 0:
                self.stranded.add(topic)
            self.other_brokers |= {data.broker_name for data in route.broker_datas} - {broker_name}


class BrokerDrainPlan(RawPlanKind):
    """Plan to drain a broker or give it back. params: {direction: drain | give_back}; subject: the broker."""

    kind = "broker_drain"
    title = Text("Broker drain")
    program = "brokers"
    place = BROKERS
    typed_reason = Text("This touches a whole broker")
    diff_template = "broker/_diff_drain.html"
    job_template = "broker/_job_drain.html"
    verb = "CONFIGURE"
    runs_long = True  # it watches until the traffic is gone

    def button(self, plan: Plan) -> Text:
        """Return the button's text for the direction."""
        if plan.params.get("direction") == DRAIN:
            return Text("Drain %(name)s", name=plan.subject)
        return Text("Offer %(name)s again", name=plan.subject)

    def rest_call(self, cluster: str, subject: str, params: Mapping[str, Any]) -> RestCall:
        """Return the REST call, the same as for a change of configuration."""
        return config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: Mapping[str, Any]) -> str:
        """Return ``manage.py brokers drain broker-a``."""
        action = "drain" if params["direction"] == DRAIN else "give-back"
        return shlex.join(["manage.py", "brokers", action, subject, "--cluster", cluster])

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Return the topics that each name server offers, for a terminal."""
        return terminal_rows(plan.diff)

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> RawDraft:
        """Read every name server's routes. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        direction = params.get("direction", DRAIN)
        if direction not in (DRAIN, GIVE_BACK):
            raise PlanRejected(Text("The direction is drain or give_back."), "direction")
        refuse_unknown(params, ("direction",))
        views, silent = read_servers(admin_of(cluster), subject)
        if not any(view.offered for view in views):
            raise PlanRejected(
                Text("No name server that answers lists %(broker)s.", broker=subject), "subject"
            )
        writable = direction == GIVE_BACK
        diff = [_diff_row(view, writable) for view in views]
        diff += [_silent_row(addr, why) for addr, why in silent.items()]
        stranded = sorted(set().union(*(view.stranded for view in views)) - _own(subject, views))
        rate = _in_rate(cluster, subject)
        blocked = Text() if any(row["deed"] == "change" for row in diff) else _nothing(direction, subject)
        return Draft(
            summary=_summary(direction, subject, rate, views),
            diff=diff,
            before={
                "servers": {view.addr: view.writable for view in views},
                "stranded": [] if writable else stranded[:STRANDED_KEPT],
            },
            # Name patterns are for topics and groups: a right to configure topics b* must not allow draining
            # broker-a.
            needs=(Need("CONFIGURE", "*"),),
            params={"direction": direction},
            warnings=_back_warnings(silent)
            if writable
            else _warnings(cluster, subject, views, silent, stranded),
            blocked=blocked,
            typed=not writable,
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Return which servers changed their offer, and which topics would newly have no writable queue."""
        views, silent = read_servers(admin_of(plan.cluster), plan.subject)
        planned = plan.before["servers"]
        sentences = [
            Text("%(address)s does not answer any more: %(why)s", address=addr, why=why)
            for addr, why in silent.items()
            if addr in planned
        ]
        for view in views:
            if view.addr not in planned:
                sentences.append(
                    Text("%(address)s answers now, and was silent when the plan was made", address=view.addr)
                )
            elif bool(view.writable) != bool(planned[view.addr]):
                at = {"address": view.addr, "broker": plan.subject}
                sentences.append(
                    Text("%(address)s offers %(broker)s to producers now", **at)
                    if view.writable
                    else Text("%(address)s no longer offers %(broker)s to producers now", **at)
                )
        if plan.params["direction"] == DRAIN and len(plan.before["stranded"]) < STRANDED_KEPT:
            stranded = set().union(*(view.stranded for view in views)) - _own(plan.subject, views)
            new = sorted(stranded - set(plan.before["stranded"]))
            if new:
                sentences.append(
                    Text(
                        "without %(broker)s nobody could write to %(topics)s any more",
                        broker=plan.subject,
                        topics=_named(new),
                    )
                )
        return sentences

    def apply(self, run: JobRun) -> None:
        """Send the request to every name server of the plan; repeating it changes nothing."""
        admin = admin_of(run.plan.cluster)
        if "servers" not in run.result:
            run.result["servers"] = [
                {
                    "namesrv": row["namesrv"],
                    "before": row["before"],
                    "state": "waiting",
                    "error": "",
                    "topics": None,
                }
                for row in run.plan.diff
                if row["deed"] == "change"
            ]
            run.progress |= {"done": 0, "total": len(run.result["servers"])}
            run.save()
        away: Exception | None = None
        for row in run.result["servers"]:
            if row["state"] != "waiting":
                continue
            run.beat()
            try:
                row["topics"] = self._tell(admin, run.plan, row["namesrv"])
                row["state"], row["error"] = "applied", ""
            except AWAY as error:
                away, row["error"] = (
                    error,
                    Text("%(broker)s is away: %(why)s", broker=row["namesrv"], why=text_of(error)),
                )
            run.progress["done"] = sum(one["state"] != "waiting" for one in run.result["servers"])
            run.save()
        if away is not None:
            raise away
        told = Text.of_names([row["namesrv"] for row in run.result["servers"]])
        run.note(
            Text("Told %(names)s to offer it again", names=told)
            if run.plan.params["direction"] == GIVE_BACK
            else Text("Told %(names)s to offer it to nobody", names=told)
        )
        services.request_survey(run.plan.cluster)

    def _tell(self, admin: BlockingMQAdmin, plan: Plan, namesrv: str) -> int:
        call = admin.add_write_perm if plan.params["direction"] == GIVE_BACK else admin.wipe_write_perm
        return call(namesrv, plan.subject)

    def verify(self, run: JobRun) -> None:
        """Check the routes; for a drain, watch until the broker is quiet. Raises VerificationFailed."""
        admin = admin_of(run.plan.cluster)
        self._verify_routes(run, admin)
        if run.plan.params["direction"] == DRAIN:
            watch_traffic(run, admin, lambda: self._verify_routes(run, admin))
        run.save()
        services.request_survey(run.plan.cluster)

    def _verify_routes(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Check that every name server shows the target; remove a permission that came back."""
        wanted = run.plan.params["direction"] == GIVE_BACK
        told = {row["namesrv"]: row for row in run.result["servers"]}
        for _ in range(WIPES_MAX):
            views, silent = read_servers(admin, run.plan.subject, only=list(told))
            for addr, why in silent.items():
                raise BrokerUnavailable(
                    addr, Text("%(address)s does not answer: %(why)s", address=addr, why=why)
                )
            wrong = {
                view.addr: view for view in views if any(shown != wanted for shown in view.offered.values())
            }
            for addr, row in told.items():
                row["state"] = "applied" if addr in wrong else "verified"
            run.progress["verified"] = len(told) - len(wrong)
            if not wrong:
                return
            for addr, view in wrong.items():
                unlike = sorted(topic for topic, shown in view.offered.items() if shown != wanted)
                run.note(
                    Text(
                        "%(address)s shows %(topics)s otherwise: told again",
                        address=addr,
                        topics=_named(unlike),
                    ),
                    level="warn",
                )
                self._tell(admin, run.plan, addr)
        raise VerificationFailed(
            Text(
                "%(names)s gave the permission back %(number)s times: topics change on the broker all the "
                "time, or something else gives it back.",
                names=", ".join(sorted(wrong)),
                number=WIPES_MAX,
            )
        )

    def settle(self, run: JobRun) -> None:
        """Record how many name servers were changed before the job was cancelled."""
        rows = run.result.get("servers", [])
        run.result["told"] = sum(row["state"] in ("applied", "verified") for row in rows)
        services.request_survey(run.plan.cluster)

    def undo_params(self, plan: Plan, job: Job) -> Mapping[str, Any] | None:
        """Return the other direction if any name server was changed."""
        told = any(row["state"] in ("applied", "verified") for row in job.result.get("servers", []))
        back = DRAIN if plan.params["direction"] == GIVE_BACK else GIVE_BACK
        return {"direction": back} if told else None


# ---- is the traffic gone? ----


def watch_traffic(run: JobRun, admin: BlockingMQAdmin, look_at_routes: Any) -> None:
    """Count what the broker takes until it took nothing for `QUIET_MS`; resumes an interrupted count.

    Raises VerificationFailed after `QUIET_WITHIN_MS`: some client does not follow the routes.
    """
    seen = run.progress.setdefault("traffic", {})
    while True:
        run.beat()
        puts, now_ms = _puts(admin, run.plan.subject), run.now_ms()
        if not seen:
            seen |= {"puts_first": puts, "puts": puts, "began_ms": now_ms, "last_put_ms": now_ms}
        if puts < seen["puts"]:
            look_at_routes()  # the broker restarted and registered with its permission
            seen["puts_first"] = 0
        if puts != seen["puts"]:
            seen |= {"puts": puts, "last_put_ms": now_ms}
        quiet_ms = now_ms - seen["last_put_ms"]
        run.result["traffic"] = {
            "puts": seen["puts"] - seen["puts_first"],
            "quiet_ms": quiet_ms,
            "is_gone": quiet_ms >= QUIET_MS,
            "quiet_since_ms": seen["last_put_ms"],
            "looked_at_ms": now_ms,
        }
        if quiet_ms >= QUIET_MS:
            look_at_routes()
            run.note(
                Text(
                    "The traffic is gone: nothing came for %(seconds)s s; %(number)s message(s) "
                    "{was|were} still taken before",
                    seconds=quiet_ms // 1000,
                    number=run.result["traffic"]["puts"],
                )
            )
            return
        if now_ms - seen["began_ms"] >= QUIET_WITHIN_MS:
            raise VerificationFailed(
                Text(
                    "No name server offers %(broker)s any more, and producers still send to it after "
                    "%(minutes)s minutes: they keep an old route, or another name server gives it to them.",
                    broker=run.plan.subject,
                    minutes=QUIET_WITHIN_MS // 60_000,
                )
            )
        run.sleep(LOOK_EVERY_S)


def _puts(admin: BlockingMQAdmin, broker_name: str) -> int:
    """Return how many messages clients sent to the broker. Raises BrokerUnavailable, VerificationFailed."""
    data = admin.cluster_info().broker_addr_table.get(broker_name)
    if data is None or 0 not in data.broker_addrs:
        raise BrokerUnavailable(
            broker_name, Text("%(broker)s has no master in the routes any more", broker=broker_name)
        )
    table = admin.runtime_info(data.broker_addrs[0])
    value = runtime.number(table.get("msgPutTotalTodayNow"))
    if value is None:
        raise VerificationFailed(
            Text(
                "%(broker)s does not tell how many messages it takes (msgPutTotalTodayNow).",
                broker=broker_name,
            )
        )
    return round(value)


# ---- reading ----


def read_servers(
    admin: BlockingMQAdmin, broker_name: str, *, only: Sequence[str] = ()
) -> tuple[list[ServerView], dict[str, Text]]:
    """Return every name server's view of the broker, and {address: reason} of those that did not answer."""
    addrs = list(only) or split_addrs(admin.namesrv_addrs)

    async def ask(addr: str, client: MQAdmin) -> ServerView:
        view = ServerView(addr)
        topics = await client.topic_list_of(addr)
        answers = await client.topic_routes_of(addr, topics)
        for answer in answers.values():
            if isinstance(answer, AWAY):
                raise answer  # a part of the routes is not the routes
        view.take(broker_name, answers)
        return view

    views, silent = [], {}
    answers = admin.gather({addr: partial(ask, addr) for addr in addrs}, deadline_ms=READ_DEADLINE_MS)
    for addr, answer in answers.items():
        if isinstance(answer, MQBrokerError):
            raise answer
        if isinstance(answer, Exception):
            silent[addr] = text_of(answer)
        else:
            views.append(answer)
    if not views:
        raise BrokerUnavailable(
            addrs[0], Text("no name server answers: %(reason)s", reason=Text.of_parts(list(silent.values())))
        )
    return views, silent


def _own(broker_name: str, views: Sequence[ServerView]) -> set[str]:
    """Return RocketMQ's own topics, whose queues no client misses."""
    topics = set().union(*(view.offered for view in views))
    known_brokers = {broker_name}.union(*(view.other_brokers for view in views))
    return {
        topic for topic in topics if is_system_topic(topic) or topic in known_brokers or topic.startswith("%")
    } | {topic for topic in topics if topic.endswith("_REPLY_TOPIC") or f"{topic}_REPLY_TOPIC" in topics}


def _in_rate(cluster: str, broker_name: str) -> float | None:
    row = BrokerRow.objects.filter(cluster=cluster, broker_name=broker_name, answered=True).first()
    return None if row is None else row.in_rate


# ---- words ----


def _diff_row(view: ServerView, writable: bool) -> dict[str, Any]:
    topics = len(view.offered)
    after = topics if writable else 0
    return _server_row(
        view.addr, topics, view.writable, after, "change" if view.writable != after else "stay"
    )


def _silent_row(addr: str, why: Text) -> dict[str, Any]:
    return _server_row(addr, None, None, None, "unknown", why)


def _server_row(
    addr: str, topics: int | None, before: int | None, after: int | None, deed: str, note: Text = Text()
) -> dict[str, Any]:
    """Return the row of a name server: how many topics it offers to producers, before and after."""
    changes = [{"key": "topics offered", "before": before, "after": after}] if deed == "change" else []
    return {
        "what": "name server",
        "name": addr,
        "broker_name": addr,
        "namesrv": addr,
        "topics": topics,
        "before": before,
        "after": after,
        "deed": deed,
        "changes": changes,
        "note": note,
    }


def _named(topics: Sequence[str]) -> Text:
    return Text.of_names(topics, NAMED_MAX)


def _nothing(direction: str, subject: str) -> Text:
    if direction == DRAIN:
        return Text(
            "Nothing would change: no name server that answers offers %(name)s to producers.", name=subject
        )
    return Text(
        "Nothing would change: every name server that answers offers %(name)s to producers.", name=subject
    )


def _summary(direction: str, subject: str, rate: float | None, views: Sequence[ServerView]) -> Text:
    servers = Text("%(number)s name server(s)", number=len(views))
    if direction == GIVE_BACK:
        return Text(
            "This will let %(where)s offer %(name)s to producers again. They see it within 30 s.",
            where=servers,
            name=subject,
        )
    others = sorted(set().union(*(view.other_brokers for view in views)))
    moved = Text("what producers send") if rate is None else Text("%(rate)s msg/s", rate=f"{rate:,.1f}")
    moved = (
        Text("%(what)s to %(names)s", what=moved, names=Text.of_names(others))
        if others
        else Text("%(what)s, which then go nowhere: there is no other broker", what=moved)
    )
    return Text(
        "This will take the write permission of %(name)s away at %(where)s and move %(what)s. Readers go "
        "on; what is stored stays readable. The job then watches until the traffic is gone.",
        name=subject,
        where=servers,
        what=moved,
    )


def _warnings(
    cluster: str,
    subject: str,
    views: Sequence[ServerView],
    silent: Mapping[str, str],
    stranded: Sequence[str],
) -> list[PlanWarning]:
    found = []
    if stranded:
        found.append(
            PlanWarning(
                "danger",
                Text("%(number)s topic(s) {is|are} left with no writable queue", number=len(stranded)),
                Text(
                    "Producers of %(names)s will fail: they have no queue on another broker. Create them "
                    "there first.",
                    names=_named(stranded),
                ),
            )
        )
    if silent:
        found.append(_silent_warning(silent))
    survey = BrokerSurvey.objects.filter(
        cluster=cluster, broker_name=subject, producers__isnull=False
    ).first()
    if survey is not None and survey.producers:
        groups = sorted({one["group"] for one in survey.producers})
        found.append(
            PlanWarning(
                "info",
                Text("%(number)s producer(s) {is|are} connected to it", number=len(survey.producers)),
                Text("They send elsewhere within 30 s: %(names)s.", names=_named(groups)),
            )
        )
    found.append(
        PlanWarning(
            "warn",
            Text("It holds until the broker starts anew"),
            Text(
                "A broker that starts registers all its topics with their permissions, and a topic that "
                "is created or changed on it comes back by itself. Ordered topics change their queue: "
                "messages of one key may be read out of order while old ones are still unread here."
            ),
        )
    )
    return found


def _back_warnings(silent: Mapping[str, str]) -> list[PlanWarning]:
    found = [
        PlanWarning(
            "info",
            Text("Every topic reads “read, write” afterwards"),
            Text(
                "The name servers keep no memory of what was before (327 sets 6): a topic with another "
                "permission on this broker, such as a write-only dead-letter topic, shows its own again "
                "when the broker registers anew."
            ),
        )
    ]
    return [_silent_warning(silent), *found] if silent else found


def _silent_warning(silent: Mapping[str, str]) -> PlanWarning:
    return PlanWarning(
        "danger",
        Text("%(number)s name server(s) did not answer", number=len(silent)),
        Text(
            "%(names)s will not be told; whoever can reach it goes by what it says.",
            names=_named(sorted(silent)),
        ),
    )
