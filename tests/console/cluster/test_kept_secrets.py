"""Secrets between a plan and its job: found by reference, sealed, gone after a day or another SECRET_KEY."""

from __future__ import annotations

import datetime

import pytest
from pytest_django import Settings

from console.cluster import kept_secrets
from console.cluster.models import KeptSecret

pytestmark = pytest.mark.django_db
SECRET = "bobs-own-secret-77"  # noqa: S105 - of tests


def test_a_secret_is_found_by_its_reference_until_it_is_dropped() -> None:
    reference = kept_secrets.keep(SECRET)
    assert kept_secrets.keep(SECRET) == reference != kept_secrets.keep("another-secret")
    assert kept_secrets.secret_of(reference) == SECRET
    kept_secrets.drop(reference)
    assert kept_secrets.secret_of(reference) is None


def test_neither_row_nor_reference_shows_the_secret() -> None:
    kept_secrets.keep(SECRET)
    kept = KeptSecret.objects.get()
    assert SECRET not in f"{kept.reference} {kept.sealed}"


def test_a_secret_is_kept_for_a_day() -> None:
    reference = kept_secrets.keep(SECRET)
    old = KeptSecret.objects.get().kept_at - kept_secrets.KEPT_FOR - datetime.timedelta(seconds=1)
    KeptSecret.objects.update(kept_at=old)
    assert kept_secrets.secret_of(reference) is None
    kept_secrets.keep("another-secret")
    assert not KeptSecret.objects.filter(reference=reference).exists()


def test_another_secret_key_cannot_read_it(settings: Settings) -> None:
    reference = kept_secrets.keep(SECRET)
    settings.SECRET_KEY = "another-key-of-this-site"  # noqa: S105 - of tests
    assert kept_secrets.secret_of(reference) is None
