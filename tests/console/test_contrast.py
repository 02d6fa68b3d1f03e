"""Colours: every text token reads on every surface it may stand on (WCAG AA), marks and boundaries can be seen, in
both themes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOKENS = (Path(__file__).parents[2] / "static" / "css" / "tokens.css").read_text()
TEXT, MARK = 4.5, 3.0  # contrast ratios: text below 18 px bold, and shapes without text
SURFACES = ("bg-app", "bg-sunken", "bg-surface", "bg-subtle", "bg-raised", "bg-hover", "bg-selected")
FAMILIES = ("ok", "catch", "warn", "bad", "unknown", "offline")


def theme(place: int) -> dict[str, str]:
    """The colours of light (0) or dark (1)."""
    one = r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})\s*;"
    two = r"--([a-z0-9-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);"
    return dict(re.findall(one, TOKENS)) | {found[0]: found[1 + place] for found in re.findall(two, TOKENS)}


THEMES = pytest.mark.parametrize("colours", [theme(0), theme(1)], ids=["light", "dark"])


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_faint(colours: dict[str, str], pairs: list[tuple[str, str]], least: float) -> list[str]:
    return [
        f"{front} on {back}: {contrast(colours[front], colours[back]):.2f}"
        for front, back in pairs
        if contrast(colours[front], colours[back]) < least
    ]


@THEMES
def test_text_reads_on_every_surface(colours: dict[str, str]) -> None:
    pairs = [(front, back) for front in ("fg-1", "fg-2", "fg-3", "accent") for back in SURFACES]
    pairs += [(f"{family}-fg", back) for family in FAMILIES for back in SURFACES]
    pairs += [(f"{family}-fg", f"{family}-bg") for family in FAMILIES]
    pairs += [(front, f"{family}-bg") for family in FAMILIES for front in ("fg-1", "fg-2")]
    pairs += [("fg-1", "flash"), ("fg-1", "diff-add-bg"), ("fg-1", "diff-del-bg"), ("accent", "accent-bg")]
    pairs += [("on-accent", "accent"), ("on-accent", "accent-hover"), ("on-prod", "prod")]
    assert too_faint(colours, pairs, TEXT) == []


@THEMES
def test_marks_and_boundaries_can_be_seen(colours: dict[str, str]) -> None:
    pairs = [(f"{family}-mark", back) for family in FAMILIES for back in ("bg-surface", "bg-subtle")]
    pairs += [("line-control", back) for back in ("bg-surface", "bg-app", "bg-subtle")]
    pairs += [(f"chart-{number}", "bg-surface") for number in (1, 2, 3, 4)]
    assert too_faint(colours, pairs, MARK) == []


def test_each_colour_stands_once() -> None:
    """Both themes in one declaration; no second palette that may differ."""
    names = re.findall(r"^  --([a-z0-9-]+):", TOKENS.split("@media")[0], flags=re.M)
    assert sorted(names) == sorted(set(names))
    assert theme(0)["bg-app"] == "#f2f5f6" and theme(1)["bg-app"] == "#0a1117"
    assert set(theme(0)) == set(theme(1)) and len(theme(1)) > 60
