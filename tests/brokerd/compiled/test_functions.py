"""Compiled functions are used where they are wanted and built."""

from __future__ import annotations

import sys

import pytest

from brokerd.compiled.functions import compiled_functions


def test_they_are_off_unless_wanted() -> None:
    assert compiled_functions(is_wanted=False) is None


def test_a_broker_without_them_goes_on_in_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "brokerd.compiled.hot", None)
    assert compiled_functions(is_wanted=True) is None
    assert "compiledSends=true: sends go the way of Python" in caplog.text
