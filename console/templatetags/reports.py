"""Parts of the report pages: a cell of a table by the kind of its column, a row's window, a run's window."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from django import template
from django.template import Context
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext, gettext_noop

from console.lag.episode_state import EpisodeKind
from console.lag.past import mark_words
from console.lag.past.marks import Mark
from console.report.columns import TIMES_FROM_PCT, Column, changed
from console.report.jobs import PERIODS_MS
from console.report.models import LagRow, ReportRow
from console.report.row_codes import CODE_WORDS, EVENT_STATUS
from console.templatetags import cells, figures
from console.text import Duration, JsonObject, Moment, Text
from console.text.figures import MINUS, duration, percent, rate, size
from console.text.language import figure_words
from spark.lag.local_time import DAY_MS, HOUR_MS, UTC, local

register = template.Library()

# Kind of an episode → its name in a list, its title among the findings of a group.
EPISODES: Mapping[str, tuple[str, str]] = {
    EpisodeKind.BREACH: (gettext_noop("Late"), gettext_noop("Late for %(duration_ms)s from %(at_start)s")),
    EpisodeKind.STALL: (
        gettext_noop("Queue stalled"),
        gettext_noop("A queue stalled for %(duration_ms)s from %(at_start)s"),
    ),
    EpisodeKind.OFFLINE: (
        gettext_noop("Nothing consumed"),
        gettext_noop("Nothing was consumed for %(duration_ms)s from %(at_start)s"),
    ),
    EpisodeKind.LOST: (
        gettext_noop("Lost to retention"),
        gettext_noop("Messages were lost to retention for %(duration_ms)s from %(at_start)s"),
    ),
}

TEXT_KINDS = frozenset(("percent", "percent2", "points", "p_value", "ranked"))
BUDGET_LOW_PCT = 25
SOME_DAYS = Text("some days of the period are not computed, or it has not ended")


@register.filter
def plot_script(plot: Any, element_id: str) -> SafeString:
    """`{{ plots.hours|plot_script:"plot-hours" }}`: the data of a plot for its script."""
    return figures.series(dataclasses.asdict(plot), element_id)


@register.simple_tag(takes_context=True)
def report_cell(context: Context, row: ReportRow, column: Column) -> SafeString | str:
    """`{% report_cell row column %}`: a `console.report.models.ReportRow` and a `console.report.columns.Column`.

    A figure that is not there is unknown or does not apply: a dash.
    """
    if column.kind == "shift":
        return _shift(row, column.key)
    value = row.value(column.key)
    if value is None or value == "":
        return cells.NOT_APPLICABLE
    if column.key == "window_start_ms":
        return row_window(context, row)
    if column.kind == "moment":
        return figures.at(context, int(value))
    if column.kind == "budget":
        return _budget(value)
    if column.kind == "event":
        shape = figures.glyph(EVENT_STATUS.get(value, "UNKNOWN"))
        return format_html('<span class="nowrap">{} {}</span>', shape, column.text(row))
    if column.kind == "code":
        return format_html("{}", column.text(row))
    if column.kind in TEXT_KINDS:
        return figure_words(column.text(row))
    if column.kind == "size":
        return size(int(value))
    bound = {
        f"{column.key.removesuffix('_ms')}_lower_bound": column.is_bound(row),
        "reason": SOME_DAYS,
    }
    return figures.figure(context, {column.key: value, **bound}, column.key, column.kind)


@register.simple_tag
def at_least(why: str) -> SafeString:
    """`{% at_least _("…") %}`: the sign of a lower bound, with what is not in it."""
    return format_html('<span class="atleast" tabindex="0" data-why="{}">≥</span>', why)


@register.simple_tag
def episode_marks(episode: ReportRow) -> list[tuple[int, str, str]]:
    """`{% episode_marks row as marks %}`: (when, letter, words) of what happened in an episode."""
    found = [Mark.from_json(kept) for kept in episode.value("happened") or ()]
    return [(mark.at_ms, mark_words.LETTERS.get(mark.kind, ""), mark_words.words(mark)) for mark in found]


def _budget(left_pct: float) -> SafeString:
    """Render what is left of an error budget, with a bar; an overspent one shows by how much."""
    if left_pct < 0:
        over = Text("%(share)s %% over", share=f"{-left_pct:,.0f}").local()
        return format_html('{} <span class="t-bad">{}</span>', figures.meter(0.0, "", over), over)
    tone = "warn" if left_pct < BUDGET_LOW_PCT else "ok"
    return format_html("{} {} %", figures.meter(left_pct / 100, tone), f"{left_pct:,.1f}")


def _shift(row: ReportRow, key: str) -> SafeString | str:
    """Render the change of a week against the one before, strong if clear, with details in a popover."""
    verdict = row.value(f"{key}_verdict")
    if verdict is None:
        return cells.NOT_APPLICABLE
    change = row.value(f"{key}_change_pct")
    as_text = duration if key.startswith("time_lag") else rate if key in ("in", "out") else "{:.2f}".format
    parts = [
        f"{as_text(row.value(f'{key}_before'))} → {as_text(row.value(f'{key}_now'))}",
        CODE_WORDS[verdict].local(),
    ]
    days = row.value(f"{key}_days")
    parts.append(Text("%(number)s pair(s) of days", number=days).local())
    if (p_value := row.value(f"{key}_p")) is not None:
        parts.append(f"p = {p_value:.3f}")
    text = "–" if change is None else changed(change)
    css = "strong" if verdict in ("higher", "lower") else "muted"
    return format_html('<span class="{}" tabindex="0" data-tip="{}">{}</span>', css, ", ".join(parts), text)


@register.simple_tag(takes_context=True)
def period(context: Context, from_ms: int, to_ms: int) -> SafeString:
    """`{% period run.from_ms run.to_ms %}`: `20 Nov 18:00 – 19:00`, `13 Nov 18:00 – 21 Nov 19:00`.

    In the person's zone; report.js writes it anew where that was not known yet.
    """
    start, end = (_local(each) for each in (from_ms, to_ms))
    until = f"{end:%H:%M}" if start.date() == end.date() else _minute(end, start)
    text = f"{_minute(start, _local(_now_ms(context)))} – {until}"
    return format_html(
        '<time class="nowrap" data-at="{}" data-to="{}" data-as="period">{}</time>', from_ms, to_ms, text
    )


@register.simple_tag
def forecast_error(episode: ReportRow) -> SafeString | str:
    """Render how far an episode's first forecast was from the outcome, `+11 %`."""
    forecast_ms, came = episode.value("forecast_ms"), episode.value("drained_ms")
    if forecast_ms is None or not came:
        return cells.NOT_APPLICABLE
    off = round(100 * (forecast_ms - came) / came)
    if off >= TIMES_FROM_PCT:
        return changed(off)
    return f"{'+' if off > 0 else MINUS if off < 0 else ''}{abs(off):,} %"


