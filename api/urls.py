"""Addresses under /api/: /api/v1/…, /api/classic/…, the OpenAPI document at /api/schema, Swagger UI at /api/docs.

A new resource is a module with ``urlpatterns``, listed in RESOURCES.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.views import redirect_to_login
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from rest_framework.exceptions import NotAuthenticated, NotFound
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from api import (
    access,
    acl,
    broker,
    cluster,
    deadletter,
    episode,
    facts,
    finding,
    group,
    lag,
    message,
    stream,
    topic,
)
from api.change import broker_restore, config_plan, group_pause, message_send, operation
from api.classic import urls as classic
from api.rebalance import ownership, simulation
from api.report import latency as report_latency
from api.report import room as report_room
from api.report import runs as report
from api.report import schedules as report_schedule
from api.rest.resource import Resource

RESOURCES = (
    cluster,
    broker,
    acl,
    topic,
    group,
    group_pause,
    ownership,
    simulation,
    lag,
    episode,
    facts,
    finding,
    message,
    message_send,
    deadletter,
    stream,
    operation,
    broker_restore,
    report,
    report_latency,
    report_room,
    report_schedule,
    access,
    config_plan,
)


class Nothing(Resource):
    """Answer every other address under /api/v1 with a problem document instead of a page."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW", "POST": "VIEW", "DELETE": "VIEW"}
    schema = None  # type: ignore[assignment]
    takes_any_parameter: ClassVar[bool] = True  # that there is no such address says more

    def get(self, request: Request, rest: str) -> Response:
        raise NotFound(f"There is nothing at {request.path}.")

    post = delete = get


class Docs(SpectacularSwaggerSplitView):
    template_name = "api/docs.html"
    url_name = "api-schema"
    permission_classes = (IsAuthenticated,)

    def handle_exception(self, exc: Exception) -> Any:
        """Redirect a person who has not signed in to the sign-in page and back."""
        if isinstance(exc, NotAuthenticated):
            return redirect_to_login(self.request.get_full_path())
        return super().handle_exception(exc)


class Schema(SpectacularJSONAPIView):
    permission_classes = (IsAuthenticated,)


urlpatterns: list[URLPattern | URLResolver] = [
    *[path("v1/", include(resource.urlpatterns)) for resource in RESOURCES],
    path("classic/<str:cluster>/", include(classic.urlpatterns)),
    path("v1/<path:rest>", Nothing.as_view()),
    path("schema", Schema.as_view(), name="api-schema"),
    path("docs", Docs.as_view(), name="api-docs"),
]
