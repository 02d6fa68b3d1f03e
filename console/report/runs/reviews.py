"""The reviews of a daily or weekly lag report: promises and budgets, dead weight, resets, coverage, changes.

They are computed from rows: of days (`LagRow` of job lag_day), of capacity, and the collector's records. They are
kept as `ReportRow` of the lag report, in grains of their own, and replaced with its periods. Days without rows are
not filled in: each row states how many days it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from django.db import transaction
from django.db.models import Max, Min

from console.lag.models import GroupRow, HistoryFile, HistoryGap, LagEvent, TopicRow
from console.lag.promise_versions import promises_of
from console.report.jobs import PERIODS_MS
from console.report.models import LagRow, ReportRow, ReportRun, Stamp, known, of_period
from console.report.runs.weekly_review import week_rows
from console.text import Text
from spark.lag.local_time import DAY_MS, days_later, period_end, period_start

REVIEWED_JOBS = ("lag_day", "lag_week")
BUDGET_DAYS = 28  # four whole weeks, so that weekdays weigh the same
EVENTS_MAX = 2_000  # of a day: enough to describe an outage of everything
OFFLINE_MS = 7 * DAY_MS
STILL_DAYS = 7  # days without any progress after which a group counts as dead weight
KNOWN_NOW_MS = DAY_MS  # facts known only as of now are reported for periods that ended no longer ago
NOT_BY_US = Text("outside this console")
RESETS = (
    LagEvent.Kind.REWIND,
    LagEvent.Kind.SKIPPED,
    LagEvent.Kind.LOST,
    LagEvent.Kind.RECREATED,
    LagEvent.Kind.HEAD_REGRESSION,
)


class GroupDay(NamedTuple):
    """A group's topic that was worst on one day."""

    breach_ms: int
    watched_ms: int
    slo_ms: int
    consumed: int
    in_time: int
    target: float | None  # of the promise that it was judged by; rows of before versions were kept lack it


def replace_reviews(
    run: ReportRun,
    periods: Sequence[int],
    stamp: Stamp,
    *,
    claim: Callable[[], None],
    now_ms: int,
) -> int:
    """Make the review rows of a lag report anew whose own rows are in, a transaction a period; return how many.

    `claim` is called in every transaction and raises when the run belongs to another worker.
    """
    if run.job not in REVIEWED_JOBS or not periods:
        return 0
    first_ms = days_later(min(periods), -BUDGET_DAYS, run.zone)
    days = _group_days(run.cluster, first_ms, period_end(max(periods), PERIODS_MS[run.job], run.zone))
    count = 0
    for start_ms in periods:
        with transaction.atomic():
            claim()
            ReportRow.objects.filter(of_period(run, start_ms)).delete()
            made = _review_rows(run, days, start_ms, stamp, now_ms)
            ReportRow.objects.bulk_create(made, batch_size=1_000)
        count += len(made)
    return count


def _review_rows(
    run: ReportRun,
    days: dict[str, dict[int, GroupDay]],
    start_ms: int,
    stamp: Stamp,
    now_ms: int,
) -> list[ReportRow]:
    end_ms = min(period_end(start_ms, PERIODS_MS[run.job], run.zone), run.to_ms, now_ms)
    found = [*_slo_rows(run, days, start_ms)]
    if run.job == "lag_day":
        found += _day_rows(run, start_ms, end_ms, now_ms)
    else:
        found += week_rows(run.cluster, start_ms, run.zone)
    for row in found:
        row.run_id, row.job, row.zone, row.generated_at_ms, row.code_version = stamp
        row.cluster, row.window_start_ms, row.window_end_ms = run.cluster, start_ms, end_ms
    return found


# --- Promises -----------------------------------------------------------------------------------------------


def _group_days(cluster: str, from_ms: int, to_ms: int) -> dict[str, dict[int, GroupDay]]:
    """Return group → {day: its worst topic}; days without a row are absent."""
    rows = LagRow.objects.filter(
        cluster=cluster,
        job="lag_day",
        grain=LagRow.Grain.TOPIC,
        kind="GROUP",
        window_start_ms__gte=from_ms,
        window_start_ms__lt=to_ms,
    ).values_list(
        *("group", "window_start_ms", "breach_ms", "watched_ms", "slo_ms", "consumed", "consumed_within_slo"),
        "slo_target",
    )
    found: dict[str, dict[int, GroupDay]] = {}
    for group, day_ms, breach_ms, watched_ms, slo_ms, consumed, in_time, target in rows.iterator(
        chunk_size=5_000
    ):
        own = found.setdefault(group, {})
        day = GroupDay(breach_ms, watched_ms or 0, slo_ms, consumed, in_time or 0, target)
        known = own.get(day_ms)
        if known is None:
            own[day_ms] = day
        else:
            worst = max(known, day, key=lambda one: one.breach_ms)
            own[day_ms] = worst._replace(
                consumed=known.consumed + consumed, in_time=known.in_time + (in_time or 0)
            )
    return found


