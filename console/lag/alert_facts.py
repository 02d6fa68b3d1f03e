"""Compute the facts that alert rules use, for each group, from the last round and the courses of promises.

What is unknown is null, never zero or false; so are the figures of a cluster without rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.lag.facts import Burn, burning, forecast_breach
from console.lag.models import GroupRow
from console.lag.promise_courses import Budgets
from console.lag.rows.broadcast import BROADCASTING


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Hold a group's topic: `burn` over each window, `burning` the factors of the firing SRE workbook alerts."""

    topic: str
    status: str
    burn: tuple[Burn, ...]
    burning: tuple[float, ...]
    stall_ms: int | None
    time_to_loss_ms: int | None
    time_to_loss_never: bool | None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Hold a group: its promise, whether it is forecast to be late for longer, dead letters and topics."""

    group: str
    status: str
    read_at_ms: int
    is_current: bool
    slo_ms: int
    slo_target: float
    slo_from_ms: int
    forecast_breach: bool | None
    dead_letter_rate: float | None
    topics: tuple[TopicFacts, ...]


def facts_of(
    cluster: str, groups: Sequence[GroupRow], *, interval_ms: int, now_ms: int, is_current: bool
) -> list[GroupFacts]:
    """Return the facts of some groups; `is_current`: rounds take place."""
    budgets = Budgets(cluster, interval_ms, now_ms)
    found = []
    for row in groups:
        promised = budgets.promised(row.group)
        found.append(
            GroupFacts(
                group=row.group,
                status=row.status if is_current else "UNKNOWN",
                read_at_ms=row.read_at_ms,
                is_current=is_current,
                slo_ms=promised.slo_ms,
                slo_target=promised.target,
                slo_from_ms=promised.from_ms,
                forecast_breach=forecast_breach(row, promised) if is_current else None,
                dead_letter_rate=row.dlq_in_rate if is_current else None,
                topics=tuple(_topics(row, budgets, is_current)),
            )
        )
    return found


def _topics(row: GroupRow, budgets: Budgets, is_current: bool) -> list[TopicFacts]:
    found = []
    for one in row.topics:
        # Clients of a broadcasting group keep their offsets: there is no history of them.
        is_known = is_current and one["lag"] is not None and row.model != BROADCASTING
        burn = tuple(budgets.burns(row.group, one["topic"])) if is_known else ()
        found.append(
            TopicFacts(
                topic=one["topic"],
                status=one["status"] if is_current else "UNKNOWN",
                burn=burn,
                burning=tuple(burning(burn)),
                stall_ms=one.get("stall_ms") if is_current else None,
                time_to_loss_ms=one.get("time_to_loss_ms") if is_current else None,
                time_to_loss_never=one.get("time_to_loss_never") if is_current else None,
            )
        )
    return found
