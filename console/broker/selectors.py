"""Brokers and name servers as of the last round and the last survey. Calls no broker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import msgspec
from django.utils.translation import gettext

from console.access.name_scope import EVERYTHING, NameScope
from console.broker.broker_list import BROKERS, OWN_BROKERS
from console.broker.config.keys import ConfigKey, config_key
from console.broker.models import BrokerSurvey, NameServerRow, RouteDifference, Survey
from console.broker.own_share import OwnShare, own_shares
from console.broker.survey import disk, runtime
from console.broker.survey.connections import Producer
from console.broker.survey.held_back import NEVER, NOT_YET, HeldBack, held_back
from console.broker.survey.slaves import Slave, has_controller, serves_reads, slaves
from console.brokers.queues import MASTER_ID
from console.cluster.models import Cluster
from console.lag.models import BrokerRow, ClientRow, TopicRow
from console.lag.rows import queues
from console.lag.rows.topic_rows import minute_rate
from console.lists.page import Page, cut
from console.lists.query import ListQuery
from console.text import Text

TOPICS_SHOWN, CLIENTS_SHOWN = 50, 200  # of one broker's page; the rest is counted


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker for pages: the round's row, the survey's row (null before the first), and its slaves.

    `drained_at` and `asked` are name servers: those that offer the broker to no producer, and those that answered.
    `own` is the part of a reader who may see some names only; null for those who see all of it.
    """

    row: BrokerRow
    survey: BrokerSurvey | None
    registered_slaves: Sequence[BrokerSurvey]
    drained_at: Sequence[str]
    servers_read: Sequence[str]
    listed_at: Sequence[str]
    own: OwnShare | None = None
    # A broker of generated data, which no survey reads.
    is_generated: bool = False

    @property
    def not_surveyed(self) -> Text:
        """Return why what the survey reads is unknown, where the survey has no row."""
        return NEVER if self.is_generated else NOT_YET

    @property
    def name(self) -> str:
        return self.row.broker_name

    @property
    def reason(self) -> Text:
        """Return why figures are unknown; read by cells."""
        return self.row.reason

    @property
    def unknown_since_ms(self) -> int | None:
        return None if self.row.answered else self.row.since_ms

    @property
    def figures(self) -> Mapping[str, str]:
        """Return the runtime table of the last round, or the last one received."""
        if self.row.answered and self.row.runtime:
            return dict(self.row.runtime)
        return dict(self.survey.runtime) if self.survey is not None else {}

    @property
    def disk_sizes(self) -> tuple[str, str] | None:
        """Return (size of the disk, free space), None where the broker does not report them."""
        return disk.capacity_words(self.figures.get("commitLogDirCapacity", ""))

    @property
    def figures_at_ms(self) -> int | None:
        if self.row.answered and self.row.runtime:
            return self.row.read_at_ms
        return self.survey.runtime_at_ms if self.survey is not None else None

    @property
    def last_reported(self) -> dict[str, float | None]:
        """Return the last reported in, out and disk figures, which a silent broker shows with their age."""
        figures = self.figures
        out = figures.get("getTransferredTps") or figures.get("getTransferedTps")
        return {
            "in_rate": minute_rate(figures.get("putTps")),
            "out_rate": minute_rate(out),
            "disk_ratio": runtime.number(figures.get("commitLogDiskRatio")),
        }

    @property
    def offered_at(self) -> list[str]:
        """Return the name servers that offer it to producers."""
        return [addr for addr in self.listed_at if addr not in self.drained_at]

    @property
    def put_p99_ms(self) -> float | None:
        return runtime.put_p99_ms(self.row.runtime)[0] if self.row.answered else None

    @property
    def put_p99_reason(self) -> Text:
        return runtime.put_p99_ms(self.row.runtime)[1] if self.row.answered else self.reason

    @property
    def page_cache(self) -> tuple[Text, str]:
        """Return (word, tone) of the page cache, "" when unknown."""
        busy = runtime.number((self.config or {}).get("osPageCacheBusyTimeOutMills"))
        found = runtime.page_cache_state(self.row.runtime, round(busy) if busy else runtime.CACHE_BUSY_MS)
        return found if self.row.answered else (Text(), "")

    @property
    def held_back(self) -> HeldBack:
        """Return messages that no consumer can see yet: delayed, for a set time, half."""
        return held_back(
            self.survey, self.figures, self.row.clock_offset_ms, without_survey=self.not_surveyed
        )

    @property
    def config(self) -> Mapping[str, str] | None:
        return self.survey.config if self.survey is not None else None

    @property
    def full_in_ms(self) -> int | None:
        return self.survey.full_in_ms if self.survey is not None else None

    @property
    def queues(self) -> int | None:
        """Return the number of queues of all topics, as of the last survey; None before it."""
        return self.survey.queues if self.survey is not None else None

    @property
    def filling(self) -> str:
        return self.survey.filling if self.survey is not None else "UNKNOWN"

    @property
    def full_words(self) -> Text:
        return self.survey.full_words if self.survey is not None else self.not_surveyed

    @property
    def write_bytes_per_h(self) -> float | None:
        """Return how much the commit log grew per hour lately; None where that is unknown."""
        per_s = self.survey.write_bytes_per_s if self.survey is not None else None
        return None if per_s is None else per_s * 3600

    @property
    def kept_hours(self) -> str:
        """Return how long files are kept, "" where the configuration is unknown."""
        return (self.config or {}).get("fileReservedTime", "")

    @property
    def deleted_at(self) -> str:
        """Return the hours at which expired files are deleted, by the broker's clock: "04"."""
        return (self.config or {}).get("deleteWhen", "").replace(";", ", ") or "04"

    @property
    def disk_bytes(self) -> int | None:
        return disk.usable_bytes(self.figures.get("commitLogDirCapacity", ""), self.row.disk_ratio)

    @property
    def disk_per_h(self) -> float | None:
        per_h = self.write_bytes_per_h
        return per_h / self.disk_bytes if per_h is not None and self.disk_bytes else None

    @property
    def disk_limits(self) -> list[disk.DiskLimit]:
        """Return what happens from which share of the disk on, and when, by the writes of the last hour."""
        per_s = self.survey.write_bytes_per_s if self.survey is not None else None
        return disk.limits(self.row.disk_ratio, self.disk_bytes, per_s, self.config)

    @property
    def is_drained(self) -> bool:
        return bool(self.drained_at)

    @property
    def state(self) -> str:
        """Return one word for a file: "silent", "without master", "drained" or "serving"."""
        if not self.row.answered:
            return "silent"
        if not self.has_master:
            return "without master"
        return "drained" if self.is_drained else "serving"

    @property
    def has_master(self) -> bool:
        """Return whether the row is the master's; without one the slave with the lowest id answers in its place."""
        return self.row.broker_id == MASTER_ID

    @property
    def has_controller(self) -> bool:
        return has_controller(self.config)

    @property
    def slaves(self) -> list[Slave]:
        return slaves(self.survey, self.registered_slaves)

    @property
    def serves_reads(self) -> bool | None:
        """Return whether consumers can read from what answers; null where its configuration is unknown."""
        return True if self.has_master else serves_reads(self.config)

    @property
    def role(self) -> Text:
        """Return "master" or "slave 1", with the count of slaves if there are any."""
        if self.row.broker_id:
            return Text("slave %(number)s", number=self.row.broker_id)
        if not self.registered_slaves:
            return Text("master")
        return Text("master, %(number)s slave(s)", number=len(self.registered_slaves))


