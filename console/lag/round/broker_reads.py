"""Read from the brokers what one collection round needs, and return their answers as plain values.

Per broker, all under one deadline: the committed offsets of every group (43) first, then min and max offsets of the
topics (202, pipelined), so that a race never makes a lag negative; then figures of the broker itself (28) and, now and
then, its tables of topics (21) and groups (201). What arrives before the deadline counts, the rest is unread with its
reason.

The time between reading a broker's committed (c) and max offsets (m) makes its lags too large: the large answers are
kept as bytes and decoded when all brokers have answered, and brokers are read one after the other while they are quick.
"""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    ConsumerOffsetWrapper,
    GroupRefusals,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    RemotingError,
    ResponseCode,
    consumers_in,
    is_system_topic,
    queue_ranges,
)
from console.lag.round.offset_kind import offset_kind
from console.text import Text, text_of
from spark.lag.local_time import HOUR_MS

# Up to so many topics without consumers are read in every round, of more only a part ...
QUIET_TOPICS_MAX = 200
# ... each in every sixth.
QUIET_PARTS = 6
# Messages looked up for their age in one round: all other ages come from history.
LOOKUPS_MAX = 16
# Groups whose pulled offsets (208) are read in one round.
GROUP_READS_MAX = 64

# A broker that was silent in the round before is given this long, except in every sixth round: seven healthy
# brokers' figures are not to come late by the whole deadline in every round because the eighth hangs.
SILENT_PATIENCE_S = 1.0

# Offsets are read from one broker after the other; the next one waits no longer than this,
TURN_MAX_S = 0.05
# ... and the last one of many begins at most this long after the first.
TURNS_MAX_S = 0.4

NO_ANSWER = Text("no answer in time")
RESERVED_TIME = "fileReservedTime"  # MessageStoreConfig.java, hours
READ_ERRORS = (MQClientError, MQBrokerError, RemotingError, OSError, ValueError)


class BrokerAddress(NamedTuple):
    """Address a broker to read: the master, or without one the slave with the smallest id."""

    broker_name: str
    broker_id: int
    addr: str
    # RocketMQ's name of the cluster, not the console's.
    cluster_name: str = ""


class QueueOffsets(NamedTuple):
    """Hold a queue's min and max offset and its newest message's store time (broker's clock, 0: none)."""

    queue_id: int
    min_offset: int
    max_offset: int
    last_write_ms: int


class TopicFacts(NamedTuple):
    """Hold a topic's configuration on one broker.

    `offset_kind` is "" where an offset stands for a message, `message_type` where no type is set (4.x has none).
    """

    read_queues: int
    write_queues: int
    perm: int
    offset_kind: str = ""
    message_type: str = ""


class Lookup(NamedTuple):
    """Identify a message whose store time is needed."""

    broker_name: str
    topic: str
    queue_id: int
    offset: int


@dataclass(slots=True)
class BrokerAnswers:
    """Hold one broker's answers of a round. `answered`: its committed offsets and at least one topic were read.

    `offsets` maps (topic, group) to {queue id: committed offset}; `unread` a topic to why its offsets are
    missing; `topics` and `groups` are null when their tables were not asked for or not answered.
    """

    address: BrokerAddress
    answered: bool = False
    error: Text = Text()
    read_committed_ms: int = 0  # when the question went out
    read_max_ms: int = 0  # ... that for the first topic
    max_answered_ms: int = 0  # when the last topic had answered
    rpc_ms: int = 0
    rpcs: int = 0
    offsets: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    stats: dict[str, list[QueueOffsets]] = field(default_factory=dict)
    unread: dict[str, Text] = field(default_factory=dict)
    runtime: Mapping[str, str] | None = None
    topics: Mapping[str, TopicFacts] | None = None
    groups: frozenset[str] | None = None
    refusals: GroupRefusals | None = None  # of the table of groups
    pulled: dict[tuple[str, str, int], int] = field(default_factory=dict)  # (group, topic, queue id)
    stored_ms: dict[Lookup, int] = field(default_factory=dict)  # by the broker's clock
    capabilities: frozenset[str] | None = None
    kept_ms: int | None = None  # fileReservedTime; read with the tables


