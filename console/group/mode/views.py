"""The page that shows and plans how members get a topic's messages; it changes nothing itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.access.models import Verb
from console.brokers.mqadmin import with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, NameServersSilent, ask_each, page_masters
from console.cluster.admission import admit
from console.cluster.models import Cluster
from console.group import selectors
from console.group.mode.facts import BrokerModes, ModeSetting, ask_modes
from console.group.mode.forms import ModeForm
from console.lag.models import GroupRow
from console.operation.config.row import GROUP
from console.operation.config.views import form_context, quarantine_context, submitted_form
from console.text import text_of


@dataclasses.dataclass(frozen=True, slots=True)
class ModeTable:
    """Modes by topic and broker.

    `lines`: (topic, a setting for each broker; None where it did not answer or has no modes).
    """

    brokers: tuple[str, ...]
    lines: tuple[tuple[str, tuple[ModeSetting | None, ...]], ...]
    silent: Mapping[str, str]
    unable: tuple[str, ...]
    without_pop: Mapping[str, str]
    read_at_ms: int
    problem: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
def mode(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show what each broker reports now and, with the right to change it, a form; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE if request.method == "POST" else Verb.VIEW, group)
    row = selectors.group(here.name, group)
    table = read_table(here, group, row)
    form = ModeForm([topic for topic, _ in table.lines], table.brokers, request.POST or None)
    made = submitted_form(request, here, GROUP, "mode", form, group)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, GROUP, form, made, table.brokers)
    context |= {"group": group, "row": row, "table": table}
    context |= quarantine_context(request, here, GROUP, group)
    return render(request, "group/mode.html", context, status=422 if form.errors or made else 200)


def read_table(cluster: Cluster, group: str, row: GroupRow | None) -> ModeTable:
    """Ask every broker in parallel; raises nothing: the page shows what was read and what failed."""
    admin, now_ms = with_admin(cluster.connection), time.time_ns() // 1_000_000
    try:
        addrs = page_masters(admin)
    except NameServersSilent as error:
        return ModeTable((), (), {}, (), {}, now_ms, text_of(error).local())
    answers = ask_each(admin, addrs, ask_modes, PAGE_DEADLINE_MS)
    able = {name: one for name, one in answers.items() if isinstance(one, BrokerModes) and one.is_able}
    topics = {one["topic"] for one in (row.topics if row else ())}
    topics |= {topic for one in able.values() for topic, owner in one.set_by if owner == group}
    return ModeTable(
        brokers=tuple(addrs),
        lines=tuple(
            (topic, tuple(able[name].of(topic, group) if name in able else None for name in addrs))
            for topic in sorted(topics)
        ),
        silent={name: str(one) for name, one in answers.items() if isinstance(one, Exception)},
        unable=tuple(
            name for name, one in answers.items() if isinstance(one, BrokerModes) and not one.is_able
        ),
        without_pop={name: one.no_pop for name, one in able.items() if one.no_pop},
        read_at_ms=now_ms,
    )
