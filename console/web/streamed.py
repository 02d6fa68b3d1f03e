"""Stream long responses piece by piece: an export blocks no other page and uses constant memory."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

LINES_A_PIECE = 500


class StreamedResponse(StreamingHttpResponse):
    """Lines of text, or blocks of bytes.

    Django's ASGI handler reads a plain iterator to its end before it sends the first byte. This response is read in
    pieces, in the thread of the request, which Django ends with the request: database connections are closed there.
    """

    def __init__(self, lines: Iterator[str] | Iterator[bytes], content_type: str) -> None:
        super().__init__(map(_encoded, lines), content_type=content_type)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = iter(self)
        while piece := await sync_to_async(_piece)(lines):
            yield piece


def _encoded(line: str | bytes) -> bytes:
    # Half of a surrogate pair has no encoding and is shown as \ud83d.
    return line.encode("utf-8", "backslashreplace") if isinstance(line, str) else line


def _piece(lines: Iterator[bytes]) -> bytes:
    return b"".join(itertools.islice(lines, LINES_A_PIECE))
