"""Releases and the numbers by which clients report them."""

from __future__ import annotations

import pytest

from console.lag.collect.version import version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [(479, "5.3.3"), (480, "5.3.4-SNAPSHOT"), (407, "4.9.7"), (213, "4.0.0"), (317, "4.5.2"), (121, "121")],
)
def test_it_names_versions_as_releases_are_named(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name
