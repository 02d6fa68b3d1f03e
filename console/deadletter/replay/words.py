"""A replay in words: summary and banners of its plan. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import MessageQueue, MessageRecord, retry_topic
from console.deadletter.replay.copy import FAILED_GROUP, NOWHERE, OTHER_TOPIC
from console.deadletter.replay.preview import Preview
from console.operation.plan.kinds import PlanWarning

NAMES_SHOWN = 5


def summary(
    group: str,
    to_send: int,
    preview: Preview,
    checked: Mapping[str, Any],
    takes_s: float | None,
    now_ms: int,
) -> str:
    """``This will send 312 dead letters of billing again, …, to that group only, at 40 messages per second:
    8 s.``"""
    least = "" if preview.complete else "at least "
    span = "" if preview.first_ms is None else f", dead since {_time(preview.first_ms, now_ms)}"
    noun = "dead letter" if to_send == 1 else "dead letters"
    if checked["target"] == NOWHERE:
        return f"This will mark {least}{to_send:,} {noun} of {group} as handled{span}. Nothing is sent."
    if checked["target"] == FAILED_GROUP:
        where = f"to that group only ({retry_topic(group)})"
    elif checked["target"] == OTHER_TOPIC:
        where = f"to {checked['topic']}"
    else:
        where = f"to {_names(sorted(topic for topic in preview.topics if topic)) or 'their original topic'}"
    rate = checked["rate_per_s"]
    speed = "as fast as the brokers take them" if rate is None else f"at {rate:,} per second"
    takes = (
        "" if takes_s is None else f": {_duration(takes_s)}{' at the speed of the last one' * (rate is None)}"
    )
    return f"This will send {least}{to_send:,} {noun} of {group} again{span}, {where}, {speed}{takes}."


def preview_warnings(
    preview: Preview,
    checked: Mapping[str, Any],
    others: Sequence[str],
    online: bool | None,
    expiring: int | None,
) -> list[PlanWarning]:
    """The banners of the plan page, most important first."""
    found = _receivers(checked["target"], others)
    if preview.unreadable:
        found.append(
            PlanWarning("warn", f"{preview.unreadable:,} can not be read", "They are counted as failed.")
        )
    if expiring:
        found.append(
            PlanWarning(
                "warn",
                f"{expiring:,} may expire before they are sent",
                "They are, or will be by then, older than their broker keeps messages; it deletes whole files, "
                "so most of them last a little longer. A higher rate helps.",
            )
        )
    elif expiring is None:
        found.append(
            PlanWarning("info", "When they expire is unknown", "No broker told how long it keeps messages.")
        )
    if preview.already:
        deed = "are skipped" if checked["skip_replayed"] else "will be sent once more"
        found.append(
            PlanWarning("info", f"{preview.already:,} were replayed or handled before", f"They {deed}.")
        )
    if not preview.complete:
        found.append(
            PlanWarning(
                "info", "Not all dead letters were counted", "The rest is counted while the job runs."
            )
        )
    if checked["target"] == FAILED_GROUP and online is False:
        found.append(
            PlanWarning("info", "No member of the group is online", "The copies wait in its retry topic.")
        )
    if checked["target"] == FAILED_GROUP:
        found.append(
            PlanWarning(
                "ok",
                "Other groups see nothing",
                "Copies go to the group's own retry topic, with a fresh count of retries.",
            )
        )
    if checked["target"] == NOWHERE:
        text = "A later replay leaves them out unless it is told to send everything again."
        found.append(PlanWarning("info", "The letters stay where they are", text))
    else:
        text = "Every copy carries a key: each letter is sent at most once, or reported as unknown."
        found.append(PlanWarning("info", "A replay can not be undone", text))
    return found


def _receivers(target: str, others: Sequence[str]) -> list[PlanWarning]:
    """Who else gets the copies."""
    if target == OTHER_TOPIC and not others:
        return [
            PlanWarning("info", "No group reads that topic yet", "The copies wait there until they expire.")
        ]
    if not others:
        return []
    count = f"{len(others)} {'other ' * (target != OTHER_TOPIC)}group{'s' * (len(others) != 1)}"
    if target == OTHER_TOPIC:
        return [
            PlanWarning(
                "warn", f"{count} will receive the copies", f"They read that topic: {_names(others)}."
            )
        ]
    return [
        PlanWarning(
            "danger",
            f"{count} will receive the copies too",
            f"They read the same topic: {_names(others)}. Choose the failed group as target to spare them.",
        )
    ]


def direct_summary(
    group: str, checked: Mapping[str, Any], newest: tuple[MessageQueue, MessageRecord] | None
) -> str:
    """``This will give one dead letter of billing (broker-a · 0 @ 17, keys k1) to the client 10.0.0.7@4711, …``"""
    if newest is None:
        return f"This would give one dead letter of {group} to the client {checked['client_id']}."
    queue, letter = newest
    keys = f", keys {letter.keys}" if letter.keys else ""
    return (
        f"This will give one dead letter of {group} ({queue.broker_name} · {queue.queue_id} @ "
        f"{letter.queue_offset:,}{keys}) to the client {checked['client_id']}, once, and show what it answers."
    )


def direct_warnings(is_original: bool, topic: str) -> list[PlanWarning]:
    """What the client will see, and that it may do something."""
    found = [
        PlanWarning(
            "warn",
            "The client really consumes it",
            "Its listener runs as for any message. No offset is committed and nothing is retried.",
        )
    ]
    if not is_original:
        text = f"The message it was made of is gone, so the listener gets {topic} as the topic's name."
        found.append(PlanWarning("warn", "The listener sees the dead-letter topic", text))
    return found


def client_answer(answer: Mapping[str, Any]) -> str:
    """``The client 10.0.0.7@4711 answered CR_SUCCESS in 12 ms.``"""
    if not answer.get("consume_result"):
        return f"The client {answer['client_id']} did not answer with a result: {answer['remark']}"
    remark = f": {answer['remark']}" if answer["remark"] else ""
    return f"The client {answer['client_id']} answered {answer['consume_result']} in {answer['spent_ms']} ms{remark}."


def readable_summary(topic: str, moving: Sequence[str], *, is_undo: bool) -> str:
    """``This will let broker-a, broker-b be read from …`` with the topic's name."""
    names = _names(moving) or "no broker"
    if is_undo:
        return f"This will put back the permission of {topic} on {names}."
    return f"This will allow reading {topic} on {names}. Nothing is sent, no message is touched."


def readable_warnings(*, is_undo: bool) -> list[PlanWarning]:
    """What it means."""
    if is_undo:
        return [
            PlanWarning("info", "A write-only topic can not be looked at", "Neither here nor by a consumer.")
        ]
    return [
        PlanWarning(
            "ok",
            "Dead letters are written as before",
            "Only the permission to read is added. Brokers up to 4.9.0 create dead-letter topics without it.",
        )
    ]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


def _time(at_ms: int, now_ms: int) -> str:
    at, now = (datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    if seconds < 7200:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
