"""The socket of one message list: a search while it runs, or a tail.

The address contains the search as the page's own does. Frames to the browser, with HTML parts:

    {"scan": …}                                     progress of the search, at most four times a second
    {"rows": [{"key": …, "html": …}]}               hits as they are found; the browser sorts them in by key
    {"done": true, "keep": [keys], "scan", "notes", "foot"}     the final page; other rows are removed
    {"rows": […], "tail": …}                        new messages of a tail, once a second
    {"refused": text}                               and the socket closes

From the browser: {"stop": true}, and for tails {"pause": true | false}. Closing it ends the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import orjson
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import QueryDict
from django.template.loader import render_to_string

from console.brokers.mqadmin import MQBrokerError, MQClientError, RemotingError
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.live.reader import STALL_LIMIT_S, Viewer
from console.live.socket import ViewerOf
from console.message.forms import LOOKUPS, BrowseForm, refusals
from console.message.list_rows import RenderedRow, hit_rows, rendered
from console.message.search.lanes import Hit
from console.message.search.message_search import Search, Source, TopicNotFound, open_search, source_of
from console.message.search.query import QueryRefused
from console.message.search.quota import TooManySearches, quota
from console.message.search.tail import Tail
from console.message.services import BadCursor, page_of
from console.message.streaming import threads
from console.text import Text, text_of
from console.text.locale import Locale

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

PAGE_MESSAGES = 50
SEARCH_MS = 120_000  # of one streamed page; "Continue the search" reads on
STOPPED = Text("you stopped it")
FRAME_EVERY_S = 0.25
TAIL_EVERY_S = 1.0
RECHECK_EVERY_S = 60.0  # a person who signed out or lost a grant receives nothing after this
REQUEST_BYTES_MAX = 1_000

# What ends a search with a sentence instead of rows.
Refusals = (
    QueryRefused,
    TopicNotFound,
    BadCursor,
    TooManySearches,
    MQClientError,
    MQBrokerError,
    RemotingError,
)


# --- Frames to the browser ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no search; the socket closes."""

    refused: str


@dataclasses.dataclass(frozen=True, slots=True)
class Scanned:
    """How far a search is."""

    scan: str


