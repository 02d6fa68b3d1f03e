"""The list of groups, the page of one, and the form of an offset change."""

from __future__ import annotations

import re
import time
from dataclasses import fields
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.group import group_page, views
from console.group.clients import member as member_asked
from console.group.clients.member import ReportedQueue, ReportedTopic, RunningInfo
from console.group.group_page import owned_words
from console.group.offsets.target_request import queue_value
from console.lag.models import ClientRow, GroupRow, GroupWatch, HistoryGap, LagEvent
from console.lag.rows.queue_row import QueueRow
from console.operation import services
from console.operation.errors import NotPermitted, OperationError, PlanRejected
from console.text import Text
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in
from tests.support.product import ROOT

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGES = ["/c/local/groups", "/c/local/groups/analytics", "/c/local/groups/analytics/offsets"]


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


@pytest.mark.parametrize("address", PAGES)
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    assert client.get(address).status_code == 302


def test_it_lists_what_a_person_may_look_at_and_counts_the_rest() -> None:
    sample_rows.sample()
    narrow = signed_in("narrow", verbs=("VIEW",), names="bill*")
    text = narrow.get("/c/local/groups").content.decode()
    assert ">billing</a>" in text
    assert ">notifier</a>" not in text
    assert " not shown: you do not have the VIEW permission for them." in text
    assert "VIEW permission" not in signed_in("wide", verbs=("VIEW",)).get("/c/local/groups").content.decode()


@pytest.mark.parametrize("address", PAGES[1:])
def test_it_refuses_without_the_right(address: str) -> None:
    sample_rows.sample()
    assert signed_in("some", verbs=("VIEW",), names="billing").get(address).status_code == 403


@pytest.mark.parametrize("address", PAGES)
def test_it_refuses_other_methods(admin: Client, address: str) -> None:
    assert admin.delete(address).status_code == 405


def test_it_puts_the_urgent_first(admin: Client) -> None:
    text = admin.get("/c/local/groups").content.decode()
    places = [text.index(f'data-key="{name}"') for name in ("analytics", "fraud", "billing")]
    assert places == sorted(places)
    assert 'data-key="TOOLS_CONSUMER"' not in text
    assert "<b>1</b> system hidden" in text


def test_it_never_shows_unknown_as_zero(admin: Client) -> None:
    text = admin.get("/c/local/groups?q=fraud").content.decode()
    row = text[text.index('data-key="fraud"') : text.index("</tr>", text.index('data-key="fraud"'))]
    assert row.count(">unknown</span>") == 7  # clients, time lag, lag, in, out, drains in, DLQ
    assert row.count('data-why-at="0"') == 7 and "connection refused" not in row
    assert text.count("<template><p>broker-b: connection refused</p></template>") == 1


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?status=UNKNOWN", ["fraud"]),
        ("?q=ANA", ["analytics"]),
        ("?sort=group&dir=desc", ["notifier", "fraud", "billing", "analytics"]),
        ("?sort=lag&dir=asc&q=a", ["analytics", "fraud"]),  # unknown sorts last, both ways
        ("?sort=lag&dir=desc&q=a", ["analytics", "fraud"]),
        ("?sort=nonsense&dir=sideways&page=x&rows=-1", ["analytics", "fraud", "billing", "notifier"]),
    ],
)
def test_it_filters_and_sorts_by_address(admin: Client, query: str, shown: list[str]) -> None:
    text = admin.get(f"/c/local/groups{query}").content.decode()
    places = {name: text.index(f'data-key="{name}"') for name in shown}
    assert sorted(places, key=lambda name: places[name]) == shown


def test_it_says_what_an_empty_list_hides(admin: Client) -> None:
    text = admin.get("/c/local/groups?q=TOOLS").content.decode()
    assert "0 of 4 groups match “TOOLS”" in text
    assert "1 system groups are hidden" in text


def test_it_shows_findings_in_words(admin: Client) -> None:
    text = admin.get("/c/local/groups/analytics").content.decode()
    assert "The group consumes 14.3 % less than arrives" in text
    assert "lag grows by 183/s" in text


