"""Long answers made piece by piece in the request's own thread: an export holds up no other page and stays out of
memory.

Given a plain iterator, Django's asynchronous handler reads all of it before the first byte goes out.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async

LINES_A_PIECE = 500


async def in_thread(lines: Iterator[str] | Iterator[bytes]) -> AsyncIterator[bytes]:
    """The lines (or blocks of bytes) for a StreamingHttpResponse. The thread is that of the request, which Django ends
    with it, database connections and all.
    """
    while piece := await sync_to_async(_piece, thread_sensitive=True)(lines):
        yield piece


def _piece(lines: Iterator[str] | Iterator[bytes]) -> bytes:
    found: list[str | bytes] = list(itertools.islice(lines, LINES_A_PIECE))
    # Half of a surrogate pair, which nothing encodes, is shown as \ud83d.
    return b"".join(
        line.encode("utf-8", "backslashreplace") if isinstance(line, str) else line for line in found
    )
