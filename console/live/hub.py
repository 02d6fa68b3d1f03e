"""Live updates: publish rows of a subject and deliver them to readers: browsers and scripts.

A subject is a small table ("c/local/groups": a row per group). `publish` changes rows of it, in one step at
Redis: the next sequence number, the last value of each row (hash ``tidemark:live:last:<subject>``), the message
on the channel ``tidemark:live:rows``. Each web process holds one subscription (`Hub`) and for each reader
(`console.live.reader`) one `Mailbox` with one slot per subject: updates that a slow reader has not fetched yet
are merged row by row, so they take memory once and block no other reader.

A text in a row (`console.text.Text`) travels as id and values; each reader gets it in its locale.

Sequence numbers of a subject only grow, but not by one: conflation skips some.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import orjson
import redis
import redis.asyncio
from django.conf import settings
from redis.commands.core import Script
from redis.exceptions import RedisError

from console.live.update import REMOVED, Row, Update, merged
from console.text.encoding import encoded

logger = logging.getLogger(__name__)

CHANNEL = "tidemark:live:rows"
LAST_PREFIX = "tidemark:live:last:"
META_PREFIX = "tidemark:live:meta:"
# A subject without a change for a day is removed: finished jobs, removed groups.
LAST_VALUE_LIFE_S = 24 * 3600
# Five times the topics of a large cluster; a subject that grows beyond this starts anew.
SUBJECT_ROWS_MAX = 50_000
PUBLISH_TIMEOUT_S = 5.0

LISTEN_TIMEOUT_S = 10.0
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.1, 3.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about updates: ``about`` a subject, or all of them ("")."""

    about: str
    body: Mapping[str, str]


# No updates for now, because Redis is away; everything is sent anew.
AWAY, BACK = Notice("", {"redis": "away"}), Notice("", {"redis": "back"})


# KEYS: hash of rows, hash of meta, channel. ARGV: at_ms, "f" or "d", subject, life in s, most rows, keys and
# lengths of rows as JSON, then key and JSON of each row ("" removes it). One script: no reader sees a number
# without its rows, no message overtakes another. The rows are sent once; one command takes as many as Lua's
# stack holds.
PUBLISH_SCRIPT = """
local seq = tonumber(redis.call('HGET', KEYS[2], 'seq') or ARGV[1]) + 1
if ARGV[2] == 'f' or redis.call('HLEN', KEYS[1]) > tonumber(ARGV[5]) then redis.call('DEL', KEYS[1]) end
local rows, fields = {}, {}
for i = 7, #ARGV, 2 do
  local row = ARGV[i + 1]
  if row == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
    row = 'null'
  else
    fields[#fields + 1] = ARGV[i]
    fields[#fields + 1] = row
  end
  rows[#rows + 1] = row
  if #fields >= 2000 or (#fields > 0 and i + 2 > #ARGV) then
    redis.call('HSET', KEYS[1], unpack(fields))
    fields = {}
  end
end
seq = string.format('%.0f', seq)
redis.call('HSET', KEYS[2], 'seq', seq, 'at_ms', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
local head = seq .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. '\\n' .. ARGV[6] .. '\\n'
redis.call('PUBLISH', KEYS[3], head .. table.concat(rows))
return seq
"""

# --- Publishing ---------------------------------------------------------------------------------------------


def publish(
    subject: str,
    rows: Mapping[str, Row | None],
    *,
    full: bool = False,
    now_ms: int,
    life_s: int = LAST_VALUE_LIFE_S,
) -> int:
    """Change rows of a subject for all its subscribers; None removes a row, ``full`` replaces all rows.

    The rows are gone ``life_s`` after the last change. Returns the sequence number, which starts at the clock
    so that it grows over a restart of Redis too. Raises redis.exceptions.RedisError when Redis is away; pages
    then show what they have, with its age.
    """
    if not rows and not full:
        return 0
    assert "\n" not in subject, subject
    pieces = {
        key: b"" if row is None else encoded(row) for key, row in rows.items() if row is not None or not full
    }
    lengths = orjson.dumps({key: len(row or REMOVED) for key, row in pieces.items()})
    arguments: list[Any] = [now_ms, "f" if full else "d", subject, life_s, SUBJECT_ROWS_MAX, lengths]
    for key, row in pieces.items():
        arguments += [key, row]
    sequence = _publisher(settings.REDIS_URL)(
        keys=[LAST_PREFIX + subject, META_PREFIX + subject, CHANNEL], args=arguments
    )
    return int(sequence)


