"""The plan kind ``broker_drain``: offer a broker to no producer while readers continue; and the reverse.

Every name server receives the request (205, reverse: 327). Then the job watches the routes and the broker's own count
of messages until no client has sent to it for as long as producers take to refresh their routes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from django.utils.translation import gettext_noop

from console.broker import services
from console.broker.models import BrokerSurvey
from console.broker.plans.name_server import (
    AWAY,
    DrainResult,
    ServerRow,
    Servers,
    ServerView,
    ServerWrite,
    Traffic,
    changed_servers,
    own_topics,
    read_servers,
)
from console.broker.survey import runtime
from console.broker.survey.connections import Producer
from console.brokers.mqadmin import BlockingMQAdmin, BrokerUnavailable
from console.lag.models import BrokerRow
from console.operation.config.change import admin_of
from console.operation.config.equivalents import config_plans_call
from console.operation.config.row import terminal_rows
from console.operation.config.write import WriteEvent
from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.models import Job, Plan
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import BROKERS, Draft, Need, PlanKind, PlanWarning, RestCall
from console.operation.plan.params import Accepted, Parameter, Params
from console.text import Names, Text, text_of
from console.text.stored import Stored

NAMED_MAX = 10  # topics named in a sentence; all of them stand in the plan's before-state
STRANDED_KEPT = 500
# Clients refresh their routes every 30 s (pollNameServerInterval); one that still sends after that will not stop.
QUIET_MS = 30_000
QUIET_WITHIN_MS = 300_000
LOOK_EVERY_S = 1.0
WIPES_MAX = 5  # times a topic's permission may come back while the job watches
DRAIN, GIVE_BACK = "drain", "give_back"


class DrainParams(Params, frozen=True, kw_only=True):
    """Parameters: DRAIN or GIVE_BACK."""

    direction: str

    @property
    def is_drain(self) -> bool:
        return self.direction == DRAIN


class DrainBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The routes when the plan was made.

    ``servers``: name server → topics that it offers. ``stranded``: topics that lose their last writable queue.
    """

    servers: dict[str, int]
    stranded: tuple[str, ...]


