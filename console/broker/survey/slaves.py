"""The slaves of a broker as of the last survey: role, address, how far behind, and whether they serve reads. Pure.

Name servers list a slave by the address it listens on; its master reports it (907) by the address of its replication
connection. Both are of one slave where each is the only one of its host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from console.broker.models import BrokerSurvey
from console.broker.survey import runtime
from console.broker.survey.connections import Replica
from console.text import Text

LOG_END = "commitLogMaxOffset"
# brokerd has this key, and serves pulls as a slave whatever slaveReadEnable is.
ONLY_BROKERD = "namesrvListenPort"


class Link(StrEnum):
    """How a slave stands to its master; UNKNOWN: the master did not report its slaves."""

    IN_SYNC = "IN_SYNC"
    BEHIND = "BEHIND"
    APART = "APART"
    SILENT = "SILENT"
    UNKNOWN = "UNKNOWN"


WORDS = {
    Link.IN_SYNC: Text("in sync"),
    Link.BEHIND: Text("behind"),
    Link.APART: Text("not connected to its master"),
}


@dataclass(frozen=True, slots=True)
class Slave:
    """A slave that name servers list.

    `behind_bytes`: by its master, else by the ends of both logs at the survey. `serves_reads`: whether consumers can
    read from it while its master is gone. Null is unknown, `reason` is why.
    """

    broker_id: int
    addr: str
    version: str
    link: Link
    behind_bytes: int | None
    bytes_per_s: int | None
    serves_reads: bool | None
    reason: Text
    # Of a broker that a controller manages.
    epoch: int | None = None

    @property
    def is_in_sync(self) -> bool:
        return self.link is Link.IN_SYNC

    @property
    def words(self) -> Text:
        """Return how it stands to its master; empty where that is unknown."""
        return WORDS.get(self.link, Text())

    @property
    def why_unknown(self) -> Text:
        return self.reason or Text("several slaves on one host: the master does not tell them apart")


def slaves(master: BrokerSurvey | None, registered: Sequence[BrokerSurvey]) -> list[Slave]:
    """Return the slaves of one broker, by id; `master` is what answers for it, null before its first survey."""
    kept = None if master is None else master.replicas
    connections = None if kept is None else msgspec.convert(kept, list[Replica])
    hosts = [host_of(one.addr) for one in registered]
    found = []
    for one, host in zip(registered, hosts, strict=True):
        of_host = [each for each in connections or () if host_of(each.addr) == host]
        is_alone = hosts.count(host) == 1 and len(of_host) == 1
        found.append(_slave(master, one, connections is None, of_host, is_alone=is_alone))
    return found


def host_of(addr: str) -> str:
    """Return the host of an address; Java writes that of a connection with a slash before it."""
    return addr.rpartition(":")[0].removeprefix("/")


def serves_reads(config: Mapping[str, str] | None) -> bool | None:
    """Return whether a slave with this configuration serves pulls; null where it is unknown."""
    if config is None:
        return None
    return ONLY_BROKERD in config or config.get("slaveReadEnable") == "true"


def has_controller(config: Mapping[str, str] | None) -> bool:
    """Return whether a controller chooses who of its replicas is master."""
    return (config or {}).get("enableControllerMode") == "true"


def _slave(
    master: BrokerSurvey | None,
    one: BrokerSurvey,
    is_unreported: bool,
    of_host: Sequence[Replica],
    *,
    is_alone: bool,
) -> Slave:
    reason = one.runtime_reason or one.config_reason
    own_behind = None if one.runtime_reason else _behind_bytes(master, one)
    connection = of_host[0] if is_alone else None
    if one.runtime_reason:
        link = Link.SILENT
    elif is_unreported:
        link, reason = Link.UNKNOWN, reason or (master.replicas_reason if master is not None else Text())
    elif not of_host:
        link = Link.APART
    elif connection is None:
        link = Link.IN_SYNC if all(each.in_sync for each in of_host) else Link.UNKNOWN
    else:
        link = Link.IN_SYNC if connection.in_sync else Link.BEHIND
    return Slave(
        broker_id=one.broker_id,
        addr=one.addr,
        version=one.runtime.get("brokerVersionDesc", ""),
        link=link,
        behind_bytes=own_behind if connection is None else connection.behind_bytes,
        bytes_per_s=None if connection is None else connection.bytes_per_s,
        serves_reads=serves_reads(one.config),
        reason=reason,
        epoch=one.epoch,
    )


def _behind_bytes(master: BrokerSurvey | None, one: BrokerSurvey) -> int | None:
    end = runtime.size_bytes(one.runtime.get(LOG_END))
    its_end = (
        None if master is None or master.runtime_reason else runtime.size_bytes(master.runtime.get(LOG_END))
    )
    return None if end is None or its_end is None else max(0, its_end - end)
