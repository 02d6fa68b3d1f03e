"""Test whether a figure changed: week against week, and since which day. Values by day; NaN is unknown, never 0.

Hours of one day depend on each other, days hardly do: so days are compared, not hours. A few days decide exactly, by
going through every way in which chance could have exchanged them, instead of by a formula for many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
PAIRS_MIN = 6  # with five pairs even "all of them rose" happens by chance in one of 16 cases
SIGNIFICANT = 0.05
PAIRS_MAX = 16  # 65,536 exchanges
DAYS_MIN = 10  # the least in which a change of level can be found
SIDE_MIN = 3  # days on each side of it


@dataclass(frozen=True, slots=True)
class Shift:
    """Compare `after` with `before`: means of the pairs known on both sides.

    `p_value`: how often chance alone does as much.
    """

    before: float
    after: float
    pairs: int
    p_value: float | None  # None: too few pairs

    @property
    def is_significant(self) -> bool | None:
        return None if self.p_value is None else self.p_value <= SIGNIFICANT


def week_over_week(before: FloatArray, after: FloatArray) -> Shift | None:
    """Compare two weeks day by day (Monday with Monday); None when no day is known in both.

    The test is an exact permutation test of the paired differences of logarithms: the share of all exchanges of the two
    weeks' days that shift the mean at least as far.
    """
    known = ~(np.isnan(before) | np.isnan(after))
    pairs = int(known.sum())
    if not pairs:
        return None
    was, now = before[known][:PAIRS_MAX], after[known][:PAIRS_MAX]
    p_value = _exchange_p(np.log1p(now) - np.log1p(was)) if pairs >= PAIRS_MIN else None
    return Shift(float(was.mean()), float(now.mean()), pairs, p_value)


def _exchange_p(differences: FloatArray) -> float:
    count = len(differences)
    signs = 1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)
    sums = np.abs(signs @ differences)
    observed = abs(float(differences.sum()))
    return float((sums >= observed - 1e-12).mean())


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The level changed at the day with number `at`: medians before it and from it on."""

    at: int
    before: float
    after: float
    p_value: float


def change_point(values: FloatArray) -> ChangePoint | None:
    """Return the day from which the level differs, if there is one: Pettitt's rank test (1979), at 5 %.

    Unknown days are left out; their place in `values` still counts for `at`.
    """
    known = np.flatnonzero(~np.isnan(values))
    series = values[known]
    count = len(series)
    if count < DAYS_MIN:
        return None
    signs = np.sign(series[:, None] - series[None, :])
    # U(t): how much the days up to t are below those after it, in pairs
    ranks = np.array([signs[: cut + 1, cut + 1 :].sum() for cut in range(count - 1)])
    inner = np.abs(ranks[SIDE_MIN - 1 : count - SIDE_MIN])
    cut = int(np.argmax(inner)) + SIDE_MIN
    strength = float(inner.max())
    p_value = min(1.0, 2 * math.exp(-6 * strength**2 / (count**3 + count**2)))
    if p_value > SIGNIFICANT:
        return None
    return ChangePoint(
        int(known[cut]), float(np.median(series[:cut])), float(np.median(series[cut:])), p_value
    )
