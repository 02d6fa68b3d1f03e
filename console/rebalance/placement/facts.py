"""Read live who is a member of a group, which queues each holds, and whether it lets the broker assign."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from console.brokers.mqadmin import BlockingMQAdmin, MessageQueue, MQAdmin
from console.brokers.queues import ask_each, require_answer
from console.group.mode.facts import lets_broker_assign
from console.text import Text

MEMBERS_AT_ONCE = 64  # each request is relayed by a broker
MEMBERS_DEADLINE_MS = 8_000  # for all of them: a client that hangs delays no plan for longer


@dataclass(frozen=True, slots=True)
class MemberNow:
    """A member. `queues` None: it did not report. `ignores`: it divides the queues itself, null where unknown."""

    version: int
    language: str
    queues: frozenset[MessageQueue] | None = None
    ignores: bool | None = None


@dataclass(frozen=True, slots=True)
class MembersNow:
    """The members of a group, and how they consume ("" without a member)."""

    model: str
    by_id: Mapping[str, MemberNow]

    def owners(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, tuple[str, ...]]:
        """Return the clients that report each queue."""
        return {
            queue: tuple(one for one, member in sorted(self.by_id.items()) if queue in (member.queues or ()))
            for queue in queues
        }


def read_members(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> MembersNow:
    """Read every member (203, then 307 of each). Raises BrokerUnavailable, MQBrokerError."""
    answers = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    found: dict[str, MemberNow] = {}
    where: dict[str, str] = {}
    model = ""
    for name, answer in answers.items():
        connection = require_answer(name, addrs[name], answer, Text("who its clients are"))
        if connection is None:
            continue
        model = connection.message_model or model
        for one in connection.connection_set:
            found[one.client_id] = MemberNow(one.version, one.language)
            where.setdefault(one.client_id, addrs[name])
    ids, until_s = sorted(where), time.monotonic() + MEMBERS_DEADLINE_MS / 1000
    for start in range(0, len(ids), MEMBERS_AT_ONCE):
        calls = {
            client_id: partial(_ask_member, addr=where[client_id], group=group, client_id=client_id)
            for client_id in ids[start : start + MEMBERS_AT_ONCE]
        }
        left_ms = round((until_s - time.monotonic()) * 1000)
        for client_id, report in (admin.gather(calls, left_ms) if left_ms > 0 else {}).items():
            if not isinstance(report, Exception):
                found[client_id] = replace(found[client_id], queues=report[0], ignores=report[1])
    return MembersNow(model, dict(sorted(found.items())))


async def _ask_member(
    admin: MQAdmin, *, addr: str, group: str, client_id: str
) -> tuple[frozenset[MessageQueue], bool]:
    info = await admin.consumer_running_info(addr, group, client_id)
    return frozenset(info.mq_table), not lets_broker_assign(info.properties)
