"""Whether anything jumps: `python -m tests.benchmark.layout_shift [--seconds 20] [--url http://… --state FILE]`.

Starts the whole product with demo traffic, opens every live page in Chromium at 1440 and 390 px and prints the layout
shift (sum of the browser's `layout-shift` entries, those after an input left out) as JSON: `load`, until a second after
the page stands, and `live`, while rounds come. Windows are as tall as the pages, so that parts below the fold count
too. Goals: below 0.05 at load; below 0.0005 live, the floor being 0: an age within a sentence moves the words after it
by a digit, everything else stays. The tail is told and not judged: its newest message stands on top. `moved` names what
moved, largest first. `--url` with a Playwright storage state measures a product that runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.browser import launch, sign_in_first_time
from tests.support.product import Product

PAGES = {
    "overview": "/c/local/",
    "topics": "/c/local/topics",
    "topic": "/c/local/topics/orders",
    "topic groups": "/c/local/topics/orders?tab=groups",
    "groups": "/c/local/groups",
    "group": "/c/local/groups/analytics",
    "brokers": "/c/local/brokers",
    "broker": "/c/local/brokers/broker-a",
    "broker runtime": "/c/local/brokers/broker-a?tab=runtime",
    "dead letters": "/c/local/dead-letters",
    "dead letters of a group": "/c/local/dead-letters/notifier",
    "tail": "/c/local/messages?topic=orders&read=tail",
    "operations": "/c/local/operations",
    "reports": "/c/local/reports",
    "clusters": "/clusters",
}
SIZES = {1440: 2600, 390: 3600}
WARM_UP_S = 45  # a few rounds: columns and sparklines exist, dead letters come
SETTLED_MS = 1_000
MOVED_MAX = 3
LOAD_BELOW, LIVE_BELOW = 0.05, 0.0005
MOVES = {"tail"}
WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    const what = entry.sources.map(({ node }) => (node?.nodeType === 3 ? node.parentElement : node))
      .filter(Boolean).map((node) => `<${node.localName} class="${node.className?.baseVal ?? node.className}">`);
    window.shifts.push({ value: entry.value, what });
  }
}).observe({ type: "layout-shift", buffered: true });
"""


def taken(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("window.shifts.splice(0)")
    return found


def total(shifts: list[dict[str, Any]]) -> float:
    return round(sum(shift["value"] for shift in shifts), 5)


def moved(shifts: list[dict[str, Any]]) -> list[str]:
    worst = sorted(shifts, key=lambda shift: -shift["value"])[:MOVED_MAX]
    return [f"{shift['value']:.5f} {' '.join(shift['what'][:MOVED_MAX])}" for shift in worst]


def measure(browser: Browser, url: str, state: Path, width: int, seconds: float) -> dict[str, Any]:
    """Open all pages in windows of their own, then watch them together."""
    context = browser.new_context(storage_state=str(state), viewport={"width": width, "height": SIZES[width]})
    context.add_init_script(WATCH)
    pages, results = {}, {}
    for name, path in PAGES.items():
        page = pages[name] = context.new_page()
        page.goto(url + path)
        page.wait_for_timeout(SETTLED_MS)
        shifts = taken(page)
        results[name] = {"load": total(shifts), "load_moved": moved(shifts)}
    for page in pages.values():
        taken(page)
    page.wait_for_timeout(seconds * 1000)
    for name, page in pages.items():
        shifts = taken(page)
        results[name] |= {"live": total(shifts), "live_moved": moved(shifts)}
    context.close()
    return {
        "pages": results,
        "load_max": max(result["load"] for result in results.values()),
        "live_max": max(result["live"] for name, result in results.items() if name not in MOVES),
    }


def report(url: str, state: Path, browser: Browser, seconds: float) -> bool:
    found = {f"{width} px": measure(browser, url, state, width, seconds) for width in SIZES}
    load_max = max(each["load_max"] for each in found.values())
    live_max = max(each["live_max"] for each in found.values())
    goals = {"load_below": LOAD_BELOW, "load_max": load_max, "live_below": LIVE_BELOW, "live_max": live_max}
    json.dump({"seconds": seconds, "goals": goals, **found}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return load_max < LOAD_BELOW and live_max < LIVE_BELOW


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--url", help="a product that runs already")
    parser.add_argument("--state", type=Path, help="the signed-in browser's storage state for --url")
    asked = parser.parse_args()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if asked.url:
            return 0 if report(asked.url, asked.state, browser, asked.seconds) else 1
        with tempfile.TemporaryDirectory(prefix="tidemark-shift-") as scratch:
            product = Product(Path(scratch) / "var").start()
            try:
                state = sign_in_first_time(product, browser)
                time.sleep(WARM_UP_S)
                return 0 if report(product.url, state, browser, asked.seconds) else 1
            finally:
                product.stop()


if __name__ == "__main__":
    sys.exit(main())