def _slo_rows(run: ReportRun, days: dict[str, dict[int, GroupDay]], start_ms: int) -> Iterator[ReportRow]:
    """Return of each group the share of the watched time in which it kept its promise.

    Beside it what is left of four weeks' budget at the end of the period.
    """
    end_ms = period_end(start_ms, PERIODS_MS[run.job], run.zone)
    before_ms = period_start(start_ms - 1, PERIODS_MS[run.job], run.zone)
    first_ms = days_later(end_ms, -BUDGET_DAYS, run.zone)
    promises = promises_of(run.cluster)
    for group, own in sorted(days.items()):
        inside = [day for day_ms, day in own.items() if start_ms <= day_ms < end_ms]
        if not inside:
            continue
        now = promises.at(group, end_ms).target
        last = max(day_ms for day_ms in own if start_ms <= day_ms < end_ms)
        target = own[last].target or now
        before = [day for day_ms, day in own.items() if before_ms <= day_ms < start_ms]
        month = [day for day_ms, day in own.items() if first_ms <= day_ms < end_ms]
        good_pct, good_before_pct = _good_pct(inside), _good_pct(before)
        consumed = sum(day.consumed for day in inside)
        # Each day allows what was promised then; days without a row use the last promise.
        targets = [day.target or now for day in month]
        allowed_ms = (BUDGET_DAYS * (1 - target) + sum(target - one for one in targets)) * DAY_MS
        allowed = 1 - sum(day.target or now for day in inside) / len(inside)
        spent_ms = sum(day.breach_ms for day in month)
        change = None if good_pct is None or good_before_pct is None else round(good_pct - good_before_pct, 4)
        yield ReportRow(
            grain="slo",
            group=group,
            kind="GROUP",
            coverage_pct=round(100 * sum(day.watched_ms for day in inside) / (end_ms - start_ms), 2),
            figures=known(
                slo_ms=max(day.slo_ms for day in inside),
                target_pct=round(100 * target, 5),
                good_pct=good_pct,
                good_change_points=change,
                within_slo_pct=round(100 * sum(day.in_time for day in inside) / consumed, 4)
                if consumed
                else None,
                breach_ms=sum(day.breach_ms for day in inside),
                watched_ms=sum(day.watched_ms for day in inside),
                burn_rate=None if good_pct is None else round((100 - good_pct) / 100 / allowed, 4),
                budget_left_pct=round(100 * (1 - spent_ms / allowed_ms), 2),
                budget_days=len(month),
                kept=None if good_pct is None else good_pct >= 100 * target,
            ),
        )


def _good_pct(days: Sequence[GroupDay]) -> float | None:
    watched_ms = sum(day.watched_ms for day in days)
    return round(100 * (1 - sum(day.breach_ms for day in days) / watched_ms), 4) if watched_ms else None


# --- Of a day -----------------------------------------------------------------------------------------------


def _day_rows(run: ReportRun, start_ms: int, end_ms: int, now_ms: int) -> Iterator[ReportRow]:
    yield from _event_rows(run.cluster, start_ms, end_ms)
    yield from _collector_rows(run.cluster, start_ms, end_ms)
    if now_ms - end_ms <= KNOWN_NOW_MS:
        yield from _dead_weight_rows(run, start_ms, now_ms)


def _event_rows(cluster: str, start_ms: int, end_ms: int) -> Iterator[ReportRow]:
    """Yield every offset move that is no progress, with our change that made it; "" for other clients'."""
    events = LagEvent.objects.filter(cluster=cluster, kind__in=RESETS, at_ms__gte=start_ms, at_ms__lt=end_ms)
    for event in events.order_by("at_ms", "pk")[:EVENTS_MAX]:
        explainable = event.kind in (LagEvent.Kind.REWIND, LagEvent.Kind.SKIPPED)
        yield ReportRow(
            grain="event",
            kind=event.kind,
            group=event.group,
            topic=event.topic,
            broker_name=event.broker_name,
            figures=known(
                at_ms=event.at_ms,
                messages=event.messages,
                queues=event.queues,
                queue=f"{event.broker_name} · {event.queue_id}" if event.queue_id >= 0 else None,
                from_offset=event.from_offset,
                to_offset=event.to_offset,
                by=event.cause or (NOT_BY_US if explainable else None),
                is_ours=bool(event.cause) if explainable else None,
            ),
        )


