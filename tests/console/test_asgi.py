"""Probes before Django, pages behind them."""

import json
import time
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError
from pytest_django import Settings

from console import asgi, health
from console.access.models import SignInFailure
from console.asgi import application
from console.celery import tick as tick_pool
from console.cluster.models import Cluster
from console.lag import metrics
from console.lag.models import BrokerRow, GroupRow, Round
from console.text import Text
from console.web.request_limit import REQUEST_BYTES_MAX, Receive, Send
from console.web.reverse_proxy import Scope, networks
from tests.console.web.test_unavailable import away

both = pytest.mark.django_db(databases=["default", "metrics"], transaction=True)
NOW_MS = 1_790_000_000_000
PROXIED = {"host": "localhost", "x-forwarded-for": "203.0.113.9"}


async def get(
    path: str,
    *,
    headers: dict[str, str] | None = None,
    client: str = "127.0.0.1",
    method: str = "GET",
    body: bytes = b"",
) -> tuple[int, dict[str, str], str]:
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": (client, 40000),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request", "body": body, "more_body": False})
    start = await asked.receive_output(30)
    body = b""
    while True:
        part = await asked.receive_output(10)
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    return (
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        body.decode(),
    )


def tick() -> None:
    for pool in ("collect", "operate"):
        tick_pool(pool)


async def test_it_says_it_lives_without_asking_anybody() -> None:
    status, headers, body = await get("/healthz", headers={"host": "10.1.2.3"})
    assert (status, body, headers["cache-control"]) == (200, "ok\n", "no-store")


@pytest.mark.django_db(transaction=True)
async def test_it_leaves_everything_else_to_django() -> None:
    status, headers, _ = await get("/", headers={"host": "localhost"})
    assert (status, headers["location"]) == (302, "/sign-in?next=/")
    assert (await get("/", headers={"host": "evil.example.org"}))[0] == 400
    assert (await get("/healthz", headers={"host": "localhost"}, method="POST"))[0] in (302, 404, 405)


@both
async def test_it_is_ready_when_every_part_answers(redis_url: str) -> None:
    tick()
    status, _, body = await get("/readyz")
    assert (status, json.loads(body)) == (
        200,
        {
            "ready": True,
            "parts": {
                "database default": "ok",
                "database metrics": "ok",
                "redis": "ok",
                "worker and beat": "ok",
                "disk": "ok",
            },
        },
    )


@both
@pytest.mark.parametrize("redis_is_there", [True, False])
async def test_strangers_learn_only_whether_it_is_ready(
    settings: Settings, redis_url: str, redis_is_there: bool
) -> None:
    health._last.until_s = 0.0
    tick()
    if not redis_is_there:
        settings.REDIS_URL = "unix:///nowhere/r.sock"
    for asked in ({"client": "10.0.0.9"}, {"headers": {"host": "evil.example"}}, {"headers": PROXIED}):
        found = (200, "ready\n") if redis_is_there else (503, "unready\n")
        status, headers, body = await get("/readyz", **asked)
        assert ((status, body), headers["content-type"]) == (found, "text/plain; charset=utf-8"), asked


@both
async def test_the_bearer_of_the_token_reads_the_reasons(settings: Settings) -> None:
    settings.METRICS_TOKEN = "s3cret"
    token = {"authorization": "Bearer s3cret"}
    assert "parts" in json.loads((await get("/readyz", headers=token, client="10.0.0.9"))[2])
    assert "parts" not in (await get("/readyz"))[2]


@both
async def test_strangers_cost_one_judgement_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    health._last.until_s = 0.0
    judged: list[int] = []
    monkeypatch.setattr(health, "readiness", lambda: judged.append(1) or health.Readiness([]))
    for _ in range(20):
        assert (await get("/readyz", client="10.0.0.9"))[0] == 200
    assert 1 <= len(judged) <= 2


