"""Store the last collection round: pages, REST and alerts read these rows instead of calling a broker.

They live in the database `metrics` (`database_router.MetricsRouter`), keyed by the cluster's *name*, not by a foreign
key: a cache of what brokers reported, which may be deleted at any time. What is kept is in `kept_models`. Null means
unknown, never zero. Counts are messages, rates a second, times epoch ms of the collector's clock, durations ms.
"""

from django.db import models

from console.lag.kept_models import (
    BUDGET_MS,
    HOST_LENGTH_MAX,
    NAME_LENGTH_MAX,
    ClientPosition,
    Episode,
    GroupSlo,
    HistoryFile,
    HistoryGap,
    HistoryLease,
    LagEvent,
    OffsetMove,
    QueueOwner,
)
from console.text import JsonObject
from console.text.columns import TextColumn, TextsColumn

# Django finds the models of an app in this module.
__all__ = [
    "BUDGET_MS",
    "HOST_LENGTH_MAX",
    "NAME_LENGTH_MAX",
    "BrokerRow",
    "ClientPosition",
    "ClientRow",
    "CollectorLease",
    "Episode",
    "GroupFilterSample",
    "GroupMembers",
    "GroupRow",
    "GroupSlo",
    "GroupWatch",
    "HistoryFile",
    "HistoryGap",
    "HistoryLease",
    "LagEvent",
    "OffsetMove",
    "PromiseCourse",
    "QueueOwner",
    "QueueSheet",
    "Round",
    "RowModel",
    "SheetModel",
    "TopicQueueSheet",
    "TopicRow",
]


class RowModel(models.Model):
    """A row that a round replaces; `as_row()` is what the socket publishes and REST returns."""

    class Meta:
        abstract = True

    def as_row(self) -> JsonObject:
        """Return every column but the surrogate key, JSON-ready."""
        return {
            field.attname: getattr(self, field.attname)
            for field in self._meta.concrete_fields
            if field.attname != "id"
        }


KEEPS_UP_FROM = 0.75  # of the rate in: commits come in batches, a minute's rates differ


