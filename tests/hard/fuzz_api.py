"""REST against its own OpenAPI document: generated and broken calls get declared answers, never a failure of ours.

A round takes one operation and one mode (calls as documented, calls that break the document) and sends a few dozen
calls with names that exist, that do not, and with values that broke things elsewhere. Every answer must have a declared
status and content type and, where it is JSON, the declared shape. What a round changes is rolled back.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import requests
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.hard.tally import main

CALLS_A_ROUND = 25
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
# A broker that refuses or is away is theirs; everything else from 500 on is ours.
THEIRS = {
    502: {"broker_refused"},
    503: {"broker_unavailable", "client_silent"},
    504: {"broker_timeout"},
}
NAMES = {
    "cluster": ["test", "local"],
    "topic": ["orders", "%DLQ%billing"],
    "group": ["billing", "analytics"],
    "broker": ["broker-a", "broker-b"],
    "client": ["10.0.0.1@7"],
    "client_id": ["10.0.0.1@7"],
    "job": ["lag_hour", "episodes", "job-sample"],
    "job_id": ["job-sample"],
    "plan_id": ["op-sample"],
    "run": ["report-sample"],
    "fmt": ["csv", "parquet", "html"],
    "kind": ["topic_create", "topic_change", "group_change", "broker_config"],
    "subject": ["orders", "billing"],
    "target": ["latest", "earliest", "time", "failed_group"],
}
NASTY = [
    *(
        "",
        " ",
        "\x00",
        "\ud800",
        "a\x00b",
        "x" * 300,
        "../../etc/passwd",
        "%00",
        "'; drop table x --",
        "[",
        "(",
        "*",
    ),
    *(
        "\u202e",
        "🌊" * 40,
        "null",
        "NaN",
        "-0",
        "1e400",
        "9" * 40,
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00Z",
    ),
    *(-1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, math.inf, -math.inf, math.nan),
    *(None, True, [], {}, [[]], [None], {"a": {"a": {"a": []}}}, [1] * 500),
]
NASTY_TEXTS = [each for each in NASTY if isinstance(each, str)]
STREAMS = ("/messages/tail", "/messages/stream")


@dataclass(frozen=True, slots=True)
class World:
    """What the calls meet: a client that may do everything, and the operations of the document."""

    client: Any
    operations: list[Any]


worlds: list[World] = []  # the one that is built; `built` and the bounded test put it there


def run_round(round_seed: int) -> str:
    """Calls of one operation. Raises AssertionError for the first answer that breaks a promise."""
    world = worlds[0]
    rng = random.Random(round_seed)
    operation = rng.choice(world.operations)
    mode = rng.choice([GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    answered: set[int] = set()
    broken_promises: list[str] = []

    @seed(round_seed)
    @settings(
        max_examples=CALLS_A_ROUND,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def calls(case: Any) -> None:
        try:
            answered.add(judge(world, operation, case, rng))
        except AssertionError as error:  # Hypothesis would call again, with other names
            broken_promises.append(f"{error} {error.__cause__!r}")

    with rolled_back():
        calls()
    assert not broken_promises, "\n".join(broken_promises[:5])
    return "2xx" if any(status < 300 for status in answered) else "refused"


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic("default"), transaction.atomic("metrics"):
        yield
        for alias in ("default", "metrics"):
            transaction.set_rollback(True, alias)


def judge(world: World, operation: Any, case: Any, rng: random.Random) -> int:
    path, query, body = broken(operation, case, rng)
    told = f"{case.method} {path}?{query} {body[:300]!r}"
    with transaction.atomic("default"):  # a failed call must not end the round's transaction
        try:
            answer = world.client.generic(
                case.method, path, data=body, content_type="application/json", QUERY_STRING=query
            )
        except Exception as error:
            raise AssertionError(told) from error
    content = b"" if answer.streaming else answer.content
    if answer.streaming:
        answer.close()
    if answer.status_code >= 500:
        code = answer.json().get("code")
        assert code in THEIRS.get(answer.status_code, ()), f"{told}: {answer.status_code} {content[:500]!r}"
    sent = requests.Request(case.method, "http://testserver/").prepare()
    headers = {name.lower(): [value] for name, value in answer.headers.items()}
    received = Response(answer.status_code, headers, content, sent, 0.0, False)
    checks = CHECKS[:2] if answer.streaming or "json" not in answer.get("Content-Type", "") else CHECKS
    try:
        case.validate_response(received, checks=checks)
    except BaseExceptionGroup as group:
        failures = " | ".join(f"{each.title}: {each.message}"[:400] for each in group.exceptions)
        raise AssertionError(f"{told}: {answer.status_code} {content[:500]!r}: {failures}") from None
    return int(answer.status_code)


def broken(operation: Any, case: Any, rng: random.Random) -> tuple[str, str, bytes]:
    """The generated call with names that exist most of the time, and now and then a nasty value."""
    path = str(operation.path)
    for name, value in (case.path_parameters or {}).items():
        known = NAMES.get(name, [])
        chosen = rng.choice(known) if known and rng.random() < 0.85 else value
        chosen = rng.choice(NASTY_TEXTS) if rng.random() < 0.05 else chosen
        text = quote(str(chosen).encode("utf-8", "surrogatepass"), safe="") or "-"
        path = path.replace("{" + name + "}", text)
    query = {
        name: rng.choice(NASTY) if rng.random() < 0.15 else value
        for name, value in (case.query or {}).items()
    }
    if path.endswith(STREAMS):
        query |= {"seconds": 1, "limit": 1}  # a tail is answered when it is over
    pairs = [
        (name, _text(each))
        for name, value in query.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    body = case.body if isinstance(case.body, dict | list | str | int | float | bool | None) else {}
    if isinstance(body, dict):
        body = {
            name: rng.choice(NAMES[name])
            if name in NAMES and rng.random() < 0.7
            else rng.choice(NASTY)
            if rng.random() < 0.15
            else value
            for name, value in body.items()
        }
    raw = json.dumps(body).encode() if case.method != "GET" else b""
    if case.method != "GET" and rng.random() < 0.03:
        raw = rng.choice([b"", b"{", b"\xff\xfe", b"[" * 2_000, b'{"a":NaN}', b'"\\ud800"'])
    return path, urlencode(pairs), raw


def _text(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


# --- The world ----------------------------------------------------------------------------------------------


def build(broker: Any) -> World:
    """Rows of a sample cluster whose name server is away, and a live one with a topic, a group and dead letters."""
    from drf_spectacular.generators import SchemaGenerator
    from rest_framework.test import APIClient

    from api.rest.throttling import ScopeThrottle
    from console.access import services as access_services
    from console.lag import services as lag_services
    from tests.console.deadletter.letters import group_with_topics, write_letters
    from tests.console.operation.live_cluster import LiveCluster
    from tests.support import sample_rows
    from tests.support.sample_change import write_sample_change

    ScopeThrottle.RATES.update(dict.fromkeys(ScopeThrottle.RATES, 10**9))
    sample_rows.sample()
    live = LiveCluster(broker).register()
    group_with_topics(live)
    live.send("orders", 0, [b'{"a": 1}', b"\xff\x00", b""] * 5, KEYS="k1", TAGS="paid")
    live.commit("billing", "orders", 0, 2)
    write_letters(live, 10)
    lag_services.collect("test", now_ms=time.time_ns() // 1_000_000)
    write_sample_change()
    _, key = access_services.create_token(
        owner=access_services.ensure_first_person(), name="fuzz", scopes=["ADMIN"]
    )
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    document = SchemaGenerator().get_schema(request=None, public=True)
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    return World(client, [result.ok() for result in found])


@contextmanager
def built() -> Iterator[None]:
    """The world outside of pytest: databases in memory, a brokerd of its own."""
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    from console.brokers.mqadmin import close_admins
    from tests.support.broker_process import BrokerProcess

    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    with tempfile.TemporaryDirectory(prefix="tm-fuzz-") as folder:
        broker = BrokerProcess(Path(folder)).start()
        try:
            worlds[:] = [build(broker)]
            yield
        finally:
            close_admins()
            broker.stop()
            teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    import logging
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    logging.disable(logging.CRITICAL)
    with built():
        main("fuzz_api", run_round, rounds=600)
