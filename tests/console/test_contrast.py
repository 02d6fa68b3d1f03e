"""Colours: every text token reads on every surface it may stand on (WCAG AA), marks and boundaries can be seen, and
the dark theme stands twice in tokens.css with the same values.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOKENS = (Path(__file__).parents[2] / "static" / "css" / "tokens.css").read_text()
TEXT, MARK = 4.5, 3.0  # contrast ratios: text below 18 px bold, and shapes without text
SURFACES = ("bg-app", "bg-sunken", "bg-surface", "bg-subtle", "bg-raised", "bg-hover", "bg-selected")
FAMILIES = ("ok", "catch", "warn", "bad", "unknown", "offline")


def values(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})\s*;", block))


def blocks() -> list[dict[str, str]]:
    """Light, dark by the system, dark by choice."""
    parts = re.findall(r"([^{}]*)\{((?:[^{}]|\{[^{}]*\})*)\}", re.sub(r"/\*.*?\*/", "", TOKENS, flags=re.S))
    found = [values(body) for _, body in parts]
    return [found[0]] + [{**found[0], **one} for one in found[1:] if "bg-app" in one]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_faint(theme: dict[str, str], pairs: list[tuple[str, str]], least: float) -> list[str]:
    return [
        f"{front} on {back}: {contrast(theme[front], theme[back]):.2f}"
        for front, back in pairs
        if contrast(theme[front], theme[back]) < least
    ]


@pytest.mark.parametrize("theme", blocks(), ids=["light", "dark-by-system", "dark-by-choice"])
def test_text_reads_on_every_surface(theme: dict[str, str]) -> None:
    pairs = [(front, back) for front in ("fg-1", "fg-2", "fg-3", "accent") for back in SURFACES]
    pairs += [(f"{family}-fg", back) for family in FAMILIES for back in SURFACES]
    pairs += [(f"{family}-fg", f"{family}-bg") for family in FAMILIES]
    pairs += [(front, f"{family}-bg") for family in FAMILIES for front in ("fg-1", "fg-2")]
    pairs += [("fg-1", "flash"), ("fg-1", "diff-add-bg"), ("fg-1", "diff-del-bg"), ("accent", "accent-bg")]
    pairs += [("on-accent", "accent"), ("on-accent", "accent-hover"), ("on-prod", "prod")]
    assert too_faint(theme, pairs, TEXT) == []


@pytest.mark.parametrize("theme", blocks(), ids=["light", "dark-by-system", "dark-by-choice"])
def test_marks_and_boundaries_can_be_seen(theme: dict[str, str]) -> None:
    pairs = [(f"{family}-mark", back) for family in FAMILIES for back in ("bg-surface", "bg-subtle")]
    pairs += [("line-control", back) for back in ("bg-surface", "bg-app", "bg-subtle")]
    pairs += [(f"chart-{number}", "bg-surface") for number in (1, 2, 3, 4)]
    assert too_faint(theme, pairs, MARK) == []


def test_the_dark_theme_is_the_same_however_it_is_chosen() -> None:
    _, by_system, by_choice = blocks()
    assert by_system == by_choice
