"""What a broker refuses groups, out of captured tables of both releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokerd.remoting.command import decode_frame
from brokerd.remoting.errors import BodyError
from consumers.admin.group_refusals import group_refusals

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"


def captured(release: str) -> dict[str, dict[str, dict[str, object]]]:
    """The body of an answer to 201."""
    (path,) = sorted((GOLDEN / release).glob("201-*.response.bin"))[:1]
    return dict(json.loads(decode_frame(path.read_bytes()[4:]).body))


def test_it_tells_a_release_without_paused_topics_from_one_with_none() -> None:
    assert group_refusals(captured("4.9.7")).topics is None
    assert group_refusals(captured("5.3.3")).topics == {}


def test_it_reads_paused_topics_and_stopped_groups() -> None:
    table = captured("5.3.3")
    # Bit 2 is reading; Java takes a negative value for none, and keeps a group whose topics are all gone.
    table["forbiddenTable"] = {
        "billing": {"orders": 4, "refunds": 6, "bills": 2, "odd": -4},
        "shop": {"orders": 0},
    }  # type: ignore[dict-item]
    group = next(iter(table["subscriptionGroupTable"]))
    table["subscriptionGroupTable"][group]["consumeEnable"] = False
    found = group_refusals(table)
    assert found.topics == {"billing": frozenset({"orders", "refunds"})}
    assert found.groups == {group}


@pytest.mark.parametrize(
    "table",
    [[], {"forbiddenTable": 1}, {"forbiddenTable": {"g": 4}}, {"subscriptionGroupTable": {"g": None}}],
)
def test_it_says_what_is_no_table_of_groups(table: object) -> None:
    with pytest.raises(BodyError):
        group_refusals(table)
