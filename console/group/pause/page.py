"""The table of the pause page: which topics a group may read, by broker, read now."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import GroupRefusals, retry_topic, with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, NameServersSilent, ask_each, page_masters
from console.cluster.models import Cluster
from console.lag.models import GroupRow
from console.text import text_of

READS, PAUSED, STOPPED, UNABLE, UNKNOWN = "reads", "paused", "stopped", "unable", "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class TopicLine:
    """One topic over all brokers, in their order.

    A state is reads | paused | stopped (the group may not consume at all) | unable (the release cannot pause
    a topic) | unknown.
    """

    topic: str
    is_retry: bool
    states: tuple[str, ...]

    @property
    def is_paused(self) -> bool:
        """Whether it is paused on at least one broker."""
        return PAUSED in self.states


@dataclasses.dataclass(frozen=True, slots=True)
class PauseTable:
    """The table; `silent`: broker → why it did not answer; `problem`: why no broker could be asked."""

    brokers: tuple[str, ...]
    lines: tuple[TopicLine, ...]
    silent: Mapping[str, str]
    unable: tuple[str, ...]
    read_at_ms: int
    problem: str = ""

    @property
    def has_paused(self) -> bool:
        """Whether there is anything to resume."""
        return any(line.is_paused for line in self.lines)


def read_table(cluster: Cluster, group: str, row: GroupRow | None) -> PauseTable:
    """Ask every broker in parallel; raises nothing: the page shows what was read and what failed."""
    admin, now_ms = with_admin(cluster.connection), time.time_ns() // 1_000_000
    try:
        addrs = page_masters(admin)
    except NameServersSilent as error:
        return PauseTable((), (), {}, (), now_ms, text_of(error).local())
    answers = ask_each(admin, addrs, lambda client, addr: client.group_refusals(addr), PAGE_DEADLINE_MS)
    refused = {name: one for name, one in answers.items() if isinstance(one, GroupRefusals)}
    topics = {one["topic"] for one in (row.topics if row else ())}
    topics = topics.union(*((one.topics or {}).get(group, ()) for one in refused.values()))
    retry = retry_topic(group)
    return PauseTable(
        brokers=tuple(addrs),
        lines=tuple(
            TopicLine(topic, topic == retry, tuple(_state(refused.get(name), group, topic) for name in addrs))
            for topic in (*sorted(topics - {retry}), retry)
        ),
        silent={name: str(one) for name, one in answers.items() if isinstance(one, Exception)},
        unable=tuple(name for name, one in refused.items() if one.topics is None),
        read_at_ms=now_ms,
    )


def _state(refusals: GroupRefusals | None, group: str, topic: str) -> str:
    if refusals is None:
        return UNKNOWN
    if group in refusals.groups:
        return STOPPED
    if refusals.topics is None:
        return UNABLE
    return PAUSED if topic in refusals.topics.get(group, ()) else READS


def ticked(table: PauseTable, chosen: Sequence[str] | None) -> list[tuple[TopicLine, bool]]:
    """Return lines with whether their box is ticked: as submitted, all of them at first."""
    return [(line, chosen is None or line.topic in chosen) for line in table.lines]