def broker_views(
    cluster_name: str, scope: NameScope = EVERYTHING, servers: Sequence[NameServerRow] | None = None
) -> list[BrokerView]:
    """Return every broker known to the cluster, silent ones included, by name. Four queries.

    Six queries for a reader of some names only. A cluster has tens of brokers, not thousands: lists sort and cut these
    in memory. ``servers``: `name_servers`, where the caller has read them.
    """
    surveys: dict[str, list[BrokerSurvey]] = defaultdict(list)
    for one in BrokerSurvey.objects.filter(cluster=cluster_name).order_by("broker_id"):
        surveys[one.broker_name].append(one)
    known = name_servers(cluster_name) if servers is None else servers
    servers = [row for row in known if row.answered]
    rows = BrokerRow.objects.filter(cluster=cluster_name).order_by("broker_name", "broker_id")
    is_generated = Cluster.objects.filter(name=cluster_name, generated_to_ms__isnull=False).exists()
    views = [_view(row, surveys[row.broker_name], servers, is_generated=is_generated) for row in rows]
    if scope.is_everything:
        return views
    shares = own_shares(cluster_name, scope)
    return [replace(view, own=shares[view.name]) for view in views]


def has_new(views: Iterable[BrokerView]) -> bool:
    """Return whether a broker answers that has no rates yet: it reports those of its last whole minute."""
    return any(view.row.answered and view.row.in_rate is None for view in views)


