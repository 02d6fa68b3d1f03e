from __future__ import annotations

from pathlib import Path

from brokerd.remoting.message.queue import MessageQueue
from brokerd.tables.assignment import Assignment, AssignmentManager

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
