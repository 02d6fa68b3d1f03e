"""Overview, brokers, clusters and the palette's names."""

from __future__ import annotations

import html
import re
import time

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.access.name_scope import NameScope
from console.broker import selectors as broker_selectors
from console.broker.models import BrokerSample, BrokerSurvey, RouteDifference
from console.broker.own_share import own_shares
from console.cluster import services as cluster_services
from console.cluster.errors import NameServerUnreachable
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import BrokerRow, ClientRow, GroupRow, Round, TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.overview import selectors
from console.rebalance.observed.findings import Finding as OwnershipFinding
from console.text import Duration, Text
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGES = ["/c/local/", "/clusters"]


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


@pytest.mark.parametrize("address", [*PAGES, "/", "/c/local/jump?q=a"])
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=/")


def test_it_hides_clusters_of_others() -> None:
    sample_rows.sample()
    assert signed_in("other", verbs=("VIEW",), cluster="elsewhere").get("/c/local/").status_code == 404


NARROW_PAGES = [
    "/c/local/",
    "/c/local/?part=1",
    "/c/local/?part=traffic",
    "/c/local/brokers",
    "/c/local/brokers?sort=in_rate",
    *(
        f"/c/local/brokers/broker-a?tab={tab}"
        for tab in ("health", "runtime", "config", "topics", "connections")
    ),
    "/c/local/jump?q=a",
]


def world_of_teams() -> None:
    """The sample cluster with a second team: topic pay-in, its group pay-books, its clients and dead letters."""
    sample_rows.sample()
    sample_rows.topic_row("pay-in", in_rate=4.5, worst_group="analytics", time_to_loss_group="fraud")
    sample_rows.topic_row("%DLQ%pay-books", kind="DLQ", messages=3)
    sample_rows.group_row("pay-books", out_rate=2.5, lag=40, time_lag_ms=90_000, in_rate=4.5)
    sample_rows.queue_row("pay-books", 0, topic="pay-in", lag=40, time_lag_ms=90_000)
    sample_queues.save(
        "local",
        TopicQueueRow(
            topic="pay-in", broker_name="broker-a", queue_id=0, min_offset=0, max_offset=50, in_rate=4.5
        ),
    )
    for group, client_id in (("pay-books", "10.9.9.9@1"), ("analytics", "10.8.8.8@1")):
        ClientRow.objects.create(
            read_at_ms=int(time.time() * 1000),
            cluster="local",
            group=group,
            client_id=client_id,
            queues=[{"topic": "pay-in", "broker_name": "broker-a", "queue_id": 0}] * (group == "analytics"),
        )
    RouteDifference.objects.create(
        cluster="local", topic="orders", views={"h:1": "no route"}, since_ms=1, read_at_ms=1
    )
    producers = [
        {"group": name, "client_id": f"{name}@1", "address": "h:1", "seen_ms": 1}
        for name in ("shop", "pay-desk")
    ]
    BrokerSurvey.objects.create(
        cluster="local",
        broker_name="broker-a",
        addr="h:1",
        config={"storePathRootDir": "/secret/orders"},
        producers=producers,
        runtime={"putTps": "14.2"},
    )


@pytest.mark.parametrize("address", NARROW_PAGES)
def test_it_shows_those_who_see_some_names_only_no_name_of_others(address: str) -> None:
    world_of_teams()
    answer = signed_in("payments", verbs=("VIEW",), names="pay-*").get(address)
    assert answer.status_code == 200
    text = re.sub(r' datetime="[^"]+"', "", answer.content.decode())  # their milliseconds may be any digits
    others = (
        "orders",
        "analytics",
        "billing",
        "notifier",
        "fraud",
        "10.0.0.1@7",
        "10.8.8.8@1",
        "shop@1",
        "/secret",
    )
    assert [name for name in others if name in text] == []
    assert "14.2" not in text and "28.4" not in text and "14_2" not in text  # the whole broker's traffic