def queue_counts(cluster_name: str) -> dict[str, int]:
    """Return how many queues of all topics each broker has."""
    return Counter(name for (name,) in queues.every_topic_queue(cluster_name, "broker_name"))


def _view(
    row: BrokerRow,
    surveys: Sequence[BrokerSurvey],
    servers: Sequence[NameServerRow],
    *,
    is_generated: bool,
) -> BrokerView:
    return BrokerView(
        is_generated=is_generated,
        row=row,
        survey=next((one for one in surveys if one.broker_id == row.broker_id), None),
        registered_slaves=[one for one in surveys if one.broker_id > row.broker_id],
        drained_at=[server.addr for server in servers if row.broker_name in server.unwritable],
        servers_read=[server.addr for server in servers],
        listed_at=[server.addr for server in servers if row.broker_name in server.brokers],
    )


def broker_page(
    cluster_name: str,
    list_query: ListQuery | None = None,
    *,
    scope: NameScope = EVERYTHING,
    servers: Sequence[NameServerRow] | None = None,
) -> Page[BrokerView]:
    """Return one page of brokers. ``servers`` as of `broker_views`.

    `counts_by_status` counts by state those that match the search words, and "all" of them.
    """
    list_query = list_query or ListQuery()
    everything = broker_views(cluster_name, scope, servers)
    query = list_query.query
    matching = [
        view
        for view in everything
        if query.lower() in view.name.lower() or query in view.row.addr or query in view.row.version
    ]
    chosen: dict[str, Callable[[BrokerView], bool]] = {
        "silent": lambda view: not view.row.answered,
        "drained": lambda view: view.is_drained,
    }
    counts = {name: sum(map(test, matching)) for name, test in chosen.items()} | {"all": len(matching)}
    if state := list_query.filters.get("state"):
        matching = [view for view in matching if chosen[state](view)]
    spec = BROKERS if scope.is_everything else OWN_BROKERS
    return cut(
        spec.in_order(matching, list_query.sort, list_query.descending),
        page=list_query.page,
        per_page=list_query.per_page,
        is_whole=list_query.is_whole,
        all_total=len(everything),
        counts_by_status=counts,
    )


def broker(cluster_name: str, name: str, scope: NameScope = EVERYTHING) -> BrokerView | None:
    """Return one broker, or None when neither rounds nor name servers know it."""
    return next((view for view in broker_views(cluster_name, scope) if view.name == name), None)


def last_survey(cluster_name: str) -> Survey | None:
    """Return the state of the last survey, or None before the first."""
    return Survey.objects.filter(cluster=cluster_name, started_at_ms__isnull=False).first()


# ---- configuration ----


