"""Admit requests to a cluster's pages: find the cluster and check the visitor's right."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.access import rules
from console.access.models import Verb
from console.access.name_scope import NameScope, view_scope
from console.cluster import selectors
from console.cluster.models import Cluster
from console.text import Text, text_of


def admit(
    request: HttpRequest, cluster_name: str, verb: str = Verb.VIEW, name: str = rules.WILDCARD
) -> Cluster:
    """Return the cluster of a page whose visitor may do ``verb`` to ``name`` of it (``*``: all of it).

    Raises Http404 for a cluster of which they may see nothing (what one may not see does not exist), and
    PermissionDenied with the reason for what they may see but not do.
    """
    cluster = selectors.cluster_for(request.user, cluster_name)
    if not rules.may(request.user, verb, cluster.name, name):
        what = (
            Text("all of %(cluster)s", cluster=cluster.name)
            if name == rules.WILDCARD
            else Text("%(name)s on %(cluster)s", name=name, cluster=cluster.name)
        )
        right = text_of(Verb(verb).label)
        raise PermissionDenied(
            Text(
                "This needs permission to %(action)s (%(verb)s): %(what)s.",
                action=right,
                verb=verb,
                what=what,
            )
        )
    return cluster


def may_add_clusters(principal: Any) -> bool:
    """Whether a person or token may add a cluster, by page or REST: the right to administer every cluster.

    A right on "prod-*" is not enough: the address decides what this machine connects to, whatever the name.
    """
    return rules.may(principal, Verb.ADMIN, rules.WILDCARD)


def admit_to_list(request: HttpRequest, cluster_name: str) -> tuple[Cluster, NameScope]:
    """Return the cluster of a list page, and the names its visitor may see.

    For everyone who may see anything of the cluster: the page shows their rows and how many it does not show.
    Raises Http404 for a cluster of which they may see nothing.
    """
    cluster = selectors.cluster_for(request.user, cluster_name)
    return cluster, view_scope(request.user, cluster.name)