def test_it_sums_over_their_own_names_and_says_so() -> None:
    world_of_teams()
    client = signed_in("payments", verbs=("VIEW",), names="pay-*")
    text = client.get("/c/local/").content.decode()
    assert "Only what you may view" in text and "<code>pay-*</code>" in text
    assert "1 topic, 1 group" in text
    assert re.search(r"<dd>4\.5</dd><dd class=\"sub\">into your topics", text)
    assert re.search(r"<dd>2\.5</dd><dd class=\"sub\">confirmed by your groups", text)
    assert "pay-books: idle client" in text  # of the findings, their own
    brokers = client.get("/c/local/brokers?sort=own_lag").content.decode()
    assert "Your time lag" in brokers and "1 m 30 s" in brokers and "Name servers" not in brokers
    page = client.get("/c/local/brokers/broker-a").content.decode()
    assert "1 queue of your topics" in page and "Config" not in page.split("<main")[1]
    assert "pay-desk@1" in client.get("/c/local/brokers/broker-a?tab=connections").content.decode()
    assert client.get("/c/local/name-servers").status_code == 403


def test_sums_over_own_names_are_lower_bounds_when_a_part_is_unknown() -> None:
    world_of_teams()
    sample_queues.save(
        "local",
        TopicQueueRow(topic="pay-in", broker_name="broker-a", queue_id=1, min_offset=0, max_offset=50),
    )
    sample_rows.queue_row("pay-books", 1, topic="pay-in", lag=None, time_lag_ms=None, status="UNKNOWN")
    scope = NameScope(("pay-*",))
    share = own_shares("local", scope)["broker-a"]
    assert (share.in_rate, share.partial, share.lag, share.lag_lower_bound) == (4.5, True, 40, True)
    assert own_shares("local", scope)["broker-b"].queues == 0
    TopicRow.objects.filter(topic="pay-in").update(partial=True)
    assert selectors.own_totals("local", scope, broker_selectors.broker_views("local")).partial
    text = signed_in("payments", verbs=("VIEW",), names="pay-*").get("/c/local/").content.decode()
    assert text.count('<span class="atleast"') >= 3


@pytest.mark.parametrize("address", PAGES)
def test_it_refuses_other_methods(admin: Client, address: str) -> None:
    assert admin.put(address).status_code == 405


def test_it_leads_to_the_first_cluster(admin: Client) -> None:
    assert admin.get("/")["Location"] == "/c/local/"


def test_it_leads_those_without_a_cluster_to_the_list() -> None:
    client = signed_in("nobody", verbs=())
    assert client.get("/")["Location"] == "/clusters"
    assert "No cluster" in client.get("/clusters").content.decode()


def test_it_shows_what_needs_a_look(admin: Client) -> None:
    text = admin.get("/c/local/").content.decode()
    assert "broker-b has not answered since" in text
    assert "1 <small>of 4</small>" in text  # analytics falls behind
    assert "connection refused" in text
    assert "312" in text


def test_a_silent_broker_has_the_punctuation_of_the_language(admin: Client) -> None:
    def banner() -> str:
        text = re.sub("<[^>]*>", "", admin.get("/c/local/").content.decode())
        return " ".join(text[text.index("broker-b ") :].split())

    assert re.match(r"broker-b has not answered since .{5,60}? \(.{2,20}\): connection refused", banner())
    admin.cookies["tidemark_language"] = "zh-hans"
    assert re.match(r"broker-b .{5,60}?（.{2,20}）：", banner())


def test_it_ranks_groups_by_what_hurts_first(admin: Client) -> None:
    GroupRow.objects.filter(group="billing").update(status="LOST")
    GroupRow.objects.filter(group="analytics").update(time_to_loss_ms=3_600_000)
    GroupRow.objects.filter(group="notifier").update(time_to_loss_ms=7_200_000)
    GroupRow.objects.filter(group="fraud").update(time_to_loss_ms=26_000, time_to_loss_lower_bound=True)
    ranked = [one.row.group for one in selectors.losing_groups("local")]
    assert ranked == ["billing", "analytics", "notifier", "fraud"], "at least 26 s is no alarm"
    assert [one.row.group for one in selectors.slowest_groups("local")][0] == "analytics"
    assert [(one.row.group, one.growth) for one in selectors.growing_groups("local")] == [
        ("analytics", 183.0)
    ]
    text = admin.get("/c/local/").content.decode()
    assert "losing now" in text
    assert "+183" in text
    GroupRow.objects.filter(group="analytics").update(partial=True, reason=Text("broker-b does not answer"))
    text = admin.get("/c/local/").content.decode()
    assert re.search(r'data-why="broker-b does not answer"\s*>≥</span>\+183', text)


