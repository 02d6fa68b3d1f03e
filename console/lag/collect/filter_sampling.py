"""Sample how much of a backlog passes its group's filter, by a few filtered pulls in each part of it.

A lag counts messages that a tag or SQL92 filter will skip. The broker itself filters: pulls of a few entries, spread
over all that waits (`spark.lag.round.filter_ratio.strata`), show how many of them match. Bounded: a few groups a sweep,
each every five minutes, a few hundred entries each; the console never joins the group.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from console.brokers.mqadmin import MQAdmin, retry_topic, with_admin
from console.cluster.models import Cluster
from console.lag.models import BrokerRow, ClientRow, GroupFilterSample
from console.lag.round.view import SampledFilter
from console.lag.rows import queues
from console.text import text_of
from spark.lag.local_time import DAY_MS
from spark.lag.round.filter_ratio import FilterSample, strata

logger = logging.getLogger(__name__)

# A mix of tags drifts slowly, and old messages are cold reads for the broker.
SAMPLE_EVERY_MS = 5 * 60_000
# An older ratio is out of date.
VALID_MS = 30 * 60_000
# As long as a report may be run again.
KEPT_MS = 35 * DAY_MS
GROUPS_PER_RUN = 4
# Those with the most messages.
QUEUES_PER_GROUP = 8
PARTS_PER_QUEUE = 8
ENTRIES_PER_GROUP = 512
# What brokers return at once.
ENTRIES_PER_PULL_MAX = 32
DEADLINE_MS = 4_000
EVERYTHING = ("", "*")


class Filter(NamedTuple):
    """Hold a subscription expression and its type, TAG or SQL92."""

    expression: str
    kind: str


class Pull(NamedTuple):
    """Describe the entries of one pull."""

    addr: str
    topic: str
    queue_id: int
    offset: int
    entries: int
    filter: Filter


def samples(cluster_name: str, now_ms: int) -> dict[str, SampledFilter]:
    """Return the newest sample of each group that is not out of date."""
    rows = GroupFilterSample.objects.filter(cluster=cluster_name, sampled_at_ms__gt=now_ms - VALID_MS)
    return {
        row.group: SampledFilter(FilterSample(row.matching, row.scanned, row.strata), row.sampled_at_ms)
        for row in rows.order_by("sampled_at_ms")
    }


def samples_between(cluster_name: str, from_ms: int, to_ms: int) -> dict[str, list[tuple[int, int, int]]]:
    """Return [(when, matching, scanned)] of each group in [from_ms, to_ms), oldest first."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    rows = GroupFilterSample.objects.filter(
        cluster=cluster_name, sampled_at_ms__gte=from_ms, sampled_at_ms__lt=to_ms
    )
    columns = rows.order_by("sampled_at_ms").values_list("group", "sampled_at_ms", "matching", "scanned")
    for group, at_ms, matching, scanned in columns.iterator():
        found.setdefault(group, []).append((at_ms, matching, scanned))
    return found


def sample_filters(cluster_name: str, *, now_ms: int) -> list[str]:
    """Sample the backlogs of filtering groups that are due; return which groups were sampled."""
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        return []
    filters = _filters(cluster_name)
    known = GroupFilterSample.objects.filter(cluster=cluster_name)
    recent = known.filter(sampled_at_ms__gt=now_ms - VALID_MS).order_by("sampled_at_ms")
    done = dict(recent.values_list("group", "sampled_at_ms"))
    due = sorted(
        (name for name in filters if done.get(name, 0) <= now_ms - SAMPLE_EVERY_MS),
        key=lambda name: (done.get(name, 0), name),
    )
    admin = with_admin(cluster.connection)
    sampled = []
    pulls = {group: _pulls(cluster_name, group, filters[group]) for group in due[:GROUPS_PER_RUN]}
    calls = {(group, pull): partial(_look, pull=pull) for group, own in pulls.items() for pull in own}
    answers = admin.gather(calls, deadline_ms=DEADLINE_MS) if calls else {}
    for group in pulls:
        of_group = [answer for (one, _), answer in answers.items() if one == group]
        found = [one for one in of_group if isinstance(one, FilterSample)]
        failed = [one for one in of_group if isinstance(one, Exception)]
        if failed:
            logger.warning("filter not sampled everywhere group=%s reason=%s", group, text_of(failed[0]))
        if found:
            _save(cluster_name, group, sum(found, FilterSample(0, 0, 0)), now_ms)
            sampled.append(group)
    known.filter(sampled_at_ms__lte=now_ms - KEPT_MS).delete()
    return sampled


