"""API tokens and the audit."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import list_file, pagination
from api.rest.error_words import one_of
from api.rest.permissions import EVERYTHING, require
from api.rest.resource import Resource, remote_addr
from console.access import rules, selectors, services
from console.access.activity_list import ACTIVITY, FILE_EVENTS_MAX, activity_file, described
from console.access.models import ApiToken, AuditEvent, Verb
from console.lists.page import cut_after
from console.lists.spec import LATEST_MS


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its key: only the key's hash is kept."""

    owner = serializers.CharField(source="owner.username")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Verb.values))

    class Meta:
        model = ApiToken
        exclude = ("id", "key_sha256")


class NewTokenSerializer(TokenSerializer):
    key = serializers.CharField(help_text="shown this once")


class TokenRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Verb.values, error_messages=one_of(Verb.values)),
        min_length=1,
        max_length=len(Verb.values),
    )
    cluster_pattern = serializers.CharField(
        max_length=255, default="*", help_text="glob pattern of cluster names"
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class AuditSerializer(serializers.ModelSerializer[AuditEvent]):
    sentence = serializers.CharField(
        read_only=True, help_text="what the event did, in English, with the kind of its plan"
    )

    class Meta:
        model = AuditEvent
        fields = "__all__"


class Tokens(Resource):
    """The caller's tokens; an administrator sees all."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW", "POST": "VIEW"}

    @pagination.list_operation(
        selectors.TOKENS,
        "Token",
        TokenSerializer,
        query="part of the name, the prefix or the owner's name",
        operation_id="tokens_list",
        tags=["tokens"],
    )
    def get(self, request: Request) -> HttpResponseBase:
        found = selectors.tokens_of(None if is_admin(request) else _person(request))
        return pagination.answer_in_memory(request, found, selectors.TOKENS, TokenSerializer)

    @extend_schema(
        operation_id="tokens_create",
        tags=["tokens"],
        request=TokenRequestSerializer,
        responses={201: NewTokenSerializer},
    )
    def post(self, request: Request) -> Response:
        """Create a token for the caller. It never allows more than its owner's grants."""
        if request.auth is not None and not is_admin(request):
            raise PermissionDenied("A token makes another token only with the scope ADMIN: sign in instead.")
        wanted = TokenRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        token, key = services.create_token(
            owner=_person(request),
            name=wanted.validated_data["name"],
            scopes=wanted.validated_data["scopes"],
            cluster_pattern=wanted.validated_data["cluster_pattern"],
            expires_at=wanted.validated_data.get("expires_at"),
            actor=request.user,
            remote_addr=remote_addr(request),
        )
        return Response({**TokenSerializer(token).data, "key": key}, status=201)


class TokenDetail(Resource):
    verbs: ClassVar[dict[str, str]] = {"DELETE": "VIEW"}

    @extend_schema(operation_id="tokens_revoke", tags=["tokens"], responses={204: None})
    def delete(self, request: Request, prefix: str) -> Response:
        """Revoke a token of the caller; an administrator may revoke any."""
        if request.auth is not None and not is_admin(request):
            raise PermissionDenied("A token revokes tokens only with the scope ADMIN: sign in instead.")
        mine = {token.prefix for token in selectors.tokens_of(_person(request))}
        stopped = 0
        if is_admin(request) or prefix in mine:
            stopped = services.revoke_token(
                prefix=prefix, actor=request.user, remote_addr=remote_addr(request)
            )
        if not stopped:
            raise NotFound(f"There is no token {prefix}.")
        return Response(status=204)


class Audit(Resource):
    """Audit events, newest first by default. One cluster: VIEW on all of it; without a cluster: VIEW on every one."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    renderer_classes = list_file.RENDERERS

    @extend_schema(
        operation_id="audit_list",
        tags=["audit"],
        parameters=[
            OpenApiParameter("cluster", str),
            OpenApiParameter("subject", str),
            OpenApiParameter("actor", str),
            OpenApiParameter("plan_id", str),
            OpenApiParameter("from_ms", int, description="events at or after it"),
            OpenApiParameter("to_ms", int, description="events before it"),
            *pagination.CURSOR_PARAMETERS,
            pagination.order_parameter(ACTIVITY),
            list_file.parameter(f"pages and cursors do not apply, the first {FILE_EVENTS_MAX:,} events"),
        ],
        responses=list_file.responses(pagination.moving_page_of("Audit", AuditSerializer(many=True))),
    )
    def get(self, request: Request) -> HttpResponseBase:
        cluster = pagination.text(request, "cluster")
        if cluster:
            require(request.user, "VIEW", cluster)
        elif not rules.may_see_activity(request.user):
            raise PermissionDenied("Name a cluster; the audit of all of them needs VIEW on every cluster.")
        wanted = {name: pagination.text(request, name) for name in ("subject", "actor", "plan_id")}
        events = ACTIVITY.between(
            selectors.audit_events(cluster=cluster, **wanted),
            pagination.integer(request, "from_ms", high=LATEST_MS),
            pagination.integer(request, "to_ms", high=LATEST_MS),
        )
        if order := pagination.order_of(request, ACTIVITY):
            events = events.order_by(*order)
        if list_file.is_wanted(request):
            return activity_file(events)
        page = cut_after(events, **pagination.cursor_arguments(request))
        return Response(
            pagination.page_body(request, page, AuditSerializer(list(described(page.rows)), many=True).data)
        )


def is_admin(request: Request) -> bool:
    """Return whether the caller, and the token if any, holds ADMIN on every cluster."""
    return rules.may(request.user, "ADMIN", EVERYTHING, EVERYTHING)


def _person(request: Request) -> Any:
    """Return the user, also of a token."""
    return getattr(request.user, "owner", request.user)


urlpatterns = [
    path("tokens", Tokens.as_view(), name="api-tokens"),
    path("tokens/<str:prefix>", TokenDetail.as_view(), name="api-token"),
    path("audit", Audit.as_view(), name="api-audit"),
]
