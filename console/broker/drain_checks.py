"""May a broker be stopped? What has to be over before, each with its figure, its target and why.

From the last round and the last survey; calls no broker. What is not known is UNKNOWN, and no yes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Max

from console.broker.models import BrokerSample, NameServerRow
from console.broker.selectors import BrokerView
from console.broker.survey import disk, runtime
from console.broker.survey.slaves import Slave
from console.lag.models import TopicRow
from console.lag.rows import queues
from console.text import Duration, Text
from console.text.figures import count, rate, size

NAMED_MAX = 5
WRITE_BIT = 2  # of brokerPermission
ZERO = Text.foreign("0")


class CheckState(StrEnum):
    """NONE: there is nothing to check."""

    YES = "YES"
    NOT_YET = "NOT_YET"
    UNKNOWN = "UNKNOWN"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of stopping a broker. ``now`` empty: unknown, ``why`` is the reason."""

    name: Text
    now: Text
    target: Text
    state: CheckState
    why: Text

    @property
    def blocks(self) -> bool:
        return self.state in (CheckState.NOT_YET, CheckState.UNKNOWN)


@dataclass(slots=True)
class Unread:
    """What a group has not read on a broker: of the queues that are known, and how many are not."""

    lag: int = 0
    out_rate: float = 0.0
    unknown: int = 0

    @property
    def needs_ms(self) -> float:
        """Return how long it reads at its present speed once nothing new arrives; infinite where it reads nothing."""
        if not self.lag:
            return 0.0
        return self.lag / self.out_rate * 1000 if self.out_rate else float("inf")


def drain_checks(
    cluster_name: str, view: BrokerView, views: Sequence[BrokerView], servers: Sequence[NameServerRow]
) -> list[Check]:
    """Return the checks in the order in which they come true. Four queries."""
    others = [one for one in views if one.name != view.name]
    loads, stranded = moved_load(cluster_name, view.name, [one.name for one in others if takes_messages(one)])
    peaks = dict(
        BrokerSample.objects.filter(cluster=cluster_name)
        .values_list("broker_name")
        .annotate(peak=Max("in_rate"))
        .order_by()
    )
    return [
        messages_in(view),
        room_elsewhere(view, others, loads, stranded, peaks),
        unread_by_groups(view, unread(cluster_name, view.name)),
        still_delayed(view),
        open_transactions(view),
        copied_to_slave(view, view.slaves),
        gone_from_name_servers(view, servers),
    ]


def takes_messages(view: BrokerView) -> bool:
    """Return whether producers may send to it, and it stores what they send."""
    permission = runtime.number((view.config or {}).get("brokerPermission"))
    may_write = permission is None or int(permission) & WRITE_BIT
    is_full = view.filling == disk.Filling.FULL
    return bool(view.row.answered and view.has_master and not view.is_drained and may_write and not is_full)


def moved_load(cluster_name: str, name: str, others: Sequence[str]) -> tuple[dict[str, float], Sequence[str]]:
    """Return messages per second that each other broker would get, and the topics with traffic that none of them has.

    The traffic of a topic spreads evenly over its other brokers. Retries and dead letters stay where they are.
    """
    rates: dict[str, float] = defaultdict(float)
    for topic, in_rate in queues.topic_queues_on_broker(cluster_name, name, "topic", "in_rate"):
        rates[topic] += in_rate or 0.0
    found = TopicRow.objects.filter(cluster=cluster_name, kind="NORMAL").values_list("topic", "brokers")
    loads: dict[str, float] = defaultdict(float)
    stranded = []
    for topic, brokers in found:
        if not rates.get(topic):
            continue
        targets = [one for one in others if one in brokers]
        for one in targets:
            loads[one] += rates[topic] / len(targets)
        if not targets:
            stranded.append(topic)
    return loads, sorted(stranded)


def unread(cluster_name: str, name: str) -> dict[str, Unread]:
    """Return what each group has not read on a broker; only groups with something unread or unknown."""
    found: dict[str, Unread] = defaultdict(Unread)
    fields = ("group", "lag", "lag_lower_bound", "out_rate", "min_offset", "max_offset")
    for group, lag, is_lower_bound, out_rate, low, high in queues.on_broker(cluster_name, name, *fields):
        one = found[group]
        one.out_rate += out_rate or 0.0
        one.lag += lag or 0
        # An empty queue has nothing to read, wherever the group stands.
        one.unknown += is_lower_bound or (lag is None and (low is None or low != high))
    return {group: one for group, one in found.items() if one.lag or one.unknown}


