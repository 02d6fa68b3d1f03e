"""The plan kind ``offset_change``: move the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from console.brokers.mqadmin import BlockingMQAdmin, BrokerUnavailable, MessageQueue, with_admin
from console.brokers.queues import topic_route
from console.cluster import selectors as cluster_selectors
from console.group import selectors
from console.group.offsets import change as offset_change
from console.group.offsets import words as offset_words
from console.group.offsets.apply import apply_moves
from console.group.offsets.change import Change, DiffRow
from console.group.offsets.matrix import PlanSums, plan_sums
from console.group.offsets.move import (
    KeptMoves,
    MovedCount,
    Moves,
    MoveState,
    QueueMove,
    moves_of,
    planned_moves,
)
from console.group.offsets.resets import resets_since
from console.group.offsets.source.clone import address_of
from console.group.offsets.state import (
    GroupSource,
    GroupState,
    group_source,
    read_group_state,
    store_times,
)
from console.group.offsets.stored import OffsetBefore, OffsetParams, QueueOffset
from console.group.offsets.targets import TARGETS, command_line, read_params, request_of
from console.group.offsets.watch import watch_moves
from console.group.offsets.words import Limits, Pace
from console.lag import selectors as lag_selectors
from console.lag.last_seen import QueueSeen
from console.operation import selectors as operation_selectors
from console.operation.errors import PlanDrifted, PlanNotFound, PlanRejected, UndoImpossible
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, read_coverage, recovered, silence
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, Draft, PlanKind, PlanWarning, RestCall
from console.text import Text, text_of
from console.text.stored import as_json

OffsetDraft = Draft[OffsetParams, OffsetBefore, DiffRow]


class OffsetChangePlan(PlanKind[OffsetParams, OffsetBefore, DiffRow]):
    """Move offsets to a target; see ``targets.TARGETS``."""

    params_type, before_type, row_type = OffsetParams, OffsetBefore, DiffRow
    read_params = staticmethod(read_params)

    kind = "offset_change"
    past = offset_words.PAST

    def done_words(self, plan: Plan) -> Text:
        """Return what was moved, without how long it was to take."""
        parts = plan.summary.values.get("parts")
        effect = parts[0] if isinstance(parts, tuple) else plan.summary
        return effect.put_as(self.past)

    title = Text("Offset change")
    program = "offsets"
    diff_template = "group/_diff_offsets.html"
    job_template = "group/_job_offsets.html"
    another = Another("offset-change", Text("Choose another target"))
    chart_mark = "R"
    verb = "RESET"

    def button(self, plan: Plan) -> Text:
        """Name the number of messages replayed or skipped, or of offsets moved where both happen."""
        return offset_words.button(self.rows_of(plan))

    def job_rows(self, job: Job) -> list[QueueMove]:
        """Return the moves."""
        return moves_of(job)

    def sums(self, plan: Plan) -> PlanSums:
        """Return the sums of the columns, and the queues by broker."""
        return plan_sums(self.rows_of(plan))

    def step_values(self, plan: Plan) -> tuple[Text, ...]:
        """Return the number of queues, and the target as the form names it."""
        target = TARGETS[self.params_of(plan).target]
        return Text("%(number)s queue(s)", number=len(plan.diff)), target.label

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Show each queue, its offset before and after, and how it moves."""
        return map(offset_words.terminal_row, self.rows_of(plan))

    def rest_call(self, cluster: str, subject: str, params: OffsetParams) -> RestCall:
        """Return the REST call with the same target and queues."""
        return RestCall(f"/api/v1/clusters/{cluster}/offset-plans", {"group": subject} | as_json(params))

    def command_line(self, cluster: str, subject: str, params: OffsetParams) -> str:
        """Return ``manage.py offsets plan GROUP --target …``."""
        return command_line(subject, cluster, params)

    def also_reads(self, params: OffsetParams) -> list[str]:
        """Return the group that a plan "like group X" reads too."""
        return [params.like_group] if params.target == "like_group" else []

    def also_reads_elsewhere(self, params: OffsetParams) -> list[tuple[str, str]]:
        """Return cluster and group that a clone reads."""
        return [address_of(params.clone_of)] if params.target == "clone" else []

    def compute(self, cluster: str, subject: str, params: OffsetParams, now_ms: int) -> OffsetDraft:
        """Read the group, compute what would move. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        given = params
        if given.target == "undo":
            params = undone(cluster, subject, given)
        requested = request_of(params)
        here = cluster_selectors.cluster_by_name(cluster)
        admin = with_admin(here.connection)
        source = group_source(admin, cluster, subject, now_ms, params.accept_without)
        recorded = requested.target.recorded(source, requested)
        state = read_group_state(source, requested.topics, now_ms, recorded=recorded)
        lost = offset_change.lost_queues(state, requested)
        known = requested.target.look_up(source, state, requested)
        rows = offset_change.changes(state, requested, known)
        cover = source.coverage.reading(known.answering, known.silent).of_queues(lost, len(rows))
        if not rows:
            cover.require_some(subject)
        rows, span = self._with_store_times(admin, state, rows)
        seen = selectors.group(cluster, subject)
        pace = Pace(
            None if seen is None else seen.in_rate,
            None if seen is None else seen.out_rate,
            *selectors.best_speed(cluster, subject, now_ms),
        )
        limits = Limits(here.typed_confirm_messages, here.second_person_messages)
        model = "" if seen is None else seen.model
        return Draft(
            summary=offset_words.summary(subject, rows, span, pace, state.online),
            diff=_diff(rows, lost, cover),
            before=OffsetBefore(
                online=state.online,
                clients=tuple(sorted(state.clients)),
                server_side_reset=tuple(
                    sorted(name for name, able in state.server_side_reset.items() if able)
                ),
                read_at_ms=now_ms,
                queues=tuple(
                    (row.queue.topic, row.queue.broker_name, row.queue.queue_id, row.before) for row in rows
                ),
            ),
            messages=offset_words.replayed(rows) + offset_words.skipped(rows),
            warnings=[
                *_clocks(cluster, params, rows),
                *offset_words.warnings(state, requested, rows, limits, model, known.sampled),
            ],
            params=params,
            coverage=cover,
            blocked=offset_change.blocked(state, requested, rows),
            repeat_with=given,
            undo_of=given.undo_plan if given.target == "undo" else "",
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Read the group again and compare with the plan."""
        state, returned = self._state_now(plan, now_ms)
        before = self.before_of(plan)
        elapsed_s = max(0.0, (now_ms - before.read_at_ms) / 1000)
        paces = selectors.queue_paces(plan.cluster, plan.subject, before.read_at_ms)
        rows = offset_change.covered_changes(self.rows_of(plan))
        moved = offset_change.drift(rows, before.online, state, elapsed_s, paces)
        moving = [row for row in rows if row.moves]
        # A known reset explains the moves of its queues.
        return [*_other_jobs(plan), *returned, *(resets_since(plan, moving, now_ms) or moved)]

    def _state_now(self, plan: Plan, now_ms: int) -> tuple[GroupState, list[Text]]:
        """Return the group as it is now, and sentences about brokers that answer again.

        Raises BrokerUnavailable when a broker that the plan covers does not answer.
        """
        admin = self._admin(plan.cluster)
        cover = read_coverage(admin, plan.cluster)
        queues = [row.queue for row in offset_change.covered_changes(self.rows_of(plan))]
        for name in sorted({queue.broker_name for queue in queues} - set(cover.addrs)):
            raise BrokerUnavailable(name, silence(cover, name))
        source = GroupSource(admin, plan.cluster, plan.subject, cover)
        topics = sorted({queue.topic for queue in queues})
        state = read_group_state(source, topics, now_ms, recorded=queues)
        return state, recovered(plan, cover)

    def apply(self, run: JobRun) -> None:
        """Read the group again, record its offsets for undo, then move every queue by its own request.

        When the group was moved by others since the plan was confirmed, nothing is changed (PlanDrifted).
        """
        admin = self._admin(run.plan.cluster)
        if run.result_as(KeptMoves).queues is None:
            changes = self.drift(run.plan, run.now_ms())
            if changes:
                raise PlanDrifted(changes)
            state, _ = self._state_now(run.plan, run.now_ms())
            moves = planned_moves(offset_change.covered_changes(self.rows_of(run.plan)), state)
            Moves(run).put(moves)
            run.count(done=0, total=len(moves))
            run.save()
        apply_moves(run, admin, run.plan.subject)
        moved = Moves(run)
        passed = moved.count(MoveState.PASSED)
        applied = moved.handled - passed
        if passed:
            run.note(
                Text(
                    "Applied to %(number)s queues; %(passed)s had already passed their target and are "
                    "unchanged",
                    number=applied,
                    passed=passed,
                )
            )
        else:
            run.note(Text("Applied to %(number)s queues", number=applied))

    def verify(self, run: JobRun) -> None:
        """Watch the brokers until every queue is at its target and members read on."""
        admin = self._admin(run.plan.cluster)
        watch_moves(run, admin, run.plan.subject)
        deleted = [
            topic
            for topic in sorted({move.topic for move in moves_of(run)})
            if topic_route(admin, topic) is None
        ]
        if deleted:
            text = Text(
                "%(topics)s: deleted since the job began; its brokers still keep offsets of it",
                topics=Text.of_names(deleted),
            )
            run.note(text, level="warn")

    def settle(self, run: JobRun) -> None:
        """Record how many queues were moved before the cancel."""
        run.put_result(MovedCount(moved=sum(move.is_done for move in moves_of(run))))

    def undo_params(self, plan: Plan, job: Job) -> OffsetParams | None:
        """Return the offsets recorded just before each move; queues never committed before stay."""
        offsets = tuple(
            QueueOffset(
                topic=move.topic,
                broker_name=move.broker_name,
                queue_id=move.queue_id,
                offset=move.before,
                # After a replay, a queue that the group has read past its old offset again is left alone.
                or_beyond=move.target < move.before,
            )
            for move in moves_of(job)
            if move.is_done and move.before is not None
        )
        return OffsetParams(target="exact", offsets=offsets) if offsets else None

    def _admin(self, cluster: str) -> BlockingMQAdmin:
        return with_admin(cluster_selectors.cluster_by_name(cluster).connection)

    def _with_store_times(
        self, admin: BlockingMQAdmin, state: GroupState, rows: list[Change]
    ) -> tuple[list[Change], tuple[int, int] | None]:
        """Return rows with the store time of the message at their target, and the span of all messages."""
        firsts, lasts = {}, {}
        for row in rows:
            if row.after is None or not row.moves:
                continue
            place = state.queues[row.queue].place
            start = row.after if row.before is None else min(row.after, row.before)
            end = row.max_offset if row.before is None else max(row.after, row.before)
            firsts[row.queue] = (place, max(start, row.min_offset))
            lasts[row.queue] = (place, min(end, row.max_offset) - 1)
        targets = [
            (state.queues[row.queue].place, row.after) for row in rows if row.moves and row.after is not None
        ]
        times = store_times(admin, [*firsts.values(), *lasts.values(), *targets])
        known = [
            times[place.queue, offset]
            for place, offset in (*firsts.values(), *lasts.values())
            if (place.queue, offset) in times
        ]
        span = (min(known), max(known)) if known else None
        return [
            row.at(times.get((row.queue, row.after))) if row.after is not None else row for row in rows
        ], span


