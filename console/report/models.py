"""Report runs and the rows they computed. Rows are replaced per (cluster, hour) by the newest run: re-runs are safe."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.db import models

from console.lag.models import NAME_LENGTH_MAX
from console.report.jobs import PERIODS_MS, TREND_JOB, is_so_far
from console.report.long_periods import LongPeriod, period_of
from console.text import JsonObject, Text
from console.text.columns import TextColumn, TextsColumn
from spark.lag.local_time import CHANGE_MS_MAX, UTC, period_end

NOT_COUNT = Text("Offsets of this topic do not count messages: there are at most as many.")
ZONE_LENGTH_MAX = 64  # the longest name of the IANA list has 32


class Delivery(NamedTuple):
    """The last try to notify a receiver of a run, an e-mail address or the host of a webhook."""

    kind: str
    to: str
    ok: bool
    error: Text
    at_ms: int
    tries: int = 1

    @property
    def receiver(self) -> tuple[str, str]:
        return self.kind, self.to


class ReportRun(models.Model):
    """One run of one report job over whole hours, from request to rows. Times are epoch milliseconds."""

    class State(models.TextChoices):
        QUEUED = "QUEUED"
        RUNNING = "RUNNING"
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"

    id = models.CharField(primary_key=True, max_length=24)  # "report-" + 10 hex digits
    job = models.CharField(max_length=32)
    cluster = models.CharField(max_length=64)
    from_ms = models.BigIntegerField()
    to_ms = models.BigIntegerField()
    # The zone of its days and weeks; a change of the setting does not affect a waiting run.
    zone = models.CharField(max_length=ZONE_LENGTH_MAX, default=UTC)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    step = TextColumn(blank=True)
    error = TextColumn(blank=True)
    warnings = TextsColumn(default=list)
    row_count = models.IntegerField(default=0)
    spec = models.JSONField(default=dict)
    output = models.CharField(max_length=512, default="", blank=True)
    spark_version = models.CharField(max_length=32, default="", blank=True)
    # Null when beat requested it.
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_at_ms = models.BigIntegerField()
    # How often a worker took it, and until when the present one is known to be alive.
    attempts = models.IntegerField(default=0)
    lease_until_ms = models.BigIntegerField(null=True)
    started_at_ms = models.BigIntegerField(null=True)
    finished_at_ms = models.BigIntegerField(null=True)
    # Who was notified: [{"kind": "email" | "webhook", "to", "ok", "error", "at_ms"}].
    deliveries = TextsColumn(default=list)

    class Meta:
        ordering = ["-requested_at_ms"]
        indexes = [models.Index(fields=["cluster", "job", "-requested_at_ms"], name="report_run_recent")]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "job"],
                condition=models.Q(state__in=["QUEUED", "RUNNING"]),
                name="report_run_one_at_a_time",
            )
        ]

    @property
    def is_final(self) -> bool:
        return self.state not in OPEN_STATES

    @property
    def duration_ms(self) -> int | None:
        if self.started_at_ms is None or self.finished_at_ms is None:
            return None
        return self.finished_at_ms - self.started_at_ms

    def tried(self) -> list[Delivery]:
        """Return its deliveries so far."""
        return [Delivery(**each) for each in self.deliveries]

    def as_row(self) -> JsonObject:
        """Return what REST and the live socket show."""
        return {
            "id": self.id,
            "job": self.job,
            "cluster": self.cluster,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "zone": self.zone,
            "state": self.state,
            "step": self.step,
            "error": self.error,
            "warnings": self.warnings,
            "row_count": self.row_count,
            "attempts": self.attempts,
            "requested_by": self.requested_by.get_username() if self.requested_by else None,
            "spark_version": self.spark_version,
            "requested_at_ms": self.requested_at_ms,
            "started_at_ms": self.started_at_ms,
            "finished_at_ms": self.finished_at_ms,
        }


OPEN_STATES = (ReportRun.State.QUEUED, ReportRun.State.RUNNING)


def of_period(run: ReportRun, start_ms: int) -> models.Q:
    """Select a report's rows of one period of a run, and overlapping rows of days of another zone."""
    usual_ms = PERIODS_MS[run.job]
    overlaps = models.Q(
        window_start_ms__gt=start_ms - usual_ms - CHANGE_MS_MAX,
        window_start_ms__lt=period_end(start_ms, usual_ms, run.zone),
        window_end_ms__gt=start_ms,
    )
    is_own = models.Q(window_start_ms=start_ms) | (overlaps & ~models.Q(zone=run.zone))
    return models.Q(cluster=run.cluster, job=run.job) & is_own


