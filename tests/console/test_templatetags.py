"""Figures look the same from the server and in the browser: one table of literal cases, read by both."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from playwright.sync_api import Page, sync_playwright

from console.templatetags import cells, lists, statuses
from console.templatetags import figures as tags
from console.templatetags.words import alike, quoted_json, words
from console.text import Span, Text, figures
from spark.lag.local_time import DAY_MS
from tests.e2e.browser import launch

CASES = json.loads((Path(__file__).parent / "figures.json").read_text())
STATIC = Path(__file__).parents[2] / "static" / "js"
NOW_MS = 1_773_288_374_000  # 2026-03-12 04:06:14 UTC


@pytest.mark.parametrize(("name", "value", "text"), CASES["text"])
def test_it_writes_figures(name: str, value: float, text: str) -> None:
    assert getattr(figures, name)(value) == text


@pytest.mark.parametrize(("kind", "field", "row", "html"), CASES["cells"])
def test_it_writes_cells(kind: str, field: str, row: dict[str, Any], html: str) -> None:
    assert cells.CELLS[kind](row, field, CASES["now_ms"]) == html


def test_it_writes_a_change_once_for_all_brokers_that_get_it() -> None:
    change = {
        "deed": "change",
        "what": "GROUP",
        "name": "billing",
        "changes": [{"key": "a", "before": 1, "after": 2}],
    }
    other = {**change, "changes": [{"key": "a", "before": 3, "after": 2}]}
    diff = [row | {"broker_name": name} for name, row in (("a", change), ("b", other), ("c", change))]
    assert alike(diff) == [(["a", "c"], diff[0]), (["b"], diff[1])]


def test_it_has_a_case_for_every_kind_of_cell() -> None:
    assert set(cells.CELLS) == {case[0] for case in CASES["cells"]} | {"duration"}


@pytest.fixture(scope="module")
def script() -> Iterator[Page]:
    """A page that holds figures.js and nothing else."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
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
def test_a_badge_has_the_shape_of_its_status(script: Page) -> None:
    script.add_script_tag(path=STATIC / "sprite.js")
    for code, (_, shape, _) in statuses.STATUSES.items():
        drawn = script.evaluate(
            """([badge, shape]) => {
              document.body.innerHTML = badge;
              const { content, maskImage } = getComputedStyle(document.querySelector(".badge"), "::before");
              return [content, decodeURIComponent(maskImage).includes(document.getElementById(`s-${shape}`).innerHTML)];
            }""",
            [cells.badge(code), shape],
        )
        assert drawn == ['""', True], code


@pytest.mark.browser
def test_a_trend_that_comes_again_stays_as_it_is_drawn(script: Page) -> None:
    browser = script.context.browser
    assert browser
    page = browser.new_page()
    # a page with an address may keep the cookie of its zone
    page.route(
        "http://console.test/", lambda route: route.fulfill(body="<td></td>", content_type="text/html")
    )
    page.goto("http://console.test/")
    for name in ("figures", "shell", "sparkline"):
        page.add_script_tag(path=STATIC / f"{name}.js")
    drawn = page.evaluate(
        """() => {
          const cell = document.createElement("td"), put = (row) => {
            const before = cell.firstElementChild;
            Tide.put(cell, Tide.cell(row, "trend", "trend", 0), "trend");
            Tide.sparklines(cell);
            return cell.firstElementChild === before;
          };
          cell.innerHTML = Tide.cell({ trend: [1, 2] }, "trend", "trend", 0);
          Tide.sparklines(cell);
          return [{ trend: [1, 2] }, { trend: [1, 2], status: "LOST" }, { trend: [2, 1], status: "LOST" }].map(put);
        }"""
    )
    page.close()
    assert drawn == [True, False, False]


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


def test_figures_names_and_times_of_a_sentence_are_bold() -> None:
    sentence = Text(
        "Replay %(number)s message(s) of %(where)s, written %(span)s. See <b>.",
        number=62882,
        where="clicks-<2>",
        span=Span(NOW_MS - 366 * DAY_MS, NOW_MS - 365 * DAY_MS),
    )
    assert words(sentence, "strong") == (
        "Replay <strong>62,882</strong> messages of <strong>clicks-&lt;2&gt;</strong>, written <strong>"
        f'<time data-at="{NOW_MS - 366 * DAY_MS}" data-as="moment">11 Mar 2025 04:06:14</time> – '
        f'<time data-at="{NOW_MS - 365 * DAY_MS}" data-as="moment">12 Mar 2025 04:06:14</time> '
        "<span data-zone-name>UTC</span></strong>. See &lt;b&gt;."
    )
    assert "<strong>" not in words(sentence) and "<time" in words(sentence)
    assert words("a reason of a person <b>") == "a reason of a person &lt;b&gt;"
