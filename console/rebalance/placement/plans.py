"""The plan kind ``group_placement``: pins, drained clients, weights and a canary of a group's topic.

It counts for members that let the broker assign (``clientRebalance`` false) on brokers that store assignments.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from django.utils.translation import gettext_noop

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageQueue,
    is_retry_topic,
    with_admin,
)
from console.brokers.queues import ask_each, require_answer, route_queues, topic_route
from console.cluster import selectors as cluster_selectors
from console.group.mode.facts import POP, read_modes
from console.group.settings import config as settings_config
from console.lag.collect.sweep import sweep_soon
from console.lag.models import ClientRow, QueueOwner
from console.operation.config.equivalents import config_plans_call
from console.operation.errors import PlanDrifted, PlanRejected, VerificationFailed
from console.operation.models import Job, Plan
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, Draft, PlanKind, PlanWarning, RestCall
from console.rebalance import rules, services
from console.rebalance.models import ServerSideGroup
from console.rebalance.placement.facts import MembersNow, read_members
from console.rebalance.placement.params import (
    ACCEPTED,
    PlacementBefore,
    PlacementParams,
    PlacementResult,
    PlacementRow,
    PlacementSums,
    placement_sums,
    read_placement,
)
from console.rebalance.rules import ASSIGNMENT_CAPABILITY, KeptPlacement, queue_word
from console.text import Text
from console.text.stored import of_json

VERIFY_WITHIN_S = 30.0
LOOK_EVERY_S = 0.3
NAMED_MAX = 3  # queues or clients that are named; the others are counted
PlacementDraft = Draft[PlacementParams, PlacementBefore, PlacementRow]


class GroupPlacementPlan(PlanKind[PlacementParams, PlacementBefore, PlacementRow]):
    """Put a placement into force, in the place of the one before."""

    params_type, before_type, row_type = PlacementParams, PlacementBefore, PlacementRow
    accepted = ACCEPTED
    read_params = staticmethod(read_placement)
    kind = "group_placement"
    verb = "CONFIGURE"
    title = Text("Group placement")
    program = "rebalance"
    diff_template = "rebalance/_diff_placement.html"
    job_template = "rebalance/_job_placement.html"
    another = Another("rebalance-group", Text("Choose another placement"))
    past = {
        "Place the queues of %(topic)s for %(group)s; %(number)s queue(s) {moves|move}.": gettext_noop(
            "Placed the queues of %(topic)s for %(group)s; %(number)s queue(s) moved."
        ),
    }

    def leaving_out(self, params: PlacementParams, brokers: Sequence[str]) -> PlacementParams:
        """Raise PlanRejected: clients ask any broker of the topic, so all need the placement."""
        text = Text("A placement is stored on every broker of the topic: none can be left out.")
        raise PlanRejected(text, "accept_without")

    def button(self, plan: Plan) -> Text:
        """Return the number of queues that move."""
        return Text("Move %(number)s queue(s)", number=sum(row.moves for row in self.rows_of(plan)))

    def sums(self, plan: Plan) -> PlacementSums:
        """Return how the shares of clients change, and how many queues stay."""
        return placement_sums(self.rows_of(plan), self.before_of(plan).members)

    def rest_call(self, cluster: str, subject: str, params: PlacementParams) -> RestCall:
        """Return the REST call, the same as for a change of configuration."""
        return config_plans_call(cluster, self.kind, subject, params)

    def command_line(self, cluster: str, subject: str, params: PlacementParams) -> str:
        """Return ``manage.py rebalance place billing --topic orders --drain 10.0.0.5@blue``."""
        words = ["manage.py", "rebalance", "place", subject, "--topic", params.topic]
        for option, found in (
            ("--pin", [f"{queue}={client}" for queue, client in params.pins.items()]),
            ("--drain", params.drained),
            ("--weight", [f"{client}={weight}" for client, weight in params.weights.items()]),
        ):
            words += [word for one in found for word in (option, one)]
        if params.canary_version:
            words += ["--canary-version", params.canary_version, "--canary-share", str(params.canary_share)]
        return shlex.join([*words, "--cluster", cluster])

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Yield each queue that moves, with its owners."""
        for row in self.rows_of(plan):
            if row.moves:
                yield f"{row.broker_name}/{row.queue_id}: {', '.join(row.before) or '-'} -> {row.after or '-'}"

    def compute(self, cluster: str, subject: str, params: PlacementParams, now_ms: int) -> PlacementDraft:
        """Read members and queues live. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        settings_config.check_name(subject)
        settings_config.check_changeable(subject)
        admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
        queues, addrs = _queues(admin, params.topic)
        row = ServerSideGroup.objects.filter(cluster=cluster, group=subject, topic=params.topic).first()
        now = of_json(KeptPlacement, row.placement) if row is not None else KeptPlacement()
        members = read_members(admin, addrs, subject)
        wanted = params.placement
        _check_names(cluster, subject, wanted, now, queues, members)
        shares = rules.compute(
            queues,
            members.by_id,
            row.strategy if row is not None else "AVG",
            wanted.on(params.topic),
            rules.of_json(params.topic, row.assignment) if row is not None else None,
            {one: member.version for one, member in members.by_id.items()},
        )
        rows = _rows(queues, members, shares, wanted)
        return Draft(
            summary=Text(
                "Place the queues of %(topic)s for %(group)s; %(number)s queue(s) {moves|move}.",
                topic=params.topic,
                group=subject,
                number=sum(one.moves for one in rows),
            ),
            diff=rows,
            before=PlacementBefore(
                placement=now,
                placed_at_ms=row.placed_at_ms if row is not None else 0,
                members=tuple(members.by_id),
                queues=tuple(queue_word(queue) for queue in queues),
                read_at_ms=now_ms,
            ),
            warnings=_warnings(wanted, members),
            blocked=_blocked(admin, addrs, subject, params.topic, members)
            or (
                Text("Nothing would change: this placement is already in force.") if wanted == now else Text()
            ),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Compare placement, members and queues with those of the plan."""
        params, before = self.params_of(plan), self.before_of(plan)
        admin = with_admin(cluster_selectors.cluster_by_name(plan.cluster).connection)
        queues, addrs = _queues(admin, params.topic)
        row = ServerSideGroup.objects.filter(
            cluster=plan.cluster, group=plan.subject, topic=params.topic
        ).first()
        found = []
        if (row.placed_at_ms if row is not None else 0) != before.placed_at_ms:
            found.append(Text("another placement was applied after the plan was made"))
        if {queue_word(queue) for queue in queues} != set(before.queues):
            found.append(Text("the topic has other queues since the plan was made"))
        members = set(read_members(admin, addrs, plan.subject).by_id)
        changed = sorted(members ^ set(before.members))
        if changed:
            names = Text.of_names(changed)
            found.append(Text("clients joined or left since the plan was made: %(names)s", names=names))
        return found

    def apply(self, run: JobRun) -> None:
        """Put the placement into force; a repetition changes nothing but its time.

        Raises PlanDrifted when another placement was put into force meanwhile, BrokerUnavailable.
        """
        params, before = self.params_of(run.plan), self.before_of(run.plan)
        cluster = cluster_selectors.cluster_by_name(run.plan.cluster)
        known = ServerSideGroup.objects.filter(
            cluster=cluster.name, group=run.plan.subject, topic=params.topic
        )
        at_ms = known.values_list("placed_at_ms", flat=True).first() or 0
        is_ours = known.filter(placed_at_ms__gt=0).first()
        done = is_ours is not None and of_json(KeptPlacement, is_ours.placement) == params.placement
        if at_ms != before.placed_at_ms and not done:
            raise PlanDrifted([Text("another placement was applied after the plan was made")])
        while True:
            run.hold_lease()
            row = services.put_placement(
                cluster, run.plan.subject, params.topic, params.placement, now_ms=run.now_ms()
            )
            if row is not None:
                break
            run.sleep(LOOK_EVERY_S)
        if row.state in (ServerSideGroup.State.FAILED, ServerSideGroup.State.PENDING):
            raise BrokerUnavailable(run.plan.cluster, str(row.reason))
        run.count(done=1, total=1)
        run.note(Text("Stored on every broker of the topic"))
        run.save()

    def verify(self, run: JobRun) -> None:
        """Read the members until what they report agrees with the placement. Raises VerificationFailed."""
        params = self.params_of(run.plan)
        admin = with_admin(cluster_selectors.cluster_by_name(run.plan.cluster).connection)
        queues, addrs = _queues(admin, params.topic)
        waited_s = 0.0
        while True:
            run.beat()
            services.rebalance_due(run.plan.cluster, run.now_ms(), run.plan.subject)
            row = ServerSideGroup.objects.get(
                cluster=run.plan.cluster, group=run.plan.subject, topic=params.topic
            )
            members = read_members(admin, addrs, run.plan.subject)
            # What they report is as it must be where the placement would move nothing of it.
            shares = rules.compute(
                queues,
                members.by_id,
                row.strategy,
                params.placement.on(params.topic),
                {one: sorted(member.queues or ()) for one, member in members.by_id.items()},
                {one: member.version for one, member in members.by_id.items()},
            )
            owner = {queue: (one,) for one, share in shares.items() for queue in share}
            owners = members.owners(queues)
            wrong = [queue for queue in queues if members.by_id and owners[queue] != owner.get(queue)]
            took_ms = None if wrong else run.now_ms() - row.version
            run.put_result(
                PlacementResult(followed=len(queues) - len(wrong), queues=len(queues), followed_ms=took_ms)
            )
            if not wrong:
                run.save()
                sweep_soon(run.plan.cluster, now_ms=run.now_ms())
                return
            if waited_s >= VERIFY_WITHIN_S:
                raise VerificationFailed(_not_followed(wrong, members))
            run.sleep(LOOK_EVERY_S)
            waited_s += LOOK_EVERY_S

    def settle(self, run: JobRun) -> None:
        """Change nothing: a placement is in force as a whole or not at all."""

    def undo_params(self, plan: Plan, job: Job) -> PlacementParams | None:
        """Return the placement before."""
        return PlacementParams.of(self.params_of(plan).topic, self.before_of(plan).placement)