class LagRow(models.Model):
    """One hour, day or week of lag of a group's topic: a row of `jobs.lag_hour`, `lag_day` or `lag_week`.

    The columns are the job's. Rows of single queues have the same columns and are never saved: they are in files
    (`QueueRowFile`), read by `console.report.kept_rows.queue_rows`.

    Lag is messages, times milliseconds, rates messages per second; percentiles are over the complete rounds of the
    window (`samples`). Null is unknown, never zero. The meaning of every column: `spark.lag.folds.figures`.
    """

    class Grain(models.TextChoices):
        TOPIC = "topic"  # group and topic
        QUEUE = "queue"  # group, topic, broker and queue; only queues with a backlog or traffic

    run = models.ForeignKey(ReportRun, on_delete=models.CASCADE, related_name="rows")
    grain = models.CharField(max_length=8, choices=Grain.choices)
    cluster = models.CharField(max_length=64)
    kind = models.CharField(max_length=8)  # GROUP, RETRY
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    queue_id = models.IntegerField(default=-1)
    # Grows when a topic is deleted and recreated; of several the last.
    incarnation = models.IntegerField(default=0)
    window_start_ms = models.BigIntegerField()
    window_end_ms = models.BigIntegerField()
    interval_ms = models.IntegerField()
    slo_ms = models.BigIntegerField()
    # The version of the promise that judged its last hour; null in rows older than versions.
    slo_target = models.FloatField(null=True)
    slo_from_ms = models.BigIntegerField(null=True)
    slo_versions = models.IntegerField(null=True)  # by how many its hours were
    queues = models.IntegerField()
    lag_first = models.BigIntegerField(null=True)
    lag_last = models.BigIntegerField(null=True)
    lag_p50 = models.BigIntegerField(null=True)
    lag_p95 = models.BigIntegerField(null=True)
    lag_p99 = models.BigIntegerField(null=True)
    lag_max = models.BigIntegerField(null=True)
    time_lag_last_ms = models.BigIntegerField(null=True)
    time_lag_p50_ms = models.BigIntegerField(null=True)
    time_lag_p95_ms = models.BigIntegerField(null=True)
    time_lag_p99_ms = models.BigIntegerField(null=True)
    time_lag_max_ms = models.BigIntegerField(null=True)
    time_lag_censored = models.IntegerField()
    message_latency_p50_ms = models.BigIntegerField(null=True)
    message_latency_p95_ms = models.BigIntegerField(null=True)
    message_latency_p99_ms = models.BigIntegerField(null=True)
    latency_mean_ms = models.BigIntegerField(null=True)
    # The same by Little's law, independent of ages: area under the lag over messages consumed.
    little_mean_ms = models.BigIntegerField(null=True)
    little_agrees = models.BooleanField(
        null=True,
        help_text="the two means differ by no more than the window's ends explain. Null: not all is known",
    )
    consumed_within_slo = models.BigIntegerField(null=True)
    within_slo_pct = models.FloatField(null=True)
    in_flight_p95 = models.BigIntegerField(null=True)
    ready_p95 = models.BigIntegerField(null=True)
    produced = models.BigIntegerField()
    consumed = models.BigIntegerField()
    # The time over which they were counted; 0 in rows older than this column.
    counted_ms = models.BigIntegerField(default=0)
    in_rate = models.FloatField(null=True)
    out_rate = models.FloatField(null=True)
    catch_up_speed = models.FloatField(null=True)
    last_consumed_age_ms = models.BigIntegerField(
        null=True,
        help_text="age of the newest message that was consumed, when the row was last known; not a lag. "
        "Null: none was consumed in the window",
    )
    offset_is_not_count = models.BooleanField(
        null=True, help_text="there are at most as many messages as the figures in messages say"
    )
    breach_ms = models.BigIntegerField()
    breach_weighted_ms = models.BigIntegerField(null=True)
    late_message_ms = models.BigIntegerField(null=True)
    watched_ms = models.BigIntegerField(null=True)
    # Null when less than 95 % of the time was watched: then it is between the two bounds.
    burn_rate = models.FloatField(null=True)
    burn_lo = models.FloatField(null=True)
    burn_hi = models.FloatField(null=True)
    drain_ms = models.BigIntegerField(null=True)
    drain_lo_ms = models.BigIntegerField(null=True)
    drain_hi_ms = models.BigIntegerField(null=True)
    drain_never = models.BooleanField(null=True)
    drain_by_speed_ms = models.BigIntegerField(
        null=True,
        help_text="time lag at the end over (catch-up speed - 1). Null: unknown, or not at this speed",
    )
    time_to_loss_ms = models.BigIntegerField(null=True)
    lost = models.BigIntegerField()
    skipped = models.BigIntegerField(null=True)
    rewinds = models.IntegerField()
    retry_in = models.BigIntegerField(null=True)
    dead_letter_in = models.BigIntegerField(null=True)
    skew_max_mean = models.FloatField(null=True)
    skew_cv = models.FloatField(null=True, help_text="standard deviation over mean of the queues' mean lags")
    skew_gini = models.FloatField(null=True)
    effective_queues = models.FloatField(null=True)
    time_lag_spread_ms = models.BigIntegerField(
        null=True, help_text="largest time lag of any queue less that of the median queue"
    )
    stall_ms_max = models.BigIntegerField(null=True)
    # Members of the whole group, in rows of topics, as far as their changes were seen.
    clients_min = models.IntegerField(null=True)
    clients_max = models.IntegerField(null=True)
    filter_ratio = models.FloatField(
        null=True,
        help_text="share of the waiting messages that pass the group's filter. Null: no filter, or not sampled",
    )
    filter_ratio_low = models.FloatField(null=True, help_text="of its 95 % interval")
    filter_ratio_high = models.FloatField(null=True)
    filter_sampled = models.BigIntegerField(null=True, help_text="messages that were looked at in the window")
    filtered_lag_last = models.BigIntegerField(null=True, help_text="so much of lag_last passes the filter")
    status_worst = models.CharField(max_length=16, default="", blank=True)
    # {status: milliseconds}; UNKNOWN is the time without a complete round.
    status_ms = models.JSONField(default=dict)
    samples = models.IntegerField()
    partial_samples = models.IntegerField()
    expected_samples = models.IntegerField()
    coverage_pct = models.FloatField()
    max_gap_ms = models.BigIntegerField()
    worst_queue = models.CharField(max_length=300, default="", blank=True)
    # When and by which code the row was computed (job: `run`).
    generated_at_ms = models.BigIntegerField()
    code_version = models.CharField(max_length=40, default="", blank=True)
    job = models.CharField(max_length=32, default="lag_hour")
    zone = models.CharField(max_length=ZONE_LENGTH_MAX, default=UTC)  # of the day or week

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(grain="topic"), name="lag_row_queues_in_files"),
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "job",
                    "window_start_ms",
                    "grain",
                    "group",
                    "topic",
                    "broker_name",
                    "queue_id",
                ],
                name="lag_row_key",
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "job", "grain", "window_start_ms", "-time_lag_max_ms"],
                name="lag_row_worst",
            )
        ]

    def value(self, key: str) -> Any:
        """Return a column; None without one."""
        return getattr(self, key, None)

    @property
    def is_partial(self) -> bool:
        """Return whether its window was not over when it was computed."""
        return is_so_far(self.job, self.window_start_ms, self.window_end_ms, self.zone)

    @property
    def reason(self) -> str:
        """Return why figures in messages are upper bounds, if they are."""
        return NOT_COUNT if self.offset_is_not_count else ""

    @property
    def is_censored(self) -> bool:
        """Return whether a time lag is only a lower bound: the oldest message is older than the history."""
        return self.time_lag_censored > 0


