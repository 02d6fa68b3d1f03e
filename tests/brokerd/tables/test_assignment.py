from __future__ import annotations

from pathlib import Path

import orjson

from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement
from brokerd.tables.assignment import Assignment, AssignmentManager, assignment_document, parse_assignments

QUEUES = tuple(MessageQueue("T", "a", number) for number in range(3))
CLIENTS = ("c1", "c2")


def query(table: AssignmentManager, client_id: str, strategy: str = "AVG") -> list[MessageQueue] | None:
    return table.query("T", "g", client_id, strategy, QUEUES, CLIENTS)


def test_it_divides_by_the_strategy_while_nothing_is_stored(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    assert (query(table, "c1"), query(table, "c2")) == (list(QUEUES[:2]), list(QUEUES[2:]))
    assert query(table, "c2", "AVG_BY_CIRCLE") == [QUEUES[1]]
    assert (query(table, "c9"), query(table, "c1", "ODD")) == (None, None)
    assert table.query("T", "g", "c1", "AVG", (), CLIENTS) is None


def test_a_stored_assignment_counts_while_it_fits(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    assert table.put("T", "g", Assignment(2, {"c1": QUEUES[:1], "c2": QUEUES[1:]}))
    assert (query(table, "c1"), query(table, "c2")) == ([QUEUES[0]], list(QUEUES[1:]))
    assert table.query("T", "g", "c1", "AVG", QUEUES, ("c1",)) == list(QUEUES)


def test_an_older_or_equal_assignment_changes_nothing(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    stored = Assignment(2, {"c1": QUEUES, "c2": ()})
    assert table.put("T", "g", stored)
    assert not table.put("T", "g", Assignment(1, {"c1": (), "c2": QUEUES}))
    assert not table.put("T", "g", Assignment(3, dict(stored.queues_of)))
    assert query(table, "c1") == list(QUEUES)


def placed(**shares: tuple[MessageQueue, ...]) -> Assignment:
    """Return an assignment with c1 drained and the last queue pinned to c3."""
    placement = Placement(pins={QUEUES[2]: "c3"}, drained=frozenset({"c1"}))
    return Assignment(2, shares, placement)


def test_a_placement_holds_for_members_it_was_not_computed_for(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    assert table.put("T", "g", placed(c1=(), c2=QUEUES))
    assert (query(table, "c1"), query(table, "c2")) == ([], list(QUEUES))
    members = ("c1", "c2", "c3")
    shares = [table.query("T", "g", one, "AVG", QUEUES, members) for one in members]
    assert shares == [[], list(QUEUES[:2]), [QUEUES[2]]]
    # Drained, and alone: queues without a reader would be worse.
    assert table.query("T", "g", "c1", "AVG", QUEUES, ("c1",)) == list(QUEUES)


def test_a_drained_client_gets_nothing_of_the_retry_topic(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    retry = (MessageQueue("%RETRY%g", "a", 0),)
    assert table.query("%RETRY%g", "g", "c1", "AVG", retry, CLIENTS) == list(retry)
    table.put("T", "g", placed(c1=(), c2=QUEUES))
    shares = [table.query("%RETRY%g", "g", one, "AVG", retry, CLIENTS) for one in CLIENTS]
    assert shares == [[], list(retry)]
    assert table.query("%RETRY%g", "g", "c1", "AVG", retry, ("c1",)) == list(retry)
    table.put("T", "g", Assignment(3, {"c1": (), "c2": QUEUES}))
    assert table.query("%RETRY%g", "g", "c1", "AVG", retry, CLIENTS) == list(retry)


def test_a_canary_follows_the_versions_of_heartbeats(tmp_path: Path) -> None:
    table = AssignmentManager(tmp_path)
    canary = Placement(canary_version=479, canary_percent=34)
    table.put("T", "g", Assignment(2, {"c1": QUEUES}, canary))
    assert table.has_canary("T", "g") and not table.has_canary("T", "h")
    versions = {"c1": 477, "c2": 479}
    shares = [table.query("T", "g", one, "AVG", QUEUES, CLIENTS, versions) for one in CLIENTS]
    assert [len(share or ()) for share in shares] == [2, 1]


def test_a_placement_survives_a_restart() -> None:
    kept = Placement({QUEUES[0]: "c1"}, frozenset({"c2"}), {"c1": 3}, 479, 20)
    key, stored = ("T", "g"), Assignment(7, {"c1": QUEUES, "c2": ()}, kept)
    content = b'{"assignments":[' + orjson.dumps(assignment_document(key, stored)) + b"]}"
    assert parse_assignments(content) == {key: stored}
