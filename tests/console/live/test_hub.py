"""The live hub: numbers and last values in Redis, merging mailboxes."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
import redis

from console.live import hub as live
from console.live.hub import Mailbox, publish
from console.live.request import Request
from console.live.update import Update

NOW_MS = 1_790_000_000_000


def update(sequence: int, rows: Mapping[str, Any], *, full: bool = False) -> Update:
    return Update.of("s", sequence, NOW_MS, full, rows)


# --- Mailboxes ---


async def test_it_holds_changes_back_until_their_base_has_come() -> None:
    mailbox = Mailbox()
    mailbox.put(update(5, {"a": {"n": 5}}))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mailbox.take(), 0.05)
    mailbox.put(update(4, {"a": {"n": 4}, "b": {"n": 4}}, full=True))
    taken = await mailbox.take()
    assert (taken.sequence, taken.full, taken.rows) == (5, True, {"a": {"n": 5}, "b": {"n": 4}})


async def test_it_gives_a_slow_reader_one_update_per_subject() -> None:
    mailbox = Mailbox()
    mailbox.put(update(1, {}, full=True))
    await mailbox.take()
    for sequence in range(2, 1000):
        mailbox.put(update(sequence, {"a": {"n": sequence}, f"r{sequence % 3}": {"n": 0}}))
    taken = await mailbox.take()
    assert taken.sequence == 999
    assert taken.rows == {"a": {"n": 999}, "r0": {"n": 0}, "r1": {"n": 0}, "r2": {"n": 0}}
    assert repr(mailbox) == "<Mailbox 0 waiting>"


async def test_it_drops_what_is_older_than_what_was_sent() -> None:
    mailbox = Mailbox()
    mailbox.put(update(10, {"a": {"n": 10}}, full=True))
    await mailbox.take()
    mailbox.put(update(9, {"a": {"n": 9}}))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mailbox.take(), 0.05)


async def test_it_does_not_replace_a_waiting_change_by_all_rows_as_of_it() -> None:
    mailbox = Mailbox()
    mailbox.put(update(1, {"a": {"n": 1}, "b": {"n": 1}}, full=True))
    await mailbox.take()
    mailbox.put(update(2, {"a": {"n": 2}}))
    mailbox.put(update(2, {"a": {"n": 2}, "b": {"n": 1}}, full=True))
    assert (await mailbox.take()).rows == {"a": {"n": 2}}


async def test_it_sends_the_same_base_once() -> None:
    mailbox = Mailbox()
    mailbox.put(update(0, {}, full=True))
    await mailbox.take()
    mailbox.put(update(0, {}, full=True))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mailbox.take(), 0.05)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        '{"subscribe": 1}',
        '{"subscribe": ["x"]}',
        '{"subscribe": [{"subject": 1}]}',
        '{"subscribe": [{"subject": "s", "keys": "k"}]}',
        '{"subscribe": [{"subject": "s", "seq": "1"}]}',
        '{"subscribe": [{"subject": "s\\n"}]}',
        '{"unsubscribe": [{"subject": "s"}]}',
        json.dumps({"subscribe": [{"subject": "x" * 601}]}),
        json.dumps({"subscribe": [{"subject": "s", "keys": ["k"] * 2001}]}),
        " " * 131_073,
    ],
)
def test_it_refuses_what_is_no_request(text: str | None) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Request.from_text(text)


# --- Redis ---


def test_it_numbers_and_keeps_the_last_value(redis_url: str) -> None:
    first = publish("c/t/groups", {"billing": {"lag": 1}, "gone": {"lag": 2}}, full=True, now_ms=NOW_MS)
    second = publish("c/t/groups", {"billing": {"lag": 3}, "gone": None}, now_ms=NOW_MS + 5)
    assert (first, second) == (NOW_MS + 1, NOW_MS + 2)
    with redis.Redis.from_url(redis_url) as client:
        assert client.hgetall("tidemark:live:last:c/t/groups") == {b"billing": b'{"lag":3}'}
        assert client.hget("tidemark:live:meta:c/t/groups", "at_ms") == b"1790000000005"
        assert 86_000 < client.ttl("tidemark:live:last:c/t/groups") <= 86_400


def test_it_replaces_all_rows_by_a_full_value(redis_url: str) -> None:
    publish("s", {"a": {"n": 1}, "b": {"n": 1}}, now_ms=NOW_MS)
    publish("s", {"b": {"n": 2}, "c": None}, full=True, now_ms=NOW_MS)
    with redis.Redis.from_url(redis_url) as client:
        assert client.hgetall("tidemark:live:last:s") == {b"b": b'{"n":2}'}


def test_it_publishes_nothing_when_nothing_changed(redis_url: str) -> None:
    assert publish("s", {}, now_ms=NOW_MS) == 0
    with redis.Redis.from_url(redis_url) as client:
        assert client.keys() == []


def test_it_says_so_when_redis_is_away(settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/r.sock"
    with pytest.raises(redis.exceptions.ConnectionError):
        publish("s", {"a": {}}, now_ms=NOW_MS)


def test_it_forgets_a_value_after_its_life(redis_url: str) -> None:
    publish("s", {"a": {"n": 1}}, now_ms=NOW_MS, life_s=7)
    with redis.Redis.from_url(redis_url) as client:
        assert 0 < client.ttl(live.LAST_PREFIX + "s") <= 7
