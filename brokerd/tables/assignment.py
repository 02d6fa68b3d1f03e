"""Server-side rebalancing: which groups use it, and which queues each member got.

The mode per (topic, group) is RocketMQ's messageRequestMode.json. Assignments computed by the console arrive with
TIDEMARK_PUT_ASSIGNMENT and are saved in assignment.json. An assignment counts only while it fits: exactly the
live members and exactly the topic's queues. Otherwise the same pure function the console uses decides here, with the
pins, drained clients, weights and canary that came with the assignment, so a console that is away costs nothing.
Source: semantics §8.4 (`QueryAssignmentProcessor.java`), wire-extensions.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from brokerd.remoting.allocate import assign_server_side
from brokerd.remoting.body import fastjson
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement, place
from brokerd.tables import config_manager
from brokerd.tables.table_file import TableFile

logger = logging.getLogger(__name__)

DIVISIONS_MAX = 1_000  # remembered at once
ASSIGNMENTS_MAX = 10_000  # (topic, group) pairs; a console that errs must not fill memory
SERVER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")  # what QUERY_ASSIGNMENT accepts

Key = tuple[str, str]  # topic, group


@dataclass(frozen=True, slots=True)
class MessageRequestMode:
    """How members of a group get messages of a topic: PULL, or POP with its sharing number."""

    mode: str = "PULL"
    pop_share_queue_num: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One computed division of a topic's queues among a group's members, and what it was computed by."""

    version: int
    queues_of: Mapping[str, tuple[MessageQueue, ...]]  # client id → queues
    placement: Placement | None = None

    def fits(self, queues: Iterable[MessageQueue], client_ids: Iterable[str]) -> bool:
        owned = [queue for each in self.queues_of.values() for queue in each]
        return sorted(owned) == sorted(queues) and set(self.queues_of) == set(client_ids)


class Basis(NamedTuple):
    """What a division follows from. All members of a group request it within a moment: it is computed once."""

    strategy: str
    stored: Assignment | None
    queues: tuple[MessageQueue, ...]
    client_ids: tuple[str, ...]
    versions: Mapping[str, int] = {}  # client id → MQVersion ordinal, for a canary only
    drained: frozenset[str] = frozenset()  # of a retry topic


def pop_queues(
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    client_id: str,
    strategy: str,
    share_queue_num: int,
) -> list[MessageQueue] | None:
    """Return what one member of a group in POP mode pops; None for no member or an unknown strategy.

    Every broker's queues together (id -1), unless few share: then its own and those of the next members.
    Source: `QueryAssignmentProcessor.allocate4Pop`. `queues` are in order.
    """
    if not queues or strategy not in SERVER_STRATEGIES or client_id not in client_ids:
        return None
    client_ids = sorted(set(client_ids))
    members = len(client_ids)
    if share_queue_num <= 0 or share_queue_num >= members - 1:
        return [MessageQueue(queues[0].topic, name, -1) for name in sorted({q.broker_name for q in queues})]
    index = client_ids.index(client_id)
    if members > len(queues):
        return [queues[index % len(queues)]]
    division = assign_server_side(queues, client_ids, strategy)
    sharing = [client_ids[(index + number) % members] for number in range(share_queue_num + 1)]
    return [queue for member in sharing for queue in division[member]]


def divide(basis: Basis) -> Mapping[str, Sequence[MessageQueue]]:
    """Return client id → queues: what the console stored while it fits, else by its placement or the strategy."""
    queues, client_ids, stored = basis.queues, basis.client_ids, basis.stored
    if stored is not None and stored.fits(queues, client_ids):
        return stored.queues_of
    if stored is not None and stored.placement:
        return place(queues, client_ids, stored.queues_of, stored.placement, basis.versions)
    if basis.drained:
        active = Placement(drained=basis.drained).active(client_ids)
        nothing: dict[str, list[MessageQueue]] = {member: [] for member in client_ids}
        return nothing | assign_server_side(queues, active, basis.strategy)
    return assign_server_side(queues, client_ids, basis.strategy)


