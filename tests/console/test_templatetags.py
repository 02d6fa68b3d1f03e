"""Figures look the same from the server and in the browser: one table of literal cases, read by both."""

from __future__ import annotations

import datetime as dt
import html
import json
import os
import re
import shutil
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import translation
from playwright.sync_api import Page, sync_playwright

from console.templatetags import figures as tags
from console.templatetags import lists, statuses
from console.templatetags.words import quoted_json, words
from console.text import Text, figures

CASES = json.loads((Path(__file__).parent / "figures.json").read_text())
STATIC = Path(__file__).parents[2] / "static" / "js"
NOW_MS = 1_773_288_374_000  # 2026-03-12 04:06:14 UTC


@pytest.mark.parametrize(("name", "value", "text"), CASES["text"])
def test_it_writes_figures(name: str, value: float, text: str) -> None:
    assert getattr(figures, name)(value) == text


@pytest.mark.parametrize(("kind", "field", "row", "html"), CASES["cells"])
def test_it_writes_cells(kind: str, field: str, row: dict[str, Any], html: str) -> None:
    assert tags.CELLS[kind](row, field, CASES["now_ms"]) == html


def test_it_has_a_case_for_every_kind_of_cell() -> None:
    assert set(tags.CELLS) == {case[0] for case in CASES["cells"]} | {"duration"}


