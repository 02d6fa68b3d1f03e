"""What is wrong with who reads what in a group, each problem with the clients that cause it. Pure; worst first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from console.brokers.mqadmin import MessageQueue
from console.rebalance.observed.overlaps import Overlap
from console.rebalance.observed.ownership import Expected, Member, Owned, State, held, missing_in_lists
from console.rebalance.rules import queue_of
from console.text import Duration, Names, Text

FLAPS_MIN = 3  # returns within `FLAP_WINDOW_MS`: a deployment restarts each client once
FLAP_WINDOW_MS = 30 * 60_000
NAMED_MAX = 3  # queues or clients that are named; the others are counted
STALLED = "STALLED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. `status` selects the icon; `clients` cause it, or may: () where none is known."""

    kind: str
    status: str
    title: Text
    text: Text
    clients: tuple[str, ...] = ()
    queues: tuple[MessageQueue, ...] = ()
    since_ms: int | None = None


class QueueFigures(msgspec.Struct, frozen=True):
    """Lag in messages and its growth a second, null where unknown; `status` is a LagStatus.

    `owned_until_ms`: when its last single owner left it, of a queue that has none or several; null: never seen.
    """

    lag: int | None = None
    growth: float | None = None
    status: str = ""
    since_ms: int | None = None
    owned_until_ms: int | None = None


NO_FIGURES = QueueFigures()


@dataclass(frozen=True, slots=True)
class Subject:
    """One topic of a group at one moment: what findings are made of."""

    topic: str
    owned: Sequence[Owned]
    members: Sequence[Member]
    expected: Expected | None
    figures: Mapping[MessageQueue, QueueFigures]
    now_ms: int
    overlaps: Sequence[Overlap] = ()

    @property
    def queues(self) -> list[MessageQueue]:
        return [one.queue for one in self.owned]

    def in_state(self, state: State) -> list[Owned]:
        return [one for one in self.owned if one.state is state]


def topic_findings(subject: Subject) -> list[Finding]:
    """Return what is wrong with the queues of one topic."""
    return [
        *_no_owner(subject),
        *_two_owners(subject),
        *_handled_twice(subject),
        *_stuck(subject),
        *_wrong_list(subject),
    ]


def away_findings(topic: str, pins: Mapping[str, str], members: Collection[str]) -> list[Finding]:
    """Return the clients that are away and have pinned queues. `pins`: "broker-a/3" → client id."""
    away: dict[str, list[MessageQueue]] = defaultdict(list)
    for word, client_id in sorted(pins.items()):
        if client_id not in members:
            away[client_id].append(queue_of(topic, word))
    return [
        Finding(
            "PINNED_CLIENT_AWAY",
            "FALLING_BEHIND",
            Text("%(client)s is offline and has pinned queues", client=client_id),
            Text("Other clients read %(queues)s until it reconnects.", queues=_names(queues)),
            (client_id,),
            tuple(queues),
        )
        for client_id, queues in away.items()
    ]


def member_findings(
    members: Sequence[Member],
    returns: Mapping[str, int],
    topics_read: Collection[str],
    now_ms: int,
    *,
    due: Collection[str] = (),
    drained: Collection[str] = (),
    shares_queues: bool = False,
) -> list[Finding]:
    """Return what is wrong with the members of a group, whatever they own. `topics_read` have queues.

    `due`: the clients to which some queue falls by the strategy. `drained`: those that are to own none.
    `shares_queues`: members of a broadcasting or POP group own no queue, so that none is idle or silent about its own.
    """
    found = [*_flapping(returns), *_inconsistent(members), *_versions(members)]
    if shares_queues:
        return found
    return [
        *found,
        *_strategies(members),
        *_idle([one for one in members if one.client_id not in drained], topics_read, due),
        *_silent(members, now_ms),
    ]


