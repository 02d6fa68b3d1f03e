"""The plan kinds of dead letters.

``dead_letter_replay`` sends a group's dead letters again, counted before and accounted for after;
``dlq_readable`` makes a write-only dead-letter topic readable.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

from django.utils.translation import gettext_noop
from msgspec import structs

from console.brokers.mqadmin import BlockingMQAdmin, MessageQueue, retry_topic, validate_group, with_admin
from console.brokers.queues import PERM_READ, BrokerQueue, ask_each, masters
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.deadletter import selectors
from console.deadletter.dead_letters import Filter, Places, Sieve, places, topic_of
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.replay import account as replay_account
from console.deadletter.replay import copy as replay_copy
from console.deadletter.replay import direct
from console.deadletter.replay import recovery as replay_recovery
from console.deadletter.replay import words as replay_words
from console.deadletter.replay.batches import Replay
from console.deadletter.replay.before import ReplayBefore, Span
from console.deadletter.replay.params import ReplayParams, read_params
from console.deadletter.replay.preview import Preview, PreviewRow, look_through
from console.deadletter.replay.targets import route_queues_of
from console.deadletter.retention import retention_ms
from console.lag.last_seen import topic_queues_seen
from console.operation.config.change import (
    ConfigParams,
    ConfigPlan,
    exact_rows,
    read_configs,
    undone,
)
from console.operation.config.row import TOPIC, Config, ConfigRow, left_out_rows, overwritten_warning
from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.models import Job, Plan
from console.operation.plan.coverage import Coverage, read_coverage
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Another, Draft, Need, Place, PlanKind, RestCall
from console.operation.plan.params import Given
from console.operation.plan.places import LetterPlace
from console.text import Names, Text, text_of
from console.text.stored import Stored

DEAD_LETTERS = Place(Text("Dead letters"), "dead-letters", "dead-letter-group")
ORDERLY = "ORDERLY"
SEND = "SEND"
LEDGER_SHOWN = 12  # rows beside the progress of a replay
SPOT_CHECKS = 20  # sent copies that verify reads back


ReplayDraft = Draft[ReplayParams, ReplayBefore, PreviewRow]


@dataclasses.dataclass(frozen=True, slots=True)
class _Finding:
    """What the parts of one ``compute`` share."""

    admin: BlockingMQAdmin
    cluster: str
    group: str
    params: ReplayParams
    places: Places
    preview: Preview
    now_ms: int

    @property
    def target_topics(self) -> list[str]:
        """The topics that other groups may read, where copies go to such."""
        if self.params.target == replay_copy.OTHER_TOPIC:
            return [self.params.topic]
        if self.params.target == replay_copy.ORIGINAL_TOPIC:
            return sorted(topic for topic in self.preview.topics if topic)
        return []


class ReplayPlan(PlanKind[ReplayParams, ReplayBefore, PreviewRow]):
    """Send the dead letters of a group again.

    The subject is the group whose dead letters are sent.
    """

    params_type, before_type, row_type = ReplayParams, ReplayBefore, PreviewRow
    read_params = staticmethod(read_params)

    kind = "dead_letter_replay"
    past = {
        "Send %(number)s {dead letter|dead letters} of %(group)s again, %(where)s, %(speed)s.": gettext_noop(
            "Sent %(number)s {dead letter|dead letters} of %(group)s again, %(where)s."
        ),
        (
            "Send %(number)s {dead letter|dead letters} of %(group)s again, dead since "
            "%(time)s, %(where)s, %(speed)s."
        ): gettext_noop(
            "Sent %(number)s {dead letter|dead letters} of %(group)s again, dead since %(time)s, %(where)s."
        ),
        (
            "Mark %(number)s {dead letter|dead letters} of %(group)s as handled. Nothing is sent."
        ): gettext_noop(
            "Marked %(number)s {dead letter|dead letters} of %(group)s as handled. Nothing was sent."
        ),
        (
            "Mark %(number)s {dead letter|dead letters} of %(group)s as handled, dead since "
            "%(time)s. Nothing is sent."
        ): gettext_noop(
            "Marked %(number)s {dead letter|dead letters} of %(group)s as handled, dead since "
            "%(time)s. Nothing was sent."
        ),
        (
            "Deliver one dead letter of %(group)s (%(place)s) to the client %(client)s, once, and show its answer."
        ): gettext_noop("Delivered one dead letter of %(group)s (%(place)s) to the client %(client)s, once."),
    }
    title = Text("Dead-letter replay")
    cancel_words = Text(
        "Copies that were sent stay with the group. The other dead letters remain and can be replayed later; "
        "nothing is sent twice."
    )
    chart_mark = "D"
    place = DEAD_LETTERS
    diff_template = "deadletter/_diff_dead_letters.html"
    job_template = "deadletter/_job_replay.html"
    another = Another("dead-letter-group", Text("Choose other dead letters, another target or rate"))
    program = "dlq"
    verb = "REPLAY"
    runs_long = True

    def button(self, plan: Plan) -> Text:
        """Name the outcome by target: sent, marked as handled, or given to one client."""
        target = self.params_of(plan).target
        if target == replay_copy.NOWHERE:
            return Text("Mark %(number)s dead letter(s) as handled", number=plan.messages)
        if target == replay_copy.CLIENT:
            return Text("Deliver it to the client")
        return Text("Replay %(number)s dead letter(s)", number=plan.messages)

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Show each queue with its number of matching letters."""
        for row in self.rows_of(plan):
            place = f"{row.topic} · {row.broker_name} · {row.queue_id}"
            yield f"{place:<50} {row.matched:>8,} matched, {row.already:,} replayed before"

    def job_rows(self, job: Job) -> Sequence[selectors.NumberedRow]:
        """Return the newest rows of the ledger with their numbers."""
        return selectors.numbered(selectors.ledger_page(job.plan_id, per_page=LEDGER_SHOWN))

    def holds(self, cluster: str, subject: str) -> str:
        """Allow one replay at a time per group: two could send the same letter twice."""
        return f"dead letters {cluster}/{subject}"

    def compute(self, cluster: str, subject: str, params: ReplayParams, now_ms: int) -> ReplayDraft:
        """Read and count the matching letters. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        wanted = _of_group(subject, params)
        admin = _admin(cluster)
        brokers, topic = read_coverage(admin, cluster, params.accept_without), topic_of(subject)
        found = places(admin, topic, brokers.addrs)
        lost = _out_of_reach(cluster, topic, brokers, wanted.letter)
        cover = brokers.of_queues(lost, len(found.queues))
        if not found.queues:
            cover.require_some(topic)
        if found.is_missing and not lost:
            raise PlanRejected(found.problem, field="group")
        queues = _only(found.queues, wanted.letter) if not found.problem else []
        preview = self._preview(admin, cluster, queues, wanted.filter)
        if found.queues and not lost and preview.is_empty:
            raise PlanRejected(_none_matches(subject, wanted.filter), field="group")
        finding = _Finding(admin, cluster, subject, wanted, found, preview, now_ms)
        if wanted.target == replay_copy.CLIENT:
            return self._direct_draft(finding)
        to_send = preview.matched - (preview.already if wanted.skip_replayed else 0)
        before = self._before(finding)
        speed = wanted.rate_per_s or selectors.usual_speed(cluster)
        takes_s = to_send / speed if speed else None
        expiring = preview.expiring(before.retention_ms, now_ms + round((takes_s or 0) * 1_000))
        return Draft(
            summary=replay_words.summary(subject, to_send, preview, wanted, takes_s, now_ms),
            diff=preview.rows,
            before=structs.replace(before, takes_s=takes_s, expiring=expiring),
            needs=self._needs(finding),
            messages=to_send,
            warnings=replay_words.preview_warnings(
                preview, wanted, self._others(finding), _online(admin, subject), expiring
            ),
            params=wanted,
            coverage=cover,
            blocked=found.problem or self._target_problem(finding) or _nothing_left(preview, to_send),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Report letters that expired, or a topic that was recreated, since the preview.

        New letters are no drift: they are not part of the plan.
        """
        before = self.before_of(plan)
        found = places(_admin(plan.cluster), before.topic, {each.broker_name for each in before.ranges})
        if found.problem:
            return [found.problem]
        now = {(place.queue.broker_name, place.queue.queue_id): place for place in found.queues}
        changes = []
        for each in before.ranges:
            place = now.get((each.broker_name, each.queue_id))
            if place is None:
                changes.append(Text("queue %(queue)s is gone", queue=each.name))
            elif place.max_offset < each.to_offset:
                changes.append(
                    Text(
                        "queue %(queue)s ends at %(now)s, not at %(before)s",
                        queue=each.name,
                        now=place.max_offset,
                        before=each.to_offset,
                    )
                )
            elif place.min_offset > each.from_offset and each.to_offset > each.from_offset:
                gone = min(place.min_offset, each.to_offset) - each.from_offset
                changes.append(
                    Text(
                        "%(number)s dead letters of queue %(queue)s have expired",
                        number=gone,
                        queue=each.name,
                    )
                )
        return changes

    def apply(self, run: JobRun) -> None:
        """Send the letters that have no outcome in the ledger yet."""
        admin = _admin(run.plan.cluster)
        if self.params_of(run.plan).target == replay_copy.CLIENT:
            direct.give(run, admin)
            run.note(replay_words.client_answer(direct.ClientAnswer.of(run)))
            return
        with Replay(run, admin) as replay:
            replay_recovery.begin(replay)
            replay.execute()
            figures = replay.figures()
        run.note(
            Text(
                "%(matched)s matched = %(sent)s sent + %(skipped)s skipped + %(failed)s failed",
                matched=figures.sums.matched,
                sent=figures.sent,
                skipped=figures.skipped,
                failed=figures.failed,
            )
        )

    def verify(self, run: JobRun) -> None:
        """Check the sums, that no send is open, and that sampled copies are stored with their keys."""
        counts = selectors.ledger_counts(run.plan.id)
        reported = run.progress_as(replay_account.Sums)
        replay_account.verify_sums(self.before_of(run.plan), reported, counts)
        if self.params_of(run.plan).target == replay_copy.CLIENT:
            if not counts[LedgerState.SENT]:
                raise VerificationFailed(replay_words.client_answer(direct.ClientAnswer.of(run)))
            return
        admin = _admin(run.plan.cluster)
        addrs = masters(admin)
        checked = 0
        for row in selectors.spot_checks(run.plan.id, SPOT_CHECKS):
            run.beat()
            checked += _read_back(admin, addrs, row)
        run.put_result(replay_account.ReadBack(read_back=checked))

    def settle(self, run: JobRun) -> None:
        """Resolve open sends and count the outcomes after a cancel."""
        admin = _admin(run.plan.cluster)
        if self.params_of(run.plan).target == replay_copy.CLIENT:
            return  # one request: the ledger already has its outcome
        with Replay(run, admin) as replay:
            replay_recovery.settle(replay)

    def give_up(self, run: JobRun) -> None:
        """Mark letters without an outcome as UNKNOWN after a failure, so that none stays open."""
        replay_account.close_open_letters(run)

    def rate_per_s(self, plan: Plan) -> int | None:
        """Return the rate that the plan was made with."""
        return self.params_of(plan).rate_per_s

    def undo_params(self, plan: Plan, job: Job) -> ReplayParams | None:
        """Return None: a message that was sent cannot be recalled."""
        return None

    # --- Inside ---------------------------------------------------------------------------------------------

    def _preview(
        self, admin: BlockingMQAdmin, cluster: str, queues: list[BrokerQueue], wanted: Filter
    ) -> Preview:
        return look_through(
            admin,
            queues,
            Sieve(wanted, masks_of(cluster)),
            functools.partial(selectors.sent_before, cluster),
            functools.partial(selectors.in_doubt_before, cluster),
        )

    def _before(self, finding: _Finding) -> ReplayBefore:
        preview = finding.preview
        addrs = {place.addr for place in finding.places.queues}
        return ReplayBefore(
            topic=topic_of(finding.group),
            ranges=tuple(row.span for row in preview.rows),
            matched=preview.matched + preview.unreadable if preview.complete else None,
            counted=preview.matched + preview.unreadable,
            already=preview.already,
            unreadable=preview.unreadable,
            topics=preview.topics,
            retention_ms=retention_ms(finding.admin, addrs) if addrs else None,
        )

    def _needs(self, finding: _Finding) -> tuple[Need, ...]:
        """Return the right to send to the topics that the copies go to."""
        return tuple(Need(SEND, topic) for topic in finding.target_topics)

    def _direct_draft(self, finding: _Finding) -> ReplayDraft:
        """Plan exactly one letter: the named one, or the newest that matches and was not replayed."""
        params, preview = finding.params, finding.preview
        before = structs.replace(self._before(finding), matched=0, counted=0)
        blocked = finding.places.problem or (
            Text() if preview.newest else Text("No dead letter is left to deliver.")
        )
        is_original = True
        if preview.newest is not None:
            queue, letter = preview.newest
            given = direct.message_to_give(finding.admin, queue, letter)
            direct.require_member(finding.admin, given, finding.group, params.client_id)
            place = LetterPlace(
                broker_name=queue.broker_name, queue_id=queue.queue_id, queue_offset=letter.queue_offset
            )
            span = Span(
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                from_offset=letter.queue_offset,
                to_offset=letter.queue_offset + 1,
            )
            params = structs.replace(params, letter=place)
            before = structs.replace(before, ranges=(span,), matched=1, counted=1, given=given)
            is_original = given.is_original
        return Draft(
            summary=replay_words.direct_summary(finding.group, params, preview.newest),
            diff=preview.rows,
            before=before,
            messages=before.counted,
            warnings=replay_words.direct_warnings(is_original, topic_of(finding.group)),
            params=params,
            blocked=blocked,
        )

    def _target_problem(self, finding: _Finding) -> Text:
        """Return why nothing can be sent; empty when it can."""
        admin, group, target = finding.admin, finding.group, finding.params.target
        if target == replay_copy.FAILED_GROUP:
            if not route_queues_of(admin, retry_topic(group), write=True):
                return Text(
                    "There is no topic %(topic)s: no client of the group has ever been online.",
                    topic=retry_topic(group),
                )
            seen = selectors.group_row(finding.cluster, group)
            if seen is not None and seen.consume_mode == ORDERLY and seen.clients:
                return Text(
                    "The group consumes in order: while its clients hold queue locks, 5.x brokers move "
                    "messages of its retry topic straight back to the dead letters. Choose the original "
                    "topic, or stop the clients."
                )
            return Text()
        if target == replay_copy.OTHER_TOPIC:
            topic = finding.params.topic
            return (
                Text()
                if route_queues_of(admin, topic, write=True)
                else Text("There is no writable topic %(topic)s.", topic=topic)
            )
        topics = [topic for topic in finding.preview.topics if topic]
        if target == replay_copy.NOWHERE or not topics:
            return Text()
        missing = sorted(topic for topic in topics if not route_queues_of(admin, topic, write=True))
        if len(missing) == len(topics):
            return Text("No original topic can be written any more: %(names)s.", names=Names(missing[:3]))
        return Text()

    def _others(self, finding: _Finding) -> list[str]:
        """Return the other groups that receive what is sent to these topics (300)."""
        topics = finding.target_topics
        addrs = masters(finding.admin)
        answers = ask_each(
            finding.admin,
            {(addr, topic): (addr, topic) for addr in addrs.values() for topic in topics},
            lambda client, arguments: client.topic_consumed_by(*arguments),
        )
        found = {
            other for groups in answers.values() if not isinstance(groups, Exception) for other in groups
        }
        return sorted(
            found - {finding.group} if finding.params.target == replay_copy.ORIGINAL_TOPIC else found
        )


class ReadableBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """Broker name → configuration of the topic."""

    topic: str
    configs: Mapping[str, Config | None]


ReadableDraft = Draft[ConfigParams, ReadableBefore, ConfigRow]


class DlqReadablePlan(ConfigPlan[ConfigParams, ReadableBefore]):
    """Add the read permission to a dead-letter topic, on every broker that lacks it.

    Brokers up to 4.9.0 create such topics write-only (perm 2). No parameters but those of an undo; the subject
    is the group.
    """

    params_type, before_type = ConfigParams, ReadableBefore
    kind = "dlq_readable"
    past = {
        "Allow reading %(topic)s on %(names)s. Nothing is sent, no message is touched.": gettext_noop(
            "Allowed reading %(topic)s on %(names)s. Nothing was sent, no message was touched."
        ),
        "Restore the permission of %(topic)s on %(names)s.": gettext_noop(
            "Restored the permission of %(topic)s on %(names)s."
        ),
    }
    title = Text("Readable dead letters")
    action = Text("Allow reading it")
    place = DEAD_LETTERS
    program = "dlq"

    def read_params(self, given: Given) -> ConfigParams:
        """Read the parameters: a new plan has none."""
        given.refuse_unknown(ConfigParams.__struct_fields__)
        return ConfigParams(accept_without=given.accepted_without())

    def is_undo(self, params: ConfigParams) -> bool:
        """Return whether a plan restores what the job of another one recorded."""
        return bool(params.exact)

    def rest_call(self, cluster: str, subject: str, params: ConfigParams) -> RestCall | None:
        """Return None: its own endpoint needs no request body."""
        return None

    def compute(self, cluster: str, subject: str, params: ConfigParams, now_ms: int) -> ReadableDraft:
        """Read the topic's permission per broker. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        admin, topic, is_undo = _admin(cluster), topic_of(subject), self.is_undo(params)
        brokers = read_coverage(admin, cluster, params.accept_without)
        if any((each.what, each.name) != (TOPIC, topic) for each in params.exact):
            raise PlanRejected(Text("This undo covers %(topic)s only.", topic=topic), field="exact")
        rows = (
            exact_rows(admin, brokers, params.exact)
            if is_undo
            else _readable_rows(admin, brokers.addrs, topic)
        )
        meant = {each.broker_name for each in params.exact} if is_undo else brokers.absent
        cover = brokers.of_brokers(meant, {row.broker_name for row in rows})
        moving = [row.broker_name for row in rows if row.changes]
        return Draft(
            summary=replay_words.readable_summary(topic, moving, is_undo=is_undo),
            diff=[*rows, *left_out_rows(cover, TOPIC, topic)],
            coverage=cover,
            before=ReadableBefore(topic=topic, configs={row.broker_name: row.before for row in rows}),
            warnings=overwritten_warning(rows) + replay_words.readable_warnings(is_undo=is_undo),
            blocked=Text()
            if moving
            else Text("%(topic)s can be read on every broker: there is nothing to do.", topic=topic),
        )

    def undo_params(self, plan: Plan, job: Job) -> ConfigParams | None:
        """Return the configurations recorded on each broker that was written."""
        exact = undone(job)
        return ConfigParams(exact=exact) if exact else None


def _readable_rows(admin: BlockingMQAdmin, addrs: Mapping[str, str], topic: str) -> list[ConfigRow]:
    """Return a row per broker that has the topic; raises PlanRejected when none has it."""
    rows = [
        ConfigRow.of(
            TOPIC, topic, name, addrs[name], config, {**config, "perm": int(config["perm"]) | PERM_READ}
        )
        for name, config in read_configs(admin, addrs, TOPIC, topic).items()
        if config is not None
    ]
    if not rows:
        raise PlanRejected(Text("No broker has a topic %(topic)s.", topic=topic), field="group")
    return rows


def _of_group(group: str, params: ReplayParams) -> ReplayParams:
    """Return the parameters for a group; raises PlanRejected for those of another."""
    try:
        validate_group(group)
    except ValueError as error:
        raise PlanRejected(text_of(error), field="group") from error
    if params.group not in ("", group):
        raise PlanRejected(Text("The plan's subject and its group differ."), field="group")
    return structs.replace(params, group=group)


def _admin(cluster: str) -> BlockingMQAdmin:
    return with_admin(cluster_selectors.cluster_by_name(cluster).connection)


def _out_of_reach(
    cluster: str, topic: str, brokers: Coverage, letter: LetterPlace | None
) -> list[MessageQueue]:
    """Return the dead-letter queues on brokers that do not answer; for one letter, those of its broker."""
    return [
        queue
        for queue in topic_queues_seen(cluster, [topic])
        if queue.broker_name in brokers.absent and (letter is None or queue.broker_name == letter.broker_name)
    ]


def _only(queues: Sequence[BrokerQueue], letter: LetterPlace | None) -> list[BrokerQueue]:
    """Return all queues, or only the one letter; raises PlanRejected when it is not stored any more."""
    if letter is None:
        return list(queues)
    for place in queues:
        if (place.queue.broker_name, place.queue.queue_id) == (letter.broker_name, letter.queue_id):
            offset = letter.queue_offset
            if place.min_offset <= offset < place.max_offset:
                return [dataclasses.replace(place, min_offset=offset, max_offset=offset + 1)]
    raise PlanRejected(Text("There is no dead letter at that place, or it has expired."), field="letter")


def _none_matches(group: str, wanted: Filter) -> Text:
    if wanted == Filter():
        return Text("%(group)s has no dead letters.", group=group)
    return Text("No dead letter of %(group)s matches the filter.", group=group)


def _nothing_left(preview: Preview, to_send: int) -> Text:
    if to_send or preview.unreadable or not preview.complete:
        return Text()
    return Text("No dead letter is left to send.")


def _online(admin: BlockingMQAdmin, group: str) -> bool | None:
    """Return whether any member of the group is online; None when no broker answered."""
    answers = ask_each(admin, masters(admin), lambda client, addr: client.consumer_connection(addr, group))
    known = [answer for answer in answers.values() if not isinstance(answer, Exception)]
    return any(answer is not None for answer in known) if known else None


def _read_back(admin: BlockingMQAdmin, addrs: Mapping[str, str], row: ReplayLedger) -> int:
    """Return 1 when the copy is stored where the broker reported, 0 when that cannot be checked any more.

    Raises VerificationFailed when another message is stored there.
    """
    assert row.target_queue_id is not None and row.target_offset is not None
    addr = addrs.get(row.target_broker_name)
    if addr is None:
        return 0
    result = admin.pull(addr, row.target_topic, row.target_queue_id, row.target_offset, 1)
    record = next((each for each in result.messages if each.queue_offset == row.target_offset), None)
    if record is None:
        return 0  # expired in the meantime, or its topic is write-only
    if record.properties.get(replay_copy.REPLAY_KEY) != row.replay_key:
        raise VerificationFailed(
            Text(
                "%(place)s is not the copy of dead letter %(letter)s",
                place=f"{row.target_topic} · {row.target_broker_name} · {row.target_queue_id} @ {row.target_offset}",
                letter=row.queue_offset,
            )
        )
    return 1