class GroupRow(RowModel):
    """One consumer group of one cluster: sums and worst cases over its queues.

    `status` is a `spark.lag.round.status.LagStatus` code; with `partial` some queues are unknown, `lag` is then a
    lower bound (`lag_lower_bound`) and `reason` says which broker is silent since when. `lag` excludes
    `%RETRY%` (see `retry_lag`). `topics` is a list of `round.figures.GroupTopic`, `client_progress` one of
    `round.figures.ClientFigures`. `trend` is one lag per minute, oldest first, null where nothing was seen; its last
    item is for `trend_minute` (epoch minutes). `known_lag` as of `known_at_ms` is the last lag that was complete, to be
    shown as "88,120 as of 12:02:41".
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    status = models.CharField(max_length=16)
    partial = models.BooleanField(default=False)
    offset_is_not_count = models.BooleanField(
        default=False, help_text="lag counts offsets of which some are no messages: it is an upper bound"
    )
    # CLUSTERING, BROADCASTING, "" while never seen online
    model = models.CharField(max_length=16, default="", blank=True)
    # CONCURRENTLY, ORDERLY, POP, "" unknown
    consume_mode = models.CharField(max_length=16, default="", blank=True)
    clients = models.IntegerField(null=True)
    offline_since_ms = models.BigIntegerField(null=True)
    topics = models.JSONField(default=list)
    lag = models.BigIntegerField(null=True)
    lag_lower_bound = models.BooleanField(default=False)
    time_lag_ms = models.BigIntegerField(null=True)
    time_lag_lower_bound = models.BooleanField(default=False)
    in_rate = models.FloatField(null=True)
    out_rate = models.FloatField(null=True)
    drain_ms = models.BigIntegerField(null=True)
    drain_never = models.BooleanField(default=False)
    drain_low_ms = models.BigIntegerField(null=True, help_text="the band's near end, as drain_ms")
    drain_high_ms = models.BigIntegerField(
        null=True, help_text="its far end; null with drain_low_ms: perhaps never"
    )
    drain_window_ms = models.BigIntegerField(null=True, help_text="the time over which drain_ms was measured")
    drain_known_ms = models.BigIntegerField(
        null=True, help_text="the longest drain_ms of its queues, also while that of others is unknown"
    )
    speed = models.FloatField(
        null=True,
        help_text="of the queue with the largest time lag: seconds of messages read in a second, over 2 min",
    )
    in_flight = models.BigIntegerField(null=True, help_text="pulled and not confirmed, as of in_flight_at_ms")
    in_flight_at_ms = models.BigIntegerField(null=True)
    available = models.BigIntegerField(
        null=True, help_text="nobody has pulled them yet, as of in_flight_at_ms"
    )
    queueing_ms = models.BigIntegerField(
        null=True, help_text="wait of the oldest message that nobody has pulled"
    )
    stall_ms = models.BigIntegerField(
        null=True, help_text="longest time a queue with messages made no progress"
    )
    lost = models.BigIntegerField(null=True, help_text="deleted unread since this console watches the group")
    time_to_loss_ms = models.BigIntegerField(
        null=True, help_text="until retention reaches some queue's first unread"
    )
    time_to_loss_never = models.BooleanField(default=False)
    time_to_loss_lower_bound = models.BooleanField(default=False)
    time_to_loss_queue = models.TextField(default="", blank=True)
    consumers_needed = models.IntegerField(null=True, help_text="to keep pace and clear the lag in 15 min")
    skew_gini = models.FloatField(null=True, help_text="0: all queues alike, near 1: one has it all")
    skew_max_over_mean = models.FloatField(null=True)
    effective_queues = models.FloatField(null=True, help_text="over so many queues the lag is spread")
    filter_ratio = models.FloatField(
        null=True, help_text="share of waiting messages that pass the group's filter"
    )
    filter_ratio_low = models.FloatField(null=True, help_text="95 % interval (Wilson)")
    filter_ratio_high = models.FloatField(null=True)
    filter_sampled = models.IntegerField(null=True, help_text="so many entries were looked at")
    filter_sampled_at_ms = models.BigIntegerField(null=True)
    filtered_lag = models.BigIntegerField(null=True, help_text="lag x filter_ratio")
    dlq_count = models.BigIntegerField(null=True)
    dlq_in_rate = models.FloatField(null=True)
    retry_lag = models.BigIntegerField(null=True)
    retry_in_rate = models.FloatField(null=True)
    retry_time_lag_ms = models.BigIntegerField(null=True)
    coverage_pct = models.FloatField(null=True, help_text="rounds of the last ten minutes that took place")
    clients_told = models.IntegerField(
        null=True,
        help_text="broadcasting: lag is that of the furthest behind of so many clients, as of read_at_ms",
    )
    client_progress = TextsColumn(
        default=list,
        help_text="broadcasting: how far each client is by its own word, furthest behind first, at most 100",
    )
    trend = models.JSONField(default=list)
    trend_minute = models.BigIntegerField(default=0)
    reason = TextColumn(default="", blank=True)
    unknown_since_ms = models.BigIntegerField(null=True)
    since_ms = models.BigIntegerField(default=0)
    known_lag = models.BigIntegerField(null=True)
    known_at_ms = models.BigIntegerField(null=True)
    is_system = models.BooleanField(default=False)
    attention = models.IntegerField(default=0)
    worst_queue = models.TextField(default="", blank=True)  # "topic · broker · 3"
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "group"], name="group_row_key")]
        indexes = [models.Index(fields=["cluster", "is_system", "-attention"], name="group_row_attention")]

    @property
    def keeps_up(self) -> bool:
        """Whether it is well and reads about what arrives: at first any group is well, whatever it reads."""
        is_level = self.out_rate is None or self.out_rate >= KEEPS_UP_FROM * (self.in_rate or 0)
        return self.status == "OK" and is_level


class SheetModel(models.Model):
    """One sheet: the queues of some groups, or of some topics, as one value; see `rows.sheets`."""

    cluster = models.CharField(max_length=64)
    number = models.IntegerField()
    data = models.BinaryField()

    class Meta:
        abstract = True


class QueueSheet(SheetModel):
    """Queues as groups consume them: `queue_row.QueueRow`."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "number"], name="queue_sheet_key")]


