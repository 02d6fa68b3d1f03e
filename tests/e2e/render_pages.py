"""Render every page in both languages, light and dark, at 1440 and 390 px, and check each: `make pages`.

    python -m tests.e2e.render_pages [--only REGEX] [--languages zh-hans] [--themes light] [--widths 390]

Starts its own product with demo traffic and a past week of reference history, runs every report, makes plans and a
job while the demo runs, prints what is wrong by rule and by page and ends with exit code 1 when there is something: a
page that answers an error, writes to the browser's console or fails a check of `page_checks`. The pictures are in
`tests/e2e/screenshots/pages`, those of a page side by side in `sheets/<page>.jpg`, all of them in `index.html`. Takes
less than ten minutes on two free cores, and says at the end what each part took; `--only` names pages.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product as pairs
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e import contact_sheets
from tests.e2e.browser import launch, sign_in_first_time
from tests.e2e.page_checks import Finding, Violation, axe_violations, by_page, layout_violations, table
from tests.support import past_week
from tests.support.product import ROOT, Product

FOLDER = Path(__file__).parent / "screenshots" / "pages"
THEMES = ("light", "dark")
WIDTHS = {1440: 900, 390: 844}
LANGUAGES = ("en", "zh-hans")
# Its rules look at structure and colours, which both languages share; it takes longer than all else together.
AXE_LANGUAGE = "en"
# Pages of one browser. Few, so that no core is idle at the end; a browser takes as long to start as half a look.
TOUR_PAGES = 12
# Of each core: a look waits for its page to be drawn a fifth of its time, and the others go on.
TOURS_PER_CORE = 2
PICTURE_QUALITY = 85  # JPEG: PNG takes Chromium twice the time, a quarter of a look
# Dead letters appear after the demo's three retries; charts want a few minutes of rounds.
WARM_UP_S = 150
FIXED_PAGES = {
    "overview": "/c/local/",
    "topics": "/c/local/topics",
    "topics-system": "/c/local/topics?kind=SYSTEM",
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
    "groups-none": "/c/local/groups?q=nobody-is-called-so",
    "clients": "/c/local/clients",
    "clients-none": "/c/local/clients?q=nobody-is-called-so",
    "group": "/c/local/groups/analytics",
    "group-day": "/c/local/groups/analytics?range=24h",
    "group-with-dead-letters": "/c/local/groups/notifier",
    "group-missing": "/c/local/groups/no-such-group",
    "group-pause": "/c/local/groups/analytics/pause",
    "group-mode": "/c/local/groups/analytics/mode",
    "group-create": "/c/local/new-group",
    "group-settings": "/c/local/groups/analytics/settings",
    "group-delete": "/c/local/groups/billing/delete",
    "rebalance": "/c/local/rebalance",
    "rebalance-none": "/c/local/rebalance?q=nobody-is-called-so",
    "rebalance-group": "/c/local/rebalance/analytics",
    "rebalance-difference": "/c/local/rebalance/analytics?view=difference&new=1&strategy=AVG_BY_CIRCLE",
    "offset-change": "/c/local/groups/analytics/offsets",
    "offset-import": "/c/local/groups/analytics/offset-import",
    "client-offsets": "/c/local/groups/analytics/client-offsets",
    "queue-history": "/c/local/groups/analytics/queue-history?topic=clicks&broker=broker-a&queue=0",
    "offset-change-time": "/c/local/groups/analytics/offsets?target=time",
    "offset-change-as-of": "/c/local/groups/analytics/offsets?target=as_of",
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
    "dead-letters-none": "/c/local/dead-letters?q=nobody-is-called-so",
    "dead-letters-group": "/c/local/dead-letters/notifier",
    "dead-letters-empty": "/c/local/dead-letters/billing",
    "brokers": "/c/local/brokers",
    "name-servers": "/c/local/name-servers",
    "operations": "/c/local/operations",
    "operations-none": "/c/local/operations?q=nobody-is-called-so",
    "reports": "/c/local/reports",
    "report-lag-hour": "/c/local/reports/lag_hour",
    "report-lag-hour-queues": "/c/local/reports/lag_hour?grain=queue",
    "report-lag-day": "/c/local/reports/lag_day?span=7d",
    "report-lag-week": "/c/local/reports/lag_week?span=31d",
    "report-episodes": "/c/local/reports/episodes",
    "report-capacity": "/c/local/reports/capacity",
    "report-forecasts": "/c/local/reports/forecast_scorecard?span=7d",
    "report-trend": "/c/local/reports/lag_trend",
    "report-topic-traffic": "/c/local/reports/topic_traffic",
    "report-dead-letter": "/c/local/reports/dead_letter",
    "report-group": "/c/local/reports/groups/analytics",
    "report-group-week": f"/c/local/reports/groups/{past_week.GROUP}?span=7d",
    "clusters": "/clusters",
    "connection": "/c/local/connection",
    "acl": "/c/local/acl",
    "acl-account": "/c/local/acl/account",
    "acl-user": "/c/local/acl/user",
    "acl-white-addresses": "/c/local/acl/white-addresses",
    "fleet": "/fleet",
    "activity": "/activity",
    "activity-none": "/activity?subject=nobody-is-called-so",
    "api-docs": "/api/docs",
    "tokens": "/tokens",
    "password": "/password",
    "missing": "/c/local/topics/no-such-topic",
}
# Made while rendering, and how long one may take.
REPORTS = (
    "lag_hour", "lag_day", "lag_week", "episodes", "capacity", "forecast_scorecard", "lag_trend", "topic_traffic",
    "dead_letter",
)  # fmt: skip
FOR_GROUPS = ("lag_hour", "episodes")  # what the report of one group is made of
REPORT_WITHIN_S = 120
BROKER_TABS = ("config", "topics", "connections", "runtime", "drain")
# Pages that are not there, and say so.
MISSING = {"missing", "group-missing", "message-missing", "messages-refused"}
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
    "plan-group-delete": ("/c/local/groups/billing/delete", {}, "Plan the deletion without quarantine…"),
    "plan-send": ("/c/local/messages/send?topic=orders", {"body": '{"order": 1}'}, "Plan the send…"),
    "plan-broker-config": (
        "/c/local/brokers/{broker}/config",
        {"key": "fileReservedTime", "value": "71"},
        "Make plan…",
    ),
    "plan-drain": ("/c/local/brokers/{broker}?tab=drain", {}, "Plan the drain…"),
    "plan-replay": ("/c/local/dead-letters/notifier", {}, "Plan the replay…"),
}
# Forms that are sent wrong: name → (page, what is filled in by field name). The browser's own checks are left out, so
# that the page's words are seen.
WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "wrong-offset-change": ("/c/local/groups/analytics/offsets", {}),
    "wrong-topic": ("/c/local/new-topic", {"name": "no good name!"}),
    "wrong-group": ("/c/local/new-group", {"name": "no good name!"}),
    "wrong-send": ("/c/local/messages/send?topic=orders", {"properties": "no equals sign"}),
    "wrong-cluster": ("/clusters", {"name": "Not So", "namesrv_addrs": "nowhere"}),
    "wrong-token": ("/tokens", {}),
}
DOOR = "sign-in"  # seen by a stranger
Work, Made = TypeVar("Work"), TypeVar("Made")
DRAWN_MS = 300  # charts are drawn, popovers gone
# A violation is one that is still there after as many looks: a picture may wait for its figures.
LOOKS = 3
ASKED_WITHIN_MS = 20_000  # what a page asks for once it stands


def make_something_to_see(page: Page, product: Product, asked: argparse.Namespace) -> None:
    """A plan that was applied, so that plan and job pages have content; and every report."""
    page.goto(f"{product.url}/c/local/groups/analytics/offsets")
    page.locator("label.choice", has_text="Latest").first.click()
    page.get_by_role("button", name="Make plan…").click()
    page.wait_for_url("**/plans/op-*")
    confirm = page.get_by_label("Name of the group")
    if confirm.count():
        confirm.fill("analytics")
    page.get_by_label("Reason (recorded in the audit)").fill("rendering the pages")
    page.locator("#apply").click()
    page.wait_for_url("**/operations/job-*")
    shown = [path for name, path in FIXED_PAGES.items() if asked.only.search(name)]
    for job in REPORTS:
        wanted = (f"/reports/{job}", "/reports/groups/") if job in FOR_GROUPS else (f"/reports/{job}",)
        if not any(address in path for path in shown for address in wanted):
            continue
        page.goto(f"{product.url}/c/local/reports/{job}")
        run = page.locator(".run button[type=submit]")
        page.get_by_text("Run now…").click()
        # the page shows itself anew when a run has ended, which may abort the answer to the form
        with contextlib.suppress(PlaywrightError), page.expect_navigation():
            run.click()
        expect(run).to_be_enabled(timeout=REPORT_WITHIN_S * 1_000)


def make_plans(page: Page, url: str, broker: str, wanted: re.Pattern[str]) -> dict[str, str]:
    """One plan of every kind that a form makes at once; the addresses of those that could be made."""
    made = {}
    for name, (where, fields, button) in PLANS.items():
        if not wanted.search(name):
            continue
        page.goto(url + where.format(broker=broker))
        try:
            for field, value in fields.items():
                page.locator(f"main [name={field}]").first.fill(value, timeout=5_000)
            page.get_by_role("button", name=button, exact=True).click(timeout=5_000)
            page.wait_for_url("**/plans/op-*", timeout=20_000)
            made[name] = page.url.removeprefix(url)
        except PlaywrightTimeout:
            print(f"{name}: no plan was made at {page.url}")
            page.screenshot(path=FOLDER / f"{name}-not-made.png", full_page=True)
    return made


def addresses(page: Page, url: str, wanted: re.Pattern[str]) -> dict[str, str]:
    """The pages of the product at `url` whose names match, plans made for it among them."""
    found = dict(FIXED_PAGES)
    for name, (where, pattern) in LINKED_PAGES.items():
        page.goto(url + where)
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
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        found["broker-restore"] = f"{found['broker']}/restore?time={now}"
        found |= make_plans(page, url, found["broker"].rsplit("/", 1)[-1], wanted)
    return {name: path for name, path in found.items() if wanted.search(name)}


@dataclass(frozen=True)
class Tour:
    """Some pages once, as one reader in one language and width sees them."""

    url: str
    state: Path
    names: tuple[str, ...]
    pages: dict[str, str]
    themes: tuple[str, ...]
    language: str
    width: int

    def run(self) -> list[Finding]:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            found = list(self.findings(*(self.context(browser, state) for state in (self.state, None))))
            browser.close()
        return found

    def context(self, browser: Browser, state: Path | None) -> BrowserContext:
        context = browser.new_context(
            storage_state=str(state) if state else None,
            viewport={"width": self.width, "height": WIDTHS[self.width]},
            reduced_motion="reduce",  # a colour that fades is measured half-way
        )
        context.add_cookies([{"name": "tidemark_language", "value": self.language, "url": self.url}])
        return context

    def findings(self, signed_in: BrowserContext, stranger: BrowserContext) -> Iterator[Finding]:
        page = signed_in.new_page()
        written = listen(page)
        for name in self.names:
            if name == DOOR:
                door = stranger.new_page()
                told = listen(door)
                door.goto(f"{self.url}/sign-in")
                yield from self.look(door, name, told)
                continue
            if name in WRONG:
                send_wrong(page, self.url, name)
            else:
                answer = page.goto(self.url + self.pages[name])
                if answer is None or answer.ok is (name in MISSING):
                    written.append(Violation("status", self.pages[name], str(answer and answer.status)))
            yield from self.look(page, name, written)

    def look(self, page: Page, name: str, written: list[Violation]) -> Iterator[Finding]:
        """Picture a page that is open in every theme, and check it."""
        for theme in self.themes:
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            violations = [*settled(page), *written]
            written.clear()
            if self.language == AXE_LANGUAGE:
                rules = () if theme == self.themes[0] else ("color-contrast",)
                violations += axe_violations(page, *rules)
            for violation in violations:
                yield Finding(name, f"{theme} {self.width} {self.language}", violation)
            picture = FOLDER / contact_sheets.picture_name(name, theme, self.width, self.language)
            page.screenshot(path=picture, full_page=True, quality=PICTURE_QUALITY)


def listen(page: Page) -> list[Violation]:
    """What a page writes to the browser's console; that a missing page answers 404 is no problem."""
    written: list[Violation] = []

    def listed(message: ConsoleMessage) -> None:
        if message.type == "error" and not re.search("status of 4(00|04|22)", message.text):
            written.append(Violation("console", "", message.text))

    page.on("console", listed)
    page.on("pageerror", lambda error: written.append(Violation("console", "", str(error))))
    return written


