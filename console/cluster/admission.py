"""Admit requests to a cluster's pages: find the cluster and check the visitor's right; answer who is not admitted."""

import re
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

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


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404: with the view's reason, or in general words for an address that no page has."""
    general = Text("The address is wrong, or the object no longer exists.")
    return _refused(request, _reason(exception) or general, 404)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403: with the view's reason, and who can change that."""
    reason = _reason(exception) or Text("Your permissions do not include this action.")
    text = Text("%(reason)s Ask an administrator of this console for the permission.", reason=reason)
    return _refused(request, text, 403)


def _reason(exception: Exception) -> Text:
    """Return what a view reported; empty for an unknown address, whose error holds the addresses that were tried."""
    has_words = exception.args and isinstance(exception.args[0], str)
    return text_of(exception.args[0]) if has_words else Text()


def _refused(request: HttpRequest, why: Text, status: int) -> HttpResponse:
    """Answer in the shell; at the door for those who are not signed in."""
    is_known = request.user.is_authenticated
    context = {
        "why": why,
        "frame": "base.html" if is_known else "access/_door.html",
        "cluster": _cluster_in_address(request) if is_known else None,
    }
    return render(request, f"{status}.html", context, status=status)


def _cluster_in_address(request: HttpRequest) -> Cluster | None:
    """Return the cluster of the address; None for one that the visitor may not see."""
    match = re.match(r"/c/([^/]+)/", request.path_info)
    try:
        return selectors.cluster_for(request.user, match[1]) if match else None
    except Http404:
        return None
