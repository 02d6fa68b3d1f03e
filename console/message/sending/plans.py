"""The plan kind ``message_send``: send one message, new or an edited copy of a stored one.

A property records the origin of the message. A crash between send and result sends nothing twice: the next attempt
looks for the stored message first.
"""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.translation import gettext_noop
from msgspec import structs

from console.brokers.body_format import render_body
from console.brokers.body_unpack import unpack
from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    BlockingMQAdmin,
    Message,
    MessageProperty,
    MessageQueue,
    is_system_topic,
    validate_topic,
    with_admin,
)
from console.brokers.queues import ask_each, masters, route_queues, topic_route
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of, may_unmask
from console.message import services
from console.message.search.lanes import Hit
from console.message.sending.params import (
    COPY_PROPERTY,
    PLAN_PROPERTY,
    TYPED_BODY_BYTES_MAX,
    MessagePart,
    SendParams,
    original_place,
    own_properties,
    read_params,
)
from console.message.sending.shown import without_hidden
from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.message_events import MessageEvent, MessageTrail
from console.operation.models import Job, JobState, Plan
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Draft, Place, PlanKind, PlanWarning, RestCall
from console.operation.plan.places import BrokerQueuePlace, MessagePlace
from console.text import Text, text_of
from console.text.stored import Stored, as_json

BODY_BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024  # RocketMQ's maxMessageSize with room for the properties
SHOWN_BYTES = 4 * 1024  # of a body in the diff
EVENTS_MAX = 50
TERMINAL_CHARACTERS = 100  # of a value
LOOK_BACK_PULL = 32
READ_BACK_WITHIN_S, READ_BACK_EVERY_S = 10.0, 0.5


class SendBegan(Stored, frozen=True, kw_only=True):
    """In the progress: the end of the queue before the message was sent."""

    from_offset: int | None = None