# ---- the checks ----


def messages_in(view: BrokerView) -> Check:
    """Check that no message arrived in the last minute, by the broker's own rate."""
    name, target = Text("Messages in"), Text("0 for 60 s")
    in_rate = view.row.in_rate if view.row.answered else None
    if in_rate is None:
        why = Text("it has no rate of a minute yet") if view.row.answered else _silence(view)
        return _unknown(name, target, why)
    now = Text("%(rate)s /s", rate=rate(in_rate))
    if not in_rate:
        return Check(name, now, target, CheckState.YES, Text("no message in the last minute"))
    if view.is_drained:
        why = Text("retries of consumers and delayed messages return here; producers follow within 30 s")
    elif view.survey is not None and view.survey.producers is not None:
        why = Text(
            "%(number)s producer(s) {is|are} connected; {it follows|they follow} within 30 s of the drain",
            number=len(view.survey.producers),
        )
    else:
        why = Text("producers follow within 30 s of the drain")
    return Check(name, now, target, CheckState.NOT_YET, why)


def room_elsewhere(
    view: BrokerView,
    others: Sequence[BrokerView],
    loads: Mapping[str, float],
    stranded: Sequence[str],
    peaks: Mapping[str, float | None],
) -> Check:
    """Check that no other broker would get more than the most it has taken while it was measured."""
    name, target = Text("Room on the others"), Text("within their peak")
    taking = [one for one in others if takes_messages(one)]
    if not taking:
        why = Text("no other broker takes messages: what producers send would fail")
        return Check(name, Text("no broker"), target, CheckState.NOT_YET, why)
    most = max(loads.values(), default=0.0)
    now = Text("at most +%(rate)s /s", rate=rate(most)) if most else Text.foreign("+0 /s")
    if stranded:
        topics = Text.of_names(stranded, NAMED_MAX)
        why = Text(
            "no other broker that takes messages has %(topics)s: sends to them would fail", topics=topics
        )
        return Check(name, now, target, CheckState.NOT_YET, why)
    if not view.row.answered:
        return _unknown(name, target, Text("how much would move is unknown: %(why)s", why=_silence(view)))
    lines, is_above = [], False
    for one in taking:
        present, peak = one.row.in_rate, peaks.get(one.name)
        known = [value for value in (present, peak) if value is not None]
        would = (present or 0.0) + loads.get(one.name, 0.0)
        is_above |= not known or would > max(known) or present is None
        lines.append(
            Text(
                "%(broker)s would take %(rate)s /s, measured up to %(peak)s /s",
                broker=one.name,
                rate=rate(would),
                peak=rate(max(known)) if known else "–",
            )
        )
    lines.sort(key=str)
    state = CheckState.UNKNOWN if is_above else CheckState.YES
    return Check(name, now, target, state, Text.of_list(lines[:NAMED_MAX]))


def unread_by_groups(view: BrokerView, found: Mapping[str, Unread]) -> Check:
    """Check that every group has read everything here, retries included."""
    name, target = Text("Unread by groups"), ZERO
    if not view.row.answered:
        return _unknown(name, target, _silence(view))
    lag = sum(one.lag for one in found.values())
    partly = sorted(group for group, one in found.items() if one.unknown)
    now = _figure(lag, "≥ " if partly else "")
    if lag:
        last = max(
            (group for group, one in found.items() if one.lag), key=lambda group: found[group].needs_ms
        )
        needs_ms = found[last].needs_ms
        groups = Text("%(number)s group(s)", number=sum(bool(one.lag) for one in found.values()))
        why = (
            Text("%(groups)s; %(group)s reads nothing here now", groups=groups, group=last)
            if needs_ms == float("inf")
            else Text(
                "%(groups)s; at its speed %(group)s is the last, in %(time)s",
                groups=groups,
                group=last,
                time=Duration(round(needs_ms)),
            )
        )
        return Check(name, now, target, CheckState.NOT_YET, why)
    if partly:
        why = Text("the positions of %(groups)s are not known", groups=Text.of_names(partly, NAMED_MAX))
        return Check(name, now, target, CheckState.UNKNOWN, why)
    return Check(name, now, target, CheckState.YES, Text("no group has anything to read here"))


