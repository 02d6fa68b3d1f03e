"""Uploads and hour files of one worker host: a program of tests.support.forks, with the time and how many times."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import django

django.setup()

from console.lag.history import archive, uploads  # noqa: E402  models need the set-up


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    now_ms, times = map(int, arguments)
    for _ in range(times):
        uploads.maintain_own(now_ms)
        archive.maintain("local", interval_ms=1000, now_ms=now_ms)
        time.sleep(0.05)
    return 0
