"""The base of all views of the API: permissions, throttling, errors in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

from api.rest import list_file
from api.rest.permissions import EVERYTHING, HasVerb
from api.rest.problems import ProblemSerializer
from api.rest.throttling import ScopeThrottle
from console.cluster import selectors as cluster_selectors
from console.lag.last_seen import may_lie_on_silent
from console.web.problem import CONTENT_TYPE

Row = TypeVar("Row")

IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_KEY_LENGTH_MAX = 255

READ_PROBLEMS = {
    "400": "A parameter is not valid.",
    "401": "No session and no valid token.",
    "403": "Not permitted.",
    "404": "Not found, or not visible to the caller.",
    "406": "Not served in this format; detail lists those that are.",
    "429": "Too many requests; see Retry-After.",
}
BROKER_PROBLEMS = {
    "502": "A broker refused; broker_code is its response code.",
    "503": "A broker does not answer.",
    "504": "A broker did not answer in time.",
}
FILE_PROBLEMS = {"422": "More rows match than a file holds."}
CHANGE_PROBLEMS = {
    "409": "The state does not allow it: drifted, expired, applied before, blocked, finished.",
    "415": "Send application/json.",
    "422": "Understood and refused; code is the reason.",
}


class ProblemSchema(AutoSchema):
    """Add the problem responses to every operation of the OpenAPI document."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        problem = self.resolve_serializer(ProblemSerializer, "response").ref
        wanted = dict(READ_PROBLEMS)
        if getattr(self.view, "asks_brokers", False):
            wanted |= BROKER_PROBLEMS
        if self.method != "GET":
            wanted |= CHANGE_PROBLEMS
        elif self.view.renderer_classes is list_file.RENDERERS:
            wanted |= FILE_PROBLEMS
        for status, description in sorted(wanted.items()):
            answer = {"description": description, "content": {CONTENT_TYPE: {"schema": problem}}}
            operation["responses"].setdefault(status, answer)
        return operation


class Resource(APIView):
    """Base of all views. ``verbs``: method → access verb; a method without one is refused.

    ``subject_in_body``: the group or topic is in the body, so the view calls ``permissions.require`` itself.
    ``name_kwarg``: which part of the address is the topic or group that the verb is checked on; without it the whole
    cluster. ``filters_names``: a list open to all who may see anything of the cluster; it shows only the names of
    ``permissions.view_scope`` and counts the rest in ``not_shown``.
    """

    verbs: ClassVar[dict[str, str]] = {}
    name_kwarg: ClassVar[str] = ""
    subject_in_body: ClassVar[bool] = False
    filters_names: ClassVar[bool] = False
    throttle_scope: ClassVar[str] = "read"
    asks_brokers: ClassVar[bool] = False
    permission_classes = (HasVerb,)
    throttle_classes = (ScopeThrottle,)
    content_negotiation_class = list_file.Negotiation
    http_method_names = ("get", "post", "delete", "head")
    schema = ProblemSchema()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check permissions and limits, then refuse query parameters that the operation does not have."""
        super().initial(request, *args, **kwargs)
        name = "get" if request.method == "HEAD" else str(request.method).lower()
        handler = getattr(self, name, None)
        if handler is None or name not in self.http_method_names:
            return  # 405 follows
        known = self._parameters(handler, str(request.method))
        unknown = sorted(set(request.query_params) - known)
        if unknown:
            names = f"The names are {', '.join(sorted(known))}." if known else "There are none here."
            raise ValidationError({name: [f"There is no such parameter. {names}"] for name in unknown})

    def _parameters(self, handler: Callable[..., Any], method: str) -> frozenset[str]:
        """Return the names of the query parameters that the OpenAPI document has for this operation."""
        described: type[AutoSchema] | None = getattr(handler, "kwargs", {}).get("schema")
        if described is None:
            return frozenset()
        schema = described()
        schema.view, schema.method = self, method  # which its lists of parameters depend on
        names: set[str] = set()
        for parameter in schema.get_override_parameters():
            if isinstance(parameter, OpenApiParameter) and parameter.location == OpenApiParameter.QUERY:
                names.add(parameter.name)
        return frozenset(names)

    def subject_name(self) -> str:
        """Return the topic or group of the address, or ``*``."""
        return str(self.kwargs.get(self.name_kwarg, EVERYTHING)) if self.name_kwarg else EVERYTHING


def existing_row(what: str, find: Callable[[str, str], Row | None], cluster: str, name: str) -> Row:
    """Return the row of a topic, group or broker; raises Http404 without the cluster, NotFound."""
    cluster_selectors.cluster_by_name(cluster)
    found = find(cluster, name)
    if found is None:
        raise NotFound(f"There is no {what} {name} in {cluster}. {may_lie_on_silent(cluster)}".rstrip())
    return found


def idempotency_key(request: Request) -> str:
    """Return the caller's key for a change that must happen once, "" without one; raises ValidationError."""
    key = request.headers.get(IDEMPOTENCY_KEY, "")
    if len(key) > IDEMPOTENCY_KEY_LENGTH_MAX:
        raise ValidationError({IDEMPOTENCY_KEY: [f"At most {IDEMPOTENCY_KEY_LENGTH_MAX} characters."]})
    return key


def remote_addr(request: Request) -> str:
    """Return the caller's address for the audit."""
    return str(request.META.get("REMOTE_ADDR", ""))
