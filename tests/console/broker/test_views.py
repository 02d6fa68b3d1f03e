"""Pages of brokers and name servers: who may, what they admit, what they start."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.access.name_scope import NameScope
from console.broker.models import BrokerSample, BrokerSurvey, NameServerRow, RouteDifference, Survey
from console.broker.selectors import broker_topics, config_table
from console.cluster.models import Cluster
from console.lag.models import BrokerRow
from console.operation.models import Plan
from console.text import Text
from tests.console.broker.conftest import NAME, Pair
from tests.console.broker.survey.test_runtime import captured
from tests.support import sample_rows
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
TABS = ("health", "runtime", "config", "topics", "connections", "drain")
PAGES = [
    "/c/local/brokers",
    *(f"/c/local/brokers/broker-a?tab={tab}" for tab in TABS),
    "/c/local/brokers/broker-b",
    "/c/local/name-servers",
]
HOUR_MS = 3_600_000


def survey(name: str, **fields: Any) -> BrokerSurvey:
    values = {
        "cluster": "local",
        "broker_name": name,
        "addr": "h:1",
        "config": {"brokerName": name, "fileReservedTime": "72", "brokerPermission": "6"},
        "config_at_ms": sample_rows.NOW_MS,
        "producers": [],
        "replicas": [],
        "runtime": captured("5.3.3"),
        "runtime_at_ms": sample_rows.NOW_MS,
    }
    return BrokerSurvey.objects.create(**{**values, **fields})


def name_server(addr: str, *names: str, **fields: Any) -> NameServerRow:
    values = {
        "cluster": "local",
        "addr": addr,
        "answered": True,
        "brokers": {name: {"0": "h:1"} for name in names},
        "topic_count": 7,
        "config": {"orderMessageEnable": "false"},
        "read_at_ms": sample_rows.NOW_MS,
    }
    return NameServerRow.objects.create(**{**values, **fields})


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return str(answer.content.decode())


@pytest.mark.parametrize("address", PAGES)
def test_it_shows_every_page_before_and_after_the_first_survey(admin: Client, address: str) -> None:
    before = text_of(admin, address)
    survey("broker-a")
    name_server("10.0.0.1:9876", "broker-a", "broker-b")
    Survey.objects.create(cluster="local", started_at_ms=sample_rows.NOW_MS, duration_ms=40, rpcs=12)
    after = text_of(admin, address)
    for text in (before, after):
        assert " style=" not in text and " onclick=" not in text and "title=" not in text.split("<main")[1]


@pytest.mark.parametrize("address", PAGES)
def test_it_refuses_strangers_others_and_other_methods(client: Client, address: str) -> None:
    sample_rows.sample()
    assert client.get(address)["Location"].startswith("/sign-in?next=/")
    assert signed_in("other", verbs=("VIEW",), cluster="elsewhere").get(address).status_code == 404
    of_the_whole = address.endswith("name-servers")
    some = signed_in("some", verbs=("VIEW",), names="billing")
    assert some.get(address).status_code == (403 if of_the_whole else 200)
    assert signed_in("viewer", verbs=("VIEW",)).put(address).status_code == 405


@pytest.mark.parametrize("address", ["/c/local/brokers/broker-a/config", "/c/local/brokers/broker-a/drain"])
def test_it_lets_only_those_change_who_may_configure(address: str) -> None:
    sample_rows.sample()
    viewer = signed_in("viewer", verbs=("VIEW",))
    assert viewer.post(address, {"key": "deleteWhen", "value": "05", "direction": "drain"}).status_code == 403
    page = text_of(viewer, "/c/local/brokers/broker-a")
    assert "Drain…" not in page and "Change a key…" not in page


def test_a_silent_broker_is_not_said_to_be_listed(admin: Client) -> None:
    """What name servers said a minute ago stands on their page, with its age."""
    name_server("10.0.0.1:9876", "broker-a", "broker-b")
    assert "1 of 1 name server lists it" in text_of(admin, "/c/local/brokers/broker-a")
    assert "name server lists it" not in text_of(admin, "/c/local/brokers/broker-b")


def test_it_says_that_there_is_no_such_broker(admin: Client) -> None:
    assert admin.get("/c/local/brokers/broker-z").status_code == 404


def test_it_shows_a_silent_broker_as_unknown_since_when_and_why(admin: Client) -> None:
    survey("broker-b", config_reason=Text("connection refused"))
    text = text_of(admin, "/c/local/brokers")
    assert "broker-b has not answered since" in text and "connection refused" in text
    assert "unknown · since" in text
    assert "last reported: in 1.1" in text
    page = text_of(admin, "/c/local/brokers/broker-b")
    assert "last reported 1.1" in page and "last reported 17 %" in page
    form = text_of(admin, "/c/local/brokers/broker-a/config?key=fileReservedTime")
    assert "does not answer; " in form
    assert "broker-b: no answer" in page and "connection refused" in page
    assert text_of(admin, "/c/local/brokers/broker-b?tab=runtime").count("Last reported") == 1


def test_of_a_silent_broker_without_rates_it_shows_the_disk(admin: Client) -> None:
    """It was younger than a minute, and had no rate, when it last answered."""
    survey("broker-b", runtime={**captured("5.3.3"), "putTps": "", "getTransferredTps": ""})
    assert "last reported: disk 17 %" in text_of(admin, "/c/local/brokers")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["broker-a", "broker-b", "broker-c"]),
        ("?dir=desc", ["broker-c", "broker-b", "broker-a"]),
        ("?sort=in_rate", ["broker-c", "broker-a", "broker-b"]),
        ("?sort=in_rate&dir=asc", ["broker-a", "broker-c", "broker-b"]),  # unknown is last both ways
        ("?sort=full_in", ["broker-c", "broker-a", "broker-b"]),
        ("?q=-C", ["broker-c"]),
        ("?state=silent", ["broker-b"]),
        ("?state=drained", ["broker-c"]),
        ("?rows=25&page=9", ["broker-a", "broker-b", "broker-c"]),
    ],
)
def test_it_sorts_filters_and_pages_over_all_brokers(admin: Client, query: str, expected: list[str]) -> None:
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-c", addr="h:3", answered=True, in_rate=99.0, version="V5_2_0"
    )
    survey("broker-a", full_in_ms=9 * HOUR_MS, filling="FILLING")
    survey("broker-c", full_in_ms=3 * HOUR_MS, filling="FILLING")
    name_server("10.0.0.1:9876", "broker-a", "broker-b", "broker-c", unwritable=["broker-c"])
    page = admin.get(f"/c/local/brokers{query}").context["page"]
    assert [view.name for view in page.rows] == expected
    assert page.counts_by_status["silent"] in (1, 0) and page.all_total == 3


def test_it_costs_as_many_queries_for_many_brokers(admin: Client) -> None:
    def cost(address: str) -> int:
        with CaptureQueriesContext(connections["metrics"]) as first:
            assert admin.get(address).status_code == 200
        return len(first)

    addresses = ["/c/local/brokers", "/c/local/brokers/broker-a", "/c/local/brokers/broker-a?tab=config"]
    few = [cost(address) for address in addresses]
    for number in range(40):
        BrokerRow.objects.create(cluster="local", broker_name=f"b-{number:02}", addr="h:1", answered=True)
        survey(f"b-{number:02}")
    assert [cost(address) for address in addresses] == few
    assert max(few) <= 16


def test_it_explains_runtime_figures_and_names_those_it_can_not_know(admin: Client) -> None:
    BrokerRow.objects.filter(broker_name="broker-a").update(runtime=captured("4.9.7"))
    text = text_of(admin, "/c/local/brokers/broker-a?tab=runtime")
    assert "Put, slowest 1 %" in text and "putLatency99" in text
    assert "reported from RocketMQ 5.0 on" in text
    assert "sends; the first has waited 0 ms, room for 10,000" in text
    assert '<b>Not applicable to this broker</b> <span class="muted">8</span>' in text
    now_ms = int(time.time() * 1000)
    part = "/c/local/brokers/broker-a?tab=runtime&part=1"
    for minute in range(100):
        if minute == 2:
            assert "usual values are known from" in text_of(admin, part)
        BrokerSample.objects.create(
            cluster="local",
            broker_name="broker-a",
            at_ms=now_ms - minute * 60_000,
            in_rate=40.0,
            unflushed_bytes=2048 * minute,
        )
    part = admin.get(part).content.decode()
    assert '<td class="num nowrap soft p2">40 /s</td>' in part
    assert "usual values are known from" not in part
    assert part.count("data-trend") == 10, "brokerd alone has an event loop"
    started_ms = captured("4.9.7")["bootTimestamp"]
    assert f'<time data-at="{started_ms}"' in part and f'<time data-at="{started_ms}" data-as="age">' in part
    assert "Messages in" in part and "<html" not in part


def test_its_chart_has_what_is_usual_and_where_the_disk_goes(admin: Client) -> None:
    address = "/c/local/brokers/broker-a?part=chart"
    before = admin.get(address).json()
    assert (before["usual"], before["disk_per_h"], before["limits"]) == ({}, None, [0.75, 0.85, 0.9])
    capacity = "Total : 100.0 GiB, Free : 40.0 GiB."
    BrokerRow.objects.filter(broker_name="broker-a").update(
        disk_ratio=0.6, runtime=captured("5.3.3") | {"commitLogDirCapacity": capacity}
    )
    survey(
        "broker-a",
        config={"brokerName": "broker-a", "diskMaxUsedSpaceRatio": "70"},
        write_bytes_per_s=2**30 / 3600,
    )
    now_ms = int(time.time() * 1000)
    BrokerSample.objects.bulk_create(
        BrokerSample(cluster="local", broker_name="broker-a", at_ms=now_ms - minute * 60_000, in_rate=40.0)
        for minute in range(100)
    )
    chart = admin.get(address).json()
    assert chart["usual"] == {"in_rate": [40.0, 40.0]}
    assert chart["limits"] == [0.7, 0.85, 0.9]
    assert chart["disk_per_h"] == pytest.approx(0.01)


def test_it_marks_what_most_brokers_do_not_have(admin: Client) -> None:
    survey(
        "broker-a", config={"brokerName": "broker-a", "flushDiskType": "SYNC_FLUSH", "fileReservedTime": "72"}
    )
    for name in ("broker-b", "broker-c"):
        survey(name, config={"brokerName": name, "flushDiskType": "ASYNC_FLUSH", "fileReservedTime": "72"})
    survey("broker-d", config=None, config_reason=Text("connection refused"))
    table = config_table("local")
    assert (table.differing, table.total, table.unread) == (1, 3, {"broker-d": "connection refused"})
    (line,) = config_table("local", only_differences=True).lines
    assert (line.key.name, line.odd) == ("flushDiskType", [True, False, False])
    text = text_of(admin, "/c/local/brokers/broker-a?tab=config&show=differences")
    assert "SYNC_FLUSH" in text and "fileReservedTime" not in text and "broker-d: unknown" in text
    assert "fileReservedTime" in text_of(admin, "/c/local/brokers/broker-a?tab=config&q=older+than")
    assert "brokerName" in text_of(admin, "/c/local/brokers/broker-a?tab=config&show=all&rows=25")
    assert "0 of 3 keys match" in text_of(admin, "/c/local/brokers/broker-a?tab=config&q=nosuchkey")
    health = text_of(admin, "/c/local/brokers/broker-a")
    assert "flushDiskType differs between brokers" in health


def test_one_name_server_has_nothing_to_compare(admin: Client) -> None:
    name_server("10.0.0.1:9876", "broker-a", config={"orderMessageEnable": "true"})
    assert "Routes that differ" not in (alone := text_of(admin, "/c/local/name-servers"))
    assert "1 keys of" in alone and "on every name server" not in alone
    name_server("10.0.0.2:9876", "broker-a")
    assert "Routes that differ" in text_of(admin, "/c/local/name-servers")


def test_it_names_where_name_servers_disagree(admin: Client) -> None:
    name_server("10.0.0.1:9876", "broker-a", unwritable=["broker-a"], config={"orderMessageEnable": "true"})
    name_server("10.0.0.2:9876", "broker-a", "broker-b")
    name_server(
        "10.0.0.3:9876",
        answered=False,
        reason=Text("connection refused"),
        since_ms=sample_rows.SILENT_SINCE_MS,
    )
    RouteDifference.objects.create(
        cluster="local",
        topic="orders",
        views={"10.0.0.1:9876": "broker-a 4/4 read only", "10.0.0.2:9876": "not known here"},
        since_ms=sample_rows.NOW_MS,
        read_at_ms=sample_rows.NOW_MS,
    )
    text = text_of(admin, "/c/local/name-servers")
    assert "broker-a 4/4 read only" in text and "not known here" in text
    assert "connection refused" in text and "unknown · since" in text
    assert "orderMessageEnable" in text
    assert "0 of 1 match" in text_of(admin, "/c/local/name-servers?q=clicks")
    page = text_of(admin, "/c/local/brokers/broker-a")
    assert "Drained at some name servers only" in page
    assert "Not every name server lists it" in text_of(admin, "/c/local/brokers/broker-b")
    assert "The name servers disagree about 1 topic" in text_of(admin, "/c/local/")
    assert "1 differ" in text_of(admin, "/c/local/brokers")


def test_it_never_shows_a_secret(admin: Client) -> None:
    survey("broker-a", config={"brokerName": "broker-a", "initAuthenticationUser": "(set, not shown)"})
    text = text_of(admin, "/c/local/brokers/broker-a?tab=config&q=initAuth")
    assert "(set, not shown)" in text and "config?key=initAuth" not in text


# ---- changes, on real brokers ----


@pytest.fixture
def operator(pair: Pair) -> Client:
    pair.collect()
    pair.survey()
    client = Browser()
    client.force_login(pair.actor)
    return client


def test_it_makes_a_plan_of_a_key(operator: Client, pair: Pair) -> None:
    address = f"/c/{NAME}/brokers/broker-a/config"
    form = text_of(operator, f"{address}?key=shortPollingTimeMills")
    assert 'value="1000"' in form and "Wait of a pull if long polling is off, in ms" in form
    requested = {"key": "shortPollingTimeMills", "value": "250", "brokers": ["broker-a", "broker-b"]}
    plan_page = operator.post(address, requested, follow=True)
    plan = Plan.objects.get()
    assert (plan.subject, [row["broker_name"] for row in plan.diff]) == ("*", ["broker-a", "broker-b"])
    shown = plan_page.content.decode()
    assert "shortPollingTimeMills" in shown and "Change the key" in shown and "config-plans" in shown
    operator.post(f"/c/{NAME}/plans/{plan.id}/apply", {"confirm_text": plan.confirm_text})
    job = Plan.objects.get().job
    assert "Result per broker" in text_of(operator, f"/c/{NAME}/operations/{job.id}") or job.id


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": "0"}, "At least 1 ms."),
        ({"value": "soon"}, "Enter a whole number of ms."),
        ({"key": "brokerName"}, "brokerName cannot be changed here."),
        ({"key": "noSuchKey"}, "broker-a has no key noSuchKey"),
        ({"key": ""}, "Enter the key."),
        ({"brokers": []}, "Choose at least one broker."),
        ({"brokers": ["broker-z"]}, "broker-z is not one of the available choices"),
    ],
)
def test_it_gives_the_reason_on_the_field(operator: Client, changes: dict[str, Any], words: str) -> None:
    requested = {"key": "shortPollingTimeMills", "value": "250", "brokers": ["broker-a"]} | changes
    answer = operator.post(f"/c/{NAME}/brokers/broker-a/config", requested)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Plan.objects.exists()


def test_it_says_when_a_broker_does_not_answer(operator: Client, pair: Pair) -> None:
    pair.a.kill()
    requested = {"key": "shortPollingTimeMills", "value": "250", "brokers": ["broker-a"]}
    answer = operator.post(f"/c/{NAME}/brokers/broker-a/config", requested)
    assert answer.status_code == 422 and "No plan was made." in answer.content.decode()
    drained = operator.post(f"/c/{NAME}/brokers/broker-b/drain", {"direction": "drain"}, follow=True)
    assert "No plan was made." in drained.content.decode()


def test_it_makes_a_drain_plan(operator: Client, pair: Pair) -> None:
    pair.create_topic("only-here", "broker-b")
    shown = operator.post(f"/c/{NAME}/brokers/broker-b/drain", {"direction": "drain"}, follow=True)
    text = shown.content.decode()
    assert "Topics without a writable queue" in text and "only-here" in text
    assert "Drain broker-b" in text and "Name of the broker" in text
    plan = Plan.objects.get()
    assert operator.post(f"/c/{NAME}/plans/{plan.id}/apply", {"confirm_text": "broker"}).status_code == 422
    assert not hasattr(Plan.objects.get(), "job")


def test_the_drain_tab_says_whether_the_broker_may_be_stopped(admin: Client) -> None:
    """Its checks alone are the live part."""
    for address in ("/c/local/brokers/broker-a?tab=drain", "/c/local/brokers/broker-a?tab=drain&part=1"):
        page = text_of(admin, address)
        assert page.count("</tr>") == 8 and "Gone from the name servers" in page
        assert "of 7 checks do not say yes: do not stop the broker yet" in page
    assert "Plan the drain" not in page


def test_it_shows_what_a_broker_holds_back_and_admits_what_it_does_not_know(admin: Client) -> None:
    level = {"level": 18, "waiting": 1_234, "newest_ms": sample_rows.NOW_MS}
    told = survey(
        "broker-a", delayed=[level], half=6, timed={"orders": 4}, held_back_at_ms=sample_rows.NOW_MS
    )
    page = text_of(admin, "/c/local/brokers/broker-a")
    card = page.split("Held back")[1].split("</section>")[0]
    assert "1,234" in card and "level 18" in card and "≤ 6" in card
    assert 'href="/c/local/topics/orders">orders</a> 4' in card
    some = signed_in("some", verbs=("VIEW",), names="billing")
    assert "Held back" not in text_of(some, "/c/local/brokers/broker-a")
    BrokerSurvey.objects.filter(pk=told.pk).update(
        delayed=None, delayed_reason=Text("no answer"), half=None, half_reason=Text("no answer"), timed=None
    )
    unknown = text_of(admin, "/c/local/brokers/broker-a").split("Held back")[1].split("</section>")[0]
    assert unknown.count(">unknown<") == 3 and unknown.count('data-why="no answer"') == 2


def test_a_generated_broker_announces_no_survey(admin: Client) -> None:
    Cluster.objects.filter(name="local").update(generated_to_ms=sample_rows.NOW_MS)
    for tab in ("health", "config", "connections"):
        page = admin.get(f"/c/local/brokers/broker-a?tab={tab}").content.decode()
        assert "irst survey" not in page and "enerated data: there is no broker to survey" in page, tab


def test_limits_without_a_value_of_the_broker_are_defaults(admin: Client) -> None:
    made = survey("broker-a", config={"diskMaxUsedSpaceRatio": "70"})
    limits = text_of(admin, "/c/local/brokers/broker-a").split("diskMaxUsedSpaceRatio")[1]
    assert limits.count("default</span>") == 2 and "could not be read" not in limits
    BrokerSurvey.objects.filter(pk=made.pk).update(config=None)
    unread = text_of(admin, "/c/local/brokers/broker-a").split("diskMaxUsedSpaceRatio")[1]
    assert unread.count("default</span>") == 3 and "Configuration not read" in unread


def test_topics_of_a_broker_show_their_share_of_what_it_stores(admin: Client) -> None:
    topics, _ = broker_topics("local", "broker-a")
    assert sum(one.share or 0 for one in topics) == pytest.approx(1)
    largest = max(topics, key=lambda one: one.messages)
    assert largest.share == max(one.share or 0 for one in topics)
    assert "brokers do not report bytes by topic" in text_of(admin, "/c/local/brokers/broker-a?tab=topics")
    some, _ = broker_topics("local", "broker-a", NameScope((largest.topic,)))
    assert [one.share for one in some] == [None]


def test_it_names_the_limits_of_the_disk_and_when_they_are_reached(admin: Client) -> None:
    BrokerRow.objects.filter(broker_name="broker-a").update(disk_ratio=0.8)
    survey(
        "broker-a",
        write_bytes_per_s=1_000_000.0,
        runtime={"commitLogDirCapacity": "Total : 1.0 TiB, Free : 1 GiB."},
    )
    page = " ".join(admin.get("/c/local/brokers/broker-a").content.decode().split())
    limits = page[page.index("diskMaxUsedSpaceRatio") :]
    assert "reached" in limits[: limits.index("diskSpaceCleanForciblyRatio")]
    assert "3.6 GB written an hour" in page and "files are kept 72 h" in page
