"""Which groups are paused, as brokers last reported, and since when and by whom. Calls no broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from console.group.models import BrokerRefusals
from console.operation.config.row import GROUP
from console.operation.config.write import writes_of
from console.operation.models import Job

STALE_MS = 120_000  # four surveys: older rows are out of date
JOBS_READ_MAX = 200  # per group, newest first
READING = "reading"  # ``what`` of a plan's row: whether a group may read a topic on a broker
WHOLE_GROUP = ""  # instead of a topic: the group may not consume at all


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A topic that a group may not read (`WHOLE_GROUP`: anything), on `brokers`.

    `since_ms` null: it was so at this console's first read. `by` and `plan_id` are "" for changes made
    elsewhere.
    """

    topic: str
    brokers: tuple[str, ...]
    since_ms: int | None
    by: str
    plan_id: str
    read_at_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A broker whose permissions are out of date or were never read (`read_at_ms` null)."""

    broker_name: str
    reason: str
    read_at_ms: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class GroupPauses:
    """The pauses of one group; `unable`: brokers whose release cannot pause a topic."""

    paused: Sequence[Pause] = ()
    unknown: Sequence[Unknown] = ()
    unable: Sequence[str] = ()

    @property
    def topics(self) -> list[str]:
        """Topics that are paused on some broker, without the whole group."""
        return [pause.topic for pause in self.paused if pause.topic != WHOLE_GROUP]

    @property
    def whole_group(self) -> Pause | None:
        """The pause of the whole group, if it may not consume at all."""
        return next((pause for pause in self.paused if pause.topic == WHOLE_GROUP), None)

    def holds(self, topic: str, broker_name: str) -> bool:
        """Return whether this broker was seen to refuse the topic to the group."""
        return any(
            pause.topic in (topic, WHOLE_GROUP) and broker_name in pause.brokers for pause in self.paused
        )


def pauses_of(cluster: str, group: str, now_ms: int) -> GroupPauses:
    """Return the pauses of a group, with one query, or two where something is paused."""
    rows = list(BrokerRefusals.objects.filter(cluster=cluster).order_by("broker_name"))
    held: dict[str, dict[str, int]] = {}  # topic → broker → first seen
    read_at_ms: dict[str, int] = {}
    for row in rows:
        if row.read_at_ms is None:
            continue
        read_at_ms[row.broker_name] = row.read_at_ms
        if group in row.groups:
            held.setdefault(WHOLE_GROUP, {})[row.broker_name] = row.groups[group]
        for topic, first_ms in (row.topics or {}).get(group, {}).items():
            held.setdefault(topic, {})[row.broker_name] = first_ms
    began = _began_here(cluster, group) if held else {}
    return GroupPauses(
        paused=[
            _pause(topic, brokers, began, read_at_ms)
            for topic, brokers in sorted(
                held.items(), key=lambda one: (one[0] != WHOLE_GROUP, one[0].startswith("%"), one[0])
            )
        ],
        unknown=[
            Unknown(row.broker_name, row.reason, row.read_at_ms)
            for row in rows
            if row.read_at_ms is None or row.read_at_ms < now_ms - STALE_MS
        ],
        unable=[row.broker_name for row in rows if row.read_at_ms is not None and row.topics is None],
    )


def paused_groups(cluster: str) -> dict[str, list[str]]:
    """Return group → its paused topics, `WHOLE_GROUP` first where it may not consume at all. One query."""
    found: dict[str, set[str]] = {}
    for row in BrokerRefusals.objects.filter(cluster=cluster, read_at_ms__isnull=False):
        for group in row.groups:
            found.setdefault(group, set()).add(WHOLE_GROUP)
        for group, topics in (row.topics or {}).items():
            found.setdefault(group, set()).update(topics)
    return {group: sorted(topics) for group, topics in found.items()}


def _pause(
    topic: str,
    brokers: Mapping[str, int],
    began: Mapping[tuple[str, str], tuple[int, str, str]],
    read_at_ms: Mapping[str, int],
) -> Pause:
    """Return a pause, as old as its oldest broker.

    The job of this console gives time and person, unless the pause was first seen much later than the job:
    then others ended that one and began a new one.
    """
    here = [
        began[topic, name]
        for name, first_ms in brokers.items()
        if (topic, name) in began and first_ms <= began[topic, name][0] + STALE_MS
    ]
    since_ms, by, plan_id = min(here) if here else (min(brokers.values()) or None, "", "")
    return Pause(
        topic=topic,
        brokers=tuple(brokers),
        since_ms=since_ms,
        by=by,
        plan_id=plan_id,
        read_at_ms=min(read_at_ms[name] for name in brokers),
    )


def _began_here(cluster: str, group: str) -> dict[tuple[str, str], tuple[int, str, str]]:
    """Return (topic, broker) → (since, person, plan) of pauses by this console's jobs, not resumed since."""
    jobs = Job.objects.filter(cluster=cluster, subject=group, kind__startswith="group_")
    began: dict[tuple[str, str], tuple[int, str, str]] = {}
    for job in reversed(jobs.order_by("-created_at", "-id")[:JOBS_READ_MAX]):
        for write in writes_of(job):
            if not write.is_done or write.what not in (READING, GROUP):
                continue
            is_reading = write.what == READING
            key = (write.name if is_reading else WHOLE_GROUP, write.broker_name)
            after = write.after or {}
            if after.get("readable" if is_reading else "consumeEnable", True):
                began.pop(key, None)
            else:
                began.setdefault(key, (write.at_ms or 0, job.created_by, job.plan_id))
    return began
