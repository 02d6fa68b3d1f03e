"""Who owns which queue, and what one client more would change: by keys and mouse, kept by the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_newcomer import A_FEW_ROUNDS_MS, PATIENCE_MS
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
    expect(page.locator("table.own .cell--own")).to_have_count(8, timeout=A_FEW_ROUNDS_MS)
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
