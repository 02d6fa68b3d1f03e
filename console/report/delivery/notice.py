"""The notice of a finished run: data for webhooks, text for chats and mails, HTML for mails.

A notice contains nothing that its receiver may not see: rows are those of a scope of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from django.conf import settings
from django.db.models import F, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse

from console.access.name_scope import EVERYTHING, NameScope
from console.report import selectors
from console.report.columns import TEXTS, VIEWS, Column
from console.report.jobs import JOBS, LAG_JOBS
from console.report.kept_rows.queue_rows import QueueRows
from console.report.models import LagRow, ReportRow, ReportRun
from console.report.row_codes import EPISODE_WORDS
from console.text import JsonObject, figures
from spark.lag.local_time import DAY_MS, local, period_end

WORST_ROWS = 5
FIGURES_A_LINE = 4
SHOWN = ("group", "topic", "window_start_ms", "window_end_ms", "coverage_pct")
SHOWN_OF_LAG = (*SHOWN, "time_lag_max_ms", "lag_max", "breach_ms")
Row = LagRow | ReportRow


@dataclass(frozen=True, slots=True)
class Notice:
    """A finished run and its worst rows, as one receiver may see them; `rows` is None if it failed."""

    run: str
    report: str
    name: str
    cluster: str
    state: str
    from_ms: int
    to_ms: int
    zone: str
    is_partial: bool
    rows: int | None
    only_some_names: bool
    error: str
    warnings: Sequence[str]
    url: str
    worst: Sequence[Row] = ()

    def as_json(self) -> JsonObject:
        """Return the body for webhooks: `api.report.schedules.ReportNoticeSerializer`, without its text."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "worst": [_row_json(row) for row in self.worst]}


def of(run: ReportRun, scope: NameScope = EVERYTHING) -> Notice:
    """Return the run, its worst rows, and the report's address."""
    path = reverse("report", args=[run.cluster, run.job])
    done = run.state == ReportRun.State.SUCCEEDED
    return Notice(
        run=run.id,
        report=run.job,
        name=JOBS[run.job],
        cluster=run.cluster,
        state=run.state,
        from_ms=run.from_ms,
        to_ms=run.to_ms,
        zone=run.zone,
        is_partial=is_partial(run),
        rows=_row_count(run, scope) if done else None,
        only_some_names=not scope.is_everything,
        error=run.error,
        warnings=run.warnings,
        url=settings.PUBLIC_URL.rstrip("/") + path if settings.PUBLIC_URL else path,
        worst=_worst(run, scope) if done else (),
    )


def is_partial(run: ReportRun) -> bool:
    """Return whether the run was made before its window was over: its figures are those so far."""
    return run.started_at_ms is not None and run.started_at_ms < run.to_ms


def _row_count(run: ReportRun, scope: NameScope) -> int:
    if scope.is_everything:
        return run.row_count
    if run.job in LAG_JOBS:
        queues = QueueRows(run.cluster, run.job, scope=scope, run_id=run.id)
        return scope.filter(LagRow.objects.filter(run=run), "group").count() + queues.count()
    return _lines(run, scope).count()


def _lines(run: ReportRun, scope: NameScope) -> QuerySet[ReportRow]:
    return selectors.report_rows(run.cluster, run.job, scope=scope).filter(run=run)


def _worst(run: ReportRun, scope: NameScope) -> Sequence[Row]:
    return _worst_lag(run, scope) if run.job in LAG_JOBS else _worst_lines(run, scope)


def _worst_lag(run: ReportRun, scope: NameScope) -> Sequence[LagRow]:
    rows = selectors.rows(run.cluster, job=run.job, from_ms=run.from_ms, to_ms=run.to_ms, scope=scope)
    late = rows.filter(time_lag_max_ms__gt=0)
    return list(late.order_by("-time_lag_max_ms", "group", "topic")[:WORST_ROWS])


def _worst_lines(run: ReportRun, scope: NameScope) -> Sequence[ReportRow]:
    """Return the first rows in the order of the report's page; the longest of episodes."""
    found = _lines(run, scope).exclude(selectors.of_system_groups(run.cluster))
    field = "figures__duration_ms"
    if run.job != "episodes":
        view = VIEWS[run.job][0]
        column = view.column(view.sort)
        found, field = found.filter(grain=view.grain), column.order_field if column else view.sort
    return list(found.order_by(F(field).desc(nulls_last=True), "group", "topic", "pk")[:WORST_ROWS])


def _row_json(row: Row) -> JsonObject:
    """Return a row of a lag report by SHOWN_OF_LAG, one of another report with its own figures."""
    names = SHOWN_OF_LAG if isinstance(row, LagRow) else ("kind", *SHOWN)
    own = row.figures if isinstance(row, ReportRow) else {}
    return {name: getattr(row, name) for name in names} | own


