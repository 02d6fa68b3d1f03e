from __future__ import annotations

import pytest

from consumers.producer.latency_fault import LatencyFaults, not_available_ms


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
    ],
)
def test_it_avoids_a_slow_broker_as_long_as_java_does(latency_ms: int, avoided_ms: int) -> None:
    assert not_available_ms(latency_ms) == avoided_ms


def test_it_avoids_a_failing_broker_for_ten_seconds() -> None:
    faults = LatencyFaults()
    assert faults.is_available("broker-a", 0)
    faults.record("broker-a", 3, 1_000, is_failed=True)
    assert not faults.is_available("broker-a", 10_999)
    assert faults.is_available("broker-a", 11_000)
    assert faults.is_available("broker-b", 1_000)


def test_a_fast_answer_ends_the_avoidance() -> None:
    faults = LatencyFaults()
    faults.record("broker-a", 3, 1_000, is_failed=True)
    faults.record("broker-a", 3, 2_000, is_failed=False)
    assert faults.is_available("broker-a", 2_000)