def _collector_rows(cluster: str, start_ms: int, end_ms: int) -> Iterator[ReportRow]:
    """Yield how long collector and brokers were silent: a row for each.

    Damaged history files of the day count with the collector.
    """
    span_ms = max(1, end_ms - start_ms)
    gaps: dict[str, list[int]] = {"": []}
    reasons: dict[str, Text] = {}
    for gap in HistoryGap.objects.filter(cluster=cluster, from_ms__lt=end_ms).order_by("from_ms"):
        away_ms = min(gap.to_ms or end_ms, end_ms) - max(gap.from_ms, start_ms)
        if away_ms > 0:
            gaps.setdefault(gap.broker_name, []).append(away_ms)
            reasons[gap.broker_name] = gap.reason
    damaged = HistoryFile.objects.filter(
        cluster=cluster, state=HistoryFile.State.QUARANTINED, ts_lo_ms__lt=end_ms, ts_hi_ms__gt=start_ms
    ).count()
    seen = LagRow.objects.filter(
        cluster=cluster, job="lag_day", grain=LagRow.Grain.TOPIC, window_start_ms=start_ms
    ).aggregate(least=Min("coverage_pct"), most=Max("coverage_pct"), gap_ms=Max("max_gap_ms"))
    for broker_name, away in sorted(gaps.items()):
        is_collector = not broker_name
        yield ReportRow(
            grain="collector",
            broker_name=broker_name,
            coverage_pct=seen["most"] if is_collector else None,
            figures=known(
                gaps=len(away),
                away_ms=sum(away),
                longest_ms=max(away, default=0),
                watched_pct=_watched_pct(span_ms, sum(away), seen["most"] if is_collector else 100.0),
                reason=reasons.get(broker_name) or None,
                damaged_files=damaged if is_collector else None,
                coverage_least_pct=seen["least"] if is_collector else None,
                row_gap_ms=seen["gap_ms"] if is_collector else None,
            ),
        )


def _watched_pct(span_ms: int, away_ms: int, covered_pct: float | None) -> float | None:
    """Return the watched share: written gaps, limited by the best row's coverage of the day.

    Before its first round the collector writes no gap. None: no row of the day.
    """
    if covered_pct is None:
        return None
    return round(min(100 * (1 - min(span_ms, away_ms) / span_ms), covered_pct), 3)


def _dead_weight_rows(run: ReportRun, start_ms: int, now_ms: int) -> Iterator[ReportRow]:
    """Yield unused groups and topics, as far as is known now, the longest unused first."""
    still = _without_progress(run, start_ms)
    for row in GroupRow.objects.filter(cluster=run.cluster, is_system=False).order_by("group"):
        offline_ms = None if row.offline_since_ms is None else now_ms - row.offline_since_ms
        why = ""
        if row.status == "NEVER_COMMITTED":
            why = "never committed"
        elif offline_ms is not None and offline_ms >= OFFLINE_MS:
            why = "offline"
        elif row.group in still:
            why = "no progress"
        if why:
            yield ReportRow(
                grain="dead_weight",
                kind="GROUP",
                group=row.group,
                figures=known(
                    why=why,
                    since_ms=row.offline_since_ms,
                    still_days=still.get(row.group),
                    lag=row.lag,
                ),
            )
    for topic in TopicRow.objects.filter(cluster=run.cluster, kind="NORMAL", readers=0).order_by("topic"):
        yield ReportRow(
            grain="dead_weight",
            kind="TOPIC",
            topic=topic.topic,
            figures=known(
                why="no consumer",
                since_ms=None,
                messages=topic.messages,
                last_write_ms=topic.last_write_ms,
            ),
        )


def _without_progress(run: ReportRun, day_ms: int) -> dict[str, int]:
    """Return groups in which messages waited and none was consumed for days.

    That is on each of the last STILL_DAYS days that were computed, at least that many.
    """
    days: dict[str, dict[int, bool]] = {}
    rows = LagRow.objects.filter(
        cluster=run.cluster,
        job="lag_day",
        grain=LagRow.Grain.TOPIC,
        kind="GROUP",
        window_start_ms__gt=days_later(day_ms, -STILL_DAYS, run.zone),
        window_start_ms__lte=day_ms,
    ).values_list("group", "window_start_ms", "consumed", "lag_max")
    waits: set[str] = set()
    for group, start_ms, consumed, lag_max in rows.iterator(chunk_size=5_000):
        own = days.setdefault(group, {})
        own[start_ms] = own.get(start_ms, True) and not consumed
        if lag_max:
            waits.add(group)
    return {
        group: len(own)
        for group, own in days.items()
        if group in waits and len(own) >= STILL_DAYS and all(own.values())
    }