class Stamp(NamedTuple):
    """What all rows of a run share: columns of `LagRow` and `ReportRow`."""

    run_id: str
    job: str
    zone: str
    generated_at_ms: int
    code_version: str


def known(**figures: Any) -> JsonObject:
    """Return the figures of a row for its JSON column: an unknown one is absent."""
    return {name: value for name, value in figures.items() if value is not None}


EPISODE_STATUS = {"breach": "FALLING_BEHIND", "stall": "STALLED", "offline": "OFFLINE", "lost": "LOST"}


class ReportRow(models.Model):
    """One row of another report (episodes, capacity, topic_traffic, dead_letter, …), or of a review.

    Shared values are in columns, those of one report in `figures`: pages sort and filter by it in SQL
    (`figures__peak_lag`). An unknown figure is absent. The meaning: the job's module in `spark`.
    """

    run = models.ForeignKey(ReportRun, on_delete=models.CASCADE, related_name="report_rows")
    job = models.CharField(max_length=32)
    grain = models.CharField(max_length=16)
    cluster = models.CharField(max_length=64)
    kind = models.CharField(max_length=16, default="", blank=True)
    group = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    topic = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    queue_id = models.IntegerField(default=-1)
    incarnation = models.IntegerField(default=0)
    window_start_ms = models.BigIntegerField()
    window_end_ms = models.BigIntegerField()
    interval_ms = models.IntegerField(null=True)
    coverage_pct = models.FloatField(null=True)
    max_gap_ms = models.BigIntegerField(null=True)
    zone = models.CharField(max_length=ZONE_LENGTH_MAX, default=UTC)  # of the day or week
    figures = TextsColumn(default=dict)
    generated_at_ms = models.BigIntegerField()
    code_version = models.CharField(max_length=40, default="", blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "job", "grain", "-window_start_ms"], name="report_row_recent"),
            models.Index(fields=["cluster", "job", "group", "-window_start_ms"], name="report_row_group"),
        ]

    @property
    def long_period(self) -> LongPeriod | None:
        """Return the month, quarter or year of a trend."""
        return period_of(self.window_start_ms, self.grain, self.zone) if self.job == TREND_JOB else None

    @property
    def status(self) -> str:
        """Return the lag status whose shape and colour an episode has."""
        return EPISODE_STATUS.get(self.kind, "UNKNOWN")

    @property
    def is_partial(self) -> bool:
        """Return whether its window was not over when it was computed."""
        if self.long_period is not None:
            return self.window_end_ms < self.long_period.end_ms
        return is_so_far(self.job, self.window_start_ms, self.window_end_ms, self.zone)

    def value(self, key: str) -> Any:
        """Return a figure of the report or a shared column; None for what is unknown or does not apply."""
        return self.figures[key] if key in self.figures else getattr(self, key, None)

    def as_row(self) -> JsonObject:
        """Return every column and the report's own figures, JSON-ready."""
        shared = {
            field.attname: getattr(self, field.attname)
            for field in self._meta.concrete_fields
            if field.attname not in ("id", "figures")
        }
        return {**shared, "is_partial": self.is_partial, **self.figures}


