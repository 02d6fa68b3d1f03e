"""Run the rounds of one cluster in one process: the state between rounds and the steps of a round.

All state can be rebuilt from the log, the chunks and the metrics database: after an error the collector is dropped and
the next round makes a new one. One thread at a time uses it, under the cluster's lease.
"""

import logging
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from django.db import transaction

from console.brokers.mqadmin import BlockingMQAdmin, GroupRefusals
from console.lag.collect import reset
from console.lag.collect.presence import Presence
from console.lag.database_router import METRICS
from console.lag.episodes import Episodes
from console.lag.history import archive, chronicle
from console.lag.history.log import HistoryLog, Kind, State, location_of
from console.lag.models import BrokerRow, GroupRow, HistoryFile, Round, TopicRow
from console.lag.promise_courses import PromiseCourses
from console.lag.round import broker_reads
from console.lag.round.broker_reads import BrokerAddress, BrokerAnswers, Lookup, Question, TopicFacts
from console.lag.round.figures import BrokerFigures, BrokerKey, GroupFigures, TopicFigures
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.offset_kind import LIGHT, LMQ_PREFIX
from console.lag.round.series import (
    QueueKey,
    RoundSeries,
    TopicQueueKey,
    clock_offset_ms,
    columns_of,
    commit_key,
    learn_store_times,
    newest_writes_ms,
    series_of,
    snapshot_of,
)
from console.lag.round.view import DROP_BROKER_AFTER_MS, Members, RoundView, SampledFilter, Silence
from console.lag.rows import group_rows, queue_rows, topic_rows
from console.lag.rows.judged_round import judged_round
from console.lag.rows.queue_row import QueueRow
from console.lag.rows.queue_rows import QueueTable
from console.lag.rows.row_store import READ_AT, Changes, RowStore
from console.lag.rows.sheets import QUEUES, TOPIC_QUEUES, SheetStore
from console.lag.rows.topic_rows import TopicQueueTable
from console.text import Text, text_of
from spark.lag.history import chunk
from spark.lag.history.files import StorageError
from spark.lag.local_time import HOUR_MS
from spark.lag.round.status import WINDOW_MS, LagStatus
from spark.lag.round.window import LagWindow
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, Snapshot

logger = logging.getLogger(__name__)

# A silent broker costs a round this much, less than the default interval of 5 s.
DEADLINE_MS = 4_000
# Rounds between reads of topic and group tables: half a minute at 5 s.
TABLES_EVERY = 6
# An hour at 5 s, for the collector's own page.
ROUNDS_KEPT = 720
# Read at a start from chunks (2 s for an hour of history at the reference size), and from the log: what the window
# needs and a segment.
SEEDED_MS = 6 * HOUR_MS
LOGGED_MS = 15 * 60_000
# Per queue, while its oldest unread message predates the history.
LOOKUP_EVERY_MS = 60_000
# Of the window's columns; those of removed groups and topics stay until then.
DEAD_SHARE_MAX = 0.5
# A smaller step back is bridged by rounds a millisecond apart.
CLOCK_BACK_MS = 60_000
# Groups that are neither watched nor in breach take turns, one part a round, in having their pulled offsets read.
PULLED_PARTS = 20
# Pulled offsets of so few groups cost a broker nothing: they are read in every round.
SMALL_CLUSTER_GROUPS = 16
# A lag that is known in full is known as of this round: no news, as when it was read.
GROUP_AGES = (READ_AT, "known_at_ms")
IN_BREACH = {LagStatus.STALLED, LagStatus.STOPPED, LagStatus.FALLING_BEHIND, LagStatus.REWOUND}


@dataclass(frozen=True, slots=True, eq=False)
class QueueChanges:
    """Hold the queues of the round before and of this one; rows are made only of those published."""

    before: KeyedColumns[QueueKey]
    after: KeyedColumns[QueueKey]

    def news_of(self, groups: Set[str], anew: Set[str]) -> dict[QueueKey, QueueRow | None]:
        """Return changed rows of `groups`, every row of those in `anew`, and None for removed rows."""
        if not groups:
            return {}
        wanted = [at for at, key in enumerate(self.after.keys) if key.group in groups]
        places = np.array(wanted, dtype=np.int64)
        is_anew = np.array([self.after.keys[at].group in anew for at in wanted], dtype=np.bool_)
        changed = self.after.changed(self.before, places[~is_anew], but=READ_AT)
        gone = self.before.keys_without(self.after.keys)
        return {
            **self.after.rows(QueueRow, np.concatenate([places[is_anew], changed])),
            **{key: None for key in gone if key.group in groups},
        }