@pytest.fixture(scope="module")
def script() -> Iterator[Page]:
    """A page that holds figures.js and nothing else."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "Chromium is missing: apt-get install chromium (make test does it when run as root)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(timezone_id="Asia/Shanghai")
        page.add_script_tag(path=STATIC / "figures.js")
        yield page
        browser.close()


@pytest.mark.browser
def test_it_writes_the_same_in_the_browser(script: Page) -> None:
    texts = script.evaluate("cases => cases.map(([name, value]) => Tide[name](value))", CASES["text"])
    assert texts == [text for _, _, text in CASES["text"]]
    cells = script.evaluate(
        "([cases, now]) => cases.map(([kind, field, row]) => Tide.cell(row, field, kind, now))",
        [CASES["cells"], CASES["now_ms"]],
    )
    # The browser writes times of day in its zone; those of the server are corrected when the page is there.
    assert cells == [html.replace(">00:00:00</time>", ">08:00:00</time>") for *_, html in CASES["cells"]]


@pytest.mark.browser
def test_it_knows_the_same_statuses_in_the_browser(script: Page) -> None:
    assert script.evaluate("Tide.STATUSES") == {
        code: list(parts) for code, parts in statuses.STATUSES.items()
    }


@pytest.mark.browser
def test_it_tells_the_same_time_in_the_browser(script: Page) -> None:
    assert script.evaluate(
        "now => [Tide.clock(now), Tide.moment(now - 86400000, now), Tide.zoneOffset(now)]", NOW_MS
    ) == [
        "12:06:14",
        "11 Mar 12:06:14",
        "UTC+8",
    ]


def test_it_tells_moments_by_how_far_they_are() -> None:
    shanghai = zoneinfo.ZoneInfo("Asia/Shanghai")
    assert figures.moment(NOW_MS, shanghai, now_ms=NOW_MS) == "12:06:14"
    assert figures.moment(NOW_MS - 86_400_000, shanghai, now_ms=NOW_MS) == "11 Mar 12:06:14"
    assert figures.moment(NOW_MS - 365 * 86_400_000, shanghai, now_ms=NOW_MS) == "12 Mar 2025 12:06:14"
    assert figures.clock(NOW_MS + 118, dt.UTC, with_ms=True) == "04:06:14.118"


@pytest.mark.parametrize(
    ("name", "text"),
    [("UTC", "UTC"), ("Asia/Shanghai", "UTC+8"), ("Asia/Kolkata", "UTC+5:30"), ("America/Lima", "UTC−5")],
)
def test_it_names_the_zone(name: str, text: str) -> None:
    assert figures.zone_offset(zoneinfo.ZoneInfo(name), NOW_MS) == text


@pytest.mark.parametrize("cookie", ["", "Not/AZone", "../../etc/passwd", "\x00"])
def test_it_falls_back_to_utc(cookie: str) -> None:
    request = RequestFactory().get("/")
    request.COOKIES["zone"] = cookie
    assert tags.zone_of({"request": request}) is dt.UTC


def test_it_keeps_the_rest_of_the_address() -> None:
    context = {"request": RequestFactory().get("/c/local/groups?q=a%26b&page=3")}
    assert lists.link(context, status="LOST", page=None) == "/c/local/groups?q=a%26b&amp;status=LOST"
    assert lists.link(context, q=None, page=None) == "/c/local/groups"
    assert (
        lists.toggle(context, "kind", "DLQ", "NORMAL")
        == "/c/local/groups?q=a%26b&amp;kind=NORMAL&amp;kind=DLQ"
    )


def test_it_draws_a_progress_bar_that_adds_up() -> None:
    html = tags.progress_bar({"total": 200, "sent": 120, "skipped": 20, "failed": 2})
    assert html == (
        '<svg class="progress" role="img" aria-label="71 % done"><rect class="sent" x="0.00%" width="60.00%" height="100%"/>'  # noqa: E501
        '<rect class="skip" x="60.00%" width="10.00%" height="100%"/><rect class="fail" x="70.00%" width="1.00%" height="100%"/></svg>'  # noqa: E501
    )


def test_text_for_a_shell_keeps_its_quotes_and_is_json() -> None:
    quoted = quoted_json('o\'brien-1 "x"')
    assert "'" not in quoted
    assert json.loads(quoted) == 'o\'brien-1 "x"'


WORDS = [
    # sentence, as a page in Shanghai shows it
    ("written 04:00:00–04:06:14 UTC", "written 12:00:00–12:06:14 UTC+8"),
    ("from 2026-03-11 23:00:00 to 2026-03-12 01:00:00 UTC, all", "from 07:00:00 to 09:00:00 UTC+8, all"),
    ("from 2026-03-10 22:00:00–23:00:00 UTC", "from 11 Mar 06:00:00–07:00:00 UTC+8"),
    ("silent since 05:00:00 UTC: <refused>", "silent since 11 Mar 13:00:00 UTC+8: &lt;refused&gt;"),
    ("at 25:61:00 UTC & at no time", "at 25:61:00 UTC &amp; at no time"),
    ("nothing", "nothing"),
]


@pytest.mark.parametrize(("sentence", "shown"), WORDS)
def test_it_shows_times_in_sentences_in_the_readers_zone(sentence: str, shown: str) -> None:
    request = RequestFactory().get("/")
    request.COOKIES["zone"] = "Asia/Shanghai"
    made = words({"request": request, "now_ms": NOW_MS}, sentence)
    assert re.sub(r"</?(time|span)[^>]*>", "", made) == shown


@pytest.mark.browser
def test_it_shows_the_same_times_in_the_browser(script: Page) -> None:
    told = [script.evaluate("([text, now]) => Tide.words(text, now)", [text, NOW_MS]) for text, _ in WORDS]
    assert [html.escape(text) for text in told] == [shown for _, shown in WORDS]


def test_figures_names_and_times_of_a_sentence_are_bold() -> None:
    sentence = Text(
        "This will replay %(number)s message(s) of %(where)s, written %(span)s. See <b>.",
        number=62882,
        where=Text.foreign("clicks-2"),
        span="06:16:05–06:50:23 UTC",
    )
    made = words({"request": RequestFactory().get("/"), "now_ms": NOW_MS}, sentence, NOW_MS, strong=True)
    assert (
        "replay <strong>62,882 messages</strong> of <strong>clicks-2</strong>, written <strong><time" in made
    )
    assert "&lt;b&gt;." in made and "</time></strong> <span" in made
    assert "<strong>" not in words({"request": RequestFactory().get("/"), "now_ms": NOW_MS}, sentence, NOW_MS)


@pytest.mark.parametrize(
    ("language", "summary", "shown"),
    [
        (
            "en",
            Text("This will create the group %(name)s on %(where)s.", name="a", where="b"),
            "Create the group a on b.",
        ),
        (
            "zh-hans",
            Text("This will create the group %(name)s on %(where)s.", name="a", where="b"),
            "在 b 创建消费组 a。",
        ),
        (
            "en",
            "This will be late, says the reason of a person",
            "This will be late, says the reason of a person",
        ),
    ],
)
def test_a_plan_that_may_be_done_is_not_in_the_future(language: str, summary: str, shown: str) -> None:
    context = {"request": RequestFactory().get("/"), "now_ms": NOW_MS}
    with translation.override(language):
        assert words(context, summary, NOW_MS, timeless=True) == shown
