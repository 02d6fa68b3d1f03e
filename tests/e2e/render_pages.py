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
from playwright.sync_api import TimeoutError as PlaywrightTimeout

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
    "topics-none": "/c/local/topics?q=nobody-is-called-so",
    "topic": "/c/local/topics/orders",
    "topic-groups": "/c/local/topics/orders?tab=groups",
    "topic-producers": "/c/local/topics/orders?tab=producers",
    "topic-config": "/c/local/topics/orders?tab=config",
    "topic-activity": "/c/local/topics/orders?tab=activity",
    "topic-create": "/c/local/new-topic",
    "topic-change": "/c/local/topics/orders/change",
    "topic-delete": "/c/local/topics/clicks/delete",
    "groups": "/c/local/groups",
    "group": "/c/local/groups/analytics",
    "group-create": "/c/local/new-group",
    "group-settings": "/c/local/groups/analytics/settings",
    "group-delete": "/c/local/groups/billing/delete",
    "offset-change": "/c/local/groups/analytics/offsets",
    "messages-ask": "/c/local/messages",
    "messages": "/c/local/messages?topic=orders",
    "messages-found": "/c/local/messages?topic=orders&find=order",
    "messages-none": "/c/local/messages?topic=orders&find=no-such-text",
    "messages-tail": "/c/local/messages?topic=orders&read=tail",
    "messages-refused": "/c/local/messages?topic=no-such-topic",
    "message-missing": "/c/local/messages/00000000000000000000000000000000",
    "message-send": "/c/local/messages/send?topic=orders",
    "message-schema": "/c/local/messages/schema?topic=orders",
    "dead-letters": "/c/local/dead-letters",
    "dead-letters-group": "/c/local/dead-letters/notifier",
    "brokers": "/c/local/brokers",
    "name-servers": "/c/local/name-servers",
    "operations": "/c/local/operations",
    "reports": "/c/local/reports",
    "report-lag-hour": "/c/local/reports/lag_hour",
    "report-episodes": "/c/local/reports/episodes",
    "report-group": "/c/local/reports/groups/analytics",
    "clusters": "/clusters",
    "activity": "/activity",
    "tokens": "/tokens",
    "password": "/password",
    "missing": "/c/local/topics/no-such-topic",
}
# Made while rendering, and how long one may take.
REPORTS = ("lag_hour", "episodes")
REPORT_WITHIN_S = 60
BROKER_TABS = ("config", "topics", "connections", "runtime", "drain")
# Pages that are not there, and say so.
MISSING = {"missing", "message-missing", "messages-refused"}
# Pages whose address only a link knows: name → (page with the link, pattern of its address).
LINKED_PAGES = {
    "message": ("/c/local/messages?topic=orders", r"/messages/[0-9A-F]{8,}"),
    "broker": ("/c/local/brokers", r"/brokers/[^/?]+$"),
    "client": ("/c/local/groups/analytics?tab=clients", r"/clients/"),
    "job": ("/c/local/operations", r"/operations/job-"),
}
# Plans no one applies: name → (page of the form, what is filled in by field name, the form's button).
PLANS: dict[str, tuple[str, dict[str, str], str]] = {
    "plan-topic-create": ("/c/local/new-topic", {"name": "pictures"}, "Make plan…"),
    "plan-topic-change": (
        "/c/local/topics/orders/change",
        {"write_queues": "12", "read_queues": "12"},
        "Make plan…",
    ),
    "plan-topic-quarantine": ("/c/local/topics/clicks/delete", {}, "Plan the quarantine…"),
    "plan-group-create": ("/c/local/new-group", {"name": "painters"}, "Make plan…"),
    "plan-group-settings": ("/c/local/groups/analytics/settings", {"retry_max_times": "5"}, "Make plan…"),
    "plan-group-delete": ("/c/local/groups/billing/delete", {}, "Plan it without waiting…"),
    "plan-send": ("/c/local/messages/send?topic=orders", {"body": '{"order": 1}'}, "Plan the send…"),
    "plan-broker-config": (
        "/c/local/brokers/{broker}/config",
        {"key": "fileReservedTime", "value": "71"},
        "Make plan…",
    ),
    "plan-drain": ("/c/local/brokers/{broker}?tab=drain", {}, "Make drain plan…"),
    "plan-replay": ("/c/local/dead-letters/notifier", {}, "Make a replay plan…"),
}


def make_something_to_see(page: Page, product: Product) -> None:
    """A plan that was applied, so that plan and job pages have content; and two reports."""
    page.goto(f"{product.url}/c/local/groups/analytics/offsets")
    page.locator("label.choice", has_text="Latest").first.click()
    page.get_by_role("button", name="Make plan…").click()
    page.wait_for_url("**/plans/op-*")
    confirm = page.get_by_label("Name of the group")
    if confirm.count():
        confirm.fill("analytics")
    page.get_by_label("Reason, kept in the audit").fill("rendering the pages")
    page.locator("#apply").click()
    page.wait_for_url("**/operations/job-*")
    for job in REPORTS:
        page.goto(f"{product.url}/c/local/reports/{job}")
        run = page.get_by_role("button", name=re.compile("^Run "))
        run.click()
        for _ in range(REPORT_WITHIN_S // 2):
            page.wait_for_timeout(2_000)
            page.reload()
            if run.is_enabled():
                break


def make_plans(page: Page, product: Product, broker: str) -> dict[str, str]:
    """One plan of every kind that a form makes at once; the addresses of those that could be made."""
    made = {}
    for name, (where, fields, button) in PLANS.items():
        page.goto(product.url + where.format(broker=broker))
        try:
            for field, value in fields.items():
                page.locator(f"main [name={field}]").first.fill(value, timeout=5_000)
            page.get_by_role("button", name=button, exact=True).click(timeout=5_000)
            page.wait_for_url("**/plans/op-*", timeout=20_000)
            made[name] = page.url.removeprefix(product.url)
        except PlaywrightTimeout:
            print(f"{name}: no plan was made at {page.url}")
            page.screenshot(path=FOLDER / f"{name}-not-made.png", full_page=True)
    return made


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
    if "broker" in found:
        found |= {f"broker-{tab}": f"{found['broker']}?tab={tab}" for tab in BROKER_TABS}
        found["broker-change"] = f"{found['broker']}/config?key=fileReservedTime"
        found |= make_plans(page, product, found["broker"].rsplit("/", 1)[-1])
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
                    problems.append(f"{place[0]}: {m.text}")
                    if m.type == "error" and "404" not in m.text
                    else None
                ),
            )
            page.on("pageerror", lambda e, place=place: problems.append(f"{place[0]}: {e}"))
            for name, path in pages.items():
                place[0] = f"{name} {theme} {width}"
                answer = page.goto(product.url + path)
                if answer is None or answer.ok is (name in MISSING):
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
