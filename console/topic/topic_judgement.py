"""What a change of a topic means for its users: warnings and reasons to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import BlockingMQAdmin
from console.operation.config.quarantine import Quarantine
from console.operation.config.row import Config, ConfigRow
from console.operation.plan.kinds import PlanWarning
from console.text import Duration, Names, Text
from console.topic.topic_config import PERMISSIONS, READ, WRITE
from console.topic.topic_facts import TopicFacts


def own_names(admin: BlockingMQAdmin) -> list[str]:
    """Return names of brokers and clusters: each is a topic of RocketMQ's own."""
    info = admin.cluster_info()
    return [*info.broker_addr_table, *info.cluster_addr_table]


def losing(rows: Sequence[ConfigRow]) -> int:
    """Return the permission bits (4 read, 2 write) that are removed on some broker."""
    lost = 0
    for row in rows:
        if row.before and row.after:
            lost |= row.before["perm"] & ~row.after["perm"] & (READ | WRITE)
    return lost


def config_warnings(after: Config) -> list[PlanWarning]:
    """Warn of unusual settings, independent of use."""
    found = []
    if after["writeQueueNums"] > after["readQueueNums"]:
        found.append(
            PlanWarning(
                "danger",
                Text(
                    "%(number)s queue(s) {is|are} written and never read",
                    number=after["writeQueueNums"] - after["readQueueNums"],
                ),
                Text(
                    "There are more write queues than read queues: consumers never receive the messages "
                    "of the others."
                ),
            )
        )
    if after["perm"] & (READ | WRITE) != READ | WRITE:
        found.append(
            PlanWarning(
                "info",
                Text("Permission: %(names)s", names=PERMISSIONS[after["perm"] & (READ | WRITE)]),
                Text("All other requests get NO_PERMISSION."),
            )
        )
    return found


def change_warnings(
    rows: Sequence[ConfigRow], facts: TopicFacts, unread: Mapping[str, int], keep: Mapping[str, int]
) -> list[PlanWarning]:
    """Warn of messages out of reach, removed permissions, and order."""
    warnings = []
    if unread:
        of_groups = Names(f"{group or '–'} {count:,}" for group, count in unread.items())
        warnings.append(
            PlanWarning(
                "danger",
                Text("The removed queues hold unread messages"),
                Text(
                    "Unread on %(brokers)s: %(groups)s. Reduce the write queues first, wait until these "
                    "messages are read, then reduce the read queues.",
                    brokers=Text.of_names(sorted(keep)),
                    groups=of_groups,
                ),
            )
        )
    elif keep:
        warnings.append(PlanWarning("ok", Text("The removed queues hold no unread messages")))
    afters = [row.after for row in rows if row.after]
    for after in afters[:1]:
        warnings += config_warnings(after)
    lost = losing(rows)
    if lost & READ and facts.members:
        warnings.append(
            PlanWarning(
                "danger",
                Text("%(number)s consumer(s) {is|are} online", number=facts.members),
                Text("They can no longer read: NO_PERMISSION (16)."),
            )
        )
    if lost & WRITE and facts.producers:
        warnings.append(
            PlanWarning(
                "warn",
                Text("%(number)s producer(s) {is|are} connected to these brokers", number=facts.producers),
                Text("Producers learn it from the route within 30 s; their sends then fail."),
            )
        )
    if any(one.key == "order" for row in rows for one in row.changes):
        warnings.append(
            PlanWarning(
                "info", Text("order only tells clients how to choose a queue; brokers do not enforce it")
            )
        )
    return warnings


def use_warnings(facts: TopicFacts) -> list[PlanWarning]:
    """Warn who uses the topic that is about to be taken away."""
    warnings = []
    online = [reader for reader in facts.readers if reader.members]
    if online:
        names = Names(reader.group for reader in online[:5])
        warnings.append(
            PlanWarning(
                "danger",
                Text("%(number)s consumer(s) {is|are} online", number=facts.members),
                Text("Reading it now: %(names)s.", names=names),
            )
        )
    if written_lately(facts):
        assert facts.last_write_ms is not None
        ago = Duration(max(0, facts.read_at_ms - facts.last_write_ms))
        warnings.append(
            PlanWarning(
                "danger",
                Text("A message was written to it %(age)s ago", age=ago),
                Text("A producer still uses it."),
            )
        )
    if facts.backlog:
        warnings.append(
            PlanWarning(
                "warn",
                Text("%(number)s unread message(s)", number=facts.backlog),
                Text("Sum over all groups that read it."),
            )
        )
    if not warnings:
        warnings.append(
            PlanWarning(
                "ok",
                Text("No client uses it now"),
                Text("No consumer is online, and nothing was written in the last ten minutes."),
            )
        )
    return warnings


LATELY_MS = 600_000  # a topic that was written within ten minutes is in use


def written_lately(facts: TopicFacts) -> bool:
    """Return whether a producer used the topic in the last ten minutes."""
    return facts.last_write_ms is not None and facts.read_at_ms - facts.last_write_ms < LATELY_MS


def delete_warnings(facts: TopicFacts, quarantine: Quarantine | None) -> list[PlanWarning]:
    """Warn what happened in quarantine, and what may recreate the topic."""
    warnings = []
    if quarantine is not None and quarantine.written is not None and facts.written > quarantine.written:
        more = facts.written - quarantine.written
        still = quarantine.has_traffic(facts.last_write_ms)
        warnings.append(
            PlanWarning(
                "danger" if still else "info",
                Text("%(number)s message(s) {was|were} written in quarantine", number=more),
                Text(
                    "Clients check the write permission themselves: a producer has not refreshed its "
                    "route yet."
                )
                if still
                else Text("All arrived in the first minute, while clients refreshed their routes."),
            )
        )
    if facts.auto_create:
        warnings.append(
            PlanWarning(
                "warn",
                Text("%(where)s would create it again", where=Text.of_names(facts.auto_create)),
                Text(
                    "autoCreateTopicEnable is true: the next message to this name creates it with default "
                    "settings."
                ),
            )
        )
    warnings.append(
        PlanWarning("warn", Text("Messages cannot be restored"), Text("Undo creates the topic again, empty."))
    )
    return warnings
