"""Queries for clusters."""

from collections.abc import Sequence
from typing import Any

from django.http import Http404

from console.access import rules
from console.cluster.models import Cluster
from console.lists.spec import ListSpec
from console.text import Text

CLUSTERS = ListSpec(
    name="clusters",
    key="name",
    default="name",
    columns=(),
    orders={"name": lambda cluster: cluster.name, "created": lambda cluster: cluster.created_at},
    searched=("name", "namesrv_addrs"),
)


def cluster_by_name(name: str) -> Cluster:
    """Return the cluster of that name. Raises Cluster.DoesNotExist."""
    return Cluster.objects.get(name=name)


def why_unchangeable(name: str) -> Text:
    """Return why nothing of a cluster can be changed, empty if it can."""
    if not Cluster.objects.filter(name=name, generated_to_ms__isnull=False).exists():
        return Text()
    return Text("%(cluster)s is generated data: it has no broker, so nothing can be changed.", cluster=name)


def until_ms(name: str, now_ms: int) -> int:
    """Return until when a cluster has figures; now for one that is not registered."""
    cluster = Cluster.objects.filter(name=name).first()
    return now_ms if cluster is None else cluster.until_ms(now_ms)


def clusters() -> Sequence[Cluster]:
    """Return every cluster by name, the embedded one first."""
    return list(Cluster.objects.order_by("-is_embedded", "name"))


def live_clusters() -> Sequence[Cluster]:
    """Return the clusters that have brokers, in the order of `clusters`."""
    return [cluster for cluster in clusters() if not cluster.is_generated]


def clusters_for(user: Any) -> Sequence[Cluster]:
    """Return the clusters of which ``user`` may see anything, the embedded one first."""
    return [cluster for cluster in clusters() if rules.may_see_cluster(user, cluster.name)]


def cluster_for(user: Any, name: str) -> Cluster:
    """Return the cluster of that name if ``user`` may see anything of it.

    Raises Http404 otherwise: what one may not see does not exist.
    """
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None or not rules.may_see_cluster(user, name):
        raise Http404(not_found(user, name))
    return cluster


NAMED_MAX = 10  # clusters in a sentence


def not_found(user: Any, name: str) -> Text:
    """Return why there is no cluster of that name for ``user``, and which there are."""
    names = [cluster.name for cluster in clusters_for(user)]
    if not names:
        return Text("The cluster %(name)s does not exist, or you may not view it.", name=name)
    return Text(
        "The cluster %(name)s does not exist, or you may not view it. You may view %(names)s.",
        name=name,
        names=Text.of_names(names, NAMED_MAX),
    )