@both
async def test_it_is_not_ready_without_redis(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/r.sock"
    status, _, body = await get("/readyz")
    assert status == 503
    assert json.loads(body)["parts"]["redis"].startswith("unix:///nowhere/r.sock: ")


@both
@pytest.mark.parametrize("alias", ["default", "metrics"])
def test_it_is_not_ready_without_a_database(redis_url: str, alias: str) -> None:
    with away(alias):
        report = health.readiness(NOW_MS)
    found = {part.name: part.reason for part in report.parts}
    assert found[f"database {alias}"] == (
        "unable to open database file; check that its server runs and is reachable from here"
    )
    assert not report.ready


async def test_a_socket_without_a_database_is_closed_in_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(asgi, "websocket_application", fail)
    scope = {"type": "websocket", "path": "/ws/live", "headers": [], "client": ("127.0.0.1", 40000)}
    asked = ApplicationCommunicator(application, scope)
    assert await asked.receive_output(30) == {"type": "websocket.close", "code": 1013}
    await asked.wait(30)
    assert "socket ended without the database path=/ws/live" in caplog.text


@both
async def test_metrics_name_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bytes:
        raise OperationalError("connection refused")

    monkeypatch.setattr(health, "metrics_text", fail)
    status, headers, body = await get("/metrics")
    assert (status, headers["content-type"]) == (503, "text/plain; charset=utf-8")
    assert body == "the console's database does not answer: connection refused\n"


@both
@pytest.mark.parametrize(
    ("age_s", "reason"),
    [
        (None, "no worker of the pool operate has run a beat tick yet"),
        (61, "the last beat tick of the pool operate was run 61 s ago; do beat and that worker run?"),
        (59, ""),
    ],
)
def test_it_is_not_ready_without_worker_and_beat(redis_url: str, age_s: int | None, reason: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("tidemark:tick:collect", NOW_MS)
        if age_s is not None:
            client.set("tidemark:tick:operate", NOW_MS - age_s * 1000)
    report = health.readiness(NOW_MS)
    assert {part.name: part.reason for part in report.parts}["worker and beat"] == reason
    assert report.ready is (reason == "")


@both
def test_it_reports_silent_brokers_and_stays_ready(redis_url: str) -> None:
    tick()
    for name in ("local", "new"):
        Cluster.objects.create(name=name, namesrv_addrs="a:1")
    Round.objects.create(cluster="local", number=1, started_at_ms=1, duration_ms=2)
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-b", addr="b:1", reason=Text("connection refused")
    )
    report = health.readiness()
    assert report.ready
    parts = {part.name: part.reason for part in report.parts}
    assert parts["cluster local"] == "broker-b does not answer: connection refused"
    assert parts["cluster new"] == "not collected yet"


def one_round() -> None:
    Cluster.objects.create(name="local", namesrv_addrs="a:1")
    GroupRow.objects.create(
        cluster="local", group="billing", status="OK", lag=7, time_lag_ms=1500, read_at_ms=1
    )
    GroupRow.objects.create(cluster="local", group="ghost", status="UNKNOWN", lag=None, read_at_ms=1)
    delays = {"loopDelay99": "3.5", "loopDelayMax": "250.0"}
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-a", addr="a:1", answered=True, in_rate=12.5, runtime=delays
    )
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-b", addr="b:1", answered=False, in_rate=12.5
    )
    now_ms = time.time_ns() // 1_000_000
    Round.objects.create(cluster="local", number=1, started_at_ms=now_ms, duration_ms=250, rpcs=9)


@both
async def test_it_measures_what_is_known_and_only_that() -> None:
    await sync_to_async(one_round)()
    status, headers, body = await get("/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = body.splitlines()
    for line in (
        'rocketmq_consumergroup_group_sum_lag{cluster="local",group="billing"} 7.0',
        'rocketmq_consumergroup_group_max_lag_seconds{cluster="local",group="billing"} 1.5',
        "tidemark_groups 2.0",
        'tidemark_broker_up{broker="broker-a",broker_id="0",cluster="local"} 1.0',
        'tidemark_broker_up{broker="broker-b",broker_id="0",cluster="local"} 0.0',
        'tidemark_broker_in_rate{broker="broker-a",broker_id="0",cluster="local"} 12.5',
        'tidemark_broker_loop_delay_p99_seconds{broker="broker-a",broker_id="0",cluster="local"} 0.0035',
        'tidemark_broker_loop_delay_max_seconds{broker="broker-a",broker_id="0",cluster="local"} 0.25',
        'tidemark_collector_round_seconds{cluster="local"} 0.25',
        'tidemark_collector_round_calls{cluster="local"} 9.0',
        "tidemark_websocket_clients 0.0",
    ):
        assert line in lines
    assert not [
        line
        for line in lines
        if line.startswith('rocketmq_consumergroup_group_sum_lag{cluster="local",group="ghost"')
    ]
    assert not [line for line in lines if line.startswith('tidemark_broker_in_rate{broker="broker-b"')]


@both
async def test_it_gives_figures_to_this_machine_or_the_bearer_of_the_token(settings: Settings) -> None:
    assert (await get("/metrics", client="10.0.0.9"))[0] == 403
    assert (await get("/metrics", headers=PROXIED))[0] == 403
    assert (await get("/metrics", headers={"host": "rebound.evil.example"}))[0] == 403
    settings.METRICS_TOKEN = "s3cret"
    assert (await get("/metrics"))[0] == 403
    assert (await get("/metrics", headers={"authorization": "Bearer guess"}))[0] == 403
    assert (await get("/metrics", headers={"authorization": "Bearer s3cret"}, client="10.0.0.9"))[0] == 200


@both
def test_it_limits_what_prometheus_must_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "GROUPS_MAX", 2)
    Cluster.objects.create(name="local", namesrv_addrs="a:1")
    Round.objects.create(
        cluster="local", number=1, started_at_ms=time.time_ns() // 1_000_000, duration_ms=250
    )
    for number in range(4):
        GroupRow.objects.create(cluster="local", group=f"g{number}", status="OK", lag=1, attention=number)
    lines = health.metrics_text().decode().splitlines()
    assert [line for line in lines if line.startswith("rocketmq_consumergroup_group_sum_lag{")] == [
        'rocketmq_consumergroup_group_sum_lag{cluster="local",group="g3"} 1.0',
        'rocketmq_consumergroup_group_sum_lag{cluster="local",group="g2"} 1.0',
    ]
    assert "tidemark_groups 4.0" in lines
    assert 'tidemark_metrics_left_out{of="group"} 2.0' in lines


