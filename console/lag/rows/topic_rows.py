"""Make the rows of topics, their queues, and brokers. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from console.brokers.mqadmin import DLQ_TOPIC_PREFIX, is_retry_topic, is_system_topic
from console.lag.round.broker_reads import BrokerAnswers, TopicFacts
from console.lag.round.columns import NULL, rounded, runs_by, values_of
from console.lag.round.figures import BrokerFigures, Consumed, Stored, TopicFigures, Trend
from console.lag.round.keyed_columns import Column, KeyedColumns
from console.lag.round.series import TopicQueueKey
from console.lag.round.view import RoundView
from console.lag.rows.queue_rows import QueueTable
from console.lag.rows.reasons import NOT_A_COUNT
from console.text import Text
from spark.lag.snapshot import Int64Array

# In place of a topic that the round before did not have.
NEW = TopicFigures(topic="", kind="")
UNLISTED = Text("no name server lists it.")


class Configured(NamedTuple):
    """Hold what the brokers of a topic have it configured to, together."""

    read_queues: int
    write_queues: int
    perm: int
    message_type: str


def topic_kind(topic: str, own_names: Collection[str] = ()) -> str:
    """Return NORMAL, RETRY, DLQ or SYSTEM. `own_names` are those topics that brokers name after themselves."""
    if is_retry_topic(topic):
        return "RETRY"
    if topic.startswith(DLQ_TOPIC_PREFIX):
        return "DLQ"
    return "SYSTEM" if is_system_topic(topic) or topic in own_names else "NORMAL"


@dataclass(eq=False)
class TopicQueueTable(KeyedColumns[TopicQueueKey]):
    """Hold every queue that exists as far as known, a column for each figure of `TopicQueueRow`.

    `place` is its index among the queues of the round, -1 for one that was not read: its numbers and their age are
    those of the round before.
    """

    place: Int64Array


def topic_queue_table(view: RoundView) -> TopicQueueTable:
    """Return the queues of all topics."""
    topics, heads, previous = view.series.topics, view.columns.heads, view.previous_topic_queues
    rates = np.full(len(heads), np.nan)
    rates[heads >= 0] = view.window.produce_rates()[heads[heads >= 0]]
    read: dict[str, Column] = {
        "min_offset": topics.min_offset,
        "max_offset": topics.max_offset,
        "last_write_ms": np.where(topics.last_write_ms == 0, NULL, topics.last_write_ms),
        "in_rate": rounded(rates),
        "read_at_ms": topics.read_ms,
    }
    place = np.arange(len(heads), dtype=np.int64)
    kept = _unread(view)
    if not kept:
        keys = previous.keys if topics.keys == previous.keys else topics.keys
        return TopicQueueTable(keys, read, place)  # the next round compares the keys at no cost
    at = previous.places_of(kept)
    return TopicQueueTable(
        [*topics.keys, *kept],
        {name: np.concatenate([read[name], previous.columns[name][at]]) for name in read},
        np.append(place, np.full(len(kept), -1, dtype=np.int64)),
    )


def _unread(view: RoundView) -> list[TopicQueueKey]:
    """Return the queues not read in this round that no newer table and no forgotten broker rules out."""
    kept = []
    previous = view.previous_topic_queues
    unread = previous.keys_without(view.series.topics.keys)
    read_at_ms = previous.taken("read_at_ms", previous.places_of(unread), NULL).tolist()
    for key, last_ms in zip(unread, read_at_ms, strict=True):
        table = view.topics.get(key.broker_name)
        gone = table is not None and (key.topic not in table or key.queue_id >= _queues(table[key.topic]))
        if not gone and not view.is_dropped(key.broker_name, last_ms):
            kept.append(key)
    return kept


def _queues(facts: TopicFacts) -> int:
    return max(facts.read_queues, facts.write_queues)


def topic_rows(view: RoundView, topic_queues: TopicQueueTable, queues: QueueTable) -> dict[str, TopicFigures]:
    """Return the row of every topic that some broker has, or had when it last reported."""
    facts: dict[str, dict[str, TopicFacts]] = defaultdict(dict)
    for broker, table in sorted(view.topics.items()):
        for topic, one in table.items():
            facts[topic][broker] = one
    brokers: dict[str, set[str]] = {topic: set(own) for topic, own in facts.items()}
    for key in topic_queues.keys:
        brokers.setdefault(key.topic, set()).add(key.broker_name)
    stored = _stored(view, topic_queues)
    consumed = _consumed(queues)
    return {
        topic: _row(view, topic, facts.get(topic, {}), own, stored.get(topic), consumed.get(topic))
        for topic, own in sorted(brokers.items())
    }


def _stored(view: RoundView, table: TopicQueueTable) -> dict[str, Stored]:
    """Return the figures of the messages stored in each topic, over all of its queues."""
    topics, order, runs = runs_by([key.topic for key in table.keys])
    columns = {name: column[order] for name, column in table.columns.items()}
    place = table.place[order]
    is_silent = np.array([key.broker_name in view.silences for key in table.keys], dtype=np.bool_)[order]
    aged = (columns["max_offset"] != columns["min_offset"]) & (place >= 0)
    aged[aged] = view.columns.heads[place[aged]] >= 0
    oldest = view.columns.oldest
    age_ms, is_bound = np.full(len(place), NULL), np.zeros(len(place), dtype=np.bool_)
    age_ms[aged], is_bound[aged] = oldest.ms[place[aged]], oldest.lower_bound[place[aged]]
    sums = {
        "in_rate": runs.total(np.where(is_silent, np.nan, columns["in_rate"])),
        "messages": runs.sum(columns["max_offset"] - columns["min_offset"]),
        "retained_ms": np.where(runs.any(is_bound), NULL, runs.largest(age_ms)),
        "last_write_ms": runs.largest(columns["last_write_ms"]),
        # In this round (as old as its beginning), or longer ago.
        "read_at_ms": np.where(runs.any(place >= 0), view.now_ms, runs.largest(columns["read_at_ms"])),
    }
    lists = zip(*(values_of(column) for column in sums.values()), strict=True)
    return {
        topic: Stored(**dict(zip(sums, values, strict=True)))
        for topic, values in zip(topics, lists, strict=True)
    }


def _consumed(table: QueueTable) -> dict[str, Consumed]:
    """Return the combined figures of the groups that consume each topic."""
    topics, order, runs = runs_by([key.topic for key in table.keys])  # the groups of a topic stay sorted
    places = order.tolist()
    time_lag, loss = (table.columns[name][order] for name in ("time_lag_ms", "time_to_loss_ms"))
    worst = runs.last_largest(time_lag).tolist()
    losing = runs.first_smallest(loss).tolist()
    out_rates = values_of(runs.total(table.columns["out_rate"][order]))
    readers = Counter(topic for _, topic in {key[:2] for key in table.keys})
    found = {}
    for run, topic in enumerate(topics):
        worst_at, losing_at = worst[run], losing[run]
        found[topic] = Consumed(
            out_rate=out_rates[run],
            readers=readers[topic],
            worst_group="" if worst_at < 0 else table.keys[places[worst_at]].group,
            worst_status="" if worst_at < 0 else table.columns["status"][places[worst_at]],
            worst_time_lag_ms=None if worst_at < 0 else int(time_lag[worst_at]),
            time_to_loss_ms=None if losing_at < 0 else int(loss[losing_at]),
            time_to_loss_group="" if losing_at < 0 else table.keys[places[losing_at]].group,
        )
    return found


def _row(
    view: RoundView,
    topic: str,
    facts: Mapping[str, TopicFacts],
    brokers: Collection[str],
    stored: Stored | None,
    consumed: Consumed | None,
) -> TopicFigures:
    stored = stored or Stored(read_at_ms=view.now_ms)
    before = view.previous_topics.get(topic, NEW)
    silent = sorted(view.silences.keys() & brokers) if view.silences else []
    partial = bool(silent) or bool(view.blind)
    kind = view.offset_kinds.get(topic, "")
    reasons = [view.silence_text(name) for name in silent or sorted(view.blind)] if partial else []
    # A minute without a broker's share is a gap, not a fall of the traffic.
    trend = Trend(before.trend, before.trend_minute).after(None if partial else stored.in_rate, view.now_ms)
    return TopicFigures(
        topic=topic,
        kind=topic_kind(topic, view.own_topics),
        offset_kind=kind,
        offset_is_not_count=bool(kind),
        **_configured(facts, before)._asdict(),
        brokers=tuple(sorted(brokers)),
        **stored._asdict(),
        **(consumed or Consumed())._asdict(),
        messages_lower_bound=partial,
        **trend._asdict(),
        partial=partial,
        reason=Text.of_parts([*reasons, *([NOT_A_COUNT[kind]] if kind else [])]),
    )


def _configured(facts: Mapping[str, TopicFacts], before: TopicFigures) -> Configured:
    """Return a topic's configuration: of the row before while its brokers have reported no table."""
    if not facts:
        return Configured(before.read_queues, before.write_queues, before.perm, before.message_type)
    every = list(facts.values())
    return Configured(
        sum(one.read_queues for one in every),
        sum(one.write_queues for one in every),
        every[0].perm,
        every[0].message_type,
    )