def test_its_chart_holds_what_the_script_reads_and_no_more(admin: Client) -> None:
    script = (ROOT / "static" / "js" / "group.js").read_text()
    read = set(re.findall(r"\bhistory\.(\w+)", script)) - {"is_queue"}  # of the page of one queue
    assert set(admin.get("/c/local/groups/billing").context["chart"]) == read


def test_the_lag_of_many_queues_is_requested_after_the_page(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "CHART_QUEUES_AT_ONCE", 0)
    answer = admin.get("/c/local/groups/billing?range=24h")
    assert set(answer.context["chart"]) == {"events"}
    canvas = re.search('class="chart chart--ts is-waiting"><canvas([^>]*)>', answer.content.decode())
    assert canvas is not None and 'data-span="86400000"' in canvas[1]
    address = re.search('data-lag="([^"]*)"', canvas[1])
    assert address is not None
    assert {*views.DRAWN} <= set(admin.get(address[1]).json())


def test_it_gives_the_findings_alone(admin: Client) -> None:
    part = admin.get("/c/local/groups/analytics?part=findings").content.decode()
    assert "The group consumes 14.3 % less than arrives" in part
    assert "<html" not in part


def test_an_open_page_gets_the_number_of_unknown_queues_with_the_findings(admin: Client) -> None:
    def known() -> list[str]:
        part = admin.get("/c/local/groups/analytics?part=findings").content.decode()
        return re.findall(r'data-for="queues-known">\s*([^<]*?)\s*<', part)

    (before,) = known()
    sample_queues.change({"group": "analytics", "queue_id": 0}, lag=None)
    (after,) = known()
    assert (before, after) == ("2 queues", "1 of 2 queues unknown")
    page = admin.get("/c/local/groups/analytics").content.decode()
    assert re.search(rf'<span id="queues-known">\s*{after}\s*</span>', page)


def test_it_says_when_nothing_is_wrong(admin: Client) -> None:
    sample_queues.change({"group": "billing"}, owner="10.0.0.1@7")
    assert "Nothing is wrong." in admin.get("/c/local/groups/billing").content.decode()


def test_it_names_the_retry_topic_only_where_there_is_one(admin: Client) -> None:
    assert "including its retry topic" not in admin.get("/c/local/groups/billing").content.decode()
    sample_rows.queue_row("billing", 0, topic="%RETRY%billing")
    assert "including its retry topic" in admin.get("/c/local/groups/billing").content.decode()


def test_the_first_of_many_clients_are_shown_and_all_are_counted(admin: Client) -> None:
    for number in range(51):
        sample_rows.client_row("billing", f"10.9.0.{number:02}@7")
    names = sorted(ClientRow.objects.filter(group="billing").values_list("client_id", flat=True))
    text = admin.get("/c/local/groups/billing?tab=clients").content.decode()
    assert [name for name in names if f">{name}</a>" in text] == names[:50]
    assert "is read after the page" in text, "who was slow takes longer with many clients"
    link = text[text.index('href="/c/local/clients?q=billing"') :]
    assert link[: link.index("</a>")].endswith(f">All {len(names)} clients")
    ClientRow.objects.exclude(client_id__in=names[:50]).delete()
    text = admin.get("/c/local/groups/billing?tab=clients").content.decode()
    assert "by name." not in text and "is read after the page" not in text


def test_heads_say_what_the_cells_of_queues_show(admin: Client) -> None:
    text = admin.get("/c/local/groups/billing").content.decode()
    table = text[text.index('id="queues"') : text.index("<tfoot")]
    heads = re.findall(r'data-field="(\w+)"', table)
    assert heads == re.findall(r'data-field="(\w+)"', table[: table.index("<tbody")])
    live = {one.live[0] for one in group_page.QUEUES.columns if one.live}
    assert set(heads) == live <= {field.name for field in fields(QueueRow)}
    row = table[table.index("<tr data-key=") :]
    assert row[: row.index("</tr>")].count("<td") == len(group_page.QUEUES.columns) - 1