def settled(page: Page) -> list[Violation]:
    """The violations of its layout once a page stands."""
    try:
        # no expression: the pages' CSP lets nobody evaluate text
        # the second is of Swagger UI
        page.locator(".is-waiting, .loading-container").first.wait_for(
            state="detached", timeout=ASKED_WITHIN_MS
        )
    except PlaywrightTimeout:
        return [Violation("waits", ".is-waiting", f"for figures after {ASKED_WITHIN_MS} ms")]
    violations = []
    for _ in range(LOOKS):
        page.wait_for_timeout(DRAWN_MS)
        try:
            violations = layout_violations(page)
        except PlaywrightError as error:  # a report that ends meanwhile shows its page anew
            violations = [Violation("reloads", page.url, str(error))]
            page.wait_for_load_state()
        if not violations:
            break
    return violations


def send_wrong(page: Page, url: str, name: str) -> None:
    """Send a form past the browser's own checks."""
    where, fields = WRONG[name]
    page.goto(url + where)
    page.evaluate("for (const form of document.forms) form.noValidate = true")
    for field, value in fields.items():
        page.locator(f"main [name={field}]").first.fill(value)
    page.locator("main button.btn--primary[type=submit]").last.click()
    page.wait_for_load_state()


def with_browser(work: Callable[[Browser], None]) -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        work(browser)
        browser.close()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", type=re.compile, default=re.compile(""), help="names of pages, a regular expression"
    )
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--themes", nargs="+", choices=THEMES, default=THEMES)
    parser.add_argument("--widths", nargs="+", type=int, choices=sorted(WIDTHS), default=tuple(WIDTHS))
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, metavar="SECONDS", help="of demo traffic")
    return parser.parse_args()