def returns_of(changes: Iterable[Collection[str]], clients: Collection[str]) -> dict[str, int]:
    """Return who came back too often: client id or host → times. `changes`: who joined or restarted, each time.

    A client that crashes and starts again has a new process id in its id: then its host is counted, for as many
    clients as it has.
    """
    by_id: Counter[str] = Counter()
    by_host: Counter[str] = Counter()
    for names in changes:
        by_id.update(names)
        by_host.update(_host(name) for name in names)
    living = Counter(_host(name) for name in clients)
    found = {name: count for name, count in by_id.items() if count >= FLAPS_MIN}
    explained = {_host(name) for name in found}
    for host, count in by_host.items():
        if host not in explained and count >= FLAPS_MIN * max(1, living[host]):
            found[host] = count
    return found


def _host(client_id: str) -> str:
    return client_id.partition("@")[0]


def _no_owner(subject: Subject) -> Iterator[Finding]:
    lacking = subject.in_state(State.NONE)
    if not lacking or not subject.members:
        return
    queues = tuple(one.queue for one in lacking)
    falls_to: dict[str, list[MessageQueue]] = defaultdict(list)
    due = subject.expected.owner_of() if subject.expected is not None else {}
    for queue in queues:
        if queue in due:
            falls_to[due[queue]].append(queue)
    parts = [_waiting(subject, queues)]
    by_id = {one.client_id: one for one in subject.members}
    for client_id, theirs in sorted(falls_to.items())[:NAMED_MAX]:
        words = {"queues": _names(theirs), "client": client_id}
        if subject.topic not in by_id[client_id].topics and by_id[client_id].topics:
            parts.append(
                Text("%(client)s should own %(queues)s but does not subscribe to this topic.", **words)
            )
        else:
            parts.append(Text("%(client)s should own %(queues)s.", **words))
    yield Finding(
        "NO_OWNER",
        "STOPPED",
        Text(
            "%(number)s queue(s) of %(topic)s without owner: %(queues)s",
            number=len(queues),
            topic=subject.topic,
            queues=_names(queues),
        ),
        Text.of_parts(parts),
        tuple(sorted(falls_to)),
        queues,
        _longest(subject, queues),
    )


def _longest(subject: Subject, queues: Sequence[MessageQueue]) -> int | None:
    """Return when the first of these queues lost its owner; None where no owner was ever seen."""
    lost = [subject.figures.get(queue, NO_FIGURES).owned_until_ms for queue in queues]
    return min((at_ms for at_ms in lost if at_ms is not None), default=None)


def _waiting(subject: Subject, queues: Sequence[MessageQueue]) -> Text:
    lags = [subject.figures.get(queue, NO_FIGURES).lag for queue in queues]
    known = [lag for lag in lags if lag is not None]
    if not known:
        return Text("How many messages wait there is unknown.")
    if len(known) < len(lags):
        return Text("At least %(number)s message(s) {waits|wait} there.", number=sum(known))
    return Text("%(number)s message(s) {waits|wait} there.", number=sum(known))


def _two_owners(subject: Subject) -> Iterator[Finding]:
    by_clients: dict[tuple[str, ...], list[MessageQueue]] = defaultdict(list)
    for one in subject.in_state(State.TWO):
        by_clients[one.clients].append(one.queue)
    due = subject.expected.owner_of() if subject.expected is not None else {}
    for clients, queues in sorted(by_clients.items()):
        wrong = sorted({one for one in clients for queue in queues if due.get(queue, one) != one})
        parts = [Text("Each of them pulls these queues: their messages are delivered more than once.")]
        if wrong:
            parts.append(
                Text(
                    "By %(strategy)s, %(clients)s should not hold them.",
                    strategy=subject.expected.strategy if subject.expected is not None else "",
                    clients=_few(wrong),
                )
            )
        title = Text(
            "%(number)s queue(s) {has|have} several owners: %(queues)s",
            number=len(queues),
            queues=_names(queues),
        )
        parts.insert(0, Text("Owners: %(clients)s.", clients=_few(clients)))
        since_ms = _longest(subject, queues)
        yield Finding("TWO_OWNERS", "INVALID", title, Text.of_parts(parts), clients, tuple(queues), since_ms)


