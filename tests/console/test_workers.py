"""`python -m console.workers`: beat and each pool in a process of its own, kept running, ended together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import migrated
from tests.support.redis_process import RedisProcess

ROOT = Path(__file__).parent.parent.parent
POOLS = ("collect", "operate", "report")


class Workers:
    def __init__(self, data: Path, redis_url: str) -> None:
        environ = {
            **os.environ,
            "TIDEMARK_DATA": str(data),
            "REDIS_URL": redis_url,
            "SECRET_KEY": "only-for-tests",
        }
        environ |= {"DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONUNBUFFERED": "1"}
        migrated.copy_to(data)
        subprocess.run(
            [sys.executable, "manage.py", "prepare", "--migrate"], cwd=ROOT, env=environ, check=True
        )
        self.log = data / "log"
        with self.log.open("w") as log:
            command = [sys.executable, "-m", "console.workers"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def ready(self, pool: str) -> int:
        """How often a worker of the pool has been ready."""
        return sum(line.startswith(f"{pool}@") or f" {pool}@" in line for line in self.lines(" ready."))

    def lines(self, words: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if words in line]


@pytest.fixture
def workers(tmp_path: Path, redis_process: RedisProcess) -> Iterator[Workers]:
    found = Workers(tmp_path, redis_process.url)
    yield found
    found.process.kill()
    found.process.wait()


def test_every_pool_is_a_process_that_is_started_again(workers: Workers) -> None:
    workers.until(lambda: all(workers.ready(pool) == 1 for pool in POOLS))
    before = workers.children()
    assert len(before) == 4, "beat and three pools"
    os.kill(before[2], signal.SIGKILL)
    workers.until(lambda: bool(workers.lines("worker process ended name=operate status=-9")))
    workers.until(lambda: workers.ready("operate") == 2)
    assert len(workers.children()) == 4
    workers.process.terminate()
    assert workers.process.wait(60) == 0
    assert not [pid for pid in before if Path(f"/proc/{pid}").exists()]


def test_no_pool_outlives_the_process_that_was_killed(workers: Workers) -> None:
    workers.until(lambda: all(workers.ready(pool) == 1 for pool in POOLS))
    pids = workers.children()
    workers.process.kill()
    workers.process.wait()
    workers.until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()])
