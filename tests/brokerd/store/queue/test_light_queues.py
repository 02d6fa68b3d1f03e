from __future__ import annotations

import pytest

from brokerd.store.errors import MessageIllegal
from brokerd.store.queue.light_queues import (
    NAMES_MAX,
    checked_names,
    has_units,
    light_names,
    light_units,
    number_in,
    takes_light,
    with_offsets,
    without_offsets,
)

NAMED = b"KEYS\x01k\x02INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
STORED = NAMED + b"INNER_MULTI_QUEUE_OFFSET\x0117,4\x02"


def test_it_adds_the_numbers_behind_what_the_producer_sent() -> None:
    assert with_offsets(NAMED, [17, 4]) == STORED
    assert with_offsets(NAMED[:-1], [17, 4]) == STORED
    assert with_offsets(STORED, [18, 0]) == NAMED + b"INNER_MULTI_QUEUE_OFFSET\x0118,0\x02"
    assert (without_offsets(STORED), without_offsets(NAMED)) == (NAMED, NAMED)


def test_it_reads_what_a_record_says() -> None:
    assert light_units(STORED) == [("%LMQ%a", 17), ("%LMQ%b", 4)]
    assert (number_in("%LMQ%b", STORED), number_in("%LMQ%c", STORED)) == (4, None)


@pytest.mark.parametrize(
    ("names", "numbers", "units"),
    [
        ("%LMQ%a", "", []),
        ("", "3", []),
        ("%LMQ%a,%LMQ%b", "3", []),
        ("%LMQ%a,", "3,", [("%LMQ%a", 3)]),  # as Java splits texts
        ("%LMQ%a,T", "3,4", [("%LMQ%a", 3)]),
        ("%LMQ%a,%LMQ%../b", "3,4", [("%LMQ%a", 3)]),
        ("%LMQ%a,%LMQ%b", "3,null", [("%LMQ%a", 3)]),
        ("%LMQ%a", "-1", []),
        ("%LMQ%a", "1" * 19, []),
        ("%LMQ%a", "²", []),
    ],
)
def test_it_takes_nothing_from_a_record_that_makes_no_sense(
    names: str, numbers: str, units: list[tuple[str, int]]
) -> None:
    text = f"INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{numbers}\x02"
    assert light_units(text.encode()) == units


@pytest.mark.parametrize("names", ["", " ", ","])
def test_it_finds_no_light_queue_where_none_is_named(names: str) -> None:
    assert checked_names("T", names) == []
    assert light_names("T", f"INNER_MULTI_DISPATCH\x01{names}\x02".encode()) == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("%LMQ%a,T", "INNER_MULTI_DISPATCH names 'T'; light queues begin with %LMQ%"),
        ("%LMQ%a,,%LMQ%b", "names ''"),
        ("%LMQ%a/b", "'%LMQ%a/b' cannot be stored"),
        ("%LMQ%" + "a" * 251, "topic of 256 bytes, at most 255"),
        ("%LMQ%a,%LMQ%a", "names a queue twice"),
        ("%LMQ%a,%LMQ%own", "the message's own topic"),
        (
            ",".join(f"%LMQ%{number}" for number in range(NAMES_MAX + 1)),
            "names 513 light queues, at most 512",
        ),
    ],
)
def test_it_refuses_names_that_would_confuse_queues(names: str, reason: str) -> None:
    with pytest.raises(MessageIllegal) as refused:
        checked_names("%LMQ%own", names)
    assert reason in str(refused.value)
    assert light_names("%LMQ%own", f"INNER_MULTI_DISPATCH\x01{names}\x02".encode()) == []


def test_it_leaves_out_messages_that_wait_and_those_sent_back() -> None:
    """Apache leaves out less: half messages and dead letters are in its light queues."""
    half, dead = "RMQ_SYS_TRANS_HALF_TOPIC", "%DLQ%g"
    out = ["SCHEDULE_TOPIC_XXXX", "%RETRY%g", "rmq_sys_wheel_timer"]
    assert [takes_light(topic) for topic in (*out, half, dead, "T", "%LMQ%a")] == [*[False] * 5, True, True]
    assert [has_units(topic) for topic in (*out, half, dead, "T", "%LMQ%a")] == [*[False] * 3, *[True] * 4]