class Count(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The broker's count of messages, as a job follows it."""

    puts_first: int
    puts: int
    began_ms: int
    last_put_ms: int


class DrainProgress(Stored, frozen=True, kw_only=True):
    """What an interrupted job goes on from."""

    traffic: Count | None = None


class BrokerDrainPlan(PlanKind[DrainParams, DrainBefore, ServerRow]):
    """Plan to drain a broker or give it back. params: {direction: drain | give_back}; subject: the broker."""

    kind = "broker_drain"
    past = {
        (
            "Remove the write permission of %(name)s on %(where)s and move %(what)s. Consumers continue; "
            "stored messages stay readable. The job then watches until no traffic arrives."
        ): gettext_noop(
            "Removed the write permission of %(name)s on %(where)s and moved %(what)s. Stored messages "
            "stay readable."
        ),
        "%(what)s, which then fail: there is no other broker": gettext_noop(
            "%(what)s, which then failed: there was no other broker"
        ),
        "what producers send": gettext_noop("what producers sent"),
        "Restore the write permission of %(name)s on %(where)s. Producers use it again within 30 s.": gettext_noop(
            "Restored the write permission of %(name)s on %(where)s."
        ),
    }
    accepted = Accepted(
        "BrokerDrainParams", "", (Parameter("direction", choices=(DRAIN, GIVE_BACK), required=True),)
    )
    title = Text("Broker drain")
    program = "brokers"
    place = BROKERS
    typed_reason = Text("This affects a whole broker")
    diff_template = "broker/_diff_drain.html"
    job_template = "broker/_job_drain.html"
    verb = "CONFIGURE"
    runs_long = True  # it watches until the traffic is gone
    params_type, before_type, row_type = DrainParams, DrainBefore, ServerRow

    def button(self, plan: Plan) -> Text:
        """Return the button's text for the direction."""
        if self.params_of(plan).is_drain:
            return Text("Drain %(name)s", name=plan.subject)
        return Text("Restore writes to %(name)s", name=plan.subject)

    def rest_call(self, cluster: str, subject: str, params: DrainParams) -> RestCall:
        """Return the REST call, the same as for a change of configuration."""
        return config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: DrainParams) -> str:
        """Return ``manage.py brokers drain broker-a``."""
        action = "drain" if params.is_drain else "give-back"
        return shlex.join(["manage.py", "brokers", action, subject, "--cluster", cluster])

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Return the topics that each name server offers, for a terminal."""
        return terminal_rows(self.rows_of(plan))

    def compute(
        self, cluster: str, subject: str, params: DrainParams, now_ms: int
    ) -> Draft[DrainParams, DrainBefore, ServerRow]:
        """Read every name server's routes. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        views, silent = read_servers(admin_of(cluster), subject)
        if not any(view.offered for view in views):
            raise PlanRejected(
                Text("No name server that answers lists %(broker)s.", broker=subject), "subject"
            )
        writable = not params.is_drain
        diff = [ServerRow.of(view, writable) for view in views]
        diff += [ServerRow.silent(addr, why) for addr, why in silent.items()]
        stranded = sorted(set().union(*(view.stranded for view in views)) - own_topics(subject, views))
        rate = _in_rate(cluster, subject)
        return Draft(
            summary=_summary(params, subject, rate, views),
            diff=diff,
            before=DrainBefore(
                servers={view.addr: view.writable for view in views},
                stranded=() if writable else tuple(stranded[:STRANDED_KEPT]),
            ),
            # Name patterns are for topics and groups: a right to configure topics b* must not allow draining
            # broker-a.
            needs=(Need("CONFIGURE", "*"),),
            warnings=_back_warnings(silent) if writable else _warnings(cluster, subject, silent, stranded),
            blocked=Text() if any(row.is_changing for row in diff) else _nothing(params, subject),
            typed=not writable,
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Return which servers changed their offer, and which topics would newly have no writable queue."""
        views, silent = read_servers(admin_of(plan.cluster), plan.subject)
        params, before = self.params_of(plan), self.before_of(plan)
        planned = before.servers
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
        if params.is_drain and len(before.stranded) < STRANDED_KEPT:
            stranded = set().union(*(view.stranded for view in views)) - own_topics(plan.subject, views)
            new = sorted(stranded - set(before.stranded))
            if new:
                sentences.append(
                    Text(
                        "without %(broker)s no producer could write to %(topics)s any more",
                        broker=plan.subject,
                        topics=_named(new),
                    )
                )
        return sentences

    def apply(self, run: JobRun) -> None:
        """Send the request to every name server of the plan; repeating it changes nothing."""
        admin = admin_of(run.plan.cluster)
        if run.result_as(DrainResult).servers is None:
            changing = [row for row in self.rows_of(run.plan) if row.is_changing]
            writes = tuple(ServerWrite(namesrv=row.namesrv, before=row.before) for row in changing)
            run.put_result(DrainResult(servers=writes))
            run.count(done=0, total=len(writes))
            run.save()
        away: Exception | None = None
        servers = Servers(run)
        for write in [each for each in servers if each.is_waiting]:
            run.beat()
            try:
                topics = self._request(admin, run.plan, write.namesrv)
                servers.put(write.on(WriteEvent.WRITTEN, topics=topics, error=Text()))
            except AWAY as error:
                away = error
                text = Text("%(broker)s does not answer: %(why)s", broker=write.namesrv, why=text_of(error))
                servers.put(msgspec.structs.replace(write, error=text))
            run.count(done=servers.handled)
            run.save()
        if away is not None:
            raise away
        names = Text.of_names(servers.addrs)
        run.note(
            Text("Requested %(names)s to stop offering it to producers", names=names)
            if self.params_of(run.plan).is_drain
            else Text("Requested %(names)s to offer it to producers again", names=names)
        )
        services.request_survey(run.plan.cluster)

    def _request(self, admin: BlockingMQAdmin, plan: Plan, namesrv: str) -> int:
        call = admin.wipe_write_perm if self.params_of(plan).is_drain else admin.add_write_perm
        return call(namesrv, plan.subject)

    def verify(self, run: JobRun) -> None:
        """Check the routes; for a drain, watch until the broker is quiet. Raises VerificationFailed."""
        admin = admin_of(run.plan.cluster)
        self._verify_routes(run, admin)
        if self.params_of(run.plan).is_drain:
            watch_traffic(run, admin, lambda: self._verify_routes(run, admin))
        run.save()
        services.request_survey(run.plan.cluster)

    def _verify_routes(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        """Check that every name server shows the target; remove a permission that came back."""
        wanted, servers = not self.params_of(run.plan).is_drain, Servers(run)
        for _ in range(WIPES_MAX):
            views, silent = read_servers(admin, run.plan.subject, only=servers.addrs)
            for addr, why in silent.items():
                raise BrokerUnavailable(
                    addr, Text("%(address)s does not answer: %(why)s", address=addr, why=why)
                )
            wrong = {
                view.addr: view for view in views if any(shown != wanted for shown in view.offered.values())
            }
            for addr in servers.addrs:
                servers.put(servers[addr].on(WriteEvent.NOT_SHOWN if addr in wrong else WriteEvent.SHOWN))
            run.count(verified=len(servers.addrs) - len(wrong))
            if not wrong:
                return
            for addr, view in wrong.items():
                unlike = sorted(topic for topic, shown in view.offered.items() if shown != wanted)
                run.note(
                    Text(
                        "%(address)s shows another state of %(topics)s: the request was sent again",
                        address=addr,
                        topics=_named(unlike),
                    ),
                    level="warn",
                )
                self._request(admin, run.plan, addr)
        raise VerificationFailed(
            Text(
                "%(names)s restored the permission %(number)s times: topics keep changing on the broker, "
                "or another program restores it.",
                names=Names(sorted(wrong)),
                number=WIPES_MAX,
            )
        )

    def settle(self, run: JobRun) -> None:
        """Record how many name servers were changed before the job was cancelled."""
        kept = run.result_as(DrainResult)
        run.put_result(msgspec.structs.replace(kept, notified=Servers(run).handled))
        services.request_survey(run.plan.cluster)

    def undo_params(self, plan: Plan, job: Job) -> DrainParams | None:
        """Return the other direction if any name server was changed."""
        back = GIVE_BACK if self.params_of(plan).is_drain else DRAIN
        return DrainParams(direction=back) if changed_servers(job) else None


# ---- is the traffic gone? ----


def watch_traffic(run: JobRun, admin: BlockingMQAdmin, check_routes: Callable[[], None]) -> None:
    """Count what the broker takes until it took nothing for `QUIET_MS`; resumes an interrupted count.

    Raises VerificationFailed after `QUIET_WITHIN_MS`: some client does not follow the routes.
    """
    while True:
        run.beat()
        puts, now_ms = _puts(admin, run.plan.subject), run.now_ms()
        count = run.progress_as(DrainProgress).traffic
        if count is None:
            count = Count(puts_first=puts, puts=puts, began_ms=now_ms, last_put_ms=now_ms)
        if puts < count.puts:
            check_routes()  # the broker restarted and registered with its permission
            count = msgspec.structs.replace(count, puts_first=0)
        if puts != count.puts:
            count = msgspec.structs.replace(count, puts=puts, last_put_ms=now_ms)
        run.put_progress(DrainProgress(traffic=count))
        traffic = _traffic(count, now_ms)
        run.put_result(msgspec.structs.replace(run.result_as(DrainResult), traffic=traffic))
        if traffic.is_gone:
            check_routes()
            run.note(
                Text(
                    "No traffic: nothing arrived for %(seconds)s s; %(number)s message(s) {was|were} "
                    "accepted before that",
                    seconds=traffic.quiet_ms // 1000,
                    number=traffic.puts,
                )
            )
            return
        if now_ms - count.began_ms >= QUIET_WITHIN_MS:
            raise VerificationFailed(
                Text(
                    "No name server offers %(broker)s any more, but producers still send to it after "
                    "%(minutes)s minutes: they use an old route or another name server.",
                    broker=run.plan.subject,
                    minutes=QUIET_WITHIN_MS // 60_000,
                )
            )
        run.sleep(LOOK_EVERY_S)


def _traffic(count: Count, now_ms: int) -> Traffic:
    quiet_ms = now_ms - count.last_put_ms
    return Traffic(
        puts=count.puts - count.puts_first,
        quiet_ms=quiet_ms,
        is_gone=quiet_ms >= QUIET_MS,
        quiet_since_ms=count.last_put_ms,
        looked_at_ms=now_ms,
    )


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
                "%(broker)s does not report how many messages it stores (msgPutTotalTodayNow).",
                broker=broker_name,
            )
        )
    return round(value)


def _in_rate(cluster: str, broker_name: str) -> float | None:
    row = BrokerRow.objects.filter(cluster=cluster, broker_name=broker_name, answered=True).first()
    return None if row is None else row.in_rate


# ---- words ----


def _named(topics: Sequence[str]) -> Text:
    return Text.of_names(topics, NAMED_MAX)


def _nothing(params: DrainParams, subject: str) -> Text:
    if params.is_drain:
        return Text(
            "Nothing would change: no name server that answers offers %(name)s to producers.", name=subject
        )
    return Text(
        "Nothing would change: every name server that answers offers %(name)s to producers.", name=subject
    )


def _summary(params: DrainParams, subject: str, rate: float | None, views: Sequence[ServerView]) -> Text:
    servers = Text("%(number)s name server(s)", number=len(views))
    if not params.is_drain:
        return Text(
            "Restore the write permission of %(name)s on %(where)s. Producers use it again within 30 s.",
            where=servers,
            name=subject,
        )
    others = sorted(set().union(*(view.other_brokers for view in views)))
    moved = Text("what producers send") if rate is None else Text("%(rate)s msg/s", rate=f"{rate:,.1f}")
    moved = (
        Text("%(what)s to %(names)s", what=moved, names=Text.of_names(others))
        if others
        else Text("%(what)s, which then fail: there is no other broker", what=moved)
    )
    return Text(
        "Remove the write permission of %(name)s on %(where)s and move %(what)s. Consumers continue; "
        "stored messages stay readable. The job then watches until no traffic arrives.",
        name=subject,
        where=servers,
        what=moved,
    )


def _warnings(
    cluster: str,
    subject: str,
    silent: Mapping[str, str],
    stranded: Sequence[str],
) -> list[PlanWarning]:
    found = []
    if stranded:
        found.append(
            PlanWarning(
                "danger",
                Text("%(number)s topic(s) will have no writable queue", number=len(stranded)),
                Text(
                    "Sends to %(names)s will fail: these topics have no queue on another broker. Create "
                    "them there first.",
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
        groups = sorted({one.group for one in msgspec.convert(survey.producers, list[Producer])})
        found.append(
            PlanWarning(
                "info",
                Text("%(number)s producer(s) {is|are} connected to it", number=len(survey.producers)),
                Text("They switch to other brokers within 30 s: %(names)s.", names=_named(groups)),
            )
        )
    found.append(
        PlanWarning(
            "warn",
            Text("It lasts until the broker restarts"),
            Text(
                "A restart of the broker, and any change of a topic on it, registers the permissions "
                "again. Producers of ordered topics switch to other queues: messages of one key may be "
                "read out of order while older ones are unread here."
            ),
        )
    )
    return found


def _back_warnings(silent: Mapping[str, str]) -> list[PlanWarning]:
    found = [
        PlanWarning(
            "info",
            Text("Afterwards every topic shows “read, write”"),
            Text(
                "Name servers do not store the earlier permission (327 sets 6). A topic with another "
                "permission, such as a write-only dead-letter topic, gets it back when the broker "
                "registers again."
            ),
        )
    ]
    return [_silent_warning(silent), *found] if silent else found


def _silent_warning(silent: Mapping[str, str]) -> PlanWarning:
    return PlanWarning(
        "danger",
        Text("%(number)s name server(s) did not answer", number=len(silent)),
        Text(
            "%(names)s will not be notified; clients that reach it still use its routes.",
            names=_named(sorted(silent)),
        ),
    )
