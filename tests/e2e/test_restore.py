"""A broker loses a group's offsets: its page brings them back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from console.brokers.mqadmin import Connection, SubscriptionGroupConfig, with_admin
from tests.console.operation.live_cluster import wait_for
from tests.e2e.test_newcomer import PATIENCE_MS
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GROUP, BROKER = "nightly-export", "broker-a"  # it reads for the demo's first seconds


def offsets(product: Product, *, then_lose: bool = False) -> dict[tuple[str, int], int]:
    """Return what the group has on the broker, once it has no member; then delete it, as a lost file does."""
    admin = with_admin(Connection(product.namesrv))
    addr = admin.cluster_info().broker_addr_table[BROKER].master_addr
    assert addr is not None
    wait_for(lambda: admin.consumer_connection(addr, GROUP) is None, "a group without a member", every_s=0.5)
    table = admin.all_consumer_offsets(addr).offset_table.items()
    found = {
        (topic, at): offset for (topic, group), own in table if group == GROUP for at, offset in own.items()
    }
    if then_lose:
        admin.delete_subscription_group(addr, GROUP, clean_offset=True)
        admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name=GROUP))
    return found


def test_offsets_that_a_broker_lost_are_restored(page: Page, product: Product) -> None:
    before = offsets(product, then_lose=True)
    page.goto(f"{product.url}/c/local/brokers")
    page.get_by_role("link", name=BROKER, exact=True).click()
    page.get_by_role("link", name="Restore offsets…").click()
    page.get_by_text("The last round that read offsets which are gone now").get_by_role("link").click()
    row = page.get_by_role("row", name=GROUP)
    expect(row.locator("strong")).to_have_text(str(len(before)))
    page.get_by_role("button", name="Make plans…").click()
    page.locator("#confirm").fill("local")
    page.get_by_role("button", name="Apply 1 plan").click()
    expect(page.get_by_text("1 restored, 0 running, 0 failed")).to_be_visible(timeout=PATIENCE_MS)
    assert offsets(product) == before
