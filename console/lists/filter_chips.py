"""The filters of a list as chips: each value with how many rows it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.lists.query import ListQuery
from console.lists.spec import Label, ListSpec


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A further filter of the list, with how many rows it leaves."""

    name: str
    value: str
    label: Label
    rows: int
    is_chosen: bool


def filter_chips(
    spec: ListSpec, query: ListQuery, counts: Mapping[str, Mapping[str, int]]
) -> Sequence[FilterChip]:
    """Return the chosen chips and those that leave a row, in the order of the list's filters."""
    chips = [
        FilterChip(
            each.name,
            choice.value,
            choice.label,
            counts[each.name][choice.value],
            query.filters.get(each.name) == choice.value,
        )
        for each in spec.filters
        for choice in each.choices
    ]
    return [chip for chip in chips if chip.is_chosen or chip.rows]
