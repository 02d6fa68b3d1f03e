"""Read live who is a member of a group, which queues each holds, and whether it lets the broker assign."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from console.brokers.mqadmin import BlockingMQAdmin, MessageQueue, MQAdmin
from console.brokers.queues import ask_each, require_answer
from console.text import Text

MEMBERS_READ_MAX = 64  # each request is relayed by a broker
MEMBERS_DEADLINE_MS = 8_000


@dataclass(frozen=True, slots=True)
class MemberNow:
    """A member. `queues` None: it did not report. `ignores`: it divides the queues itself."""

    version: int
    queues: frozenset[MessageQueue] | None
    ignores: bool = False


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
    versions: dict[str, int] = {}
    where: dict[str, str] = {}
    model = ""
    for name, answer in answers.items():
        connection = require_answer(name, addrs[name], answer, Text("who its members are"))
        if connection is None:
            continue
        model = connection.message_model or model
        for one in connection.connection_set:
            versions[one.client_id] = one.version
            where.setdefault(one.client_id, addrs[name])
    calls = {
        client_id: partial(_ask_member, addr=where[client_id], group=group, client_id=client_id)
        for client_id in sorted(where)[:MEMBERS_READ_MAX]
    }
    reports = admin.gather(calls, MEMBERS_DEADLINE_MS)
    found = {}
    for client_id, version in sorted(versions.items()):
        report = reports.get(client_id)
        if report is None or isinstance(report, Exception):
            found[client_id] = MemberNow(version, None)
        else:
            found[client_id] = MemberNow(version, report[0], report[1])
    return MembersNow(model, found)


async def _ask_member(
    admin: MQAdmin, *, addr: str, group: str, client_id: str
) -> tuple[frozenset[MessageQueue], bool]:
    info = await admin.consumer_running_info(addr, group, client_id)
    own = info.properties
    ignores = own.get("clientRebalance") == "true" or own.get("PROP_CONSUMEORDERLY") == "true"
    return frozenset(info.mq_table), ignores
