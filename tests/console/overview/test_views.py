"""Overview, brokers, clusters and the palette's names."""

from __future__ import annotations

import pytest
from django.test import Client

from console.cluster import services as cluster_services
from console.cluster.errors import NameServerUnreachable
from console.cluster.models import Cluster
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGES = ["/c/local/", "/c/local/brokers", "/clusters"]


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


@pytest.mark.parametrize("address", [*PAGES, "/", "/c/local/jump?q=a"])
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=/")


@pytest.mark.parametrize("address", ["/c/local/", "/c/local/brokers"])
def test_it_hides_clusters_of_others(address: str) -> None:
    sample_rows.sample()
    assert signed_in("other", verbs=("VIEW",), cluster="elsewhere").get(address).status_code == 404


def test_it_refuses_lists_to_those_who_see_some_names_only() -> None:
    sample_rows.sample()
    answer = signed_in("some", verbs=("VIEW",), names="billing").get("/c/local/")
    assert answer.status_code == 403
    assert "VIEW" in answer.content.decode()


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


@pytest.mark.parametrize("address", ["/c/local/", "/c/local/brokers"])
def test_it_gives_the_live_part_alone(admin: Client, address: str) -> None:
    part = admin.get(f"{address}?part=1").content.decode()
    assert "broker-a" in part
    assert "<html" not in part


def test_it_says_that_no_round_is_done_yet() -> None:
    sample_rows.cluster("fresh")
    assert "No figures yet" in signed_in().get("/c/fresh/").content.decode()


def test_it_shows_runtime_figures_of_brokers(admin: Client) -> None:
    text = admin.get("/c/local/brokers").content.decode()
    assert "putTps" in text
    assert "brokerd 0.1" in text


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


def test_it_carries_the_security_headers(admin: Client) -> None:
    answer = admin.get("/c/local/")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert " style=" not in text
    assert " onclick=" not in text
    assert "<style" not in text
