"""The page of the clients of all groups."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from console.group.clients.client_list import client_page
from console.lag.models import GroupRow
from console.lag.round.figures import ClientFigures
from console.lag.rows.queue_row import QueueRow
from console.lists.query import ListQuery
from console.text import Text
from console.text.stored import as_json
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGE = "/c/local/clients"


def own(group: str, queue_id: int, lag: int | None, owner: str, **fields: object) -> QueueRow:
    status = "UNKNOWN" if lag is None else "OK"
    place = {"topic": "orders", "broker_name": "broker-a", "queue_id": queue_id, "status": status}
    return QueueRow(**{"group": group, "lag": lag, "owner": owner, **place, **fields})


@pytest.fixture
def admin() -> Client:
    """Four members: of billing two with queues, one idle; one of a broadcasting group."""
    sample_rows.sample()
    sample_rows.client_row("billing", "10.0.0.2@8", language="JAVA", version="V4_9_8")
    sample_rows.client_row("billing", "10.0.0.3@9", queues=[])
    sample_rows.client_row("notifier", "10.0.0.4@1", queues=None)
    sample_queues.save(
        "local",
        own("billing", 0, 40, "10.0.0.1@7"),
        own("billing", 1, 500, "10.0.0.2@8"),
        own("billing", 2, None, "10.0.0.2@8"),
        own("billing", 3, 9_000, "10.0.0.1@7", topic="%RETRY%billing"),
        own("billing", 4, None, "10.0.0.1@7", status="NEVER_COMMITTED"),
    )
    return signed_in()


def shown(client: Client, query: str = "") -> list[str]:
    text = client.get(f"{PAGE}?{query}").content.decode()
    return re.findall(r"/groups/[^/]+/clients/([^\"]+)\"", text)


def test_it_lists_the_clients_of_all_groups(admin: Client) -> None:
    assert shown(admin) == ["10.0.0.1@7", "10.0.0.2@8", "10.0.0.3@9", "10.0.0.4@1"]
    text = admin.get(PAGE).content.decode()
    assert "4 clients of all groups" in text and "<h1>Clients</h1>" in text


def test_lag_is_over_the_queues_a_client_owns(admin: Client) -> None:
    rows = {row.client_id: row for row in client_page("local", ListQuery()).rows}
    assert [(rows[one].lag, rows[one].lag_lower_bound) for one in sorted(rows)] == [
        (40, False),
        (500, True),
        (None, False),
        (None, False),
    ]
    assert [str(rows[one].reason) for one in sorted(rows)][:2] == [
        "",
        "the last round did not read these queues",
    ]
    assert (rows["10.0.0.3@9"].status, rows["10.0.0.3@9"].queue_count) == ("NEVER_COMMITTED", 0)
    assert (rows["10.0.0.4@1"].status, rows["10.0.0.4@1"].queue_count) == ("", None)
    assert rows["10.0.0.4@1"].reason == "the client did not report its queues"


def test_a_member_of_a_broadcasting_group_has_the_lag_it_reported(admin: Client) -> None:
    figures = ClientFigures(
        client_id="10.0.0.4@1",
        status="OK",
        lag=77,
        lag_lower_bound=False,
        time_lag_ms=5,
        time_lag_lower_bound=False,
        since_ms=0,
        reason=Text(),
        worst_queue="",
        read_at_ms=0,
    )
    row = GroupRow.objects.get(group="notifier")
    row.model, row.client_progress = "BROADCASTING", [as_json(figures)]
    row.save()
    assert shown(admin, "sort=lag")[:3] == ["10.0.0.2@8", "10.0.0.4@1", "10.0.0.1@7"]
    assert shown(admin, "mode=broadcasting") == ["10.0.0.4@1"]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("q=V4_9", ["10.0.0.2@8"]),
        ("q=notif", ["10.0.0.4@1"]),
        ("sort=lag", ["10.0.0.2@8", "10.0.0.1@7", "10.0.0.3@9", "10.0.0.4@1"]),
        ("sort=lag&dir=asc", ["10.0.0.1@7", "10.0.0.2@8", "10.0.0.3@9", "10.0.0.4@1"]),
        ("sort=client&dir=desc", ["10.0.0.4@1", "10.0.0.3@9", "10.0.0.2@8", "10.0.0.1@7"]),
        ("state=idle", ["10.0.0.3@9"]),
        ("state=silent", ["10.0.0.4@1"]),
        ("language=JAVA", ["10.0.0.2@8"]),
        ("language=PYTHON&q=billing", ["10.0.0.1@7", "10.0.0.3@9"]),
        ("q=nothing-like-it", []),
    ],
)
def test_it_searches_sorts_and_filters(admin: Client, query: str, wanted: list[str]) -> None:
    assert shown(admin, query) == wanted


def test_chips_count_what_each_leaves(admin: Client) -> None:
    text = " ".join(admin.get(PAGE).content.decode().split())
    assert "Without a queue <b>1</b>" in text and "Did not report <b>1</b>" in text
    assert "Java <b>1</b>" in text and "Python <b>3</b>" in text and ">Rust" not in text


def test_its_file_has_the_rows_of_the_filter(admin: Client) -> None:
    answer = admin.get(f"{PAGE}?format=csv&sort=lag&q=billing")
    head, *lines = b"".join(answer.streaming_content).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == ["10.0.0.2@8", "10.0.0.1@7", "10.0.0.3@9"]
    assert dict(zip(head.split(","), lines[0].split(","), strict=True))["lag"] == "500"


def test_a_person_of_some_names_has_no_other(admin: Client) -> None:
    narrow = signed_in("narrow", verbs=("VIEW",), names="noti*")
    assert shown(narrow) == ["10.0.0.4@1"]
    assert " not shown: you do not have the VIEW permission for them." in narrow.get(PAGE).content.decode()