def _filters(cluster_name: str) -> dict[str, dict[str, Filter]]:
    """Return {group: {topic: filter}} of groups with a client that filters a topic."""
    found: dict[str, dict[str, Filter]] = {}
    rows = ClientRow.objects.filter(cluster=cluster_name).order_by("group", "client_id")
    for group, subscription in rows.values_list("group", "subscription"):
        topics = {
            topic: Filter(one.get("expression", ""), one.get("type", "") or "TAG")
            for topic, one in subscription.items()
            if topic != retry_topic(group)
        }
        if any(one.expression not in EVERYTHING for one in topics.values()):
            found.setdefault(group, topics)
    return found


def _pulls(cluster_name: str, group: str, filters: Mapping[str, Filter]) -> list[Pull]:
    """Return the pulls for a group: each queue's share of the entries follows its share of the lag."""
    addresses = dict(
        BrokerRow.objects.filter(cluster=cluster_name, answered=True).values_list("broker_name", "addr")
    )
    waiting = [
        row
        for row in queues.of_groups(cluster_name, [group])
        if row.lag and row.topic in filters and row.broker_name in addresses
    ]
    rows = sorted(waiting, key=lambda row: -(row.lag or 0))[:QUEUES_PER_GROUP]
    total = sum(row.lag or 0 for row in rows)
    pulls = []
    for row in rows:
        share = ENTRIES_PER_GROUP * (row.lag or 0) // total
        each = min(ENTRIES_PER_PULL_MAX, max(1, share // PARTS_PER_QUEUE))
        first = max(row.committed_offset or 0, row.min_offset or 0)
        for offset, count in strata(first, row.max_offset or 0, PARTS_PER_QUEUE, each):
            for start in range(offset, offset + count, ENTRIES_PER_PULL_MAX):
                size = min(ENTRIES_PER_PULL_MAX, offset + count - start)
                pulls.append(
                    Pull(addresses[row.broker_name], row.topic, row.queue_id, start, size, filters[row.topic])
                )
    return pulls


async def _look(admin: MQAdmin, *, pull: Pull) -> FilterSample:
    """Return how many of the entries match. The broker skips the others and returns how far it read.

    Raises MQBrokerError where the broker cannot parse the filter: it would let everything through.
    """
    if pull.filter.kind != "TAG":
        await admin.check_filter(pull.addr, pull.topic, pull.filter.expression, pull.filter.kind)
    scanned, matching = 0, 0
    while scanned < pull.entries:
        begin = pull.offset + scanned
        found = await admin.pull(
            pull.addr,
            pull.topic,
            pull.queue_id,
            begin,
            max_num=pull.entries - scanned,
            subscription=pull.filter.expression or "*",
            expression_type=pull.filter.kind,
        )
        until = min(found.next_begin_offset, pull.offset + pull.entries)
        matching += sum(begin <= message.queue_offset < until for message in found.messages)
        if until <= begin:
            # Deleted meanwhile.
            break
        scanned = until - pull.offset
    return FilterSample(matching, scanned)


def _save(cluster_name: str, group: str, sample: FilterSample, now_ms: int) -> None:
    GroupFilterSample.objects.update_or_create(
        cluster=cluster_name,
        group=group,
        sampled_at_ms=now_ms,
        defaults={"matching": sample.matching, "scanned": sample.scanned, "strata": sample.strata},
    )
