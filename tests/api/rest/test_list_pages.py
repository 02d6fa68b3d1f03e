"""Lists that are at hand as a whole: pages, search words, orders, files, and refusals with the names that exist."""

from __future__ import annotations

import csv
import datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import services as access_services
from console.broker.models import NameServerRow
from console.cluster.models import Cluster
from console.lag.models import ClientRow
from tests.api.conftest import problem
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
LOCAL = "/api/v1/clusters/local"

# List → the field that identifies a row; orders and search words → the rows.
LISTS = {
    f"{LOCAL}/topics/orders/queues": (
        "queue_id",
        {"": [0, 1], "ordering=-queue": [1, 0], "query=BROKER-A": [0, 1], "query=nothing": []},
    ),
    f"{LOCAL}/topics/orders/groups": (
        "group",
        {
            "": ["analytics", "billing"],
            "ordering=-group": ["billing", "analytics"],
            "query=bill": ["billing"],
        },
    ),
    f"{LOCAL}/groups/billing/queues": (
        "queue_id",
        {"": [0, 1], "ordering=-queue": [1, 0], "query=ord": [0, 1], "query=nothing": []},
    ),
    f"{LOCAL}/groups/billing/clients": (
        "client_id",
        {
            "": ["10.0.0.1@7", "10.0.0.2@7"],
            "ordering=-client": ["10.0.0.2@7", "10.0.0.1@7"],
            "query=0.2": ["10.0.0.2@7"],
        },
    ),
    f"{LOCAL}/groups/billing/assignments": (
        "queue_id",
        {"": [0, 1], "ordering=-queue": [1, 0], "query=nothing": []},
    ),
    f"{LOCAL}/name-servers": (
        "addr",
        {
            "": ["a:9876", "b:9876"],
            "ordering=-addr": ["b:9876", "a:9876"],
            "ordering=answered": ["b:9876", "a:9876"],
            "query=b:": ["b:9876"],
        },
    ),
    f"{LOCAL}/report-schedules": (
        "job",
        {"query=lag_": ["lag_hour", "lag_day", "lag_week", "lag_trend"], "query=capacity": ["capacity"]},
    ),
    "/api/v1/clusters": (
        "name",
        {"": ["local", "other"], "ordering=-name": ["other", "local"], "query=OTH": ["other"]},
    ),
    "/api/v1/tokens": (
        "name",
        {
            "": ["new", "old"],
            "ordering=name": ["new", "old"],
            "ordering=created": ["old", "new"],
            "query=ol": ["old"],
        },
    ),
}
FILES = (
    f"{LOCAL}/topics/orders/queues",
    f"{LOCAL}/topics/orders/groups",
    f"{LOCAL}/groups/billing/queues",
    f"{LOCAL}/groups/billing/clients",
)


@pytest.fixture
def admin(db: None) -> Client:
    sample_rows.sample()
    Cluster.objects.create(name="other", namesrv_addrs="127.0.0.1:1")
    ClientRow.objects.filter(group="billing").delete()
    for client in ("10.0.0.1@7", "10.0.0.2@7"):
        ClientRow.objects.create(cluster="local", group="billing", client_id=client)
    ClientRow.objects.create(cluster="local", group="another", client_id="10.0.0.3@7")
    for addr, answered in (("a:9876", True), ("b:9876", False)):
        NameServerRow.objects.create(cluster="local", addr=addr, answered=answered)
    client = signed_in()
    person = User.objects.get(pk=client.session["_auth_user_id"])
    for name in ("old", "new"):
        access_services.create_token(owner=person, name=name, scopes=["VIEW"])
    return client


def test_a_list_has_pages_search_words_and_orders(admin: Client) -> None:
    for address, (field, wanted) in LISTS.items():
        for query, names in wanted.items():
            found = admin.get(f"{address}?{query}").json()
            assert [row[field] for row in found["results"]] == names, (address, query)
            assert found["count"] == len(names)
        whole = admin.get(address).json()
        first = admin.get(f"{address}?per_page=1").json()
        assert (first["count"], first["pages"]) == (whole["count"], whole["count"])
        second = admin.get(first["next"]).json()
        assert [*first["results"], *second["results"]] == whole["results"][:2], address


def test_a_name_that_a_list_does_not_have_is_refused(admin: Client) -> None:
    for address in LISTS:
        words = problem(admin.get(f"{address}?sort=x"), 400, "invalid")["detail"]
        assert "There is no such parameter" in words and "ordering, page, per_page, query" in words, address
        orders = problem(admin.get(f"{address}?ordering=x"), 400, "invalid")["detail"]
        assert "One of: " in orders and orders.endswith("with - for descending."), address


@pytest.mark.parametrize("address", FILES)
def test_the_file_has_the_rows_of_every_page(admin: Client, address: str) -> None:
    answer = admin.get(f"{address}?format=csv&per_page=1")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))  # type: ignore[attr-defined]  # streamed
    field, wanted = LISTS[address]
    assert [row[field] for row in rows] == [str(name) for name in wanted[""]]


def test_unknown_figures_come_last_in_both_directions(admin: Client) -> None:
    person = User.objects.get(pk=admin.session["_auth_user_id"])
    at = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    access_services.create_token(owner=person, name="ends", scopes=["VIEW"], expires_at=at)
    for sign in ("", "-"):
        rows = admin.get(f"/api/v1/tokens?ordering={sign}expires").json()["results"]
        assert [row["name"] for row in rows] == ["ends", "new", "old"]