class AssignmentManager:
    """Modes and assignments. Single-threaded: the broker's event loop."""

    def __init__(self, config_dir: Path) -> None:
        modes_path, assignments_path = config_dir / "messageRequestMode.json", config_dir / "assignment.json"
        self.modes_file = TableFile(modes_path, self._modes_pieces)
        self.assignments_file = TableFile(assignments_path, self._assignments_pieces)
        self.modes: dict[Key, MessageRequestMode] = config_manager.load(modes_path, parse_modes) or {}
        self._divisions: dict[Key, tuple[Basis, Mapping[str, Sequence[MessageQueue]]]] = {}
        self.assignments: dict[Key, Assignment] = (
            config_manager.load_or_empty(assignments_path, parse_assignments) or {}
        )
        self._drained: dict[str, frozenset[str]] = {}  # group → clients that get nothing of some topic
        for group in {group for _, group in self.assignments}:
            self._note_drained(group)

    def set_mode(self, topic: str, group: str, mode: MessageRequestMode) -> None:
        self.modes[topic, group] = mode
        self.modes_file.changed()

    def follow(self, modes_body: bytes) -> None:
        """Take over a master's modes (402), on its slave. Raises BodyError."""
        modes = parse_modes(modes_body)
        if modes != self.modes:
            self.modes = modes
            self.modes_file.changed()

    def _modes_pieces(self) -> Iterator[bytes]:
        modes = dict(self.modes)

        def pieces() -> Iterator[bytes]:
            yield config_manager.encode_document(modes_document(modes))

        return pieces()

    def mode(self, topic: str, group: str) -> MessageRequestMode:
        return self.modes.get((topic, group), MessageRequestMode())

    def modes_body(self) -> bytes:
        """Return the answer of GET_ALL_MESSAGE_REQUEST_MODE (402), which is the file's content."""
        return config_manager.encode_document(modes_document(self.modes))

    def put(self, topic: str, group: str, assignment: Assignment) -> bool:
        """Store what the console computed; False when it is older than the one known or changes nothing.

        Raises OverflowError beyond ASSIGNMENTS_MAX; nothing is changed then.
        """
        key = (topic, group)
        known = self.assignments.get(key)
        if known is not None and assignment.version < known.version:
            return False
        if known is None and len(self.assignments) >= ASSIGNMENTS_MAX:
            raise OverflowError(f"{ASSIGNMENTS_MAX} assignments are stored already")
        self.assignments[key] = assignment
        if assignment.placement or group in self._drained:
            self._note_drained(group)
        self.assignments_file.changed()
        changed = known is None or dict(known.queues_of) != dict(assignment.queues_of)
        if changed:
            logger.info("assignment stored group=%s topic=%s version=%d", group, topic, assignment.version)
        return changed

    def query(
        self,
        topic: str,
        group: str,
        client_id: str,
        strategy: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
        versions: Mapping[str, int] | None = None,
    ) -> list[MessageQueue] | None:
        """Return the queues of one member; None for no member, a topic without queues or an unknown strategy.

        `versions`: client id → MQVersion ordinal, where the group `has_canary`. A client that is drained on a topic
        gets nothing of the group's retry topic either.
        """
        if not queues or strategy not in SERVER_STRATEGIES:
            return None
        stored = self.assignments.get((topic, group))
        is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
        drained = self._drained.get(group, frozenset()) if is_retry else frozenset()
        basis = Basis(strategy, stored, tuple(queues), tuple(client_ids), versions or {}, drained)
        divided_basis, division = self._divisions.get((topic, group), (None, {}))
        if divided_basis != basis:
            if len(self._divisions) >= DIVISIONS_MAX:
                self._divisions.clear()
            division = divide(basis)
            self._divisions[(topic, group)] = (basis, division)
        share = division.get(client_id)
        return None if share is None else list(share)

    def has_canary(self, topic: str, group: str) -> bool:
        """Return whether the division depends on the members' versions."""
        stored = self.assignments.get((topic, group))
        return stored is not None and stored.placement is not None and stored.placement.canary_version != 0

    def _note_drained(self, group: str) -> None:
        found = [
            one.placement.drained
            for (_, its_group), one in self.assignments.items()
            if its_group == group and one.placement is not None
        ]
        drained = frozenset[str]().union(*found)
        if drained:
            self._drained[group] = drained
        else:
            self._drained.pop(group, None)

    def remove_group(self, group: str) -> None:
        self._keep(lambda key: key[1] != group)

    def remove_topic(self, topic: str) -> None:
        self._keep(lambda key: key[0] != topic)

    def _keep(self, is_kept: Callable[[Key], bool]) -> None:
        dropped = [key for key in self.assignments if not is_kept(key)]
        for key in dropped:
            del self.assignments[key]
        for group in {key[1] for key in dropped}:
            self._note_drained(group)
        if dropped:
            self.assignments_file.changed()

    def _assignments_pieces(self) -> Iterator[bytes]:
        assignments = list(self.assignments.items())

        def pieces() -> Iterator[bytes]:
            yield b'{"assignments":[\n'
            for number, (key, assignment) in enumerate(assignments):
                yield b",\n" if number else b""
                yield orjson.dumps(assignment_document(key, assignment))
            yield b"\n]}\n"

        return pieces()


