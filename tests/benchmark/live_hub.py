"""2,000 open browsers on one web process, rows changing once a second: what the process pays.

    python -m tests.benchmark.live_hub [--browsers 2000] [--rows 10000] [--seconds 20] [--hz 1]

Prints JSON. The server is uvicorn with the console's own socket (`console.live.socket.LiveSocket`) in a process of its
own, the browsers are real WebSocket connections of another, and Redis is a third. Each browser shows 50 of the rows
of a list: most of them the first 50, one in ten another page. `cpu_share` is the CPU time of the web process by the
clock, of one core; `behind_ms` is from publication to the browser's side of the socket. `naive`: the same with
browsers that subscribe to the whole list, as many as `--naive-browsers` says, and what all would cost if cost grew
in proportion.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import uvicorn
import websockets.asyncio.client

from tests.benchmark.send_raw import cpu_seconds
from tests.support.ports import free_port
from tests.support.redis_process import RedisProcess

SUBJECT = "c/big/groups"
ROWS_SHOWN = 50
CONNECTS_AT_ONCE = 50
READY_WITHIN_S = 60


class EverybodySees:
    """A viewer without a session: what is measured is the fan-out, not the sign-in."""

    async def signed_in(self) -> bool:
        return True

    async def view(self, subject: str) -> Any:
        from console.live.update import View

        return View()


def set_up_django(redis_url: str, data: str) -> None:
    import django

    os.environ.update(
        DJANGO_SETTINGS_MODULE="console.settings", REDIS_URL=redis_url, TIDEMARK_DATA=data, LOG_LEVEL="ERROR"
    )
    django.setup()


def serve(redis_url: str, data: str, port: int) -> None:
    """The web process."""
    set_up_django(redis_url, data)
    from console.live.socket import LiveSocket

    application: Any = LiveSocket.as_asgi(viewer_of=lambda scope: EverybodySees())
    uvicorn.run(
        application, port=port, lifespan="off", log_level="error", ws_per_message_deflate=False, backlog=4096
    )


def row(number: int, moment: int) -> dict[str, Any]:
    """About as large as a group's row."""
    return {
        "group": f"orders-{number:05d}-service",
        "status": "FALLING_BEHIND",
        "partial": False,
        "clients": 4,
        "lag": 1_000 + number + moment,
        "time_lag_ms": 4_320_000 + moment,
        "in_rate": 88.8,
        "out_rate": 61.8,
        "topics": [{"topic": f"orders-{number:05d}", "queues": 8, "lag": number, "status": "OK"}],
        "trend": [number + step for step in range(60)],
        "reason": "",
        "read_at_ms": time.time_ns() // 1_000_000,
    }


class Browsers:
    """Open sockets that note when an update came, and how large it was."""

    def __init__(self) -> None:
        self.sockets: list[Any] = []
        self.readers: list[asyncio.Task[None]] = []
        self.behind_ms: list[float] = []
        self.bytes = 0
        self.frames = 0
        self.is_measured = False

    async def open(self, url: str, wishes: Sequence[Mapping[str, Any]]) -> None:
        gate = asyncio.Semaphore(CONNECTS_AT_ONCE)

        async def one(wish: Mapping[str, Any]) -> None:
            async with gate:
                socket = await websockets.asyncio.client.connect(
                    url, compression=None, max_size=None, ping_interval=None, open_timeout=READY_WITHIN_S
                )
                await socket.send(orjson.dumps({"subscribe": [wish]}).decode())
                await socket.recv()  # the base
                self.sockets.append(socket)
                self.readers.append(asyncio.create_task(self._read(socket)))

        await asyncio.gather(*(one(wish) for wish in wishes))

    async def _read(self, socket: Any) -> None:
        async for text in socket:
            if self.is_measured and '"rows"' in text:
                at_ms = int(text.split('"at_ms":', 1)[1].split(",", 1)[0])
                self.behind_ms.append(time.time_ns() / 1e6 - at_ms)
                self.frames += 1
                self.bytes += len(text)

    async def close(self) -> None:
        for reader in self.readers:
            reader.cancel()
        await asyncio.gather(*(socket.close() for socket in self.sockets), return_exceptions=True)


