"""Exports are sent as they are made over ASGI, and read as one by whatever is synchronous."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from django.core.handlers.asgi import ASGIHandler

from console.web.streamed import LINES_A_PIECE, StreamedResponse


def test_it_is_read_without_an_event_loop() -> None:
    answer = StreamedResponse(iter(["a\n", "half \ud83d\n"]), content_type="text/csv")
    assert b"".join(answer) == b"a\nhalf \\ud83d\n"


async def test_pieces_leave_before_the_last_line_is_made() -> None:
    made: list[int] = []
    threads: set[threading.Thread] = set()

    def lines() -> Iterator[bytes]:
        for number in range(2 * LINES_A_PIECE + 1):
            made.append(number)
            threads.add(threading.current_thread())
            yield b"x\n"

    sent: list[tuple[int, int]] = []

    async def send(message: dict[str, object]) -> None:
        if body := message.get("body"):
            assert isinstance(body, bytes)
            sent.append((len(body), len(made)))

    answer = StreamedResponse(lines(), content_type="text/csv")
    await ASGIHandler().send_response(answer, send)
    assert sent == [
        (2 * LINES_A_PIECE, LINES_A_PIECE),
        (2 * LINES_A_PIECE, 2 * LINES_A_PIECE),
        (2, 2 * LINES_A_PIECE + 1),
    ]
    assert threading.main_thread() not in threads and len(threads) == 1
