"""Parameters of a replay: read and checked. Pure."""

from __future__ import annotations

from console.brokers.mqadmin import DLQ_TOPIC_PREFIX, RETRY_TOPIC_PREFIX, is_system_topic, validate_topic
from console.deadletter.dead_letters import Filter, read_filter
from console.deadletter.replay import copy as replay_copy
from console.operation.errors import PlanRejected
from console.operation.models import Plan
from console.operation.plan.params import Given, Params
from console.operation.plan.places import LetterPlace, read_place
from console.operation.rules import RATE_PER_S_MAX
from console.text import Names, Text, text_of
from console.text.stored import of_json

STOP_MAX = 1_000_000_000


class ReplayParams(Params, frozen=True, kw_only=True):
    """Which dead letters go where, how fast, and when to stop.

    None is no limit. ``topic`` belongs to the target other_topic, ``client_id`` to client. ``letter``: this one
    instead of all that match.
    """

    group: str = ""
    target: str
    filter: Filter
    rate_per_s: int | None
    skip_replayed: bool
    stop_after_failures: int | None = None
    stop_if_dlq_grows_by: int | None = None
    topic: str = ""
    client_id: str = ""
    letter: LetterPlace | None = None

    @classmethod
    def of(cls, plan: Plan) -> ReplayParams:
        """Return the parameters of a plan."""
        return of_json(cls, plan.params)


def read_params(given: Given) -> ReplayParams:
    """Return checked parameters with every default; raises PlanRejected naming the field.

    Fields that do not belong to the target are refused, not ignored.
    """
    given.refuse_unknown(ReplayParams.__struct_fields__)
    target, letter = given.get("target"), given.get("letter")
    if target not in replay_copy.TARGETS:
        raise PlanRejected(
            Text("Choose a target: %(names)s.", names=Names(replay_copy.TARGETS)), field="target"
        )
    wanted = given.get("filter") or {}
    if not isinstance(wanted, dict):
        raise PlanRejected(Text("The filter must be an object."), field="filter")
    topic, client_id = str(given.get("topic") or ""), str(given.get("client_id") or "")
    _check_target(target, topic, client_id)
    return ReplayParams(
        accept_without=given.accepted_without(),
        group=given.get("group") or "",
        target=target,
        filter=read_filter(wanted),
        rate_per_s=_limit("rate_per_s", given.get("rate_per_s"), RATE_PER_S_MAX),
        skip_replayed=bool(given.get("skip_replayed", True)),
        stop_after_failures=_limit("stop_after_failures", given.get("stop_after_failures"), STOP_MAX),
        stop_if_dlq_grows_by=_limit("stop_if_dlq_grows_by", given.get("stop_if_dlq_grows_by"), STOP_MAX),
        topic=topic,
        client_id=client_id,
        letter=None if letter is None else read_place(LetterPlace, letter, "letter"),
    )


def _limit(field: str, value: object, most: int) -> int | None:
    """Return a number from 1 to ``most``, or None; raises PlanRejected."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise PlanRejected(Text("%(field)s must be 1 to %(most)s.", field=field, most=most), field=field)
    return value


def _check_target(target: str, topic: str, client_id: str) -> None:
    """Check that a topic or a client is given for the targets that need one, and for no other."""
    if topic and target != replay_copy.OTHER_TOPIC:
        raise PlanRejected(Text("topic is only for the target other_topic."), field="topic")
    if client_id and target != replay_copy.CLIENT:
        raise PlanRejected(Text("client_id is only for the target client."), field="client_id")
    if target == replay_copy.CLIENT and not client_id:
        raise PlanRejected(Text("Enter the client id of the client."), field="client_id")
    if target != replay_copy.OTHER_TOPIC:
        return
    try:
        validate_topic(topic)
    except ValueError as error:
        raise PlanRejected(text_of(error), field="topic") from error
    if is_system_topic(topic) or topic.startswith((DLQ_TOPIC_PREFIX, RETRY_TOPIC_PREFIX)):
        raise PlanRejected(
            Text("%(topic)s belongs to RocketMQ: choose one of your topics.", topic=topic), field="topic"
        )
