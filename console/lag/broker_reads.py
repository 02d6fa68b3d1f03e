"""What one collection round asks the brokers, and their answers as plain values.

Per broker, all at once under one deadline: the committed offsets of every group (43) first, then min and max
offsets of the topics (202, pipelined), so that a race never makes a lag negative; then figures of the broker
itself (28) and, now and then, its tables of topics (21) and groups (201). What was answered before the
deadline counts, the rest is unread with its reason.
"""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from console.mqadmin import (
    BlockingMQAdmin,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    ResponseCode,
    is_system_topic,
)

QUIET_TOPICS_MAX = 200  # so many topics that nobody consumes are read in every round, of more only a part
QUIET_PARTS = 6  # ... each in every sixth
LOOKUPS_MAX = 16  # messages looked up for their age in one round: all other ages come from history
GROUP_READS_MAX = 64  # groups whose pulled offsets (208) are read in one round

# A broker that was silent in the round before is given this long, except in every sixth round: seven healthy
# brokers' figures are not to come late by the whole deadline in every round because the eighth hangs.
SILENT_PATIENCE_S = 1.0

READ_ERRORS = (MQClientError, MQBrokerError, OSError, ValueError)


class BrokerAddress(NamedTuple):
    """A broker to ask: the master, or where there is none the slave with the smallest id."""

    broker_name: str
    broker_id: int
    addr: str
    cluster_name: str = ""  # RocketMQ's name of the cluster, not ours


class QueueOffsets(NamedTuple):
    """A queue's min and max offset, and the store time of its newest message by the broker's clock, 0 when
    none.
    """

    queue_id: int
    min_offset: int
    max_offset: int
    last_write_ms: int


class TopicFacts(NamedTuple):
    """A topic's configuration on one broker."""

    read_queues: int
    write_queues: int
    perm: int


class Lookup(NamedTuple):
    """A message whose store time is wanted."""

    broker_name: str
    topic: str
    queue_id: int
    offset: int


