"""Kills a process at every step of writing history, and looks at what is left; one JSON line per kind of work.

    python -m tests.console.lag.history.crash_steps FOLDER

A child does the work and kills itself (SIGKILL) at its n-th write, fsync, Parquet block or change of the manifest;
then its parent does what a restarted worker does and compares. n grows until the child comes to its end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

FOLDER = Path(sys.argv[1])
DATA = FOLDER / "data"
os.environ["TIDEMARK_DATA"] = str(DATA)
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
# Each try begins from a copy of the folder, the manifest with it: a file, whatever database the other tests are on.
for name in ("DATABASE_URL", "METRICS_DATABASE_URL"):
    os.environ.pop(name, None)
DATA.mkdir(parents=True)
django.setup()

from django.apps import apps  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import DEFAULT_DB_ALIAS, connection, models, router  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402

from console.lag.history import archive, uploads  # noqa: E402
from console.lag.history.compaction_lease import LEASE_MS  # noqa: E402
from console.lag.history.log import HistoryLog  # noqa: E402
from console.lag.models import HistoryFile  # noqa: E402
from console.lag.past import history_reads  # noqa: E402
from spark.lag.history import files  # noqa: E402
from spark.lag.local_time import HOUR_MS  # noqa: E402
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot  # noqa: E402
from tests.spark.lag.sample_history import rounds  # noqa: E402

START = 1_700_006_400_000  # midnight
assert START % (24 * HOUR_MS) == 0
NOW = START + 26 * HOUR_MS
LATE = START + 100 * 24 * HOUR_MS
HEAD = HeadKey("orders", "broker-a", 0)
COMMIT = CommitKey("billing", *HEAD)
MODELS = [
    model
    for model in apps.get_app_config("lag").get_models()
    if router.db_for_write(model) == DEFAULT_DB_ALIAS
]
STEPS_MAX = 60  # far more than any work here takes


def history_of(start_ms: int, count: int, first: int = 0) -> list[Snapshot]:
    numbers = range(first, first + count)
    return rounds(
        {HEAD: [(0, 10 * n) for n in numbers]}, {COMMIT: [9 * n for n in numbers]}, start_ms=start_ms
    )


HOURS = [history_of(START + hour * HOUR_MS, 20, 100 * hour) for hour in range(2)]
MORE = history_of(START + 2 * HOUR_MS, 5, 200)


def append(snapshots: list[Snapshot]) -> None:
    log = HistoryLog("local")
    log.catch_up(0)
    for one in snapshots:
        log.prepare(one.ts_ms)
        log.append(one)


def seen() -> list[int]:
    """The max offsets that a chart would show, from whatever files the manifest lists."""
    samples = history_reads.load("local", "billing", START, START + 24 * HOUR_MS)
    found: list[int] = samples.max_offset.tolist()
    return found


def restart() -> None:
    HistoryLog("local").catch_up(START)


def kill_at(step: int) -> None:
    """Let the n-th of these calls never return, half done where it can be."""
    left = [step]

    def die_now() -> bool:
        left[0] -= 1
        return left[0] == 0

    def wrapped(owner: Any, name: str, half: Callable[..., object] | None = None) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if die_now():
                if half is not None:
                    half(original, *args)
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        setattr(owner, name, call)

    wrapped(
        os, "write", lambda original, descriptor, data: original(descriptor, bytes(data)[: len(data) // 2])
    )
    wrapped(os, "fsync")
    wrapped(os, "fdatasync")
    wrapped(Path, "rename")
    wrapped(pq.ParquetWriter, "write_table")
    wrapped(pq.ParquetWriter, "close")
    wrapped(models.Model, "save")
    wrapped(models.QuerySet, "update")
    wrapped(models.QuerySet, "delete")
    wrapped(os, "remove")
    wrapped(shutil, "move")
    wrapped(Path, "unlink")
    wrapped(Path, "replace")
    wrapped(files, "digest")


def attempts(
    prepare: Callable[[], None], work: Callable[[], object], check: Callable[[], object]
) -> list[Any]:
    """Return what `check` says after a kill at each step, and after none at the end."""
    found = []
    saved = FOLDER / "saved"
    prepare()
    connection.close()
    shutil.copytree(DATA, saved)
    for step in range(1, STEPS_MAX):
        shutil.rmtree(DATA)
        shutil.copytree(saved, DATA)
        child = os.fork()
        if child == 0:
            kill_at(step)
            work()
            connection.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found.append(check())
        connection.close()
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            break
    else:
        raise AssertionError(f"the work takes more than {STEPS_MAX} steps")
    shutil.rmtree(saved)
    return found


def fresh() -> None:
    share(False)
    shutil.rmtree(DATA / "history", ignore_errors=True)
    for model in MODELS:
        model.objects.all().delete()


def prepare_hours() -> None:
    fresh()
    append([*HOURS[0], *HOURS[1]])


def prepare_day() -> None:
    prepare_hours()
    for hour in range(2):
        archive.compact_hour("local", START + hour * HOUR_MS, interval_ms=5_000, now_ms=NOW)


def prepare_damage() -> None:
    prepare_day()
    row = HistoryFile.objects.filter(kind="chunk_hour").first()
    assert row is not None
    path = DATA / "history" / row.path
    path.write_bytes(path.read_bytes()[:-100])


def share(is_shared: bool) -> None:
    """Let the history lie where another host reads it, or where the log does."""
    settings.HISTORY_URL = f"file://{DATA}/{'shared' if is_shared else 'history'}"


def prepare_upload() -> None:
    prepare_hours()
    shutil.rmtree(DATA / "shared", ignore_errors=True)
    share(True)


def prepare_adoption() -> None:
    prepare_upload()
    uploads.maintain_own(NOW)


def adopt() -> None:
    """Be another host, which has nothing on its own disk, and make the first hour."""
    settings.HOST_ID, settings.DATA_DIR = "another", DATA / "another"
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=NOW)


def prepare_expiry() -> None:
    prepare_adoption()
    archive.maintain("local", interval_ms=5_000, now_ms=NOW)


def after_expiry() -> dict[str, Any]:
    archive.delete_expired(LATE)
    left = [str(path) for path in DATA.rglob("*") if path.suffix in (".wal", ".parquet")]
    states = sorted(set(HistoryFile.objects.values_list("state", flat=True)))
    return {"left": left, "states": states}


def after_append() -> list[int]:
    restart()
    append(history_of(START + 3 * HOUR_MS, 1, 999))  # what comes next goes behind it
    return [offset for offset in seen() if 2000 <= offset < 9_000]


def after_files() -> dict[str, Any]:
    before = seen()
    archive.maintain("local", interval_ms=5_000, now_ms=NOW + LEASE_MS)  # the dead process had the lease
    live = sorted({row.kind for row in HistoryFile.objects.filter(state="live")})
    missing = [
        row.path
        for row in HistoryFile.objects.filter(state="live")
        if not Path(archive.location_of(row)).exists()
    ]
    return {"before": before, "after": seen(), "live": live, "missing": missing}


def main() -> None:
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)

    def merge() -> None:
        archive.merge_day("local", START, now_ms=NOW)

    def compact() -> None:
        archive.compact_hour("local", START, interval_ms=5_000, now_ms=NOW)

    def heal() -> None:
        row = HistoryFile.objects.filter(kind="chunk_hour").first()
        assert row is not None
        archive.quarantine_if_damaged(row, NOW)

    wanted = [round_.max_offset.tolist()[0] for hour in HOURS for round_ in hour]
    print(json.dumps({"wanted": wanted, "appended": [one.max_offset.tolist()[0] for one in MORE]}))
    for name, prepare, work, check in (
        ("append", prepare_hours, lambda: append(MORE), after_append),
        ("compact", prepare_hours, compact, after_files),
        ("merge", prepare_day, merge, after_files),
        ("quarantine", prepare_damage, heal, after_files),
        ("upload", prepare_upload, lambda: uploads.maintain_own(NOW), after_files),
        ("adopt", prepare_adoption, adopt, after_files),
        ("expire", prepare_expiry, lambda: archive.delete_expired(LATE), after_expiry),
    ):
        print(json.dumps({"work": name, "found": attempts(prepare, work, check)}))


if __name__ == "__main__":
    main()