def test_it_ticks(redis_url: str) -> None:
    tick()
    with redis.Redis.from_url(redis_url) as client:
        for pool in ("collect", "operate"):
            assert abs(int(client.get(f"tidemark:tick:{pool}")) - time.time_ns() // 1_000_000) < 5_000


async def test_it_refuses_what_is_too_large_before_it_is_read() -> None:
    headers = {"host": "localhost", "content-length": str(REQUEST_BYTES_MAX + 1)}
    status, answered, body = await get("/sign-in", headers=headers, method="POST")
    assert (status, answered["connection"]) == (413, "close")
    assert "at most 8,388,608 bytes" in body and "Nothing was changed" in body
    assert "default-src 'none'" in answered["content-security-policy"]
    assert answered["x-content-type-options"] == "nosniff"


async def test_a_request_that_is_too_large_is_refused_in_the_readers_language() -> None:
    headers = {"host": "any", "accept-language": "zh-CN", "content-length": str(REQUEST_BYTES_MAX + 1)}
    status, answered, body = await get("/c/local/groups", headers=headers, method="POST")
    assert (status, answered["content-type"]) == (413, "text/html; charset=utf-8")
    assert "请求过大" in body and '<html lang="zh-hans"' in body


async def test_rest_refuses_what_is_too_large_with_problem_details() -> None:
    headers = {"host": "localhost", "accept-language": "zh-CN", "content-length": "9" * 12}
    status, answered, body = await get("/api/v1/clusters", headers=headers, method="POST")
    assert (status, answered["content-type"]) == (413, "application/problem+json")
    problem = json.loads(body)
    assert (problem["code"], problem["instance"]) == ("too_large", "/api/v1/clusters")
    assert "larger than 8,388,608 bytes. Nothing was changed. Send a smaller one." in problem["detail"]


@pytest.mark.django_db(transaction=True)
async def test_it_refuses_what_turns_out_to_be_too_large() -> None:
    headers = {"host": "localhost", "transfer-encoding": "chunked"}
    assert (await get("/sign-in", headers=headers, method="POST", body=b"x" * REQUEST_BYTES_MAX))[0] == 403
    assert (await get("/sign-in", headers=headers, method="POST", body=b"x" * (REQUEST_BYTES_MAX + 1)))[
        0
    ] == 413


@pytest.mark.django_db(transaction=True)
async def test_a_trusted_proxy_names_the_client(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = networks(["127.0.0.1"])
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    headers = PROXIED | {"content-type": "application/x-www-form-urlencoded"}
    page = await get("/sign-in", headers=headers)
    token = page[1]["set-cookie"].partition(";")[0]
    body = b"username=x&password=y&csrfmiddlewaretoken=" + token.partition("=")[2].encode()
    answer = await get("/sign-in", headers=headers | {"cookie": token}, method="POST", body=body)
    assert answer[0] == 422
    failure = await sync_to_async(SignInFailure.objects.get)()
    assert failure.remote_addr == "203.0.113.9"
