"""Users with the right to change things."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.support.people import person
from tests.support.shown import Browser


@pytest.fixture
def client() -> Browser:
    """pytest-django's client, with pages as they are shown."""
    return Browser()


@pytest.fixture
def alice(db: None) -> User:
    """Operator: may change offsets and replay."""
    return person("alice", "operator")


@pytest.fixture
def maria(db: None) -> User:
    """Maintainer: may CONFIGURE, is no administrator."""
    return person("maria", "maintainer")