class ConfigCell(NamedTuple):
    """A value on one broker, null where it is not known; `meaning` in words, where the value does not say it."""

    value: str | None
    is_odd: bool
    meaning: Text | str


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One key over the brokers.

    `values` are in the order of `ConfigTable.brokers`, null where a broker has no such key or was never read; `usual`
    is the value of most brokers, `odd` the brokers that differ from it.
    """

    key: ConfigKey
    values: Sequence[str | None]
    odd: Sequence[bool]

    @property
    def differs(self) -> bool:
        return any(self.odd)

    @property
    def cells(self) -> list[ConfigCell]:
        return [
            ConfigCell(value, is_odd, self.key.meaning_of(value or ""))
            for value, is_odd in zip(self.values, self.odd, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """Configuration of the `brokers` where it is known; `unread` holds the others with the reason."""

    brokers: Sequence[BrokerSurvey]
    unread: Mapping[str, str]
    lines: Sequence[ConfigLine]
    differing: int
    explained: int
    total: int


OWN_BY_NATURE = frozenset(
    # Keys that always differ between brokers.
    {
        *(
            "brokerName",
            "brokerId",
            "brokerIP1",
            "brokerIP2",
            "listenPort",
            "haListenPort",
            "namesrvListenPort",
        ),
        *("storePathRootDir", "storePathCommitLog", "rocketmqHome", "authConfigPath", "bindAddress"),
    }
)


def config_table(
    cluster_name: str, *, query: str = "", only_differences: bool = False, only_explained: bool = False
) -> ConfigTable:
    """Return the configuration of all masters side by side; `query` matches keys, meanings and values."""
    first: dict[str, BrokerSurvey] = {}
    for one in BrokerSurvey.objects.filter(cluster=cluster_name).order_by("broker_name", "broker_id"):
        first.setdefault(one.broker_name, one)
    known = [one for one in first.values() if one.config is not None]
    lines = [_line(key, known) for key in sorted({key for one in known for key in one.config or ()})]
    shown = [
        line
        for line in lines
        if (not only_differences or line.differs)
        and (not only_explained or line.key.says)
        and _matches(line, query.lower())
    ]
    return ConfigTable(
        brokers=known,
        unread={one.broker_name: one.config_reason for one in first.values() if one.config is None},
        lines=shown,
        differing=sum(line.differs for line in lines),
        explained=sum(bool(line.key.says) for line in lines),
        total=len(lines),
    )


def _matches(line: ConfigLine, wanted: str) -> bool:
    """Whether the key's name, its meaning or one of its values contains the text."""
    texts = (line.key.name, line.key.says, *(value or "" for value in line.values))
    return any(wanted in text.lower() for text in texts)


def _line(key: str, surveys: Sequence[BrokerSurvey]) -> ConfigLine:
    values = [(one.config or {}).get(key) for one in surveys]
    if key in OWN_BY_NATURE or len(set(values)) < 2:
        return ConfigLine(config_key(key), values, [False] * len(values))
    (usual, most), *others = Counter(values).most_common()
    # Without a majority no value is usual: all brokers are highlighted.
    is_clear = not others or most > others[0][1]
    return ConfigLine(config_key(key), values, [not is_clear or value != usual for value in values])


# ---- what is on a broker ----


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """A topic with queues on a broker. ``in_rate`` None: unknown, ``reason`` is why."""

    topic: str
    queues: int
    in_rate: float | None
    messages: int
    last_write_ms: int | None
    kind: str = ""
    reason: str = ""
    # Of the messages of all topics on the broker; None where it stores none, or for a reader of some of them.
    share: float | None = None


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """A group with queues on a broker; sums of these queues."""

    group: str
    queues: int
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None


@dataclass(frozen=True, slots=True)
class BrokerConsumer:
    """A member that reports queues of a broker, and how many."""

    row: ClientRow
    queues: int


