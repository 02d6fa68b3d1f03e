"""A real Redis-protocol server on a short Unix socket that a test may kill and start again."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from console.process.programs import redis_server_binary

READY_WITHIN_S = 60


class RedisProcess:
    """`valkey-server` without persistence; the address stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "r.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> RedisProcess:
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [redis_server_binary(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            try:
                with Redis.from_url(self.url) as client:
                    client.ping()
                return self
            except RedisError:
                time.sleep(0.02)
        raise AssertionError(f"no Redis on {self.socket} within {READY_WITHIN_S} s")

    def kill(self) -> None:
        """As a crash would: nothing is saved, connections just end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