class TopicRow(RowModel):
    """One topic. `kind` is NORMAL, RETRY, DLQ or SYSTEM; `messages` is the sum of max - min over the queues.

    `brokers` is a list of broker names; `worst_group` is the group with the largest time lag on this topic;
    `trend` is the produce rate per minute, like `GroupRow.trend`.
    """

    cluster = models.CharField(max_length=64)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    kind = models.CharField(max_length=8)
    message_type = models.CharField(
        max_length=16,
        default="",
        blank=True,
        help_text="the attribute message.type of RocketMQ 5; empty: not set",
    )
    read_queues = models.IntegerField(default=0)
    write_queues = models.IntegerField(default=0)
    perm = models.IntegerField(default=0)  # bits: READ 4, WRITE 2, INHERIT 1
    brokers = models.JSONField(default=list)
    in_rate = models.FloatField(null=True)
    out_rate = models.FloatField(null=True)  # of all groups together
    messages = models.BigIntegerField(null=True)
    messages_lower_bound = models.BooleanField(default=False)
    offset_is_not_count = models.BooleanField(
        default=False, help_text="there are at most as many messages as offsets, because of offset_kind"
    )
    offset_kind = models.CharField(max_length=16, default="", blank=True)  # COMPACTION, BATCH, STATIC, LIGHT
    readers = models.IntegerField(null=True, help_text="consumer groups that have offsets on it")
    worst_group = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    worst_status = models.CharField(
        max_length=16, default="", blank=True, help_text="of the worst group on its latest queue here"
    )
    worst_time_lag_ms = models.BigIntegerField(null=True)
    retained_ms = models.BigIntegerField(null=True)  # age of the oldest message still readable
    time_to_loss_ms = models.BigIntegerField(null=True, help_text="the smallest of its groups")
    time_to_loss_group = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    last_write_ms = models.BigIntegerField(null=True)
    trend = models.JSONField(default=list)
    trend_minute = models.BigIntegerField(default=0)
    partial = models.BooleanField(default=False)
    reason = TextColumn(default="", blank=True)
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "topic"], name="topic_row_key")]

    @property
    def read_queues_lower_bound(self) -> bool:
        """Whether a broker that does not answer may have more of its queues."""
        return self.partial