def test_its_parts_are_tabs(admin: Client) -> None:
    text = admin.get("/c/local/groups/billing").content.decode()
    assert 'id="queues"' in text and 'id="clients"' in text and "part=by-client" not in text
    text = admin.get("/c/local/groups/billing?tab=clients").content.decode()
    assert "part=by-client" in text and 'id="queues"' not in text
    assert "No history yet" in text, "an hour is read with the page"
    text = admin.get("/c/local/groups/billing?tab=clients&range=24h").content.decode()
    assert "is read after the page: figures appear within 5 s." in text
    AuditEvent.objects.create(cluster="local", subject="billing", actor="alice", verb="apply", after="paused")
    text = admin.get("/c/local/groups/billing?tab=activity").content.decode()
    assert "alice" in text and "1 event made through this console" in text


def test_it_says_that_a_group_is_not_there(admin: Client) -> None:
    answer = admin.get("/c/local/groups/nobody")
    assert answer.status_code == 404
    assert "local has no group nobody: it never connected" in answer.content.decode()


def test_it_offers_changes_only_to_those_who_may(admin: Client) -> None:
    assert "Change offsets" in admin.get("/c/local/groups/billing").content.decode()
    viewer = signed_in("viewer", verbs=("VIEW",))
    assert "Change offsets" not in viewer.get("/c/local/groups/billing").content.decode()
    assert viewer.get("/c/local/groups/billing/offsets").status_code == 403


def test_it_keeps_a_group_watched(admin: Client) -> None:
    assert admin.post("/c/local/groups/billing/watch").status_code == 204
    assert GroupWatch.objects.filter(group="billing").count() == 1
    assert admin.get("/c/local/groups/billing/watch").status_code == 405