def _handled_twice(subject: Subject) -> Iterator[Finding]:
    """Yield past overlaps; one that lasts is a queue with several owners."""
    for one in subject.overlaps:
        if one.to_ms <= subject.now_ms:
            queues = tuple(MessageQueue(*queue) for queue in one.queues)
            title = Text(
                "%(number)s queue(s) may have been handled twice: %(queues)s",
                number=len(queues),
                queues=_names(queues),
            )
            text = Text.of_parts(
                [
                    Text("%(sentence)s.", sentence=one.words),
                    Text("A queue that changed hands while clients were asked, for seconds, looks the same."),
                ]
            )
            yield Finding("HANDLED_TWICE", "FALLING_BEHIND", title, text, one.clients, queues, one.from_ms)


def _stuck(subject: Subject) -> Iterator[Finding]:
    by_client: dict[str, list[MessageQueue]] = defaultdict(list)
    for one in subject.owned:
        if one.state is State.ONE and subject.figures.get(one.queue, NO_FIGURES).status == STALLED:
            by_client[one.clients[0]].append(one.queue)
    for client_id, queues in sorted(by_client.items()):
        since = [subject.figures[queue].since_ms or 0 for queue in queues]
        yield Finding(
            "STUCK_QUEUE",
            "STALLED",
            Text("%(client)s holds %(queues)s and does not commit", client=client_id, queues=_names(queues)),
            Text.of_parts(
                [
                    _waiting(subject, queues),
                    Text("The queue has an owner but its committed offset does not move. Check that client."),
                ]
            ),
            (client_id,),
            tuple(queues),
            min(since) or None,
        )


def _wrong_list(subject: Subject) -> Iterator[Finding]:
    """Find members whose list of the group lacks another one: they divide among fewer than all others."""
    if subject.expected is None:
        return
    of_topic, shares = frozenset(subject.queues), subject.expected.shares
    ids = [one.client_id for one in subject.members]
    others = [one for one in subject.members if held(one, of_topic) != set(shares.get(one.client_id, ()))]
    missing = missing_in_lists(subject.queues, others, ids, subject.expected.strategy)
    for member in others:
        if member.client_id not in missing:
            continue
        absent = missing[member.client_id]
        yield Finding(
            "WRONG_LIST",
            "INVALID",
            Text(
                "%(client)s divides the queues by a client list without %(absent)s",
                client=member.client_id,
                absent=absent,
            ),
            Text(
                "Its queues match %(strategy)s for %(number)s clients: a broker returned a client list "
                "without %(absent)s. Check the connections of %(absent)s to each broker.",
                strategy=subject.expected.strategy,
                number=len(ids) - 1,
                absent=absent,
            ),
            (member.client_id, absent),
            tuple(sorted(held(member, of_topic))),
        )


def _flapping(returns: Mapping[str, int]) -> Iterator[Finding]:
    for name, count in sorted(returns.items(), key=lambda one: (-one[1], one[0])):
        yield Finding(
            "FLAPPING",
            "FALLING_BEHIND",
            Text("%(client)s keeps reconnecting: %(number)s times", client=name, number=count),
            Text(
                "Within the last %(span)s. Each time all clients of the group compute their queues again, and messages "
                "in flight are delivered twice. Check its restarts and its connections.",
                span=Duration(FLAP_WINDOW_MS),
            ),
            (name,),
        )


def _inconsistent(members: Sequence[Member]) -> Iterator[Finding]:
    reported = {one.client_id: tuple(sorted(one.topics.items())) for one in members if one.topics}
    counts = Counter(reported.values())
    if len(counts) < 2:
        return
    usual = min(counts, key=lambda words: (-counts[words], words))
    others = tuple(sorted(client_id for client_id, words in reported.items() if words != usual))
    yield Finding(
        "INCONSISTENT_SUBSCRIPTION",
        "FALLING_BEHIND",
        Text(
            "%(number)s of %(total)s clients {subscribes|subscribe} differently",
            number=len(others),
            total=f"{len(reported):,}",  # no number: the verb is that of the first
        ),
        Text(
            "%(clients)s. All clients of a group count when queues are divided, and brokers keep the subscription "
            "received last: give each subscription a group of its own.",
            clients=_few(others),
        ),
        others,
    )


