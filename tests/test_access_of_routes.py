"""Every address, socket subject, kind of plan and task against who may use it (`tests.support.access_table`).

Checked for each route and method: strangers are sent to sign in (REST: 401), people without a role, of another cluster
and of another name are refused, each verb and each scope of a token opens what the table says and nothing else, a
change by session needs its CSRF token, and methods that are not in the table are 405. Pages that everybody may open
show no name of somebody else. What exists and is not in the table fails.
"""

from __future__ import annotations

import ast
import datetime
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console import routing
from console.access import services as access_services
from console.access.models import ApiToken
from console.celery import app
from console.cluster.models import Cluster
from console.operation.models import Job, Plan
from console.plans import PLAN_KINDS
from console.text import Text
from console.web import quota
from tests.support import access_table as table
from tests.support import sample_rows
from tests.support.access_table import (
    HIDDEN,
    METHODS,
    NAMED,
    NAMELESS,
    OPEN,
    PAGES,
    PERSON,
    REST,
    ROWS,
    SOME,
    TABLE,
    VERBS,
    WHOLE,
)
from tests.support.people import signed_in
from tests.support.sample_change import write_sample_change

CONSOLE = Path(__file__).parent.parent / "console"
pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


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
        "action": "cancel" if name == "job-control" else "discard",
        "fmt": "csv",
        "key": "no-such-key",
        "table": "groups",
        "what": "account",
        "prefix": "tm_nothing",
    }
    converters = pattern.pattern.converters | pattern.pattern.regex.groupindex  # type: ignore[operator]
    wanted = set(converters) | ({"cluster"} if needs_cluster(name) else set())
    address = reverse(name, kwargs={key: known[key] for key in wanted})
    query = TABLE[name].query if name in TABLE else {}
    return f"{address}?{urlencode(query)}" if query else address


def needs_cluster(name: str) -> bool:
    return any(
        each.name == name and address.startswith(("c/<str:cluster>/", "api/classic/<str:cluster>/"))
        for address, each in routes(get_resolver().url_patterns)
    )


@pytest.fixture
def world() -> Cluster:
    """The sample cluster with a plan, its job, a report's run, all about what `HIDDEN` names."""
    here = sample_rows.sample()
    write_sample_change()
    return here


def ask(client: Client, method: str, name: str, **headers: Any) -> Any:
    quota.clear_local()  # hundreds of requests by one person: limits per minute have tests of their own
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
        usual = {"message": (404, 503), "message-save": (302,)}.get(name, (200,))
        if seen or answer.status_code not in usual:
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
            quota.clear_local()
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


def reads_hidden(name: str, answer: Any) -> list[str]:
    body = b"".join(answer) if answer.streaming else answer.content
    text, asked = body.decode(errors="replace"), address_of(name)  # a refusal repeats what was asked for
    return [word for word in HIDDEN if word in text and word not in asked]


def test_people_of_another_cluster_are_refused_and_read_nothing(world: Cluster) -> None:
    """Every verb, everywhere else."""
    Cluster.objects.create(name="other", namesrv_addrs="127.0.0.1:1")
    client = signed_in("elsewhere", verbs=VERBS, cluster="other")
    wrong = {}
    for name, method, answer in answers(client, GUARDED):
        seen = reads_hidden(name, answer)
        empty = name in WITHOUT_CLUSTER and answer.status_code == 200
        if seen or (answer.status_code not in (403, 404) and not empty):
            wrong[name, method] = (answer.status_code, seen)
    assert wrong == {}


# Lists over all clusters: they show rows of those one may see.
WITHOUT_CLUSTER = ("api-plans", "api-jobs")


def needs(name: str, method: str) -> str:
    """The verb of the table; "" where any verb opens the door."""
    who, verb = who_and_verb(name, method)
    return "" if who in (OPEN, PERSON) else verb


