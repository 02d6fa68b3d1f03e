"""Pages of dead letters: all groups; one group with sample, replay form, running replay and ledger."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.access.name_scope import EVERYTHING, NameScope
from console.access.session.visitor import remote_addr
from console.brokers.errors import BROKER_TROUBLE
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.deadletter import exports, selectors, services
from console.deadletter.dead_letters import TEXT_FILTERS, Filter
from console.deadletter.forms import RATE_DEFAULT, STOP_AFTER_DEFAULT, TARGETS, FilterForm, ReplayForm
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.plans import LEDGER_SHOWN
from console.deadletter.selectors import DEAD_LETTERS
from console.lag import selectors as lag_selectors
from console.lists.export_size import ExportSize
from console.lists.file import file_of
from console.lists.page import Page
from console.lists.query import ListQuery, whole_number
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.errors import OperationError, PlanNotFound, PlanRejected
from console.operation.models import Job, Plan
from console.operation.plan.params import Params
from console.operation.views import job_context
from console.text import Text, text_of
from console.text.stored import as_json
from console.web.page_context import PageContext
from console.web.streamed import StreamedResponse

SAMPLE_LETTERS = 20
# Rows of a ledger that is at rest; one that grows shows fewer.
LEDGER_ROWS = 50


@require_safe
def dead_letters(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List the groups that have dead letters, first to expire on top, and the replay that runs or was the last.

    `?empty=1` includes empty topics, `?part=1` returns the list alone, `?part=replay` the replay, `?format=csv` a file.
    """
    here, scope = admit_to_list(request, cluster)
    replay = _replay(request, here, scope=scope)
    if request.GET.get("part") == "replay":
        return render(request, "deadletter/_replay.html", replay)
    list_query = ListQuery.of(request, DEAD_LETTERS)
    with_empty = request.GET.get("empty") == "1"
    every = selectors.dead_letter_page(here.name, scope=scope)
    page = selectors.dead_letter_groups(
        here.name, list_query, scope=scope, with_empty=with_empty, every=every
    )
    if list_query.is_whole:
        return file_of(request, page, DEAD_LETTERS, here.name)
    context = {
        **replay,
        "cluster": here,
        "list": DEAD_LETTERS,
        "query": list_query,
        "columns": access_selectors.column_choice(request.user, DEAD_LETTERS),
        "with_empty": with_empty,
        "page": page,
        "sums": selectors.dead_letter_sums(every),
        "silent": lag_selectors.silent_or_without_master(here.name),
        "now_ms": int(time.time() * 1000),
    }
    template = "deadletter/_list.html" if "part" in request.GET else "deadletter/dead_letters.html"
    return render(request, template, context)


@require_http_methods(["GET", "HEAD", "POST"])
def dead_letter_group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show one group's dead letters; POST makes a replay plan of the matching letters and redirects to it.

    `?part=replay` returns the replay alone: that of `?plan=…`, the running one, or the newest.
    """
    here = admit(request, cluster, name=group)
    may_replay = rules.may(request.user, Verb.REPLAY, here.name, group)
    form: FilterForm = FilterForm(request.GET)
    problem = ""
    if request.method == "POST":
        if not may_replay:
            raise PermissionDenied(
                Text("This needs permission to replay dead letters (REPLAY) of %(group)s.", group=group)
            )
        form = replay = ReplayForm(request.POST)
        if replay.is_valid():
            plan, problem = _made_plan(request, here, group, selectors.KIND, replay.params())
            if plan is not None:
                return redirect("plan", here.name, plan.id)
    active = _active_replay(here, group)
    shown = _replay(request, here, group=group, active=active)
    if request.GET.get("part") == "replay":
        return render(request, "deadletter/_replay.html", shown)
    sample = _sample(here.name, group, form)
    found = None if isinstance(sample, str) else sample
    row = selectors.dead_letters_of(here.name, group)
    is_filtered = form.is_valid() and form.filter() != Filter()
    context = {
        **shown,
        "active_job": active,
        "other_job": active if active and active != shown["job"] else None,
        "cluster": here,
        "group": group,
        "row": row,
        "group_row": selectors.group_row(here.name, group),
        "members": selectors.members(here.name, group),
        "may_replay": may_replay,
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, group),
        "form": form,
        "kept": [(name, form[name].value() or "") for name in TEXT_FILTERS],
        "problem": problem,
        "targets": TARGETS,
        "target": request.POST.get("target", TARGETS[0][0]),
        "rate": request.POST.get("rate_per_s", str(RATE_DEFAULT)),
        "stop_after": request.POST.get("stop_after_failures", str(STOP_AFTER_DEFAULT)),
        "is_filtered": is_filtered,
        "export_sizes": exports.export_sizes(
            None if row is None or row.lower_bound else row.count,
            found.records if found else (),
            is_filtered=is_filtered,
        ),
        "silent": lag_selectors.silent_or_without_master(here.name),
        "sample": found and found.sample,
        "sample_problem": found.sample.problem if found else sample,
        "now_ms": int(time.time() * 1000),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "deadletter/group.html", context, status=status)


@require_POST
def allow_reading(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Make the plan that allows reading a write-only dead-letter topic, and redirect to it."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    plan, problem = _made_plan(request, here, group, "dlq_readable", Params())
    if plan is None:
        return _refused(request, here, group, Text("No plan was made."), problem)
    return redirect("plan", here.name, plan.id)


@require_safe
def export(request: HttpRequest, cluster: str, group: str) -> HttpResponseBase:
    """Stream the matching letters as NDJSON or CSV (`?format=csv`), queue by queue in offset order."""
    here = admit(request, cluster, name=group)
    form = FilterForm(request.GET)
    kind = "csv" if request.GET.get("format") == "csv" else "ndjson"
    try:
        if not form.is_valid():
            raise PlanRejected(Text("A dead-letter filter has no %(field)s.", field="''"), field="filter")
        found = exports.letters(here.name, group, form.filter())
    except (PlanRejected, *BROKER_TROUBLE) as problem:
        return _refused(request, here, group, Text("Nothing was exported."), text_of(problem))
    return _download(exports.letter_lines(found, kind), kind, f"dead-letters-{here.name}.{kind}")


@require_safe
def ledger_export(request: HttpRequest, cluster: str, group: str) -> HttpResponseBase:
    """Stream the whole ledger of `?plan=…` as CSV."""
    here = admit(request, cluster, name=group)
    plan = _ledger_plan(request.GET.get("plan", ""), here, group)
    if plan is None:
        raise Http404(Text("%(group)s has no such replay.", group=group))
    return _download(exports.ledger_lines(plan.id), "csv", f"{plan.id}.csv")


def _download(lines: Iterator[str], kind: str, name: str) -> StreamedResponse:
    answer = StreamedResponse(lines, content_type=exports.CONTENT_TYPES[kind])
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _refused(request: HttpRequest, here: Cluster, group: str, title: Text, problem: str) -> HttpResponse:
    context = {"cluster": here, "group": group, "title": title, "problem": problem}
    return render(request, "deadletter/refused.html", context, status=422)


def _made_plan(
    request: HttpRequest, here: Cluster, group: str, kind: str, params: Params
) -> tuple[Plan | None, str]:
    """Return (the plan, "") or (None, the reason)."""
    try:
        made = operation_services.create_plan(
            kind, here.name, group, as_json(params), request.user, remote_addr=remote_addr(request)
        )
    except (OperationError, *BROKER_TROUBLE) as refusal:
        return None, text_of(refusal).local()
    return made, ""


def _sample(cluster: str, group: str, form: FilterForm) -> services.SampleWithRecords | str:
    """Return the newest matching letters, or why they cannot be read."""
    if not form.is_valid():
        return ""
    try:
        return services.sample_with_records(cluster, group, form.filter(), SAMPLE_LETTERS)
    except (PlanRejected, *BROKER_TROUBLE) as trouble:
        return text_of(trouble).local()


def _active_replay(here: Cluster, group: str) -> Job | None:
    """Return this group's unfinished replay."""
    jobs = [job for job in operation_selectors.active_jobs(here.name, group) if job.kind == selectors.KIND]
    return jobs[0] if jobs else None


