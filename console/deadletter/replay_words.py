"""A replay in words: summary and banners of its plan. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from console.deadletter.preview import Preview
from console.deadletter.replay_copy import FAILED_GROUP
from console.mqadmin import retry_topic
from console.operation.kinds import PlanWarning

NAMES_SHOWN = 5


def summary(group: str, to_send: int, preview: Preview, checked: Mapping[str, Any], now_ms: int) -> str:
    """``This will send 312 dead letters of billing again, …, to that group only, at 40 messages per second:
    8 s.``"""
    least = "" if preview.complete else "at least "
    span = "" if preview.first_ms is None else f", dead since {_time(preview.first_ms, now_ms)}"
    if checked["target"] == FAILED_GROUP:
        where = f"to that group only ({retry_topic(group)})"
    else:
        where = f"to {_names(sorted(topic for topic in preview.topics if topic)) or 'their original topic'}"
    rate = checked["rate_per_s"]
    speed = "as fast as the brokers take them" if rate is None else f"at {rate:,} per second"
    takes = "" if rate is None else f": {_duration(to_send / rate)}"
    noun = "dead letter" if to_send == 1 else "dead letters"
    return f"This will send {least}{to_send:,} {noun} of {group} again{span}, {where}, {speed}{takes}."


def preview_warnings(
    preview: Preview, checked: Mapping[str, Any], others: Sequence[str], online: bool | None
) -> list[PlanWarning]:
    """The banners of the plan page, most important first."""
    found = []
    if others:
        found.append(
            PlanWarning(
                "danger",
                f"{len(others)} other group{'s' * (len(others) != 1)} will receive the copies too",
                f"They read the same topic: {_names(others)}. Choose the failed group as target to spare "
                f"them.",
            )
        )
    if preview.unreadable:
        found.append(
            PlanWarning("warn", f"{preview.unreadable:,} can not be read", "They are counted as failed.")
        )
    if preview.already:
        deed = "are skipped" if checked["skip_replayed"] else "will be sent once more"
        found.append(PlanWarning("info", f"{preview.already:,} were replayed before", f"They {deed}."))
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
    found.append(
        PlanWarning("info", "A replay can not be undone", "Every copy carries a key; none is sent twice.")
    )
    return found


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
