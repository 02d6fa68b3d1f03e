"""Errors as RFC 9457 problem details: every refusal has a stable ``code``, from one table.

``{"type": "/api/problems/<code>", "title", "status", "code", "detail", "instance"}`` and what a caller
decides on: ``errors`` (fields), ``changes`` (drift), ``field``, ``job``, ``broker_code``, ``retry_after_s``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from django.core.exceptions import ObjectDoesNotExist
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from api.rest.error_words import field_words, refusal_words
from console.brokers.errors import BrokerUnavailable, MQBrokerError, MQClientError, RemotingTimeout
from console.cluster import selectors as cluster_selectors
from console.cluster.errors import ClusterError, TooManyProbes
from console.cluster.models import Cluster
from console.group.clients.member import MemberSilent
from console.lists.cursor import CursorRefused
from console.message.search.quota import TooManySearches
from console.message.services import BadCursor, TopicNotFound
from console.operation.errors import OperationError, PlanAlreadyApplied, PlanDrifted, PlanRejected
from console.report.rules import ReportRejected
from console.report.services import ReportAlreadyRunning
from console.text.storable import storable_value
from console.web.outage import OLD_SCHEMA, is_old_schema, why_away
from console.web.problem import CONTENT_TYPE, problem_body

logger = logging.getLogger(__name__)

# Understood; the name server refused.
CLUSTER_ERROR_STATUS = 422
# The framework's name for an object as a whole; callers get the name of the object, "" for the body.
WHOLE = "non_field_errors"

# Exception → (status, code, title), most particular first. Operation errors bring their own status and code.
TABLE: list[tuple[type[Exception], int, str, str]] = [
    (exceptions.ValidationError, 400, "invalid", "The request is not valid"),
    (exceptions.ParseError, 400, "malformed", "The body is not valid JSON"),
    (exceptions.NotAuthenticated, 401, "not_authenticated", "Sign in or send a token"),
    (exceptions.AuthenticationFailed, 401, "authentication_failed", "The token is not accepted"),
    (exceptions.PermissionDenied, 403, "not_permitted", "Not permitted"),
    (DjangoPermissionDenied, 403, "not_permitted", "Not permitted"),
    (exceptions.NotFound, 404, "not_found", "Not found"),
    (Cluster.DoesNotExist, 404, "cluster_not_found", "No such cluster"),
    (TopicNotFound, 404, "topic_not_found", "No such topic"),
    (ObjectDoesNotExist, 404, "not_found", "Not found"),
    (Http404, 404, "not_found", "Not found"),
    (exceptions.MethodNotAllowed, 405, "method_not_allowed", "Method not allowed"),
    (exceptions.NotAcceptable, 406, "not_acceptable", "Not served in this format"),
    (exceptions.UnsupportedMediaType, 415, "unsupported_media_type", "Send application/json"),
    (exceptions.Throttled, 429, "throttled", "Too many requests"),
    (ReportRejected, 422, "report_rejected", "The report cannot be run"),
    (ReportAlreadyRunning, 409, "report_running", "The report is being computed"),
    (TooManySearches, 429, "too_many_searches", "Too many searches at once"),
    (CursorRefused, 400, "bad_cursor", "The cursor is not valid"),
    (BadCursor, 400, "bad_cursor", "The cursor is not valid"),
    (MemberSilent, 503, "client_silent", "The client does not answer"),
    (OperationalError, 503, "database_unavailable", "The console's database does not answer"),
    (InterfaceError, 503, "database_unavailable", "The console's database does not answer"),
    (BrokerUnavailable, 503, "broker_unavailable", "A broker does not answer"),
    (RemotingTimeout, 504, "broker_timeout", "A broker did not answer in time"),
    (MQBrokerError, 502, "broker_refused", "A broker refused"),
    (MQClientError, 503, "broker_unavailable", "The cluster cannot be reached"),
]


class ProblemSerializer(serializers.Serializer[Any]):
    """The body of every response from status 400 on."""

    type = serializers.CharField(help_text="/api/problems/<code>")
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="stable; decide on this one")
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="path of the request")
    errors = serializers.ListField(  # type: ignore[assignment]
        child=serializers.DictField(), required=False, help_text="field, code, detail"
    )
    changes = serializers.ListField(child=serializers.CharField(), required=False, help_text="what drifted")
    field = serializers.CharField(required=False)
    job = serializers.CharField(required=False)
    broker_code = serializers.IntegerField(required=False)
    retry_after_s = serializers.IntegerField(required=False)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the problem document for an exception of a view; None (a 500) for a bug. DRF calls this."""
    found = _classify(error)
    if found is None:
        return None
    request: Request | None = context.get("request")
    path = request.path if request is not None else ""
    detail = _detail(error, request, getattr(context.get("view"), "allowed_methods", ()))
    body = problem_body(found.status, found.code, found.title, detail or found.title, path)
    set_rollback()
    members = {name: value for name, value in asdict(found.members).items() if value is not None}
    # A detail may quote the request, which may hold half of a surrogate pair: nothing encodes that.
    document = storable_value(body | members)
    return Response(document, status=found.status, headers=_headers(error), content_type=CONTENT_TYPE)