@dataclass(slots=True)
class _Bodies:
    """Hold a broker's undecoded answers."""

    offsets: bytes = b""
    topics: frozenset[str] = frozenset()  # that have committed offsets, and whose
    groups: frozenset[str] = frozenset()
    stats: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """Define what to read besides offsets. `known_topics` is the broker's topic table of an earlier round."""

    number: int
    tables: bool
    known_topics: Mapping[str, Collection[str]]
    pulled_groups: Sequence[str] = ()
    lookups: Sequence[Lookup] = ()
    # Broker that gets little patience → why it is silent.
    silent: Mapping[str, Text] = field(default_factory=dict)


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
    """Read every broker; return what arrives within `deadline_ms`, in the order of `brokers`."""
    answers = [BrokerAnswers(broker) for broker in brokers]
    bodies = [_Bodies() for _ in brokers]
    turns = _Turns(len(brokers))
    calls: dict[int, Callable[[MQAdmin], Awaitable[None]]] = {
        place: _reader(place, answer, bodies[place], question, turns) for place, answer in enumerate(answers)
    }
    outcomes = admin.gather(calls, deadline_ms=deadline_ms)
    for place, answer in enumerate(answers):
        outcome = outcomes[place]
        if isinstance(outcome, Exception) and not answer.error:
            answer.error = text_of(outcome)
        _decode(answer, bodies[place])
    return answers


class _Turns:
    """Let brokers be read one after the other.

    Each begins when the one before has returned its offsets, or when that takes longer than its part of `TURNS_MAX_S`,
    so that slow brokers answer side by side.
    """

    def __init__(self, count: int) -> None:
        self._over = [asyncio.Event() for _ in range(count)]
        self._step_s = min(TURN_MAX_S, TURNS_MAX_S / max(1, count))

    async def wait(self, place: int, started_s: float) -> None:
        """Return when it is this broker's turn; the round began at `started_s` of the loop's clock."""
        if place:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(started_s + place * self._step_s):
                    await self._over[place - 1].wait()

    def end(self, place: int) -> None:
        """End a broker's turn: it has returned its offsets, or will not."""
        self._over[place].set()


def _reader(
    place: int, answer: BrokerAnswers, bodies: _Bodies, question: Question, turns: _Turns
) -> Callable[[MQAdmin], Awaitable[None]]:
    async def read(admin: MQAdmin) -> None:
        known_reason = question.silent.get(answer.address.broker_name)
        try:
            await turns.wait(place, asyncio.get_running_loop().time())
            async with asyncio.timeout(None if known_reason is None else SILENT_PATIENCE_S) as patience:
                consumed = await _ask_offsets(admin, answer, bodies, question, patience)
                turns.end(place)
                await _ask_the_rest(admin, answer, bodies, question, consumed)
        except TimeoutError:
            if not patience.expired():
                raise
            answer.error = known_reason or NO_ANSWER
        finally:
            turns.end(place)

    return read


async def _ask_offsets(
    admin: MQAdmin, answer: BrokerAnswers, bodies: _Bodies, question: Question, patience: asyncio.Timeout
) -> frozenset[str]:
    """Read committed, then max offsets; return the topics with committed offsets.

    A broker that answers at all gets the whole time of the round (`patience` ends).
    """
    addr = answer.address.addr
    started = time.monotonic()
    answer.read_committed_ms = _now_ms()
    answer.rpcs += 1
    bodies.offsets = await admin.all_consumer_offsets_body(addr)
    answer.rpc_ms = round((time.monotonic() - started) * 1000)
    patience.reschedule(None)
    bodies.topics, bodies.groups = consumers_in(bodies.offsets)
    known = question.known_topics.get(answer.address.broker_name)
    answer.read_max_ms = _now_ms()
    await _ask_stats(admin, answer, bodies, topics_to_read(bodies.topics, known or (), question.number))
    answer.max_answered_ms = _now_ms()
    return bodies.topics


async def _ask_the_rest(
    admin: MQAdmin, answer: BrokerAnswers, bodies: _Bodies, question: Question, consumed: frozenset[str]
) -> None:
    """Read what no lag depends on, most important first: the deadline cuts off the rest."""
    if answer.unread and not bodies.stats:
        answer.error = next(iter(answer.unread.values()))
        return
    known = question.known_topics.get(answer.address.broker_name)
    answer.answered = known is not None or bool(bodies.stats)
    if question.tables or known is None:
        await _read_tables(admin, answer)
        # Topics the table names for the first time; for a broker without consumers, all of them.
        new = set(topics_to_read(consumed, answer.topics or (), question.number)) - bodies.stats.keys()
        await _ask_stats(admin, answer, bodies, sorted(new - set(known or ())))
    answer.answered = True
    await _read_extras(admin, answer, bodies, question)


