"""Nothing moves while one looks: findings come and go, and the rest of the page stays where it was."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from console.group.findings import Finding
from console.lag.models import GroupRow
from console.text import Text
from tests.e2e.test_newcomer import PATIENCE_MS, group_row
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CARD = re.compile(r'<section class="card"[^>]* data-room="findings">.*?</section>', re.DOTALL)
WORST = "No client reads 4 queues"
# Where everything stands but what is within the card of findings.
PLACES = """() => [...document.querySelectorAll("main :is(h1, .stats, .card, .tabs, .tablewrap)")]
  .map((one) => [one.id || one.className, Math.round(one.getBoundingClientRect().top + scrollY)])"""
ALL = "#all-findings"


def card_of(count: int) -> str:
    """The card with so many findings, the worst first."""
    found = [
        Finding(
            "STALLED" if not at else "FALLING_BEHIND",
            Text(WORST) if not at else Text("Out is below in"),
            Text("Why."),
        )
        for at in range(count)
    ]
    row = GroupRow(group="analytics", status="OK", read_at_ms=1)
    part = CARD.search(
        render_to_string("group/_findings.html", {"findings": found, "row": row, "queue_count": 1})
    )
    assert part
    return part.group()


class Answers:
    """The part of a page with its findings, as the console gives it, with `count` findings."""

    def __init__(self, page: Page, part: str) -> None:
        self.page, self.count = page, 0
        page.route(re.compile(re.escape(part) + "$"), self._answer)

    def _answer(self, route: Route) -> None:
        answer = route.fetch()
        html, cards = CARD.subn(card_of(self.count), answer.text())
        assert cards == 1
        route.fulfill(response=answer, body=html.replace("<section", f'<section data-told="{self.count}"', 1))

    def tell(self, count: int) -> None:
        self.count = count
        self.page.locator(f'[data-told="{count}"]').wait_for(state="attached")


@pytest.mark.parametrize(
    ("path", "part", "width"),
    [
        ("groups/analytics", "part=findings", 1440),
        ("groups/analytics", "part=findings", 390),
        ("topics/orders", "part=figures", 390),
        ("brokers/broker-a", "part=1", 1440),
        ("rebalance/analytics", "part=now", 1440),
        ("", "part=1", 1440),
    ],
)
def test_findings_come_and_go_and_nothing_else_moves(
    page: Page, product: Product, path: str, part: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{product.url}/c/local/groups?q=analytics")
    expect(group_row(page, "analytics")).to_be_visible(timeout=PATIENCE_MS)
    answers = Answers(page, part)
    page.goto(f"{product.url}/c/local/{path}")
    # in the first seconds of a product a third line says so
    expect(page.locator(".stats").first).not_to_contain_text("never committed", timeout=PATIENCE_MS)
    places = page.evaluate(PLACES)
    answers.tell(0)
    assert page.evaluate(PLACES) == places
    answers.tell(9)
    assert page.evaluate(PLACES) == places
    worst = page.locator("[data-room=findings] h3:visible").first
    expect(worst).to_have_text(WORST)
    page.locator(ALL).click()
    expect(page.locator("[data-room=findings] li:visible")).to_have_count(9)
    opened = page.evaluate(PLACES)
    assert opened != places
    answers.tell(10)
    assert page.evaluate(PLACES) == opened
    expect(worst).to_have_text(WORST)
    expect(page.locator(ALL)).to_have_text("Show 10 findings")


def test_a_top_list_is_as_high_as_its_rows_and_never_lower_again(page: Page, product: Product) -> None:
    def emptied(route: Route) -> None:
        answer = route.fetch()
        html = re.sub(
            r'(<section[^>]* data-room="grows".*?)<table.*?</table>', r"\1<i></i>", answer.text(), flags=re.S
        )
        route.fulfill(response=answer, body=html)

    address = f"{product.url}/c/local/"
    lists = page.locator("[data-room=grows]")
    page.goto(address)
    while not lists.locator("tbody tr").count():
        page.wait_for_timeout(1000)
        page.reload()
    drawn = lists.first.bounding_box()
    page.route(re.compile(re.escape(address) + r"\?part=1$"), emptied)
    expect(lists.locator("i").first).to_be_attached()
    kept = lists.first.bounding_box()
    page.evaluate(
        "document.querySelectorAll('[data-room=grows]').forEach((one) => one.removeAttribute('style'))"
    )
    low = lists.first.bounding_box()
    assert drawn and kept and low and kept["height"] >= drawn["height"] > low["height"]
    assert low["height"] < 100


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("path", ["", "groups"])
def test_a_late_banner_covers_nothing_of_the_foot(
    page: Page, product: Product, path: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 400})
    page.goto(f"{product.url}/c/local/{path}")
    covered = page.locator("main .banners").first.evaluate("""(banner) => {
      banner.hidden = true;
      const words = "broker-b has not answered since then. ".repeat(5);
      banner.innerHTML = `<div class="banner"><div>${words}</div></div>`;
      banner.classList.add("is-late");
      scrollTo(0, document.documentElement.scrollHeight);
      const last = [...document.querySelectorAll("main :is(.card, .stats, p)")]
        .map((one) => one.getBoundingClientRect().bottom);
      return Math.max(...last) - banner.getBoundingClientRect().top;
    }""")
    assert covered <= 0


def test_a_status_that_appears_and_rows_that_move_push_nothing(page: Page, product: Product) -> None:
    """Chips stay where they are, a new one comes behind them; that rows have moved is said over the list."""
    # where the line has no room a chip waits for the next page
    page.set_viewport_size({"width": 1920, "height": 900})
    sockets: list[WebSocketRoute] = []
    counted: list[str] = []

    def connect(socket: WebSocketRoute) -> None:
        """The first counts of the console come through, then those of the test and no rows but its own."""
        sockets.append(socket)
        server = socket.connect_to_server()

        def forward(message: str | bytes) -> None:
            text = str(message)
            if "/groups" in text or ("/counts" in text and counted):
                return
            socket.send(message)
            if "/counts" in text:
                counted.append(text)

        server.on_message(forward)

    page.route_web_socket("**/ws/live", connect)
    page.goto(f"{product.url}/c/local/groups?sort=lag")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not counted:
        assert time.monotonic() < deadline
        page.wait_for_timeout(100)
    hidden = page.locator(".chip[hidden]").first
    status = hidden.locator("[data-chip]").get_attribute("data-chip")
    chips = r"""() => [...document.querySelectorAll("form .chip:not([hidden])")]
      .map((one) => [one.textContent.replace(/\d/g, "").trim(), Math.round(one.getBoundingClientRect().x)])"""
    before, places = page.evaluate(chips), page.evaluate(PLACES)
    tell(sockets[-1], "counts", {"groups": {"ALL": 1, str(status): 1}})
    tell(sockets[-1], "groups", {"analytics": {"lag": 1}, "shipping": {"lag": 2}})
    expect(page.locator(f"[data-chip={status}]")).to_be_visible()
    expect(page.locator("[data-moved]")).to_contain_text("have moved")
    after = page.evaluate(chips)
    for (text, x), (text_after, x_after) in zip(before, after[: len(before)], strict=True):
        assert text == text_after and abs(x - x_after) <= 1  # parts of a pixel round either way
    assert page.evaluate(PLACES) == places


def tell(socket: WebSocketRoute, subject: str, rows: dict[str, dict[str, Any]], seq: int = 10**15) -> None:
    message = {"subject": f"c/local/{subject}", "seq": seq, "at_ms": 0, "full": False, "rows": rows}
    socket.send(json.dumps(message))


MANY = 9_204_118
FAST = 99_999
SILENT = {"partial": True, "status": "UNKNOWN", "reason": "broker-a did not answer", "known_at_ms": 1}
# Whatever a round may say of a row: nothing known, or figures as large as they get and only lower bounds.
FIGURES = {
    "groups": ["lag", "time_lag_ms", "filtered_lag", "in_rate", "out_rate", "drain_ms", "dlq_count"],
    "topics": ["messages", "worst_time_lag_ms", "in_rate", "out_rate", "retained_ms"],
    "groups/analytics": ["lag", "time_lag_ms", "in_flight", "available"],
    "topics/orders": ["lag", "time_lag_ms", "out_rate"],
}
SUBJECTS = {"groups/analytics": "group/analytics", "topics/orders": "groups"}
ROUNDS = {
    "silent": (None, {**SILENT, "clients": None, "known_lag": MANY, "known_messages": MANY}),
    "large": (
        MANY,
        {
            **dict.fromkeys(["in_rate", "out_rate"], FAST),
            "partial": True,
            "status": "NEVER_COMMITTED",
            "clients": 0,
            "offline_since_ms": 1,
        },
    ),
    "calm": (0, {"partial": False, "status": "OK", "clients": 1, "drain_never": True}),
}
# Where heads and rows stand, and whether a head or figure is cut or the table is wider than its card.
GRID = """() => {
  const table = [...document.querySelectorAll("main table.dt--steady")].at(-1),
    cut = (cell) => cell.offsetWidth && cell.scrollWidth > cell.clientWidth,
    heads = [...table.tHead.rows[0].cells].filter((head) => head.offsetWidth);
  return [
    heads.map((head) => [head.dataset.column, head.getBoundingClientRect().x]),
    [...table.querySelectorAll("[data-key]")].map((row) => row.offsetTop),
    [...table.querySelectorAll("thead th, tbody > :not(.part) > *")].filter(cut).map((cell) => cell.innerText),
    table.offsetWidth > table.parentElement.clientWidth,
  ];
}"""


@pytest.mark.parametrize("width", [1920, 1440, 1280, 1024, 390])
@pytest.mark.parametrize("path", list(FIGURES))
def test_columns_and_rows_keep_their_places(page: Page, product: Product, path: str, width: int) -> None:
    """Whatever a round says; a list keeps within its card."""
    subject = SUBJECTS.get(path, path)
    page.set_viewport_size({"width": width, "height": 900})
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda text: None if f"/{subject}" in str(text) else socket.send(text))

    page.route_web_socket("**/ws/live", connect)
    page.goto(f"{product.url}/c/local/groups?q=analytics")
    expect(group_row(page, "analytics")).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{product.url}/c/local/{path}")
    rows = page.locator("main .dt--steady > tbody > [data-key]")
    keys = rows.evaluate_all("(rows) => rows.map((row) => row.dataset.key)")
    if width == 390:
        # a long figure beside it leaves no room for one line
        long = "link => link.firstChild.data = 'orders-of-all-regions-and-partners-2'"
        rows.first.locator("a.primary").evaluate(long)
    places = page.evaluate(GRID)
    assert places[2:] == [[], False]
    field = FIGURES[path][0]
    for seq, (value, others) in enumerate(ROUNDS.values(), 10**15):
        row = {**dict.fromkeys(FIGURES[path], value), **others}
        drawn = rows.first.inner_text()
        tell(sockets[-1], subject, dict.fromkeys(keys, row), seq)
        page.wait_for_function(
            f"(old) => document.querySelector('tbody [data-field={field}]').closest('tr').innerText !== old",
            arg=drawn,
        )
        assert page.evaluate(GRID) == places


@pytest.mark.parametrize("width", [1920, 1440, 1280, 1024, 390])
def test_groups_of_a_topic_keep_their_columns(page: Page, product: Product, width: int) -> None:
    """The card of them comes anew every few seconds."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{product.url}/c/local/topics/orders?tab=groups")
    places = page.evaluate(GRID)
    assert places[2:] == [[], False]
    for words in ("0", "≥ 9,204,118"):
        write = "document.querySelectorAll('main [data-part] .dt--steady td').forEach((one) => one.textContent = words)"
        assert page.evaluate(f"(words) => {{ {write}; return ({GRID})(); }}", words)[0] == places[0]