@dataclasses.dataclass(frozen=True, slots=True)
class FoundRows:
    """Hits as they are found."""

    scan: str
    rows: Sequence[RenderedRow]


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The final page of a search: only the rows with the keys of ``keep`` stay."""

    keep: Sequence[str]
    scan: str
    notes: str
    foot: str
    done: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Following:
    """What a tail has shown and skipped."""

    tail: str


@dataclasses.dataclass(frozen=True, slots=True)
class NewRows:
    """New messages of a tail."""

    rows: Sequence[RenderedRow]
    tail: str


@dataclasses.dataclass(frozen=True, slots=True)
class TailOver:
    """The end of a tail."""

    tail: str
    done: bool = True


Frame = Refused | Scanned | FoundRows | Done | Following | NewRows | TailOver


# --- The socket ---------------------------------------------------------------------------------------------


class MessageSocket(AsyncWebsocketConsumer):
    """`MessageSocket.as_asgi(viewer_of=…)` under /ws/c/<cluster>/messages."""

    channel_layer_alias = ""

    def __init__(self, viewer_of: ViewerOf) -> None:
        super().__init__()
        self.viewer_of = viewer_of
        self.work: asyncio.Task[None] | None = None
        self.search: Search | None = None
        self.stopped = asyncio.Event()
        self.going_on = asyncio.Event()
        self.going_on.set()

    async def connect(self) -> None:
        self.viewer: Viewer = self.viewer_of(self.scope)
        if not await self.viewer.signed_in():
            await self.close()  # before accepting: the browser sees HTTP 403
            return
        await self.accept()
        self.work = asyncio.create_task(self._serve(), name="message socket")

    async def disconnect(self, code: int) -> None:
        if self.search is not None:
            self.search.stop(Text("the page was closed"))
        if self.work is not None:
            self.work.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            request = orjson.loads((text_data or "")[:REQUEST_BYTES_MAX])
        except ValueError:
            request = None
        if not isinstance(request, dict):
            await self._send(Refused(Text("A request is a JSON object: stop or pause.").local()))
            return
        if request.get("stop"):
            self.stopped.set()
            self.going_on.set()
            if self.search is not None:
                self.search.stop(STOPPED)
        if "pause" in request:
            (self.going_on.clear if request["pause"] else self.going_on.set)()

    async def _serve(self) -> None:
        """Refuse, or search, or follow; then close. In the words of the page."""
        Locale.of_headers(self.scope["headers"]).activate()  # of this task alone
        try:
            form = BrowseForm(QueryDict(self.scope["query_string"]))
            if not form.is_valid() or form.cleaned_data["read"] in LOOKUPS:
                raise QueryRefused(
                    refusals(form) or Text("A lookup needs no socket: its page has the answer.")
                )
            await self._require_view(form.cleaned_data["topic"])
            cluster = await database_sync_to_async(self._cluster)()
            source = await database_sync_to_async(source_of)(cluster.name, form.cleaned_data["topic"])
            async with self._place():
                if form.cleaned_data["read"] == "tail":
                    await self._follow(form, cluster, source)
                else:
                    await self._find(form, cluster, source)
        except Refusals as refusal:
            await self._send(Refused(text_of(refusal).local()))
        except TimeoutError:
            logger.warning("browser does not read, closing user=%s", self.scope.get("user"))
            return
        except Exception:
            logger.exception("message socket failed query=%r", self.scope["query_string"][:300])
            await self._send(Refused(Text("The search failed; the console's log has the reason.").local()))
        with contextlib.suppress(RuntimeError):  # the browser may have disconnected meanwhile
            await self.close()

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Hold a place of the quota, taken in a thread because Redis is read. Raises TooManySearches.

        If the browser leaves meanwhile, the place is released once it was taken.
        """
        held = contextlib.ExitStack()
        entering = asyncio.ensure_future(
            self._threaded(held.enter_context, quota.place(str(self.scope["user"])))
        )
        try:
            await asyncio.shield(entering)
            yield
        finally:
            if entering.done():
                held.close()
            else:
                entering.add_done_callback(lambda _: held.close())

    def _cluster(self) -> Cluster:
        return cluster_selectors.cluster_by_name(self.scope["url_route"]["kwargs"]["cluster"])

    async def _require_view(self, topic: str) -> None:
        cluster = self.scope["url_route"]["kwargs"]["cluster"]
        if await self.viewer.view(f"c/{cluster}/topic/{topic}") is None:
            raise QueryRefused(
                Text(
                    "%(cluster)s has no topic %(topic)s, or you may not view it.",
                    topic=topic,
                    cluster=cluster,
                )
            )

    # --- A search -------------------------------------------------------------------------------------------

    async def _find(self, form: BrowseForm, cluster: Cluster, source: Source) -> None:
        query, cursor = form.query(), form.cleaned_data["cursor"]
        search = self.search = await self._threaded(
            open_search, source, query, limit=PAGE_MESSAGES, time_ms=SEARCH_MS, cursor_text=cursor
        )
        if self.stopped.is_set():  # requested before there was a search
            search.stop(STOPPED)
        sent: set[Any] = set()
        checked_s = framed_s = time.monotonic()
        await self._send(Scanned(scan_html(search)))
        while not search.is_done:
            await self._threaded(search.step)
            if (now := time.monotonic()) - framed_s >= FRAME_EVERY_S or search.is_done:
                framed_s = now
                await self._send_found(search, cluster, sent)
            if now - checked_s >= RECHECK_EVERY_S:
                checked_s = now
                await self._require_view(query.topic)
        if search.stop_reason:
            search.keep_rest()
        await self._send_found(search, cluster, sent)
        await self._send(await self._threaded(done_frame, search, cluster, form))

    async def _send_found(self, search: Search, cluster: Cluster, sent: set[Any]) -> None:
        fresh = [hit for hit in search.candidates() if hit.key not in sent]
        sent.update(hit.key for hit in fresh)
        rows = await self._threaded(_rows, fresh, search, cluster) if fresh else []
        await self._send(FoundRows(scan_html(search), rows))

    # --- A tail ---------------------------------------------------------------------------------------------

    async def _follow(self, form: BrowseForm, cluster: Cluster, source: Source) -> None:
        tail = await self._threaded(Tail, source, form.query())
        checked_s = time.monotonic()
        await self._send(Following(tail_html(tail)))
        while not self.stopped.is_set() and not tail.is_over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), TAIL_EVERY_S)
            await self.going_on.wait()
            arrivals = await self._threaded(tail.step)
            rows = await self._threaded(_tail_rows, arrivals.hits, tail, cluster)
            await self._send(NewRows(rows, tail_html(tail)))
            if time.monotonic() - checked_s >= RECHECK_EVERY_S:
                checked_s = time.monotonic()
                if not await self.viewer.signed_in():
                    return
                await self._require_view(tail.query.topic)
        await self._send(TailOver(tail_html(tail, is_over=True)))

    # --- Inside ---------------------------------------------------------------------------------------------

    async def _threaded(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        run = contextvars.copy_context().run  # copies the language
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: run(call, *args, **kwargs))

    async def _send(self, frame: Frame) -> None:
        """Send a frame; TimeoutError ends the work if the browser takes none for STALL_LIMIT_S."""
        async with asyncio.timeout(STALL_LIMIT_S):
            await self.send(text_data=orjson.dumps(frame).decode())


def _rows(hits: list[Hit], search: Search, cluster: Cluster) -> list[RenderedRow]:
    return rendered(hit_rows(hits, search.query.match, search.protobuf), cluster)


def _tail_rows(hits: list[Hit], tail: Tail, cluster: Cluster) -> list[RenderedRow]:
    return rendered(hit_rows(hits, tail.query.match, tail.source.protobuf), cluster)


def scan_html(search: Search, *, is_over: bool = False) -> str:
    """Render how far a search is."""
    context = {
        "figures": search.figures(),
        "is_running": not is_over,
        "stop_reason": search.stop_reason,
        "silent": search.silent,
        "newest": search.query.newest,
    }
    return render_to_string("message/_scan.html", context)


def tail_html(tail: Tail, *, is_over: bool = False) -> str:
    """Render what a tail has shown and skipped."""
    return render_to_string("message/_tail.html", {"tail": tail, "is_over": is_over, "silent": tail.silent})


def done_frame(search: Search, cluster: Cluster, form: BrowseForm) -> Done:
    """Return the final page of a search: which rows stay, and how it continues."""
    page = page_of(search, has_cursor=bool(form.cleaned_data["cursor"]))
    rows = hit_rows(search.picked, search.query.match, search.protobuf)
    query = QueryDict(mutable=True)
    query.update(form.data)
    query.pop("cursor", None)
    context = {"found": page, "shown": len(page.rows), "address": query.urlencode(), "cluster": cluster}
    return Done(
        keep=[row.key for row in rows],
        scan=scan_html(search, is_over=True),
        notes=render_to_string("message/_notes.html", context),
        foot=render_to_string("message/_foot.html", context),
    )
