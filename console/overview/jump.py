"""Search of the command palette: names that a person may see, ids of messages, plans and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access.name_scope import NameScope
from console.cluster.admission import admit_to_list
from console.cluster.models import Cluster
from console.group import selectors as group_selectors
from console.lag import selectors as lag_selectors
from console.lists.query import ListQuery
from console.operation import operation_list
from console.operation import selectors as operation_selectors
from console.operation.models import Job
from console.topic import selectors as topic_selectors

QUERY_LENGTH_MAX = 255
ROWS = 8  # of each kind: more is a list with a search of its own
MESSAGE_ID_LENGTHS = (32, 40)  # hex characters: unique key and offset id with IPv4; offset id with IPv6 is 56
HEX = frozenset("0123456789abcdefABCDEF")
OPERATION_PREFIXES = ("op-", "job-")

Item = dict[str, str]


@require_safe
def jump(request: HttpRequest, cluster: str) -> JsonResponse:
    """Return the matches of `?q=ord` as JSON: groups, topics and brokers that contain it, and ids.

    Ids of plans and jobs match by their beginning, a message id as a whole. Only what this person may open is returned.
    """
    here, scope = admit_to_list(request, cluster)
    query = request.GET.get("q", "").strip()[:QUERY_LENGTH_MAX]
    return JsonResponse({"items": list(_items(here, query, scope)) if query else []})


def _items(here: Cluster, query: str, scope: NameScope) -> Iterator[Item]:
    if len(query) in MESSAGE_ID_LENGTHS and HEX.issuperset(query):
        url = f"{reverse('messages', args=[here.name])}?read=id&id={query}"
        yield {"kind": _("Message"), "icon": "messages", "name": query, "url": url, "hint": _("message id")}
    if query.lower().startswith(OPERATION_PREFIXES):
        yield from _operations(here, query, scope)
    groups = group_selectors.group_names(here.name, query=query, limit=ROWS, scope=scope)
    yield from _names(here, "group", _("group"), _("Groups"), "groups", groups)
    topics = topic_selectors.topic_names(here.name, query=query, limit=ROWS, scope=scope)
    yield from _names(here, "topic", _("topic"), _("Topics"), "topics", topics)
    rows = lag_selectors.broker_rows(here.name)
    found = sorted({row.broker_name for row in rows if query.lower() in row.broker_name.lower()})
    yield from _names(here, "broker", _("broker"), _("Brokers"), "brokers", found[:ROWS])


def _operations(here: Cluster, query: str, scope: NameScope) -> Iterator[Item]:
    found = operation_list.operation_page(
        here.name, ListQuery(query=query.lower(), per_page=ROWS), scope=scope
    )
    for plan in found.rows:
        job: Job | None = getattr(plan, "job", None)
        name, page = str(plan.pk), "plan"
        if job is not None and not query.lower().startswith("op-"):
            name, page = str(job.pk), "job"
        url = reverse(page, args=[here.name, name])
        kind = operation_selectors.plan_kind(plan.kind).title.local()
        hint = _("%(kind)s of %(subject)s") % {"kind": kind, "subject": plan.subject}
        yield {"kind": _("Operations"), "icon": "operations", "name": name, "url": url, "hint": hint}


def _names(here: Cluster, page: str, hint: str, kind: str, icon: str, names: Sequence[str]) -> Iterator[Item]:
    for name in names:
        url: Any = reverse(page, args=[here.name, name])
        yield {"kind": kind, "icon": icon, "name": name, "url": url, "hint": hint}
