"""A few stories of three worker hosts with one history."""

from __future__ import annotations

import pytest

from tests.hard import several_hosts
from tests.hard.tally import run_rounds

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def test_no_round_is_lost_or_doubled_whatever_happens_to_the_hosts() -> None:
    tally = run_rounds("several_hosts", several_hosts.run_round, rounds=2, seed=6)
    assert tally.failures == []