@dataclass(frozen=True, slots=True)
class RoundChanges:
    """Hold what one round changed, for the live pages."""

    round: Round
    groups: Changes[str, GroupFigures]
    queues: QueueChanges
    topics: Changes[str, TopicFigures]
    brokers: Changes[BrokerKey, BrokerFigures]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Hold a round's input from outside: members, owners, watched groups, filters and moves."""

    members: Mapping[str, Members] = field(default_factory=dict)
    owners: Mapping[QueueKey, str] = field(default_factory=dict)
    watched: Sequence[str] = ()
    filters: Mapping[str, SampledFilter] = field(default_factory=dict)
    moves: Mapping[QueueKey, reset.Move] = field(default_factory=dict)


class Judged(NamedTuple):
    """Hold what the answers of a round mean: rows of queues, and the round as history keeps it."""

    view: RoundView
    queues: QueueTable
    topic_queues: TopicQueueTable
    snapshot: Snapshot


class ClockWentBack(Exception):
    """Report a clock far behind the last round: later rounds are set aside, the next one begins anew."""


class Collector:
    """Collect one cluster: `open` after making it, then `run_round` again and again."""

    def __init__(self, cluster: str, interval_ms: int) -> None:
        self.cluster = cluster
        self.interval_ms = interval_ms
        self.lock = threading.Lock()
        self.window = LagWindow(interval_ms)
        self.log = HistoryLog(cluster)
        self.groups = RowStore(GroupRow, GroupFigures, cluster, ("group",), str, GROUP_AGES)
        self.queues = SheetStore(QUEUES, cluster)
        self.topics = RowStore(TopicRow, TopicFigures, cluster, ("topic",), str)
        self.topic_queues = SheetStore(TOPIC_QUEUES, cluster)
        self.brokers = RowStore(BrokerRow, BrokerFigures, cluster, BrokerKey._fields, BrokerKey)
        self.topic_tables: dict[str, Mapping[str, TopicFacts]] = {}
        self.kept_ms: dict[str, int] = {}
        self.group_tables: dict[str, frozenset[str]] = {}
        self.refusals: dict[str, GroupRefusals] = {}
        self.offset_kinds: dict[str, str] = {}
        self.clock_offsets_ms: dict[str, int] = {}
        self.registered: list[BrokerAddress] = []
        self.lookups: list[Lookup] = []
        self.looked_up_ms: dict[tuple[str, TopicQueueKey], int] = {}
        self.presence = Presence()
        self.gaps = chronicle.Gaps(cluster, interval_ms)
        self.episodes = Episodes(cluster, interval_ms)
        self.promises = PromiseCourses(cluster, interval_ms)
        # Brokers that were silent in the last round, and why.
        self.silent: dict[str, Text] = {}
        # Groups whose pages got the last round.
        self.published_groups: frozenset[str] = frozenset()

    def open(self, now_ms: int) -> None:
        """Load the rows of the last round, max offsets of the last hours, and recent rounds of the log."""
        for store in (self.groups, self.queues, self.topics, self.topic_queues, self.brokers):
            store.load()
        self.gaps.load()
        self.episodes.load()
        self.promises.load()
        self.catch_up(min(self._seed(now_ms), now_ms - LOGGED_MS))

    def _seed(self, now_ms: int) -> int:
        """Load max offsets from chunks, hour by hour; return until when they are known."""
        chunks = HistoryFile.objects.filter(
            cluster=self.cluster,
            kind__in=[Kind.CHUNK_HOUR, Kind.CHUNK_DAY],
            state=State.LIVE,
            ts_hi_ms__gt=now_ms - SEEDED_MS,
        )
        lag, time_lag = (self.queues.rows.columns.get(name, ()) for name in ("lag", "time_lag_ms"))
        late = {
            (key.topic, key.broker_name, key.queue_id)
            for key, waiting, age_ms in zip(self.queues.rows.keys, lag, time_lag, strict=True)
            if waiting > 0 and age_ms > WINDOW_MS
        }
        until_ms = now_ms - now_ms % HOUR_MS - HOUR_MS
        try:
            for row in chunks.order_by("ts_lo_ms"):
                if not row.may_hold("") or archive.quarantine_if_damaged(row, now_ms):
                    continue
                first_ms = max(row.ts_lo_ms, now_ms - SEEDED_MS)
                for hour_ms in range(first_ms - first_ms % HOUR_MS, row.ts_hi_ms, HOUR_MS):
                    of_ms = max(hour_ms, first_ms), min(hour_ms + HOUR_MS, row.ts_hi_ms)
                    self.window.seed(chunk.load_samples([location_of(row)], *of_ms, group=""), late)
                until_ms = max(until_ms, row.ts_hi_ms)
        except StorageError as error:
            # Rounds go on without them: what is older than the log has a bound instead of an age.
            logger.warning("history not taken over cluster=%s reason=%s", self.cluster, error)
        return until_ms

    def catch_up(self, since_ms: int = 0) -> None:
        """Load the rounds that another process of this cluster ran meanwhile."""
        snapshots = self.log.catch_up(since_ms)
        for snapshot in snapshots:
            if snapshot.ts_ms >= since_ms:
                self.window.append(snapshot.read_part())
            # Long ago: it determines the newest incarnation of each queue.
            else:
                self.window.seed(from_snapshots([snapshot]).select(lambda key: not key.group))
        if snapshots and since_ms == 0:
            self.episodes.load()
            self.promises.load()
            for store in (self.groups, self.queues, self.topics, self.topic_queues, self.brokers):
                store.load()
        self.promises.catch_up(snapshots)

    @property
    def is_expired(self) -> bool:
        """Return whether a new collector would free much memory; checked once an hour."""
        return self.window.number % ROUNDS_KEPT == 0 and self.window.dead_share() > DEAD_SHARE_MAX

    def run_round(
        self,
        admin: BlockingMQAdmin,
        number: int,
        knowledge: Knowledge,
        *,
        tables: bool,
        now_ms: int,
        system_ms: int,
    ) -> RoundChanges:
        """Read brokers, judge, write history, save rows.

        `now_ms` is when the round began, `system_ms` the same moment by the system's clock, as answers have it.
        """
        started = time.monotonic()
        last_ms = self.window.ts_ms
        if now_ms < last_ms - CLOCK_BACK_MS:
            archive.set_aside_future(self.cluster, now_ms)
            raise ClockWentBack(f"the clock went back by {(last_ms - now_ms) // 1000} s")
        # A clock that was set back a little must not disorder the log.
        now_ms = max(now_ms, last_ms + 1)
        addresses, namesrv_error, namesrv_rpcs = self._addresses(admin, number, now_ms)
        question = Question(
            number=number,
            tables=tables or number % TABLES_EVERY == 0,
            known_topics=self.topic_tables,
            pulled_groups=self._pulled_groups(knowledge),
            lookups=self.lookups,
            silent=self._to_ask_briefly(number),
        )
        answers = broker_reads.read_brokers(admin, addresses, question, deadline_ms=DEADLINE_MS)
        waited_ms = (
            min((one.read_max_ms for one in answers if one.read_max_ms), default=system_ms) - system_ms
        )
        # The process stood still, or loaded history, before it asked: all ages would be wrong by that time.
        if waited_ms > self.interval_ms // 2:
            now_ms += waited_ms
        judged = self.judge(
            answers,
            knowledge,
            lambda series: self.presence.deserted(
                admin, answers, series, self.queues.rows, knowledge.members, now_ms
            ),
            before=self.log.last,
            number=number,
            now_ms=now_ms,
        )
        view, queues, topic_queues, snapshot = judged
        unwritten = self._write(snapshot)
        # A round that is not in history is not counted anywhere.
        if not unwritten:
            self.promises.note(snapshot)
        round_row = Round(
            cluster=self.cluster,
            number=number,
            started_at_ms=now_ms,
            rpcs=namesrv_rpcs + sum(answer.rpcs for answer in answers),
            brokers_answered=sum(answer.answered for answer in answers),
            brokers_total=len(answers),
            series=len(snapshot.head_keys) + len(snapshot.commit_keys),
            error=Text.of_parts([one for one in (namesrv_error, unwritten) if one]),
        )
        self.gaps.away(last_ms, now_ms)
        self.gaps.unwritten(unwritten, last_ms, now_ms)
        self.gaps.silent(view.silences, self._last_read_ms(), now_ms)
        return self._save(view, queues, topic_queues, round_row, started)

    def judge(
        self,
        answers: Sequence[BrokerAnswers],
        knowledge: Knowledge,
        deserted: Callable[[RoundSeries], frozenset[str]],
        *,
        before: Snapshot,
        number: int,
        now_ms: int,
    ) -> Judged:
        """Add answers to the window and return what they mean; `before` is the last round in history.

        `deserted` finds the groups without members whose offsets rise.
        """
        series = series_of(answers, self.window)
        self._remember(answers, series)
        switched = self._switched(answers, series)
        read = snapshot_of(answers, series, ts_ms=now_ms, number=number, switched=switched)
        self.window.append(read)
        learn_store_times(self.window, series, answers, self.clock_offsets_ms)
        view = self._view(answers, series, knowledge, deserted(series), switched, now_ms)
        queues, topic_queues = queue_rows.queue_table(view), topic_rows.topic_queue_table(view)
        return Judged(view, queues, topic_queues, judged_round(read, view, queues, topic_queues, before))

    def _write(self, snapshot: Snapshot) -> Text:
        """Append a round to the log; return why that failed, else empty. Live rows need no free disk.

        After a failed write the log is read again: whatever is on disk of the round is cut off.
        """
        try:
            self.log.append(snapshot)
        except OSError as error:
            logger.exception("round not written cluster=%s round=%d", self.cluster, snapshot.number)
            self.log = HistoryLog(self.cluster)
            self.log.catch_up(snapshot.ts_ms)
            return Text("history not written: %(why)s", why=str(error.strerror or error))
        return Text()

    def _last_read_ms(self) -> dict[str, int]:
        return {key.broker_name: row.read_at_ms for key, row in self.brokers.rows.items()}

    def _save(
        self,
        view: RoundView,
        table: QueueTable,
        topic_table: TopicQueueTable,
        round_row: Round,
        started: float,
    ) -> RoundChanges:
        topics = topic_rows.topic_rows(view, topic_table, table)
        groups = group_rows.group_rows(view, table, topics)
        brokers = self.broker_rows(view)
        self._record(view, table)
        chronicle.record_restarts(self.cluster, self.brokers.rows, brokers, view.now_ms)
        self.episodes.note(groups, view.now_ms)
        self.lookups = self.wanted_lookups(view, table)
        with transaction.atomic(using=METRICS):
            changes = RoundChanges(
                round=round_row,
                groups=self.groups.replace(groups),
                queues=QueueChanges(view.previous_queues, table),
                topics=self.topics.replace(topics),
                brokers=self.brokers.replace(brokers),
            )
            self.queues.replace(table)
            self.topic_queues.replace(topic_table)
            self.promises.save()
            round_row.duration_ms = round((time.monotonic() - started) * 1000)
            Round.objects.filter(cluster=self.cluster, number__gte=round_row.number).delete()
            round_row.save()
            Round.objects.filter(cluster=self.cluster, number__lte=round_row.number - ROUNDS_KEPT).delete()
        return changes

    def _record(self, view: RoundView, table: QueueTable) -> None:
        """Record events of the queues that may have one."""
        after = table.rows(QueueRow, np.flatnonzero(table.remarkable))
        was = self.queues.rows.places_of([*after])
        chronicle.record(view, self.queues.rows.rows(QueueRow, was[was >= 0]), after)

    def _addresses(
        self, admin: BlockingMQAdmin, number: int, now_ms: int
    ) -> tuple[list[BrokerAddress], Text, int]:
        """Return the brokers to read: those the name servers list, and recorded ones that they do not."""
        error, rpcs = Text(), 0
        if not self.registered or number % TABLES_EVERY == 0 or self._is_any_master_away():
            try:
                self.registered, rpcs = broker_reads.find_brokers(admin)
            except broker_reads.READ_ERRORS as failure:
                why = text_of(failure)
                error, rpcs = Text("no name server answers: %(reason)s", reason=why), 1
        listed = {address.broker_name for address in self.registered}
        addresses = list(self.registered)
        for key, row in self.brokers.rows.items():
            is_dropped = not row.answered and now_ms - row.since_ms > DROP_BROKER_AFTER_MS and not error
            if key.broker_name not in listed and not is_dropped:
                addresses.append(BrokerAddress(*key, row.addr))
                listed.add(key.broker_name)
        return addresses, error, rpcs

    def _remember(self, answers: Sequence[BrokerAnswers], series: RoundSeries) -> None:
        """Keep what is not read in every round: tables of topics and groups, and clock offsets."""
        ahead_ms, last_read_ms = newest_writes_ms(series), self._last_read_ms()
        self.silent = {one.address.broker_name: one.error for one in answers if not one.answered}
        for answer in answers:
            name = answer.address.broker_name
            if answer.topics is not None:
                self.topic_tables[name] = answer.topics
            if answer.kept_ms is not None:
                self.kept_ms[name] = answer.kept_ms
            if answer.groups is not None:
                self.group_tables[name] = answer.groups
            if answer.refusals is not None:
                self.refusals[name] = answer.refusals
            # Otherwise its clock offset is unchanged.
            if name in ahead_ms:
                # More than an interval after a gap between rounds, and when the broker was silent.
                last_ms = last_read_ms.get(name, answer.read_max_ms)
                since_ms = max(self.interval_ms, answer.read_max_ms - last_ms)
                self.clock_offsets_ms[name] = clock_offset_ms(ahead_ms[name], since_ms=since_ms)

        light = {topic for answer in answers for topic in answer.stats if topic.startswith(LMQ_PREFIX)}
        # No table of topics has them.
        self.offset_kinds |= dict.fromkeys(light, LIGHT)
        if any(answer.topics is not None for answer in answers):
            self.offset_kinds = {
                topic: kind for topic, kind in self.offset_kinds.items() if kind == LIGHT
            } | {
                topic: one.offset_kind
                for table in self.topic_tables.values()
                for topic, one in table.items()
                if one.offset_kind
            }

    def _switched(self, answers: Sequence[BrokerAnswers], series: RoundSeries) -> BoolArray | np.bool_:
        """Return which queues of groups were read from another machine than before, or from a slave that is behind.

        A slave in its master's place, or the master again: each has offsets of its own, some seconds older or newer,
        and a slave takes those of its master over when that is back.
        """
        known = {key.broker_name for key in self.brokers.rows}
        read = {key for key, row in self.brokers.rows.items() if row.read_at_ms}
        keys = [BrokerKey(*answer.address[:2]) for answer in answers if answer.answered]
        other = {key.broker_name for key in keys if key.broker_name in known and key not in read}
        slaves = {key.broker_name for key in keys if key.broker_id}
        if not other | slaves:
            return np.False_
        groups = series.groups
        found = np.array([key.broker_name in other for key in groups.keys], dtype=np.bool_)
        of_slaves = np.array([key.broker_name in slaves for key in groups.keys], dtype=np.bool_)
        at = np.flatnonzero(of_slaves & (groups.committed != UNKNOWN_OFFSET))
        found[at] |= self.window.is_below_known(
            [commit_key(series, one) for one in at.tolist()], groups.committed[at]
        )
        return found

    def _view(
        self,
        answers: Sequence[BrokerAnswers],
        series: RoundSeries,
        knowledge: Knowledge,
        without_members: frozenset[str],
        switched: BoolArray | np.bool_,
        now_ms: int,
    ) -> RoundView:
        silences = self._silences(answers, now_ms)
        # Rows of a broker that answered once stay until it does again: a broker with rows is not blind.
        reported = {key.broker_name for key in self.topic_queues.rows.keys} | self.topic_tables.keys()
        found = reset.set_here(knowledge.moves, series, self.queues.rows)
        return RoundView(
            cluster=self.cluster,
            now_ms=now_ms,
            window=self.window,
            answers=answers,
            series=series,
            columns=columns_of(self.window, series, self.kept_ms),
            silences=silences,
            blind=frozenset(silences.keys() - reported),
            topics=self.topic_tables,
            groups=self.group_tables,
            refusals=self.refusals,
            members=self.presence.corrected(knowledge.members),
            owners=knowledge.owners,
            filters=knowledge.filters,
            set_here=found.marks,
            moved_here=found.moved,
            switched=switched,
            without_members=without_members,
            offset_kinds=self.offset_kinds,
            own_topics=own_topics([answer.address for answer in answers]),
            previous_queues=self.queues.rows,
            previous_groups=self.groups.rows,
            previous_topics=self.topics.rows,
            previous_topic_queues=self.topic_queues.rows,
        )

    def _is_any_master_away(self) -> bool:
        return any(key.broker_id or not row.answered for key, row in self.brokers.rows.items())

    def _to_ask_briefly(self, number: int) -> Mapping[str, Text]:
        """Return the brokers that were silent in the round before, and why; none in every sixth round."""
        return {} if number % TABLES_EVERY == 0 else self.silent

    def _silences(self, answers: Sequence[BrokerAnswers], now_ms: int) -> dict[str, Silence]:
        """Return the brokers that did not answer, since when (from the row of the round before) and why."""
        since_ms = {
            key.broker_name: row.since_ms for key, row in self.brokers.rows.items() if not row.answered
        }
        return {
            answer.address.broker_name: Silence(
                since_ms.get(answer.address.broker_name, now_ms), answer.error or broker_reads.NO_ANSWER
            )
            for answer in answers
            if not answer.answered
        }

    def broker_rows(self, view: RoundView) -> dict[BrokerKey, BrokerFigures]:
        registered = {address.broker_name for address in self.registered}
        rows = {}
        for answer in view.answers:
            key = BrokerKey(answer.address.broker_name, answer.address.broker_id)
            rows[key] = topic_rows.broker_row(
                answer,
                self.brokers.rows.get(key),
                view.now_ms,
                clock_offset_ms=self.clock_offsets_ms.get(key.broker_name),
                is_listed=key.broker_name in registered,
            )
        return rows

    def _pulled_groups(self, knowledge: Knowledge) -> list[str]:
        """Return the groups whose pulled offsets to read.

        Watched groups, then those in breach, most urgent first, then a twentieth of the rest in turn; in a small
        cluster all.
        """
        own = [name for name, row in self.groups.rows.items() if row.topics and not row.is_system]
        if 0 < len(own) <= SMALL_CLUSTER_GROUPS:
            return sorted(own)
        urgent = sorted(
            (row for row in self.groups.rows.values() if row.status in IN_BREACH),
            key=lambda row: (-row.attention, -(row.time_lag_ms or 0)),
        )
        turn = self.window.number % PULLED_PARTS
        rest = [name for name in own if zlib.crc32(name.encode()) % PULLED_PARTS == turn]
        return list(dict.fromkeys([*knowledge.watched, *(row.group for row in urgent), *sorted(rest)]))

    def group_counts(self) -> dict[str, int]:
        """Return how many groups have each status, `PARTIAL` and `ALL`, without RocketMQ's own."""
        rows = [row for row in self.groups.rows.values() if not row.is_system]
        counts = Counter(row.status for row in rows)
        return {**counts, "PARTIAL": sum(row.partial for row in rows), "ALL": len(rows)}

    def wanted_lookups(self, view: RoundView, table: QueueTable) -> list[Lookup]:
        """Return messages that predate the history: the next round reads their store times.

        First the oldest unread ones, for time lags; of a group that reads on, the message it will have reached when
        the next lookup is allowed: the others are at least as old. Then the oldest stored ones, for how long topics
        reach back.
        """
        due_ms = view.now_ms - LOOKUP_EVERY_MS
        topics = view.series.topics
        time_lag, committed = table.columns["time_lag_ms"], table.columns["committed_offset"]
        late = np.flatnonzero((table.columns["lag"] > 0) & table.columns["time_lag_lower_bound"])
        late = late[np.argsort(-time_lag[late], kind="stable")]
        ahead = np.nan_to_num(table.columns["out_rate"][late]) * LOOKUP_EVERY_MS / 1000
        requested = np.maximum(committed, table.columns["min_offset"])[late] + ahead.astype(np.int64)
        requested = np.minimum(requested, table.columns["max_offset"][late] - 1)
        places = table.place[late].tolist()
        unread = (("unread", *one) for one in zip(places, requested.tolist(), strict=True))
        oldest = (
            ("oldest", at, int(topics.min_offset[at]))
            for at in np.flatnonzero(view.columns.oldest.is_wanted).tolist()
        )
        wanted: list[Lookup] = []
        for purpose, place, offset in chain(unread, oldest):
            if len(wanted) == broker_reads.LOOKUPS_MAX:
                break
            key = topics.keys[place]
            if self.looked_up_ms.get((purpose, key), 0) <= due_ms:
                self.looked_up_ms[purpose, key] = view.now_ms
                wanted.append(Lookup(key.broker_name, key.topic, key.queue_id, offset))
        return wanted


def own_topics(addresses: Sequence[BrokerAddress]) -> frozenset[str]:
    """Return the topics that every broker makes: its name, its cluster's name, and the reply topic."""
    names = {address.broker_name for address in addresses}
    for address in addresses:
        if address.cluster_name:
            names |= {address.cluster_name, f"{address.cluster_name}_REPLY_TOPIC"}
    return frozenset(names)
