"""The share of a lag that passes a group's filter, from a sample, with its confidence interval (lag.md 1.2, 25).

The sample is stratified: the waiting range is cut into equal parts and each gives its share, because the mix of tags
drifts and the oldest messages do not represent the newest.
"""

import math
from dataclasses import dataclass

Z95 = 1.959963984540054  # of the normal distribution


@dataclass(frozen=True, slots=True)
class FilterSample:
    """`matching` of `scanned` entries pass the filter; `strata` parts of the range were looked at."""

    matching: int
    scanned: int
    strata: int = 1

    def __post_init__(self) -> None:
        assert 0 <= self.matching <= self.scanned

    def __add__(self, other: "FilterSample") -> "FilterSample":
        return FilterSample(
            self.matching + other.matching, self.scanned + other.scanned, self.strata + other.strata
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """A share with its Wilson 95 % interval."""

    value: float
    low: float
    high: float


def wilson(sample: FilterSample) -> Ratio | None:
    """Return the ratio of a sample with its Wilson score interval; None when nothing was scanned.

    For equal shares of equal strata the pooled interval is never too narrow.
    """
    count = sample.scanned
    if count == 0:
        return None
    share = sample.matching / count
    z2 = Z95 * Z95
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    low = 0.0 if sample.matching == 0 else max(0.0, centre - half)
    high = 1.0 if sample.matching == count else min(1.0, centre + half)
    return Ratio(share, low, high)


def filtered_lag(lag: int | None, ratio: Ratio | None) -> tuple[int, int, int] | None:
    """Return (expected, at least, at most) messages that pass the filter; None when lag or ratio is unknown."""
    if lag is None or ratio is None:
        return None
    return round(lag * ratio.value), math.floor(lag * ratio.low), math.ceil(lag * ratio.high)


def strata(from_offset: int, to_offset: int, parts: int, each: int) -> list[tuple[int, int]]:
    """Return (offset, count) of the entries to sample in [from_offset, to_offset).

    `each` from the middle of each part, or everything when that is not more.
    """
    span = to_offset - from_offset
    if span <= 0 or parts <= 0 or each <= 0:
        return []
    if span <= parts * each:
        return [(from_offset, span)]
    edges = [from_offset + span * part // parts for part in range(parts + 1)]
    return [((low + high - each) // 2, each) for low, high in zip(edges, edges[1:], strict=False)]