@dataclass(slots=True)
class BrokerAnswers:
    """What one broker said in one round. `answered`: its committed offsets and at least one topic were read.

    `offsets` maps (topic, group) to {queue id: committed offset}; `unread` a topic to why its offsets are
    missing; `topics` and `groups` are null when their tables were not asked for or not answered.
    """

    address: BrokerAddress
    answered: bool = False
    error: str = ""
    read_committed_ms: int = 0
    read_max_ms: int = 0
    rpc_ms: int = 0
    rpcs: int = 0
    offsets: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    stats: dict[str, list[QueueOffsets]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    runtime: Mapping[str, str] | None = None
    topics: Mapping[str, TopicFacts] | None = None
    groups: frozenset[str] | None = None
    pulled: dict[tuple[str, str, int], int] = field(default_factory=dict)  # (group, topic, queue id)
    stored_ms: dict[Lookup, int] = field(default_factory=dict)  # by the broker's clock
    capabilities: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask besides the offsets. `known_topics` is the broker's topic table of an earlier round."""

    number: int
    tables: bool
    known_topics: Mapping[str, Collection[str]]
    pulled_groups: Sequence[str] = ()
    lookups: Sequence[Lookup] = ()
    silent: Mapping[str, str] = field(
        default_factory=dict
    )  # broker that gets little patience → why it is silent


def find_brokers(admin: BlockingMQAdmin) -> tuple[list[BrokerAddress], int]:
    """Return the brokers that the name servers list, and how many calls it took.

    Raises MQClientError or MQBrokerError when no name server answers.
    """
    found = []
    for name, data in admin.cluster_info().broker_addr_table.items():
        if data.broker_addrs:
            broker_id = min(data.broker_addrs)
            found.append(BrokerAddress(name, broker_id, data.broker_addrs[broker_id], data.cluster))
    return sorted(found), 1


def read_brokers(
    admin: BlockingMQAdmin, brokers: Sequence[BrokerAddress], question: Question, *, deadline_ms: int
) -> list[BrokerAnswers]:
    """Ask every broker at once; return within `deadline_ms` with what came, in the order of `brokers`."""
    answers = [BrokerAnswers(broker) for broker in brokers]
    calls: dict[int, Callable[[MQAdmin], Awaitable[None]]] = {
        place: _reader(answer, question) for place, answer in enumerate(answers)
    }
    outcomes = admin.gather(calls, deadline_ms=deadline_ms)
    for place, answer in enumerate(answers):
        outcome = outcomes[place]
        if isinstance(outcome, Exception) and not answer.error:
            answer.error = describe(outcome)
    return answers


def _reader(answer: BrokerAnswers, question: Question) -> Callable[[MQAdmin], Awaitable[None]]:
    async def read(admin: MQAdmin) -> None:
        known_reason = question.silent.get(answer.address.broker_name)
        try:
            async with asyncio.timeout(None if known_reason is None else SILENT_PATIENCE_S) as patience:
                await _read_broker(admin, answer, question, patience)
        except TimeoutError:
            if not patience.expired():
                raise
            answer.error = known_reason or "no answer in time"

    return read


async def _read_broker(
    admin: MQAdmin, answer: BrokerAnswers, question: Question, patience: asyncio.Timeout
) -> None:
    """Fill in `answer`, most important first: a deadline cuts the end off. A broker that says anything has all
    the time of the round (`patience` ends).
    """
    addr = answer.address.addr
    started = time.monotonic()
    answer.read_committed_ms = _now_ms()
    answer.rpcs += 1
    answer.offsets = (await admin.all_consumer_offsets(addr)).offset_table
    answer.rpc_ms = round((time.monotonic() - started) * 1000)
    patience.reschedule(None)
    consumed = {topic for topic, _ in answer.offsets}
    known = question.known_topics.get(answer.address.broker_name)
    answer.read_max_ms = _now_ms()
    await _read_stats(admin, answer, topics_to_read(consumed, known or (), question.number))
    if answer.unread and not answer.stats:
        answer.error = next(iter(answer.unread.values()))
        return
    answer.answered = known is not None or bool(answer.stats)
    if question.tables or known is None:
        await _read_tables(admin, answer)
        # What the table names for the first time; of a broker that nobody consumes from, everything.
        new = set(topics_to_read(consumed, answer.topics or (), question.number)) - answer.stats.keys()
        await _read_stats(admin, answer, sorted(new - set(known or ())))
    answer.answered = True
    await _read_extras(admin, answer, question)


async def _read_stats(admin: MQAdmin, answer: BrokerAnswers, wanted: Sequence[str]) -> None:
    addr = answer.address.addr
    answer.rpcs += len(wanted)
    for topic, stats in (await admin.topic_stats_many(addr, wanted)).items():
        if isinstance(stats, MQBrokerError) and stats.code == ResponseCode.TOPIC_NOT_EXIST:
            continue  # deleted; its committed offsets outlive it on some versions
        if isinstance(stats, Exception):
            answer.unread[topic] = describe(stats)
        else:
            answer.stats[topic] = sorted(
                QueueOffsets(queue.queue_id, one.min_offset, one.max_offset, one.last_update_timestamp)
                for queue, one in stats.offset_table.items()
            )


async def _read_tables(admin: MQAdmin, answer: BrokerAnswers) -> None:
    """Topics and groups of the broker (21, 201), and which extensions of ours it has."""
    addr = answer.address.addr
    answer.rpcs += 3
    configs = (await admin.all_topic_config(addr)).topic_config_table
    answer.topics = {
        name: TopicFacts(config.read_queue_nums, config.write_queue_nums, int(config.perm))
        for name, config in configs.items()
    }
    answer.groups = frozenset((await admin.all_subscription_groups(addr)).subscription_group_table)
    answer.capabilities = await admin.capabilities(addr)


async def _read_extras(admin: MQAdmin, answer: BrokerAnswers, question: Question) -> None:
    """Figures nobody's lag depends on: a failure here leaves them unknown and the round whole."""
    addr = answer.address.addr
    answer.rpcs += 1
    try:
        answer.runtime = await admin.runtime_info(addr)
        for group in question.pulled_groups[:GROUP_READS_MAX]:
            if not any(owner == group for _, owner in answer.offsets):
                continue
            answer.rpcs += 1
            table = (await admin.consume_stats(addr, group)).offset_table
            for queue, one in table.items():
                if one.pull_offset is not None:  # 4.x does not tell
                    answer.pulled[group, queue.topic, queue.queue_id] = one.pull_offset
        for lookup in question.lookups[:LOOKUPS_MAX]:
            if lookup.broker_name == answer.address.broker_name:
                answer.rpcs += 1
                found = await admin.pull(addr, lookup.topic, lookup.queue_id, lookup.offset, max_num=1)
                if found.messages:
                    answer.stored_ms[lookup] = found.messages[0].store_timestamp_ms
    except READ_ERRORS as error:
        answer.error = describe(error)


def topics_to_read(consumed: Collection[str], existing: Collection[str], number: int) -> list[str]:
    """Return the topics whose offsets this round reads.

    Every consumed topic; of the others all while they are few, else a sixth each round; RocketMQ's own topics
    that nobody consumes a sixth always.
    """
    quiet = sorted(set(existing) - set(consumed))
    own = [topic for topic in quiet if is_system_topic(topic)]
    others = [topic for topic in quiet if not is_system_topic(topic)]
    turns = [topic for topic in own if _is_its_turn(topic, number)]
    if len(others) > QUIET_TOPICS_MAX:
        others = [topic for topic in others if _is_its_turn(topic, number)]
    return [*sorted(consumed), *others, *turns]


def _is_its_turn(topic: str, number: int) -> bool:
    return zlib.crc32(topic.encode()) % QUIET_PARTS == number % QUIET_PARTS


def describe(error: Exception) -> str:
    """Return an error in one line for a person: what the broker or the network said."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
