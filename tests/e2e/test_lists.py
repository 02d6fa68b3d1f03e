"""Lists: a row opens in place without a mouse, and the columns one chose are there on another machine."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, WebSocket, expect

from brokerd.remoting.body.topic import TopicConfig
from console.brokers.mqadmin import Connection, SubscriptionGroupConfig, close_admins, with_admin
from tests.e2e.browser import PASSWORD
from tests.e2e.test_newcomer import PATIENCE_MS, group_row
from tests.support.product import ROOT, Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_row_opens_and_closes_by_keys(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups?sort=group&dir=asc")
    expect(group_row(page, "analytics")).to_be_visible()
    detail = page.locator("tr.detail:not([hidden])")
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(detail.get_by_role("rowheader", name="broker-a · 0").first).to_be_visible()
    page.keyboard.press("o")
    expect(detail).to_have_count(0)
    page.get_by_role("button", name="Queues of analytics").focus()
    page.keyboard.press("Enter")
    expect(detail).to_have_count(1)
    expect(detail).to_contain_text("clicks")


def test_an_opened_row_draws_the_trend_that_the_width_hides(page: Page, product: Product) -> None:
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(f"{product.url}/c/local/groups?sort=group&dir=asc")
    expect(group_row(page, "analytics")).to_be_visible()
    expect(page.locator("th[data-column=trend]")).to_be_hidden()
    # a live update would replace a trend that stayed blank
    page.locator("[data-do=live]").click()
    expect(page.locator("[data-do=live]")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Queues of analytics").click()
    page.wait_for_function(
        """() => {
          const svg = document.querySelector("tr.detail .kv--row [data-trend]");
          return svg?.getBoundingClientRect().width > 0 && svg.querySelector("circle");
        }"""
    )


def test_clients_and_their_lag_are_shown_again_behind_a_round(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/clients?sort=lag&dir=desc")
    expect(page.get_by_role("link", name="analytics")).to_be_visible()
    first = page.locator("[data-rows] tr").first.element_handle()
    page.get_by_role("link", name="analytics").focus()
    with page.expect_response(lambda answer: "/ws/" not in answer.url) as renewed:
        page.evaluate("document.activeElement.blur()")
    assert renewed.value.url.endswith("/clients?sort=lag&dir=desc")
    assert renewed.value.request.headers["x-tidemark-timer"] == "1"
    page.wait_for_function("row => !row.isConnected", arg=first)
    expect(page.get_by_role("link", name="analytics")).to_be_visible()


def test_an_empty_list_shows_its_first_row(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups?q=night-shift")
    expect(page.get_by_role("heading", name="0 of")).to_be_visible()
    admin = with_admin(Connection(product.namesrv))
    addr = admin.cluster_info().broker_addr_table["broker-a"].master_addr
    assert addr is not None
    admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name="night-shift"))
    expect(page.get_by_role("link", name="night-shift", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    admin.delete_subscription_group(addr, "night-shift", clean_offset=True)
    close_admins()


def test_a_page_that_agrees_with_its_round_is_not_fetched_again(
    context: BrowserContext, product: Product
) -> None:
    """Pages with a banner about brokers, and the list of brokers, while all answer."""
    young = context.new_page()
    young.goto(f"{product.url}/c/local/groups")
    group_row(young, "analytics").get_by_role("link", name="analytics").click()
    # a young product makes queues, and the page shows them
    expect(young.locator("#queues-total")).to_have_text("10", timeout=PATIENCE_MS)
    young.close()
    rounds: dict[str, list[str]] = {}
    again: list[str] = []
    for path in ("brokers", "topics", "groups/analytics", "operations"):
        tab, address, received = (
            context.new_page(),
            f"{product.url}/c/local/{path}",
            rounds.setdefault(path, []),
        )
        tab.on(
            "websocket",
            lambda socket, into=received: socket.on("framereceived", lambda frame: into.append(str(frame))),
        )
        tab.goto(address)
        tab.on("request", lambda request, of=address: again.append(of) if request.url == of else None)
    deadline = time.monotonic() + PATIENCE_MS / 1000
    # what a page began with, and two rounds after it
    while any(sum("/collector" in frame for frame in frames) < 3 for frames in rounds.values()):
        assert time.monotonic() < deadline, {path: len(frames) for path, frames in rounds.items()}
        tab.wait_for_timeout(200)
    for open_tab in context.pages:
        open_tab.close()
    assert again == []


def test_details_of_activity_without_a_table_are_no_error(page: Page, product: Product) -> None:
    """The events of a new product: a sign-in has a line of text."""
    page.goto(f"{product.url}/activity")
    expect(page.locator("tbody tr", has_text="Signed in with a link").first).to_be_visible()
    # what observes the widths has run once a frame is drawn
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def test_what_opens_an_event_takes_no_line_of_its_own_on_a_phone(page: Page, product: Product) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{product.url}/activity")
    heights = page.locator("tbody tr", has_text="Signed in with a link").first.evaluate("""(row) => {
      const before = row.offsetHeight;
      row.querySelector(".open").innerHTML = '<button class="expander" type="button"></button>';
      row.querySelector(".s4").textContent = "local";
      const [button, cluster] = [".expander", ".s4"].map((one) => row.querySelector(one).getBoundingClientRect());
      return [row.offsetHeight - before, cluster.right <= button.left + 8];
    }""")
    assert heights[0] <= 12 and heights[1], heights


def test_a_long_name_begins_beside_what_opens_its_row(page: Page, product: Product) -> None:
    """A name without a place to break, such as RMQ_SYS_TRANS_OP_HALF_TOPIC, began below it."""
    page.goto(f"{product.url}/c/local/topics?kind=SYSTEM")
    expect(page.locator("[data-details] > tr > th").first).to_be_visible()
    below = """heads => heads.filter(head => head.querySelector("a").getClientRects()[0].top >
      head.querySelector("button").getBoundingClientRect().top + 12).map(head => head.textContent.trim())"""
    assert page.locator("[data-details] > tr > th").evaluate_all(below) == []


def test_ages_tick_where_they_are_seen(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups")
    page.evaluate("""() => {
      for (const [id, down] of [["near", 0], ["far", 6000]]) {
        const age = Object.assign(document.createElement("time"), { id, textContent: "not yet" });
        Object.assign(age.dataset, { as: "age", at: Date.now() - 600_500 });
        age.style.cssText = `display: block; margin-top: ${down}px`;
        document.querySelector("main")[down ? "append" : "prepend"](age);
      }
    }""")
    expect(page.locator("#near")).to_have_text(re.compile("^10 m"))
    assert page.locator("#far").text_content() == "not yet"
    page.locator("#far").scroll_into_view_if_needed()
    expect(page.locator("#far")).to_have_text(re.compile("^10 m"))


def test_a_refused_form_has_the_focus_on_its_wrong_field(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/tokens")
    page.locator("[name=scopes]").first.check()
    page.get_by_label("Name").fill("nightly")
    page.locator("[name=days]").fill("99999")
    page.evaluate("document.querySelector('form:has([name=days])').noValidate = true")
    page.locator("form:has([name=days]) [type=submit]").click()
    expect(page.locator("[name=days]")).to_be_focused()
    expect(page.locator("[name=name]")).to_have_value("nightly")


def test_a_schedule_keeps_its_zone_in_any_browser(
    browser: Browser, product: Product, signed_in: Path
) -> None:
    """Hidden fields of forms take the browser's zone; the one of a schedule is typed, and empty by default."""
    context = browser.new_context(storage_state=str(signed_in), timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{product.url}/c/local/reports/lag_day")
    expect(page.get_by_text("UTC+5:30").first).to_be_visible()
    expect(page.get_by_label("Time zone")).to_have_value("")
    context.close()


def test_a_list_is_a_file_too(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups?sort=group&dir=asc&q=ana")
    expect(group_row(page, "analytics")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    head, line = Path(started.value.path()).read_text().splitlines()
    assert started.value.suggested_filename == "local-groups.csv"
    assert head.startswith("group,status,clients,model,consume_mode,time_lag_ms,time_lag_lower_bound,lag,")
    assert line.startswith("analytics,")


def status_head(page: Page) -> Locator:
    return page.locator("table[data-columns=groups] > thead th").nth(1)


def test_columns_are_kept_for_the_person(page: Page, product: Product, browser: Browser) -> None:
    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, "analytics")).to_be_visible()
    with page.expect_response("**/columns/groups"):
        page.locator("[data-columns-menu] summary").click()
        page.locator("[data-columns-menu]").get_by_label("Status").uncheck()
    expect(status_head(page)).to_be_hidden()
    elsewhere = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    elsewhere.goto(f"{product.url}/sign-in?next=/c/local/groups")
    elsewhere.get_by_label("Name").fill("admin")
    elsewhere.get_by_label("Password").fill(PASSWORD)
    elsewhere.get_by_role("button", name="Sign in").click()
    expect(group_row(elsewhere, "analytics")).to_be_visible()
    expect(status_head(elsewhere)).to_be_hidden()
    with elsewhere.expect_response("**/columns/groups"):
        elsewhere.locator("[data-columns-menu] summary").click()
        elsewhere.get_by_role("button", name="As the width allows").click()
    expect(status_head(elsewhere)).to_be_visible()
    elsewhere.context.close()
    page.reload()
    expect(status_head(page)).to_be_visible()


def wanted_groups(frame: str | bytes) -> list[Any]:
    wanted = json.loads(frame).get("subscribe", [])
    return [one for one in wanted if one["subject"] == "c/local/groups"]


def numbers_of_groups(frame: str | bytes) -> list[int]:
    message = json.loads(frame)
    return [message["seq"]] if message.get("subject") == "c/local/groups" else []


def test_a_list_sorts_in_place_and_back_undoes_it(page: Page, product: Product) -> None:
    sent: list[Any] = []
    got: list[int] = []

    def watch(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.extend(wanted_groups(frame)))
        socket.on("framereceived", lambda frame: got.extend(numbers_of_groups(frame)))

    page.on("websocket", watch)
    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, "analytics")).to_be_visible()
    while not got:
        page.wait_for_timeout(50)
    page.evaluate("window.stayed = true")
    head = page.locator("th[data-column=group]")
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(head.get_by_role("link")).to_be_focused()
    # what the page has just got is not sent again, whatever handles it
    assert len(sent) == 2 and "seq" not in sent[0] and sent[1]["seq"] in got
    names = page.locator("tbody[data-rows] > tr[data-key]").evaluate_all(
        "rows => rows.map(row => row.dataset.key)"
    )
    assert names == sorted(names) and "sort=group" in page.url
    page.go_back()
    expect(head).not_to_have_attribute("aria-sort", "ascending")
    assert "sort=group" not in page.url
    assert page.evaluate("window.stayed") is True
    # its cells are live as those of a page that was loaded
    lag = group_row(page, "analytics").locator('[data-field="lag"]')
    before = lag.inner_text()
    expect(lag).not_to_have_text(before)


