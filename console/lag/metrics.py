"""Export lag to Prometheus: a sample for each figure known now, by group, by topic, optionally by queue.

Metric names are those of kafka-lag-exporter, with `rocketmq` for `kafka`, where it has the figure, and
`tidemark_group_…` where it does not. A status is one gauge with its code, as in Burrow's exporters, not a series
for each status; `tidemark_status_code` names the codes. A figure that is unknown, and every figure of a cluster whose
last round is older than STALE_INTERVALS, has no sample: an old number is never repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.db.models import Q

from console.cluster import selectors as cluster_selectors
from console.lag.facts import LONGEST_MS, Gap, forecast_breach
from console.lag.models import GroupRow, HistoryGap
from console.lag.promise_courses import Budgets
from console.lag.round.figures import GroupTopic
from console.lag.rows import queues
from console.lag.rows.broadcast import BROADCASTING
from console.lag.selectors import last_round
from spark.lag.codes import CODE_OF, LagStatus

STALE_INTERVALS = 4
# A machine that is busy for some seconds does not end every series.
STALE_MS_MIN = 30_000
# Prometheus keeps every byte of a label in memory; RocketMQ allows 255.
LABEL_LENGTH_MAX = 128
GROUP = "rocketmq_consumergroup_group"
TOPIC = "tidemark_group_topic"
# Family → (column in the row of a group, help). Times are exported in seconds.
GROUP_FIGURES = {
    f"{GROUP}_sum_lag": ("lag", "Messages of its topics that the group has not committed"),
    f"{GROUP}_max_lag_seconds": ("time_lag_ms", "Age of the oldest message that is not committed"),
    "tidemark_group_lag_is_lower_bound": (
        "lag_lower_bound",
        "1: some queue is unknown, the lag is at least that",
    ),
    "tidemark_group_lag_seconds_is_lower_bound": ("time_lag_lower_bound", "1: the time lag is at least that"),
    "tidemark_group_in_rate": ("in_rate", "Messages a second written to its topics"),
    "tidemark_group_out_rate": ("out_rate", "Messages a second committed"),
    "tidemark_group_retry_rate": (
        "retry_in_rate",
        "Messages a second that members sent back to be tried again",
    ),
    "tidemark_group_dead_letters": ("dlq_count", "Messages in its dead letter topic"),
    "tidemark_group_dead_letter_rate": ("dlq_in_rate", "Messages a second into its dead letter topic"),
}
# The flags of GROUP_FIGURES, and the figure that each is about.
GROUP_FLAGS = {"lag_lower_bound": "lag", "time_lag_lower_bound": "time_lag_ms"}
FORECAST_BREACH = "tidemark_group_forecast_breach"
# Prometheus pays for each; the most urgent groups come first.
GROUPS_MAX = 2_000
# Family → (column in the row of a topic, help).
TOPIC_FIGURES = {
    f"{GROUP}_topic_sum_lag": ("lag", "Messages of the topic that the group has not committed"),
    f"{GROUP}_topic_max_lag_seconds": ("time_lag_ms", "Age of the oldest message that is not committed"),
    f"{TOPIC}_in_rate": ("in_rate", "Messages a second written"),
    f"{TOPIC}_out_rate": ("out_rate", "Messages a second committed"),
    f"{TOPIC}_stall_seconds": ("stall_ms", "Longest time a queue with messages has made no progress"),
    f"{TOPIC}_time_to_loss_seconds": ("time_to_loss_ms", "Until retention deletes the first unread message"),
}
NEVER_COMMITTED = f"{TOPIC}_never_committed_messages"
TOPIC_FLAGS = {
    f"{TOPIC}_lag_is_lower_bound": ("lag_lower_bound", "1: some queue is unknown, the lag is at least that"),
    f"{TOPIC}_lag_seconds_is_lower_bound": ("time_lag_lower_bound", "1: the time lag is at least that"),
}
STATUS = f"{TOPIC}_status"
BURN = f"{TOPIC}_burn_rate"
QUEUE_FIGURES = {
    f"{GROUP}_lag": ("lag", "Messages of the queue that the group has not committed"),
    f"{GROUP}_lag_seconds": ("time_lag_ms", "Age of the oldest message that is not committed"),
    f"{GROUP}_offset": ("committed_offset", "Committed offset"),
    "rocketmq_queue_latest_offset": ("max_offset", "Offset that the next message gets"),
    "rocketmq_queue_earliest_offset": ("min_offset", "Offset of the oldest message kept"),
}
WINDOW_WORDS = {5: "5m", 30: "30m", 60: "1h", 360: "6h", 4_320: "3d"}


class Topic(NamedTuple):
    """Hold a group's topic with the labels of its samples."""

    labels: str
    cluster: str
    row: GroupTopic
    group: str
    # Whether brokers keep its offsets; those of broadcasting groups are in no history.
    is_kept_by_brokers: bool


