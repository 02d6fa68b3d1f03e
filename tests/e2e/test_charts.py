"""Charts on a bare page with given data: gaps, low ones, the forecast, the keyboard, sparklines of slow rounds."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.product import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(60)]
MINUTE = 60_000
BEGAN = 1_773_316_800_000  # 2026-03-12 12:00:00 UTC
PAGE = """
<!doctype html><html lang="en"><title>Charts</title>
<style>:root { --fg-1: black; --chart-1: rgb(1, 2, 250); --chart-3: rgb(168, 94, 0); --chart-gap: rgb(9, 8, 7) }</style>
<body><div class="chart"><canvas role="img" aria-label="Lag" style="display: block; width: 600px"></canvas></div>
"""
# What is written on canvases and which lines are drawn, as they are drawn.
SPY = """() => {
  window.drawn = { words: [], lines: [] };
  const canvas = CanvasRenderingContext2D.prototype;
  const { fillText, moveTo, lineTo, clearRect } = canvas;
  let at = null;
  canvas.fillText = function (words, x, y) {
    drawn.words.push({ words, x, y });
    return fillText.call(this, words, x, y);
  };
  canvas.moveTo = function (x, y) { at = [x, y]; return moveTo.call(this, x, y); };
  canvas.lineTo = function (x, y) { drawn.lines.push([...at, x, y]); at = [x, y]; return lineTo.call(this, x, y); };
  canvas.clearRect = function (...box) { drawn.words = []; drawn.lines = []; return clearRect.apply(this, box); };
}"""
DRAW = """({ height, name, data }) => {
  const canvas = document.querySelector("canvas").cloneNode();
  document.querySelector(".chart").replaceChildren(canvas);
  canvas.style.height = `${height}px`;
  for (const panel of data.panels || [])
    panel.format = (v) => (panel.kind === "latency" ? Tide.latency(v) : Tide.count(v));
  drawn.words = [];
  window.plot = Tide[name](canvas, data);
}"""
# How many opaque pixels are of each line's colour: to bring 180,000 of them here takes seconds.
COLOURS = """() => {
  const { data } = document.querySelector("canvas").getContext("2d").getImageData(0, 0, 600, 300);
  const seen = { blue: 0, brown: 0, black: 0 };
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, opacity] = data.subarray(at, at + 4);
    if (opacity <= 200) continue;
    seen.blue += blue > 200 && red < 60;
    seen.brown += red > 140 && blue < 60;
    seen.black += Math.max(red, green, blue) < 40;
  }
  return seen;
}"""

# The ends of its line's strokes, and of what it hatches.
SPARKLINE = """(heights) => {
  document.querySelector(".chart").innerHTML = `<svg data-trend="${heights}"></svg>`;
  Tide.sparklines();
  const [svg] = document.querySelectorAll("[data-trend]"),
    points = [...svg.querySelectorAll(":scope > path:not([class])")]
      .flatMap((path) => path.getAttribute("d").split("M").slice(1))
      .map((run) => run.split("L").map((point) => point.split(",").map(Number)));
  return { points, label: svg.ariaLabel, dots: svg.querySelectorAll("circle").length,
           gaps: svg.querySelectorAll(".gap").length, floors: svg.querySelectorAll(".floor").length };
}"""


@pytest.fixture
def bare(browser: Browser) -> Iterator[Page]:
    page = browser.new_context(timezone_id="UTC").new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_content(PAGE)
    page.evaluate(SPY)
    for script in ("figures", "charts", "sparkline", "flow_chart"):
        page.add_script_tag(path=ROOT / "static" / "js" / f"{script}.js")
        page.evaluate(f"Tide.now = () => {BEGAN + 15 * MINUTE}")
    yield page
    page.context.close()
    assert problems == []


def draw(page: Page, panels: list[dict[str, Any]], height: int = 300, **more: Any) -> None:
    count = len(panels[0]["series"][0]["values"])
    data = {"times": [BEGAN + minute * MINUTE for minute in range(count)], "panels": panels, **more}
    page.evaluate(DRAW, {"height": height, "name": "timeSeries", "data": data})
    page.wait_for_function("drawn.words.length > 0")


def panel(*values: float | None, **more: Any) -> dict[str, Any]:
    series = {"label": "lag", "swatch": "c1", "tone": "chart-1", "values": list(values)}
    return {"title": "Lag", "kind": "count", "unit": "msgs", "series": [series], **more}


def long_lines(page: Page, x1: float, x2: float) -> list[list[float]]:
    """The lines that cross from x1 to x2 and are not level: no grid."""
    lines = page.evaluate("drawn.lines")
    return [each for each in lines if each[0] < x1 and each[2] > x2 and each[1] != each[3]]


def test_no_line_crosses_a_gap_and_the_gap_is_hatched(bare: Page) -> None:
    draw(bare, [panel(10, 20, None, None, 50, 40)])
    # the plot is 530 wide from 58 on, 106 a minute: the gap lies between 164 and 482
    assert long_lines(bare, 170, 476) == []
    column = (
        "[...document.querySelector('canvas').getContext('2d').getImageData(320, 40, 1, 200).data].join()"
    )
    assert "9,8,7,255" in bare.evaluate(column)
    draw(bare, [panel(10, 20, 30, 40, 50, 40)])
    assert "9,8,7,255" not in bare.evaluate(column)


def test_a_lower_bound_is_dotted_and_in_the_legend_while_it_is_shown(bare: Page) -> None:
    legend = '<div class="legend"><span><i class="cgap"></i>no data</span></div>'
    bare.evaluate(
        f"document.body.className = 'card'; document.body.insertAdjacentHTML('beforeend', `{legend}`)"
    )
    pixels = []
    for bounds in ([False] * 6, [False, False, True, True, False, False]):
        one = panel(10, 20, 20, 20, 20, 10)
        one["series"][0]["bounds"] = bounds
        draw(bare, [one])
        pixels.append(bare.evaluate(COLOURS)["blue"])
        words = "at leastno data" if any(bounds) else "no data"
        expect(bare.locator(".legend")).to_have_text(words)
    assert pixels[1] < 0.9 * pixels[0]  # three of five stretches
    bare.focus("canvas")
    bare.keyboard.press("ArrowLeft")
    bare.keyboard.press("ArrowLeft")
    bare.keyboard.press("ArrowLeft")
    expect(bare.locator(".chart-tip")).to_contain_text("≥ 20 msgs")


@pytest.mark.parametrize("height", [72, 150, 232])
def test_a_low_chart_writes_each_value_once_and_inside(bare: Page, height: int) -> None:
    draw(bare, [panel(1, 2, 1), panel(0.4, 2.2, 1.0, kind="latency")], height)
    axis = [each for each in bare.evaluate("drawn.words") if each["x"] == 50]
    assert len(axis) >= 4
    assert all(0 <= each["y"] <= height for each in axis)
    for low, high in ((0, height / 2), (height / 2, height)):
        words = [each["words"] for each in axis if low <= each["y"] < high]
        assert len(words) == len(set(words)) >= 2, words


def test_one_reading_is_words_and_no_line(bare: Page) -> None:
    draw(bare, [panel(7)], 72, begins="The line begins later.")
    assert [each["words"] for each in bare.evaluate("drawn.words")] == ["The line begins later."]


def test_a_chart_is_as_high_before_its_line_begins(bare: Page) -> None:
    """What stands below it would move with the second reading."""
    bare.add_style_tag(path=ROOT / "static" / "css" / "chart.css")
    bare.add_script_tag(path=ROOT / "static" / "js" / "parts.js")
    one, two = (
        bare.evaluate(
            """times => {
              document.querySelector(".chart").className = "chart chart--ts";
              const canvas = document.querySelector("canvas"), source = document.createElement("script");
              canvas.style.height = "";
              source.textContent = JSON.stringify(times);
              Tide.history(canvas, source, (times) => ({ times, panels: [{
                title: "In", kind: "rate", unit: "/s", format: String, series: [{ label: "in", values: times }] }] }));
              return canvas.offsetHeight;
            }""",
            [BEGAN + at * MINUTE for at in range(readings)],
        )
        for readings in (1, 2)
    )
    assert one == two > 200


def test_the_forecast_goes_on_after_the_last_reading_to_the_top(bare: Page) -> None:
    rising = panel(0.5, 0.5, max=1, forecast={"perMs": 0.5 / MINUTE, "tone": "chart-3"}, limits=[0.9])
    draw(bare, [rising], ahead=2 * MINUTE)
    # three minutes on 530 pixels: the readings end at 235, a minute later the disk is full
    (forecast,) = [each for each in bare.evaluate("drawn.lines") if 234 < each[0] < 236 and each[1] > each[3]]
    assert forecast[2] == pytest.approx(411.3, abs=1)
    assert forecast[3] == pytest.approx(30, abs=1)
    bare.mouse.move(500, 150)  # nothing was read there: the last reading
    expect(bare.locator(".chart-tip")).to_contain_text("12:01:00")


def test_the_keyboard_reads_value_unit_time_and_age(bare: Page) -> None:
    draw(bare, [panel(10, 6_000, 30)])
    bare.keyboard.press("Tab")
    bare.keyboard.press("ArrowLeft")
    tip = bare.locator(".chart-tip")
    expect(tip).to_have_attribute("aria-live", "polite")
    expect(tip).to_contain_text("12:01:00 · 14 m 00 s ago")
    expect(tip).to_contain_text("6,000 msgs")
    bare.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_lines_of_the_flow_that_coincide_are_all_seen(bare: Page) -> None:
    lines = {name: [0, 5, 10] for name in ("produced", "pulled", "committed")}
    data = {"times": [BEGAN, BEGAN + MINUTE, BEGAN + 2 * MINUTE], "stored_from": [None] * 3, **lines}
    bare.evaluate(DRAW, {"height": 300, "name": "flow", "data": data})
    bare.wait_for_function("drawn.words.length > 0")
    seen = bare.evaluate(COLOURS)
    assert seen["blue"] > 200  # produced, at both sides
    assert seen["brown"] > 200  # committed, between them
    assert seen["black"] > 50  # pulled, the dots on it


@pytest.mark.parametrize(
    ("heights", "crosses"),
    [("a---b---c---d---e", True), ("aaaaaaaa---bbbbbbbb", False), ("a---b---c-------d---e", False)],
)
def test_only_silence_longer_than_its_rounds_is_a_gap_of_a_sparkline(
    bare: Page, heights: str, crosses: bool
) -> None:
    drawn = bare.evaluate(SPARKLINE, heights)
    assert drawn["label"] == "last hour"
    begins = 60 - len(heights)
    gap = max(re.finditer("-+", heights), key=lambda found: len(found[0]))
    before, after = (1 + (begins + at) * 71 / 59 for at in (gap.start(), gap.end() - 1))
    strokes = [(start, end) for run in drawn["points"] for (start, _), (end, _) in itertools.pairwise(run)]
    assert any(start < before and end > after for start, end in strokes) is crosses
    assert drawn["dots"] >= 1 and drawn["gaps"] == 0  # the last minute is known


def test_a_sparkline_of_nothing_known_is_one_gap(bare: Page) -> None:
    drawn = bare.evaluate(SPARKLINE, "-----")
    assert (drawn["points"], drawn["dots"], drawn["gaps"]) == ([], 0, 1)


def test_a_sparkline_of_the_last_minutes_stands_at_the_end_of_its_hour(bare: Page) -> None:
    drawn = bare.evaluate(SPARKLINE, "0Z")
    assert drawn["points"] == [[[70.8, 20], [72, 4.8]]]
    assert (drawn["dots"], drawn["floors"]) == (1, 1)
    assert bare.evaluate(SPARKLINE, "Z" * 60)["floors"] == 0
    assert bare.evaluate(SPARKLINE, "ZZ-")["gaps"] == 1
    assert bare.evaluate(SPARKLINE, "")["floors"] == 1


HEAT_MAP = """<div class="card"><span class="heatkey"><span>&lt; 5 s</span> <i></i> <span>≥ 30 m</span></span>
<canvas data-plot="queues" data-source="plot-queues" style="display: block; width: 600px; height: 90px"></canvas>
<script type="application/json" id="plot-queues">%s</script></div>"""


@pytest.mark.parametrize(
    ("largest_h", "key"), [(1, "< 5 s ≥ 30 m"), (22, "< 1 m ≥ 6 h"), (60, "< 4 m ≥ 24 h")]
)
def test_a_group_that_is_hours_behind_is_no_wall_of_one_colour(bare: Page, largest_h: int, key: str) -> None:
    hours = [BEGAN + hour * 60 * MINUTE for hour in range(3)]
    values = [[largest_h * 60 * MINUTE // part for part in (1, 5, 100)]]
    bare.set_content(HEAT_MAP % json.dumps({"rows": ["orders · 0"], "times": hours, "values": values}))
    bare.evaluate(
        """() => {
          const { fill } = CanvasRenderingContext2D.prototype;
          window.fills = new Set();
          CanvasRenderingContext2D.prototype.fill = function () { fills.add(this.fillStyle); return fill.call(this); };
          for (let step = 0; step < 7; step++)
            document.documentElement.style.setProperty(`--heat-${step}`, `rgb(${step}, 0, 0)`);
        }"""
    )
    for script in ("figures", "charts", "report_plots"):
        bare.add_script_tag(path=ROOT / "static" / "js" / f"{script}.js")
    bare.wait_for_function("fills.size > 0")
    assert " ".join(bare.locator(".heatkey").inner_text().split()) == key
    assert bare.evaluate("fills.size") == 3