def test_the_queues_of_a_topic_sort_in_place(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/topics/orders")
    page.evaluate("window.stayed = true")
    head = page.locator("#queues th[data-column=max]")
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(head.get_by_role("link")).to_be_focused()
    assert "sort=max" in page.url and page.evaluate("window.stayed") is True
    # and stay so behind a round, with the keyboard where it was
    with page.expect_response(re.compile("part=tab")) as renewed:
        row = page.locator("#queues [data-rows] > tr").first.element_handle()
    assert "sort=max" in renewed.value.url
    page.wait_for_function("row => !row.isConnected", arg=row)
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(head.get_by_role("link")).to_be_focused()


def test_a_card_whose_queues_are_no_longer_all_is_shown_anew(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups")
    group_row(page, "analytics").get_by_role("link", name="analytics").click()
    total = page.locator("#queues-total")
    known = total.inner_text()
    total.evaluate("one => { one.textContent = 1 }")  # as on a page from before the others were made
    row = page.locator("#queues [data-rows] > tr").first.element_handle()
    page.wait_for_function("row => !row.isConnected", arg=row)
    expect(total).to_have_text(known)
    lag = page.locator('#queues [data-field="lag"]:not(th)').first
    before = lag.inner_text()
    expect(lag).not_to_have_text(before)


HEAD_AND_FIRST_ROW = """() => {
  const { tHead, tBodies } = document.querySelector("#queues table"), head = tHead.querySelector("th");
  const { top, bottom } = head.getBoundingClientRect();
  return [top, tBodies[0].getBoundingClientRect().top - bottom];
}"""


def test_a_long_list_that_was_scrolled_shows_its_first_rows_and_then_all(
    page: Page, product: Product
) -> None:
    admin = with_admin(Connection(product.namesrv))
    addr = admin.cluster_info().broker_addr_table["broker-a"].master_addr
    assert addr is not None
    admin.create_topic(addr, TopicConfig("long-list", 60, 60, 6))
    page.goto(f"{product.url}/c/local/topics?q=long-list")
    expect(page.get_by_role("link", name="long-list", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{product.url}/c/local/topics/long-list?rows=100")
    rows = page.locator("#queues [data-rows] > tr")
    expect(rows).to_have_count(60)
    page.mouse.wheel(0, 900)
    page.wait_for_function("scrollY > 600")
    head_top, over = page.evaluate(HEAD_AND_FIRST_ROW)
    assert over < -100
    # all rows that any frame shows, and how high the page is then
    page.evaluate("""() => {
      window.seen = [];
      const look = () => {
        const names = [...document.querySelectorAll("#queues [data-rows] > tr > th")].map((name) => name.textContent);
        window.seen.push([names.length, new Set(names).size, document.documentElement.scrollHeight]);
        requestAnimationFrame(look);
      };
      look();
    }""")
    head = page.locator("#queues th[data-column=queue]")
    order = head.get_attribute("aria-sort")
    head.get_by_role("link").click()
    expect(head).not_to_have_attribute("aria-sort", order or "")
    expect(rows).to_have_count(60)
    first_top, below = page.evaluate(HEAD_AND_FIRST_ROW)
    assert abs(first_top - head_top) <= 1 and abs(below) <= 1
    expect(page.locator("#main")).not_to_have_attribute("style", re.compile("height"))
    seen = page.evaluate("window.seen")
    assert {count for count, _, _ in seen} == {25, 50, 60} and all(count == names for count, names, _ in seen)
    admin.delete_topic(addr, "long-list")
    admin.delete_topic_in_namesrv("long-list")
    close_admins()
    assert len({height for _, _, height in seen}) == 1


def test_the_queues_of_a_group_sort_in_place(page: Page, product: Product) -> None:
    sent: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    page.goto(f"{product.url}/c/local/groups")
    group_row(page, "analytics").get_by_role("link", name="analytics").click()
    page.evaluate("window.stayed = true")
    head = page.locator("#queues th[data-column=lag]")
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(head.get_by_role("link")).to_be_focused()
    assert "sort=lag" in page.url and page.evaluate("window.stayed") is True
    lag = page.locator('#queues [data-field="lag"]:not(th)').first
    before = lag.inner_text()
    expect(lag).not_to_have_text(before)
    asked = [one for frame in sent for one in json.loads(frame).get("subscribe", [])]
    rows = [one for one in asked if one["subject"].endswith("/group/analytics")]
    assert rows and all(one.get("keys") for one in rows)  # not of the queues on other pages


FOLDED = """
<!doctype html><section class="card" data-fold="rows"><div class="card__head">Sample</div>
<table><tbody data-rows>{rows}</tbody></table></section>
<form class="card" data-fold><div class="card__head">Selection</div><p id="body">Filters</p></form>
"""


def test_a_phone_folds_before_any_script_runs(browser: Browser) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 800}).new_page()
    page.set_content(FOLDED.format(rows="<tr><td>1</td></tr>" * 20))
    page.add_style_tag(path=ROOT / "static" / "css" / "narrow.css")
    rows = page.locator("tr:visible")
    assert (rows.count(), page.locator("#body").is_visible()) == (12, False)
    page.evaluate("document.querySelectorAll('.card').forEach((card) => card.classList.add('is-open'))")
    assert (rows.count(), page.locator("#body").is_visible()) == (20, True)
    page.context.close()


def test_a_phone_folds_the_filters_that_are_not_set(page: Page, product: Product) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{product.url}/activity?since=2020-01-01T00:00")
    action, since = page.get_by_label("Action"), page.get_by_label("From time")
    expect(since).to_be_visible()
    expect(action).to_be_hidden()
    page.get_by_role("button", name="More filters").click()
    expect(action).to_be_visible()


def test_a_phone_shows_the_chosen_tab(page: Page, product: Product) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{product.url}/c/local/groups?q=analytics")
    expect(group_row(page, "analytics")).to_be_visible()
    page.goto(f"{product.url}/c/local/brokers/broker-a?tab=drain")
    chosen = page.locator(".tabs > [aria-current]").bounding_box()
    assert chosen and chosen["x"] + chosen["width"] <= 390
    assert page.evaluate("scrollY") == 0
