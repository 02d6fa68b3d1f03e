"""The permission of a dead-letter topic on each broker. Brokers up to 4.9.0 make it write-only (perm 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from console.mqadmin import BlockingMQAdmin, BrokerUnavailable, MQBrokerError
from console.operation.broker_queues import PERM_READ, TOPIC_NOT_EXIST, ask_each, masters
from console.operation.errors import PlanRejected

PERM_MAX = 7  # read 4, write 2, inherit 1


def checked_perms(params: Mapping[str, Any]) -> dict[str, int] | None:
    """The permissions an undo puts back, or None: allow reading. Raises PlanRejected."""
    unknown = sorted(set(params) - {"perms", "group"})
    if unknown:
        raise PlanRejected(f"Allowing to read has no {unknown[0]!r}.", field=unknown[0])
    perms = params.get("perms")
    if perms is None:
        return None
    if not isinstance(perms, Mapping) or not all(
        isinstance(perm, int) and not isinstance(perm, bool) and 0 <= perm <= PERM_MAX
        for perm in perms.values()
    ):
        raise PlanRejected("perms is {broker name: 0 to 7}.", field="perms")
    return dict(perms)


def permissions(admin: BlockingMQAdmin, topic: str, wanted: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """A row per broker that has the topic: {topic, broker_name, before, after, moves}.

    ``wanted``: broker → permission, None: with the permission to read. Raises PlanRejected when no broker has the
    topic, BrokerUnavailable and MQBrokerError when one does not say.
    """
    answers = ask_each(admin, masters(admin), lambda client, addr: client.topic_config(addr, topic))
    rows = []
    for name, config in answers.items():
        if isinstance(config, MQBrokerError) and config.code == TOPIC_NOT_EXIST:
            continue
        if isinstance(config, Exception):
            raise config
        before = int(config.perm)
        after = before | PERM_READ if wanted is None else wanted.get(name, before)
        rows.append(
            {"topic": topic, "broker_name": name, "before": before, "after": after, "moves": before != after}
        )
    if not rows:
        raise PlanRejected(f"No broker has a topic {topic}.", field="group")
    return rows


def set_permission(admin: BlockingMQAdmin, topic: str, broker_name: str, perm: int) -> None:
    """Change the permission and nothing else (17). Raises BrokerUnavailable, MQBrokerError."""
    addr = masters(admin).get(broker_name)
    if addr is None:
        raise BrokerUnavailable("", f"{broker_name} has no master now")
    config = admin.topic_config(addr, topic)
    if int(config.perm) != perm:
        admin.create_topic(addr, dataclasses.replace(config, perm=perm), config.attributes)
