"""Tables under config/ that are written in a thread, many changes at once.

A change is in force at once and written within WRITE_AFTER_MS. What promises durability (an administrator's answer)
waits in `TableWriter.when_saved` for the write that contains its change, and starts that write at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import orjson

from brokerd.remoting.body.json_body import JsonBody
from brokerd.tables import config_manager

logger = logging.getLogger(__name__)

WRITE_AFTER_MS = 200  # groups that join within that time share one write
RETRY_AFTER_MS = 1_000  # a full disk is tried again
ENTRIES_A_PIECE = (
    256  # joined in the thread a piece at a time, so that the event loop never waits for a long join
)
STOP_WITHIN_S = 10.0  # for the last write; what is stuck longer is left to the operating system

Pieces = Iterable[bytes]
Saved = Callable[[Exception | None], None]


class TableFile:
    """One file and how its content is made.

    `document` runs in the event loop and takes a snapshot; the pieces it returns are made and written in the thread.
    """

    def __init__(self, path: Path, document: Callable[[], Pieces], *, is_private: bool = False) -> None:
        """`is_private`: it holds secrets."""
        self.path = path
        self.is_private = is_private
        self._document = document
        self.is_changed = False
        self.on_change: Callable[[], None] = lambda: None

    def changed(self) -> None:
        """Note that the table is not what the file holds."""
        self.is_changed = True
        self.on_change()

    def take(self) -> Pieces:
        """Return what is to be written now."""
        self.is_changed = False
        return self._document()

    def write_now(self) -> None:
        """Write in this thread: before the event loop serves and after it ends. Raises OSError."""
        pieces = self.take()
        try:
            config_manager.write_pieces(self.path, pieces, self.is_private)
        except BaseException:
            self.is_changed = True
            raise


class EntryTexts:
    """The entries of a table as JSON, encoded when they change: files and answers of 10,000 are joined, not encoded."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._texts)

    @staticmethod
    def encode(name: str, entry: JsonBody) -> bytes:
        """`"name":{…}`. Raises TypeError for what JSON cannot hold."""
        value = orjson.dumps(entry.to_value(), option=orjson.OPT_SORT_KEYS)
        return b"%b:%b" % (orjson.dumps(name), value)

    def put(self, name: str, text: bytes) -> None:
        self._texts[name] = text

    def remove(self, name: str) -> None:
        self._texts.pop(name, None)

    def joined(self) -> bytes:
        """Return the members of a JSON object."""
        return b",".join(self._texts.values())

    def pieces(self) -> Iterator[bytes]:
        """Yield the same with one entry a line, for a file; a snapshot is taken now."""
        return in_pieces(list(self._texts.values()))


def in_pieces(texts: list[bytes]) -> Iterator[bytes]:
    """Texts joined by `,` and line ends, some hundred at a time."""
    for start in range(0, len(texts), ENTRIES_A_PIECE):
        if start:
            yield b",\n"
        yield b",\n".join(texts[start : start + ENTRIES_A_PIECE])


class TableWriter:
    """Writes the changed tables. Single-threaded: the event loop; one thread of its own waits for the disk."""

    def __init__(self) -> None:
        self._tables: list[TableFile] = []
        self._waiting: list[Saved] = []
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        self._pause_ms = WRITE_AFTER_MS
        self._is_failing = False
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tables")

    def add(self, table: TableFile) -> None:
        table.on_change = self._wake.set
        self._tables.append(table)
        if table.is_changed:
            self._wake.set()

    def when_saved(self, call: Saved) -> None:
        """Call once every change made up to now is durable; with the error when it could not be written."""
        self._waiting.append(call)
        self._wake.set()
        self._hurry.set()

    def start(self) -> None:
        """Start the thread: at its first write the event loop would wait for it."""
        self._executor.submit(int).result()

    async def run(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._wake.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._pause_ms / 1000)
            self._wake.clear()
            self._hurry.clear()
            await self._write_changed()

    async def _write_changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        tables = [table for table in self._tables if table.is_changed]
        error: Exception | None = None
        try:
            documents = [(table, table.take()) for table in tables]
            if documents:
                await asyncio.get_running_loop().run_in_executor(self._executor, write_all, documents)
        except BaseException as failure:  # whatever it was, the tables are not in their files
            for table in tables:
                table.is_changed = True
            if not isinstance(failure, Exception):
                raise
            error = failure
            self._wake.set()
        self._pause_ms = RETRY_AFTER_MS if error is not None else WRITE_AFTER_MS
        self._log(tables, error)
        for call in waiting:
            call(error)

    def _log(self, tables: list[TableFile], error: Exception | None) -> None:
        names = ", ".join(table.path.name for table in tables)
        if error is not None and not self._is_failing:
            logger.error("cannot write %s: %s; trying again until it works", names, error)
        elif error is None and self._is_failing:
            logger.info("written again: %s", names)
        self._is_failing = error is not None

    async def drain(self) -> None:
        """Wait until what was changed up to now is written, or could not be."""
        done = asyncio.Event()
        self.when_saved(lambda _: done.set())
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), STOP_WITHIN_S)

    def close(self) -> None:
        """Write what is still changed; the event loop serves no more. `run` must have ended."""
        self._executor.shutdown(wait=True)
        for table in self._tables:
            if table.is_changed:
                try:
                    table.write_now()
                except OSError as error:
                    logger.error("%s is not saved: %s", table.path, error)  # noqa: TRY400


def write_all(documents: list[tuple[TableFile, Pieces]]) -> None:
    """Write the files, in the thread. Raises OSError."""
    for table, pieces in documents:
        config_manager.write_pieces(table.path, pieces, table.is_private)
