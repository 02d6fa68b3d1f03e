"""Surveys of two brokers and several name servers: what is kept, what is unknown, what differs."""

from __future__ import annotations

import pytest

from console.broker import selectors, services
from console.broker.models import BrokerSample, BrokerSurvey, NameServerRow, RouteDifference, Survey
from console.broker.survey import disk
from console.cluster.models import Cluster
from console.lag.models import BrokerRow
from tests.console.broker.conftest import NAME, Pair
from tests.console.operation.live_cluster import wait_for
from tests.support.broker_process import BrokerProcess

HOUR_MS = 3_600_000


def listen_to(*namesrvs: str) -> None:
    Cluster.objects.filter(name=NAME).update(namesrv_addrs=";".join(namesrvs))


def test_it_keeps_what_brokers_and_the_name_server_say(pair: Pair) -> None:
    pair.create_topic("orders")
    pair.collect()
    with pair.producing("orders"):
        wait_for(lambda: "shop" in pair.admin.producers(pair.a.address), "its heartbeat", within_s=60)
        done = pair.survey()
    # Name server 106, 319, 206 and two routes; brokers 26, 328, 907, 45, 14, two topics (202) and 61.
    assert done.rpcs == 3 + 2 + 2 * 8
    for name in ("broker-a", "broker-b"):
        row = BrokerSurvey.objects.get(cluster=NAME, broker_name=name)
        assert row.config is not None and row.config["brokerName"] == name
        assert (row.config_at_ms, row.config_reason, row.replicas) == (pair.now_ms, "", [])
        assert row.runtime["brokerVersionDesc"] == "V5_3_3"
        assert row.producers is not None
        assert (row.filling, row.full_in_ms) == ("UNKNOWN", None)
        assert "is known after 10 m" in row.full_words
    producers = BrokerSurvey.objects.get(cluster=NAME, broker_name="broker-a").producers
    assert [one["group"] for one in producers or ()] == ["shop"]
    (server,) = NameServerRow.objects.filter(cluster=NAME)
    assert (server.answered, server.addr, server.unwritable) == (True, pair.a.namesrv, [])
    assert server.brokers == {name: {"0": addr} for name, addr in pair.addrs.items()}
    assert server.config is not None and server.config["orderMessageEnable"] == "false"
    assert BrokerSample.objects.filter(cluster=NAME).count() == 2
    # Both have just started: what they counted so far is no rate.
    assert set(BrokerSample.objects.values_list("in_rate", "out_rate", "miss_rate")) == {(None, None, None)}
    assert None not in BrokerSample.objects.values_list("unflushed_bytes", flat=True)
    old = [
        {**row.runtime, "bootTimestamp": str(pair.now_ms - 120_000)}
        for row in BrokerRow.objects.order_by("pk")
    ]
    for row, figures in zip(BrokerRow.objects.order_by("pk"), old, strict=True):
        row.runtime, row.in_rate = figures, 7.5
        row.save()
    services.request_survey(NAME)
    assert services.survey_cluster(NAME, now_ms=pair.now_ms + 1) is not None
    later = BrokerSample.objects.filter(at_ms=pair.now_ms + 1)
    assert {one.in_rate for one in later} == {7.5} and all(one.miss_rate is not None for one in later)


def test_it_runs_once_a_minute_by_whoever_is_first(pair: Pair) -> None:
    assert services.due_clusters(pair.now_ms) == [NAME]
    assert services.survey_cluster(NAME, now_ms=pair.now_ms) is not None
    assert services.survey_cluster(NAME, now_ms=pair.now_ms + 59_999) is None
    assert services.due_clusters(pair.now_ms + 59_999) == []
    assert services.due_clusters(pair.now_ms + 60_000) == [NAME]


def test_it_forgets_clusters_that_were_removed(pair: Pair) -> None:
    pair.collect()
    pair.survey()
    Cluster.objects.all().delete()
    assert services.due_clusters(pair.now_ms) == []
    assert not any(model.objects.exists() for model in services.MODELS)


