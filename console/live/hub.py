"""Live updates: publish rows of a subject and deliver them to browsers.

A subject is a small table ("c/local/groups": a row per group). `publish` changes rows of it, in one step at
Redis: the next sequence number, the last value of each row (hash ``tidemark:live:last:<subject>``), the message
on the channel ``tidemark:live:rows``. Each web process holds one subscription (`Hub`) and for each browser one
`Mailbox` with one slot per subject: updates that a slow browser has not fetched yet are merged row by row, so
they take memory once and block no other browser.

A text in a row (`console.text.Text`) travels as id and values; each socket sends it in its reader's language.

The socket speaks JSON. A browser requests

    {"subscribe": [{"subject": "c/local/groups", "keys": ["billing"]}], "unsubscribe": ["c/local/topics"]}

(without keys: every row). It receives all rows first and after every gap, then changes, where null removes a
row:

    {"subject": "c/local/groups", "seq": 17, "at_ms": 1790000000000, "full": true, "rows": {"billing": {…}}}
    {"subject": "c/local/groups", "seq": 19, "at_ms": 1790000005000, "full": false, "rows": {"billing": null}}
    {"subject": "c/other/groups", "error": "forbidden"}          {"ping": 1790000020000} every 20 s
    {"redis": "away"}, {"redis": "back"}: no updates for now; everything was sent anew

Sequence numbers of a subject only grow, but not by one: conflation skips some.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import orjson
import redis
import redis.asyncio
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from redis.commands.core import Script
from redis.exceptions import RedisError

from console.live.request import Request
from console.live.update import REMOVED, Row, Update, View, merged
from console.text.encoding import encoded
from console.text.language import of_headers

logger = logging.getLogger(__name__)

CHANNEL = "tidemark:live:rows"
LAST_PREFIX = "tidemark:live:last:"
META_PREFIX = "tidemark:live:meta:"
# A subject without a change for a day is removed: finished jobs, removed groups.
LAST_VALUE_LIFE_S = 24 * 3600
# Five times the topics of a large cluster; a subject that grows beyond this starts anew.
SUBJECT_ROWS_MAX = 50_000
PUBLISH_TIMEOUT_S = 5.0

# Of one browser; a page subscribes to two or three.
SUBJECTS_MAX = 50
# Proxies close connections that are silent for 60 s.
PING_EVERY_S = 20.0
# A person who signed out or lost a grant receives nothing new after this.
RECHECK_EVERY_S = 60.0
# Without progress in sending one message for this long, the browser is gone or does not read.
STALL_LIMIT_S = 20.0
LISTEN_TIMEOUT_S = 10.0
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.1, 3.0


class Notice(StrEnum):
    """Whether updates are interrupted, because Redis is away."""

    AWAY = "away"
    BACK = "back"


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
    """Updates that one browser has not been sent yet: one slot per subject.

    Caller: Hub, LiveSocket, in one event loop. ``keys``: the rows of a subject that the browser wants; without
    an entry, all of them.
    """

    def __init__(self) -> None:
        self.keys: dict[str, frozenset[str]] = {}
        self._slots: dict[str, Update] = {}
        # Highest sequence taken per subject.
        self._sent: dict[str, int] = {}
        self._notice: Notice | None = None
        self._filled = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Mailbox {len(self._slots)} waiting>"

    def put(self, update: Update) -> None:
        """Add an update, or merge it with the waiting one.

        The same number is the same state; a lower one is outdated, unless it is a base (Redis lost its
        numbers).
        """
        sent = self._sent.get(update.subject, -1)
        if update.sequence == sent or (update.sequence < sent and not update.full):
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

    def drop(self, subject: str) -> None:
        """Drop a subject that the browser left."""
        self._slots.pop(subject, None)
        self._sent.pop(subject, None)
        self.keys.pop(subject, None)

    def tell(self, notice: Notice) -> None:
        """Queue a notice; it is sent before rows, and only the newest is kept."""
        self._notice = notice
        self._filled.set()

    async def take(self) -> Update | Notice:
        """Return the next notice, or the update of the subject that waits longest.

        Changes are held back until their base has come.
        """
        while True:
            self._filled.clear()
            if self._notice is not None:
                notice, self._notice = self._notice, None
                return notice
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

    async def join(self, subject: str, mailbox: Mailbox) -> None:
        """Deliver ``subject`` to the mailbox, beginning with its last value; while Redis is away, later."""
        self._mailboxes.setdefault(subject, set()).add(mailbox)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="live hub")
        if self._is_interrupted:
            mailbox.tell(Notice.AWAY)
        if self._listening.is_set():
            try:
                mailbox.put(await self._last_value(subject, mailbox.keys.get(subject)))
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
                    self._tell_all(Notice.BACK)
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
                self._tell_all(Notice.AWAY)
                logger.warning("live updates interrupted, next attempt in %.1f s: %s", delay_s, error)
            await asyncio.sleep(delay_s * random.uniform(0.5, 1))
            delay_s = min(delay_s * 2, RECONNECT_S_MAX)

    def _tell_all(self, notice: Notice) -> None:
        """Notify browsers when updates are interrupted and when they resume."""
        was, self._is_interrupted = self._is_interrupted, notice is Notice.AWAY
        if was != self._is_interrupted:
            for mailbox in set().union(*self._mailboxes.values()):
                mailbox.tell(notice)

    def _deliver(self, update: Update) -> None:
        for mailbox in self._mailboxes.get(update.subject, ()):
            mailbox.put(update)

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
    """Return how many browsers have live subscriptions in this process."""
    return sum(one.client_count for one in list(_hubs.values()))


# --- One browser --------------------------------------------------------------------------------------------


# The scope of a socket, as Channels gives it.
SocketScope: TypeAlias = Mapping[str, Any]


class Permits(Protocol):
    """What the socket checks about its person; `console.routing` answers from sessions and grants."""

    async def signed_in(self, scope: SocketScope) -> bool:
        """Whether the session still belongs to an active person."""

    async def view(self, scope: SocketScope, subject: str) -> View | None:
        """Return what the person may see of the subject; None for nothing."""


class LiveSocket(AsyncWebsocketConsumer):
    """One browser's socket: `LiveSocket.as_asgi(permits=…)`."""

    # No channel layer: the hub distributes the updates.
    channel_layer_alias = ""

    def __init__(self, permits: Permits) -> None:
        super().__init__()
        self.permits = permits
        self.mailbox = Mailbox()
        self.subscriptions: dict[str, View] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> None:
        if not await self.permits.signed_in(self.scope):
            await self.close()  # before accepting: the browser sees HTTP 403
            return
        self.language = of_headers(self.scope["headers"])
        await self.accept()
        self.tasks = [
            asyncio.create_task(self._or_end(work))
            for work in (self._send_updates(), self._ping(), self._recheck())
        ]

    async def _or_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the socket; if it fails, close the socket, and the browser connects again.

        A socket without its recheck would show what its person may no longer see; one without its sender would
        look as if nothing happened.
        """
        try:
            await work
        except Exception:
            logger.exception("live socket ended user=%s", self.scope.get("user"))
            # The browser may have left, which is what failed.
            with contextlib.suppress(RuntimeError, OSError):
                await self.close(code=1011)

    async def disconnect(self, code: int) -> None:
        for subject in list(self.subscriptions):
            self._leave(subject)
        for task in self.tasks:
            task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            request = Request.from_text(text_data)
        except ValueError as error:
            await self._send({"error": f"not understood: {error}"})
            return
        for subject in request.leave:
            self._leave(subject)
        for subject, keys in request.join.items():
            await self._join(subject, keys)

    async def _join(self, subject: str, keys: frozenset[str] | None) -> None:
        if subject not in self.subscriptions and len(self.subscriptions) >= SUBJECTS_MAX:
            await self._send({"subject": subject, "error": "too many subjects"})
            return
        view = await self.permits.view(self.scope, subject)
        if view is None:
            await self._send({"subject": subject, "error": "forbidden"})
            return
        self.mailbox.drop(subject)
        if keys is not None:
            self.mailbox.keys[subject] = keys
        self.subscriptions[subject] = view
        await hub().join(subject, self.mailbox)

    def _leave(self, subject: str) -> None:
        if self.subscriptions.pop(subject, None) is not None:
            hub().leave(subject, self.mailbox)
            self.mailbox.drop(subject)

    def _visible(self, update: Update) -> Update | None:
        """Return the update as this person may see it; None when nothing of it is left to send."""
        view = self.subscriptions.get(update.subject)
        if view is None or (view.sees is None and view.redacted is None):
            return update if view else None
        update = update.only(view)
        return update if update.pieces or update.full else None

    async def _send_updates(self) -> None:
        while True:
            taken = await self.mailbox.take()
            if not isinstance(taken, Update):
                await self._send({"redis": taken})
                continue
            update = self._visible(taken)
            if update is not None:
                await self._send_text(update.frame(self.language))

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            await self._send({"ping": time.time_ns() // 1_000_000})

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_EVERY_S)
            if not await self.permits.signed_in(self.scope):
                await self.close(code=4401)
                return
            for subject in list(self.subscriptions):
                view = await self.permits.view(self.scope, subject)
                if view is None:
                    self._leave(subject)
                    await self._send({"subject": subject, "error": "forbidden"})
                else:
                    self.subscriptions[subject] = view

    async def _send(self, message: Mapping[str, str | int]) -> None:
        await self._send_text(orjson.dumps(message).decode())

    async def _send_text(self, text: str) -> None:
        """Send one frame; disconnect a browser that accepts none for STALL_LIMIT_S."""
        try:
            async with asyncio.timeout(STALL_LIMIT_S):
                await self.send(text_data=text)
        except TimeoutError:
            logger.warning("browser does not read, closing user=%s", self.scope.get("user"))
            await self._cut_off()

    async def _cut_off(self) -> None:
        """Stop the work for a browser that does not read: a close frame could not reach it either.

        The connection itself ends when the ping of the ASGI server goes unanswered.
        """
        await self.disconnect(1008)
