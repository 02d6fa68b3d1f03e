"""Groups over REST: filters of the list, cumulative flow, and wishes of offset plans that name other things."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.cluster.models import Cluster
from console.group import selectors
from console.group.clients import member
from console.group.flow import Flow
from console.lag.models import GroupRow, Round
from tests.api.conftest import problem

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
URL = "/api/v1/clusters/local"


@pytest.fixture
def client(rows: Cluster, client_of: Callable[..., APIClient]) -> APIClient:
    access_services.ensure_first_person()
    user = User.objects.create_user("erin")
    access_services.grant(role="operator", user=user, name_pattern="billing")
    access_services.grant(role="operator", user=user, cluster_pattern="local", name_pattern="*it")
    return client_of(user, "RESET")


def test_it_filters_groups(client: APIClient) -> None:
    GroupRow.objects.filter(group="billing").update(clients=2, dlq_count=3)
    GroupRow.objects.filter(group="audit").update(clients=0)

    def names(query: str) -> list[str]:
        return [row["group"] for row in client.get(f"{URL}/groups?{query}").json()["results"]]

    assert names("members=online") == ["billing"]
    assert names("members=offline") == ["audit"]
    assert names("dead_letters=some&members=offline") == []
    problem(client.get(f"{URL}/groups?members=sideways"), 400, "invalid")


def test_rows_of_a_collector_that_is_away_say_nothing_about_now(client: APIClient) -> None:
    now_ms = time.time_ns() // 1_000_000
    last = Round.objects.create(cluster="local", number=1, started_at_ms=now_ms - 1_000, duration_ms=200)

    def words(path: str) -> list[str]:
        found = client.get(f"{URL}/{path}").json()
        return [row["status"] for row in found.get("results", [found])]

    paths = (
        "groups?status=OK&query=billing",
        "groups/billing",
        "groups/billing/queues",
    )
    assert [words(path) for path in paths] == [["OK"]] * 3
    Round.objects.filter(pk=last.pk).update(started_at_ms=now_ms - 60_000)  # four rounds and more
    assert [words(path) for path in paths] == [[], ["UNKNOWN"], ["UNKNOWN"]]
    assert client.get(f"{URL}/groups?status=UNKNOWN").json()["count"] == 2
    assert selectors.group_page("local", stale_since_ms=1).counts_by_status == {"UNKNOWN": 2}
    row = client.get(f"{URL}/groups/billing").json()
    assert (row["lag"], row["reason"].partition(" since ")[0]) == (7, "no round took place")


def test_it_answers_the_cumulative_flow(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def group_flow(*arguments: Any) -> Flow:
        asked.append(arguments)
        line = [0, None]
        return Flow([1, 2], line, line, line, line, queues=1, queues_total=2)

    monkeypatch.setattr(selectors, "group_flow", group_flow)
    body = client.get(f"{URL}/groups/billing/flow?from_ms=1000&to_ms=3000&points=10").json()
    assert asked == [("local", "billing", 1_000, 3_000, 10)]
    assert (body["times"], body["produced"], body["queues_total"]) == ([1, 2], [0, None], 2)
    problem(client.get(f"{URL}/groups/billing/flow?from_ms=0&to_ms=86400001"), 400, "invalid")
    problem(client.get(f"{URL}/groups/nobody/flow"), 404, "not_found")


def test_it_refuses_to_show_where_a_hidden_group_stands(client: APIClient) -> None:
    GroupRow.objects.create(cluster="local", group="payroll", status="OK")
    body = {"group": "billing", "target": "like_group", "like_group": "payroll"}
    answer = client.post(f"{URL}/offset-plans", body, format="json")
    assert "may not VIEW payroll" in problem(answer, 403, "not_permitted")["detail"]


def test_it_refuses_to_undo_what_is_no_plan(client: APIClient) -> None:
    body = {"group": "billing", "target": "undo", "undo_plan": "op-nothing"}
    answer = client.post(f"{URL}/offset-plans", body, format="json")
    assert "no plan op-nothing" in problem(answer, 422, "plan_rejected")["detail"]


def test_it_asks_a_member_and_says_when_it_is_silent(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_member(cluster: str, group: str, client_id: str, *, with_stack: bool) -> member.RunningInfo:
        if client_id != "10.0.0.1@7":
            raise member.MemberSilent(f"No broker has a connection of {client_id} for {group} now.")
        return member.RunningInfo(
            [("PROP", "1")],
            [member.ReportedQueue("orders", "broker-a", 0, 1)],
            [],
            "main" if with_stack else None,
            False,
        )

    monkeypatch.setattr(member, "ask_member", ask_member)
    body = client.get(f"{URL}/groups/billing/clients/10.0.0.1@7/running-info?stack=true").json()
    assert (body["stack"], body["properties"]) == ("main", [["PROP", "1"]])
    assert [(each["topic"], each["cached"], each["locked"]) for each in body["queues"]] == [
        ("orders", 1, None)
    ]
    silent = client.get(f"{URL}/groups/billing/clients/x@1/running-info")
    assert "No broker has a connection of x@1" in problem(silent, 503, "client_silent")["detail"]


def test_offsets_are_a_file_with_the_age_of_each_and_nothing_for_what_is_unknown(client: APIClient) -> None:
    rows = {
        (row.topic, row.broker_name, row.queue_id): row for row in selectors.group_queues("local", "billing")
    }
    file = client.get(f"{URL}/groups/billing/offsets").json()
    assert (file["format"], file["cluster"], file["group"]) == ("tidemark-offsets-1", "local", "billing")
    assert len(file["queues"]) == len(rows) > 0
    for queue in file["queues"]:
        row = rows[queue["topic"], queue["broker_name"], queue["queue_id"]]
        assert (queue["offset"], queue["read_at_ms"]) == (row.committed_offset, row.read_at_ms or None)
        assert (queue["offset"] is None) == (queue["state"] in ("never_committed", "unknown"))
        assert (queue["age_ms"] is None) == (queue["read_at_ms"] is None)
    answer = client.get(f"{URL}/groups/billing/offsets?format=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == len(rows) + 1 and lines[0].startswith("cluster,group,topic,broker_name,queue_id")
    assert answer["Content-Disposition"] == 'attachment; filename="local-billing-offsets.csv"'
    problem(client.get(f"{URL}/groups/billing/offsets?time_ms=1"), 422, "plan_rejected")


def test_a_file_that_cannot_be_read_is_refused_by_its_line(client: APIClient) -> None:
    body = {"group": "billing", "target": "file", "file": "topic,broker_name,queue_id,offset\nt,b,0,x\n"}
    found = problem(client.post(f"{URL}/offset-plans", body, format="json"), 400, "invalid")
    assert "Line 2: offset must be a whole number from 0" in str(found)