@register.simple_tag(takes_context=True)
def provenance(context: Context, row: LagRow) -> SafeString:
    """Render the row's coverage, with its origin in a popover: `{% provenance row %}`."""
    parts = [
        Text(
            "Computed %(time)s by run %(run)s, version %(code)s.",
            time=Moment(row.generated_at_ms),
            run=row.run_id,
            code=row.code_version or Text("unknown"),
        )
    ]
    if row.interval_ms:
        step, gap = Duration(row.interval_ms), Duration(row.max_gap_ms or 0)
        parts.append(Text("Sampled every %(step)s, the largest gap is %(gap)s.", step=step, gap=gap))
    text = "–" if row.coverage_pct is None else f"{row.coverage_pct:,.1f}"
    parts += _beside(row)
    return format_html('<span tabindex="0" data-tip="{}">{}</span>', Text.of_parts(parts), text)


def _beside(row: LagRow) -> Iterator[Text]:
    """Yield the facts of a lag report's row that have no column."""
    if row.last_consumed_age_ms is not None:
        age = Duration(row.last_consumed_age_ms)
        yield Text("The newest message consumed was %(age)s old at the end.", age=age)
    if row.drain_by_speed_ms:
        yield Text("At its catch-up speed it drains in %(time)s.", time=Duration(row.drain_by_speed_ms))
    if row.skew_cv:
        yield Text("The lags of its queues vary by %(ratio)s of their mean.", ratio=percent(row.skew_cv))
    if row.time_lag_spread_ms:
        spread = Duration(row.time_lag_spread_ms)
        yield Text("Its oldest queue is %(spread)s behind its median queue.", spread=spread)
    if row.little_agrees is False and row.little_mean_ms is not None:
        yield Text(
            "By lag and throughput, messages waited %(time)s on average, which contradicts their ages.",
            time=Duration(row.little_mean_ms),
        )
    shares = row.filter_ratio, row.filter_ratio_low, row.filter_ratio_high
    if row.filter_sampled:
        ratio, low, high = (percent(share or 0.0) for share in shares)
        yield Text(
            "Of %(number)s sampled waiting messages, %(ratio)s pass its filter (%(low)s to %(high)s).",
            number=row.filter_sampled,
            ratio=ratio,
            low=low,
            high=high,
        )


