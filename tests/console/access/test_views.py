"""Sign-in, the one-time link, the own password, sign-out, the audit trail."""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from console.access import services
from console.access.models import AuditEvent, ColumnChoice
from console.group.offsets.move import MoveState, QueueMove
from console.operation.config.row import ConfigRow, ImpactRow
from console.operation.config.write import ConfigWrite
from console.operation.models import Plan
from console.text import Text
from console.text.stored import as_json
from tests.support import sample_rows
from tests.support.people import signed_in
from tests.support.shown import as_shown

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PASSWORD = "correct horse battery"


@pytest.fixture
def person() -> User:
    return User.objects.create_user("lin.wei", password=PASSWORD)


def test_it_signs_in_and_goes_on_to_where_one_came_from(client: Client, person: User) -> None:
    answer = client.post("/sign-in", {"username": "lin.wei", "password": PASSWORD, "next": "/clusters"})
    assert answer["Location"] == "/clusters"
    assert client.get("/clusters").status_code == 200


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_it_never_leads_elsewhere(client: Client, person: User, elsewhere: str) -> None:
    answer = client.post("/sign-in", {"username": "lin.wei", "password": PASSWORD, "next": elsewhere})
    assert answer["Location"] == "/"


def test_it_refuses_a_wrong_password_without_saying_which(client: Client, person: User) -> None:
    for name in ("lin.wei", "nobody"):
        answer = client.post("/sign-in", {"username": name, "password": "wrong"})
        assert answer.status_code == 422
        assert "Name and password do not match." in answer.content.decode()


def test_it_slows_guessing_down(client: Client, person: User) -> None:
    for _ in range(5):
        client.post("/sign-in", {"username": "lin.wei", "password": "wrong"})
    answer = client.post("/sign-in", {"username": "lin.wei", "password": PASSWORD})
    assert answer.status_code == 429
    assert 298 <= int(answer["Retry-After"]) <= 300
    assert re.search(r"Too many attempts\. Try again in (4 m 5\d s|5 m)\.", answer.content.decode())


