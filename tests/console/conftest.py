"""Users with the right to change things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from tests.support.people import person
from tests.support.shown import Browser


@pytest.fixture(autouse=True)
def _language_of_the_installation() -> Iterator[None]:
    """A request leaves its reader's language behind in the thread; the next test has the default again."""
    yield
    translation.deactivate()


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
