"""Sums of a plan say what they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from console.operation.models import Plan
from console.operation.plan.words import offset_sums


def row(before: int | None, after: int | None) -> dict[str, Any]:
    return {"moves": True, "delta": -2, "lag_before": before, "lag_after": after}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(3, 5), row(1, 3)], (4, False, 8, False)),
        ([row(None, 5), row(1, 3)], (1, True, 8, False)),
        ([row(None, None)], (None, False, None, False)),
    ],
)
def test_a_sum_of_a_part_is_the_least_it_can_be(
    rows: list[dict[str, Any]], expected: tuple[int | None, bool, int | None, bool]
) -> None:
    sums = offset_sums(Plan(diff=rows))
    names = ("lag_before", "lag_before_lower_bound", "lag_after", "lag_after_lower_bound")
    assert tuple(sums[name] for name in names) == expected
