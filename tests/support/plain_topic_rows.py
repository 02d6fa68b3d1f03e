"""The plain twin of `console.lag.rows.topic_rows`."""

from collections import defaultdict
from collections.abc import Mapping

from msgspec import structs

from console.lag.round.broker_reads import TopicFacts
from console.lag.round.series import QueueKey, TopicQueueKey
from console.lag.round.view import RoundView
from console.lag.rows.queue_row import TopicQueueRow
from console.lag.rows.reasons import NOT_A_COUNT
from console.lag.rows.topic_rows import topic_kind
from tests.support import plain_window
from tests.support.plain_queue_rows import RowDict, commit_key, heads_of, plain, trend


def topic_queue_rows(view: RoundView) -> dict[TopicQueueKey, RowDict]:
    """Return every queue that exists as far as known; a queue not read in this round keeps its numbers and
    their age.
    """
    rows: dict[TopicQueueKey, RowDict] = {}
    heads = heads_of(view.series)
    for answer in view.answers:
        broker_name = answer.address.broker_name
        for topic, queues in answer.stats.items():
            for queue in queues:
                key = TopicQueueKey(topic, broker_name, queue.queue_id)
                head = heads.get(key)
                rate = None if head is None else plain_window.produce_rate(view.window, head)
                rows[key] = {
                    "min_offset": queue.min_offset,
                    "max_offset": queue.max_offset,
                    "last_write_ms": queue.last_write_ms or None,
                    "in_rate": None if rate is None else round(rate, 3),
                    "read_at_ms": answer.read_max_ms,
                }
    for key, previous in view.previous_topic_queues.rows(TopicQueueRow).items():
        table = view.topics.get(key.broker_name)
        gone = table is not None and (key.topic not in table or key.queue_id >= _queues(table[key.topic]))
        if key not in rows and not gone:
            rows[key] = plain(previous)
    return rows


def _queues(facts: TopicFacts) -> int:
    return max(facts.read_queues, facts.write_queues)


def topic_rows(
    view: RoundView, topic_queues: Mapping[TopicQueueKey, RowDict], queues: Mapping[QueueKey, RowDict]
) -> dict[str, RowDict]:
    """Return the row of every topic some broker has, or had when it was last heard of."""
    own: dict[str, list[TopicQueueKey]] = defaultdict(list)
    for key in topic_queues:
        own[key.topic].append(key)
    consumed: dict[str, list[QueueKey]] = defaultdict(list)
    for queue_key in queues:
        consumed[queue_key.topic].append(queue_key)
    names = {*own, *(name for table in view.topics.values() for name in table)}
    return {
        name: _row(view, name, own.get(name, []), topic_queues, consumed.get(name, []), queues)
        for name in sorted(names)
    }


def _row(
    view: RoundView,
    topic: str,
    keys: list[TopicQueueKey],
    topic_queues: Mapping[TopicQueueKey, RowDict],
    consumed: list[QueueKey],
    queues: Mapping[QueueKey, RowDict],
) -> RowDict:
    facts = {broker: table[topic] for broker, table in sorted(view.topics.items()) if topic in table}
    rows = [topic_queues[key] for key in keys]
    silent = sorted({*facts, *(key.broker_name for key in keys)} & set(view.silences))
    partial = bool(silent) or bool(view.blind)
    rates = [
        row["in_rate"] for key, row in zip(keys, rows, strict=True) if key.broker_name not in view.silences
    ]
    in_rate = (
        None
        if not rates or all(rate is None for rate in rates)
        else sum(rate for rate in rates if rate is not None)
    )
    worst_group, worst_status, worst_ms = _worst_group(consumed, queues)
    losing_group, loss_ms = _first_to_lose(consumed, queues)
    before = view.previous_topics.get(topic)
    previous = None if before is None else structs.asdict(before)
    return {
        "topic": topic,
        "kind": topic_kind(topic, view.own_topics),
        "read_queues": sum(one.read_queues for one in facts.values()),
        "write_queues": sum(one.write_queues for one in facts.values()),
        "perm": next((one.perm for one in facts.values()), 0),
        "message_type": next((one.message_type for one in facts.values()), ""),
        "brokers": sorted({*facts, *(key.broker_name for key in keys)}),
        "in_rate": None if in_rate is None else round(in_rate, 3),
        "out_rate": _out_rate(view, consumed),
        "readers": len({key.group for key in consumed}),
        "messages": sum(row["max_offset"] - row["min_offset"] for row in rows) if rows else None,
        "messages_lower_bound": partial,
        "offset_kind": view.offset_kinds.get(topic, ""),
        "offset_is_not_count": topic in view.offset_kinds,
        "worst_group": worst_group,
        "worst_status": worst_status,
        "worst_time_lag_ms": worst_ms,
        "time_to_loss_ms": loss_ms,
        "time_to_loss_group": losing_group,
        "retained_ms": _retained_ms(view, keys, topic_queues),
        "last_write_ms": max((row["last_write_ms"] for row in rows if row["last_write_ms"]), default=None),
        **trend(previous, None if partial else in_rate, view.now_ms),
        "partial": partial,
        "reason": "; ".join(
            [view.silence_text(name) for name in (silent or sorted(view.blind) if partial else ())]
            + [NOT_A_COUNT[view.offset_kinds[one]] for one in [topic] if one in view.offset_kinds]
        ),
        "read_at_ms": _read_at_ms(view, keys, rows),
    }


def _read_at_ms(view: RoundView, keys: list[TopicQueueKey], rows: list[RowDict]) -> int:
    if not rows or set(keys) & set(view.series.topics.keys):
        return view.now_ms
    return max(int(row["read_at_ms"]) for row in rows)


def _worst_group(consumed: list[QueueKey], queues: Mapping[QueueKey, RowDict]) -> tuple[str, str, int | None]:
    timed = [(queues[key]["time_lag_ms"], key) for key in consumed if queues[key]["time_lag_ms"] is not None]
    if not timed:
        return "", "", None
    age_ms, worst = max(timed, key=lambda one: (one[0], one[1].group, one[1].broker_name, one[1].queue_id))
    return worst.group, queues[worst]["status"], age_ms


def _first_to_lose(consumed: list[QueueKey], queues: Mapping[QueueKey, RowDict]) -> tuple[str, int | None]:
    """Return the group that retention reaches first, and when."""
    losing = [
        (queues[key]["time_to_loss_ms"], key.group)
        for key in consumed
        if queues[key]["time_to_loss_ms"] is not None
    ]
    if not losing:
        return "", None
    left_ms, group = min(losing)
    return group, left_ms


def _out_rate(view: RoundView, consumed: list[QueueKey]) -> float | None:
    """Return what all groups together confirm per second."""
    series = [commit_key(view, key) for key in consumed]
    rates = [
        plain_window.consume_rate(view.window, one)
        for one in series
        if one is not None and plain_window.state(view.window, one) is not None
    ]
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 3) if known else None


def _retained_ms(
    view: RoundView, keys: list[TopicQueueKey], topic_queues: Mapping[TopicQueueKey, RowDict]
) -> int | None:
    """Return the age of the oldest message, null while the history is too short to know it."""
    ages = []
    heads = heads_of(view.series)
    for key in keys:
        head = heads.get(key)
        row = topic_queues[key]
        if head is None or row["max_offset"] == row["min_offset"]:
            continue
        oldest = plain_window.age(view.window, head, row["min_offset"])
        age_ms, is_lower_bound = oldest.estimate_ms or oldest.ms, oldest.estimate_ms is None
        if is_lower_bound:
            return None
        ages.append(age_ms)
    return max(ages, default=None)
