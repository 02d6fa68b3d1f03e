"""Three worker hosts with one history, in any order of rounds, uploads, compactions, kills and storage faults.

A round of the harness is a story of some days: hosts take turns in collecting, die in the middle of a step, stand
still, return; the storage refuses, time jumps, files expire. Promised after every step: a host sees every round that
was taken but those in segments that another host has not uploaded, each once. At the end, when all hosts are back:
every host sees every round, no hour has two live files, and the storage holds what the manifest lists.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import django

from tests.hard.tally import main

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START = 1_700_006_400_000  # midnight
STEPS = 45
NAMES = ("host-a", "host-b", "host-c")


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class World:
    """The hosts, what they wrote, and the clock."""

    def __init__(self, seed: int, folder: Path, settings: Any) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.settings = settings
        self.now_ms = START + self.chance.randrange(DAY_MS)
        self.logs: dict[str, Any] = {}
        self.collecting = NAMES[0]
        self.down: set[str] = set()
        self.taken: dict[int, str] = {}  # time of a round → the host that took it
        self.doubtful: set[int] = set()  # a kill came in the middle: it may be there or not
        settings.HISTORY_URL = f"file://{folder}/shared"

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        self.settings.HOST_ID, self.settings.DATA_DIR = name, self.folder / name
        yield

    def up(self) -> list[str]:
        return [name for name in NAMES if name not in self.down]

    def take_rounds(self, count: int) -> None:
        from console.lag.history.log import HistoryLog, HistoryMoved

        name = self.collecting
        for _ in range(count):
            self.now_ms += self.chance.choice([20_000, 60_000, 180_000])
            with self.on(name):
                log = self.logs.get(name)
                if log is None:
                    log = self.logs[name] = HistoryLog("local")
                    log.catch_up(self.now_ms - HOUR_MS)
                try:
                    log.append(a_round(self.now_ms))
                    log.prepare(self.now_ms + 60_000)
                except HistoryMoved:
                    self.logs.pop(name)
                    continue
                except Killed:
                    self.doubtful.add(self.now_ms)
                    raise
            self.taken[self.now_ms] = name

    def maintain(self, name: str) -> None:
        from console.lag.history import archive, uploads

        with self.on(name):
            uploads.maintain_own(self.now_ms)
            archive.maintain("local", interval_ms=60_000, now_ms=self.now_ms)

    def upload(self, name: str) -> None:
        from console.lag.history import uploads

        with self.on(name):
            uploads.maintain_own(self.now_ms)

    def expire(self, name: str) -> None:
        from console.lag.history import archive

        with self.on(name):
            archive.delete_expired(self.now_ms)

    def step(self) -> str:
        """Do one thing; returns what."""
        what = self.chance.choice(
            ["rounds", "rounds", "upload", "maintain", "maintain", "turn", "die", "return", "jump", "expire"]
        )
        name = self.chance.choice(self.up())
        if what == "rounds":
            self.take_rounds(self.chance.randrange(1, 20))
        elif what == "turn":
            self.collecting = name
        elif what == "die" and len(self.down) < 2:
            self.down.add(name)
            self.logs.pop(name, None)
            if name == self.collecting:
                self.collecting = self.chance.choice(self.up())
        elif what == "return" and self.down:
            self.down.discard(self.chance.choice(sorted(self.down)))
        elif what == "jump":
            self.now_ms += self.chance.choice([5, 65, 600, 3_000]) * 60_000
        elif what in ("upload", "maintain", "expire"):
            getattr(self, what)(name)
        return what

    def disturbed_step(self) -> str:
        """One thing, with a kill or a storage fault in the middle of some."""
        from console.lag.history.compaction_lease import LEASE_MS
        from spark.lag.history.files import StorageError

        fault = self.chance.choice(["none", "none", "none", "kill", "storage"])
        with faults(fault, self.chance):
            try:
                what = self.step()
                return fault if fault == "storage" else what
            except Killed:
                self.logs.clear()  # whichever host it was
                self.now_ms += LEASE_MS + 1
                return "kill"
            except StorageError:
                return "storage"

    def check(self) -> None:
        from console.lag.models import HistoryFile
        from console.lag.past import history_reads

        for name in self.up():
            with self.on(name):
                samples = history_reads.load("local", "", START, self.now_ms + DAY_MS)
                seen = samples.t_ms.tolist()
            assert len(seen) == len(set(seen)), f"doubled at {name}: {len(seen) - len(set(seen))}"
            absent = HistoryFile.objects.filter(kind="wal", uploaded_at_ms=0).exclude(host=name)
            spans = [(row.host, row.ts_lo_ms, row.ts_hi_ms) for row in absent]
            expected = {
                at_ms
                for at_ms, host in self.taken.items()
                if not any(host == other and low <= at_ms < high for other, low, high in spans)
            }
            unlisted = self.unlisted(name)
            lost = {
                at_ms
                for at_ms in expected - set(seen)
                if (self.taken[at_ms], at_ms - at_ms % 300_000) not in unlisted
            }
            assert not lost, (
                f"{name} lost {sorted(lost)[:5]} of {[self.taken[one] for one in sorted(lost)[:5]]}"
            )
            invented = set(seen) - set(self.taken) - self.doubtful
            assert not invented, f"{name} invented {sorted(invented)[:5]}"

    def unlisted(self, name: str) -> set[tuple[str, int]]:
        """Segments of which a kill came before their row: their host lists them when it runs again."""
        from console.lag.models import HistoryFile

        known = set(HistoryFile.objects.filter(kind="wal").values_list("path", flat=True))
        found = set()
        for path in self.folder.glob("host-*/history/wal/local/*/*.*"):
            if path.suffix in (".wal", ".ahead"):
                start = int(path.stem.partition("-")[0])
                if f"wal/local/{path.parent.name}/{start}.wal" not in known:
                    found.add((path.parent.name, start))
        return found

    def finish(self) -> None:
        """All are back and nothing fails: everything is there."""
        from console.lag.history.log import HistoryLog

        self.down.clear()
        self.now_ms += 2 * HOUR_MS
        for name in NAMES:
            with self.on(name):
                HistoryLog("local").catch_up(0)
        for name in (*NAMES, *NAMES):
            self.maintain(name)
        self.expire(NAMES[0])
        self.check()
        self.check_files()

    def check_files(self) -> None:
        from console.lag.models import HistoryFile

        live = HistoryFile.objects.filter(state="live")
        hours = [row.ts_lo_ms for row in live.filter(kind="chunk_hour")]
        assert len(hours) == len(set(hours)), "an hour has two live files"
        logs = [row.path for row in live.filter(kind="wal") if row.ts_hi_ms < self.now_ms - HOUR_MS - 60_000]
        assert not logs, f"still logs: {logs[:3]}"
        assert not HistoryFile.objects.filter(state="quarantined").exists()
        listed = set(HistoryFile.objects.exclude(state__in=["deleted"]).values_list("path", flat=True))
        shared = self.folder / "shared"
        stored = {str(path.relative_to(shared)) for path in shared.rglob("*") if path.is_file()}
        assert stored == listed, f"stored {sorted(stored - listed)[:3]}, listed {sorted(listed - stored)[:3]}"


def a_round(at_ms: int) -> Any:
    from spark.lag.snapshot import CommitKey, HeadKey
    from tests.spark.lag.sample_history import rounds

    head = HeadKey("orders", "broker-a", 0)
    number = (at_ms - START) // 1_000
    (made,) = rounds({head: [(0, number)]}, {CommitKey("billing", *head): [number]}, start_ms=at_ms)
    return made


@contextmanager
def faults(kind: str, chance: random.Random) -> Iterator[None]:
    """Kill the process, or let the storage refuse, at some call of a step."""
    from django.db import models

    from spark.lag.history import files

    left = [chance.randrange(1, 25)]

    def counted(error: Callable[[], BaseException], original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            is_it = left[0] == 0 if kind == "kill" else 0 >= left[0] > -3
            if is_it and chance.random() < 0.5:
                raise error()
            made = original(*args, **kwargs)
            if is_it and kind == "kill":
                raise error()
            return made

        return call

    places: list[tuple[Any, str]] = []
    if kind == "kill":
        places = [(os, "fdatasync"), (os, "fsync"), (models.QuerySet, "update"), (models.Model, "save"),
                  (files, "digest"), (files, "remove"), (Path, "rename"), (Path, "replace")]  # fmt: skip
    if kind == "storage":
        places = [(files, name) for name in ("read", "digest", "write_new", "opened", "remove")]
    error = Killed if kind == "kill" else lambda: files.StorageError("it refuses")
    with ExitStack() as patches:
        for owner, name in places:
            patches.enter_context(mock.patch.object(owner, name, counted(error, getattr(owner, name))))
        yield


def run_round(seed: int) -> str:
    """One story of several days."""
    from django.conf import settings
    from django.test import override_settings

    from console.lag.models import HistoryFile, HistoryGap, HistoryLease

    for model in (HistoryFile, HistoryGap, HistoryLease):
        model.objects.all().delete()
    folder = Path(tempfile.mkdtemp(prefix="tidemark-hosts-"))
    done = set()
    try:
        with override_settings(HISTORY_URL="", HOST_ID="", DATA_DIR=folder):
            world = World(seed, folder, settings)
            for _ in range(STEPS):
                done.add(world.disturbed_step())
                world.check()
            world.finish()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return " and ".join(sorted(done & {"kill", "storage"})) or "quiet"


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from django.test.utils import setup_databases, setup_test_environment

    setup_test_environment()
    setup_databases(verbosity=0, interactive=False)
    logging.disable(logging.CRITICAL)
    main("several_hosts", run_round, rounds=150)