@register.simple_tag(takes_context=True)
def row_window(context: Context, row: LagRow | ReportRow) -> SafeString:
    """Render the hour, day or week of a row, and whether it was not over: `{% row_window row %}`.

    Days and weeks are of the zone that the head of the column names, or of the one beside them.
    """
    length = PERIODS_MS[row.job]
    start = local(row.window_start_ms, row.zone)
    long_period = getattr(row, "long_period", None)
    if long_period is not None:
        found = format_html('<time class="nowrap">{}</time>', long_period.name)
    elif length == HOUR_MS:
        shown = _local(row.window_start_ms)
        text = figure_words(_minute(shown, _local(_now_ms(context))))
        found = format_html('<time data-at="{}" data-as="hour">{}</time>', row.window_start_ms, text)
    elif length == DAY_MS:
        found = format_html(
            '<time data-at="{}" data-as="day">{}</time>',
            row.window_start_ms,
            f"{WEEKDAYS_ABBR[start.weekday()]} {figure_words(f'{start.day} {start:%b}')}",
        )
    else:
        last = start + dt.timedelta(days=6)
        text = figure_words(f"{start.day} {start:%b} – {last.day} {last:%b}")
        found = format_html('<time data-at="{}" data-as="week">{}</time>', row.window_start_ms, text)
    if length > HOUR_MS and row.zone != _zone_of_head(context):
        found = format_html('{} <span class="muted">{}</span>', found, row.zone)
    return format_html("{} {}", found, _partial(row)) if row.is_partial else found


@register.filter
def episode_word(kind: str) -> str:
    """Return what an episode is called in a list."""
    return gettext(EPISODES[kind][0])


@register.filter
def code_word(code: str) -> str:
    """Return a code that a job or the collector wrote into a figure, in words."""
    found = CODE_WORDS.get(code)
    return found.local() if found else code


@register.simple_tag(takes_context=True)
def episode_title(context: Context, kind: str, facts: JsonObject) -> SafeString:
    """Render what an episode is called among the findings: what, how long, from when."""
    words = {
        "duration_ms": escape(cells.duration(facts["duration_ms"])),
        "at_start": figures.at(context, facts["start_ms"]),
    }
    end = gettext(", and still at the end") if facts.get("is_ongoing") else ""
    return SafeString(escape(gettext(EPISODES[kind][1])) % words + escape(end))


@register.filter
def unit_in(column: Column, zone: str) -> Text | str:
    """Return the unit of a column; of times it is the zone in which they are shown."""
    return zone if column.unit == "UTC" else column.unit


def _zone_of_head(context: Context) -> str:
    schedule = context.get("schedule")
    return schedule.time_zone if schedule else UTC


def _partial(row: LagRow | ReportRow) -> SafeString:
    why = Text(
        "The window had not ended when this was computed: figures up to %(time)s. The next run replaces "
        "them.",
        time=Moment(row.window_end_ms),
    )
    return format_html(
        '<span class="badge badge--unknown" tabindex="0" data-tip="{}">{}</span>',
        why,
        gettext("so far"),
    )


def _local(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, get_current_timezone())


def _minute(at: dt.datetime, beside: dt.datetime) -> str:
    """`20 Nov 18:00`, with the year where it is another one than that of the moment beside it."""
    year = "" if at.year == beside.year else f" {at.year}"
    return f"{at.day} {at:%b}{year} {at:%H:%M}"


def _now_ms(context: Context) -> int:
    return int(context["now_ms"])
