"""The states of a configuration that a job writes to a broker, and its row in the job's result."""

from __future__ import annotations

import pytest

from console.operation.config.row import GROUP, TOPIC, Action, ConfigRow
from console.operation.config.write import ConfigWrite, WriteEvent, WriteState
from console.operation.errors import IllegalTransition
from console.text import Text
from console.text.stored import as_json, of_json

ROW = ConfigRow.of(TOPIC, "orders", "broker-a", "10.0.0.1:10911", {"perm": 6}, {"perm": 4})
WRITE = ConfigWrite.of(ROW)


@pytest.mark.parametrize(
    ("before", "after", "action", "keys"),
    [
        (None, {"perm": 6}, Action.CREATE, ["perm"]),
        ({"perm": 6}, {"perm": 4}, Action.CHANGE, ["perm"]),
        ({"perm": 6}, None, Action.DELETE, ["perm"]),
        ({"perm": 6}, {"perm": 6}, Action.STAY, []),
    ],
)
def test_a_row_names_what_happens_and_the_keys_that_differ(
    before: dict[str, int] | None, after: dict[str, int] | None, action: Action, keys: list[str]
) -> None:
    row = ConfigRow.of(GROUP, "billing", "broker-a", "10.0.0.1:10911", before, after)
    assert (row.action, [change.key for change in row.changes]) == (action, keys)
    assert of_json(ConfigRow, as_json(row)) == row


def test_a_write_is_applied_verified_and_taken_back_when_the_broker_loses_it() -> None:
    applied = WRITE.with_(error=Text("broker-a is away")).written()
    assert (applied.state, applied.error, applied.is_done) == (WriteState.APPLIED, "", True)
    shown = applied.on(WriteEvent.SHOWN, at_ms=5)
    assert (shown.state, shown.at_ms) == (WriteState.VERIFIED, 5)
    assert shown.on(WriteEvent.NOT_SHOWN).state is WriteState.APPLIED


def test_a_refused_write_is_never_written() -> None:
    failed = WRITE.changed_by_another(Text("perm is 2, not 6"))
    assert (failed.state, failed.is_waiting, failed.is_done) == (WriteState.FAILED, False, False)
    with pytest.raises(IllegalTransition):
        failed.written()
    with pytest.raises(IllegalTransition):
        WRITE.on(WriteEvent.SHOWN)


def test_the_row_of_a_result_reads_back() -> None:
    row = as_json(WRITE.written())
    assert (row["state"], row["deed"], row["changes"]) == (
        "applied",
        "change",
        [{"key": "perm", "before": 6, "after": 4}],
    )
    assert of_json(ConfigWrite, row) == WRITE.written()