async def measure(
    url: str, pid: int, wishes: Sequence[Mapping[str, Any]], rows: int, seconds: int, hz: float
) -> dict[str, Any]:
    from console.live import hub as live

    def publish(moment: int) -> None:
        news = {f"orders-{number:05d}-service": row(number, moment) for number in range(rows)}
        live.publish(SUBJECT, news, now_ms=time.time_ns() // 1_000_000)

    await asyncio.to_thread(publish, 0)
    browsers = Browsers()
    started = time.monotonic()
    await browsers.open(url, wishes)
    opened_s = time.monotonic() - started
    await asyncio.to_thread(publish, 1)
    await asyncio.sleep(2)
    browsers.is_measured = True
    cpu, started = cpu_seconds(pid), time.monotonic()
    for moment in range(round(seconds * hz)):
        await asyncio.to_thread(publish, 2 + moment)
        await asyncio.sleep(max(0.0, started + (moment + 1) / hz - time.monotonic()))
    took_s = time.monotonic() - started
    share = (cpu_seconds(pid) - cpu) / took_s
    found = {
        "browsers": len(wishes),
        "opened_s": round(opened_s, 1),
        "updates": round(seconds * hz),
        "frames": browsers.frames,
        "frames_expected": len(wishes) * round(seconds * hz),
        "cpu_share": round(share, 3),
        "cpu_us_per_frame": round(share * took_s * 1e6 / max(1, browsers.frames), 1),
        "behind_p50_ms": round(statistics.median(browsers.behind_ms or [0.0])),
        "behind_p99_ms": round(statistics.quantiles(browsers.behind_ms or [0.0, 0.0], n=100)[-1]),
        "mbytes_per_s": round(browsers.bytes / took_s / 1e6, 1),
    }
    await browsers.close()
    return found


def pages(browsers: int, rows: int) -> list[dict[str, Any]]:
    """What each browser asks for: the first page of the list, one in ten another."""
    count = max(1, rows // ROWS_SHOWN)
    wishes = []
    for number in range(browsers):
        page = number // 10 % count if number % 10 == 9 else 0
        keys = [
            f"orders-{one:05d}-service"
            for one in range(page * ROWS_SHOWN, min(rows, (page + 1) * ROWS_SHOWN))
        ]
        wishes.append({"subject": SUBJECT, "keys": keys})
    return wishes


async def run(url: str, pid: int, options: argparse.Namespace) -> dict[str, Any]:
    result = {
        "rows": options.rows,
        "hz": options.hz,
        "keyed": await measure(
            url, pid, pages(options.browsers, options.rows), options.rows, options.seconds, options.hz
        ),
    }
    if options.naive_browsers:
        whole = [{"subject": SUBJECT}] * options.naive_browsers
        naive = await measure(url, pid, whole, options.rows, min(5, options.seconds), options.hz)
        naive["cpu_share_of_all_in_proportion"] = round(
            naive["cpu_share"] * options.browsers / options.naive_browsers, 1
        )
        result["naive"] = naive
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--browsers", type=int, default=2_000)
    parser.add_argument("--naive-browsers", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--hz", type=float, default=1.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tm-", dir="/tmp"))
    redis, port = RedisProcess(folder).start(), free_port()
    set_up_django(redis.url, str(folder))
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(redis.url, str(folder), port))
    server.start()
    try:
        assert server.pid is not None
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                result = asyncio.run(run(f"ws://127.0.0.1:{port}/ws/live", server.pid, options))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "the web process does not listen"
                time.sleep(0.1)
        json.dump(result, sys.stdout, indent=1)
        sys.stdout.write("\n")
    finally:
        server.terminate()
        server.join()
        redis.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
