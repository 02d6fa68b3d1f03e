"""The page that takes a file of offsets, and the download."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from console.operation.models import Plan
from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "files and offsets on a broker; plans are written as in tests/console/operation"
    ),
]
URL = "/c/test/groups/billing/offset-import"
FILE = "topic,broker_name,queue_id,offset\norders,old,0,9\n"


@pytest.fixture
def orders(live: LiveCluster, client: Client, alice: User) -> LiveCluster:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    live.send("orders", 0, [b"x"] * 10)
    live.commit("billing", "orders", 0, 4)
    client.force_login(alice)
    return live


@pytest.mark.parametrize("is_uploaded", [True, False])
def test_a_file_or_its_content_makes_a_plan(orders: LiveCluster, client: Client, is_uploaded: bool) -> None:
    given = {"file": SimpleUploadedFile("b.csv", FILE.encode())} if is_uploaded else {"content": FILE}
    answer = client.post(URL, {**given, "brokers": f"old = {orders.broker_name}\n\n"})
    plan = Plan.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/c/test/plans/{plan.id}")
    assert [(row["before"], row["after"]) for row in plan.diff] == [(4, 9)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Choose a file, or paste its content."),
        (
            {"content": "topic,broker_name,queue_id,offset\nt,b,0,x\n"},
            "Line 2: offset must be a whole number",
        ),
        ({"content": FILE, "brokers": "x=y\nold"}, "Line 2: name both brokers"),
        ({"content": FILE}, "test has no broker old"),
    ],
)
def test_what_does_not_fit_is_shown_and_makes_no_plan(
    orders: LiveCluster, client: Client, given: dict[str, str], words: str
) -> None:
    answer = client.post(URL, given)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Plan.objects.exists()


def test_without_a_round_there_is_no_file(orders: LiveCluster, client: Client) -> None:
    answer = client.get("/c/test/groups/billing/offset-file?format=csv")
    assert answer.status_code == 404
    assert "The last round has no queue of billing" in answer.content.decode()
