"""`python -m console.workers`: beat and each pool in a process of its own, kept running, ended together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console import workers
from tests.support import migrated
from tests.support.redis_process import RedisProcess

ROOT = Path(__file__).parent.parent.parent
POOLS = ("collect", "operate", "report")


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(condition: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


class Running:
    def __init__(self, data: Path, redis_url: str) -> None:
        environ = {
            **os.environ,
            "TIDEMARK_DATA": str(data),
            "REDIS_URL": redis_url,
            "SECRET_KEY": "only-for-tests",
        }
        environ |= {"DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONUNBUFFERED": "1"}
        migrated.copy_to(data)
        self.log = data / "log"
        with self.log.open("w") as log:
            command = [sys.executable, "-m", "console.workers"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)

    def until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, self.log.read_text)

    def ready(self, pool: str) -> int:
        """How often a worker of the pool has been ready."""
        return sum(line.startswith(f"{pool}@") or f" {pool}@" in line for line in self.lines(" ready."))

    def lines(self, words: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if words in line]


@pytest.fixture
def running(tmp_path: Path, redis_process: RedisProcess) -> Iterator[Running]:
    found = Running(tmp_path, redis_process.url)
    yield found
    found.process.kill()
    found.process.wait()


def test_every_pool_is_a_process_that_is_started_again(running: Running) -> None:
    running.until(lambda: all(running.ready(pool) == 1 for pool in POOLS))
    before = children_of(running.process.pid)
    assert len(before) == 4, "beat and three pools"
    assert "/pandas/" in Path(f"/proc/{running.process.pid}/maps").read_text(), "every pool would load it"
    os.kill(before[2], signal.SIGKILL)
    running.until(lambda: bool(running.lines("worker process ended name=operate status=-9")))
    running.until(lambda: running.ready("operate") == 2)
    assert len(children_of(running.process.pid)) == 4
    running.process.terminate()
    assert running.process.wait(60) == 0
    assert not [pid for pid in before if Path(f"/proc/{pid}").exists()]


def test_no_child_outlives_the_process_that_was_killed(tmp_path: Path) -> None:
    """Whatever its children run: here they leave a note that they do, and wait."""

    def pool() -> None:
        (tmp_path / str(os.getpid())).touch()
        signal.pause()

    pid = os.fork()
    if pid == 0:
        try:
            workers.Workers(dict.fromkeys(POOLS, pool)).keep_running()
        finally:
            os._exit(1)
    wait_until(lambda: len(list(tmp_path.iterdir())) == len(POOLS), lambda: "they do not start")
    pids = children_of(pid)
    assert len(pids) == len(POOLS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: not [each for each in pids if Path(f"/proc/{each}/exe").exists()], lambda: f"{pids}")
