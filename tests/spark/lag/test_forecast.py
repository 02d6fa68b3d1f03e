"""Time to drain: from rates, never invented."""

import pytest

from spark.lag.forecast import Drain, drain


@pytest.mark.parametrize(
    ("lag", "produce", "consume", "expected"),
    [
        (0, None, None, Drain(0, False)),
        (1000, 10.0, 20.0, Drain(100_000, False)),
        (1000, 20.0, 20.0, Drain(None, True)),
        (1000, 30.0, 20.0, Drain(None, True)),
        (10**12, 0.0, 1.0, Drain(None, True)),
        (1000, None, 20.0, Drain(None, False)),
        (1000, 10.0, None, Drain(None, False)),
        (None, 10.0, 20.0, Drain(None, False)),
    ],
)
def test_it_forecasts_the_end_of_a_backlog(
    lag: int | None, produce: float | None, consume: float | None, expected: Drain
) -> None:
    assert drain(lag, produce, consume) == expected
