"""Stores of these tests lie on a disk with room, whatever disk the tests run on: a fuller one refuses puts."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.store.file_cleaner.used_ratio", lambda path: 0.3)