def a_past(product: Product) -> None:
    """In a process of its own: it reads the product's settings."""
    command = [sys.executable, "-m", "tests.support.past_week", str(product.data)]
    subprocess.run(command, cwd=ROOT, check=True)


def prepare(product: Product, asked: argparse.Namespace) -> tuple[Path, dict[str, str]]:
    """Sign in, give the product something to show; the session and the addresses of the pages."""
    started = time.monotonic()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        state = sign_in_first_time(product, browser)
        a_past(product)
        page = browser.new_context(storage_state=str(state)).new_page()
        make_something_to_see(page, product, asked)
        left = max(0.0, started + asked.warm_up - time.monotonic())
        print(f"letting the demo run for {left:.0f} s more", flush=True)
        time.sleep(left)
        pages = addresses(page, product.url, asked.only)
        browser.close()
    return state, pages


def tours(product: Product, state: Path, pages: dict[str, str], asked: argparse.Namespace) -> list[Tour]:
    """Return all pages in every language and width, a few in each tour; those that take longest first."""
    names = [*pages, *(name for name in (*WRONG, DOOR) if asked.only.search(name))]
    some = [tuple(names[at : at + TOUR_PAGES]) for at in range(0, len(names), TOUR_PAGES)]
    languages = sorted(asked.languages, key=lambda language: language != AXE_LANGUAGE)
    return [
        Tour(product.url, state, part, pages, tuple(asked.themes), language, width)
        for language, part, width in pairs(languages, some, asked.widths)
    ]