def broker_topics(
    cluster_name: str, name: str, scope: NameScope = EVERYTHING
) -> tuple[list[BrokerTopic], int]:
    """Return the topics with queues on the broker, busiest first, and their count. Two queries.

    At most `TOPICS_SHOWN` topics are returned.
    """
    covers = cache(scope.covers)
    fields = ("topic", "in_rate", "min_offset", "max_offset", "last_write_ms")
    rows_of: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    stored = 0
    for topic, *figures in queues.topic_queues_on_broker(cluster_name, name, *fields):
        _, low, high, _ = figures
        stored += high - low
        if covers(topic):
            rows_of[topic].append(tuple(figures))
    sums = [_topic_sums(topic, rows) for topic, rows in rows_of.items()]
    sums.sort(key=lambda one: (one.in_rate is None, -(one.in_rate or 0), -one.messages, one.topic))
    found = sums[:TOPICS_SHOWN]
    kinds = dict(
        TopicRow.objects.filter(cluster=cluster_name, topic__in=[one.topic for one in found]).values_list(
            "topic", "kind"
        )
    )
    why = gettext("the rate of a queue is known after two readings")
    return [
        replace(
            one,
            kind=kinds.get(one.topic, ""),
            reason=why,
            share=one.messages / stored if stored and scope.is_everything else None,
        )
        for one in found
    ], len(sums)


def _topic_sums(topic: str, rows: Sequence[tuple[Any, ...]]) -> BrokerTopic:
    """Sum up (rate, min, max, time of the last write) of a topic's queues."""
    rates = [rate for rate, *_ in rows if rate is not None]
    writes = [write_ms for *_, write_ms in rows if write_ms is not None]
    return BrokerTopic(
        topic=topic,
        queues=len(rows),
        in_rate=sum(rates) if rates else None,
        messages=sum(high - low for _, low, high, _ in rows),
        last_write_ms=max(writes, default=None),
    )


def broker_groups(
    cluster_name: str, name: str, scope: NameScope = EVERYTHING
) -> tuple[list[BrokerGroup], int]:
    """Return the groups with queues on the broker, largest time lag first, and their count. One query."""
    covers = cache(scope.covers)
    sums: dict[str, queues.Behind] = defaultdict(queues.Behind)
    for group, lag, time_lag_ms in queues.on_broker(cluster_name, name, "group", "lag", "time_lag_ms"):
        if covers(group):
            sums[group].add(lag, time_lag_ms)
    found = [
        BrokerGroup(group, one.queues, one.lag, one.lag_lower_bound, one.time_lag_ms)
        for group, one in sorted(sums.items(), key=lambda item: (*queues.worst_first(item[1]), item[0]))
    ]
    return found[:TOPICS_SHOWN], len(found)


def broker_consumers(cluster_name: str, name: str, scope: NameScope = EVERYTHING) -> list[BrokerConsumer]:
    """Return members that report queues of the broker, by group; at most `CLIENTS_SHOWN`. One query."""
    found = []
    rows = scope.filter(ClientRow.objects.filter(cluster=cluster_name, queues__isnull=False), "group")
    for row in rows.order_by("group", "client_id").iterator():
        held = sum(queue["broker_name"] == name for queue in row.queues or ())
        if held:
            found.append(BrokerConsumer(row, held))
        if len(found) == CLIENTS_SHOWN:
            break
    return found


def producers(view: BrokerView, scope: NameScope = EVERYTHING) -> list[Producer] | None:
    """Return connected producers of the scope's groups; None when they were never read or not reported."""
    if view.survey is None or view.survey.producers is None:
        return None
    found = msgspec.convert(view.survey.producers, list[Producer])
    return [one for one in found if scope.covers(one.group)]


# ---- name servers ----


def name_servers(cluster_name: str) -> list[NameServerRow]:
    """Return every name server of the cluster's list as of the last survey."""
    return list(NameServerRow.objects.filter(cluster=cluster_name).order_by("addr"))


def route_differences(
    cluster_name: str,
    *,
    scope: NameScope = EVERYTHING,
    query: str = "",
    page: int = 1,
    per_page: int = 50,
) -> Page[RouteDifference]:
    """Return topics whose routes differ between name servers, oldest difference first. Three queries."""
    rows = scope.filter(RouteDifference.objects.filter(cluster=cluster_name), "topic")
    all_total = rows.count()
    if query:
        rows = rows.filter(topic__icontains=query)
    total = rows.count() if query else all_total
    ordered = rows.order_by("since_ms", "topic")
    return cut(ordered, page=page, per_page=per_page, total=total, all_total=all_total)
