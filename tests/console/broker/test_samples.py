"""Figures of brokers over time."""

from __future__ import annotations

import pytest

from console.broker.models import BrokerSample
from console.broker.samples import samples
from console.lag.models import BrokerRow

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NAME = "pair"


def test_a_sum_without_one_broker_is_a_lower_bound() -> None:
    for minute, rate in ((0, 10.0), (1, 20.0), (3, 40.0)):
        for name, factor in (("broker-a", 1), ("broker-b", 2)):
            if (minute, name) != (1, "broker-b"):
                BrokerSample.objects.create(
                    cluster=NAME, broker_name=name, at_ms=minute * 60_000, in_rate=rate * factor
                )
    found = samples(NAME, 0, 4 * 60_000)
    assert found["times"] == [0, 60_000, 120_000, 180_000]
    assert found["in_rate"] == [30.0, 20.0, None, 120.0]
    assert found["sampled"] == [None, [1, 2], None, None]
    assert samples(NAME, 0, 4 * 60_000, "broker-a")["in_rate"] == [10.0, 20.0, None, 40.0]
    BrokerSample.objects.create(cluster=NAME, broker_name="broker-new", at_ms=180_000, in_rate=5.0)
    BrokerSample.objects.create(cluster=NAME, broker_name="broker-a", at_ms=240_000, in_rate=1.0)
    BrokerSample.objects.filter(broker_name="broker-b", at_ms__gt=0).delete()
    # A broker that is gone counts to its last sample ...
    assert samples(NAME, 0, 5 * 60_000)["in_rate"] == [30.0, 20.0, None, 45.0, 1.0]
    BrokerRow.objects.create(cluster=NAME, broker_name="broker-b", addr="h:1", answered=False)
    # ... and one that is there is missed until now, whether it answers again or not.
    found = samples(NAME, 0, 5 * 60_000)
    assert found["in_rate"] == [30.0, 20.0, None, 45.0, 1.0]
    assert found["sampled"] == [None, [1, 2], None, [2, 3], [1, 2]]
    BrokerRow.objects.update(answered=True)
    assert samples(NAME, 0, 5 * 60_000) == found
    BrokerRow.objects.update(answered=False)
    assert samples(NAME, 0, 3 * 60_000, "broker-b")["in_rate"] == [20.0, None, None, None]


def test_minutes_that_a_broker_missed_count_as_nothing() -> None:
    day_ms = 24 * 3_600_000
    for minute in range(6):
        for name in ("broker-a", "broker-b"):
            if (minute, name) != (3, "broker-b"):
                BrokerSample.objects.create(
                    cluster=NAME, broker_name=name, at_ms=day_ms + minute * 60_000, in_rate=10.0
                )
    found = samples(NAME, day_ms, 2 * day_ms)
    assert found["times"] == [day_ms, day_ms + 300_000]
    assert (found["in_rate"], found["sampled"]) == ([18.0, 20.0], [[1, 2], None])