def test_it_needs_the_forms_token(person: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/sign-in", {"username": "lin.wei", "password": PASSWORD})
    assert answer.status_code == 403
    assert "Nothing was changed." in answer.content.decode()


def test_it_signs_in_by_link_and_sets_a_password(client: Client) -> None:
    person = services.ensure_first_person()
    sample_rows.cluster()
    address = f"/sign-in/{services.create_sign_in_link(person)}"
    assert "Welcome, admin" in client.get(address).content.decode()
    assert client.get(address).status_code == 200  # looking does not use it up
    answer = client.post(address, {"password": PASSWORD, "again": PASSWORD})
    assert answer["Location"] == "/"
    assert client.get("/")["Location"] == "/c/local/"
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_it_signs_in_by_link_without_a_password(client: Client) -> None:
    person = services.ensure_first_person()
    client.post(f"/sign-in/{services.create_sign_in_link(person)}", {"skip": "1"})
    assert client.get("/clusters").status_code == 200
    person.refresh_from_db()
    assert not person.has_usable_password()


def test_it_refuses_a_used_link() -> None:
    address = f"/sign-in/{services.create_sign_in_link(services.ensure_first_person())}"
    Client().post(address, {"skip": "1"})
    for answer in (Client().get(address), Client().post(address, {"skip": "1"})):
        assert answer.status_code == 410
        assert "has been used or has expired" in answer.content.decode()


@pytest.mark.parametrize(
    ("password", "again", "words"),
    [
        ("short", "short", "too short"),
        ("1234567890", "1234567890", "too common"),
        (PASSWORD, "other", "differ"),
    ],
)
def test_it_refuses_a_weak_or_mistyped_password(
    client: Client, password: str, again: str, words: str
) -> None:
    address = f"/sign-in/{services.create_sign_in_link(services.ensure_first_person())}"
    answer = client.post(address, {"password": password, "again": again})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert client.get("/clusters").status_code == 302  # not signed in, and the link still works
    assert client.get(address).status_code == 200


def test_it_never_caches_the_doors(client: Client, person: User) -> None:
    assert "no-store" in client.get("/sign-in")["Cache-Control"]


def test_it_changes_the_own_password_and_keeps_the_session(client: Client, person: User) -> None:
    client.force_login(person)
    other = Client()
    other.force_login(person)
    new = "another horse battery"
    for old in ({}, {"old": "a guess"}):
        refused = client.post("/password", {"password": new, "again": new, **old})
        assert refused.status_code == 422
    assert "This is not your current password." in refused.content.decode()
    assert client.post("/password", {"old": PASSWORD, "password": new, "again": new}).status_code == 302
    assert client.get("/clusters").status_code == 200
    assert other.get("/clusters").status_code == 302
    assert AuditEvent.objects.filter(verb="set password", actor="lin.wei").count() == 1


def test_it_signs_out_by_post_only(client: Client, person: User) -> None:
    client.force_login(person)
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/clusters").status_code == 302


@pytest.mark.parametrize("address", ["/password", "/activity"])
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    assert client.get(address)["Location"] == f"/sign-in?next={address}"


@pytest.mark.parametrize("address", ["/sign-in", "/password", "/activity"])
def test_it_refuses_other_methods(client: Client, person: User, address: str) -> None:
    client.force_login(person)
    assert client.delete(address).status_code == 405


def test_it_shows_activity_to_those_who_see_everything() -> None:
    services.record_audit(
        actor="lin.wei", verb="apply", cluster="prod", subject="billing", after={"reason": "INC-1"}
    )
    services.record_audit(actor="other", verb="sign in", subject="other")
    client = signed_in()
    text = client.get("/activity").content.decode()
    assert "billing" in text
    assert "INC-1" in text
    narrowed = client.get("/activity?actor=other").content.decode()
    assert "billing" not in narrowed
    some = signed_in("some", verbs=("VIEW",), cluster="prod")
    assert some.get("/activity").status_code == 403
    assert some.get("/activity?cluster=other").status_code == 403
    own = some.get("/activity?cluster=prod").content.decode()
    assert "billing" in own
    assert "<b>other</b>" not in own and ">All clusters</option>" not in own


def test_activity_is_found_by_part_of_a_name_and_by_action() -> None:
    services.record_audit(actor="lin.wei", verb="apply", cluster="prod", subject="billing", after="late")
    services.record_audit(actor="other", verb="sign in", subject="other")
    client = signed_in()
    for query in ("subject=BILL", "actor=wei", "verb=apply", "cluster=prod"):
        text = client.get(f"/activity?{query}").content.decode()
        assert "Applied the plan for <b>billing</b>" in text and "late" in text, query
        assert "<b>other</b>" not in text, query
    assert '<option value="apply" selected>' in client.get("/activity?verb=apply").content.decode()


def test_changed_fields_have_words_units_and_no_bare_null() -> None:
    before = {"second_person_messages": None, "slo_ms": 60_000, "colour": "red"}
    after = {"second_person_messages": 5_000, "slo_ms": 90_000, "colour": "blue"}
    services.record_audit(actor=None, verb="change cluster", subject="local", before=before, after=after)
    text = " ".join(signed_in("boss").get("/activity").content.decode().split())
    assert "second person approves from (messages): none → 5,000" in text
    assert "no message waits longer than: 1 m → 1 m 30 s" in text
    assert "colour: red → blue" in text


def test_the_object_of_a_plan_is_a_link_to_its_page() -> None:
    sample_rows.cluster("test")
    plan = Plan.objects.create(
        id="op-1",
        kind="dead_letter_replay",
        cluster="test",
        subject="billing",
        created_at=timezone.now(),
        expires_at=timezone.now(),
    )
    for number in range(3):
        services.record_audit(
            actor=None, verb="plan", cluster="test", subject="billing", plan_id=plan.id, after=f"{number}"
        )
    services.record_audit(actor=None, verb="plan", cluster="test", subject="gone", plan_id="op-2")
    text = signed_in("boss").get("/activity").content.decode()
    assert text.count('Planned dead-letter replay: <a href="/c/test/dead-letters/billing">billing</a>') == 3
    assert "Made a plan for <b>gone</b>" in text


def test_an_event_shows_short_values_in_its_row_and_the_rest_on_demand() -> None:
    services.record_audit(
        actor="a", verb="change SLO", cluster="prod", subject="orders", before={"s": 4}, after={"s": 6}
    )
    services.record_audit(actor="a", verb="rate", cluster="prod", subject="orders", before=4, after=6)
    long = services.record_audit(actor="a", verb="set role", subject="viewer", before={"verbs": []}, after={})
    slo, rate = AuditEvent.objects.order_by("pk")[:2]
    assert [(one.name, one.before, one.after) for one in slo.changes] == [("s", 4, 6)]
    assert [(one.name, one.before, one.after) for one in rate.changes] == [("", 4, 6)]
    assert long.changes == [] and long.has_detail
    text = signed_in().get("/activity").content.decode()
    assert '<a href="/c/prod/groups/orders">orders</a>' in text
    assert "4 → 6" in text


def test_a_report_has_the_name_of_its_page_and_times_are_no_numbers() -> None:
    sample_rows.cluster("local")
    requested = {"run": "report-1", "from_ms": 1_773_304_200_000, "to_ms": 1_773_307_800_000}
    services.record_audit(actor="a", verb="run report", cluster="local", subject="lag_hour", after=requested)
    text = " ".join(signed_in("boss").get("/activity").content.decode().split())
    assert 'Requested a run of the report <a href="/c/local/reports/lag_hour">Hourly lag</a>' in text
    assert 'data-at="1773304200000"' in text and ">1773304200000<" not in text and "from_ms" not in text


def lines_of_activity() -> tuple[list[str], str]:
    """Return the lines of the newest event's details without markup, and all of it."""
    text = re.sub(r"\s+", " ", signed_in("boss").get("/activity").content.decode())
    detail = text[text.index('<td colspan="7">') :]
    detail = detail[: detail.index("</tr>")]
    return [re.sub(r"<[^>]*>", "", line) for line in re.findall(r"<li>(.*?)</li>", detail)], detail


def test_fields_of_one_side_are_lines_with_units() -> None:
    before = {"ranges": [{"queue_id": 3, "to_offset": 1_289}], "is_on": True, "takes_s": 90}
    after = {"sent_per_s": 12.5, "size_bytes": 2_048, "nothing": None, "topics": {"a": 2}}
    services.record_audit(actor="a", verb="change cluster", subject="local", before=before, after=after)
    lines, detail = lines_of_activity()
    assert lines == [
        "estimated duration: 1 m 30 s",
        "offset ranges · queue 3: end offset 1,289",
        "on: yes",
        "nothing: none",
        "sent per second: 12.5 /s",
        "size bytes: 2 kB",
        "topics · a: 2",
    ]
    assert re.findall(r'<p class="label">(\w+)', detail) == ["Before", "After"]
    assert "<table" not in detail


def test_rows_of_both_sides_are_compared_by_their_names() -> None:
    row = {"topic": "Orders", "broker_name": "broker-a"}
    before = {"queues": [row | {"queue_id": 0, "offset": 5, "lag": 1}, row | {"queue_id": 1, "offset": 6}]}
    after = {"queues": [row | {"queue_id": 1, "offset": 6}, row | {"queue_id": 0, "offset": 900, "lag": 1}]}
    services.record_audit(actor="a", verb="apply", subject="rows", before=before, after=after)
    lines, detail = lines_of_activity()
    assert lines == [
        "queues · Orders · broker-a · queue 0: offset 5 → 900",
        "queues · Orders · broker-a · queue 1: offset 6",
    ]
    assert "1 unchanged field" in detail


def test_what_a_job_did_is_a_line_for_each_place() -> None:
    moved = QueueMove(
        topic="Orders",
        broker_name="broker-a",
        queue_id=0,
        before=5,
        target=900,
        planned=900,
        max_offset=950,
        how="222_queue",
        took_ms=3,
        state=MoveState.VERIFIED,
    )
    old, new = {"perm": 6, "order": False}, {"perm": 4, "order": False}
    row = ConfigRow.of("topic", "Orders", "broker-a", "10.0.0.1:10911", old, new)
    made = ConfigRow.of("topic", "Orders", "broker-b", "10.0.0.2:10911", None, new)
    failed = {"state": "failed", "error": Text("The broker refused it.")}
    figures = (
        ImpactRow(
            name=Text("Lag"), value=41, words=Text("not consumed yet"), source=Text("last round"), at_ms=1
        ),
        ImpactRow(name=Text("Producers"), value=None, words=Text(), source=Text("brokers"), at_ms=1),
        ImpactRow(name=Text("Last commit"), value=None, words=Text(), source=Text(), at_ms=1, moment_ms=None),
    )
    before = {
        "queues": [["Orders", "broker-a", 0, 3], ["Orders", "broker-a", 1, 7]],
        "clients": ["10.0.0.3@1"],
        "coverage": {"covered": 2, "expected": 2, "absent": []},
        "impact": [as_json(one) for one in figures],
    }
    after = {
        "clients": 1,
        "queues": [as_json(moved)],
        "brokers": [as_json(ConfigWrite.of(row)) | failed, as_json(ConfigWrite.of(made))],
    }
    services.record_audit(actor=None, verb="job verified", subject="rows", before=before, after=after)
    lines, _ = lines_of_activity()
    assert lines == [
        "queues · Orders · broker-a · queue 0: 5 → 900, verified",
        "clients: 10.0.0.3@1",
        "impact · Lag: 41 (not consumed yet)",
        "impact · Producers: unknown",
        "impact · Last commit: never",
        "queues · Orders · broker-a · queue 1: offset 7",
        "brokers · broker-a · Orders: perm 6 → 4, failed, The broker refused it.",
        "brokers · broker-b · Orders: created, waiting",
        "clients: 1",
    ]


def test_lines_of_an_event_are_chinese_on_a_chinese_page() -> None:
    rows = [{"topic": "Orders", "queue_id": 0, "committed": 5, "lag": 2}]
    services.record_audit(actor="a", verb="apply", subject="g", before={"queues": rows}, after={"topics": 3})
    client = signed_in("boss")
    client.cookies["tidemark_language"] = "zh-hans"
    text = as_shown(client.get("/activity").content.decode())
    assert "<li><b>队列 · Orders · 队列 0</b>：堆积量 2，已提交位点 5</li>" in text
    assert "<li><b>主题</b>：3</li>" in text


def test_long_lists_of_an_event_are_cut() -> None:
    before = {"retention_ms": 259_200_000, "ranges": [{"queue_id": number} for number in range(23)]}
    after = {"retention_ms": 90_000, "ranges": []}
    services.record_audit(actor="a", verb="apply", subject="many", before=before, after=after)
    lines, detail = lines_of_activity()
    assert lines[0] == "retention: 3 d → 1 m 30 s"
    assert 'class="differs strong">1 m 30 s<' in detail
    assert lines[-3:] == [
        "offset ranges · queue 19",
        "offset ranges · and 3 more",
        "offset ranges: none",
    ]


def test_changed_fields_come_first_and_the_others_are_folded() -> None:
    before = {"name": "orders", "colour": "red", "retry_max_times": 16, "gone": 1, "nothing": None}
    after = {"name": "orders", "colour": "red", "retry_max_times": 5, "nothing": None, "added": None}
    services.record_audit(actor="a", verb="apply", subject="few", before=before, after=after)
    lines, detail = lines_of_activity()
    changed, _, same = detail.partition('<details class="same"><summary>3 unchanged fields</summary>')
    assert lines == [
        "retry max times: 16 → 5",
        "gone: 1",
        "added: none",
        "colour: red",
        "name: orders",
        "nothing: none",
    ]
    assert "orders" in same and "differs" not in same and "differs" in changed


def test_the_file_and_rest_name_plan_and_report_as_the_page_does() -> None:
    sample_rows.cluster("test")
    Plan.objects.create(
        id="op-1",
        kind="dead_letter_replay",
        cluster="test",
        subject="billing",
        created_at=timezone.now(),
        expires_at=timezone.now(),
    )
    services.record_audit(actor=None, verb="plan", cluster="test", subject="billing", plan_id="op-1")
    services.record_audit(actor="a", verb="run report", cluster="test", subject="lag_hour")
    wanted = {"Planned dead-letter replay: billing", "Requested a run of the report Hourly lag"}
    client = signed_in("boss")
    rows = list(csv.DictReader(io.StringIO(client.get("/activity?format=csv").getvalue().decode())))
    assert wanted <= {row["sentence"] for row in rows}
    found = client.get("/api/v1/audit?cluster=test").json()["results"]
    assert wanted == {event["sentence"] for event in found}


def test_actors_that_are_no_person_are_named_in_the_readers_language() -> None:
    services.record_audit(actor=None, verb="job start", subject="g")
    services.record_audit(actor="not signed in", verb="sign-in failed", subject="unknown name")
    client = signed_in("boss")
    client.cookies["tidemark_language"] = "zh-hans"
    text = as_shown(client.get("/activity").content.decode())
    assert '<option value="system">系统</option>' in text
    assert "登录失败：<b>未知用户名</b>" in text
    assert ">system<" not in text and "not signed in<" not in text
    for part in ("系统", "system"):
        assert client.get("/activity", {"actor": part}).context["page"].total == 1


def test_activity_is_narrowed_to_a_time_in_the_zone_of_its_reader() -> None:
    """Three events at 08:00, 09:00 and 10:00 UTC: 16:00 to 18:00 in Shanghai."""
    for hour in (8, 9, 10):
        at = dt.datetime(2026, 3, 12, hour, tzinfo=dt.UTC)
        services.record_audit(actor="maria", verb="apply", cluster="prod", subject=f"group-{hour}")
        AuditEvent.objects.filter(subject=f"group-{hour}").update(at=at)
    client = signed_in("boss")
    until_six = "since=2026-03-12T16:30&until=2026-03-12T18:00&zone=Asia/Shanghai"
    for path in ("/activity?", "/activity?format=csv&"):
        answer = client.get(path + until_six)
        text = (answer.getvalue() if answer.streaming else answer.content).decode()
        assert ["group-9" in text, "group-8" in text, "group-10" in text] == [True, False, False]
    assert 'value="2026-03-12T16:30"' in client.get(f"/activity?{until_six}").content.decode()
    reverse = until_six.replace("T18", "T11")
    for wrong, words in (("since=yesterday", "Enter a time like"), (reverse, "not after the start")):
        refused = client.get(f"/activity?{wrong}")
        assert (refused.status_code, words in refused.content.decode()) == (422, True)
    text = client.get(f"/activity?since=yesterday&plan={'x' * 33}").content.decode()
    beside_plan = text[text.index('name="plan"') : text.index('name="since"')]
    assert "at most 32 characters" in beside_plan and "x" * 33 in beside_plan
    assert "Enter a time like" not in beside_plan
    from_ms = 1_773_304_200_000  # 08:30 UTC
    rest = "/api/v1/audit?cluster=prod&from_ms={}&to_ms={}"
    found = client.get(rest.format(from_ms, from_ms + 5_400_000)).json()["results"]
    assert [event["subject"] for event in found] == ["group-9"]
    assert client.get(rest.format(0, 2**53)).status_code == 400


def test_it_gives_activity_as_csv_that_no_spreadsheet_runs() -> None:
    services.record_audit(actor="=cmd()", verb="apply", subject="billing", after={"a": 1})
    answer = signed_in().get("/activity?format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    lines = b"".join(answer).decode().splitlines()
    assert lines[0] == "at,actor,token_prefix,sentence,verb,subject,cluster,plan_id,remote_addr,before,after"
    assert ",'=cmd(),,Applied the plan for billing,apply,billing,," in lines[1]


def test_columns_are_kept_for_the_person_and_survive_a_sign_out() -> None:
    sample_rows.sample()
    mine = signed_in("mine", verbs=("VIEW",))
    assert mine.post("/columns/groups", {"on": "filtered", "off": "lag,clients,lag"}).status_code == 204
    again = Client()
    again.force_login(User.objects.get(username="mine"))
    kept = '"on": ["filtered"], "off": ["clients", "lag"]}'
    assert html.escape(kept) in again.get("/c/local/groups").content.decode()
    assert 'data-columns="{' not in again.get("/c/local/topics").content.decode()
    assert (
        'data-columns="{' not in signed_in("other", verbs=("VIEW",)).get("/c/local/groups").content.decode()
    )
    assert mine.post("/columns/groups", {}).status_code == 204
    assert ColumnChoice.objects.count() == 0


@pytest.mark.parametrize(
    "choice",
    [
        {"on": "x"},
        {"off": "lag;clients"},
        {"on": "LAG"},
        {"on": "lag," * 400},
    ],
)
def test_columns_that_are_none_are_refused(choice: dict[str, object]) -> None:
    client = signed_in()
    assert client.post("/columns/groups", choice).status_code == 422
    assert client.post("/columns/others", {}).status_code == 404
    assert ColumnChoice.objects.count() == 0
