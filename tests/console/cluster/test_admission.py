"""Pages that do not exist or are not allowed: inside the shell for who is signed in, at the door for others."""

import pytest
from django.test import Client

from console.cluster.models import Cluster
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
# The menu of the cluster that the address names, and the way out.
SHELL = ['href="/c/alpha/topics"', 'data-cluster="alpha"', 'action="/sign-out"']


@pytest.fixture(autouse=True)
def clusters() -> None:
    Cluster.objects.create(name="local", namesrv_addrs="z:1", is_embedded=True)
    Cluster.objects.create(name="alpha", namesrv_addrs="a:1")


def page(client: Client, address: str, status: int) -> str:
    answer = client.get(address)
    assert answer.status_code == status
    return answer.content.decode()


@pytest.mark.parametrize("address", ["/c/alpha/nothing", "/c/alpha/groups/nobody"])
def test_a_missing_page_stands_in_the_shell_of_its_cluster(address: str) -> None:
    shown = page(signed_in(), address, 404)
    assert "This page does not exist" in shown and all(each in shown for each in SHELL)


def test_it_gives_the_reason_of_the_view() -> None:
    client = signed_in()
    # No round has read its groups yet.
    assert "Whether alpha has a group nobody is unknown" in page(client, "/c/alpha/groups/nobody", 404)
    general = "The address is wrong, or the object no longer exists."
    assert general in page(client, "/c/alpha/nothing", 404) and general in page(client, "/nothing", 404)


def test_a_page_that_is_not_allowed_stands_in_the_shell_too() -> None:
    shown = page(signed_in("some", verbs=("VIEW",), names="billing"), "/c/alpha/name-servers", 403)
    assert "Ask an administrator" in shown and "(VIEW)" in shown and all(each in shown for each in SHELL)


def test_the_shell_shows_no_cluster_that_the_visitor_may_not_see() -> None:
    shown = page(signed_in("local-only", verbs=("VIEW",), cluster="local"), "/c/alpha/topics", 404)
    assert "data-cluster" not in shown and 'href="/c/local/topics"' in shown and 'action="/sign-out"' in shown


@pytest.mark.parametrize("address", ["/nothing", "/c/alpha/nothing"])
def test_a_stranger_gets_the_door(address: str) -> None:
    shown = page(Browser(), address, 404)
    assert "This page does not exist" in shown and "/sign-out" not in shown and "/c/alpha/topics" not in shown
