"""Who owns which queue, and what one client more would change: by keys and mouse, kept by the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_newcomer import PATIENCE_MS
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_an_operator_sees_owners_and_tries_another_client(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/c/local/rebalance$"))
    row = page.get_by_role("row", name="billing")
    # the list renews itself until the clients have reported
    expect(row).to_contain_text("Every queue has one owner", timeout=PATIENCE_MS)
    row.get_by_role("link", name="billing").click()
    # the queues of the second broker come with another sweep, every 30 s
    expect(page.locator("table.own .cell--own")).to_have_count(8, timeout=PATIENCE_MS)
    expect(page.locator("table.own tbody tr")).to_have_count(2)
    page.get_by_label("New clients").fill("1")
    page.get_by_role("radio", name="Fewest moves").check()
    page.get_by_role("button", name="Compute").click()
    expect(page).to_have_url(re.compile("new=1.*strategy=FEWEST_MOVES"))
    computed = page.locator("#what-if")
    expect(computed).to_contain_text("(3): 2 queues change owners; fewest possible: 2.")
    expect(computed.locator("ins")).to_have_text(["new-1", "new-1"])
    page.reload()
    expect(computed.locator("ins")).to_have_text(["new-1", "new-1"])
    page.get_by_role("link", name="By the strategy").click()
    expect(page).to_have_url(re.compile("strategy=FEWEST_MOVES.*view=strategy"))
    expect(page.locator("table.own .cell--own")).to_have_count(8)


def test_an_operator_drains_a_client_sees_it_move_and_undoes_it(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/rebalance/billing")
    matrix = page.locator("table.own tbody tr")
    expect(page.locator("table.own .cell--own")).to_have_count(8, timeout=PATIENCE_MS)
    client = matrix.first.get_by_role("rowheader").inner_text().strip()
    page.get_by_label(f"Drain {client}").check()
    page.get_by_role("button", name="Make plan…").click()
    expect(page.get_by_role("row", name=client).first).to_contain_text("−4")
    page.get_by_role("button", name="Move 4 queues").click()
    expect(page.get_by_text("8 of 8 queues follow the placement")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Queue owners").click()
    # without a reload: a sweep of the clients is due with the next round
    own = matrix.filter(has_text=client).locator(".cell--own")
    expect(own).to_have_count(0)
    expect(page.locator("#in-force")).to_contain_text(f"{client} is drained")
    expect(page.locator("#who-assigns")).to_contain_text("by admin, plan op-")
    page.get_by_role("button", name="Undo this placement…").click()
    page.get_by_role("button", name="Move 4 queues").click()
    expect(page.get_by_text("8 of 8 queues follow the placement")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Queue owners").click()
    expect(own).to_have_count(4)
    expect(page.locator("#in-force")).to_contain_text("none: the strategy decides")
