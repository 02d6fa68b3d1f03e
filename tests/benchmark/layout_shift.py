"""Whether anything jumps: part `layout_shift` of `page_speed`, at 1440 and 390 px.

Every live page of the demo in Chromium, and its layout shift (sum of the browser's `layout-shift` entries, those after
an input left out): `load`, until a second after the page stands, and `live`, while rounds come. Windows are as tall as
the pages, so that parts below the fold count too. Goals: below 0.05 at load; below 0.0005 live, the floor being 0: an
age within a sentence moves the words after it by a digit, everything else stays. The tail is told and not judged: its
newest message stands on top. `moved` names what moved, and by how many pixels, largest first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

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
SETTLED_MS = 1_000
MOVED_MAX = 3
LOAD_BELOW, LIVE_BELOW = 0.05, 0.0005
MOVES = {"tail"}
WATCH = r"""
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    const what = entry.sources.filter(({ node }) => node).map(({ node, previousRect: from, currentRect: to }) => {
      const one = node.nodeType === 3 ? node.parentElement : node;
      const name = `<${one.localName} class="${one.className?.baseVal ?? one.className}">`,
        text = one.textContent.trim().replace(/\s+/g, " ").slice(0, 24);
      return `${name} ${text} by ${to.x - from.x}, ${to.y - from.y}`;
    });
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
    """Open all pages in windows of their own, then watch them together: by name and width."""
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
        results[name] |= {"live": total(shifts), "live_moved": moved(shifts), "may_move": name in MOVES}
    context.close()
    return {f"{name} {width} px": shifts for name, shifts in results.items()}