def test_it_says_since_when_a_broker_is_silent_and_keeps_what_it_said(pair: Pair) -> None:
    pair.collect()
    pair.survey()
    before = BrokerSurvey.objects.get(cluster=NAME, broker_name="broker-b")
    pair.b.kill()
    pair.collect(60_000)
    silent_ms = pair.now_ms
    pair.collect(60_000)
    pair.survey()
    now = BrokerSurvey.objects.get(cluster=NAME, broker_name="broker-b")
    assert (now.config, now.config_at_ms) == (before.config, before.config_at_ms)
    assert now.config_reason and now.runtime == before.runtime
    assert (now.producers, now.replicas, now.filling) == (None, None, "UNKNOWN")
    view = selectors.broker(NAME, "broker-b")
    assert view is not None
    assert (view.row.answered, view.unknown_since_ms, view.put_p99_ms, view.page_cache) == (
        False,
        silent_ms,
        None,
        ("", ""),
    )
    assert view.figures["brokerVersionDesc"] == "V5_3_3" and view.figures_at_ms == before.runtime_at_ms
    assert view.full_words.startswith("it does not answer: ")
    assert selectors.broker(NAME, "broker-a").row.answered  # type: ignore[union-attr]


def test_it_says_how_long_the_disk_lasts_after_ten_minutes(pair: Pair) -> None:
    pair.create_topic("orders")
    pair.collect()
    pair.survey()
    with pair.producing("orders") as sent:
        wait_for(lambda: {"broker-a", "broker-b"} <= set(sent), within_s=30)
    pair.collect(disk.HISTORY_MIN_MS)
    pair.survey()
    row = BrokerSurvey.objects.get(cluster=NAME, broker_name="broker-a")
    assert row.filling in ("FILLING", "FULL")  # as full as this machine's own disk
    if row.filling == "FILLING":
        assert row.full_in_ms is not None and row.full_in_ms > HOUR_MS
        assert row.write_bytes_per_s is not None and row.write_bytes_per_s > 0
        assert "an hour were written in the last 10 m" in row.full_words


def test_it_names_the_topics_about_which_name_servers_disagree(pair: Pair, stranger: BrokerProcess) -> None:
    pair.create_topic("orders")
    listen_to(pair.a.namesrv, stranger.namesrv)
    pair.collect()
    pair.survey()
    found = {row.topic: row for row in RouteDifference.objects.filter(cluster=NAME)}
    assert found["orders"].views[stranger.namesrv] == "not known here"
    assert found["orders"].views[pair.a.namesrv] == (
        f"broker-a 2/2 read, write at {pair.a.address}; broker-b 2/2 read, write at {pair.b.address}"
    )
    assert found["broker-b"].views[stranger.namesrv] != found["broker-b"].views[pair.a.namesrv]
    assert found["orders"].since_ms == pair.now_ms
    assert Survey.objects.get(cluster=NAME).routes_compared_at_ms == pair.now_ms
    since_ms = pair.now_ms
    pair.now_ms += 60_000
    pair.survey()
    assert RouteDifference.objects.get(cluster=NAME, topic="orders").since_ms == since_ms
    listen_to(pair.a.namesrv)
    pair.survey()
    assert selectors.route_differences(NAME).total == len(
        found
    )  # nobody was asked again, nothing is forgotten


def test_it_forgets_a_disagreement_that_is_over(pair: Pair) -> None:
    pair.create_topic("orders")
    listen_to(pair.a.namesrv, pair.a.namesrv.replace("127.0.0.1", "localhost"))
    RouteDifference.objects.create(cluster=NAME, topic="orders", since_ms=1, read_at_ms=1)
    RouteDifference.objects.create(cluster=NAME, topic="deleted", since_ms=1, read_at_ms=1)
    pair.survey()
    assert selectors.route_differences(NAME).total == 0


def test_it_compares_a_part_of_many_topics_at_a_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.broker.survey.reads.ROUTES_PER_SURVEY", 4)
    listen_to(pair.a.namesrv, pair.a.namesrv.replace("127.0.0.1", "localhost"))
    cursors = []
    for _ in range(10):
        cursors.append(pair.survey().route_cursor)
        if not cursors[-1]:
            break
    assert len(cursors) > 1 and cursors[:-1] == sorted(cursors[:-1])
    assert cursors[-1] == "" and Survey.objects.get(cluster=NAME).routes_compared_at_ms == pair.now_ms


def test_it_admits_a_name_server_that_is_away(pair: Pair, nobody: str) -> None:
    listen_to(pair.a.namesrv, nobody)
    pair.survey()
    first_ms = pair.now_ms
    pair.now_ms += 60_000
    pair.survey()
    away = NameServerRow.objects.get(cluster=NAME, addr=nobody)
    assert (away.answered, away.since_ms, away.topic_count) == (False, first_ms, None)
    assert away.reason
    assert NameServerRow.objects.get(cluster=NAME, addr=pair.a.namesrv).answered
    assert Survey.objects.get(cluster=NAME).routes_compared_at_ms is None  # one table alone is not compared
