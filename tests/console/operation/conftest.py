"""Fixtures of plans and jobs: a cluster row, people, the test's own plan kind."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.cluster.models import Cluster
from tests.console.operation.tally import Tally
from tests.support.people import person


@pytest.fixture
def tally(db: None, settings: Settings) -> type[Tally]:
    """The kind ``tally`` is the only one; cluster ``test`` asks for the typed name from 1,000 messages on."""
    settings.PLAN_KINDS = "tests.console.operation.tally.KINDS"
    Tally.world, Tally.done, Tally.at_step, Tally.reached = 0, [], {}, True
    Cluster.objects.create(
        name="test", namesrv_addrs="127.0.0.1:1", typed_confirm_messages=1_000, second_person_messages=5_000
    )
    return Tally


@pytest.fixture
def bob(db: None) -> User:
    """May change everything too: the second person."""
    return person("bob", "operator")


@pytest.fixture
def carol(db: None) -> User:
    """May only look."""
    return person("carol", "viewer")


@pytest.fixture
def dora(db: None) -> User:
    """May change the groups whose names begin with ``billing``, and see nothing else."""
    return person("dora", "operator", name_pattern="billing*")
