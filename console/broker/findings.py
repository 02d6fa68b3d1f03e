"""What is wrong with a broker, in words: what, since when, evidence, what next. Pure; worst first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from console.broker.config.keys import config_key
from console.broker.models import NameServerRow
from console.broker.selectors import BrokerView, ConfigTable
from console.broker.survey import disk, runtime
from console.broker.survey.held_back import TIMER_LATE_S
from console.text.figures import count, duration, latency, percent, size

SOON_MS, VERY_SOON_MS = 12 * 3_600_000, 3 * 3_600_000  # a disk that is full within a shift, or within hours
SLOW_PUT_MS = 50  # slowest 1 %; healthy disks need a few
BEHIND_BYTES = 16_000_000  # of the index: stored messages that nobody can read yet
SEVERITY = ("LOST", "STALLED", "STOPPED", "FALLING_BEHIND", "INVALID", "UNKNOWN", "OFFLINE")


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """`status` gives the shape, `since_ms` an age beside the title, `tab` where the page says more."""

    status: str
    title: str
    text: str
    since_ms: int | None = None
    tab: str = ""
    broker_name: str = ""


def findings(view: BrokerView, servers: Sequence[NameServerRow] = ()) -> list[Finding]:
    """Everything that deserves a sentence; [] for a broker that is well."""
    found = [*_silence(view), *_disk(view), *_routes(view, servers)]
    if view.row.answered:
        found += [*_writing(view), *_held_back(view), *_clock(view), *_slaves(view)]
    found = [dataclasses.replace(one, broker_name=view.name) for one in found]
    return sorted(found, key=lambda one: SEVERITY.index(one.status))


def config_findings(table: ConfigTable) -> list[Finding]:
    """Dangerous keys that brokers of one cluster do not agree about."""
    found = []
    for line in table.lines:
        if not line.differs or not config_key(line.key.name).danger or "" in line.values:
            continue  # an empty value is "as always": a broker that is its own name server names none
        values = ", ".join(
            f"{broker.broker_name} {value if value is not None else 'has none'}"
            for broker, value in zip(table.brokers, line.values, strict=True)
        )
        found.append(
            Finding(
                "FALLING_BEHIND",
                f"{line.key.name} is not the same everywhere",
                f"{values}. {line.key.says[:1].upper()}{line.key.says[1:]}.",
                tab="config",
            )
        )
    return found


def _silence(view: BrokerView) -> Iterable[Finding]:
    if not view.row.answered:
        text = f"{view.row.reason or 'It gives no answer'}. Its figures are the last it told."
        yield Finding("UNKNOWN", f"{view.name} does not answer", text, view.row.since_ms)


def _disk(view: BrokerView) -> Iterable[Finding]:
    ratio, config = view.row.disk_ratio, view.config or {}
    if view.filling == disk.Filling.FULL:
        yield Finding(
            "STALLED", "The disk is full: the broker refuses to write", view.full_words, tab="runtime"
        )
    elif view.full_in_ms is not None and view.full_in_ms < SOON_MS:
        status = "STALLED" if view.full_in_ms < VERY_SOON_MS else "FALLING_BEHIND"
        yield Finding(
            status, f"The disk is full in {duration(view.full_in_ms)}", view.full_words, tab="health"
        )
    for key, words in (
        (
            "diskSpaceCleanForciblyRatio",
            "files are deleted although they are not expired: groups that are behind lose them",
        ),
        ("diskMaxUsedSpaceRatio", "expired files are deleted at once"),
    ):
        limit = runtime.number(config.get(key))
        if (
            ratio is not None
            and limit is not None
            and ratio * 100 >= limit
            and view.filling != disk.Filling.FULL
        ):
            title = f"The disk is {percent(ratio)} full, over {key} ({limit:.0f})"
            yield Finding("FALLING_BEHIND", title, f"From there on {words}.", tab="config")
            break


def _routes(view: BrokerView, servers: Sequence[NameServerRow]) -> Iterable[Finding]:
    if view.asked and len(view.drained_at) == len(view.asked):
        text = "Its write permission is wiped at every name server that answers; readers go on."
        yield Finding("OFFLINE", "Drained: no producer is offered it", text, tab="drain")
    elif view.drained_at:
        rest = ", ".join(sorted(set(view.asked) - set(view.drained_at)))
        text = f"{', '.join(view.drained_at)} offer it to nobody, {rest} still do: producers go by whom they ask."
        yield Finding("FALLING_BEHIND", "Drained at some name servers only", text, tab="drain")
    missing = sorted(set(view.asked) - set(view.listed_at))
    if missing and view.listed_at:
        known = ", ".join(view.listed_at)
        text = f"{', '.join(missing)} do not list it, {known} do. Clients of the former never find it."
        yield Finding("FALLING_BEHIND", "Not every name server knows it", text, tab="health")
    elif missing and view.row.answered:
        yield Finding(
            "LOST",
            "No name server lists it",
            "New clients do not find it; those connected go on.",
            tab="health",
        )
    addresses = {
        server.addr: server.brokers[view.name].get(str(view.row.broker_id))
        for server in servers
        if server.answered and view.name in server.brokers
    }
    if len(set(addresses.values())) > 1:
        text = "; ".join(f"{server} says {addr or 'no address'}" for server, addr in addresses.items())
        yield Finding(
            "FALLING_BEHIND", "The name servers give different addresses for it", f"{text}.", tab="health"
        )


def _writing(view: BrokerView) -> Iterable[Finding]:
    table = view.row.runtime
    refusal = table.get("storeRefusal", "")
    if refusal and view.filling != disk.Filling.FULL:
        yield Finding("STALLED", "The broker takes no messages", refusal, tab="runtime")
    word, tone = view.page_cache
    if tone:
        status = "STALLED" if tone == "bad" else "FALLING_BEHIND"
        text = "Writes wait for the memory that files are mapped into; from the limit on sends get SYSTEM_BUSY (2)."
        yield Finding(status, f"The page cache is {word}", text, tab="runtime")
    if view.put_p99_ms is not None and view.put_p99_ms >= SLOW_PUT_MS:
        text = f"The slowest 1 % of the last minute's writes took {latency(view.put_p99_ms)} or more."
        yield Finding("FALLING_BEHIND", "Writes are slow", text, tab="runtime")
    head_ms = runtime.number(table.get("sendThreadPoolQueueHeadWaitTimeMills")) or 0
    limit_ms = runtime.number((view.config or {}).get("waitTimeMillsInSendQueue")) or runtime.SYSTEM_BUSY_MS
    if head_ms >= limit_ms / 2:
        status = "STALLED" if head_ms >= limit_ms else "FALLING_BEHIND"
        text = f"The first has waited {latency(head_ms)}; from {latency(limit_ms)} on the broker refuses (SYSTEM_BUSY)."
        yield Finding(status, "Sends pile up", text, tab="runtime")
    behind = runtime.size_bytes(table.get("dispatchBehindBytes")) or 0
    if behind >= BEHIND_BYTES:
        text = f"{size(behind)} are stored and can not be read yet: the index is behind the log."
        yield Finding("FALLING_BEHIND", "Consumers see messages late", text, tab="runtime")


def _held_back(view: BrokerView) -> Iterable[Finding]:
    """Messages that should be in their topics by now. They are in no lag: nothing else shows them."""
    held = view.held_back
    for one in held.late:
        text = (
            f"{count(one.waiting)} messages wait in it; even the newest was due {duration(one.late_ms or 0)} ago. "
            "Their consumers see nothing, and no lag shows it."
        )
        yield Finding("STALLED", f"Delay level {one.level} is not delivered", text, tab="health")
    if held.timer_late_s is not None and held.timer_late_s >= TIMER_LATE_S:
        text = "Messages for a set time reach their topics so much later than they should; no lag shows it."
        title = f"The timer is {duration(held.timer_late_s * 1000)} late"
        yield Finding("FALLING_BEHIND", title, text, tab="runtime")


def _clock(view: BrokerView) -> Iterable[Finding]:
    """Store times are by its clock. Ages are corrected by the difference; what only the broker judges is not."""
    off_ms = view.row.clock_offset_ms
    if off_ms:
        apart = duration(abs(off_ms))
        title = f"Its clock is {apart} ahead of ours" if off_ms > 0 else f"Its clock is {apart} behind ours"
        text = (
            "Seen by the store times of messages that have just come in; ages shown here are corrected by it. "
            "Retention, delays and timestamps of producers are not: let NTP set the clocks of brokers and of this "
            "machine."
        )
        yield Finding("INVALID", title, text, tab="health")


def _slaves(view: BrokerView) -> Iterable[Finding]:
    replicas: Sequence[Mapping[str, object]] = (
        view.survey.replicas if view.survey is not None else None
    ) or ()
    behind = [one for one in replicas if not one["in_sync"]]
    if behind:
        names = ", ".join(f"{one['addr']} ({size(float(str(one['behind_bytes'])))} behind)" for one in behind)
        yield Finding(
            "FALLING_BEHIND",
            "A slave is behind",
            f"{names}. What it lacks is lost with the master.",
            tab="health",
        )
    connected = {str(one["addr"]).rpartition(":")[0] for one in replicas}
    if view.survey is not None and view.survey.replicas is not None and len(replicas) < len(view.slaves):
        text = f"{len(view.slaves)} registered, {len(connected)} connected to the master."
        yield Finding("FALLING_BEHIND", "A slave is not connected", text, tab="health")