WEEKDAYS = (
    Text("Monday"),
    Text("Tuesday"),
    Text("Wednesday"),
    Text("Thursday"),
    Text("Friday"),
    Text("Saturday"),
    Text("Sunday"),
)


class ReportSchedule(models.Model):
    """When beat requests a report of a cluster, and who is notified when it is done.

    One row per cluster and report, created from `rules.DEFAULT_SCHEDULES` when beat first sees the cluster; its
    times are wall-clock times of its zone.
    """

    class Cadence(models.TextChoices):
        HOURLY = "HOURLY", Text("every hour")
        DAILY = "DAILY", Text("every day")
        WEEKLY = "WEEKLY", Text("every week")

    cluster = models.CharField(max_length=64)
    job = models.CharField(max_length=32)
    is_on = models.BooleanField(default=True)
    cadence = models.CharField(max_length=8, choices=Cadence.choices)
    minute = models.PositiveSmallIntegerField(default=0)
    hour = models.PositiveSmallIntegerField(default=0)
    weekday = models.PositiveSmallIntegerField(default=0)  # 0 is Monday
    # The zone of its days and weeks; empty: REPORT_TIME_ZONE.
    zone = models.CharField(max_length=ZONE_LENGTH_MAX, default="", blank=True)
    emails = models.JSONField(default=list)
    # A secret: anyone with the address can post to it, so only its host is shown.
    webhook_url = models.CharField(max_length=500, default="", blank=True)
    # Who set them: an address without an account reads no more than this person may see.
    receivers_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The last moment it was due, and the outcome.
    last_due_ms = models.BigIntegerField(default=0)
    last_outcome = TextColumn(blank=True)
    last_run = models.ForeignKey(
        ReportRun, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "job"], name="report_schedule_one_per_report")
        ]

    @property
    def clock(self) -> str:
        """Return its time of day, of daily and weekly ones."""
        return f"{self.hour:02}:{self.minute:02}"

    @property
    def when(self) -> Text:
        """Return when it makes its report, in words."""
        if not self.is_on:
            return Text("its schedule is off")
        if self.cadence == self.Cadence.HOURLY:
            return Text("every hour, %(minute)s minutes past", minute=self.minute)
        if self.cadence == self.Cadence.DAILY:
            return Text("every day at %(clock)s %(zone)s", clock=self.clock, zone=self.time_zone)
        return Text(
            "every week on %(weekday)s at %(clock)s %(zone)s",
            weekday=WEEKDAYS[self.weekday],
            clock=self.clock,
            zone=self.time_zone,
        )

    @property
    def time_zone(self) -> str:
        """Return its own zone or the installation's."""
        return self.zone or str(settings.REPORT_TIME_ZONE)


