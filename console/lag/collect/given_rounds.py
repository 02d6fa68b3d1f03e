"""Judge rounds whose answers are given, such as generated ones, and keep them as the collector keeps those it reads.

The same code judges: `Collector.judge`, rows of groups, events, episodes and courses of promises. Only where the result
goes differs: whole hours become history files at once, and rows are written for the last round alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from django.db import transaction

from console.lag.collect.collector import Collector, Judged, Knowledge
from console.lag.database_router import METRICS
from console.lag.episodes import Episodes
from console.lag.history import archive, chronicle
from console.lag.history.member_changes import MemberChange
from console.lag.models import BrokerRow, GroupMembers, GroupRow, Round, TopicRow
from console.lag.promise_courses import PromiseCourses
from console.lag.round.broker_reads import BrokerAnswers, Lookup
from console.lag.round.figures import BrokerFigures, BrokerKey, GroupFigures, TopicFigures
from console.lag.round.view import Members
from console.lag.rows import group_rows, topic_rows
from console.lag.rows.queue_row import QueueRow
from console.lag.rows.row_store import RowStore
from console.lag.rows.sheets import QUEUES, TOPIC_QUEUES, SheetStore
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GivenRound:
    """What every broker answered at `at_ms`, given the lookups of the round before, and each group's members."""

    at_ms: int
    answers: Callable[[Sequence[Lookup]], Sequence[BrokerAnswers]]
    members: Mapping[str, Members] = field(default_factory=dict)


class GivenRounds:
    """Judge the rounds of one cluster one after the other; `keep` all of them, then `finish`."""

    def __init__(self, cluster: str, interval_ms: int) -> None:
        self.cluster, self.interval_ms = cluster, interval_ms
        self._collector = Collector(cluster, interval_ms)
        # A week of rounds passes in seconds: queries in each would take longer than judging it.
        self._collector.episodes = Episodes(
            cluster, interval_ms, written_every_ms=HOUR_MS, promises_every_ms=HOUR_MS
        )
        self._collector.promises = PromiseCourses(cluster, interval_ms, promises_every_ms=HOUR_MS)
        self._number = 0
        self._before = Snapshot(-1, -1)
        self._last: Judged | None = None
        self._members: dict[str, GroupMembers] = {}

    def keep(self, rounds: Iterable[GivenRound], *, now_ms: int) -> Iterable[int]:
        """Judge the rounds and write the history file of each hour; yield the hour when it is listed."""
        for hour_ms, own in groupby(rounds, key=lambda one: one.at_ms - one.at_ms % HOUR_MS):
            previous = self._before if self._before.number >= 0 else None
            snapshots = [self._judged(one) for one in own]
            archive.keep_hour(
                self.cluster,
                hour_ms,
                snapshots,
                interval_ms=self.interval_ms,
                previous=previous,
                now_ms=now_ms,
            )
            yield hour_ms

    def _judged(self, given: GivenRound) -> Snapshot:
        collector, now_ms = self._collector, given.at_ms
        last_ms = collector.window.ts_ms
        self._number += 1
        answers = given.answers(collector.lookups)
        collector.registered = [answer.address for answer in answers]
        self._record_members(given)
        judged = collector.judge(
            answers,
            Knowledge(members=given.members),
            lambda series: frozenset(),
            before=self._before,
            number=self._number,
            now_ms=now_ms,
        )
        collector.promises.note(judged.snapshot)
        collector.gaps.away(last_ms, now_ms)
        read_ms = {key.broker_name: row.read_at_ms for key, row in collector.brokers.rows.items()}
        collector.gaps.silent(judged.view.silences, read_ms, now_ms)
        self._note_rows(judged)
        collector.lookups = collector.wanted_lookups(judged.view, judged.queues)
        self._before, self._last = judged.snapshot, judged
        return judged.snapshot

    def _note_rows(self, judged: Judged) -> None:
        """Make the rows of the round: events and episodes come of them, and the next round compares with them."""
        collector, view = self._collector, judged.view
        after = judged.queues.rows(QueueRow, np.flatnonzero(judged.queues.remarkable))
        was = collector.queues.rows.places_of([*after])
        chronicle.record(view, collector.queues.rows.rows(QueueRow, was[was >= 0]), after)
        topics = topic_rows.topic_rows(view, judged.topic_queues, judged.queues)
        groups = group_rows.group_rows(view, judged.queues, topics)
        collector.episodes.note(groups, view.now_ms)
        collector.groups.rows, collector.topics.rows = groups, topics
        collector.brokers.rows = collector.broker_rows(view)
        collector.queues.rows, collector.topic_queues.rows = judged.queues, judged.topic_queues

    def _record_members(self, given: GivenRound) -> None:
        """Record which groups have more or fewer members than in the round before."""
        changed = {
            group: GroupMembers(
                cluster=self.cluster,
                group=group,
                clients=one.clients,
                model=one.model,
                consume_mode=one.consume_mode,
                topics=list(one.topics),
                offline_since_ms=one.offline_since_ms,
                read_at_ms=given.at_ms,
            )
            for group, one in given.members.items()
            if group not in self._members or self._members[group].clients != one.clients
        }
        if changed:
            same = dict.fromkeys(changed, MemberChange())
            chronicle.record_members(self.cluster, self._members, list(changed.values()), same)
            self._members |= changed

    def finish(self) -> None:
        """Write the rows of the last round, which pages show with its age."""
        collector, last = self._collector, self._last
        if last is None:
            return
        cluster, now_ms = self.cluster, last.view.now_ms
        with transaction.atomic(using=METRICS):
            RowStore(GroupRow, GroupFigures, cluster, ("group",), str).replace(collector.groups.rows)
            RowStore(TopicRow, TopicFigures, cluster, ("topic",), str).replace(collector.topics.rows)
            brokers = RowStore(BrokerRow, BrokerFigures, cluster, BrokerKey._fields, BrokerKey)
            brokers.replace(collector.brokers.rows)
            SheetStore(QUEUES, cluster).replace(last.queues)
            SheetStore(TOPIC_QUEUES, cluster).replace(last.topic_queues)
            collector.promises.save()
            for row in self._members.values():
                row.read_at_ms = now_ms
            GroupMembers.objects.bulk_create(self._members.values())
            Round.objects.create(
                cluster=cluster,
                number=self._number,
                started_at_ms=now_ms,
                duration_ms=0,
                brokers_answered=sum(answer.answered for answer in last.view.answers),
                brokers_total=len(last.view.answers),
                series=len(last.snapshot.head_keys) + len(last.snapshot.commit_keys),
            )