def misjudged(client: Client, verb: str, cases: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """What one verb opened though the table says no, or did not though it says yes."""
    return wrongly_answered(client, cases, lambda wanted: verb in ("ADMIN", wanted) or wanted in ("VIEW", ""))


def wrongly_answered(
    client: Client, cases: list[tuple[str, str]], opens_for: Callable[[str], bool]
) -> dict[tuple[str, str], int]:
    wrong = {}
    for name, method, answer in answers(client, cases):
        opens = opens_for(needs(name, method))
        if name == "job-control":  # back to the job's page, which says why: its job must be as it was
            was = Job.objects.get().cancel_requested
            Job.objects.update(cancel_requested=False)
            if was is not opens:
                wrong[name, method] = answer.status_code
        elif opens == (answer.status_code in (401, 403) or (not opens and is_refused(name, answer))):
            wrong[name, method] = answer.status_code
    return wrong


def all_but(verb: str) -> tuple[str, ...]:
    """Every verb that does not include it: what all of them together do not open, none of them does."""
    return tuple(other for other in VERBS if other not in ("ADMIN", verb))


def cases_of(verb: str, cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What needs the verb and, as any verb opens it, a share of what needs VIEW or no certain one; ADMIN has all."""
    anyone = [case for case in cases if needs(*case) in ("VIEW", "")]
    if verb == "ADMIN":
        return cases
    if verb == "VIEW":
        return anyone
    others = [each for each in VERBS if each not in ("ADMIN", "VIEW")]
    return [case for case in cases if needs(*case) == verb] + anyone[others.index(verb) :: len(others)]


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_opens_what_the_table_says(world: Cluster, verb: str) -> None:
    everywhere = ("clusters", "api-clusters") if verb == "ADMIN" else ()  # ADMIN adds one, if it answers
    cases = cases_of(verb, [case for case in GUARDED if case[1] != "GET" or needs(*case) != "VIEW"])
    found = misjudged(signed_in("single", verbs=(verb,)), verb, cases)
    assert {case: status for case, status in found.items() if case[0] not in everywhere} == {}


@pytest.mark.parametrize("verb", sorted({needs(*case) for case in GUARDED} - {"VIEW", ""}))
def test_all_other_verbs_together_do_not_open_it(world: Cluster, verb: str) -> None:
    cases = [case for case in GUARDED if needs(*case) == verb]
    client = signed_in("others", verbs=all_but(verb))
    assert wrongly_answered(client, cases, lambda wanted: False) == {}


REST_CASES = [case for case in GUARDED if case[0] in REST and case[0] != "api-docs"]


def with_token(*scopes: str, cluster: str = "*", **fields: Any) -> Client:
    owner = User.objects.filter(username="owner").first() or User.objects.create_superuser("owner")
    _, key = access_services.create_token(
        owner=owner, name="t", scopes=scopes, cluster_pattern=cluster, **fields
    )
    return Client(headers={"authorization": f"Bearer {key}"})


@pytest.mark.parametrize("scope", VERBS)
def test_each_scope_of_a_token_opens_what_the_table_says(world: Cluster, scope: str) -> None:
    assert misjudged(with_token(scope), scope, cases_of(scope, REST_CASES)) == {}


@pytest.mark.parametrize("scope", sorted({needs(*case) for case in REST_CASES} - {"VIEW", ""}))
def test_all_other_scopes_of_a_token_do_not_open_it(world: Cluster, scope: str) -> None:
    cases = [case for case in REST_CASES if needs(*case) == scope]
    assert wrongly_answered(with_token(*all_but(scope)), cases, lambda wanted: False) == {}


def test_a_token_of_another_cluster_opens_nothing(world: Cluster) -> None:
    wrong = {}
    for name, method, answer in answers(with_token("ADMIN", cluster="other"), REST_CASES):
        empty = name in WITHOUT_CLUSTER and answer.status_code == 200
        if reads_hidden(name, answer) or (answer.status_code not in (403, 404) and not empty):
            wrong[name, method] = answer.status_code
    assert wrong == {}


def test_a_token_allows_no_more_than_its_owner(world: Cluster) -> None:
    signed_in("reader", verbs=("VIEW",))
    _, key = access_services.create_token(
        owner=User.objects.get(username="reader"), name="t", scopes=["ADMIN"]
    )
    client = Client(headers={"authorization": f"Bearer {key}"})
    assert misjudged(client, "VIEW", REST_CASES) == {}


def test_tokens_open_no_page_and_no_token_makes_or_ends_another(world: Cluster) -> None:
    pages = [
        case for case in CASES if case[0] in PAGES and who_and_verb(*case)[0] != OPEN and case[1] == "GET"
    ]
    wrong = {
        (name, method): answer.status_code
        for name, method, answer in answers(with_token("ADMIN"), pages)
        if answer.status_code != 302 or not answer["Location"].startswith("/sign-in")
    }
    assert wrong == {}
    narrow = with_token("CONFIGURE")
    assert ask(narrow, "POST", "api-tokens").status_code == 403
    assert ask(narrow, "DELETE", "api-token").status_code == 403


@pytest.mark.parametrize("end", ["expired", "revoked", "owner left", "unknown"])
def test_a_token_that_ended_opens_nothing(world: Cluster, end: str) -> None:
    client = with_token("ADMIN", expires_at=timezone.now() if end == "expired" else None)
    if end == "revoked":
        ApiToken.objects.update(revoked_at=timezone.now())
    elif end == "owner left":
        User.objects.filter(username="owner").update(is_active=False)
    elif end == "unknown":
        ApiToken.objects.all().delete()
    cases = [case for case in CASES if case[0] in REST and case[0] != "api-docs"]
    found = {answer.status_code for _, _, answer in answers(client, cases)}
    assert found == {401}


# --- Plans --------------------------------------------------------------------------------------------------


def test_every_kind_of_plan_is_in_the_table() -> None:
    assert {kind: str(plan.verb) for kind, plan in PLAN_KINDS.items()} == table.KINDS


@pytest.fixture
def plans(world: Cluster) -> None:
    """A draft of every kind."""
    now = timezone.now()
    for kind in table.KINDS:
        Plan.objects.create(
            id=f"op-{kind}"[:32],
            kind=kind,
            cluster="local",
            subject="billing",
            state="DRAFT",
            params={"tags": "", "keys": "", "properties": {}} if kind == "message_send" else {},
            created_by="another",
            created_at=now,
            expires_at=now + datetime.timedelta(minutes=10),
            blocked=Text("nothing is sent in this test"),
        )


def steps(client: Client, kinds: Iterable[str], *, are_refused: bool) -> dict[tuple[str, str], int]:
    """Try each step of a plan's life; return what was answered otherwise."""
    wrong = {}
    for kind in kinds:
        for step in ("apply", "approve", "undo", "discard"):
            quota.clear_local()
            answer = client.post(
                f"/api/v1/plans/{f'op-{kind}'[:32]}/{step}", {}, content_type="application/json"
            )
            if are_refused is not (answer.status_code == 403):
                wrong[kind, step] = answer.status_code
    return wrong


def test_admin_moves_plans_of_every_kind(plans: None) -> None:
    assert steps(signed_in("single", verbs=("ADMIN",)), table.KINDS, are_refused=False) == {}


@pytest.mark.parametrize("verb", sorted({*table.KINDS.values()} - {"ADMIN"}))
def test_each_verb_moves_the_plans_of_its_kinds(plans: None, verb: str) -> None:
    kinds = [kind for kind, wanted in table.KINDS.items() if wanted == verb]
    assert steps(signed_in("single", verbs=(verb,)), kinds, are_refused=False) == {}


@pytest.mark.parametrize("verb", sorted({*table.KINDS.values()}))
def test_all_other_verbs_together_do_not_move_them(plans: None, verb: str) -> None:
    kinds = [kind for kind, wanted in table.KINDS.items() if wanted == verb]
    assert steps(signed_in("others", verbs=all_but(verb)), kinds, are_refused=True) == {}


# --- Sockets ------------------------------------------------------------------------------------------------


def subjects_of_code() -> set[str]:
    """Every text of the publishing modules that is a subject, with {} for what is put in."""
    found = set()
    for path in sorted(CONSOLE.rglob("*.py")):
        source = path.read_text()
        if "live.publish(" not in source:
            continue
        assert str(path.relative_to(CONSOLE)) in table.PUBLISHERS, f"{path} publishes: add it to the table"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.JoinedStr):
                parts = (str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
                found.add("".join(parts).replace("{}/", "c/{}/", 1) if _is_place(node) else "".join(parts))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "live.publish":
                found |= {str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant)}
    return {text for text in found if re.fullmatch(r"c/\{\}/[a-z]+(/\{\})?|[a-z]+|job/\{\}", text)}


def _is_place(node: ast.JoinedStr) -> bool:
    first = node.values[0]
    return isinstance(first, ast.FormattedValue) and ast.unparse(first.value) == "place"


def subjects_of_pages() -> set[str]:
    texts = "".join(path.read_text() for path in (CONSOLE.parent / "templates").rglob("*.html"))
    named = re.findall(r'data-[a-z-]*(?:subject|reload-on)="([^"]+)"', texts)
    return {re.sub(r"\{\{.*?\}\}", "{}", subject) for subject in named} - {"{}"}


def test_every_live_subject_is_in_the_table() -> None:
    assert subjects_of_code() == set(table.SUBJECTS)
    assert subjects_of_pages() <= set(table.SUBJECTS)


def test_each_subject_shows_what_the_table_says(world: Cluster) -> None:
    signed_in("nobody", verbs=())
    signed_in("elsewhere", verbs=VERBS, cluster="other")
    signed_in("narrow", verbs=VERBS, names="unrelated")
    signed_in("named", verbs=("VIEW",), names="billing")
    signed_in("whole", verbs=("VIEW",), cluster="local")
    row = {"cluster": "local", "subject": "billing", "verb": "VIEW"}
    sees: dict[str, dict[str, str]] = {}
    for subject in table.SUBJECTS:
        address = subject.replace("{}", "local", 1).replace("{}", "billing") if "c/" in subject else subject
        for name in ("", "nobody", "elsewhere", "narrow", "named", "whole"):
            person = User.objects.get(username=name) if name else AnonymousUser()
            view = routing.view_of(person, address.replace("job/{}", "job/job-sample"))
            shown = view is not None and (view.sees is None or view.sees("billing", row))
            found = "no" if view is None else "row" if shown else "none"
            sees.setdefault(subject, {})[name or "stranger"] = found
    who = ("stranger", "nobody", "elsewhere", "narrow", "named", "whole")
    expected = {
        SOME: ("no", "no", "no", "none", "row", "row"),
        WHOLE: ("no", "no", "no", "no", "no", "row"),
        NAMED: ("no", "no", "no", "no", "row", "row"),
        ROWS: ("none", "none", "none", "none", "row", "row"),
    }
    # How old the figures are and which reports ran: no row of these names a group or a topic.
    without_names = {"c/{}/collector", "c/{}/reports"}
    wrong = {}
    for subject, kind in table.SUBJECTS.items():
        wanted = dict(zip(who, expected[kind], strict=True))
        if subject in without_names:
            wanted["narrow"] = "row"
        if sees[subject] != wanted:
            wrong[subject] = sees[subject]
    assert wrong == {}


# --- Tasks --------------------------------------------------------------------------------------------------


def test_every_task_is_in_the_table() -> None:
    app.loader.import_default_modules()
    assert {name for name in app.tasks if not name.startswith("celery.")} == set(table.TASKS)
    beaten = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert beaten == {name for name, start in table.TASKS.items() if start == table.BEAT}
    started_by_people = {start for start in table.TASKS.values() if start not in (table.BEAT, table.TASK)}
    assert started_by_people <= set(TABLE)
