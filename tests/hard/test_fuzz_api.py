"""A bounded sample of the fuzzing of REST: some operations, with fixed seeds, inside the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.rest.throttling import ScopeThrottle
from console.brokers.mqadmin import close_admins
from tests.hard import fuzz_api
from tests.hard.tally import run_rounds
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def world(brokerd: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ScopeThrottle, "RATES", dict(ScopeThrottle.RATES))  # `build` lifts them
    fuzz_api.worlds[:] = [fuzz_api.build(brokerd)]
    yield
    close_admins()


def test_generated_calls_get_declared_answers(world: None) -> None:
    tally = run_rounds("fuzz_api", fuzz_api.run_round, rounds=6, seed=1)
    assert tally.failures == []