@cache
def _publisher(url: str) -> Script:
    client = redis.Redis.from_url(url, socket_timeout=PUBLISH_TIMEOUT_S)
    return client.register_script(PUBLISH_SCRIPT)


class Mailbox:
    """Updates that one reader has not been sent yet: one slot per subject.

    Caller: Hub, Reader, in one event loop. ``keys``: the rows of a subject that the reader shows; without an
    entry, all of them.
    """

    def __init__(self) -> None:
        self.keys: dict[str, frozenset[str]] = {}
        self._slots: dict[str, Update] = {}
        # Highest sequence taken per subject.
        self._sent: dict[str, int] = {}
        self._notices: dict[str, Notice] = {}
        self._filled = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Mailbox {len(self._slots)} waiting>"

    def put(self, update: Update) -> None:
        """Add an update, or merge it with the waiting one.

        The same number is the same state; a lower one is outdated, unless it is a base (Redis lost its
        numbers).
        """
        state = self._state(update.subject)
        if update.sequence == state or (update.sequence < state and not update.full):
            return
        keys = self.keys.get(update.subject)
        if keys is not None:
            update = update.keyed(keys)
            if not update.full and not update.pieces:
                return
        waiting = self._slots.get(update.subject)
        if waiting is not None:
            older, newer = (waiting, update) if waiting.sequence < update.sequence else (update, waiting)
            update = merged(older, newer) if older.sequence < newer.sequence or newer.full else update
        self._slots[update.subject] = update
        self._filled.set()

    def _state(self, subject: str) -> int:
        """Return the number as of which all rows are sent or wait; -1 without a base."""
        waiting = self._slots.get(subject)
        if waiting is not None and (waiting.full or subject in self._sent):
            return waiting.sequence
        return self._sent.get(subject, -1)

    def lacks_base(self, subject: str) -> bool:
        """Whether changes wait for their base."""
        return subject in self._slots and self._state(subject) < 0

    def drop(self, subject: str) -> None:
        """Drop a subject that the reader left."""
        self._slots.pop(subject, None)
        self._sent.pop(subject, None)
        self.keys.pop(subject, None)

    def notify(self, notice: Notice) -> None:
        """Queue a notice; it is sent before rows, and only the newest about a subject is kept."""
        self._notices[notice.about] = notice
        self._filled.set()

    async def take(self) -> Update | Notice:
        """Return the next notice, or the update of the subject that waits longest.

        Changes are held back until their base has come.
        """
        while True:
            self._filled.clear()
            if self._notices:
                return self._notices.pop(next(iter(self._notices)))
            for subject, update in self._slots.items():
                if update.full or subject in self._sent:
                    del self._slots[subject]
                    self._sent[subject] = update.sequence
                    return update
            await self._filled.wait()


# --- The process's one subscription -------------------------------------------------------------------------


