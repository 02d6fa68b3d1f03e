"""The base of all views of the API: permissions, throttling, errors in the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, ClassVar, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.rest import body_fields, etag, list_file, row_fields
from api.rest.permissions import EVERYTHING, HasVerb
from api.rest.problems import ProblemSerializer
from api.rest.throttling import ScopeThrottle
from console.cluster import selectors as cluster_selectors
from console.lag.last_seen import may_lie_on_silent
from console.text import JsonObject
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
ETAG = {"schema": {"type": "string"}, "description": "weak, of the body"}
IF_NONE_MATCH = {
    "in": "header",
    "name": etag.CONDITION,
    "schema": {"type": "string"},
    "description": f"an {etag.HEADER}: 304 without a body while it is the same",
}
CHANGE_PROBLEMS = {
    "409": "The state does not allow it: drifted, expired, applied before, blocked, finished.",
    "415": "Send application/json.",
    "422": "Understood and refused; code is the reason.",
}


class ProblemSchema(AutoSchema):
    """Add to every operation of the OpenAPI document its problems, its tag, and a list's choice of fields."""

    def get_override_parameters(self) -> list[Any]:
        names = row_fields.names_of(self) if self.method == "GET" else []
        return [*super().get_override_parameters(), *([row_fields.parameter(names)] if names else [])]

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular calls it
        """Return the docstring of the handler or of the view itself; those of base classes are not for callers."""
        handler = getattr(self.view, self.method.lower(), None)
        return inspect.cleandoc(getattr(handler, "__doc__", None) or vars(type(self.view))["__doc__"] or "")

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
        if self.method == "GET" and JSONRenderer.media_type in _media_types(operation, "200"):
            operation["parameters"] = [*operation.get("parameters", ()), IF_NONE_MATCH]
            operation["responses"]["200"]["headers"] = {etag.HEADER: ETAG}
            operation["responses"]["304"] = {"description": f"The caller has it: {etag.CONDITION} matches."}
        return operation


def _media_types(operation: JsonObject, status: str) -> Collection[str]:
    content: Collection[str] = operation["responses"].get(status, {}).get("content", ())
    return content


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
    takes_any_parameter: ClassVar[bool] = False
    permission_classes = (HasVerb,)
    throttle_classes = (ScopeThrottle,)
    content_negotiation_class = list_file.Negotiation
    http_method_names = ("get", "post", "delete", "head")
    schema = ProblemSchema()
    _row_fields: frozenset[str] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check permissions and limits, then refuse parameters and fields that the operation does not have."""
        super().initial(request, *args, **kwargs)
        name = "get" if request.method == "HEAD" else str(request.method).lower()
        handler = getattr(self, name, None)
        if handler is None or name not in self.http_method_names:
            return  # 405 follows
        if name == "post" and not self.takes_any_parameter:
            schema = self._schema_of(handler)
            body_fields.refuse_unknown(schema and schema.get_request_serializer(), request.data)
        if not request.query_params or self.takes_any_parameter:
            return
        schema = self._schema_of(handler)
        known = _parameters(schema) if schema is not None else frozenset()
        unknown = sorted(set(request.query_params) - known)
        if unknown:
            names = f"This address accepts {', '.join(sorted(known)) or 'none'}."
            raise ValidationError({name: [f"There is no such parameter. {names}"] for name in unknown})
        if schema is not None and row_fields.NAME in request.query_params:
            self._row_fields = row_fields.wanted(request, row_fields.names_of(schema))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce rows to the requested fields, and tag what is read."""
        found = super().finalize_response(request, response, *args, **kwargs)
        if request.method in ("GET", "HEAD") and isinstance(found, Response) and found.status_code == 200:
            if self._row_fields:
                found.data = row_fields.only(found.data, self._row_fields)
            found.add_post_render_callback(partial(etag.with_etag, request))
        return found

    def _schema_of(self, handler: Callable[..., Any]) -> AutoSchema | None:
        """Return what the OpenAPI document is made from for this operation."""
        described: type[AutoSchema] | None = getattr(handler, "kwargs", {}).get("schema")
        if described is None:
            return None
        schema = described()
        # Its parameters depend on them; HEAD is answered as GET.
        schema.view = self
        schema.method = "GET" if self.request.method == "HEAD" else str(self.request.method)
        return schema

    def subject_name(self) -> str:
        """Return the topic or group of the address, or ``*``."""
        return str(self.kwargs.get(self.name_kwarg, EVERYTHING)) if self.name_kwarg else EVERYTHING


def _parameters(schema: AutoSchema) -> frozenset[str]:
    """Return the names of the query parameters of an operation."""
    described = schema.get_override_parameters()
    names = {
        each.name
        for each in described
        if isinstance(each, OpenApiParameter) and each.location == OpenApiParameter.QUERY
    }
    return frozenset(names | {row_fields.NAME} if row_fields.names_of(schema) else names)


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