def broker_row(
    answer: BrokerAnswers,
    previous: BrokerFigures | None,
    now_ms: int,
    *,
    clock_offset_ms: int | None = None,
    is_listed: bool = True,
) -> BrokerFigures:
    """Return a broker's row; what it did not report this time is unknown, not what it was.

    `clock_offset_ms` null: none could be computed since this process started; the row before is kept. `is_listed`: by a
    name server.
    """
    runtime = dict(answer.runtime or {})
    address = answer.address
    same = previous is not None and previous.answered == answer.answered
    before = previous or BrokerFigures(broker_name=address.broker_name, broker_id=address.broker_id, addr="")
    return BrokerFigures(
        broker_name=address.broker_name,
        broker_id=address.broker_id,
        addr=address.addr,
        version=runtime.get("brokerVersionDesc", before.version),
        in_rate=minute_rate(runtime.get("putTps")),
        out_rate=minute_rate(runtime.get("getTransferredTps") or runtime.get("getTransferedTps")),
        disk_ratio=_number(runtime.get("commitLogDiskRatio")),
        answered=answer.answered,
        since_ms=before.since_ms if same else now_ms,
        reason=answer.error if is_listed else _unlisted(answer.error),
        rpc_ms=answer.rpc_ms if answer.answered else None,
        clock_offset_ms=before.clock_offset_ms if clock_offset_ms is None else clock_offset_ms,
        capabilities=before.capabilities
        if answer.capabilities is None
        else tuple(sorted(answer.capabilities)),
        runtime=runtime,
        boot_ms=_boot_ms(runtime, before),
        read_at_ms=now_ms if answer.answered else before.read_at_ms,
    )


def _unlisted(reason: Text) -> Text:
    return Text.of_parts([UNLISTED, reason]) if reason else UNLISTED


def _boot_ms(runtime: Mapping[str, str], before: BrokerFigures) -> int | None:
    text = runtime.get("bootTimestamp", "")
    return int(text) if text.isdecimal() else before.boot_ms


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def minute_rate(text: str | None) -> float | None:
    """Return the middle of "12.0 11.5 11.0 " (10 s, 60 s, 600 s): one of 10 s jumps with every batch.

    Null for a broker younger than a minute, which has no middle: what waited while it was away comes in a burst.
    """
    try:
        return [float(word) for word in (text or "").split()][1]
    except (IndexError, ValueError):
        return None