def _ledger_plan(plan_id: str, here: Cluster, group: str) -> Plan | None:
    """Return the replay with that id, if it belongs to this group."""
    try:
        plan = operation_selectors.plan(plan_id) if plan_id else None
    except PlanNotFound:
        return None
    if plan is None or (plan.subject, plan.cluster, plan.kind) != (group, here.name, selectors.KIND):
        return None
    return plan


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerPage:
    """A page of the ledger of ``plan``, of the letters in ``state`` ("": all), and how many are in each."""

    plan: Plan
    page: Page[ReplayLedger]
    state: str
    counts: Sequence[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(number for _, number in self.counts)

    @property
    def rows(self) -> list[selectors.NumberedRow]:
        return selectors.numbered(self.page)

    @property
    def file_size(self) -> ExportSize:
        return exports.ledger_size(self.plan.id, self.total)


def _replay(
    request: HttpRequest,
    here: Cluster,
    *,
    group: str = "",
    active: Job | None = None,
    scope: NameScope = EVERYTHING,
) -> PageContext:
    """Return what the pages show of one replay: its job and its ledger.

    Of a group that of `?plan=…`, the ``active`` one or the newest; without a group the unfinished or the newest one of
    the groups in ``scope``.
    """
    job = active or selectors.shown_replay(here.name, group=group, scope=scope)
    plan = _ledger_plan(request.GET.get("plan", "") if group else "", here, group) or (
        job.plan if job else None
    )
    if plan is None:
        return {"cluster": here, "job": None, "ledger": None}
    job = job if job and job.plan_id == plan.id else getattr(plan, "job", None)
    may_replay = rules.may(request.user, Verb.REPLAY, here.name, plan.subject)
    state = request.GET.get("state", "") if group else ""
    is_over = job is None or job.is_final
    return {
        "cluster": here,
        **({"job": None} if job is None else job_context(here, job, may_replay)),
        "is_group_page": bool(group),
        "part_url": f"?{urlencode(request.GET.dict() | {'part': 'replay'})}",
        "ledger": _ledger(
            plan,
            state if state in LedgerState.values else "",
            page=whole_number(request.GET.get("page", "")) if group else 1,
            per_page=LEDGER_ROWS if group and is_over else LEDGER_SHOWN,
        ),
    }


def _ledger(plan: Plan, state: str, *, page: int, per_page: int) -> LedgerPage:
    """Return a page of a replay's ledger."""
    rows = selectors.ledger_page(plan.id, states=[state] if state else [], page=page, per_page=per_page)
    counts = selectors.ledger_counts(plan.id)
    return LedgerPage(
        plan, rows, state, [(code, counts[code]) for code in LedgerState.values if counts[code]]
    )