@dataclass(slots=True)
class Text:
    """Build the text format, family by family; handwritten because a scrape has up to 100,000 samples."""

    lines: list[str] = field(default_factory=list)

    def family(self, name: str, text: str, samples: Iterable[tuple[str, float]]) -> None:
        """Add a gauge; `samples`: labels as returned by `labels_of`, and the value."""
        own = [f"{name}{labels} {float(value)!r}" for labels, value in samples]
        self.lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", *own]

    def encode(self) -> bytes:
        """Return the text as bytes."""
        return ("\n".join(self.lines) + "\n").encode()


def metrics_text(now_ms: int) -> bytes:
    """Return all families of lag."""
    text = Text()
    fresh = fresh_clusters(now_ms)
    budgets = _budgets(fresh, now_ms)
    groups_left_out = _add_groups(text, fresh, budgets)
    topics, left_out = _topics(fresh)
    for name, (column, words) in TOPIC_FIGURES.items():
        text.family(name, words, _figures(topics, column))
    for name, (column, words) in TOPIC_FLAGS.items():
        text.family(
            name, words, ((one.labels, bool(getattr(one.row, column))) for one in topics if _is_known(one))
        )
    text.family(
        NEVER_COMMITTED,
        "Messages in queues on which the group never committed: they are in no lag",
        ((one.labels, one.row.never_committed_lag) for one in topics if _is_counted(one)),
    )
    text.family(
        STATUS,
        "Code of the topic's status, see tidemark_status_code",
        ((one.labels, CODE_OF[LagStatus(one.row.status)]) for one in topics),
    )
    codes = ((labels_of(status=status.value), code) for status, code in CODE_OF.items())
    text.family("tidemark_status_code", "What the codes of a status mean", codes)
    text.family(
        BURN,
        "Times the error budget was used faster than the group's promise allows, of the time that is known",
        _burn_samples(topics, budgets),
    )
    queue_left_out = _add_queues(text, fresh) if settings.METRICS_QUEUES else 0
    _add_collectors(text, now_ms)
    counts = {"group": groups_left_out, "group_topic": left_out, "queue": queue_left_out}
    samples = ((labels_of(of=of), count) for of, count in counts.items())
    text.family("tidemark_metrics_left_out", "Rows that are beyond the limit, the least urgent ones", samples)
    return text.encode()


def fresh_clusters(now_ms: int) -> list[str]:
    """Return the clusters whose last round is recent; figures of the others are out of date."""
    every = cluster_selectors.live_clusters()
    return [one.name for one in every if not _is_stale(one.name, one.poll_interval_s, now_ms)]


def labels_of(**labels: str) -> str:
    """Return labels in the text format; a value over LABEL_LENGTH_MAX is cut and ends in a digest."""
    return "{" + ",".join(f'{name}="{_escaped(_short(value))}"' for name, value in labels.items()) + "}"


def _short(value: str) -> str:
    if len(value) <= LABEL_LENGTH_MAX:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{value[: LABEL_LENGTH_MAX - 9]}~{digest}"


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()


def _is_stale(cluster: str, interval_s: int, now_ms: int) -> bool:
    found = last_round(cluster)
    allowed_ms = max(STALE_INTERVALS * interval_s * 1_000, STALE_MS_MIN)
    return found is None or now_ms - found.started_at_ms > allowed_ms


def _topics(clusters: Sequence[str]) -> tuple[list[Topic], int]:
    """Return the topics of groups, the most urgent groups first, and how many are beyond the limit."""
    rows = GroupRow.objects.filter(is_system=False, cluster__in=clusters)
    found: list[Topic] = []
    count = 0
    names = ("cluster", "group", "model", "topics")
    for cluster, group, model, topics in (
        rows.order_by("-attention", "cluster", "group").values_list(*names).iterator()
    ):
        for row in msgspec.convert(topics, list[GroupTopic]):
            count += 1
            if len(found) < settings.METRICS_TOPICS_MAX:
                labels = labels_of(cluster=cluster, group=group, topic=row.topic)
                found.append(Topic(labels, cluster, row, group, model != BROADCASTING))
    return found, count - len(found)


def _is_known(one: Topic) -> bool:
    return one.row.lag is not None


def _is_counted(one: Topic) -> bool:
    """Return whether its queues were read: a topic that is only subscribed to has none."""
    is_read = _is_known(one) or one.row.status != LagStatus.UNKNOWN
    return one.is_kept_by_brokers and bool(one.row.queues) and is_read


def _figures(topics: Sequence[Topic], column: str) -> Iterator[tuple[str, float]]:
    divisor = _divisor(column)
    for one in topics:
        value = getattr(one.row, column)
        if value is not None:
            yield one.labels, value / divisor