class SendSettled(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """In the result of a cancelled job: where the message is stored; None: it was not sent."""

    queue_offset: int | None


class SendBefore(Stored, frozen=True, kw_only=True):
    """Broker and id of the chosen queue, and its address."""

    queue: tuple[str, int]
    addr: str


SendDraft = Draft[SendParams, SendBefore, MessagePart]


class MessageSendPlan(PlanKind[SendParams, SendBefore, MessagePart]):
    """Send a message; the subject is its topic."""

    params_type, before_type, row_type = SendParams, SendBefore, MessagePart
    read_params = staticmethod(read_params)

    kind = "message_send"
    past = {
        "Send one message of %(number)s bytes to %(topic)s (%(where)s)": gettext_noop(
            "Sent one message of %(number)s bytes to %(topic)s (%(where)s)"
        ),
    }
    title = Text("Message send")
    program = "messages"
    place = Place(Text("Messages"), "messages", filters_by="topic", name_words=Text("Name of the topic"))
    diff_template = "message/_diff_message.html"
    job_template = "message/_job_message.html"
    verb = "SEND"

    def shown_to(self, plan: Plan, person: Any) -> Plan:
        """Return the plan without values that mask rules hide from this person."""
        topics = [plan.subject, *self.also_reads(self.params_of(plan))]
        if person is not None and all(may_unmask(person, plan.cluster, topic) for topic in topics):
            return plan
        masks = masks_of(plan.cluster)
        if not masks.rules:
            return plan
        return without_hidden(plan, masks, lambda shown: self.same_plan(plan.cluster, plan.subject, shown))

    def button(self, plan: Plan) -> Text:
        """Label the button: one message, new or a copy."""
        return Text("Send the message")

    def rest_call(self, cluster: str, subject: str, params: SendParams) -> RestCall:
        """Return the REST request; a copy names its original by topic, broker, queue and offset."""
        body = {"topic": subject} | as_json(structs.replace(params, source=None))
        if params.source is not None:
            body["copy_of"] = as_json(structs.replace(params.source, message_id=""))
        return RestCall(f"/api/v1/clusters/{cluster}/send-plans", body)

    def command_line(self, cluster: str, subject: str, params: SendParams) -> str:
        """Return ``manage.py messages send TOPIC …``, which makes the same message; base64 goes through a pipe."""
        # With = a value may begin with a hyphen.
        words = ["manage.py", "messages", "send", subject, f"--cluster={cluster}"]
        if (place := params.source) is not None:
            words.append(f"--copy={place.topic}/{place.broker_name}/{place.queue_id}/{place.queue_offset}")
        words += [f"--tag={params.tags}"] if params.tags else []
        words += [f"--key={key}" for key in params.keys.split()]
        words += [f"--property={name}={value}" for name, value in params.properties.items()]
        if params.queue is not None:
            words.append(f"--queue={params.queue.broker_name}:{params.queue.queue_id}")
        if params.keep_body:
            return shlex.join([*words, "--keep-body"])
        # A body that is a hyphen would mean standard input.
        if params.body is not None and params.body != "-":
            return shlex.join([*words, f"--body={params.body}"])
        packed = params.body_base64 or base64.b64encode(b"-").decode()
        return f"echo {shlex.quote(packed)} | base64 -d | {shlex.join([*words, '--body=-'])}"

    def terminal_rows(self, plan: Plan) -> Iterable[str]:
        """Yield what the message contains, and what differs from the original."""
        for row in self.rows_of(plan):
            before = "" if row.before is None or not row.differs else f"{_one_line(row.before)} → "
            yield f"{row.field:<24} {before}{_one_line(row.after)}".rstrip()

    def also_reads(self, params: SendParams) -> list[str]:
        """Return the topic of the original: a copy shows its body."""
        return [params.source.topic] if params.source is not None and params.source.topic else []

    def compute(self, cluster: str, subject: str, params: SendParams, now_ms: int) -> SendDraft:
        """Check the message and choose its queue. Raises PlanRejected, BrokerUnavailable, MQBrokerError."""
        _check_topic(subject)
        admin = self._admin(cluster)
        source = _source(cluster, params.source)
        body = _body(params, source)
        if not params.keep_body and len(body) > TYPED_BODY_BYTES_MAX:
            raise PlanRejected(
                Text(
                    "A typed body can have at most %(number)s bytes; only a copy that keeps its body can "
                    "be larger.",
                    number=TYPED_BODY_BYTES_MAX,
                ),
                field="body",
            )
        queue, addr = _queue(admin, subject, params.queue, source, now_ms)
        readers = ask_each(
            admin, masters(admin), lambda client, each: client.topic_consumed_by(each, subject)
        )
        groups = {group for found in readers.values() if not isinstance(found, Exception) for group in found}
        where = f"{queue.broker_name} · {queue.queue_id}"
        summary = Text(
            "Send one message of %(number)s bytes to %(topic)s (%(where)s)",
            number=len(body),
            topic=subject,
            where=where,
        )
        if source is not None:
            summary = Text("%(sending)s, a copy of %(origin)s", sending=summary, origin=_origin(source))
        return Draft(
            summary=Text("%(sentence)s.", sentence=summary),
            diff=_diff(params, source, body),
            before=SendBefore(queue=(queue.broker_name, queue.queue_id), addr=addr),
            messages=1,
            warnings=_warnings(subject, groups, source),
            params=structs.replace(
                params,
                queue=BrokerQueuePlace(broker_name=queue.broker_name, queue_id=queue.queue_id),
                source=None if source is None else original_place(source),
            ),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        """Return a sentence if the queue can no longer be written."""
        queue = self._planned_queue(plan)
        route = topic_route(self._admin(plan.cluster), plan.subject)
        writable = {} if route is None else route_queues(route, plan.subject, write=True)
        return (
            []
            if queue in writable
            else [
                Text(
                    "%(queue)s is no longer writable",
                    queue=f"{queue.broker_name} · {queue.queue_id}",
                )
            ]
        )

    def apply(self, run: JobRun) -> None:
        """Send once: after a crash, look for the message past the queue's former end."""
        admin, queue = self._admin(run.plan.cluster), self._planned_queue(run.plan)
        addr = masters(admin).get(queue.broker_name)
        if addr is None:
            raise VerificationFailed(
                Text("%(broker)s has no master. Nothing was sent.", broker=queue.broker_name)
            )
        offset = None
        from_offset = run.progress_as(SendBegan).from_offset
        if from_offset is not None:
            offset = _sent_before(admin, addr, queue, from_offset, run)
        if offset is None:
            end = admin.max_offset(addr, queue.topic, queue.queue_id)
            run.put_progress(SendBegan(from_offset=end))
            run.count(done=0, total=1)
            run.save()
            offset = admin.send(addr, self._message(run.plan), queue_id=queue.queue_id).queue_offset
        run.count(done=1)
        stored = MessagePlace(
            topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id, queue_offset=offset
        )
        run.put_result(stored)
        run.note(
            Text(
                "Stored in %(topic)s at %(queue)s @ %(offset)s",
                topic=queue.topic,
                queue=f"{queue.broker_name} · {queue.queue_id}",
                offset=offset,
            )
        )

    def verify(self, run: JobRun) -> None:
        """Read the message back from the offset that the broker returned.

        A broker answers before the queue has the message (ReputMessageService.java): it is waited for.
        """
        offset, queue = run.result_as(MessagePlace).queue_offset, self._planned_queue(run.plan)
        place = run.plan.cluster, queue.topic, queue.broker_name, queue.queue_id, offset
        waited_s = 0.0
        while (found := services.record_at(*place)) is None and waited_s < READ_BACK_WITHIN_S:
            run.sleep(READ_BACK_EVERY_S)
            waited_s += READ_BACK_EVERY_S
        if found is None or found.record.properties.get(PLAN_PROPERTY) != run.plan.id:
            raise VerificationFailed(
                Text(
                    "%(queue)s @ %(offset)s is not the message",
                    queue=f"{queue.broker_name} · {queue.queue_id}",
                    offset=offset,
                )
            )

    def settle(self, run: JobRun) -> None:
        """Report whether the message was sent before the cancel."""
        from_offset = run.progress_as(SendBegan).from_offset
        if from_offset is None:
            return
        admin, queue = self._admin(run.plan.cluster), self._planned_queue(run.plan)
        addr = masters(admin).get(queue.broker_name)
        offset = _sent_before(admin, addr, queue, from_offset, run) if addr else None
        run.put_result(SendSettled(queue_offset=offset))

    def undo_params(self, plan: Plan, job: Job) -> SendParams | None:
        """Return None: a sent message cannot be recalled."""
        return None

    def _message(self, plan: Plan) -> Message:
        params = self.params_of(plan)
        source = _source(plan.cluster, params.source)
        properties = dict(params.properties)
        if params.tags:
            properties[MessageProperty.TAGS] = params.tags
        if params.keys:
            properties[MessageProperty.KEYS] = params.keys
        properties[PLAN_PROPERTY] = plan.id
        if source is not None:
            properties[COPY_PROPERTY] = f"{source.record.message_id} {_origin(source)}"
        return Message(plan.subject, _body(params, source), properties)

    def _planned_queue(self, plan: Plan) -> MessageQueue:
        queue = self.params_of(plan).queue
        assert queue is not None, plan.id
        return MessageQueue(plan.subject, queue.broker_name, queue.queue_id)

    def _admin(self, cluster: str) -> BlockingMQAdmin:
        return with_admin(cluster_selectors.cluster_by_name(cluster).connection)


# --- Checking -----------------------------------------------------------------------------------------------


def _check_topic(topic: str) -> None:
    try:
        validate_topic(topic)
    except ValueError as error:
        raise PlanRejected(text_of(error), field="topic") from error
    if is_system_topic(topic) or topic.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX)):
        raise PlanRejected(
            Text("%(topic)s belongs to RocketMQ; choose another topic to send to.", topic=topic),
            field="topic",
        )