def chosen(group: str, *queue_ids: int) -> list[str]:
    return [queue_value(row) for row in sample_queues.find(group=group) if row.queue_id in queue_ids]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the form asks the plan service for; the service refuses, so that no broker is needed."""
    calls: list[dict[str, Any]] = []

    def create_plan(
        kind: str, cluster: str, subject: str, params: dict[str, Any], actor: Any, **kwargs: Any
    ) -> None:
        calls.append({"kind": kind, "cluster": cluster, "subject": subject, "params": params})
        raise PlanRejected("The history does not reach back that far.", field="time")

    monkeypatch.setattr(services, "create_plan", create_plan)
    return calls


def test_it_asks_for_whole_topics_where_all_queues_are_chosen(
    admin: Client, source: list[dict[str, Any]]
) -> None:
    data = {"queue": chosen("billing", 0, 1), "target": "latest"}
    answer = admin.post("/c/local/groups/billing/offsets", data)
    assert source == [
        {
            "kind": "offset_change",
            "cluster": "local",
            "subject": "billing",
            "params": {"target": "latest", "topics": ["orders"]},
        }
    ]
    assert answer.status_code == 422
    assert "The history does not reach back that far." in answer.content.decode()


def test_it_asks_for_single_queues(admin: Client, source: list[dict[str, Any]]) -> None:
    admin.post(
        "/c/local/groups/billing/offsets", {"queue": chosen("billing", 1), "target": "shift", "shift": "-100"}
    )
    assert source[0]["params"] == {
        "target": "shift",
        "topics": ["orders"],
        "queues": [{"topic": "orders", "broker_name": "broker-a", "queue_id": 1}],
        "shift": -100,
    }


@pytest.mark.parametrize(
    ("time", "zone", "time_ms"),
    [
        ("2026-03-12T08:20:00", "Asia/Shanghai", 1773274800000),
        ("2026-03-12T08:20", "UTC", 1773303600000),
        ("2026-03-12T08:20:00+08:00", "UTC", 1773274800000),
    ],
)
def test_it_reads_times_in_the_zone_of_the_browser(
    admin: Client, source: list[dict[str, Any]], time: str, zone: str, time_ms: int
) -> None:
    data = {"queue": chosen("billing", 0, 1), "target": "time", "time": time, "zone": zone}
    admin.post("/c/local/groups/billing/offsets", data)
    assert source[0]["params"]["time_ms"] == time_ms


@pytest.mark.one_database("wishes that are refused before a plan is made")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Choose a target for the queues."),
        ({"target": "latest"}, "Choose at least one queue."),
        ({"target": "sideways"}, "Select a valid choice"),
        ({"target": "time"}, "Enter a value for this target."),
        ({"target": "time", "time": "tomorrow"}, "Enter a time like 2026-03-12 08:20:00"),
        (
            {"target": "time", "time": "2026-03-12T08:20:00", "zone": "Mars/Base"},
            "Enter a time like 2026-03-12 08:20:00",
        ),
        ({"target": "offset", "offset": "-1"}, "Enter at least 0."),
        ({"target": "shift", "shift": "0"}, "A shift by 0 changes nothing."),
        ({"target": "like_group"}, "Enter a value for this target."),
    ],
)
def test_it_says_what_is_wrong_with_a_wish(
    admin: Client, source: list[dict[str, Any]], data: dict[str, str], words: str
) -> None:
    queues = {} if data == {"target": "latest"} else {"queue": chosen("billing", 0)}
    answer = admin.post("/c/local/groups/billing/offsets", {**data, **queues})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert source == []


@pytest.mark.parametrize(
    ("data", "refused", "place"),
    [
        (
            {"target": "as_of", "as_of": "2026-03-12T08:20:00"},
            PlanRejected("In a gap.", "time_ms"),
            "as_of-err",
        ),
        ({"target": "time", "time": "2026-03-12T08:20:00"}, PlanRejected("Not now.", "time_ms"), "time-err"),
        (
            {"target": "undo", "undo_plan": "op-abc"},
            PlanRejected("Never applied.", "undo_plan"),
            "undo_plan-err",
        ),
        ({"target": "like_group", "like_group": "x"}, NotPermitted("You may not VIEW x."), "like_group-err"),
        ({"target": "latest"}, PlanRejected("Unknown group.", "group"), "No plan was made."),
    ],
)
def test_it_says_a_refusal_beside_its_field(
    admin: Client, monkeypatch: pytest.MonkeyPatch, data: dict[str, str], refused: OperationError, place: str
) -> None:
    def create_plan(*arguments: Any, **options: Any) -> None:
        raise refused

    monkeypatch.setattr(services, "create_plan", create_plan)
    answer = admin.post("/c/local/groups/billing/offsets", {**data, "queue": chosen("billing", 0)})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert str(refused) in text[text.index(place) :]
    if place not in ("undo_plan-err", "No plan was made."):  # there is no plan to choose here
        assert f'aria-invalid="true" aria-describedby="{place}" autofocus' in text


def test_it_asks_to_undo_a_plan(admin: Client, source: list[dict[str, Any]]) -> None:
    data = {"queue": chosen("billing", 0, 1), "target": "undo", "undo_plan": "op-abc"}
    admin.post("/c/local/groups/billing/offsets", data)
    assert source[0]["params"] == {"target": "undo", "topics": ["orders"], "undo_plan": "op-abc"}


def test_it_offers_the_groups_to_stand_like_that_one_may_see() -> None:
    sample_rows.sample()
    own = signed_in("own", verbs=("RESET",), names="billing").get("/c/local/groups/billing/offsets")
    assert "No other group that you may view reads these topics." in own.content.decode()
    wide = signed_in("wide", verbs=("RESET",)).get("/c/local/groups/billing/offsets").content.decode()
    assert '<option value="analytics"></option>' in wide


def test_it_chooses_whole_topics_of_a_group_of_very_many_queues(
    admin: Client, source: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.group.views.QUEUE_BOXES_MAX", 1)
    text = admin.get("/c/local/groups/billing/offsets").content.decode()
    assert 'name="topic" value="orders" checked' in text and 'name="queue"' not in text
    admin.post("/c/local/groups/billing/offsets", {"topic": "orders", "target": "latest"})
    assert source[0]["params"] == {"target": "latest", "topics": ["orders"]}


def test_it_says_that_no_broker_answered(admin: Client) -> None:
    data = {"queue": chosen("billing", 0, 1), "target": "latest"}
    answer = admin.post(
        "/c/local/groups/billing/offsets", data
    )  # nothing listens on the sample's name server
    assert answer.status_code == 422
    assert "No plan was made." in answer.content.decode()


def test_it_groups_a_clients_queues() -> None:
    def queue(topic: str, queue_id: int) -> dict[str, Any]:
        return {"topic": topic, "broker_name": "a", "queue_id": queue_id}

    queues = [queue("clicks", 2), queue("%RETRY%g", 0), queue("clicks", 0), queue("orders", 1)]
    assert owned_words(ClientRow(queues=queues)) == ["clicks: a · 0, 2", "orders: a · 1"]
    assert owned_words(ClientRow(queues=[])) == []
    assert owned_words(ClientRow(queues=None)) is None


def test_it_filters_the_list_by_chips_that_keep_each_other(admin: Client) -> None:
    GroupRow.objects.filter(group="notifier").update(dlq_in_rate=0.2)
    text = admin.get("/c/local/groups?dead_letters=growing&members=online").content.decode()
    assert 'data-key="notifier"' in text and 'data-key="billing"' not in text
    assert 'data-live-list="1"' not in text, "live counts know nothing of these filters"
    assert 'href="/c/local/groups?members=online" aria-current="true">Dead letters growing <b>1</b>' in text
    assert '<input type="hidden" name="members" value="online">' in text
    empty = admin.get("/c/local/groups?members=offline").content.decode()
    assert "groups match and every chosen filter" in empty
    assert 'data-key="billing"' in admin.get("/c/local/groups?members=sideways").content.decode()


def test_it_sorts_and_pages_queues(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.lists.query.PER_PAGE_DEFAULT", 2)
    for queue_id, lag in ((2, 900), (3, None), (4, 0)):
        sample_rows.queue_row("billing", queue_id, lag=lag)

    def shown(address: str) -> list[str]:
        text = admin.get(f"/c/local/groups/billing{address}").content.decode()
        return re.findall(r'data-key="q/orders/broker-a/(\d+)"', text)

    assert (shown(""), shown("?page=2"), shown("?page=99")) == (["0", "1"], ["2", "3"], ["4"])
    assert shown("?sort=lag") == ["2", "0"]
    assert shown("?sort=lag&dir=asc") == ["4", "0"]
    assert shown("?sort=lag&page=3") == ["3"], "unknown last"
    assert shown("?sort=lag&dir=asc&page=3") == ["3"]


def member(client_id: str, expression: str, **fields: Any) -> ClientRow:
    values: dict[str, Any] = {"cluster": "local", "group": "billing", "version": "5.3.3", "queues": []}
    subscription = {
        "orders": {"expression": expression, "type": "TAG"},
        "%RETRY%billing": {"expression": "*"},
    }
    return ClientRow(client_id=client_id, subscription=subscription, **{**values, **fields})


def test_it_shows_where_subscriptions_differ(admin: Client) -> None:
    members = [member("a", "paid"), member("b", "paid"), member("c", "paid || refunded", version="5.3.1")]
    (found,) = group_page.differences(members)
    assert (found.topic, found.most.clients, found.most.parts) == ("orders", 2, [("paid", False)])
    (other,) = found.others
    assert (other.clients, other.versions) == (1, "5.3.1")
    assert other.parts == [("paid ", False), (" refunded", True)]
    assert group_page.differing_clients(members, [found]) == {"c"}
    ClientRow.objects.bulk_create(members)
    text = admin.get("/c/local/groups/billing").content.decode()
    assert "Subscription of orders differs." in text and "<mark> refunded</mark>" in text
    assert group_page.differences(members[:2]) == []
    assert group_page.has_filter(members) and not group_page.has_filter([member("d", "*")])


def test_it_marks_what_happened_to_the_group(admin: Client) -> None:
    now_ms = int(time.time() * 1000)

    def event(minutes_ago: int, kind: str, **figures: Any) -> None:
        at_ms = now_ms - minutes_ago * 60_000
        LagEvent.objects.create(
            **{"cluster": "local", "group": "billing", "kind": kind, "at_ms": at_ms, **figures}
        )

    names = ["10.0.0.1@7"]
    event(50, "MEMBERS", from_offset=1, messages=2, members={"joined": {"count": 1, "names": names}})
    event(40, "MEMBERS", from_offset=2, messages=2, members={"restarted": {"count": 12, "names": names}})
    event(30, "REWIND", topic="orders", messages=4_000)
    event(
        29, "REWIND", topic="orders", messages=5, cause=Text("plan plan-1, applied by carol")
    )  # its job is marked
    event(20, "BROKER_RESTART", group="", broker_name="broker-a")
    event(20, "BROKER_RESTART", group="", broker_name="broker-z")
    HistoryGap.objects.create(
        cluster="local",
        broker_name="broker-a",
        from_ms=now_ms - 600_000,
        to_ms=now_ms - 540_000,
        reason=Text("timed out"),
    )
    found = group_page.chart_marks("local", "billing", ["broker-a"], now_ms - 3_600_000, now_ms)
    assert [(one.mark, one.label) for one in found.marks] == [
        ("M", "1 client joined (10.0.0.1@7); 1 → 2 clients"),
        ("M", "12 clients restarted (10.0.0.1@7, …)"),
        ("R", "offsets of orders set back by 4,000 messages, outside this console"),
        ("B", "broker-a restarted"),
        ("B", "broker-a did not answer: timed out"),
    ]
    assert not found.is_cut
    assert found.meanings == [("R", "offset change"), ("M", "clients"), ("B", "broker restarted or silent")]
    least = group_page.chart_marks("local", "billing", ["broker-a"], now_ms - 3_600_000, now_ms, 2)
    assert (least.is_cut, [one.mark for one in least.marks]) == (True, ["B", "B"])
    assert group_page.chart_marks("local", "billing", ["broker-a"], now_ms, now_ms + 1).marks == ()
    text = admin.get("/c/local/groups/billing").content.decode()
    assert "M clients" in text and "Marks: 5" in text and "12 clients restarted (10.0.0.1@7, …)" in text


def test_it_says_that_a_member_does_not_answer(admin: Client) -> None:
    answer = admin.get("/c/local/groups/billing/clients/10.0.0.1@7")
    assert answer.status_code == 200
    assert "Not reported." in answer.content.decode()
    assert admin.get("/c/local/groups/billing/clients/nobody").status_code == 404


def test_a_member_that_is_silent_shows_what_the_last_sweep_and_round_knew(admin: Client) -> None:
    sample_queues.change({"group": "billing", "queue_id": 0}, time_lag_ms=90_000, lag=77)
    text = admin.get("/c/local/groups/billing/clients/10.0.0.1@7").content.decode()
    assert "Python V5_3_3 at 10.0.0.1:5000" in text
    assert "as reported when last queried" in text and "1 m 30 s" in text and "77" in text
    assert "every message" in text  # subscribed to orders: *
    gone = admin.get("/c/local/groups/billing/clients/nobody").content.decode()
    assert "This client is not connected" in gone and "Clients of the group" in gone


def test_the_page_of_a_member_joins_its_words_with_the_last_round(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue(queue_id: int) -> ReportedQueue:
        return ReportedQueue(
            "orders",
            "broker-a",
            queue_id,
            cached=4,
            last_pull_ms=sample_rows.NOW_MS,
            commit_offset=1_995,
            cached_from=1_995,
            cached_to=1_998,
            locked=False,
        )

    topic = ReportedTopic("orders", 3.0, 12.0, 1.5, 2, pull_ms=1.0, pulled_per_s=12.0)
    info = RunningInfo(
        [("PROP_CONSUMEORDERLY", "false"), ("PROP_ODD", "x")],
        [queue(0), queue(1), queue(9)],
        [topic],
        "at main",
        False,
    )
    monkeypatch.setattr(member_asked, "ask_member", lambda *args, **wishes: info)
    sample_queues.change({"group": "billing", "queue_id": 1}, lag=None, status="UNKNOWN", owner="10.0.0.2@8")
    text = admin.get("/c/local/groups/billing/clients/10.0.0.1@7?stack=1").content.decode()
    assert '<span class="atleast"' in text  # queue 9 is in no round, and queue 1 was not read
    assert "two owners" in text and "10.0.0.2@8 reported that it holds this queue" in text
    assert "Consumes in order" in text and "PROP_ODD" in text and "at main" in text
    assert ">12<" in text and ">1.5<" in text and ">12</" in text


def test_it_leads_from_a_stalled_queue_to_its_message_and_its_client(admin: Client) -> None:
    sample_queues.change({"group": "billing", "queue_id": 1}, status="STALLED", time_lag_ms=90_000)
    text = admin.get("/c/local/groups/billing?part=findings").content.decode()
    assert 'href="/c/local/messages/broker-a-1-1995?topic=orders&amp;at=broker-a%3A1%3A1995"' in text
    assert "/c/local/groups/billing/clients/10.0.0.1@7?stack=1" in text.replace("%40", "@")


def test_it_asks_the_database_no_more_for_more_queues(admin: Client) -> None:
    def source() -> int:
        with CaptureQueriesContext(connections["metrics"]) as rows, CaptureQueriesContext(connection) as own:
            assert admin.get("/c/local/groups/billing").status_code == 200
        return len(rows) + len(own)

    few = source()
    for queue_id in range(2, 40):
        sample_rows.queue_row("billing", queue_id)
    assert source() == few <= 30


def test_it_shows_a_group_whose_history_has_gaps(admin: Client) -> None:
    now_ms = round(time.time() * 1000)
    HistoryGap.objects.create(
        cluster="local",
        from_ms=now_ms - 600_000,
        to_ms=now_ms - 300_000,
        reason=Text("the console was stopped"),
    )
    assert admin.get("/c/local/groups/analytics").status_code == 200


def test_a_row_opens_to_its_worst_queues_with_one_query(admin: Client) -> None:
    sample_queues.change({"group": "billing", "queue_id": 1}, time_lag_ms=4_320_000)
    with CaptureQueriesContext(connections["metrics"]) as seen:
        text = admin.get("/c/local/groups/billing?part=row").content.decode()
    assert len(seen) == 1
    assert text.index("broker-a · 1") < text.index("broker-a · 0")
    assert "1 h 12 m" in text and "<html" not in text
    for queue_id in range(2, 30):
        sample_rows.queue_row("billing", queue_id)
    with CaptureQueriesContext(connections["metrics"]) as seen:
        text = admin.get("/c/local/groups/billing?part=row").content.decode()
    assert (len(seen), text.count("<tr>")) == (1, 11)
    assert "All queues" in text
    assert (
        signed_in("some", verbs=("VIEW",), names="x").get("/c/local/groups/billing?part=row").status_code
        == 403
    )


def test_a_generated_cluster_shows_its_week_and_offers_no_change(admin: Client) -> None:
    assert "Change offsets…" in admin.get("/c/local/groups/billing").content.decode()
    Cluster.objects.filter(name="local").update(generated_to_ms=1_790_000_000_000)
    text = admin.get("/c/local/groups/billing").content.decode()
    assert "Change offsets…" not in text and "Pause…" not in text
    assert re.search(r'range=7d"\s+aria-current="true"', text)


def test_a_generated_cluster_promises_no_survey_and_no_messages(admin: Client) -> None:
    Cluster.objects.filter(name="local").update(generated_to_ms=1_790_000_000_000)
    for page in ("brokers", "name-servers"):
        text = admin.get(f"/c/local/{page}").content.decode()
        assert "Generated data: " in text
        assert "; the first is not done yet" not in text and "it ends within a minute" not in text
    answer = admin.get("/c/local/messages?topic=orders")
    assert "local is generated data: no broker stores its messages." in answer.content.decode()
