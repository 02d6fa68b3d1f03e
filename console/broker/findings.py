"""Problems of a broker: what, since when, evidence, next step. Pure; worst first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import msgspec

from console.broker.config.keys import config_key
from console.broker.models import NameServerRow
from console.broker.selectors import BrokerView, ConfigTable
from console.broker.survey import disk, runtime
from console.broker.survey.connections import Replica
from console.broker.survey.held_back import TIMER_LATE_S
from console.text import Duration, Latency, Names, Text
from console.text.figures import percent, size

SOON_MS, VERY_SOON_MS = (
    12 * 3_600_000,
    3 * 3_600_000,
)  # a disk that will be full within a shift, or within hours
SLOW_PUT_MS = 50  # slowest 1 %; healthy disks need a few
BEHIND_BYTES = 16_000_000  # of the index: stored messages that cannot be read yet
SEVERITY = ("LOST", "STALLED", "STOPPED", "FALLING_BEHIND", "INVALID", "UNKNOWN", "OFFLINE")


BUTTONS = {"config": Text("Config"), "drain": Text("Drain")}


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One problem, of a group, a broker or the cluster; `status` selects its icon, `tab` the tab with details."""

    status: str
    title: Text
    text: Text
    since_ms: int | None = None
    tab: str = ""
    broker_name: str = ""
    group: str = ""

    @property
    def button(self) -> Text:
        """Return the words of the link to the tab."""
        return BUTTONS.get(self.tab, Text("Figures"))


def findings(view: BrokerView, servers: Sequence[NameServerRow] = ()) -> list[Finding]:
    """Return all problems of a broker; [] for a healthy one."""
    found = [*_silence(view), *_disk(view), *_routes(view, servers)]
    if view.row.answered:
        found += _without_master(view)
        found += [*_writing(view), *_held_back(view), *_clock(view), *_slaves(view)]
    found = [dataclasses.replace(one, broker_name=view.name) for one in found]
    return sorted(found, key=lambda one: SEVERITY.index(one.status))


def config_findings(table: ConfigTable) -> list[Finding]:
    """Return dangerous keys whose values differ between brokers of one cluster."""
    found = []
    for line in table.lines:
        if not line.differs or not config_key(line.key.name).danger or "" in line.values:
            continue  # an empty value is the default: a broker that is its own name server names none
        values = [
            Text("%(broker)s has none", broker=broker.broker_name)
            if value is None
            else Text("%(broker)s has %(value)s", broker=broker.broker_name, value=value)
            for broker, value in zip(table.brokers, line.values, strict=True)
        ]
        title = Text("%(name)s differs between brokers", name=line.key.name)
        text = Text("Meaning: %(what)s. %(values)s.", what=line.key.says, values=Text.of_list(values))
        found.append(Finding("FALLING_BEHIND", title, text, tab="config"))
    return found


def _silence(view: BrokerView) -> Iterable[Finding]:
    if not view.row.answered:
        reason = view.row.reason or Text("It does not answer")
        text = Text("Reason: %(reason)s. The figures are the last ones it reported.", reason=reason)
        title = Text("%(name)s: no answer", name=view.name)
        yield Finding("UNKNOWN", title, text, view.row.since_ms)


def _without_master(view: BrokerView) -> Iterable[Finding]:
    """Report a slave that answers in the place of its master: what that is worth, and what it cannot do."""
    if view.has_master:
        return
    texts = [
        Text(
            "No name server lists it. Its slave %(number)s at %(addr)s is read in its place: lag and offsets are as "
            "of the slave and may be some seconds behind. It takes no messages, and no change reaches it.",
            number=view.row.broker_id,
            addr=view.row.addr,
        )
    ]
    if view.serves_reads:
        texts.append(Text("Consumers read from it."))
    elif view.serves_reads is False:
        texts.append(Text("Consumers read nothing: slaveReadEnable is false there."))
    texts.append(Text("Start the master again."))
    title = Text("%(name)s has no master", name=view.name)
    yield Finding("STALLED", title, Text.of_parts(texts), view.row.since_ms)