class TopicQueueSheet(SheetModel):
    """Queues of topics, whichever groups consume them: `queue_row.TopicQueueRow`."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "number"], name="topic_queue_sheet_key")]


class BrokerRow(RowModel):
    """One broker address. `since_ms` is when `answered` last changed; `reason` why it does not answer."""

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    broker_id = models.IntegerField(default=0)
    addr = models.CharField(max_length=NAME_LENGTH_MAX)
    version = models.CharField(max_length=64, default="", blank=True)
    in_rate = models.FloatField(null=True)
    out_rate = models.FloatField(null=True)
    disk_ratio = models.FloatField(null=True)  # 0..1 of the commit log's disk
    answered = models.BooleanField(default=False)
    since_ms = models.BigIntegerField(default=0)
    reason = TextColumn(default="", blank=True)
    rpc_ms = models.IntegerField(null=True)
    clock_offset_ms = models.BigIntegerField(
        null=True,
        help_text="its clock minus ours by its store times; 0: within a second; null: nothing arrived yet",
    )
    capabilities = models.JSONField(default=list)  # extensions of brokerd; empty for Apache RocketMQ
    runtime = models.JSONField(default=dict)
    boot_ms = models.BigIntegerField(
        null=True, help_text="when its process began, by its own clock; kept while it is silent"
    )
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "broker_name", "broker_id"], name="broker_row_key")
        ]


class GroupMembers(models.Model):
    """The connected clients of a group, as of the last sweep (about every 30 s, outside the rounds)."""

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    clients = models.IntegerField(null=True)
    model = models.CharField(max_length=16, default="", blank=True)
    consume_mode = models.CharField(max_length=16, default="", blank=True)
    topics = models.JSONField(default=list)  # subscribed to, without the group's %RETRY% topic
    offline_since_ms = models.BigIntegerField(null=True)
    # POP: since then what members hold has not become less
    popped_since_ms = models.BigIntegerField(null=True)
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "group"], name="group_members_key")]


class ClientRow(RowModel):
    """One member of a group as it described itself at the last sweep (about every 30 s).

    `queues` is a list of {"topic", "broker_name", "queue_id"} or null when the client did not answer; what it pops from
    has "popped" too: messages it took from there and has not acknowledged, of any queue where the id is -1;
    `subscription` is {topic: {"expression", "type"}}. `progress` is what a member of a broadcasting group has consumed,
    the last ten minutes of it: a list of {"topic", "broker_name", "queue_id", "samples"} as `rows.broadcast`
    keeps them.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    client_id = models.CharField(max_length=NAME_LENGTH_MAX)
    address = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    language = models.CharField(max_length=16, default="", blank=True)
    version = models.CharField(max_length=64, default="", blank=True)
    strategy = models.CharField(
        max_length=NAME_LENGTH_MAX,
        default="",
        blank=True,
        help_text="how it divides queues, as it reports it; empty: it does not",
    )
    proxy = models.CharField(
        max_length=NAME_LENGTH_MAX,
        default="",
        blank=True,
        help_text="the RocketMQ 5 proxy that it is connected through; empty: it is connected to brokers",
    )
    queues = models.JSONField(null=True, default=None)
    subscription = models.JSONField(default=dict)
    progress = models.JSONField(default=list)
    started_at_ms = models.BigIntegerField(null=True)
    reason = TextColumn(default="", blank=True)  # why the client's own view is missing
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "group", "client_id"], name="client_row_key")
        ]


class Round(RowModel):
    """One collection round: the collector's own cost and health. The newest `ROUNDS_KEPT` rounds are kept."""

    cluster = models.CharField(max_length=64)
    number = models.BigIntegerField()
    started_at_ms = models.BigIntegerField()
    duration_ms = models.IntegerField()
    rpcs = models.IntegerField(default=0)
    brokers_answered = models.IntegerField(default=0)
    brokers_total = models.IntegerField(default=0)
    series = models.IntegerField(default=0)
    error = TextColumn(default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "number"], name="round_key")]


class CollectorLease(models.Model):
    """The right to collect a cluster, claimed by a conditional update; `round_number` is its last round's."""

    cluster = models.CharField(max_length=64, primary_key=True)
    owner = models.CharField(max_length=64, default="", blank=True)
    host = models.CharField(max_length=HOST_LENGTH_MAX, default="", blank=True)
    until_ms = models.BigIntegerField(default=0)
    started_at_ms = models.BigIntegerField(default=0)
    round_number = models.BigIntegerField(default=0)
    refresh_requested = models.BooleanField(default=False)
    sweep_until_ms = models.BigIntegerField(default=0)


class GroupWatch(models.Model):
    """A group on an open page: its pulled offsets and clients are read more often until `until_ms`."""

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    until_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "group"], name="group_watch_key")]


class GroupFilterSample(models.Model):
    """How many of a group's waiting messages passed its filter, of some that were looked at then.

    The newest is that of live rows, those of a window are in its report rows (`collect.filter_sampling`).
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    matching = models.IntegerField()
    scanned = models.IntegerField()
    strata = models.IntegerField()
    sampled_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "group", "sampled_at_ms"], name="group_filter_sample_at"
            )
        ]


class PromiseCourse(RowModel):
    """When a group's topic kept its promise in the last days (`console.lag.promise_courses`).

    `changes` is a list of [from when, state] as in `folds.promise`, each round judged by the promise of its time. The
    row without a group is common to all topics. A topic without a row was known and in time all along.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    topic = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    changes = models.JSONField(default=list)
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "group", "topic"], name="promise_course_key")
        ]
