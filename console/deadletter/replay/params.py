"""Check the parameters of a replay and fill in defaults. Pure, except for the settings a filter reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    is_system_topic,
    validate_group,
    validate_topic,
)
from console.deadletter.dead_letters import read_filter
from console.deadletter.replay import copy as replay_copy
from console.operation.errors import PlanRejected
from console.operation.plan.params import ACCEPT_WITHOUT, accepted_without
from console.operation.rules import RATE_PER_S_MAX
from console.text import Text

STOP_MAX = 1_000_000_000
KNOWN = frozenset(
    {
        "group",
        "target",
        "topic",
        "client_id",
        "letter",
        "filter",
        "rate_per_s",
        "skip_replayed",
        "stop_after_failures",
        "stop_if_dlq_grows_by",
        ACCEPT_WITHOUT,
    }
)


def checked_params(subject: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked parameters with every default; raises PlanRejected naming the field.

    Fields that do not belong to the target are refused, not ignored.
    """
    try:
        validate_group(subject)
    except ValueError as error:
        raise PlanRejected(Text.foreign(str(error)), field="group") from error
    unknown = sorted(set(params) - KNOWN)
    if unknown:
        raise PlanRejected(Text("A replay has no %(field)s.", field=repr(unknown[0])), field=unknown[0])
    if params.get("group", subject) != subject:
        raise PlanRejected(Text("The plan's subject and its group differ."), field="group")
    target = params.get("target")
    if target not in replay_copy.TARGETS:
        raise PlanRejected(
            Text("Choose a target: %(names)s.", names=", ".join(replay_copy.TARGETS)), field="target"
        )
    wanted = params.get("filter") or {}
    if not isinstance(wanted, Mapping):
        raise PlanRejected(Text("The filter is an object."), field="filter")
    read_filter(wanted)
    found = {
        "group": subject,
        "target": target,
        "filter": {key: value for key, value in wanted.items() if value not in (None, "")},
        "rate_per_s": whole_number(params, "rate_per_s", RATE_PER_S_MAX),
        "skip_replayed": bool(params.get("skip_replayed", True)),
    }
    for field in ("stop_after_failures", "stop_if_dlq_grows_by"):
        limit = whole_number(params, field, STOP_MAX)
        if limit is not None:
            found[field] = limit
    accepted = accepted_without(params)
    if accepted:
        found[ACCEPT_WITHOUT] = list(accepted)
    return found | _of_target(target, params) | _letter(params)


def whole_number(params: Mapping[str, Any], field: str, most: int) -> int | None:
    """Return a number from 1 to ``most``, or None; raises PlanRejected."""
    value = params.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise PlanRejected(Text("%(field)s is 1 to %(most)s.", field=field, most=most), field=field)
    return value


def _of_target(target: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the topic or the client, for targets that need one."""
    topic, client_id = str(params.get("topic") or ""), str(params.get("client_id") or "")
    if topic and target != replay_copy.OTHER_TOPIC:
        raise PlanRejected(Text("Only the target other_topic has a topic."), field="topic")
    if client_id and target != replay_copy.CLIENT:
        raise PlanRejected(Text("Only the target client has a client."), field="client_id")
    if target == replay_copy.CLIENT:
        if not client_id:
            raise PlanRejected(Text("Which client? Give its client id."), field="client_id")
        return {"client_id": client_id}
    if target != replay_copy.OTHER_TOPIC:
        return {}
    try:
        validate_topic(topic)
    except ValueError as error:
        raise PlanRejected(Text.foreign(str(error)), field="topic") from error
    if is_system_topic(topic) or topic.startswith((DLQ_TOPIC_PREFIX, RETRY_TOPIC_PREFIX)):
        raise PlanRejected(
            Text("%(topic)s belongs to RocketMQ: choose a topic of your own.", topic=topic), field="topic"
        )
    return {"topic": topic}


def _letter(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position of one letter to send instead of all that match, if given."""
    letter = params.get("letter")
    if letter is None:
        return {}
    names = ("broker_name", "queue_id", "queue_offset")
    if not isinstance(letter, Mapping) or set(letter) != set(names):
        raise PlanRejected(Text("A letter has broker_name, queue_id and queue_offset."), field="letter")
    for field in names[1:]:
        value = letter[field]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise PlanRejected(Text("A whole number from 0 on."), field=f"letter.{field}")
    return {"letter": {name: letter[name] for name in names}}
