"""How many clients a group had: only changes are written down, and read back as counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.lag.history.chronicle import client_counts, happenings, record_members
from console.lag.models import GroupMembers, LagEvent
from console.lag.round.series import QueueKey
from console.lag.rows.queue_row import QueueRow

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


KEY = QueueKey("billing", "orders", "broker-a", 0)
ROW = QueueRow(
    **KEY._asdict(), min_offset=0, max_offset=50, committed_offset=40, lost=0, status="OK", moved=True
)


@pytest.mark.parametrize(
    ("committed", "kinds"),
    [
        ((40, 10), ["REWIND"]),
        ((40, 45), ["SKIPPED"]),
        ((400, 45), []),  # beyond the end was no place to move from
    ],
)
def test_an_offset_moved_from_where_it_could_be(committed: tuple[int, int], kinds: list[str]) -> None:
    before, after = ({KEY: replace(ROW, committed_offset=one)} for one in committed)
    assert [one.kind for one in happenings(before, after)] == kinds


class Sweeps:
    """What sweeps found of one group, one after the other."""

    def __init__(self, *found: int | None) -> None:
        before: dict[str, GroupMembers] = {}
        for number, clients in enumerate(found):
            row = GroupMembers(cluster="local", group="billing", clients=clients, read_at_ms=1_000 * number)
            record_members("local", before, [row], {})
            before = {"billing": row}
        GroupMembers.objects.all().delete()
        before["billing"].save()


def counts(from_ms: int, to_ms: int) -> list[tuple[int, int]] | None:
    assert client_counts("local", from_ms, to_ms, ["audit"]) == {}
    found = client_counts("local", from_ms, to_ms)
    assert client_counts("local", from_ms, to_ms, ["billing"]) == found
    return found.get("billing")


def test_it_tells_the_count_at_the_beginning_and_every_change() -> None:
    Sweeps(2, 2, 3, 3, 1)
    assert counts(0, 9_000) == [(0, 2), (2_000, 3), (4_000, 1)]
    assert counts(500, 2_000) == [(500, 2)]
    assert counts(2_000, 4_000) == [(2_000, 3)]
    assert counts(5_000, 9_000) == [(5_000, 1)]


def test_a_group_that_never_changed_has_as_many_as_now() -> None:
    Sweeps(4, 4)
    assert LagEvent.objects.count() == 0
    assert counts(0, 500) == [(0, 4)]


def test_a_change_while_nobody_knew_is_seen_afterwards() -> None:
    Sweeps(2, 3, None, None, 5, None, 5)
    assert counts(0, 9_000) == [(0, 2), (1_000, 3), (4_000, 5)]


def test_nobody_knows_of_a_group_that_was_never_counted() -> None:
    Sweeps(None, None)
    assert counts(0, 9_000) is None
    Sweeps(None, 0)
    assert counts(0, 9_000) == [(0, 0)]