def modes_document(modes: Mapping[Key, MessageRequestMode]) -> dict[str, object]:
    """RocketMQ's own shape of messageRequestMode.json."""
    table: dict[str, dict[str, object]] = {}
    for (topic, group), mode in modes.items():
        table.setdefault(topic, {})[group] = {
            "consumerGroup": group,
            "mode": mode.mode,
            "popShareQueueNum": mode.pop_share_queue_num,
            "topic": topic,
        }
    return {"messageRequestModeMap": table}


def parse_modes(content: bytes) -> dict[Key, MessageRequestMode]:
    table = fastjson.loads(content)["messageRequestModeMap"]
    return {
        (topic, group): MessageRequestMode(str(each["mode"]), int(each.get("popShareQueueNum", 0)))
        for topic, groups in table.items()
        for group, each in groups.items()
    }


def assignment_document(key: Key, assignment: Assignment) -> dict[str, object]:
    """Return one entry of assignment.json."""
    topic, group = key
    document: dict[str, object] = {
        "topic": topic,
        "group": group,
        "version": assignment.version,
        "queuesOf": {
            client_id: [[queue.broker_name, queue.queue_id] for queue in queues]
            for client_id, queues in assignment.queues_of.items()
        },
    }
    placement = assignment.placement
    if placement:
        document["placement"] = {
            "pins": [[queue.broker_name, queue.queue_id, one] for queue, one in placement.pins.items()],
            "drained": sorted(placement.drained),
            "weights": dict(placement.weights),
            "canaryVersion": placement.canary_version,
            "canaryPercent": placement.canary_percent,
        }
    return document


def parse_assignments(content: bytes) -> dict[Key, Assignment]:
    return {
        (each["topic"], each["group"]): Assignment(
            int(each["version"]),
            {
                client_id: tuple(MessageQueue(each["topic"], name, int(queue)) for name, queue in queues)
                for client_id, queues in each["queuesOf"].items()
            },
            parse_placement(each["topic"], each["placement"]) if "placement" in each else None,
        )
        for each in fastjson.loads(content)["assignments"]
    }


def parse_placement(topic: str, document: Mapping[str, Any]) -> Placement:
    return Placement(
        {MessageQueue(topic, name, int(queue)): client_id for name, queue, client_id in document["pins"]},
        frozenset(document["drained"]),
        {client_id: int(weight) for client_id, weight in document["weights"].items()},
        int(document["canaryVersion"]),
        int(document["canaryPercent"]),
    )
