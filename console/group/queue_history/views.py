"""The history of one queue of a group: committed offset, end and lag over time."""

from __future__ import annotations

import time

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe
from msgspec import Struct, structs

from console.cluster.admission import admit
from console.group import selectors
from console.group.queue_history.forms import STEPS, QueueHistoryForm
from console.group.queue_history.readings import QUEUE_HISTORY, QueueReading, queue_history
from console.lag import selectors as lag_selectors
from console.lists.file import file_of
from console.lists.in_memory import page_in_memory
from console.lists.query import ListQuery
from console.text import Text

CHART_READINGS_MAX = 1_000  # more points than the chart has pixels


@require_safe
def page(request: HttpRequest, cluster: str, group: str) -> HttpResponseBase:
    """Show what was recorded of `?topic=&broker=&queue=`; `?format=csv` returns a file."""
    here = admit(request, cluster, name=group)
    now_ms, interval_ms = int(time.time() * 1000), lag_selectors.collect_interval_ms(here.name)
    form = QueueHistoryForm(request.GET)
    rows: list[QueueReading] = []
    is_read = form.read(now_ms, interval_ms)
    if is_read:
        queue = form.message_queue
        rows = queue_history(here.name, group, queue, form.from_ms, form.to_ms, form.step_ms, now_ms)
    elif {"topic", "broker", "queue"} & set(form.errors):
        raise Http404(Text("Name a queue: its topic, broker and number."))
    if not rows and selectors.group(here.name, group) is None:
        raise Http404(Text("%(cluster)s has no group %(group)s.", cluster=here.name, group=group))
    query = ListQuery.of(request, QUEUE_HISTORY)
    found = page_in_memory(rows, QUEUE_HISTORY, query)
    if query.is_whole and is_read:
        return file_of(request, found, QUEUE_HISTORY, here.name)
    lines = _chart(rows)
    context = {
        "cluster": here,
        "group": group,
        "form": form,
        "queue": form.message_queue,
        "steps": STEPS,
        "list": QUEUE_HISTORY,
        "query": query,
        "page": found,
        "chart": None if lines is None else structs.asdict(lines),
        "interval_ms": interval_ms,
        "section": "groups",
        "now_ms": now_ms,
    }
    return render(request, "group/queue_history.html", context, status=200 if is_read else 422)


class _Lines(Struct, frozen=True, kw_only=True):
    """The lines of the chart as group.js draws them; null where nothing was read."""

    times: list[int]
    lag: list[int | None]
    time_lag_ms: list[int | None]
    lower_bound: list[bool]
    time_lag_lower_bound: list[bool]
    is_queue: bool = True


def _chart(rows: list[QueueReading]) -> _Lines | None:
    """Return the lines of the chart; None where they would not fit."""
    if len(rows) > CHART_READINGS_MAX or not rows:
        return None
    points = sorted(rows, key=_point_ms)
    return _Lines(
        times=[_point_ms(row) for row in points],
        lag=[row.lag for row in points],
        time_lag_ms=[row.time_lag_ms for row in points],
        lower_bound=[row.lag_lower_bound for row in points],
        time_lag_lower_bound=[row.time_lag_lower_bound for row in points],
    )


def _point_ms(row: QueueReading) -> int:
    return (row.at_ms + row.to_ms) // 2 if row.read_at_ms is None else row.read_at_ms
