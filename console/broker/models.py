"""Results of the slow survey of brokers and name servers; fast figures of each round are `BrokerRow`s.

All models live in the database `metrics`, keyed by the cluster's name: a cache of the brokers' answers, which may be
deleted at any time. Null means unknown, never zero. Times are epoch milliseconds of the console's clock.
"""

from django.db import models

from console.lag.models import NAME_LENGTH_MAX, RowModel
from console.text import JsonObject, Text
from console.text.columns import TextColumn, TextsColumn


class BrokerSurvey(RowModel):
    """One broker address, slaves included.

    `config` is the answer to GET_BROKER_CONFIG (26), values of secret keys replaced by `keys.SET`; null with
    `config_reason` while it was never read. `runtime` is the last answer to 28, of `runtime_at_ms`: a silent broker
    keeps it. `producers` is a list of {"group", "client_id", "address", "language", "version", "seen_ms"}; `replicas`
    of {"addr", "behind_bytes", "in_sync", "bytes_per_s"}, `sync_set` of {"broker_id", "addr", "is_master", "in_sync",
    "alive"} as the controller has them. As of `held_back_at_ms`: `delayed` is a list of {"level",
    "waiting", "newest_ms"} of the levels with messages, `timed` {topic: messages in the timer wheel}, `half` the
    highest possible number of half messages (see `held_back`).
    """

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    broker_id = models.BigIntegerField(default=0)
    addr = models.CharField(max_length=NAME_LENGTH_MAX)
    config = models.JSONField(null=True, default=None)
    config_at_ms = models.BigIntegerField(null=True)
    config_reason = TextColumn(default=Text(), blank=True)
    runtime = models.JSONField(default=dict)
    runtime_at_ms = models.BigIntegerField(null=True)
    runtime_reason = TextColumn(default=Text(), blank=True)
    producers = models.JSONField(null=True, default=None)
    producers_reason = TextColumn(default=Text(), blank=True)
    replicas = models.JSONField(null=True, default=None)
    replicas_reason = TextColumn(default=Text(), blank=True)
    epoch = models.BigIntegerField(null=True)  # the newest in its log, of a broker that a controller manages,
    master_epoch = models.BigIntegerField(null=True)  # ... and that of its master, by the controller
    epoch_reason = TextColumn(default=Text(), blank=True)
    sync_set = models.JSONField(null=True, default=None)
    sync_set_reason = TextColumn(default=Text(), blank=True)
    delayed = models.JSONField(null=True, default=None)
    delayed_reason = TextColumn(default=Text(), blank=True)
    timed = models.JSONField(null=True, default=None)
    timed_reason = TextColumn(default=Text(), blank=True)
    half = models.BigIntegerField(null=True)
    half_reason = TextColumn(default=Text(), blank=True)
    held_back_at_ms = models.BigIntegerField(null=True)
    filling = models.CharField(max_length=16, default="UNKNOWN")  # disk.Filling
    full_in_ms = models.BigIntegerField(null=True)
    full_words = TextColumn(default=Text(), blank=True)  # how it was computed, or why it is unknown
    write_bytes_per_s = models.FloatField(null=True)
    queues = models.IntegerField(null=True)  # of all topics, counted once a minute: there may be 100,000
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "broker_name", "broker_id"], name="broker_survey_key")
        ]


class BrokerSample(models.Model):
    """Figures of one master once a minute, for charts and for how fast its disk fills."""

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    at_ms = models.BigIntegerField()
    in_rate = models.FloatField(null=True)  # messages per second
    out_rate = models.FloatField(null=True)
    disk_ratio = models.FloatField(null=True)  # 0..1
    log_min_offset = models.BigIntegerField(null=True)  # bytes of the commit log: oldest still there
    log_max_offset = models.BigIntegerField(null=True)  # ... and written so far
    put_p99_ms = models.FloatField(null=True)
    delayed = models.BigIntegerField(null=True)  # messages held back: of delay levels,
    timed = models.BigIntegerField(null=True)  # ... for a set time,
    half = models.BigIntegerField(null=True)  # ... and half messages, at most
    found_rate = models.FloatField(null=True)  # pulls per second that found messages,
    miss_rate = models.FloatField(null=True)  # ... and that found none
    log_lock_ms = models.FloatField(null=True)  # longest lock of the commit log
    waiting_sends = models.FloatField(null=True)  # messages in the queue of the sending threads
    loop_p99_ms = models.FloatField(null=True)  # wait for brokerd's event loop
    unflushed_bytes = models.BigIntegerField(null=True)
    undispatched_bytes = models.BigIntegerField(null=True)  # of the log, not in the queues yet

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "broker_name", "at_ms"], name="broker_sample_key")
        ]


class NameServerRow(RowModel):
    """One name server of the cluster's list. `since_ms` is when `answered` last changed.

    `brokers` is {name: {id: address}} as this server returns it, `unwritable` the brokers it offers to no producer.
    """

    cluster = models.CharField(max_length=64)
    addr = models.CharField(max_length=NAME_LENGTH_MAX)
    answered = models.BooleanField(default=False)
    since_ms = models.BigIntegerField(default=0)
    reason = TextColumn(default=Text(), blank=True)
    rpc_ms = models.IntegerField(null=True)
    brokers = models.JSONField(default=dict)
    unwritable = models.JSONField(default=list)
    topic_count = models.IntegerField(null=True)
    config = models.JSONField(null=True, default=None)
    config_reason = TextColumn(default=Text(), blank=True)
    read_at_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "addr"], name="name_server_key")]


class RouteDifference(RowModel):
    """A topic whose routes differ between name servers: `views` is {name server: its route in words}."""

    cluster = models.CharField(max_length=64)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    views = TextsColumn(default=dict)
    since_ms = models.BigIntegerField()
    read_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "topic"], name="route_difference_key")]


class Survey(RowModel):
    """State of a cluster's survey: its claim, its cost, and the progress of comparing routes.

    Claimed by a conditional update of `until_ms`.
    """

    cluster = models.CharField(max_length=64, primary_key=True)
    until_ms = models.BigIntegerField(default=0)
    started_at_ms = models.BigIntegerField(null=True)
    duration_ms = models.IntegerField(null=True)
    rpcs = models.IntegerField(default=0)
    route_cursor = models.CharField(max_length=NAME_LENGTH_MAX, default="", blank=True)
    routes_compared_at_ms = models.BigIntegerField(null=True)  # when the last pass over all topics ended

    def as_row(self) -> JsonObject:
        """Return every column but the claim."""
        row = super().as_row()
        del row["until_ms"]
        return row