def _disk(view: BrokerView) -> Iterable[Finding]:
    ratio, config = view.row.disk_ratio, view.config or {}
    if view.filling == disk.Filling.FULL:
        title = Text("The disk is full: the broker refuses to write")
        yield Finding("STALLED", title, view.full_words, tab="runtime")
    elif view.full_in_ms is not None and view.full_in_ms < SOON_MS:
        status = "STALLED" if view.full_in_ms < VERY_SOON_MS else "FALLING_BEHIND"
        title = Text("The disk is full in %(time)s", time=Duration(view.full_in_ms))
        yield Finding(status, title, view.full_words, tab="health")
    for key, words in (
        (
            "diskSpaceCleanForciblyRatio",
            Text("files are deleted even if they have not expired: groups that are behind lose messages"),
        ),
        ("diskMaxUsedSpaceRatio", Text("expired files are deleted immediately")),
    ):
        limit = runtime.number(config.get(key))
        if (
            ratio is not None
            and limit is not None
            and ratio * 100 >= limit
            and view.filling != disk.Filling.FULL
        ):
            title = Text(
                "The disk is %(share)s full, over %(key)s (%(limit)s)",
                share=percent(ratio),
                key=key,
                limit=f"{limit:.0f}",
            )
            text = Text("Above this limit %(what)s.", what=words)
            yield Finding("FALLING_BEHIND", title, text, tab="config")
            break


def _routes(view: BrokerView, servers: Sequence[NameServerRow]) -> Iterable[Finding]:
    if view.servers_read and len(view.drained_at) == len(view.servers_read):
        text = Text("Its write permission is removed on every name server that answers; consumers continue.")
        yield Finding("OFFLINE", Text("Drained: not offered to producers"), text, tab="drain")
    elif view.drained_at:
        text = Text(
            "%(names)s no longer offer it to producers, %(rest)s still do: whether a producer uses it "
            "depends on the name server that answers.",
            names=Names(view.drained_at),
            rest=Names(sorted(set(view.servers_read) - set(view.drained_at))),
        )
        yield Finding("FALLING_BEHIND", Text("Drained at some name servers only"), text, tab="drain")
    missing = sorted(set(view.servers_read) - set(view.listed_at))
    if missing and view.listed_at:
        text = Text(
            "%(names)s do not list it, %(known)s do. Clients that use only the former cannot find it.",
            names=Names(missing),
            known=Names(view.listed_at),
        )
        yield Finding("FALLING_BEHIND", Text("Not every name server lists it"), text, tab="health")
    elif missing and view.row.answered:
        text = Text("New clients cannot find it; connected clients continue.")
        yield Finding("LOST", Text("No name server lists it"), text, tab="health")
    addresses = {
        server.addr: server.brokers[view.name].get(str(view.row.broker_id))
        for server in servers
        if server.answered and view.name in server.brokers
    }
    if len(set(addresses.values())) > 1:
        texts = [
            Text("%(server)s returns %(address)s", server=server, address=addr)
            if addr
            else Text("%(server)s returns no address", server=server)
            for server, addr in addresses.items()
        ]
        title = Text("The name servers return different addresses for it")
        yield Finding("FALLING_BEHIND", title, Text.of_parts(texts), tab="health")