def _queues(admin: BlockingMQAdmin, topic: str) -> tuple[list[MessageQueue], dict[str, str]]:
    """Return the readable queues of a topic, and its brokers. Raises PlanRejected("topic")."""
    if is_retry_topic(topic):
        raise PlanRejected(Text("A retry topic follows the placement of its group."), "topic")
    route = topic_route(admin, topic)
    found = route_queues(route, topic) if route is not None else {}
    if not found:
        raise PlanRejected(Text("There is no topic %(topic)s.", topic=topic), "topic")
    return sorted(found), {queue.broker_name: addr for queue, addr in sorted(found.items())}


def _check_names(
    cluster: str,
    group: str,
    wanted: KeptPlacement,
    now: KeptPlacement,
    queues: Sequence[MessageQueue],
    members: MembersNow,
) -> None:
    """Raise PlanRejected for a queue or client that does not exist; one that is away was seen before."""
    words = {queue_word(queue) for queue in queues}
    for word in wanted.pins:
        if word not in words:
            raise PlanRejected(Text("The topic has no queue %(queue)s.", queue=word), "pins")
    strange = wanted.clients - set(members.by_id) - now.clients
    if not strange:
        return
    for kind in (ClientRow, QueueOwner):
        seen = kind.objects.filter(cluster=cluster, group=group, client_id__in=strange)
        strange -= set(seen.values_list("client_id", flat=True))
    if strange:
        client = min(strange)
        field = "drained" if client in wanted.drained else "weights" if client in wanted.weights else "pins"
        known = Text.of_names(list(members.by_id)) if members.by_id else Text("no client")
        raise PlanRejected(
            Text(
                "%(group)s has no client %(client)s. Clients: %(known)s.",
                group=group,
                client=client,
                known=known,
            ),
            field,
        )


