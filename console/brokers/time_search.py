"""Find the first message stored at or after a time, whatever a broker's release answers to request 29.

From 5.1.1 on a broker returns the first one. Before, it returns the *nearest*: the last older message where
that is closer, any of several stored in the same millisecond, and the newest message for every later time. The
answer of an older broker is therefore checked against the store times of the messages there, step by step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.brokers.mqadmin import BlockingMQAdmin, BrokerUnavailable, MQAdmin
from console.brokers.queues import READ_DEADLINE_MS, BrokerQueue, ask_each
from console.text import Text

# BoundaryType came with it (RocketMQ 5.1.1).
FIRST_ANSWERED_BY = (5, 1, 1)
# Pulls of one queue; doubling steps reach 2**31 messages either way.
LOOKS_MAX = 64


def answers_first(version: str) -> bool:
    """Whether a release (``V5_3_3``) returns the first message; False for an unknown one."""
    found = re.match(r"V(\d+)_(\d+)_(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) >= FIRST_ANSWERED_BY


async def first_at_or_after(client: MQAdmin, place: BrokerQueue, time_ms: int, version: str) -> int:
    """Return the first offset stored at or after a time; the queue's end where there is none.

    Raises the broker's error, and BrokerUnavailable for a message that cannot be read: its time is not guessed.
    """
    nearest = await offset_by_broker(client, place, time_ms)
    if answers_first(version):
        return nearest
    # All offsets before low are older, none from high on is.
    low, high = place.min_offset, place.max_offset
    at, step, turned = min(nearest, high - 1), 1, False
    is_up: bool | None = None
    for _ in range(LOOKS_MAX):
        if low >= high:
            break
        stored_ms = await _stored_ms(client, place, at)
        if stored_ms is None:
            where = f"{place.queue.topic} · {place.queue.broker_name} · {place.queue.queue_id}"
            raise BrokerUnavailable(
                place.addr,
                Text(
                    "no message of %(queue)s can be read at %(offset)s, so its time is unknown",
                    queue=where,
                    offset=at,
                ),
            )
        is_older = stored_ms < time_ms
        turned = turned or (is_up is not None and is_up is not is_older)
        is_up = is_older
        if is_older:
            low = at + 1
        else:
            high = at
        if turned:
            at = (low + high) // 2
        else:
            at = min(low + step - 1, high - 1) if is_older else max(high - step, low)
            step *= 2
    return low


async def offset_by_broker(client: MQAdmin, place: BrokerQueue, time_ms: int) -> int:
    """Return the broker's own answer within the stored range: where it resets members for this time."""
    queue = place.queue
    nearest = await client.search_offset(place.addr, queue.topic, queue.queue_id, time_ms)
    return min(max(nearest, place.min_offset), place.max_offset)


async def _stored_ms(client: MQAdmin, place: BrokerQueue, offset: int) -> int | None:
    """Return the store time of the message at an offset, or of the next one; None where none can be read."""
    answer = await client.pull(place.addr, place.queue.topic, place.queue.queue_id, offset, 1)
    return answer.messages[0].store_timestamp_ms if answer.messages else None


def first_offsets(
    admin: BlockingMQAdmin,
    requests: Mapping[tuple[BrokerQueue, int], str],
    deadline_ms: int = READ_DEADLINE_MS,
) -> dict[tuple[BrokerQueue, int], int | Exception]:
    """Run `first_at_or_after` for each (queue, time) → broker's release, all at once. Raises nothing."""
    return ask_each(
        admin,
        {key: (*key, version) for key, version in requests.items()},
        lambda client, one: first_at_or_after(client, *one),
        deadline_ms,
    )
