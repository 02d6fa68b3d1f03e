"""What is kept about lag: moves, events, owners, promises, episodes, the manifest of the history.

All in the database `default`. Rows of a round, which may be deleted at any time, are in `console.lag.models`. Clusters
are named, not keyed: what happened is kept when a cluster is removed.
"""

from django.db import models

from console.text.columns import TextColumn

BUDGET_MS = 28 * 24 * 3_600_000  # four whole weeks, so that weekdays weigh the same
HOST_LENGTH_MAX = 64
NAME_LENGTH_MAX = 255  # RocketMQ: topic <= 127, group <= 255 with its %RETRY% prefix


class OffsetMove(models.Model):
    """Committed offsets that a change of this console set.

    `queues` is a list of [topic, broker name, queue id, before, target], before null where nothing was committed. Kept
    for `reset.KEPT_MS`: rounds use it to tell a move from progress.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    at_ms = models.BigIntegerField()
    queues = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["cluster", "at_ms"], name="offset_move_recent")]


class LagEvent(models.Model):
    """Something that happened to a committed offset or a queue, seen between two rounds.

    A REWIND or SKIPPED that a change of this console explains has it in `cause`. A row stands for one topic of a
    group (or one topic); offsets are those of `broker_name` and `queue_id`, the queue with the most `messages`.
    MEMBERS has the clients before and after in the offsets, and `members`. BROKER_RESTART is of no group.
    """

    class Kind(models.TextChoices):
        REWIND = "REWIND"
        SKIPPED = "SKIPPED"
        LOST = "LOST"
        RECREATED = "RECREATED"
        HEAD_REGRESSION = "HEAD_REGRESSION"
        MEMBERS = "MEMBERS"
        BROKER_RESTART = "BROKER_RESTART"

    cluster = models.CharField(max_length=64)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    group = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    topic = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    queue_id = models.IntegerField(default=-1)
    queues = models.IntegerField(default=1)
    at_ms = models.BigIntegerField()
    from_offset = models.BigIntegerField(null=True)
    to_offset = models.BigIntegerField(null=True)
    messages = models.BigIntegerField(default=0)  # of all queues; members: how many there are now
    members = models.JSONField(default=dict, blank=True)
    cause = TextColumn(default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["cluster", "group", "at_ms"], name="lag_event_window")]


class QueueOwner(models.Model):
    """Which member of a group owned a queue in [from_ms, to_ms); `to_ms` null: it still does.

    Where no row is, no owner is known: a member did not answer, its broker was silent, or no sweep took place. `host`
    is where the member connected from. `is_claim`: several members reported the queue in the same sweeps, each has a
    row, and none of them owned it alone.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    queue_id = models.IntegerField()
    client_id = models.CharField(max_length=NAME_LENGTH_MAX)
    host = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    from_ms = models.BigIntegerField()
    to_ms = models.BigIntegerField(null=True)
    is_claim = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "group", "from_ms"], name="queue_owner_window"),
            models.Index(fields=["to_ms"], name="queue_owner_age"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "group", "topic", "broker_name", "queue_id"],
                condition=models.Q(to_ms__isnull=True, is_claim=False),
                name="queue_owner_now",
            )
        ]


class ClientPosition(models.Model):
    """What a member of a broadcasting group reported at `at_ms`; `queues`: `history.client_positions.KeptQueue`."""

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    client_id = models.CharField(max_length=NAME_LENGTH_MAX)
    at_ms = models.BigIntegerField()
    queues = models.JSONField(default=list)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "group", "at_ms"], name="client_position_window"),
            models.Index(fields=["at_ms"], name="client_position_age"),
        ]


