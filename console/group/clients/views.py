"""The list of the clients of all groups, and the kept offsets of those of a broadcasting group."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import selectors as access_selectors
from console.cluster.admission import admit, admit_to_list
from console.group.clients.client_list import CLIENTS, client_page
from console.group.clients.kept_offsets import (
    CLIENT_OFFSETS,
    REPORTS_MAX,
    SPAN_MS,
    ClientOffset,
    ClientOffsetsForm,
    kept_offsets,
)
from console.lag import selectors as lag_selectors
from console.lists.file import file_of
from console.lists.filter_chips import filter_chips
from console.lists.in_memory import page_in_memory
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
        "silent": lag_selectors.silent_or_without_master(here.name),
        "columns": access_selectors.column_choice(request.user, CLIENTS),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/clients.html", context)


@require_safe
def client_offsets(request: HttpRequest, cluster: str, group: str) -> HttpResponseBase:
    """Show what members of a broadcasting group reported; `?format=csv` returns a file."""
    here = admit(request, cluster, name=group)
    form, now_ms = ClientOffsetsForm(request.GET), int(time.time() * 1000)
    rows: Sequence[ClientOffset] = []
    is_read = form.is_valid()
    if is_read:
        wanted = form.cleaned_data
        to_ms = now_ms if wanted["until"] is None else wanted["until"]
        from_ms = to_ms - SPAN_MS if wanted["since"] is None else wanted["since"]
        rows = kept_offsets(here.name, group, from_ms, to_ms, wanted["client"])
    query = ListQuery.of(request, CLIENT_OFFSETS)
    page = page_in_memory(rows, CLIENT_OFFSETS, query)
    if query.is_whole and is_read:
        return file_of(request, page, CLIENT_OFFSETS, here.name)
    context = {
        "cluster": here,
        "group": group,
        "form": form,
        "list": CLIENT_OFFSETS,
        "query": query,
        "page": page,
        "is_cut": len({(row.at_ms, row.client_id) for row in rows}) >= REPORTS_MAX,
        "reports_max": REPORTS_MAX,
        "section": "groups",
        "now_ms": now_ms,
    }
    return render(request, "group/client_offsets.html", context, status=200 if is_read else 422)
