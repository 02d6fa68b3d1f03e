"""Figures of brokers over time, sampled once a minute by the survey. Calls no broker."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.db.models import Avg, BigIntegerField, Count, ExpressionWrapper, F, Min, Value

from console.broker.models import BrokerSample
from console.broker.survey.course import COLUMNS, HOUR_MINUTES, MINUTE_MS, USUAL_FROM, Course, course
from console.lag.models import BrokerRow

CHART_POINTS = 288  # five minutes each over a day


def courses(cluster_name: str, broker_name: str, now_ms: int) -> dict[str, Course]:
    """Return the figures of 28 that are sampled, by key: the last hour of each and what is usual."""
    rows = BrokerSample.objects.filter(cluster=cluster_name, broker_name=broker_name, at_ms__lte=now_ms)
    by_column: dict[str, dict[int, float]] = {column: {} for column in COLUMNS.values()}
    for at_ms, *values in rows.values_list("at_ms", *by_column):
        for samples, value in zip(by_column.values(), values, strict=True):
            if value is not None:
                samples[at_ms // MINUTE_MS] = value
    return {key: course(by_column[column], now_ms) for key, column in COLUMNS.items()}


def usual_from_ms(cluster_name: str, broker_name: str) -> int | None:
    """Return when the first figures have something usual: some samples and the hour that they are compared with."""
    rows = BrokerSample.objects.filter(cluster=cluster_name, broker_name=broker_name)
    first_ms = rows.aggregate(first=Min("at_ms"))["first"]
    return None if first_ms is None else first_ms + (HOUR_MINUTES + USUAL_FROM) * MINUTE_MS


def samples(cluster_name: str, from_ms: int, to_ms: int, broker_name: str = "") -> dict[str, list[Any]]:
    """Return traffic and messages held back as lists over time, null where nothing was sampled.

    Of one broker also disk and storing time. Each point is the mean of its step; over several brokers rates are summed.
    Where one was sampled less often than another, the sum is a lower bound, in which missed minutes count as nothing:
    `sampled` has [brokers sampled throughout, brokers] there, null elsewhere. A broker counts from its first sample on,
    one that is gone to its last.
    """
    rows = BrokerSample.objects.filter(cluster=cluster_name, at_ms__gte=from_ms, at_ms__lte=to_ms)
    present = BrokerRow.objects.filter(cluster=cluster_name)
    if broker_name:
        rows, present = rows.filter(broker_name=broker_name), present.filter(broker_name=broker_name)
    # A short past is shown finely; two minutes hold a sample of each minute, however late one comes.
    first_ms = rows.aggregate(first=Min("at_ms"))["first"] or from_ms
    finest_ms = max(120_000, (to_ms - first_ms) // CHART_POINTS)
    step_ms = min(max(60_000, (to_ms - from_ms) // CHART_POINTS), finest_ms)
    columns = ("in_rate", "out_rate", "disk_ratio", "put_p99_ms", "delayed", "timed", "half")
    step = ExpressionWrapper(F("at_ms") / Value(step_ms), output_field=BigIntegerField())
    counts = {f"{one}_count": Count(one) for one in columns}
    means = (
        rows.annotate(step=step)
        .values("broker_name", "step")
        .annotate(**counts, **{one: Avg(one) for one in columns})
    )
    by_broker: dict[str, dict[int, dict[str, tuple[int, float | None]]]] = defaultdict(dict)
    for name, number, *figures in means.order_by().values_list("broker_name", "step", *counts, *columns):
        pairs = zip(figures[: len(columns)], figures[len(columns) :], strict=True)
        by_broker[name][number] = dict(zip(columns, pairs, strict=True))
    found: dict[str, list[Any]] = {"times": [], "sampled": [], **{column: [] for column in columns}}
    if not by_broker:
        return found
    answers = dict(present.order_by("-answered").values_list("broker_name", "answered"))
    spans = {
        name: (min(steps), to_ms // step_ms if name in answers else max(steps))
        for name, steps in by_broker.items()
    }
    last, now = max(max(steps) for steps in by_broker.values()), to_ms // step_ms
    if not all(answers.values()) and now - last > 2:
        last = now  # none answers: a gap up to now
    for number in range(min(first for first, _ in spans.values()), last + 1):
        names = [name for name, (first, end) in spans.items() if first <= number <= end]
        found["times"].append(number * step_ms)
        for column in columns:
            own = [by_broker[name].get(number, {}).get(column, (0, None)) for name in names]
            most = max((count for count, _ in own), default=0)
            known = [mean * count / most for count, mean in own if mean is not None]
            found[column].append(round(sum(known), 4) if known else None)
            if column == "in_rate":
                whole = sum(count == most for count, _ in own)
                found["sampled"].append([whole, len(own)] if known and whole < len(own) else None)
    return found
