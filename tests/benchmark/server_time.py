"""What a page costs the console: the processor's time from request to the last byte, in the process that asks.

Without browser and socket: Django answers a signed-in test client, middleware and templates included, so that a busy
machine lengthens little. Part `server` of `page_speed`.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import django

VISITS = 7


def of_paths(client: Any, paths: Mapping[str, str]) -> dict[str, Any]:
    """Milliseconds by name of a page, after a first visit, and its bytes before compression."""
    import console.asgi  # noqa: F401  (what the process that serves does about garbage)

    found = {}
    for name, path in paths.items():
        took = []
        for _ in range(VISITS + 1):
            began = time.process_time()
            answer = client.get(path)
            body = answer.getvalue()
            took.append((time.process_time() - began) * 1_000)
        first, *rest = took
        found[name] = {
            "cpu_ms": round(statistics.median(rest), 1),
            "worst_ms": round(max(rest), 1),
            "first_ms": round(first, 1),
            "html_bytes": len(body),
        }
    return found


def of_product(data: Path, paths: Mapping[str, str]) -> dict[str, Any]:
    """The pages of a running product, from its data folder, as its administrator sees them."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_of_product, data, dict(paths)).result()


def _of_product(data: Path, paths: Mapping[str, str]) -> dict[str, Any]:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="console.settings",
        TIDEMARK_DATA=str(data),
        ALLOWED_HOSTS="testserver",
        LOG_LEVEL="CRITICAL",
    )
    django.setup()
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.filter(is_superuser=True)[0])
    return of_paths(client, paths)
