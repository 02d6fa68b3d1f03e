"""The table of states in docs/reference/transactions.md is what the broker does, and every state survives a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokerd.transaction.world import (
    CHECK_MAX,
    COMMIT,
    INTERVAL_MS,
    RETENTION_MS,
    ROLLBACK,
    TIME_OUT_MS,
    Place,
    TransactionWorld,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "transactions.md"
Row = tuple[str, str, str, str]  # state, event, next state, answer


def rows() -> Iterator[Row]:
    for line in DOCUMENT.read_text().split("## What survives")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] not in ("state", "---"):
            yield cells[0], cells[1], cells[2], cells[3]


TABLE = list(rows())
# What needs the wire is walked with a whole broker: tests/brokerd/processor/send/test_end_transaction.py.
WALKED = [row for row in TABLE if row[0] != "-" and row[1] != "unknown"]


def bring_into(world: TransactionWorld, state: str) -> Place:
    """Returns the first copy's place."""
    place = world.send()
    if state == "checked":
        world.wait()
    elif state == "committed":
        assert world.end(place, COMMIT) == 0
    elif state == "rolled back":
        assert world.end(place, ROLLBACK) == 0
    elif state == "given up":
        world.wait(INTERVAL_MS * (CHECK_MAX + 1))
    return place


def state_of(world: TransactionWorld) -> str:
    waiting, visible, given_up = len(world.service.waiting), len(world.visible()), len(world.given_up())
    assert waiting <= 1
    assert visible <= 1
    if visible:
        return "committed" if not waiting else "twice"
    if waiting:
        is_checked = world.service.waiting.lowest_offset != 0
        return "checked" if is_checked and not given_up else "waiting"
    return "given up" if given_up else "rolled back"


def given_up_place(world: TransactionWorld, place: Place) -> Place:
    letters = world.given_up()
    return Place(letters[0].queue_offset, letters[0].commit_log_offset) if letters else place


def a_round(world: TransactionWorld, duration_ms: int = INTERVAL_MS) -> str:
    checks = world.wait(duration_ms)
    assert {check.code for check in checks} <= {39}
    return "39 to a producer" if checks else "-"


EVENTS: dict[str, Callable[[TransactionWorld, Place], str]] = {
    "commit": lambda world, place: str(world.end(world.newest(), COMMIT)),
    "rollback": lambda world, place: str(world.end(world.newest(), ROLLBACK)),
    "commit of the first copy": lambda world, place: str(world.end(place, COMMIT)),
    "rollback of the first copy": lambda world, place: str(world.end(place, ROLLBACK)),
    "commit by another group": lambda world, place: str(world.end(place, COMMIT, group="other")),
    "commit with a wrong queue offset": lambda world, place: str(
        world.end(place._replace(queue_offset=5), COMMIT)
    ),
    "commit with a wrong log offset": lambda world, place: str(
        world.end(place._replace(commit_log_offset=3), COMMIT)
    ),
    "round before transactionTimeOut": lambda world, place: a_round(world, TIME_OUT_MS - 1_000),
    "round": lambda world, place: a_round(world),
    "round without a producer": lambda world, place: _alone(world),
    "round after fileReservedTime": lambda world, place: _late(world),
    "round after transactionCheckMax checks": lambda world, place: _last(world),
    "resume": lambda world, place: str(world.resume(given_up_place(world, place))),
}


def _alone(world: TransactionWorld) -> str:
    world.producers.channel_closed(world.channel)
    return a_round(world)


def _late(world: TransactionWorld) -> str:
    world.now_ms += RETENTION_MS
    return a_round(world)


def _last(world: TransactionWorld) -> str:
    world.wait(INTERVAL_MS * (CHECK_MAX - 1))
    return a_round(world)


@pytest.mark.parametrize(("state", "event", "next_state", "answer"), WALKED)
def test_it_goes_from_state_to_state(
    state: str, event: str, next_state: str, answer: str, tmp_path: Path
) -> None:
    world = TransactionWorld(tmp_path)
    place = bring_into(world, state)
    assert state_of(world) == state
    assert EVENTS[event](world, place) == answer
    assert state_of(world) == next_state
    world.kill()
    assert state_of(world) == next_state
    world.restart()
    assert state_of(world) == next_state
    world.close()


@pytest.mark.parametrize("state", sorted({row[0] for row in WALKED}))
def test_a_kill_changes_no_state(state: str, tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    place = bring_into(world, state)
    world.kill()
    assert state_of(world) == state
    if state in ("waiting", "checked"):
        assert world.end(place, COMMIT) == 0
        assert world.visible() == ["k"]
    else:
        assert world.end(place, COMMIT) == 1
    world.close()


def test_every_event_of_the_table_is_walked() -> None:
    assert {event for _, event, _, _ in WALKED} == set(EVENTS)
    assert len(WALKED) > 25
