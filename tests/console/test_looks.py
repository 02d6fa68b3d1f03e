"""How levels and states look: colour, shape and word."""

from __future__ import annotations

import re

import pytest

from console.operation.models import Job
from console.templatetags import looks
from tests.support.template_names import FOLDER

SHOWN = [
    *looks.LEVELS.values(),
    *looks.TOKENS.values(),
    *(one for rows in looks.ROWS.values() for one in rows.values()),
]


@pytest.mark.parametrize("shown", [*SHOWN, looks.WAITING])
def test_its_shape_and_colour_are_there(shown: looks.Look) -> None:
    styles = "".join(path.read_text() for path in (FOLDER.parent / "static" / "css").glob("*.css"))
    assert f'id="s-{shown.shape}"' in (FOLDER.parent / "static" / "js" / "sprite.js").read_text()
    assert re.search(rf"\.g-{shown.family}\b", styles)
    assert re.search(rf"\.badge--{shown.family}\b", styles)


def test_a_level_is_a_shape_with_a_word() -> None:
    assert looks.level_glyph("danger") == (
        '<span class="glyph g-bad s-lost" role="img" aria-label="Danger"></span>'
    )


@pytest.mark.parametrize(
    ("rows", "state", "word"),
    [("offsets", "applied", "applied"), ("config", "applied", "written"), ("routes", "applied", "notified")],
)
def test_a_row_of_a_job_has_the_word_of_its_kind(rows: str, state: str, word: str) -> None:
    assert looks.row_badge(rows, state).endswith(f">{word}</span>")


def test_a_row_that_nothing_happened_to_waits() -> None:
    assert looks.row_badge("config", "pending").endswith(">waiting</span>")


@pytest.mark.parametrize(
    ("state", "step"), [("RUNNING", 5), ("VERIFYING", 6), ("FAILED", 6), ("SUCCEEDED", 7)]
)
def test_a_job_stands_at_a_step(state: str, step: int) -> None:
    assert looks.job_step(state) == step


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("reads", '<span class="muted">may read</span>'),
        ("unable", '<span class="na">cannot be paused</span>'),
        ("paused", "Paused</span>"),
        ("stopped", "group stopped</span>"),
        ("unknown", 'data-why="The broker did not answer.">unknown</span>'),
    ],
)
def test_a_pause_is_a_badge_and_the_rest_a_word(state: str, shown: str) -> None:
    assert looks.pause_state(state).endswith(shown)


def test_figures_of_a_broker_are_tinted_from_a_limit_on() -> None:
    assert [looks.put_tone(milliseconds) for milliseconds in (49.9, 50)] == ["", "t-warn"]
    assert [looks.full_tone(hours * 3_600_000) for hours in (2, 3, 11, 12)] == [
        "t-bad",
        "t-warn",
        "t-warn",
        "",
    ]


@pytest.mark.parametrize(
    ("state", "silence_ms"), [("RUNNING", 2500), ("QUEUED", 2500), ("PAUSED", None), ("FAILED", None)]
)
def test_a_page_is_read_again_while_its_job_moves(state: str, silence_ms: int | None) -> None:
    assert looks.silence_ms(Job(state=state)) == silence_ms
