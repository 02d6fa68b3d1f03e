"""Render every page in light and dark at 1440 and 390 px: `make pages`, then open
`tests/e2e/screenshots/pages/index.html` beside the mock.

Starts its own product with demo traffic, lets it run until there is something to see, makes a plan and a job
on the way, and ends with exit code 1 when a page answers an error, writes to the browser's console or is wider
than the screen.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.browser import launch, sign_in_first_time
from tests.support.product import Product

FOLDER = Path(__file__).parent / "screenshots" / "pages"
THEMES = ("light", "dark")
WIDTHS = {1440: 900, 390: 844}
# Dead letters appear after the demo's three retries; charts want a few minutes of rounds.
WARM_UP_S = 150
FIXED_PAGES = {
    "overview": "/c/local/",
    "topics": "/c/local/topics",
    "topic": "/c/local/topics/orders",
    "groups": "/c/local/groups",
    "group": "/c/local/groups/analytics",
    "offset-change": "/c/local/groups/analytics/offsets",
    "messages": "/c/local/messages?topic=orders",
    "dead-letters": "/c/local/dead-letters",
    "dead-letters-group": "/c/local/dead-letters/notifier",
    "brokers": "/c/local/brokers",
    "operations": "/c/local/operations",
    "reports": "/c/local/reports",
    "report-lag-hour": "/c/local/reports/lag_hour",
    "clusters": "/clusters",
    "activity": "/activity",
}
# Pages whose address only a link knows: name → (page with the link, pattern of its address).
LINKED_PAGES = {
    "message": ("/c/local/messages?topic=orders", r"/messages/[^?]+"),
    "broker": ("/c/local/brokers", r"/brokers/[^/?]+$"),
    "plan": ("/c/local/operations", r"/plans/op-"),
    "job": ("/c/local/operations", r"/operations/job-"),
}


def make_something_to_see(page: Page, product: Product) -> None:
    """A plan that was applied, so that plan and job pages have content; and one hourly report."""
    page.goto(f"{product.url}/c/local/groups/analytics/offsets")
    page.locator("label.choice", has_text="Latest").first.click()
    page.get_by_role("button", name="Make plan").click()
    page.wait_for_url("**/plans/op-*")
    confirm = page.get_by_label("Name of the group")
    if confirm.count():
        confirm.fill("analytics")
    page.get_by_label("Reason, kept in the audit").fill("rendering the pages")
    page.locator("#apply").click()
    page.wait_for_url("**/operations/job-*")
    page.goto(f"{product.url}/c/local/reports")
    run = page.get_by_role("button", name=re.compile("Run hourly lag"))
    if run.count():
        run.first.click()
        page.wait_for_timeout(20_000)


def addresses(page: Page, product: Product) -> dict[str, str]:
    found = dict(FIXED_PAGES)
    for name, (where, pattern) in LINKED_PAGES.items():
        page.goto(product.url + where)
        page.wait_for_timeout(1_000)
        links = page.locator("main a[href]").evaluate_all("links => links.map(a => a.getAttribute('href'))")
        matching = [link for link in links if re.search(pattern, link)]
        if matching:
            found[name] = matching[0]
        else:
            print(f"{name}: no link like {pattern} on {where}")
    return found


def render(browser: Browser, state: Path, product: Product, pages: dict[str, str]) -> list[str]:
    problems: list[str] = []
    for theme in THEMES:
        for width, height in WIDTHS.items():
            context = browser.new_context(
                storage_state=str(state), viewport={"width": width, "height": height}, color_scheme=theme
            )
            page = context.new_page()
            place = [""]
            page.on(
                "console",
                lambda m, place=place: (
                    problems.append(f"{place[0]}: {m.text}") if m.type == "error" else None
                ),
            )
            page.on("pageerror", lambda e, place=place: problems.append(f"{place[0]}: {e}"))
            for name, path in pages.items():
                place[0] = f"{name} {theme} {width}"
                answer = page.goto(product.url + path)
                if answer is None or not answer.ok:
                    problems.append(f"{place[0]}: {path} answered {answer.status if answer else 'nothing'}")
                page.wait_for_timeout(700)
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    problems.append(f"{place[0]}: {wide} px wide")
                page.screenshot(path=FOLDER / f"{name}-{theme}-{width}.png", full_page=True)
            context.close()
    return problems


def write_index(pages: dict[str, str]) -> None:
    rows = [
        f"<h2>{name}</h2>"
        + "".join(
            f'<img loading="lazy" width="{480 if width > 400 else 160}" src="{name}-{theme}-{width}.png">'
            for theme in THEMES
            for width in WIDTHS
        )
        for name in pages
    ]
    (FOLDER / "index.html").write_text("<!doctype html><title>Tidemark, every page</title>" + "".join(rows))


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    data = Path(tempfile.mkdtemp(prefix="tm-pages-")) / "var"
    product = Product(data).start()
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            state = sign_in_first_time(product, browser)
            print(f"letting the demo run for {WARM_UP_S} s", flush=True)
            time.sleep(WARM_UP_S)
            page = browser.new_context(storage_state=str(state)).new_page()
            make_something_to_see(page, product)
            pages = addresses(page, product)
            problems = render(browser, state, product, pages)
            browser.close()
    finally:
        product.stop()
        shutil.rmtree(data.parent, ignore_errors=True)
    write_index(pages)
    print("\n".join(problems) or "no problems", f"\n{len(pages)} pages: {FOLDER / 'index.html'}", sep="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
