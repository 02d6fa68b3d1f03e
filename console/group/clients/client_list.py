"""The list of a cluster's clients: the members of every group at the last sweep, for REST and its file."""

from __future__ import annotations

from django.db.models import Q

from console.access.name_scope import EVERYTHING, NameScope
from console.lag.models import ClientRow
from console.lists.page import Page, cut
from console.lists.query import ListQuery
from console.lists.spec import Column, ListSpec
from console.text import Text

CLIENTS = ListSpec(
    name="clients",
    key="pk",
    default="group",
    columns=(
        Column(
            "group", Text("Group"), css="", order=("group", "client_id"), ascending=True, fields=("group",)
        ),
        Column("client", Text("Client"), css="", order=("client_id",), ascending=True, fields=("client_id",)),
        Column("address", Text("Address"), css="", order=("address",), ascending=True, fields=("address",)),
        Column(
            "language", Text("Language"), css="", order=("language",), ascending=True, fields=("language",)
        ),
        Column("version", Text("Version"), css="", order=("version",), ascending=True, fields=("version",)),
        Column("started", Text("Started"), order=("started_at_ms",), fields=("started_at_ms",)),
    ),
    file_fields=("reason", "read_at_ms"),
)


def client_page(
    cluster: str, list_query: ListQuery, *, group: str = "", scope: NameScope = EVERYTHING
) -> Page[ClientRow]:
    """Return one page of the members of a group, or of all groups of a scope, RocketMQ's own included.

    The search words are part of the client id, the group, the address, the language or the version.
    """
    parts = ("client_id", "group", "address", "language", "version")
    named = Q(*((f"{part}__icontains", list_query.query) for part in parts), _connector=Q.OR)
    whole = ClientRow.objects.filter(named, cluster=cluster, **({"group": group} if group else {}))
    found = scope.filter(whole, "group")
    total = found.count()
    return cut(
        found.order_by(*CLIENTS.order_by(list_query.sort, list_query.descending)),
        page=list_query.page,
        per_page=list_query.per_page,
        total=total,
        not_shown=0 if scope.is_everything else whole.count() - total,
        is_whole=list_query.is_whole,
    )