def test_it_admits_partial_sums_and_unknown_figures(admin: Client) -> None:
    text = admin.get("/c/local/").content.decode()
    assert "1 of 2 brokers" in text
    assert '<span class="atleast"' in text
    assert "this release does not report it" in text  # put latency: sample rows tell next to nothing
    totals = selectors.totals(broker_selectors.broker_views("local"))
    assert (totals.in_rate, totals.partial, totals.readers) == (14.2, True, 2.0)


def test_a_sum_without_a_broker_that_just_started_is_a_lower_bound(admin: Client) -> None:
    BrokerRow.objects.filter(answered=False).update(answered=True, reason=Text())
    totals = selectors.totals(broker_selectors.broker_views("local"))
    assert (totals.in_rate, totals.partial, totals.answered, totals.brokers) == (14.2, True, 1, 2)
    assert totals.reason == "some rates are not known yet"


def test_it_says_which_disk_is_full_first(admin: Client) -> None:
    for name, full_in_ms in (("broker-a", 9 * 3_600_000), ("broker-c", 20 * 3_600_000)):
        BrokerSurvey.objects.create(
            cluster="local",
            broker_name=name,
            addr="h:1",
            filling="FILLING",
            full_in_ms=full_in_ms,
            full_words=Text("so"),
        )
    text = admin.get("/c/local/").content.decode()
    assert "9 h" in text
    assert "The disk is full in 9 h" in text  # the finding says it too


def test_it_knows_how_the_collector_does(admin: Client) -> None:
    for number, duration_ms in ((41_207, 900), (41_206, 100)):
        Round.objects.create(
            cluster="local",
            number=number,
            started_at_ms=1,
            duration_ms=duration_ms,
            brokers_answered=2,
            brokers_total=2,
        )
    found = selectors.health(list(Round.objects.order_by("-number")))
    assert found is not None
    assert (found.p99_ms, found.rounds, round(found.covered, 2), found.rpcs_per_broker) == (
        900,
        3,
        0.67,
        12.0,
    )
    text = admin.get("/c/local/").content.decode()
    assert "(p99 900 ms)" in text


def test_a_page_made_while_no_round_comes_does_not_call_itself_live(admin: Client) -> None:
    """At 5 s a round: 9 s old is live, 40 s are eight rounds that did not come."""
    now_ms = int(time.time() * 1000)
    for old_ms, is_stale in ((9_000, False), (40_000, True)):
        Round.objects.filter(cluster="local").update(started_at_ms=now_ms - old_ms, duration_ms=0)
        text = admin.get("/c/local/").content.decode()
        assert ("live--stale" in text) is is_stale
        assert text.count(">Stale<") == (2 if is_stale else 0)  # the indicator, the collector


def test_it_costs_as_many_queries_for_many_groups_and_brokers(admin: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connections["metrics"]) as seen:
            assert admin.get("/c/local/").status_code == 200
        return len(seen)

    few = cost()
    for number in range(60):
        sample_rows.group_row(f"g-{number:02}", lag=number, time_lag_ms=number)
        BrokerRow.objects.create(
            cluster="local", broker_name=f"broker-{number:02}", addr="h:1", answered=True
        )
    assert cost() == few
    assert few <= 30


def test_a_group_in_trouble_is_a_finding_with_the_next_step(admin: Client) -> None:
    reason = Text("no progress for %(time)s", time=Duration(60_000))
    GroupRow.objects.filter(group="analytics").update(status="STALLED", reason=reason)
    text = admin.get("/c/local/").content.decode()
    assert "analytics: has stalled" in text
    assert "Reason: no progress for 1 m. Check the message it waits for" in text
    GroupRow.objects.filter(group="analytics").update(status="OFFLINE", lag=0)
    assert "analytics: no client is online" not in admin.get("/c/local/").content.decode()


@pytest.mark.parametrize(("lag", "troubled"), [(0, 0), (1, 1), (None, 1)])
def test_findings_and_the_count_of_groups_in_trouble_agree(
    admin: Client, lag: int | None, troubled: int
) -> None:
    GroupRow.objects.filter(group="analytics").update(status="OFFLINE", lag=lag)
    text = admin.get("/c/local/").content.decode()
    assert ("analytics: no client is online" in text) is (troubled == 1)
    assert f"{troubled} <small>of 4</small>" in text
    assert lag_selectors.is_in_trouble("OFFLINE", lag) is (troubled == 1)


