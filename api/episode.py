"""Episodes, stored by the collector: a group's topic was late, stalled, offline or lost messages."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.lag import WhoSerializer
from api.rest import pagination
from api.rest.resource import Resource
from api.rest.struct import StructSerializer
from console.access.name_scope import EVERYTHING, NameScope, view_scope
from console.cluster import selectors as cluster_selectors
from console.lag import episodes
from console.lag.episode_state import EpisodeKind, EpisodeState
from console.lag.models import Episode
from console.lag.past import marks
from console.lag.past.marks import Mark, Marks
from console.lists.page import cut

TIME_MS_MAX = 2**53
OPEN = "OPEN"


class MarkSerializer(StructSerializer):
    """Something that happened in an episode or up to ten minutes before it; what does not apply is empty, 0 or null.

    ``kind``: REWIND, SKIPPED (``cause``: the change by this console; empty: none), LOST, RECREATED, HEAD_REGRESSION,
    MEMBERS, BROKER_RESTART, SILENT (a broker did not answer from ``at_ms`` to ``to_ms``, null: it still does not;
    ``cause`` is why).
    """

    struct = Mark

    joined = WhoSerializer(allow_null=True)
    left = WhoSerializer(allow_null=True)
    restarted = WhoSerializer(allow_null=True)


class EpisodeSerializer(serializers.ModelSerializer[Episode]):
    """An episode; its ``id`` never changes. ``end_ms`` of an open one is its last observation.

    ``state``: ONGOING, UNKNOWN (its broker is silent), ENDING (well for less than six intervals), OVER. ``bad_ms`` is
    the time it is known to have held, ``unknown_ms`` the unknown time.
    """

    duration_ms = serializers.IntegerField()
    budget_burnt = serializers.FloatField(help_text="share of four weeks' error budget; only of a breach")
    recovered_ms = serializers.IntegerField(allow_null=True, help_text="from the forecast to the end")
    happened = serializers.SerializerMethodField(help_text="oldest first, at most 12")
    happened_lower_bound = serializers.SerializerMethodField(help_text="more happened: the newest are here")

    class Meta:
        model = Episode
        exclude = ("cluster", "well_ms")

    @extend_schema_field(MarkSerializer(many=True))
    def get_happened(self, episode: Episode) -> Any:
        return MarkSerializer(self._marks(episode).marks, many=True).data

    def get_happened_lower_bound(self, episode: Episode) -> bool:
        return self._marks(episode).is_cut

    def _marks(self, episode: Episode) -> Marks:
        found: dict[str, Marks] = self.context["marks"]
        return found[episode.id]


class Episodes(Resource):
    """The episodes of a cluster that touch a window, newest first by default."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True

    @extend_schema(
        operation_id="episodes_list",
        tags=["groups"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("state", str, enum=["", OPEN, *EpisodeState], description="OPEN: not OVER"),
            OpenApiParameter("kind", str, enum=["", *EpisodeKind]),
            OpenApiParameter("name", str, description="part of the group's or the topic's name"),
            OpenApiParameter("from_ms", int, description="those that were not over by then"),
            OpenApiParameter("to_ms", int, description="those that began before it"),
            pagination.order_parameter(episodes.EPISODES),
        ],
        responses=pagination.page_of("Episode", EpisodeSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        scope = view_scope(request.user, cluster)
        found = _found(request, cluster, scope)
        total = found.count()
        whole = total if scope.is_everything else _found(request, cluster, EVERYTHING).count()
        if order := pagination.order_of(request, episodes.EPISODES):
            found = found.order_by(*order)
        page = cut(found, total=total, not_shown=whole - total, **pagination.page_arguments(request))
        context = {"marks": marks.of_episodes(cluster, list(page.rows))}
        return Response(
            pagination.page_body(request, page, EpisodeSerializer(page.rows, many=True, context=context).data)
        )


def _found(request: Request, cluster: str, scope: NameScope) -> QuerySet[Episode]:
    found = scope.filter(
        episodes.between(
            cluster,
            pagination.integer(request, "from_ms", high=TIME_MS_MAX),
            pagination.integer(request, "to_ms", high=TIME_MS_MAX),
        ),
        "group",
    )
    state = pagination.choice(request, "state", ["", OPEN, *EpisodeState], "")
    if state == OPEN:
        found = found.exclude(state=EpisodeState.OVER)
    elif state:
        found = found.filter(state=state)
    kind = pagination.choice(request, "kind", ["", *EpisodeKind], "")
    if kind:
        found = found.filter(kind=kind)
    name: Any = pagination.text(request, "name")
    return found.filter(Q(group__icontains=name) | Q(topic__icontains=name)) if name else found


urlpatterns = [
    path("clusters/<str:cluster>/episodes", Episodes.as_view(), name="api-episodes"),
]
