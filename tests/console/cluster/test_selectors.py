"""Which clusters somebody sees."""

import pytest
from django.contrib.auth.models import User
from django.http import Http404

from console.access import services as access_services
from console.cluster import selectors
from console.cluster.models import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clusters() -> None:
    Cluster.objects.create(name="zebra", namesrv_addrs="z:1", is_embedded=True)
    Cluster.objects.create(name="alpha", namesrv_addrs="a:1")


def names(found: object) -> list[str]:
    return [cluster.name for cluster in found]  # type: ignore[attr-defined]


def test_it_lists_the_embedded_cluster_first() -> None:
    assert names(selectors.clusters()) == ["zebra", "alpha"]


def test_it_finds_a_cluster_by_name() -> None:
    assert selectors.cluster_by_name("alpha").namesrv_addrs == "a:1"
    with pytest.raises(Cluster.DoesNotExist):
        selectors.cluster_by_name("beta")


def test_it_hides_clusters_of_others() -> None:
    access_services.ensure_first_person()
    bob, dora = User.objects.create_user("bob"), User.objects.create_user("dora")
    access_services.grant(role="viewer", user=bob, cluster_pattern="alp*")
    assert names(selectors.clusters_for(User.objects.get(username="admin"))) == ["zebra", "alpha"]
    assert names(selectors.clusters_for(bob)) == ["alpha"]
    assert names(selectors.clusters_for(dora)) == []
    assert selectors.cluster_for(bob, "alpha").name == "alpha"
    for person, name in ((bob, "zebra"), (bob, "beta"), (dora, "alpha")):
        with pytest.raises(Http404):
            selectors.cluster_for(person, name)