def _diff(rows: Sequence[Change], lost: Mapping[MessageQueue, QueueSeen], cover: Coverage) -> list[DiffRow]:
    """Return rows of queues that can be moved and of those that cannot be reached, in the order of names."""
    found = [row.as_row() for row in rows]
    found += [
        offset_change.left_out_row(queue, seen, cover.absent[queue.broker_name])
        for queue, seen in lost.items()
    ]
    return sorted(found, key=lambda row: row.queue)


def undone(cluster: str, subject: str, params: OffsetParams) -> OffsetParams:
    """Return the exact offsets that undo a plan of this group, limited to the named topics or queues."""
    requested = request_of(params)
    try:
        plan, exact = operation_selectors.undo_params(requested.undo_plan)
    except (PlanNotFound, UndoImpossible) as error:
        raise PlanRejected(text_of(error), "undo_plan") from error
    if (plan.kind, plan.cluster, plan.subject) != (OffsetChangePlan.kind, cluster, subject):
        raise PlanRejected(
            Text(
                "%(id)s is no offset change of %(group)s in %(cluster)s.",
                id=plan.id,
                group=subject,
                cluster=cluster,
            ),
            "undo_plan",
        )
    offsets = [
        each
        for each in exact.offsets
        if (requested.topics is None or each.topic in requested.topics) and requested.covers(each.queue)
    ]
    if not offsets:
        raise PlanRejected(Text("%(id)s moved none of these queues.", id=plan.id), "queues")
    return OffsetParams(accept_without=params.accept_without, target="exact", offsets=tuple(offsets))


def _clocks(cluster: str, params: OffsetParams, rows: Sequence[Change]) -> list[PlanWarning]:
    """Return warnings of brokers whose clock is off, where the target is a time."""
    if params.target != "time":
        return []
    names = {row.queue.broker_name for row in rows}
    known = lag_selectors.broker_rows(cluster)
    return offset_words.clock_warnings(
        {
            row.broker_name: row.clock_offset_ms
            for row in known
            if row.clock_offset_ms and row.broker_name in names
        }
    )


def _other_jobs(plan: Plan) -> list[Text]:
    """Return sentences about earlier jobs that move offsets of the group now; two at once would collide."""
    own = getattr(plan, "job", None)
    return [
        Text(
            "%(id)s by %(person)s is moving offsets of %(group)s now",
            id=job.id,
            person=job.created_by,
            group=plan.subject,
        )
        for job in operation_selectors.active_jobs(plan.cluster, plan.subject)
        if job.kind == plan.kind and (own is None or (job.created_at, job.id) < (own.created_at, own.id))
    ]