async def _ask_stats(admin: MQAdmin, answer: BrokerAnswers, bodies: _Bodies, wanted: Sequence[str]) -> None:
    answer.rpcs += len(wanted)
    for topic, body in (await admin.topic_stats_bodies(answer.address.addr, wanted)).items():
        if isinstance(body, MQBrokerError) and body.code == ResponseCode.TOPIC_NOT_EXIST:
            # Deleted; its committed offsets outlive it on some versions.
            continue
        if isinstance(body, Exception):
            answer.unread[topic] = text_of(body)
        else:
            bodies.stats[topic] = body


def _decode(answer: BrokerAnswers, bodies: _Bodies) -> None:
    """Decode a broker's answers. Offsets that cannot be decoded count as no answer."""
    if not bodies.offsets:
        return
    try:
        answer.offsets = ConsumerOffsetWrapper.from_body(bodies.offsets).offset_table
    except READ_ERRORS as error:
        answer.answered, answer.error = False, text_of(error)
        return
    for topic, body in bodies.stats.items():
        try:
            answer.stats[topic] = list(map(QueueOffsets._make, queue_ranges(body)))
        except READ_ERRORS as error:
            answer.unread[topic] = text_of(error)
    if bodies.stats and not answer.stats:
        answer.answered, answer.error = False, next(iter(answer.unread.values()))


async def _read_tables(admin: MQAdmin, answer: BrokerAnswers) -> None:
    """Read the broker's topics and groups (21, 201), its extensions of brokerd, and how long it keeps files (26)."""
    addr = answer.address.addr
    answer.rpcs += 4
    table = await admin.all_topic_config(addr)
    mapped = table.topic_queue_mapping_detail_map or {}
    answer.topics = {
        name: TopicFacts(
            config.read_queue_nums,
            config.write_queue_nums,
            int(config.perm),
            offset_kind(name, config.attributes, is_static=name in mapped),
            config.attributes.get("message.type", ""),
        )
        for name, config in table.topic_config_table.items()
    }
    answer.refusals = await admin.group_refusals(addr)
    answer.groups = answer.refusals.names
    answer.capabilities = await admin.capabilities(addr)
    with suppress(*READ_ERRORS):  # it may be refused to us, and no lag depends on it
        hours = (await admin.broker_config(addr)).get(RESERVED_TIME, "")
        answer.kept_ms = int(hours) * HOUR_MS if hours.isdigit() else None


async def _read_extras(admin: MQAdmin, answer: BrokerAnswers, bodies: _Bodies, question: Question) -> None:
    """Read figures that no lag depends on: a failure here leaves them unknown and the round whole."""
    addr = answer.address.addr
    answer.rpcs += 1
    try:
        answer.runtime = await admin.runtime_info(addr)
        for group in question.pulled_groups[:GROUP_READS_MAX]:
            if group not in bodies.groups:
                continue
            answer.rpcs += 1
            table = (await admin.consume_stats(addr, group)).offset_table
            for queue, one in table.items():
                # 4.x does not report it.
                if one.pull_offset is not None:
                    answer.pulled[group, queue.topic, queue.queue_id] = one.pull_offset
        for lookup in question.lookups[:LOOKUPS_MAX]:
            if lookup.broker_name == answer.address.broker_name:
                answer.rpcs += 1
                found = await admin.pull(addr, lookup.topic, lookup.queue_id, lookup.offset, max_num=1)
                if found.messages:
                    answer.stored_ms[lookup] = found.messages[0].store_timestamp_ms
    except READ_ERRORS as error:
        answer.error = text_of(error)


def topics_to_read(consumed: Collection[str], existing: Collection[str], number: int) -> list[str]:
    """Return the topics whose offsets this round reads.

    Every consumed topic; of the others all while they are few, else a sixth each round; of RocketMQ's own topics
    without consumers always a sixth.
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