def _source(cluster: str, place: MessagePlace | None) -> Hit | None:
    """Return the stored message that is copied; raise PlanRejected if it is gone."""
    if place is None:
        return None
    found = services.record_at(cluster, place.topic, place.broker_name, place.queue_id, place.queue_offset)
    if found is None:
        raise PlanRejected(
            Text(
                "No broker has the message %(place)s.",
                place=f"{place.topic} · {place.broker_name} · {place.queue_id} @ {place.queue_offset}",
            ),
            field="source",
        )
    if masks_of(cluster).hides(found.record):
        raise PlanRejected(
            Text("This message has masked fields and cannot be copied: the copy would show or lose them."),
            field="source",
        )
    return found


def _body(params: SendParams, source: Hit | None) -> bytes:
    """Return the bytes to send; those of a copy are decompressed. Raises PlanRejected."""
    if params.keep_body:
        assert source is not None
        unpacked = unpack(source.record.body, source.record.sys_flag)
        if unpacked.problem and source.record.sys_flag & 1:
            raise PlanRejected(
                Text("The body cannot be kept: %(problem)s", problem=unpacked.problem), field="body"
            )
        # Only what the client compressed is decompressed; other bodies stay as their producer packed them.
        body = unpacked.body if source.record.sys_flag & 1 else source.record.body
    elif params.body_base64 is not None:
        try:
            body = base64.b64decode(params.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise PlanRejected(
                Text("The body is not base64: %(error)s. Encode it again.", error=text_of(error)),
                field="body",
            ) from error
    else:
        body = (params.body or "").encode()
    if not body:
        raise PlanRejected(Text("RocketMQ does not accept a message without a body."), field="body")
    if len(body) > BODY_BYTES_MAX:
        raise PlanRejected(
            Text(
                "The body has %(number)s bytes; at most %(most)s.",
                number=len(body),
                most=BODY_BYTES_MAX,
            ),
            field="body",
        )
    return body


def _queue(
    admin: BlockingMQAdmin, topic: str, wanted: BrokerQueuePlace | None, source: Hit | None, now_ms: int
) -> tuple[MessageQueue, str]:
    """Return the queue to write: the requested one, the original's, or any. Raises PlanRejected."""
    route = topic_route(admin, topic)
    if route is None:
        raise PlanRejected(Text("There is no topic %(topic)s.", topic=topic), field="topic")
    writable = route_queues(route, topic, write=True)
    if not writable:
        raise PlanRejected(Text("%(topic)s is not writable on any broker.", topic=topic), field="topic")
    if wanted is not None:
        queue = MessageQueue(topic, wanted.broker_name, wanted.queue_id)
        if queue not in writable:
            raise PlanRejected(
                Text(
                    "%(topic)s has no writable queue %(queue)s.",
                    topic=topic,
                    queue=f"{queue.broker_name} · {queue.queue_id}",
                ),
                field="queue",
            )
        return queue, writable[queue]
    if source is not None:
        own = MessageQueue(topic, source.broker_name, source.record.queue_id)
        if own in writable:
            return own, writable[own]
    queue = sorted(writable)[now_ms % len(writable)]
    return queue, writable[queue]


# --- Words --------------------------------------------------------------------------------------------------


def _origin(source: Hit) -> str:
    record = source.record
    return f"{record.topic} · {source.broker_name} · {record.queue_id} @ {record.queue_offset}"


def _diff(params: SendParams, source: Hit | None, body: bytes) -> list[MessagePart]:
    """Return all parts of the message beside those of the original."""
    before = {} if source is None else own_properties(source)
    rows = [
        MessagePart.of("Tag", None if source is None else source.record.tags, params.tags),
        MessagePart.of("Keys", None if source is None else source.record.keys, params.keys),
    ]
    for name in sorted({*before, *params.properties}):
        rows.append(MessagePart.of(name, before.get(name), params.properties.get(name)))
    original = None
    if source is not None:
        original = render_body(unpack(source.record.body, source.record.sys_flag).body, SHOWN_BYTES).text
    return [*rows, MessagePart.of("Body", original, render_body(body, SHOWN_BYTES).text)]


def _warnings(topic: str, groups: set[str], source: Hit | None) -> list[PlanWarning]:
    found = [
        PlanWarning(
            "warn" if groups else "info",
            Text(
                "%(number)s group(s) of %(topic)s will receive it",
                number=len(groups),
                topic=topic,
            )
            if groups
            else Text("No group reads %(topic)s", topic=topic),
            Text("A sent message cannot be recalled."),
        )
    ]
    if source is not None and source.record.topic != topic:
        found.append(PlanWarning("info", Text("The original is in %(topic)s", topic=source.record.topic)))
    return found


def _one_line(text: str | None) -> str:
    return "-" if not text else " ".join(text.split())[:TERMINAL_CHARACTERS]


def _sent_before(
    admin: BlockingMQAdmin, addr: str, queue: MessageQueue, from_offset: int, run: JobRun
) -> int | None:
    """Return the offset at which an earlier attempt of this plan stored the message, or None."""
    end = admin.max_offset(addr, queue.topic, queue.queue_id)
    position = from_offset
    while position < end:
        run.beat()
        result = admin.pull(addr, queue.topic, queue.queue_id, position, LOOK_BACK_PULL)
        for record in result.messages:
            if record.properties.get(PLAN_PROPERTY) == run.plan.id:
                return record.queue_offset
        if result.next_begin_offset <= position:
            return None
        position = result.next_begin_offset
    return None


def copies_of(cluster: str, trail: MessageTrail) -> Sequence[MessageEvent]:
    """Return the copies this console sent of a message, for its life line."""
    plans = Plan.objects.filter(
        cluster=cluster, kind=MessageSendPlan.kind, params__source__message_id=trail.message_id
    ).select_related("job")
    return [
        MessageEvent(
            round(plan.job.finished_at.timestamp() * 1000),
            plan.subject,
            Text("a copy was sent to %(topic)s", topic=plan.subject),
            plan.id,
        )
        for plan in plans.filter(job__state=JobState.SUCCEEDED)[:EVENTS_MAX]
        if plan.job.finished_at is not None
    ]
