"""Permissions of callers. Deny by default: a method without a verb in its view is refused.

What a caller may not see does not exist: an invisible cluster, plan or job is 404, a visible one without the verb is
403.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from console.access import rules
from console.access.name_scope import view_scope
from console.cluster import selectors as cluster_selectors

__all__ = ["EVERYTHING", "VIEW", "HasVerb", "require", "require_cluster", "require_visible", "view_scope"]

VIEW = "VIEW"
EVERYTHING = "*"


class Guarded(Protocol):
    """What a view states about its permissions; see `api.rest.resource.Resource`."""

    verbs: Mapping[str, str]
    kwargs: Mapping[str, str]
    subject_in_body: bool
    filters_names: bool

    def subject_name(self) -> str:
        """Return the topic or group of the address, or ``*``."""


class HasVerb(BasePermission):
    """Check ``view.verbs[method]`` on the cluster and name of the address."""

    def has_permission(self, request: Request, view: Any) -> bool:
        resource: Guarded = view
        method = "GET" if request.method == "HEAD" else str(request.method)
        if not request.user or not request.user.is_authenticated:
            return False
        if method.lower() not in view.http_method_names or not hasattr(view, method.lower()):
            return True  # 405 follows
        verb = resource.verbs.get(method)
        if verb is None:
            return False
        cluster = resource.kwargs.get("cluster")
        if cluster is not None and (resource.subject_in_body or resource.filters_names):
            require_cluster(request.user, cluster)
        elif cluster is not None:
            require(request.user, verb, cluster, resource.subject_name())
        return True


def require_cluster(principal: Any, cluster: str) -> None:
    """Raise NotFound for a cluster of which the principal may see nothing."""
    if not rules.may_see_cluster(principal, cluster):
        raise NotFound(str(cluster_selectors.not_found(principal, cluster)))


def require(principal: Any, verb: str, cluster: str, name: str = EVERYTHING) -> None:
    """Raise NotFound for an invisible cluster or name, PermissionDenied for one without the verb."""
    require_cluster(principal, cluster)
    if not rules.may(principal, verb, cluster, name):
        if verb == VIEW and name != EVERYTHING:
            raise NotFound(f"There is no {name} in {cluster}.")
        raise PermissionDenied(f"This needs {verb} on {name} in {cluster}.")


def require_visible(principal: Any, cluster: str, name: str, words: str) -> None:
    """Raise NotFound unless the principal may VIEW that subject; ``words`` name the requested thing."""
    if not rules.may(principal, VIEW, cluster, name):
        raise NotFound(f"There is no {words}.")
