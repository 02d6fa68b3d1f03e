"""A process of a worker host, forked by tests.support.forks: a program of Celery, or one that makes files.

worker -Q collect …
beat
files TIME TIMES
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import django

django.setup()

from console import workers  # noqa: E402  models need the set-up
from console.celery import app  # noqa: E402
from console.lag.history import archive, uploads  # noqa: E402

workers.load()


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    if arguments[0] == "files":
        make_files(*map(int, arguments[1:]))
    else:
        app.start(list(arguments))
    return 0


def make_files(now_ms: int, times: int) -> None:
    for _ in range(times):
        uploads.maintain_own(now_ms)
        archive.maintain("local", interval_ms=1000, now_ms=now_ms)
        time.sleep(0.05)