def _writing(view: BrokerView) -> Iterable[Finding]:
    table = view.row.runtime
    refusal = table.get("storeRefusal", "")
    # Of a slave it is the rule, and `_without_master` reports it.
    if refusal and view.has_master and view.filling != disk.Filling.FULL:
        text = Text.foreign(refusal)
        yield Finding("STALLED", Text("The broker does not accept messages"), text, tab="runtime")
    word, tone = view.page_cache
    if tone:
        status = "STALLED" if tone == "bad" else "FALLING_BEHIND"
        text = Text(
            "Writes wait for memory-mapped files; above the limit sends are refused with SYSTEM_BUSY (2)."
        )
        yield Finding(status, Text("The page cache is %(word)s", word=word), text, tab="runtime")
    if view.put_p99_ms is not None and view.put_p99_ms >= SLOW_PUT_MS:
        text = Text(
            "The slowest 1 %% of the last minute's writes took %(time)s or more.",
            time=Latency(round(view.put_p99_ms)),
        )
        yield Finding("FALLING_BEHIND", Text("Writes are slow"), text, tab="runtime")
    head_ms = runtime.number(table.get("sendThreadPoolQueueHeadWaitTimeMills")) or 0
    limit_ms = runtime.number((view.config or {}).get("waitTimeMillsInSendQueue")) or runtime.SYSTEM_BUSY_MS
    if head_ms >= limit_ms / 2:
        status = "STALLED" if head_ms >= limit_ms else "FALLING_BEHIND"
        text = Text(
            "The first has waited %(time)s; after %(limit)s the broker refuses them (SYSTEM_BUSY).",
            time=Latency(round(head_ms)),
            limit=Latency(round(limit_ms)),
        )
        yield Finding(status, Text("Send requests pile up"), text, tab="runtime")
    behind = runtime.size_bytes(table.get("dispatchBehindBytes")) or 0
    if behind >= BEHIND_BYTES:
        text = Text(
            "%(size)s are stored but cannot be read yet: the index is behind the log.", size=size(behind)
        )
        yield Finding("FALLING_BEHIND", Text("Consumers receive messages late"), text, tab="runtime")


def _held_back(view: BrokerView) -> Iterable[Finding]:
    """Report messages that should be in their topics by now; no lag includes them."""
    held = view.held_back
    for one in held.late:
        text = Text(
            "%(number)s messages wait in it; even the newest was due %(time)s ago. Consumers do not "
            "receive them, and lag does not include them.",
            number=one.waiting,
            time=Duration(one.late_ms or 0),
        )
        title = Text("Delay level %(level)s is not delivered", level=one.level)
        yield Finding("STALLED", title, text, tab="health")
    if held.timer_late_s is not None and held.timer_late_s >= TIMER_LATE_S:
        text = Text("Timed messages reach their topics this much too late; lag does not include the delay.")
        title = Text("The timer is %(time)s late", time=Duration(round(held.timer_late_s * 1000)))
        yield Finding("FALLING_BEHIND", title, text, tab="runtime")


def _clock(view: BrokerView) -> Iterable[Finding]:
    """Report a wrong clock, by store times. Shown ages are corrected; the broker's own are not."""
    off_ms = view.row.clock_offset_ms
    if off_ms:
        apart = Duration(abs(off_ms))
        ahead = Text("Its clock is %(time)s ahead of this machine", time=apart)
        title = ahead if off_ms > 0 else Text("Its clock is %(time)s behind this machine", time=apart)
        text = Text(
            "Measured by the store times of new messages. Ages on this page are corrected; retention, "
            "delays and timestamps of producers are not. Synchronize the clocks of the brokers and of "
            "this machine (NTP)."
        )
        yield Finding("INVALID", title, text, tab="health")


def _slaves(view: BrokerView) -> Iterable[Finding]:
    kept = view.survey.replicas if view.survey is not None else None
    replicas = msgspec.convert(kept or (), list[Replica])
    behind = [replica for replica in replicas if not replica.in_sync]
    if behind:
        names = [
            Text("%(addr)s (%(size)s behind)", addr=replica.addr, size=size(replica.behind_bytes))
            for replica in behind
        ]
        text = Text(
            "%(names)s. If the master fails, messages that the slave does not have yet are lost.",
            names=Text.of_list(names),
        )
        yield Finding("FALLING_BEHIND", Text("A slave is behind"), text, tab="health")
    if kept is not None and len(replicas) < len(view.registered_slaves):
        text = Text(
            "%(registered)s registered, %(connected)s connected to the master.",
            registered=len(view.registered_slaves),
            connected=len(replicas),
        )
        yield Finding("FALLING_BEHIND", Text("A slave is not connected"), text, tab="health")