def at_once(work: Callable[[Work], Made], parts: Sequence[Work]) -> list[Made]:
    """Do parts in processes of their own, and print how long it took. A fork would share Playwright's event loop."""
    started = time.monotonic()
    workers = min(len(parts), TOURS_PER_CORE * (os.cpu_count() or 1)) or 1
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        made = list(pool.map(work, parts))
    print(f"  in {time.monotonic() - started:.0f} s", flush=True)
    return made


def render(product: Product, state: Path, pages: dict[str, str], asked: argparse.Namespace) -> list[Finding]:
    every = tours(product, state, pages, asked)
    print(f"{sum(len(one.names) * len(one.themes) for one in every)} looks", flush=True)
    return [finding for found in at_once(Tour.run, every) for finding in found]


def draw_sheets(of_pages: dict[str, list[str]]) -> int:
    """Write the sheets of all pages and their index; return the number of pages."""
    sheets = contact_sheets.sheets(FOLDER, of_pages)
    shares = [dict(list(sheets.items())[at::TOUR_PAGES]) for at in range(min(TOUR_PAGES, len(sheets)))]
    print(f"{len(sheets)} sheets", flush=True)
    at_once(with_browser, [partial(contact_sheets.draw, FOLDER, share) for share in shares])
    contact_sheets.write_index(FOLDER, sheets)
    return len(sheets)


def main() -> int:
    asked = options()
    started = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    data = Path(tempfile.mkdtemp(prefix="tm-pages-")) / "var"
    product = Product(data).start()
    try:
        state, pages = prepare(product, asked)
        print(f"prepared in {time.monotonic() - started:.0f} s", flush=True)
        findings = render(product, state, pages, asked)
    finally:
        product.stop()
        shutil.rmtree(data.parent, ignore_errors=True)
    of_pages = by_page(findings)
    count = draw_sheets(of_pages)
    wrong, accepted = table(findings)
    print(wrong or "no violations")
    for name, lines in of_pages.items():
        print(f"{name}: {'; '.join(lines)}")
    print(f"{accepted} accepted (page_checks.ACCEPTED); {count} pages in {time.monotonic() - started:.0f} s")
    print(
        f"{FOLDER / contact_sheets.FOLDER}: a picture of each page in every look; all: {FOLDER / 'index.html'}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