NEVER_OPENS = """window.WebSocket = class extends EventTarget {
  static OPEN = 1;
  readyState = 0;
  close() {}
}"""


def test_a_page_that_is_still_coming_has_its_columns(page: Page, product: Product) -> None:
    def cut(route: Route) -> None:
        answer = route.fetch()
        before, columns, within = answer.text().partition("cols--side")
        route.fulfill(response=answer, body=before + columns + within.partition("<aside")[0])

    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, "analytics")).to_be_visible()
    address = f"{product.url}/c/local/groups/analytics/offsets"
    page.add_init_script(NEVER_OPENS)
    page.route(address, cut)
    page.goto(address)
    columns = page.locator(".cols--side").evaluate("one => getComputedStyle(one).gridTemplateColumns")
    assert len(columns.split()) == 2


def test_a_page_has_its_bar_before_its_scripts_and_its_socket(page: Page, product: Product) -> None:
    page.add_init_script(NEVER_OPENS)
    answer = page.goto(f"{product.url}/c/local/topics")
    assert answer and re.search(r"data-clock><time [^>]+>\d\d:\d\d:\d\d</time> <span[^>]*>UTC", answer.text())
    live = page.locator("[data-do=live] [data-live-word]")
    page.wait_for_timeout(1_500)  # its age has ticked
    expect(live).to_have_text("Live")
