"""Stream searches, tails and exports as HTTP responses; threads do the work, a disconnect ends it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from console.brokers.body_format import ProtobufDecoder
from console.brokers.message_view import MessageView
from console.message.search.export import ExportEnd
from console.message.search.lanes import Hit
from console.message.search.message_search import Figures, Search
from console.message.search.quota import TOGETHER_MAX, quota
from console.message.search.tail import Tail
from console.message.services import views
from console.text import Text

STREAM_MS = 10 * 60 * 1000  # of one streamed search
STREAM_MESSAGES_MAX = 100_000
PROGRESS_EVERY_S = 1.0
TAIL_EVERY_S = 1.0
NAP_S = 0.2  # a waiting tail checks for a disconnect this often
BODY_STREAMED_BYTES = 64 * 1024  # of each message; exports carry whole bodies
NDJSON = "application/x-ndjson"

# Rounds of pulls block: in threads of their own, a silent broker holds up no page.
threads = ThreadPoolExecutor(TOGETHER_MAX, thread_name_prefix="message-search")


class Streamed:
    """Pieces of a generator for StreamingHttpResponse.

    A disconnect ends the generator and frees its place. ``person`` takes a place of the search quota at once: the
    constructor raises TooManySearches.
    """

    def __init__(self, person: str, make: Callable[[], Generator[bytes, None, None]]) -> None:
        self._held = ExitStack()
        self._held.enter_context(quota.place(person))
        try:
            self._pieces = make()
        except BaseException:
            self._held.close()
            raise
        self._running: asyncio.Future[bytes | None] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._running = loop.run_in_executor(threads, next, self._pieces, None)
                piece = await asyncio.shield(self._running)
                if piece is None:
                    return
                if piece:
                    yield piece
        finally:
            self.close()

    def close(self) -> None:
        """End the work: at once, or after the current round. Django calls this too."""
        running = self._running
        if running is not None and not running.done():
            running.get_loop().call_soon_threadsafe(running.add_done_callback, lambda _: self._end())
        else:
            self._end()

    def _end(self) -> None:
        self._pieces.close()
        self._held.close()


@dataclasses.dataclass(frozen=True, slots=True)
class TailProgress:
    """How far a tail is."""

    queues: int
    shown: int
    scanned: int
    skipped: int


@dataclasses.dataclass(frozen=True, slots=True)
class TailEnd:
    """What a tail showed; ``silent``: broker → why it could not be read."""

    messages: int
    skipped: int
    silent: Mapping[str, Text]


def line(name: str, value: MessageView | Figures | ExportEnd | TailProgress | TailEnd) -> bytes:
    """Return one line of NDJSON: ``{name: value}``."""
    return json.dumps({name: dataclasses.asdict(value)}, ensure_ascii=False).encode() + b"\n"


def _messages(hits: list[Hit], protobuf: ProtobufDecoder | None) -> Iterator[bytes]:
    for view in views(hits, limit_bytes=BODY_STREAMED_BYTES, protobuf=protobuf):
        yield line("message", view)


def search_lines(search: Search) -> Generator[bytes, None, None]:
    """Yield {"message": …} per hit in order, {"progress": …} once a second, {"end": …} at last."""
    reported_s = time.monotonic()
    written = 0
    while True:
        hits = search.drain()
        written += len(hits)
        yield b"".join(_messages(hits, search.protobuf))
        if search.is_done:
            break
        if time.monotonic() - reported_s >= PROGRESS_EVERY_S:
            reported_s = time.monotonic()
            yield line("progress", search.figures())
        search.step()
    yield line("end", ExportEnd.of(search, written))


def tail_lines(tail: Tail, *, seconds: int, most: int) -> Generator[bytes, None, None]:
    """Yield {"message": …} as they arrive, {"progress": …} once a second, and {"end": …}.

    Ends after ``seconds`` or ``most`` messages.
    """
    until_s = time.monotonic() + seconds
    shown = 0
    yield line("progress", TailProgress(tail.queues, 0, 0, 0))
    while time.monotonic() < until_s and shown < most and not tail.is_over:
        arrivals = tail.step()
        hits = arrivals.hits[: most - shown]
        shown += len(hits)
        yield b"".join(_messages(hits, tail.source.protobuf))
        yield line("progress", TailProgress(tail.queues, shown, tail.scanned, tail.skipped))
        next_s = min(time.monotonic() + TAIL_EVERY_S, until_s)
        while shown < most and (left_s := next_s - time.monotonic()) > 0:
            time.sleep(min(NAP_S, left_s))
            yield b""
    yield line("end", TailEnd(shown, tail.skipped, dict(tail.silent)))
