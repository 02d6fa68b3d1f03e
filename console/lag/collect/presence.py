"""Check for connected members of groups whose committed offset rises though the last sweep found none.

Such a rise is either a member that connected since the sweep, up to half a minute ago, or an offset that another tool
set ahead. The brokers are asked (203) in the round that sees the rise, for the few groups it concerns. A member that
connects, commits and leaves between two rounds is taken for such a tool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from console.brokers.mqadmin import BlockingMQAdmin, ConsumerConnection, MQAdmin
from console.lag.round.broker_reads import BrokerAnswers
from console.lag.round.columns import NULL
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey, RoundSeries
from console.lag.round.view import Members
from spark.lag.snapshot import UNKNOWN_OFFSET

# In one round; members of the others are unknown, and their rises count as consumption.
GROUPS_MAX = 32
# The brokers have just answered.
DEADLINE_MS = 1_000
# Two sweeps: a member that was connected so recently may have committed before it left.
SEEN_MS = 60_000


class Presence:
    """Record members of groups that should have none. Called by the collector, one thread at a time."""

    def __init__(self) -> None:
        self._seen_ms: dict[str, int] = {}

    def deserted(
        self,
        admin: BlockingMQAdmin,
        answers: Sequence[BrokerAnswers],
        series: RoundSeries,
        previous: KeyedColumns[QueueKey],
        members: Mapping[str, Members],
        now_ms: int,
    ) -> frozenset[str]:
        """Return the groups with a rising offset for which every broker reports no connected member."""
        self._seen_ms = {group: at_ms for group, at_ms in self._seen_ms.items() if at_ms > now_ms - SEEN_MS}
        empty = {group for group, one in members.items() if one.clients == 0}
        risen = sorted(_risen(series, previous, empty - self._seen_ms.keys()))[:GROUPS_MAX]
        if not risen or not all(answer.answered for answer in answers):
            return frozenset()
        calls = {
            (group, answer.address.addr): partial(_ask, addr=answer.address.addr, group=group)
            for group in risen
            for answer in answers
        }
        found = admin.gather(calls, deadline_ms=DEADLINE_MS)
        doubtful = {group: answer for (group, _), answer in found.items() if answer is not None}
        seen = [group for group, answer in doubtful.items() if not isinstance(answer, Exception)]
        self._seen_ms |= dict.fromkeys(seen, now_ms)
        return frozenset(risen) - doubtful.keys()

    def corrected(self, members: Mapping[str, Members]) -> Mapping[str, Members]:
        """Return the sweep's members; groups that had a member since have an unknown number: not offline."""
        came = {group for group in self._seen_ms if group in members and members[group].clients == 0}
        return (
            {**members, **{group: replace(members[group], clients=None) for group in came}}
            if came
            else members
        )


def _risen(series: RoundSeries, previous: KeyedColumns[QueueKey], groups: set[str]) -> set[str]:
    if not groups:
        return set()
    keys, committed = series.groups.keys, series.groups.committed
    at = np.array([place for place, key in enumerate(keys) if key.group in groups], dtype=np.int64)
    before = previous.taken(
        "committed_offset", previous.places_of([keys[place] for place in at.tolist()]), NULL
    )
    rises = (before != NULL) & (committed[at] != UNKNOWN_OFFSET) & (committed[at] > before)
    return {keys[place].group for place in at[rises].tolist()}


async def _ask(admin: MQAdmin, *, addr: str, group: str) -> ConsumerConnection | None:
    found = await admin.consumer_connection(addr, group)
    return found if found is not None and found.connection_set else None