class QueueRowFile(models.Model):
    """A Parquet file with rows of single queues: one window of a lag report, a range of groups.

    It is read while it is LIVE. Its life: `console.report.kept_rows.queue_files`.
    """

    REASON_LENGTH_MAX = 300

    class State(models.TextChoices):
        WRITING = "writing"
        LIVE = "live"
        SUPERSEDED = "superseded"
        DAMAGED = "damaged"  # `reason` says how; readers report it until the report is run again

    path = models.CharField(max_length=512, unique=True)  # below REPORTS_URL
    run = models.ForeignKey(ReportRun, on_delete=models.CASCADE, related_name="queue_row_files")
    job = models.CharField(max_length=32)
    cluster = models.CharField(max_length=64)
    window_start_ms = models.BigIntegerField()
    window_end_ms = models.BigIntegerField()
    group_first = models.CharField(max_length=NAME_LENGTH_MAX)
    group_last = models.CharField(max_length=NAME_LENGTH_MAX)
    rows = models.IntegerField()
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, default="", blank=True)
    code_version = models.CharField(max_length=40, default="", blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WRITING)
    zone = models.CharField(max_length=ZONE_LENGTH_MAX, default=UTC)
    created_at_ms = models.BigIntegerField()  # of LIVE files: when they were published
    superseded_at_ms = models.BigIntegerField(default=0)
    reason = TextColumn(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "job", "state", "-window_start_ms"], name="queue_row_file_window")
        ]