def _rows(
    queues: Sequence[MessageQueue],
    members: MembersNow,
    shares: Mapping[str, Sequence[MessageQueue]],
    wanted: KeptPlacement,
) -> list[PlacementRow]:
    to = {queue: client for client, share in shares.items() for queue in share}
    owners = members.owners(queues)
    return [
        PlacementRow(
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            before=owners[queue],
            after=to.get(queue, ""),
            is_pinned=wanted.pins.get(queue_word(queue), "") == to.get(queue),
        )
        for queue in queues
    ]


def _blocked(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str, topic: str, members: MembersNow
) -> Text:
    answers = ask_each(admin, addrs, lambda client, addr: client.capabilities(addr))
    unable = [
        name
        for name, answer in answers.items()
        if ASSIGNMENT_CAPABILITY not in (require_answer(name, addrs[name], answer) or ())
    ]
    if unable:
        return rules.cannot_assign(unable)
    if members.model == "BROADCASTING":
        return Text("The group broadcasts: every client reads every queue.")
    if any(modes.of(topic, group).mode == POP for modes in read_modes(admin, addrs).values()):
        return Text("The group consumes by POP: no queue has an owner.")
    return Text()


def _not_followed(wrong: Sequence[MessageQueue], members: MembersNow) -> Text:
    """Return which queues are not read as placed, and the members that may be the cause."""
    names = Text.of_names([queue_word(queue) for queue in wrong], NAMED_MAX)
    found = [
        Text(
            "%(number)s queue(s) {does|do} not follow the placement: %(queues)s",
            number=len(wrong),
            queues=names,
        )
    ]
    for words, clients in (
        (
            Text("clients that divide the queues themselves"),
            [one for one, member in members.by_id.items() if member.ignores],
        ),
        (
            Text("clients that do not report"),
            [one for one, member in members.by_id.items() if member.queues is None],
        ),
    ):
        if clients:
            named = Text.of_names(clients, NAMED_MAX)
            found.append(Text("%(what)s: %(names)s", what=words, names=named))
    return Text.of_list(found)