class Hub:
    """Delivers the channel to the mailboxes of one process. Runs while any mailbox is subscribed."""

    def __init__(self, url: str) -> None:
        self._redis: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
            url, socket_timeout=None, socket_connect_timeout=PUBLISH_TIMEOUT_S, health_check_interval=10
        )
        self._mailboxes: dict[str, set[Mailbox]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._is_interrupted = False
        # Subjects whose last value some mailbox still lacks.
        self._without_base: set[str] = set()

    def __repr__(self) -> str:
        return f"<Hub {len(self._mailboxes)} subjects, {self.client_count} clients>"

    @property
    def client_count(self) -> int:
        return len(set().union(*self._mailboxes.values()))

    async def join(self, subject: str, mailbox: Mailbox, shown: int | None = None) -> None:
        """Deliver ``subject`` to the mailbox, beginning with its last value; while Redis is away, later.

        A reader that shows the rows as of the last number already gets them with the next change.
        """
        self._mailboxes.setdefault(subject, set()).add(mailbox)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="live hub")
        if self._is_interrupted:
            mailbox.notify(AWAY)
        if self._listening.is_set():
            try:
                base = await self._last_value(subject, mailbox.keys.get(subject))
                if base.sequence != shown:
                    mailbox.put(base)
            except (RedisError, OSError) as error:
                logger.warning("last value not read subject=%s reason=%s", subject, error)
                self._without_base.add(subject)

    def leave(self, subject: str, mailbox: Mailbox) -> None:
        """Stop delivering; the last mailbox to leave ends the subscription."""
        members = self._mailboxes.get(subject, set())
        members.discard(mailbox)
        if not members:
            self._mailboxes.pop(subject, None)
        if not self._mailboxes and self._listener is not None:
            self._listener.cancel()
            self._listener = None
            self._listening.clear()

    async def _listen(self) -> None:
        """Deliver the channel to mailboxes until cancelled.

        1. Subscribe. 2. Send every subject's last value, which includes what was published during an
        interruption. 3. Deliver until the connection breaks. 4. Begin again after a pause that grows to 3 s.
        """
        delay_s = RECONNECT_S_MIN
        while True:
            try:
                async with self._redis.pubsub() as pubsub:
                    await pubsub.subscribe(CHANNEL)
                    while await pubsub.get_message(timeout=LISTEN_TIMEOUT_S) is None:
                        pass  # wait for Redis to confirm: nothing published after the first read is missed
                    self._listening.set()
                    self._notify_all(BACK)
                    self._without_base = set(self._mailboxes)
                    while True:
                        while self._without_base:
                            await self._deliver_base(self._without_base.pop())
                        delay_s = RECONNECT_S_MIN
                        message = await pubsub.get_message(
                            ignore_subscribe_messages=True, timeout=LISTEN_TIMEOUT_S
                        )
                        if message is not None:
                            self._deliver(Update.from_channel(message["data"]))
            except (RedisError, OSError) as error:
                self._listening.clear()
                self._notify_all(AWAY)
                logger.warning("live updates interrupted, next attempt in %.1f s: %s", delay_s, error)
            await asyncio.sleep(delay_s * random.uniform(0.5, 1))
            delay_s = min(delay_s * 2, RECONNECT_S_MAX)

    def _notify_all(self, notice: Notice) -> None:
        """Notify readers when updates are interrupted and when they resume."""
        was, self._is_interrupted = self._is_interrupted, notice is AWAY
        if was != self._is_interrupted:
            for mailbox in set().union(*self._mailboxes.values()):
                mailbox.notify(notice)

    def _deliver(self, update: Update) -> None:
        for mailbox in self._mailboxes.get(update.subject, ()):
            mailbox.put(update)
            if mailbox.lacks_base(update.subject):
                self._without_base.add(update.subject)

    async def _deliver_base(self, subject: str) -> None:
        """Send the last value to the mailboxes that wait for it; one that joins meanwhile reads its own."""
        members = list(self._mailboxes.get(subject, ()))
        wanted = [mailbox.keys.get(subject) for mailbox in members]
        keys = [one for one in wanted if one is not None]
        base = await self._last_value(subject, frozenset().union(*keys) if len(keys) == len(wanted) else None)
        for mailbox in members:
            if mailbox in self._mailboxes.get(subject, ()):
                mailbox.put(base)

    async def _last_value(self, subject: str, keys: frozenset[str] | None = None) -> Update:
        """Read every row, or those of ``keys``: a browser with 50 rows must not cost a read of 10,000."""
        names = None if keys is None else sorted(keys)
        async with self._redis.pipeline(transaction=True) as pipeline:
            if names is None:
                pipeline.hgetall(LAST_PREFIX + subject)
            else:
                pipeline.hmget(LAST_PREFIX + subject, names or [""])
            pipeline.hmget(META_PREFIX + subject, ["seq", "at_ms"])
            found, (sequence, at_ms) = await pipeline.execute()
        rows = (
            {key.decode(): row for key, row in found.items()}
            if names is None
            else {key: row for key, row in zip(names, found, strict=False) if row is not None}
        )
        return Update(subject, int(sequence or 0), int(at_ms or 0), True, rows)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(settings.REDIS_URL)
    return _hubs[loop]


def client_count() -> int:
    """Return how many readers have live subscriptions in this process."""
    return sum(one.client_count for one in list(_hubs.values()))
