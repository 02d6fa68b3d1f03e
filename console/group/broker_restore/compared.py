"""Compare the offsets that all groups had on brokers at a moment, as recorded, with what those brokers have now."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from console.brokers.mqadmin import BrokerUnavailable, MessageQueue, is_system_group, with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, ask_each, masters, require_answer
from console.cluster import selectors as cluster_selectors
from console.lag import selectors as lag_selectors
from console.lag.past import history_reads
from console.lag.past.history_reads import OffsetThen
from console.operation.errors import PlanRejected
from console.operation.plan.coverage import NO_MASTER
from console.text import Moment, Text
from spark.lag.folds.rounds import GAP_INTERVALS
from spark.lag.local_time import DAY_MS

# Group and queue → committed offset.
Offsets = Mapping[tuple[str, MessageQueue], int]
# How far back a loss is searched: each step reads a file with all groups, of an hour up to there, of a day before.
LOOKED_BACK_MS = DAY_MS
QUEUES_SHOWN = 50  # of a group on the page; its plan has all


class QueueState(enum.Enum):
    """What became of a recorded offset."""

    LOST = "lost"  # there is none now
    AHEAD = "ahead"  # further on now: members consumed, or began at the end
    BEHIND = "behind"
    SAME = "same"
    UNRECORDED = "unrecorded"  # there is one now, none was recorded
    UNKNOWN = "unknown"  # its broker does not answer


class ComparedQueue(NamedTuple):
    """A queue with its recorded offset and the present one; None: there is none."""

    queue: MessageQueue
    then: int | None
    now: int | None
    state: QueueState


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group's queues on the brokers."""

    group: str
    queues: tuple[ComparedQueue, ...]

    def count(self, state: QueueState) -> int:
        """Return how many queues are in a state."""
        return sum(each.state is state for each in self.queues)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many queues are in each state, by its name."""
        return {state.value: self.count(state) for state in QueueState}

    @property
    def recorded(self) -> list[MessageQueue]:
        """Return the queues with a recorded offset."""
        return [each.queue for each in self.queues if each.then is not None]

    @property
    def lost(self) -> list[MessageQueue]:
        """Return the queues whose offset is gone."""
        return [each.queue for each in self.queues if each.state is QueueState.LOST]

    @property
    def shown(self) -> list[ComparedQueue]:
        """Return the first queues that are not as recorded."""
        return [each for each in self.queues if each.state is not QueueState.SAME][:QUEUES_SHOWN]

    @property
    def moves(self) -> bool:
        """Return whether restoring every recorded offset would change one."""
        return any(each.then not in (None, each.now) for each in self.queues)

    @property
    def messages_back(self) -> int:
        """Return how many messages would be delivered again if every queue went back."""
        return sum(
            each.now - each.then
            for each in self.queues
            if each.now is not None and each.then is not None and each.now > each.then
        )


def offsets_now(cluster: str, brokers: Collection[str]) -> Offsets:
    """Read all committed offsets of these brokers, one request each. Raises BROKER_TROUBLE."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    addrs = masters(admin)
    for name in sorted(set(brokers) - addrs.keys()):
        raise BrokerUnavailable(name, NO_MASTER)
    addresses = {name: addrs[name] for name in brokers}
    answers = ask_each(
        admin, addresses, lambda client, addr: client.all_consumer_offsets(addr), PAGE_DEADLINE_MS
    )
    return {
        (group, MessageQueue(topic, name, queue_id)): offset
        for name, answer in answers.items()
        for (topic, group), queues in require_answer(name, addresses[name], answer).offset_table.items()
        for queue_id, offset in queues.items()
        if not is_system_group(group)
    }


def compared_groups(
    cluster: str, brokers: Collection[str], at_ms: int, now: Offsets | None
) -> list[ComparedGroup]:
    """Return the groups with recorded or present offsets on brokers, by name. ``now`` None: it is not known.

    RocketMQ's own groups are left out. Raises PlanRejected where nothing of these brokers is recorded for that time.
    """
    then = {key: reading.offset for key, reading in _recorded(cluster, brokers, at_ms).items()}
    if not then:
        raise PlanRejected(
            Text(
                "The history has no offsets on %(names)s for %(time)s.",
                names=Text.of_names(sorted(brokers)),
                time=Moment(at_ms),
            ),
            "time_ms",
        )
    by_group: dict[str, list[ComparedQueue]] = {}
    for key in sorted(then.keys() | (now or {}).keys()):
        group, queue = key
        by_group.setdefault(group, []).append(_compared(queue, then.get(key), now, key))
    return [ComparedGroup(group, tuple(queues)) for group, queues in sorted(by_group.items())]


def _compared(
    queue: MessageQueue, then: int | None, now: Offsets | None, key: tuple[str, MessageQueue]
) -> ComparedQueue:
    at = None if now is None else now.get(key)
    if now is None:
        state = QueueState.UNKNOWN
    elif then is None:
        state = QueueState.UNRECORDED
    elif at is None:
        state = QueueState.LOST
    else:
        state = QueueState.SAME if at == then else QueueState.AHEAD if at > then else QueueState.BEHIND
    return ComparedQueue(queue, then, at, state)


def _recorded(
    cluster: str, brokers: Collection[str], at_ms: int
) -> dict[tuple[str, MessageQueue], OffsetThen]:
    """Return the recorded offsets of all groups on brokers, as a plan for that time finds them."""
    within_ms = GAP_INTERVALS * lag_selectors.collect_interval_ms(cluster)
    return {
        (group, queue): reading
        for (group, queue), reading in history_reads.committed_at(cluster, at_ms, within_ms).items()
        if queue.broker_name in brokers and not is_system_group(group)
    }


def moment_before_loss(cluster: str, brokers: Collection[str], now: Offsets, now_ms: int) -> int | None:
    """Return the last round that read offsets which are gone now; None: no such round is recorded."""
    step_ms = lag_selectors.collect_interval_ms(cluster)

    def lost(at_ms: int) -> list[int]:
        """Return when the offsets were read that were recorded then and are gone now."""
        recorded = _recorded(cluster, brokers, at_ms)
        return [reading.read_at_ms for key, reading in recorded.items() if key not in now]

    at_ms = last_with_lost(lost, now_ms, step_ms)
    return None if at_ms is None else max(lost(at_ms))


def last_with_lost(lost: Callable[[int], Collection[object]], now_ms: int, step_ms: int) -> int | None:
    """Return the last moment before the newest loss, to a round; None: nothing recorded is gone now. Pure.

    Back in steps that double until some offset was there, then by halves between the last two.
    """
    back_ms = without_ms = 0
    while not (seen := len(lost(now_ms - back_ms))):
        if back_ms == LOOKED_BACK_MS:
            return None
        without_ms, back_ms = back_ms, min(max(step_ms, 2 * back_ms), LOOKED_BACK_MS)
    with_them, without = now_ms - back_ms, now_ms - without_ms
    while without - with_them > step_ms:
        middle = (with_them + without) // 2
        if len(lost(middle)) >= seen:
            with_them = middle
        else:
            without = middle
    return with_them
