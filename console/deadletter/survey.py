"""Survey dead letters in the background: causes of the newest, time of the oldest, retention.

So the list shows why letters died and when they expire without calling a broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
    with_admin,
)
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.deadletter import selectors
from console.deadletter.dead_letters import cause_of, places, read_window, topic_of
from console.deadletter.models import DeadLetterSurvey
from console.deadletter.retention import retention_ms
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.text import Text, text_of

GROUPS_MAX = 20  # per cluster and round: at most 20 × (queues × 5 pulls + 1 configuration) calls a minute
SAMPLED_MAX = 128  # newest letters per queue: four pulls
CAUSES_MAX = 5
LIFE_MS = 3_600_000  # a survey of unchanged letters is repeated after this: the retention may have changed


def survey_cluster(cluster: str, *, now_ms: int) -> int:
    """Survey the groups whose dead letters changed; return how many."""
    candidates = selectors.survey_candidates(cluster, before_ms=now_ms - LIFE_MS, limit=GROUPS_MAX)
    away = _groups_behind_silent_brokers(cluster, [group for group, _, _ in candidates])
    wanted = [one for one in candidates if one[0] not in away]
    if not wanted:
        return 0
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    for group, begin, end in wanted:
        try:
            found = _survey(admin, cluster, group)
        except (BrokerUnavailable, MQBrokerError, RemotingTimeout) as trouble:
            found = {"problem": text_of(trouble)}
        found |= {"begin_offset": begin, "end_offset": end, "read_at_ms": now_ms}
        DeadLetterSurvey.objects.update_or_create(cluster=cluster, group=group, defaults=found)
    return len(wanted)


def _groups_behind_silent_brokers(cluster: str, groups: Sequence[str]) -> set[str]:
    """Return groups with dead letters on a broker that was silent in the last round: reads would time out."""
    silent = {row.broker_name for row in lag_selectors.silent_brokers(cluster)}
    if not silent:
        return set()
    topics = {topic_of(group): group for group in groups}
    rows = TopicRow.objects.filter(cluster=cluster, topic__in=topics)
    return {topics[topic] for topic, names in rows.values_list("topic", "brokers") if silent & set(names)}


def _survey(admin: BlockingMQAdmin, cluster: str, group: str) -> dict[str, object]:
    """Return the fields of the survey. Raises BrokerUnavailable, MQBrokerError, RemotingTimeout."""
    found = places(admin, topic_of(group))
    if found.problem:
        return {"problem": found.problem}
    masks = masks_of(cluster)
    causes: Counter[str] = Counter()
    oldest: list[int] = []
    settled = 0
    for place in found.queues:
        first = read_window(admin, place, place.min_offset, min(place.min_offset + 1, place.max_offset))
        oldest += [each.store_timestamp_ms for each in first if isinstance(each, MessageRecord)]
        low = max(place.min_offset, place.max_offset - SAMPLED_MAX)
        newest = read_window(admin, place, low, place.max_offset)
        causes.update(cause_of(masks.masked(each)) for each in newest if isinstance(each, MessageRecord))
        settled += selectors.settled_letters(cluster, place.queue, place.min_offset, place.max_offset)
    return {
        "sampled": causes.total(),
        "settled": settled,
        "causes": [{"cause": cause, "letters": letters} for cause, letters in causes.most_common(CAUSES_MAX)],
        "oldest_ms": min(oldest, default=None),
        "retention_ms": retention_ms(admin, {place.addr for place in found.queues}),
        "problem": Text(),
    }
