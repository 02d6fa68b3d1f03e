"""The list of the clients of all groups."""

from __future__ import annotations

import time

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import selectors as access_selectors
from console.cluster.admission import admit_to_list
from console.group.clients.client_list import CLIENTS, client_page
from console.lag import selectors as lag_selectors
from console.lists.file import file_of
from console.lists.filter_chips import filter_chips
from console.lists.query import ListQuery


@require_safe
def clients(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List the clients of all groups that the visitor may see. `?format=csv` returns a file."""
    here, scope = admit_to_list(request, cluster)
    list_query = ListQuery.of(request, CLIENTS)
    page = client_page(here.name, list_query, scope=scope)
    if list_query.is_whole:
        return file_of(request, page, CLIENTS, here.name)
    context = {
        "cluster": here,
        "list": CLIENTS,
        "query": list_query,
        "page": page,
        "filters": list_query.filters,
        "chips": filter_chips(CLIENTS, list_query, page.counts_by_filter),
        "swept_ms": max((row.read_at_ms for row in page.rows), default=None),
        "silent": lag_selectors.silent_brokers(here.name),
        "columns": access_selectors.column_choice(request.user, CLIENTS),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/clients.html", context)