def _warnings(wanted: KeptPlacement, members: MembersNow) -> list[PlanWarning]:
    found = []
    ignoring = [f"{one} ({member.language})" for one, member in members.by_id.items() if member.ignores]
    if ignoring:
        text = Text(
            "%(names)s: orderly, clientRebalance is true, or a client without this setting (Java before 5.0, Go, C++). "
            "It goes on with its own division, and queues may get two owners or none.",
            names=Text.of_names(ignoring, NAMED_MAX),
        )
        found.append(PlanWarning("danger", Text("Some clients do not let the broker assign"), text))
    silent = [f"{one} ({member.language})" for one, member in members.by_id.items() if member.ignores is None]
    if silent:
        text = Text(
            "%(names)s: whether it follows is unknown, and the job cannot verify its queues.",
            names=Text.of_names(silent, NAMED_MAX),
        )
        found.append(PlanWarning("warn", Text("Some clients do not report how they rebalance"), text))
    away = sorted(wanted.clients - set(members.by_id))
    if away:
        text = Text(
            "%(names)s: pinned queues go to others until it is back. An id with a process id never comes back.",
            names=Text.of_names(away),
        )
        found.append(PlanWarning("warn", Text("Some clients are away"), text))
    if members.by_id and not set(members.by_id) - set(wanted.drained):
        text = Text("They keep the queues until another client joins.")
        found.append(PlanWarning("warn", Text("Every client is drained"), text))
    return found