class GroupSlo(models.Model):
    """A group's promise from `from_ms` to its next row.

    No message waits longer than `slo_ms` for `target` of the time. Null, and groups without a row: the installation's
    default. A change is a new row.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    slo_ms = models.BigIntegerField(null=True)
    target = models.FloatField(null=True)
    from_ms = models.BigIntegerField(default=0)
    set_by = models.CharField(max_length=150, default="", blank=True)

    class Meta:
        db_table = "report_groupslo"  # where it was first
        constraints = [models.UniqueConstraint(fields=["cluster", "group", "from_ms"], name="slo_version")]


class Episode(models.Model):
    """A stretch of time in which something was wrong with a group's topic.

    What `kind`, `state` and the times mean: `console.lag.episode_state`. `cause` is the first that fits: reset,
    retention, offline, queue stuck, surge, slow, unclear. `reset_by` is the change of this console that set the offsets
    just before; such an episode is intentional. `slo_ms` and `target` are the promise at its start. `forecast_…` is the
    first drain forecast during the episode, to be compared with its end.
    """

    id = models.CharField(primary_key=True, max_length=16)  # `episode_state.episode_id`
    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    kind = models.CharField(max_length=8)
    state = models.CharField(max_length=8)
    start_ms = models.BigIntegerField()
    end_ms = models.BigIntegerField(help_text="of one that is not over: until when it is known to have held")
    seen_ms = models.BigIntegerField(help_text="the last round that was taken into account")
    bad_ms = models.BigIntegerField(default=0, help_text="time in which it is known to have held")
    unknown_ms = models.BigIntegerField(default=0, help_text="time of which nobody knows")
    well_ms = models.BigIntegerField(default=0)
    pauses = models.IntegerField(default=0, help_text="times it was well for less than six intervals")
    cause = models.CharField(max_length=16, default="unclear")
    is_intentional = models.BooleanField(default=False, help_text="a reset of ours caused it")
    reset_by = TextColumn(default="", blank=True)
    slo_ms = models.BigIntegerField()
    target = models.FloatField()
    slo_from_ms = models.BigIntegerField(default=0, help_text="since when it is in force; 0: always")
    clients = models.IntegerField(null=True, help_text="members when it began")
    peak_lag = models.BigIntegerField(null=True)
    peak_time_lag_ms = models.BigIntegerField(null=True)
    worst_queue = models.CharField(max_length=300, default="", blank=True)
    forecast_at_ms = models.BigIntegerField(null=True)
    forecast_ms = models.BigIntegerField(null=True)
    forecast_low_ms = models.BigIntegerField(null=True)
    forecast_high_ms = models.BigIntegerField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "-start_ms"], name="episode_recent"),
            models.Index(fields=["cluster", "state"], name="episode_open"),
            models.Index(fields=["cluster", "group", "-start_ms"], name="episode_group"),
        ]

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def is_over(self) -> bool:
        return self.state == "OVER"

    @property
    def budget_burnt(self) -> float:
        """Return the share of the promise's four weeks of budget that it used; only a breach uses any."""
        return self.bad_ms / ((1 - self.target) * BUDGET_MS) if self.kind == "breach" else 0.0

    @property
    def recovered_ms(self) -> int | None:
        """Return how long after the forecast the episode was over."""
        if self.forecast_at_ms is None or not self.is_over:
            return None
        return self.end_ms - self.forecast_at_ms


class HistoryGap(models.Model):
    """Time without rounds (`broker_name` empty) or with a silent broker."""

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    from_ms = models.BigIntegerField()  # the last round that read it
    to_ms = models.BigIntegerField(null=True)  # the next one; null: it still lasts
    reason = TextColumn(default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["cluster", "from_ms"], name="history_gap_window")]


class HistoryFile(models.Model):
    """The manifest of lag history: a file exists when its row commits."""

    class Kind(models.TextChoices):
        WAL = "wal"
        CHUNK_HOUR = "chunk_hour"
        CHUNK_DAY = "chunk_day"

    class State(models.TextChoices):
        # A reserved name: the file is not whole, or its writer died.
        WRITING = "writing"
        LIVE = "live"
        SUPERSEDED = "superseded"
        # Damaged: described in `reason`, kept beside the history, no longer read.
        QUARANTINED = "quarantined"
        DELETED = "deleted"

    # relative to HISTORY_URL; `wal` relative to the data folder of its host too, and only there until it is uploaded
    path = models.CharField(max_length=512, unique=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    cluster = models.CharField(max_length=64)
    ts_lo_ms = models.BigIntegerField()
    ts_hi_ms = models.BigIntegerField()  # exclusive
    host = models.CharField(
        max_length=HOST_LENGTH_MAX, default="", blank=True, help_text="whose log it is; chunks are no host's"
    )
    uploaded_at_ms = models.BigIntegerField(
        default=0, help_text="since then a log segment lies under HISTORY_URL; 0: on its host only"
    )
    bucket = models.IntegerField(default=0, help_text="which of the files of a large day")
    group_lo = models.CharField(  # "" is of heads
        max_length=NAME_LENGTH_MAX, null=True, help_text="the first group; null: any group may be in the file"
    )
    group_hi = models.CharField(max_length=NAME_LENGTH_MAX, null=True, help_text="the last group")
    rows = models.BigIntegerField(default=0)
    samples = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, default="", blank=True)
    generation = models.IntegerField(default=1)
    state = models.CharField(max_length=16, choices=State.choices, default=State.LIVE)
    created_at_ms = models.BigIntegerField(default=0)
    # Readers that listed it before have a grace period to finish.
    superseded_at_ms = models.BigIntegerField(default=0)
    reason = TextColumn(default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["cluster", "kind", "state", "ts_lo_ms"], name="history_file_window")]

    def may_hold(self, group: str) -> bool:
        """Return whether rows of a group may be in the file, "" for heads. Databases may order names otherwise."""
        return self.group_lo is None or self.group_hi is None or self.group_lo <= group <= self.group_hi


class HistoryLease(models.Model):
    """The right to make files of a cluster's history, renewed and checked in use."""

    cluster = models.CharField(max_length=64, primary_key=True)
    owner = models.CharField(max_length=64, default="", blank=True)
    host = models.CharField(max_length=HOST_LENGTH_MAX, default="", blank=True)
    until_ms = models.BigIntegerField(default=0)
