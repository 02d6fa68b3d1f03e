"""Every address and every socket with who may use it, in one table; an address that is not in it fails the test.

Checked for each route and method: strangers are sent to sign in (REST: 401), people without a role and people who may
look at another name only are refused, readers can not change anything, a change by session needs its CSRF token, and
methods that are not in the table are 405. Pages that everybody may open show no name of somebody else.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console import quota, routing
from console.cluster.models import Cluster
from console.operation.models import Job, Plan
from tests.console.report import rows as report_rows
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Who may: anybody · who signed in · who may see anything of the cluster (rows of others are left out) · who may do the
# verb to the whole cluster · who may do it to the name in the address.
OPEN, PERSON, SOME, WHOLE, NAMED = "open", "person", "some", "whole", "named"
HIDDEN = ("analytics", "billing", "notifier", "fraud", "orders", "op-sample", "job-sample")


class Route(NamedTuple):
    """GET and POST: who may, and the verb it takes. `whole` routes are of the cluster, `named` of `name`."""

    get: tuple[str, str] | None = None
    post: tuple[str, str] | None = None
    delete: tuple[str, str] | None = None
    body: Mapping[str, Any] = {}

    def methods(self) -> set[str]:
        return {name for name, who in zip(("GET", "POST", "DELETE"), self[:3], strict=True) if who}


def view(who: str) -> Route:
    return Route(get=(who, "VIEW"))


def change(verb: str, who: str = NAMED, **body: Any) -> Route:
    return Route(post=(who, verb), body=body)


def form(verb: str, who: str = NAMED, reader: tuple[str, str] | None = None, **body: Any) -> Route:
    """A page with a form: shown to who may send it, or to `reader`."""
    return Route(get=reader or (who, verb), post=(who, verb), body=body)


NEW_TOPIC = {"name": "fresh", "brokers": "broker-a", "read_queues": 1, "write_queues": 1, "perm": 6}
NEW_GROUP = {"name": "fresh", "brokers": "broker-a", "retry_max_times": 1, "retry_queues": 1}
PAGES = {
    "sign-in": Route(get=(OPEN, ""), post=(OPEN, "")),
    "sign-in-link": Route(get=(OPEN, ""), post=(OPEN, "")),
    "sign-out": Route(post=(PERSON, "")),
    "set-password": Route(get=(PERSON, ""), post=(PERSON, "")),
    "columns": Route(post=(PERSON, ""), body={"of": 12, "on": "3"}),
    "language": Route(post=(OPEN, ""), body={"language": "zh-hans", "next": "/"}),
    "script-words": Route(get=(OPEN, "")),
    "said": Route(get=(PERSON, "")),
    "tokens": Route(get=(PERSON, ""), post=(PERSON, "")),
    "token-revoke": Route(post=(PERSON, "")),
    "activity": view(WHOLE),
    "home": view(PERSON),
    "clusters": Route(get=(PERSON, ""), post=(WHOLE, "ADMIN")),
    "overview": view(SOME),
    "jump": view(SOME),
    "brokers": view(SOME),
    "broker": view(SOME),
    "broker-config": form("CONFIGURE"),
    "broker-drain": change("CONFIGURE"),
    "name-servers": view(WHOLE),
    "topics": view(SOME),
    "topic-create": form("CONFIGURE", reader=(SOME, "VIEW"), **NEW_TOPIC),
    "topic": view(NAMED),
    "topic-change": form("CONFIGURE"),
    "topic-delete": form("CONFIGURE"),
    "topic-release": change("CONFIGURE"),
    "groups": view(SOME),
    "group": view(NAMED),
    "group-client": view(NAMED),
    "group-watch": change("VIEW"),
    "offset-change": form("RESET"),
    "group-create": form("CONFIGURE", reader=(SOME, "VIEW"), **NEW_GROUP),
    "group-settings": form("CONFIGURE", reader=(NAMED, "VIEW")),
    "group-delete": form("CONFIGURE"),
    "group-release": change("CONFIGURE"),
    "group-pause": form("CONFIGURE", reader=(NAMED, "VIEW"), deed="pause"),
    "group-resume": change("CONFIGURE"),
    "group-mode": form("CONFIGURE", reader=(NAMED, "VIEW")),
    "messages": view(SOME),
    "message-export": view(WHOLE),
    "message-send": form("SEND", WHOLE, reader=(WHOLE, "VIEW"), topic="orders", encoding="text", body="x"),
    "message-schema": form("CONFIGURE", WHOLE),
    "message": view(SOME),
    "dead-letters": view(SOME),
    "dead-letter-group": form("REPLAY", reader=(NAMED, "VIEW")),
    "dead-letter-readable": change("CONFIGURE"),
    "dead-letter-export": view(NAMED),
    "dead-letter-ledger": view(NAMED),
    "operations": view(SOME),
    "job": view(NAMED),
    "job-control": change("RESET"),
    "plan": view(NAMED),
    "plan-apply": change("RESET"),
    "plan-deed": change("RESET"),
    "reports": view(SOME),
    "group-report": view(NAMED),
    "group-slo": change("CONFIGURE"),
    "report": view(SOME),
    "report-run": change("REPORT", WHOLE),
    "report-schedule": change("CONFIGURE", WHOLE),
    "report-download": view(SOME),
}
REST = {
    "api-clusters": Route(
        get=(PERSON, ""), post=(WHOLE, "ADMIN"), body={"name": "new", "namesrv_addrs": "127.0.0.1:1"}
    ),
    "api-cluster": view(WHOLE),
    "api-brokers": view(SOME),
    "api-broker": view(SOME),
    "api-broker-runtime": view(WHOLE),
    "api-broker-config": view(WHOLE),
    "api-config-differences": view(WHOLE),
    "api-name-servers": view(WHOLE),
    "api-route-differences": view(WHOLE),
    "api-group-settings": view(NAMED),
    "api-topic-config": view(NAMED),
    "api-topic-producers": view(NAMED),
    "api-topic-quarantine": view(NAMED),
    "api-topics": view(SOME),
    "api-topic": view(NAMED),
    "api-topic-queues": view(NAMED),
    "api-topic-groups": view(NAMED),
    "api-groups": view(SOME),
    "api-group": view(NAMED),
    "api-group-client-running-info": view(NAMED),
    "api-group-flow": view(NAMED),
    "api-group-pauses": view(NAMED),
    "api-group-queues": view(NAMED),
    "api-group-clients": view(NAMED),
    "api-group-lag": view(NAMED),
    "api-group-latency": view(NAMED),
    "api-group-throughput": view(NAMED),
    "api-messages": view(NAMED),
    "api-message-stream": view(NAMED),
    "api-message-tail": view(NAMED),
    "api-message-export": view(NAMED),
    "api-message": view(NAMED),
    "api-send-plans": change("SEND", topic="orders", body="x"),
    "api-replay-plans": change("REPLAY", group="billing", target="failed_group"),
    "api-dlq-readable-plans": change("CONFIGURE", group="billing"),
    "api-dead-letters": view(SOME),
    "api-dead-letter-group": view(NAMED),
    "api-ledger": view(NAMED),
    "api-offset-plans": change("RESET", group="billing", target="latest"),
    "api-config-plans": change("CONFIGURE", kind="topic_create", subject="orders"),
    "api-plans": view(SOME),
    "api-jobs": view(SOME),
    "api-plan": view(NAMED),
    "api-plan-apply": change("RESET"),
    "api-plan-undo": change("RESET"),
    "api-plan-discard": change("RESET"),
    "api-plan-approve": change("RESET"),
    "api-job": view(NAMED),
    "api-job-pause": change("RESET"),
    "api-job-resume": change("RESET"),
    "api-job-cancel": change("RESET"),
    "api-job-rate": change("RESET", rate_per_s=5),
    "api-report-runs": view(SOME),
    "api-report-job-runs": change("REPORT", WHOLE),
    "api-report-rows": view(SOME),
    "api-report-rows-csv": view(SOME),
    "api-report-run": view(SOME),
    "api-report-schedules": view(WHOLE),
    "api-report-schedule": change("CONFIGURE", WHOLE),
    "api-group-slo": Route(
        get=(NAMED, "VIEW"),
        post=(NAMED, "CONFIGURE"),
        delete=(NAMED, "CONFIGURE"),
        body={"slo_ms": 1, "target": 0.9},
    ),
    "api-report-lines": view(SOME),
    "api-group-latency-heat": view(NAMED),
    "api-group-retention-room": view(NAMED),
    "api-report-export": view(SOME),
    "api-tokens": Route(get=(PERSON, ""), post=(PERSON, "")),
    "api-token": Route(delete=(PERSON, "")),
    "api-audit": view(WHOLE),
    "api-schema": Route(get=(PERSON, "")),
    "api-docs": Route(get=(PERSON, "")),
}
TABLE = PAGES | REST
# Addresses without a name: everything else under /api/v1 is a 404 document, and Django's admin asks for staff.
NAMELESS = {"api/v1/<path:rest>", "admin/login/"}


def routes(patterns: list[Any], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for each in patterns:
        address = before + str(each.pattern)
        if isinstance(each, URLResolver):
            if address != "admin/":
                yield from routes(each.url_patterns, address)
        else:
            yield address, each


@functools.cache
def address_of(name: str) -> str:
    """The address of a route, with names of what `world` made."""
    pattern = next(each for _, each in routes(get_resolver().url_patterns) if each.name == name)
    is_job = name in ("job", "job-control", "api-ledger") or name.startswith("api-job-") or name == "api-job"
    known = {
        "cluster": "local",
        "code": "zh-hans",
        "topic": "orders",
        "group": "billing",
        "broker": "broker-a",
        "client_id": "10.0.0.1@7",
        "client": "10.0.0.1@7",
        "message_id": "0" * 32,
        "job": "job-sample" if is_job else "episodes" if name == "api-report-lines" else "lag_hour",
        "job_id": "job-sample",
        "plan": "op-sample",
        "plan_id": "op-sample",
        "run": "report-sample",
        "deed": "cancel" if name == "job-control" else "discard",
        "fmt": "csv",
        "key": "no-such-key",
        "table": "groups",
        "prefix": "tm_nothing",
    }
    converters = pattern.pattern.converters | pattern.pattern.regex.groupindex  # type: ignore[operator]
    wanted = set(converters) | ({"cluster"} if needs_cluster(name) else set())
    return reverse(name, kwargs={key: known[key] for key in wanted})


def needs_cluster(name: str) -> bool:
    return any(
        each.name == name and address.startswith("c/<str:cluster>/")
        for address, each in routes(get_resolver().url_patterns)
    )


@pytest.fixture
def world() -> Cluster:
    """The sample cluster with a plan, its job, a report's run, all about what `HIDDEN` names."""
    here = sample_rows.sample()
    now = timezone.now()
    plan = Plan.objects.create(
        id="op-sample",
        kind="offset_change",
        cluster="local",
        subject="billing",
        state="APPLIED",
        created_by="somebody",
        created_at=now,
        expires_at=now,
    )
    Job.objects.create(
        id="job-sample",
        plan=plan,
        kind=plan.kind,
        cluster="local",
        subject="billing",
        created_by="somebody",
        created_at=now,
    )
    report_rows.row(report_rows.run("report-sample"), window_start_ms=int(time.time()) // 3_600 * 3_600_000)
    return here


def ask(client: Client, method: str, name: str, **headers: Any) -> Any:
    quota.forget_local()  # hundreds of requests by one person: limits per minute have tests of their own
    body = dict(TABLE[name].body)
    send = getattr(client, method.lower())
    if method == "GET":
        return send(address_of(name), **headers)
    if name in REST:
        return send(address_of(name), body, content_type="application/json", **headers)
    return send(address_of(name), body, **headers)


CASES = [(name, method) for name, route in TABLE.items() for method in sorted(route.methods())]
GUARDED = [
    (name, method) for name, method in CASES if getattr(TABLE[name], method.lower())[0] not in (OPEN, PERSON)
]


def who_and_verb(name: str, method: str) -> tuple[str, str]:
    found: tuple[str, str] = getattr(TABLE[name], method.lower())
    return found


def test_every_address_is_in_the_table() -> None:
    found = list(routes(get_resolver().url_patterns))
    assert {each.name for _, each in found if each.name} == set(TABLE)
    assert {address for address, each in found if not each.name} == NAMELESS


def test_every_socket_is_in_the_table() -> None:
    assert {str(each.pattern) for each in routing._routes} == {
        "ws/live",
        "ws/c/<str:cluster>/messages",
    }


def answers(client: Client, cases: list[tuple[str, str]]) -> Iterator[tuple[str, str, Any]]:
    for name, method in cases:
        yield name, method, ask(client, method, name)


def test_strangers_are_asked_to_sign_in(world: Cluster) -> None:
    wrong = {}
    for name, method, answer in answers(Client(), CASES):
        if who_and_verb(name, method)[0] == OPEN:
            is_right = answer.status_code in (200, 410, 422) or answer.headers.get("Location") == "/"
        elif name in REST and name != "api-docs":
            is_right = answer.status_code == 401
        else:
            is_right = answer.status_code == 302 and answer["Location"].split("?")[0] == "/sign-in"
        if not is_right:
            wrong[name, method] = answer.status_code
    assert wrong == {}


def test_people_without_a_role_are_refused(world: Cluster) -> None:
    found = answers(signed_in("nobody", verbs=()), GUARDED)
    assert {each[:2]: each[2].status_code for each in found if each[2].status_code not in (403, 404)} == {}


# The right is asked for with the name, which stands in the form: the page comes back with the reason.
NAME_IN_FORM = ("topic-create", "group-create", "message-send")


def is_refused(name: str, answer: Any) -> bool:
    if answer.status_code in (403, 404):
        return True
    is_form = name in NAME_IN_FORM and answer.status_code == 422
    return is_form and " may not " in answer.content.decode()


def test_people_of_another_name_are_refused_and_read_no_name_of_others(world: Cluster) -> None:
    verbs = ("VIEW", "SEND", "CONFIGURE", "RESET", "REPLAY", "REPORT")
    wrong: dict[tuple[str, str], Any] = {}
    for name, method, answer in answers(signed_in("narrow", verbs=verbs, names="unrelated"), GUARDED):
        if who_and_verb(name, method)[0] != SOME:
            if not is_refused(name, answer):
                wrong[name, method] = answer.status_code
            continue
        body = b"".join(answer) if answer.streaming else answer.content
        text = body.decode().replace(address_of(name), "")
        seen = [word for word in HIDDEN if word in text]
        if seen or answer.status_code not in ((404, 503) if name == "message" else (200,)):
            wrong[name, method] = (answer.status_code, seen)
    assert wrong == {}


def test_who_may_only_look_changes_nothing(world: Cluster) -> None:
    cases = [case for case in GUARDED if who_and_verb(*case)[1] not in ("VIEW", "")]
    wrong = {}
    for name, method, answer in answers(signed_in("reader", verbs=("VIEW",)), cases):
        if name == "job-control":  # back to the job's page, which says why
            assert Job.objects.get().cancel_requested is False
        elif not is_refused(name, answer):
            wrong[name, method] = answer.status_code
    assert wrong == {}
    assert [plan.state for plan in Plan.objects.all()] == ["APPLIED"]


def test_a_change_by_session_needs_its_csrf_token(world: Cluster) -> None:
    signed_in()
    wrong = {}
    for name, method in CASES:
        if method != "GET":
            client = Client(enforce_csrf_checks=True)
            if who_and_verb(name, method)[0] != OPEN:
                client.force_login(User.objects.get(username="admin"))
            answer = ask(client, method, name)
            if answer.status_code != 403:
                wrong[name, method] = answer.status_code
    assert wrong == {}


def test_other_methods_are_refused(world: Cluster) -> None:
    client = signed_in()
    wrong = {}
    for name, route in TABLE.items():
        for method in set(METHODS) - route.methods():
            quota.forget_local()
            answer = getattr(client, method.lower())(address_of(name))
            if answer.status_code != 405:
                wrong[name, method] = answer.status_code
    assert wrong == {}


def test_every_answer_has_the_headers_that_keep_foreign_code_out(world: Cluster) -> None:
    wrong = {}
    for name, method, answer in answers(signed_in(), [case for case in CASES if case[1] == "GET"]):
        policy = answer.get("Content-Security-Policy", "")
        if (
            "default-src 'none'" not in policy
            or "unsafe" in policy
            or answer.get("X-Content-Type-Options") != "nosniff"
            or answer.get("X-Frame-Options") != "DENY"
        ):
            wrong[name, method] = policy
        assert answer.status_code < 500 or answer.status_code == 503, name
    assert wrong == {}
