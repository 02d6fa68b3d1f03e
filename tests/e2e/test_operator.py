"""The operator's stories of an ordinary night, in a real browser on the whole product: nothing is mocked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.test_newcomer import PATIENCE_MS, group_row
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Picture = Callable[[Page, str], None]


def names(page: Page) -> list[str]:
    return page.locator("tbody tr[data-key]").evaluate_all("rows => rows.map(row => row.dataset.key)")


def test_lists_sort_and_search_over_all_rows_and_the_address_keeps_it(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, "analytics")).to_be_visible()
    page.get_by_role("columnheader", name="Group").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"sort=group"))
    assert names(page) == sorted(names(page))
    page.get_by_role("columnheader", name="Group").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"dir=desc"))
    assert names(page) == sorted(names(page), reverse=True)
    page.keyboard.press("/")
    page.keyboard.type("not")
    expect(group_row(page, "analytics")).to_have_count(0)
    expect(group_row(page, "notifier")).to_be_visible()
    page.goto(f"{product.url}/c/local/groups?q=not&sort=group&dir=desc")
    assert names(page) == ["notifier"]
    page.goto(f"{product.url}/c/local/groups?q=nobody-is-called-so")
    expect(page.locator("body")).to_contain_text(re.compile("No group matches|0 of"))


def tab_to(page: Page, selector: str, most: int = 120) -> None:
    """Press Tab until an element that matches has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            return
    raise AssertionError(f"{selector} is not reached by {most} tabs")


def test_a_reset_needs_no_mouse(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/")
    page.keyboard.press("Control+k")
    page.keyboard.type("billing")
    expect(page.locator("[role=option]", has_text="billing").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/groups/billing"))
    tab_to(page, "a[href$='/groups/billing/offsets']")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/groups/billing/offsets"))
    tab_to(page, "input[name=target]")
    page.keyboard.press("Space")
    for _ in range(8):
        if page.evaluate("document.activeElement.value") == "latest":
            break
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.querySelector('input[name=target]:checked').value") == "latest"
    tab_to(page, "button[type=submit]:not([name])")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    if page.locator("#confirm").count():
        tab_to(page, "#confirm")
        page.keyboard.type("billing")
    tab_to(page, "#why")
    page.keyboard.type("by keyboard")
    tab_to(page, "#apply")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/operations/job-"))
    expect(page.locator("body")).to_contain_text(re.compile("at their targets|Done"), timeout=PATIENCE_MS)


def test_a_search_shows_what_it_scanned_and_a_tail_follows(
    page: Page, product: Product, picture: Picture
) -> None:
    page.goto(f"{product.url}/c/local/messages?topic=orders")
    expect(page.locator("tbody tr").first).to_be_visible()
    expect(page.locator("[data-scan]")).to_contain_text(re.compile(r"Scanned\s+\d.* in \d+ queue"))
    page.locator(".expander").first.click()
    body = page.locator("tr.detail pre.json").first
    expect(body).to_contain_text('"sku"')
    whole = body.text_content()
    body.locator(".json-fold").nth(1).click()
    expect(body.locator(".json-block").nth(1)).to_be_hidden()
    assert body.text_content() == whole
    for row in (0, 1):
        page.locator("input[name=m]").nth(row).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Two messages")).to_be_visible()
    page.go_back()
    page.get_by_label("Text to search for").fill("no such text anywhere")
    page.locator("#ask button[type=submit]").click()
    expect(page.locator("[data-scan]")).to_contain_text(re.compile(r"0 hits"), timeout=PATIENCE_MS)
    picture(page, "search-nothing")
    page.goto(f"{product.url}/c/local/messages?topic=orders&read=tail")
    expect(page.locator("[data-scan]")).to_contain_text("Following")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-scan]")).to_contain_text("Followed")
    picture(page, "tail")


def test_a_topic_is_created_put_in_quarantine_released_and_deleted(page: Page, product: Product) -> None:
    topic = f"short-lived-{time.time_ns()}"  # one that failed on its way may still be there
    page.goto(f"{product.url}/c/local/new-topic")
    page.locator("#id_name").fill("short lived!")
    page.get_by_role("button", name="Make plan").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    page.locator("#id_name").fill(topic)
    page.get_by_role("button", name="Make plan").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    apply_topic_plan(page, topic)
    page.goto(f"{product.url}/c/local/topics?q={topic}")
    page.locator("tbody tr[data-key]").get_by_role("link").first.click(timeout=PATIENCE_MS)
    page.goto(f"{product.url}/c/local/topics/{topic}/delete")
    page.get_by_role("button", name="Plan the quarantine…").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    apply_topic_plan(page, topic)
    page.goto(f"{product.url}/c/local/topics/{topic}/delete")
    reload_until(page, "Release")
    expect(page.get_by_role("button", name="Plan the deletion…")).to_be_disabled()
    page.get_by_role("button", name="Plan the deletion without quarantine…").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    apply_topic_plan(page, topic)
    page.goto(f"{product.url}/c/local/topics?q={topic}")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while names(page) and time.monotonic() < deadline:
        page.wait_for_timeout(1_000)
        page.reload()
    assert names(page) == []


def apply_topic_plan(page: Page, topic: str) -> None:
    confirm = page.locator("#confirm")
    if confirm.count():
        confirm.fill(topic)
    page.locator("#why").fill("browser story")
    page.locator("#apply").click()
    expect(page).to_have_url(re.compile(r"/operations/job-"))
    expect(page.locator("h1")).to_contain_text(re.compile("Done|Succeeded|Verified"), timeout=PATIENCE_MS)


def reload_until(page: Page, text: str) -> None:
    """Rows come with the next round."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    found = page.locator("main table, main .card__body").filter(has_text=text)
    while not found.count() and time.monotonic() < deadline:
        page.wait_for_timeout(1_000)
        page.reload()
    expect(found.first).to_be_visible()


def test_every_page_fits_a_phone(browser: Browser, product: Product, signed_in: object) -> None:
    context = browser.new_context(storage_state=str(signed_in), viewport={"width": 390, "height": 844})
    page = context.new_page()
    for path in (
        "",
        "topics/orders",
        "clients",
        "brokers",
        "brokers/broker-a",
        "brokers/broker-a?tab=connections",
        "operations",
        "messages?topic=orders",
        "reports",
    ):
        answer = page.goto(f"{product.url}/c/local/{path}")
        assert answer is not None and answer.ok, path
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{path} is {width} px wide"
        if path.endswith("connections"):
            expect(page.locator("main tbody tr").first).to_be_visible()
            assert page.locator(".is-wide").count() == 0, f"{path} has a table that scrolls sideways"
    context.close()