def _versions(members: Sequence[Member]) -> Iterator[Finding]:
    kinds = Counter((one.language, one.version) for one in members if one.version)
    if len(kinds) < 2:
        return
    usual = min(kinds, key=lambda kind: (-kinds[kind], kind))
    others = tuple(
        sorted(one.client_id for one in members if one.version and (one.language, one.version) != usual)
    )
    yield Finding(
        "INCONSISTENT_VERSION",
        "FALLING_BEHIND",
        Text(
            "%(number)s of %(total)s clients {runs|run} another version",
            number=len(others),
            total=f"{kinds.total():,}",
        ),
        Text(
            "%(clients)s: %(theirs)s; the others: %(usual)s. This is normal during a deployment. If it "
            "persists, it is a risk: strategies may differ.",
            clients=_few(others),
            theirs=Text.of_names(sorted({_kind(one) for one in kinds if one != usual}), NAMED_MAX),
            usual=_kind(usual),
        ),
        others,
    )


def _kind(kind: tuple[str, str]) -> str:
    return " ".join(part for part in kind if part)


def _strategies(members: Sequence[Member]) -> Iterator[Finding]:
    counts = Counter(one.strategy for one in members if one.strategy)
    if len(counts) < 2:
        return
    usual = min(counts, key=lambda name: (-counts[name], name))
    others = tuple(sorted(one.client_id for one in members if one.strategy and one.strategy != usual))
    yield Finding(
        "INCONSISTENT_STRATEGY",
        "INVALID",
        Text("Clients divide by different strategies: %(names)s", names=Names(sorted(counts))),
        Text(
            "%(clients)s and the other clients compute different owners: some queues get no owner, or two.",
            clients=_few(others),
        ),
        others,
    )


def _idle(members: Sequence[Member], topics_read: Collection[str], due: Collection[str]) -> Iterator[Finding]:
    idle = [one for one in members if one.queues is not None and not one.queues]
    if not idle:
        return
    strangers = [one for one in idle if one.topics and not set(one.topics) & set(topics_read)]
    lacking = [one.client_id for one in idle if one.client_id in due]
    text = Text("There are more clients than queues, or the strategy assigns it none. It is a standby.")
    if strangers:
        text = Text(
            "%(clients)s subscribes to no topic that the others read, but still counts when queues are "
            "divided.",
            clients=_few([one.client_id for one in strangers]),
        )
    elif lacking:
        text = Text(
            "By the strategy %(clients)s should own queues: check that client.", clients=_few(lacking)
        )
    yield Finding(
        "IDLE_CLIENT",
        "FALLING_BEHIND",
        Text(
            "%(number)s client(s) {holds|hold} no queue: %(clients)s",
            number=len(idle),
            clients=_few([one.client_id for one in idle]),
        ),
        text,
        tuple(one.client_id for one in idle),
    )


def _silent(members: Sequence[Member], now_ms: int) -> Iterator[Finding]:
    for member in members:
        if member.queues is not None:
            continue
        if member.last_known_at_ms is not None:
            text = Text(
                "It held %(queues)s until %(age)s ago; whether it still does is unknown.",
                queues=_names(sorted(member.last_known)),
                age=Duration(max(0, now_ms - member.last_known_at_ms)),
            )
        else:
            text = Text("What it holds is unknown: a queue without a known owner may be its own.")
        yield Finding(
            "SILENT_CLIENT",
            "UNKNOWN",
            Text("%(client)s does not report its queues", client=member.client_id),
            Text.of_parts(
                [Text("Reason: %(reason)s.", reason=member.reason), text] if member.reason else [text]
            ),
            (member.client_id,),
            tuple(sorted(member.last_known)),
        )


def _names(queues: Sequence[MessageQueue]) -> Text:
    return Text.of_names([f"{one.broker_name} · {one.queue_id}" for one in queues], NAMED_MAX)


def _few(clients: Sequence[str]) -> Text:
    return Text.of_names(list(clients), NAMED_MAX)
