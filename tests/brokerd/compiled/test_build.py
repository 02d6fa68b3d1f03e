"""What set-up builds, and what becomes of it without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.compiled import build as building
from brokerd.compiled.build import build


def test_it_builds_once(tmp_path: Path) -> None:
    failure = build(tmp_path)
    if failure:
        pytest.skip(failure)
    (built,) = tmp_path.iterdir()
    before = built.stat().st_mtime_ns
    assert build(tmp_path) == ""
    assert built.stat().st_mtime_ns == before


def test_it_goes_on_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert "no C compiler" in build(tmp_path)


def test_it_leaves_nothing_of_a_source_that_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "hot.c"
    source.write_text("this is no C")
    monkeypatch.setattr(building, "SOURCE", source)
    assert build(tmp_path) != ""
    assert list(tmp_path.iterdir()) == [source]