def test_ownership_is_one_finding_a_group_and_kind() -> None:
    problems = [
        (
            "billing",
            OwnershipFinding(
                "NO_OWNER", "STOPPED", Text("%(topic)s lacks one", topic=topic), Text(), since_ms=since_ms
            ),
        )
        for topic, since_ms in (("orders", None), ("refunds", 2_000), ("returns", 1_000))
    ]
    of_the_page = OwnershipFinding("SILENT_CLIENT", "UNKNOWN", Text("x does not report its queues"), Text())
    (found,) = selectors.ownership_findings([*problems, ("billing", of_the_page)])
    assert (found.title, found.since_ms) == ("billing: no owner", 1_000)
    assert found.text == (
        "orders lacks one. Messages there wait. The group's Rebalance names the client that should read them. "
        "2 more are on the page of the group."
    )


@pytest.mark.parametrize("most", ["OWNERSHIP_CLIENTS_MAX", "OWNERSHIP_QUEUES_MAX"])
def test_of_too_many_clients_or_queues_no_owner_is_judged(
    admin: Client, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_rows.group_row("torn")
    for number in range(2):
        sample_rows.queue_row("torn", number)
        sample_rows.client_row("torn", f"torn-{number}", queues=[], read_at_ms=int(time.time() * 1000))
    ClientRow.objects.exclude(group="torn").delete()
    elsewhere = "; for the queues of each client, open its group"
    monkeypatch.setattr(selectors, most, 2)
    text = admin.get("/c/local/").content.decode()
    assert "torn: idle client" in text and elsewhere not in text
    monkeypatch.setattr(selectors, most, 1)
    text = admin.get("/c/local/").content.decode()
    assert "torn: idle client" not in text and elsewhere in text


def test_the_collector_is_a_part_of_its_own(admin: Client) -> None:
    part = admin.get("/c/local/?part=collector").content.decode()
    assert "All answered" in part and "broker-a" not in part


def test_its_chart_ends_with_the_last_round(admin: Client) -> None:
    now_ms = int(time.time() * 1000)
    BrokerSample.objects.create(
        cluster="local", broker_name="broker-a", at_ms=now_ms - 600_000, in_rate=3.0, out_rate=4.0
    )
    BrokerRow.objects.exclude(broker_name="broker-a").delete()
    BrokerRow.objects.update(read_at_ms=now_ms, in_rate=14.25, out_rate=28.5, answered=True)
    chart = admin.get("/c/local/?part=traffic").json()
    assert (chart["times"][-1], chart["in_rate"][-1], chart["out_rate"][-1]) == (now_ms, 14.25, 28.5)
    assert chart["sampled"] == [None, None]
    BrokerRow.objects.create(cluster="local", broker_name="broker-b", answered=False)
    chart = admin.get("/c/local/?part=traffic").json()
    assert (chart["in_rate"][-1], chart["sampled"][-1]) == (14.25, [1, 2])
    BrokerRow.objects.update(answered=False)
    assert now_ms not in admin.get("/c/local/?part=traffic").json()["times"]


def test_it_gives_the_live_part_alone(admin: Client) -> None:
    part = admin.get("/c/local/?part=1").content.decode()
    assert "broker-a" in part
    assert "<html" not in part


def test_it_says_that_no_round_is_done_yet() -> None:
    sample_rows.cluster("fresh")
    assert "No figures yet" in signed_in().get("/c/fresh/").content.decode()


UNREACHED = ("", "groups", "topics", "brokers", "dead-letters", "dead-letters?part=1")


@pytest.mark.parametrize("page", UNREACHED)
def test_a_cluster_that_nobody_reaches_is_unknown_not_empty(page: str) -> None:
    sample_rows.cluster("far", namesrv_addrs="10.9.9.9:9876")
    for number, answered in ((5, 1), (6, 0), (7, 0)):
        Round.objects.create(
            cluster="far",
            number=number,
            started_at_ms=sample_rows.NOW_MS + number * 5_000,
            duration_ms=20,
            brokers_answered=answered,
            brokers_total=answered,
            error=Text("" if answered else "no name server answers: 10.9.9.9:9876 is not available"),
        )
    client = signed_in()
    text = client.get(f"/c/far/{page}").content.decode()
    if "part" not in page:
        assert "far has not been reached since" in text and "10.9.9.9:9876 is not available" in text
        assert f'data-at="{sample_rows.NOW_MS + 30_000}"' in text  # since the first round that failed
        assert "live--stale live--partial" in text
        assert (
            f'data-read-at="{sample_rows.NOW_MS + 25_020}"' in text
        )  # the figures are of the last good round
    for claim in (
        "No message waits",
        "0 messages",
        "list no broker",
        "No group has",
        "have no topic",
        "0 s</span>",
    ):
        assert claim not in text
    Round.objects.create(
        cluster="far", number=8, started_at_ms=1, duration_ms=1, brokers_answered=1, brokers_total=1
    )
    assert "has not been reached" not in client.get(f"/c/far/{page}").content.decode()


def test_it_finds_names_for_the_palette(admin: Client) -> None:
    items = admin.get("/c/local/jump?q=ORD").json()["items"]
    assert [(item["name"], item["url"]) for item in items] == [("orders", "/c/local/topics/orders")]
    items = admin.get("/c/local/jump?q=%25DLQ").json()["items"]
    assert items[0]["url"] == "/c/local/topics/%25DLQ%25notifier"


def test_it_recognises_a_message_id(admin: Client) -> None:
    items = admin.get("/c/local/jump?q=0A0407151F9063947C6B6E2F24B70911").json()["items"]
    assert items[0]["url"] == "/c/local/messages?read=id&id=0A0407151F9063947C6B6E2F24B70911"


def test_it_says_why_a_cluster_can_not_be_added(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> Cluster:
        raise NameServerUnreachable("127.0.0.1:1 does not answer: connection refused.")

    monkeypatch.setattr(cluster_services, "add_cluster", unreachable)
    answer = admin.post("/clusters", {"name": "prod", "namesrv_addrs": "127.0.0.1:1"})
    assert answer.status_code == 422
    assert "127.0.0.1:1 does not answer: connection refused." in answer.content.decode()


def test_it_refuses_an_illegal_cluster_name(admin: Client) -> None:
    answer = admin.post("/clusters", {"name": "Prod/1", "namesrv_addrs": "127.0.0.1:1"})
    assert answer.status_code == 422
    assert "Lower-case letters" in answer.content.decode()


def test_it_lets_only_administrators_add_clusters() -> None:
    sample_rows.sample()
    viewer = signed_in("viewer", verbs=("VIEW",))
    assert "Add a cluster" not in viewer.get("/clusters").content.decode()
    assert viewer.post("/clusters", {"name": "prod", "namesrv_addrs": "127.0.0.1:1"}).status_code == 403
    some = signed_in("some", verbs=("ADMIN",), cluster="prod*")
    assert some.post("/clusters", {"name": "prod", "namesrv_addrs": "127.0.0.1:1"}).status_code == 403
    asked = {"name": "prod", "namesrv_addrs": "127.0.0.1:1"}
    refused = some.post("/api/v1/clusters", asked, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")


def test_it_carries_the_security_headers(admin: Client) -> None:
    answer = admin.get("/c/local/")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert " style=" not in text
    assert " onclick=" not in text
    assert "<style" not in text


def test_where_groups_are_unknown_it_does_not_say_that_all_is_well(admin: Client) -> None:
    GroupRow.objects.exclude(is_system=True).update(
        status="UNKNOWN", time_lag_ms=None, time_to_loss_ms=None, lag=None, in_rate=None, out_rate=None
    )
    text = admin.get("/c/local/").content.decode()
    assert "No known message waits; some groups are unknown." in text
    assert (
        "no group has a backlog" not in text
        and "No message waits." not in text
        and "none in sight" not in text
    )


def test_it_says_when_the_rates_of_a_new_broker_are_known(admin: Client) -> None:
    """Below the list of brokers; on the overview, whose cards would move, with the figures."""
    words = {
        "/c/local/brokers": "A broker's rates are known after its first whole minute",
        "/c/local/?part=1": "known after a minute",
    }
    for address, said in words.items():
        assert said not in html.unescape(admin.get(address).content.decode())
    BrokerRow.objects.update(in_rate=None, out_rate=None, answered=True)
    for address, said in words.items():
        assert said in html.unescape(admin.get(address).content.decode())