@dataclass(frozen=True, slots=True)
class Members:
    """What a caller decides on, beyond the members that every problem has; None is left out."""

    errors: Sequence[Mapping[str, str]] | None = None
    field: str | None = None
    changes: Sequence[str] | None = None
    job: str | None = None
    broker_code: int | None = None
    retry_after_s: int | None = None


class Problem(NamedTuple):
    """How an exception is answered."""

    status: int
    code: str
    title: str
    members: Members = Members()


def _classify(error: Exception) -> Problem | None:
    if isinstance(error, OperationError):
        return Problem(error.status, error.code, _words(error.code), _of_operation(error))
    if isinstance(error, TooManyProbes):
        wait = Members(field=error.field, retry_after_s=error.retry_after_s)
        return Problem(429, error.code, _words(error.code), wait)
    if isinstance(error, ClusterError):
        members = Members(field=error.field or None)
        return Problem(CLUSTER_ERROR_STATUS, error.code, _words(error.code), members)
    if is_old_schema(error):
        return Problem(503, *OLD_SCHEMA)
    for kind, status, code, title in TABLE:
        if isinstance(error, kind):
            return Problem(status, code, title, _members(error))
    if isinstance(error, exceptions.APIException):
        return Problem(error.status_code, error.default_code, _words(error.default_code))
    return None


def _of_operation(error: OperationError) -> Members:
    if isinstance(error, PlanDrifted):
        return Members(changes=error.changes)
    if isinstance(error, PlanAlreadyApplied):
        return Members(job=error.job_id)
    if isinstance(error, PlanRejected):
        return Members(field=error.field or None)
    return Members()


def _members(error: Exception) -> Members:
    if isinstance(error, exceptions.ValidationError):
        return Members(errors=_field_errors(error.get_full_details(), ""))
    if isinstance(error, exceptions.Throttled):
        wait_s = getattr(error, "wait", None)
        return Members() if wait_s is None else Members(retry_after_s=int(wait_s) + 1)
    if isinstance(error, MQBrokerError):
        return Members(broker_code=int(error.code))
    if isinstance(error, ReportRejected):
        return Members(field=error.field)
    return Members()


def _field_errors(details: Any, path: str) -> list[dict[str, str]]:
    """Flatten DRF's nested details into rows of field, code, detail."""
    if isinstance(details, list):
        return [
            row for index, each in enumerate(details) for row in _field_errors(each, _at(path, index, each))
        ]
    if isinstance(details, dict) and set(details) == {"message", "code"}:
        detail = field_words(str(details["message"]))
        return [{"field": path, "code": str(details["code"]), "detail": detail}]
    if isinstance(details, dict):
        return [
            row
            for key, each in details.items()
            for row in _field_errors(each, path if key == WHOLE else f"{path}.{key}" if path else str(key))
        ]
    return [{"field": path, "code": "invalid", "detail": str(details)}]


def _at(path: str, index: int, each: Any) -> str:
    """Return the field of an error: messages belong to the field itself, objects to field.0, field.1."""
    return path if isinstance(each, dict) and set(each) == {"message", "code"} else f"{path}.{index}"


def _detail(error: Exception, request: Request | None, methods: Iterable[str]) -> str:
    if isinstance(error, exceptions.ValidationError):
        rows = _field_errors(error.get_full_details(), "")
        return " ".join(
            f"{row['field']}: {row['detail']}" if row["field"] else row["detail"] for row in rows[:5]
        )
    if isinstance(error, exceptions.APIException):
        return refusal_words(error, methods)
    match = None if request is None else request.resolver_match
    if isinstance(error, Cluster.DoesNotExist) and request and match and "cluster" in match.kwargs:
        return str(cluster_selectors.not_found(request.user, match.kwargs["cluster"]))
    if isinstance(error, OperationalError | InterfaceError) or is_old_schema(error):
        return why_away(error)
    return str(error)


def _headers(error: Exception) -> dict[str, str]:
    headers = {}
    if isinstance(error, exceptions.APIException):
        if getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]
        if getattr(error, "wait", None):
            headers["Retry-After"] = str(int(error.wait) + 1)  # type: ignore[attr-defined]
    if isinstance(error, TooManyProbes):
        headers["Retry-After"] = str(error.retry_after_s)
    return headers


def _words(code: str) -> str:
    """Return the words of a code: ``Plan drifted`` of ``plan_drifted``."""
    return code.replace("_", " ").capitalize()