# --- Texts --------------------------------------------------------------------------------------------------


def subject(notice: Notice) -> str:
    """Return one line: the report, its window and its outcome."""
    how = "failed" if _failed(notice) else "incomplete" if notice.is_partial else "ready"
    return f"[Tidemark] {notice.name} of {notice.cluster}, {_window(notice)}: {how}"


def _failed(notice: Notice) -> bool:
    return notice.state == ReportRun.State.FAILED


def as_text(notice: Notice) -> str:
    """Return plain text, for mails and as `text` of webhooks."""
    lines = sentences(notice)
    lines += [f"  {name}: {', '.join(words)}" for name, words in lines_of(notice)]
    return "\n".join([*lines, "", notice.url, ""])


def as_html(notice: Notice) -> str:
    """Return the notice for HTML mail: no script, no image, no address but the report's own."""
    return render_to_string(
        "report/mail.html", {"notice": notice, "sentences": sentences(notice), "lines": lines_of(notice)}
    )


def sentences(notice: Notice) -> list[str]:
    """Return sentences about the run as a whole, most important first."""
    how = "failed" if _failed(notice) else "is ready"
    found = [f"The report “{notice.name}” of {notice.cluster} for {_window(notice)} {how}."]
    if notice.error:
        found.append(notice.error)
    if notice.is_partial and not notice.error:
        found.append("The period had not ended when the report was computed: the figures are incomplete.")
    if notice.rows is not None:
        rows = f"{notice.rows:,} row{'s' * (notice.rows != 1)}"
        own = "; only groups and topics that you may view are included" if notice.only_some_names else ""
        worst = " The worst are below." if len(notice.worst) < notice.rows and notice.worst else ""
        found.append(f"It has {rows}{own}.{worst}" if notice.rows else f"It has no rows{own}.")
    if notice.warnings:
        first, more = notice.warnings[0], len(notice.warnings) - 1
        others = f" (and {more} more)" if more else ""
        found.append(f"Part of the period could not be read: {first}{others}.")
    return found


def lines_of(notice: Notice) -> Sequence[tuple[str, list[str]]]:
    """Return (group and topic, its figures as text) of each of the worst rows."""
    if notice.report in LAG_JOBS:
        return [(_name(row), _lag_words(row)) for row in notice.worst]
    if notice.report == "episodes":
        return [(_name(row), _episode_words(row)) for row in notice.worst]
    columns = [column for column in VIEWS[notice.report][0].columns if column.key != "window_start_ms"]
    return [(_name(row), _words(row, columns)) for row in notice.worst]


def _name(row: Row) -> str:
    return " on ".join(part for part in (row.group, row.topic) if part) or "all groups and topics"


def _lag_words(row: Row) -> list[str]:
    found = [f"time lag up to {figures.duration(row.value('time_lag_max_ms'))}"]
    if row.value("lag_max") is not None:
        found.append(f"lag up to {figures.count(row.value('lag_max'))} messages")
    if row.value("breach_ms"):
        found.append(f"late for {figures.duration(row.value('breach_ms'))}")
    return [
        *found,
        f"in the window from {TEXTS['moment'](row.window_start_ms)}",
        f"coverage {row.coverage_pct:g} %",
    ]


def _episode_words(row: Row) -> list[str]:
    length = figures.duration(row.value("duration_ms"))
    found = [
        f"{EPISODE_WORDS.get(row.kind, row.kind).lower()} for {length} from {TEXTS['moment'](row.value('start_ms'))}"
    ]
    if row.value("peak_time_lag_ms"):
        found.append(f"time lag up to {figures.duration(row.value('peak_time_lag_ms'))}")
    if row.value("cause") and row.value("cause") != "unclear":
        found.append(f"first cause: {TEXTS['code'](row.value('cause'))}")
    return found


def _words(row: Row, columns: Sequence[Column]) -> list[str]:
    known = [column for column in columns if row.value(column.key) not in (None, "")]
    return [
        f"{column.label.lower()} {TEXTS[column.kind](row.value(column.key))}{column.unit and ' ' + column.unit}"
        for column in known[:FIGURES_A_LINE]
    ]


def _window(notice: Notice) -> str:
    from_ms, to_ms, zone = notice.from_ms, notice.to_ms, notice.zone
    start, end = local(from_ms, zone), local(to_ms, zone)
    if (start.hour, start.minute) == (0, 0) and period_end(from_ms, DAY_MS, zone) == to_ms:
        return f"{start:%a %Y-%m-%d} {zone}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} {zone}"