def _divisor(column: str) -> int:
    """Return the divisor of a column: times are in seconds (0.001 as a factor prints 2.3040000000000003)."""
    return 1_000 if column.endswith("_ms") else 1


def _budgets(clusters: Sequence[str], now_ms: int) -> dict[str, Budgets]:
    intervals = {one.name: one.poll_interval_s * 1_000 for one in cluster_selectors.clusters()}
    return {cluster: Budgets(cluster, intervals[cluster], now_ms) for cluster in clusters}


def _add_groups(text: Text, clusters: Sequence[str], budgets: Mapping[str, Budgets]) -> int:
    """Add the families of groups, the most urgent first; return how many groups are beyond the limit."""
    own = GroupRow.objects.filter(is_system=False, cluster__in=clusters)
    read = own.defer("topics", "trend", "client_progress")
    rows = [
        (labels_of(cluster=row.cluster, group=row.group), row)
        for row in read.order_by("-attention", "cluster", "group")[:GROUPS_MAX]
    ]
    for name, (column, words) in GROUP_FIGURES.items():
        known, divisor = GROUP_FLAGS.get(column, column), _divisor(column)
        samples = (
            (labels, getattr(row, column) / divisor)
            for labels, row in rows
            if getattr(row, known) is not None
        )
        text.family(name, words, samples)
    found = ((labels, forecast_breach(row, budgets[row.cluster].promised(row.group))) for labels, row in rows)
    text.family(
        FORECAST_BREACH,
        "1: late, and forecast to be late for longer than the group promises",
        ((labels, value) for labels, value in found if value is not None),
    )
    count = own.count()
    text.family("tidemark_groups", "Groups known, shown above or not", [("", count)])
    return count - len(rows)


def _burn_samples(topics: Sequence[Topic], budgets: Mapping[str, Budgets]) -> Iterator[tuple[str, float]]:
    for one in topics:
        if one.is_kept_by_brokers and _is_known(one):
            for length_ms, rate in budgets[one.cluster].burns(one.group, one.row.topic):
                if rate is not None:
                    yield f'{one.labels[:-1]},window="{WINDOW_WORDS[length_ms // 60_000]}"}}', rate


def _gaps(cluster: str, now_ms: int) -> list[Gap]:
    recent = Q(to_ms__isnull=True) | Q(to_ms__gt=now_ms - LONGEST_MS)
    rows = HistoryGap.objects.filter(recent, cluster=cluster, broker_name="")
    return [Gap(*times) for times in rows.values_list("from_ms", "to_ms")]


def _add_queues(text: Text, clusters: Sequence[str]) -> int:
    """Add the families of single queues; return how many queues are beyond the limit."""
    columns = [column for column, _ in QUEUE_FIGURES.values()]
    names = ("group", "topic", "broker_name", "queue_id", "status", *columns)
    found: list[tuple[str, tuple[Any, ...]]] = []
    count = 0
    for cluster in clusters:
        for group, topic, broker, queue_id, status, *figures in queues.every(cluster, *names):
            if status == LagStatus.UNKNOWN:
                # Its figures are out of date.
                continue
            count += 1
            if len(found) < settings.METRICS_QUEUES_MAX:
                labels = labels_of(
                    cluster=cluster, group=group, topic=topic, broker=broker, queue_id=str(queue_id)
                )
                found.append((labels, tuple(figures)))
    for place, (name, (column, words)) in enumerate(QUEUE_FIGURES.items()):
        divisor = _divisor(column)
        own = ((labels, figures[place] / divisor) for labels, figures in found if figures[place] is not None)
        text.family(name, words, own)
    return count - len(found)


def _add_collectors(text: Text, now_ms: int) -> None:
    """Add how old the last round is and for how long rounds were missing: can the rest be trusted."""
    ages, gaps, current = [], [], []
    for one in cluster_selectors.live_clusters():
        labels = labels_of(cluster=one.name)
        latest = last_round(one.name)
        if latest is not None:
            ages.append((labels, max(0, now_ms - latest.started_at_ms) / 1_000))
        away_ms = sum(
            min(gap.to_ms or now_ms, now_ms) - max(gap.from_ms, now_ms - LONGEST_MS)
            for gap in _gaps(one.name, now_ms)
        )
        gaps.append((labels, away_ms / 1_000))
        current.append((labels, not _is_stale(one.name, one.poll_interval_s, now_ms)))
    text.family("tidemark_collector_round_age_seconds", "Since the last round began", ages)
    text.family("tidemark_collector_gap_seconds", "Time without rounds in the last three days", gaps)
    text.family(
        "tidemark_collector_current", "1: the figures of the cluster are of now and given here", current
    )
