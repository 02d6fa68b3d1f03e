"""Two worker hosts of the real product; prints what happened as JSON.

    python -m tests.console.lag.history.real_hosts FOLDER

Run under `deploy/with-postgres.sh`: one PostgreSQL, one Redis, one broker, one history on an S3 server; each host is a
Celery worker with a data folder of its own. The host that collects is killed; the other one takes over; both then make
files at once, many times.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import django

from tests.support import migrated
from tests.support.broker_process import BrokerProcess
from tests.support.forks import ForkedProgram, Forks
from tests.support.redis_process import RedisProcess
from tests.support.s3_server import S3Server

FOLDER = Path(sys.argv[1])
INTERVAL_S = 1
PATIENCE_S = 120
HOUR_MS = 3_600_000


class Hosts:
    """Hosts a and b, each with one process that all its programs are forked from, and beat beside the worker of a."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ
        self.forks = {
            name: Forks("tests.console.lag.history.host_process", self.environ_of(name))
            for name in ("a", "b")
        }
        self.running: dict[str, ForkedProgram] = {}

    def environ_of(self, name: str) -> dict[str, str]:
        own = {"TIDEMARK_DATA": str(FOLDER / name), "TIDEMARK_HOST": f"host-{name}"}
        return {**self.environ, **own}

    def start_beat(self) -> None:
        self.running["beat"] = self.forks["a"].start(["beat"], FOLDER / "beat.log")

    def start_worker(self, name: str) -> None:
        pool = ("-Q", "collect", "-P", "threads", "-c", "2", "-n", f"collect@host-{name}")
        arguments = ["worker", *pool, "--without-gossip", "--without-mingle"]
        self.running[name] = self.forks[name].start(arguments, FOLDER / f"{name}.log")

    def kill(self, name: str) -> None:
        program = self.running.pop(name)
        program.kill()
        program.wait(PATIENCE_S)

    def maintain(self, names: Sequence[str], now_ms: int, times: int = 1) -> None:
        """Let hosts upload and make files, all at once."""
        running = [
            self.forks[name].start(["files", str(now_ms), str(times)], FOLDER / f"tending-{name}.log")
            for name in names
        ]
        for process in running:
            assert process.wait(PATIENCE_S) == 0, [
                log.read_text()[-2_000:] for log in FOLDER.glob("tending-*")
            ]

    def stop(self) -> None:
        for forks in self.forks.values():
            forks.close()


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            logs = [path.read_text()[-1_500:] for path in FOLDER.glob("*.log")]
            raise AssertionError(f"{what} did not happen within {PATIENCE_S} s\n" + "\n".join(logs))
        time.sleep(0.2)


def story(hosts: Hosts, s3: S3Server, namesrv: str) -> dict[str, Any]:
    migrated.migrate()
    from console.cluster.models import Cluster
    from console.lag.models import CollectorLease, HistoryFile, Round

    Cluster.objects.create(name="local", namesrv_addrs=namesrv, poll_interval_s=INTERVAL_S)
    hosts.start_beat()
    for name in ("a", "b"):
        hosts.start_worker(name)

    def rounds() -> int:
        return Round.objects.count()

    wait_for("the first round", lambda: rounds() >= 1)
    first = CollectorLease.objects.get().host
    seen_hosts = set()

    def many_rounds() -> bool:
        seen_hosts.add(CollectorLease.objects.get().host)
        return rounds() >= 12

    wait_for("twelve rounds", many_rounds)
    collecting = CollectorLease.objects.get().host.removeprefix("host-")
    other = "b" if collecting == "a" else "a"
    hosts.kill(collecting)
    before = rounds()
    killed_at = time.monotonic()
    wait_for("a round of the other host", lambda: rounds() > before)
    took_over_s = time.monotonic() - killed_at
    wait_for("more rounds of the other host", lambda: rounds() >= before + 5)
    took_over = CollectorLease.objects.get().host
    hosts.kill("beat")
    time.sleep(2 * INTERVAL_S)
    hosts.kill(other)
    return {
        "stayed": seen_hosts == {first} and first == f"host-{collecting}",
        "took_over": took_over == f"host-{other}",
        "took_over_s": round(took_over_s, 1),
        **afterwards(hosts, s3, collecting, other, HistoryFile, Round),
    }


def afterwards(
    hosts: Hosts, s3: S3Server, dead: str, alive: str, history_file: Any, round_: Any
) -> dict[str, Any]:
    """What becomes of the rounds: first without the dead host, then with both at once."""
    now_ms = time.time_ns() // 1_000_000 + 3 * HOUR_MS
    taken = sorted(round_.objects.values_list("number", flat=True))
    logs = history_file.objects.filter(kind="wal")
    hosts.maintain([alive], now_ms)
    adopted = rounds_in_chunks(history_file)
    dead_rows = sorted(set(logs.filter(host=f"host-{dead}").values_list("state", "uploaded_at_ms")))
    hosts.maintain([alive, dead, alive, dead], now_ms + 1, times=5)
    live = live_chunks(history_file)
    return {
        "numbers_once": len(taken) == len(set(taken)),
        "rounds": len(taken),
        "adopted": adopted,
        "dead_rows": dead_rows,
        "filled_in": rounds_in_chunks(history_file),
        "live_for_each_hour": live.count() == len({row.ts_lo_ms for row in live}),
        "log_states": sorted(set(logs.values_list("state", flat=True))),
        "objects": sorted(objects(s3))
        == sorted(
            history_file.objects.exclude(state__in=["deleted", "writing"]).values_list("path", flat=True)
        ),
        "copies": s3.count("COPY"),
    }


def live_chunks(history_file: Any) -> Any:
    """Files of hours, and late in the evening of a day that is over three hours from now."""
    return history_file.objects.filter(kind__in=["chunk_hour", "chunk_day"], state="live")


def rounds_in_chunks(history_file: Any) -> int:
    """How many moments the live files have of the queues."""
    from console.lag.history.log import location_of
    from spark.lag.history import chunk

    live = live_chunks(history_file).order_by("ts_lo_ms")
    samples = chunk.load_samples([location_of(row) for row in live], 0, 2**60, group="")
    return len(set(samples.t_ms.tolist()))


def objects(s3: S3Server) -> list[str]:
    from spark.lag.history import files

    filesystem, folder = files.filesystem_of(s3.url)
    return [path.removeprefix(f"{folder}/") for path in filesystem.find(folder)]


def main() -> None:
    FOLDER.mkdir(parents=True)
    s3 = S3Server().start()
    redis = RedisProcess(FOLDER).start()
    broker = BrokerProcess(FOLDER / "store").start()
    environ = {
        **os.environ,
        **s3.environ,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "HISTORY_URL": s3.url,
        "REDIS_URL": redis.url,
    }
    hosts = Hosts(environ)
    os.environ.update(hosts.environ_of("watcher"))
    s3.clear()
    try:
        django.setup()
        print(json.dumps(story(hosts, s3, broker.namesrv)))
    finally:
        hosts.stop()
        broker.stop()
        redis.kill()
        s3.stop()


if __name__ == "__main__":
    main()