def still_delayed(view: BrokerView) -> Check:
    """Check that no delayed message waits: it is delivered by this broker only."""
    name, target, held = Text("Delayed, still to come"), ZERO, view.held_back
    if not view.row.answered:
        return _unknown(name, target, _silence(view))
    has_no_wheel = held.timed is None and view.row.version.startswith("V4")  # timers came with 5.0
    timed = 0 if has_no_wheel else held.timed
    waiting = (held.delayed or 0) + (timed or 0)
    is_partial = held.delayed is None or timed is None
    if is_partial and not waiting:
        return _unknown(name, target, held.delayed_reason or held.timed_reason)
    now = _figure(waiting, "≥ " if is_partial else "")
    if not waiting:
        return Check(name, now, target, CheckState.YES, Text("nothing waits for its time"))
    delays = [level.delay_ms for level in held.levels if level.delay_ms is not None]
    parts = []
    if held.levels and len(delays) == len(held.levels):
        parts.append(Text("delivered within %(time)s at the latest", time=Duration(max(delays))))
    if timed:
        parts.append(Text("%(number)s {waits|wait} for a set time", number=timed))
    return Check(name, now, target, CheckState.NOT_YET, Text.of_list(parts))


def open_transactions(view: BrokerView) -> Check:
    """Check that no half message waits for its producer; the broker reports an upper bound."""
    name, target, held = Text("Open transactions"), ZERO, view.held_back
    if not view.row.answered or held.half is None:
        return _unknown(name, target, _silence(view) if not view.row.answered else held.half_reason)
    if not held.half:
        return Check(name, ZERO, target, CheckState.YES, Text("no half message waits"))
    pause_ms = runtime.number((view.config or {}).get("transactionCheckInterval"))
    checks = runtime.number((view.config or {}).get("transactionCheckMax"))
    why = Text("an upper bound until the broker checks again")
    if pause_ms is not None and checks is not None:
        why = Text(
            "an upper bound; producers are asked every %(time)s, at most %(number)s times",
            time=Duration(round(pause_ms)),
            number=round(checks),
        )
    return Check(name, _figure(held.half, "≤ "), target, CheckState.NOT_YET, why)


def copied_to_slave(view: BrokerView, slaves: Sequence[Slave]) -> Check:
    """Check that one slave has the whole log; without slaves nothing is read while the broker is stopped."""
    name, target = Text("Slave has everything"), Text("0 B behind")
    if view.survey is None:
        return _unknown(name, target, view.not_surveyed)
    if not slaves:
        why = Text("nothing stored here can be read while it is stopped")
        return Check(name, Text("no slave"), target, CheckState.NONE, why)
    known = [one for one in slaves if one.behind_bytes is not None]
    if not known:
        return _unknown(name, target, slaves[0].why_unknown)
    best = min(known, key=lambda one: one.behind_bytes or 0)
    behind = best.behind_bytes or 0
    text = best.words or best.why_unknown
    why = Text("%(slave)s: %(what)s, as of the survey", slave=best.addr, what=text)
    state = CheckState.YES if best.is_in_sync and not behind else CheckState.NOT_YET
    return Check(name, Text("%(size)s behind", size=size(behind)), target, state, why)


def gone_from_name_servers(view: BrokerView, servers: Sequence[NameServerRow]) -> Check:
    """Check that no name server offers it to producers; one that is silent may still do."""
    name = Text("Gone from the name servers")
    target = Text("%(number)s of %(total)s", number=len(servers), total=len(servers))
    if not servers:
        return _unknown(name, target, view.not_surveyed)
    silent = [server.addr for server in servers if not server.answered]
    offered = view.offered_at
    gone = len(servers) - len(silent) - len(offered)
    now = Text("%(number)s of %(total)s", number=gone, total=len(servers))
    if offered:
        why = Text("still offered by %(names)s", names=Text.of_names(offered))
        return Check(name, now, target, CheckState.NOT_YET, why)
    if silent:
        why = Text("no answer from %(names)s", names=Text.of_names(silent))
        return Check(name, now, target, CheckState.UNKNOWN, why)
    return Check(name, now, target, CheckState.YES, Text("no name server offers it to producers"))


def _unknown(name: Text, target: Text, why: Text) -> Check:
    return Check(name, Text(), target, CheckState.UNKNOWN, why or Text("the broker does not report it"))


def _figure(number: int, bound: str) -> Text:
    return Text.foreign(bound + count(number))


def _silence(view: BrokerView) -> Text:
    return view.reason or Text("it does not answer")
