"""A broker loses a group's offsets: its page brings them back. A group moves to another cluster: by time, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Connection,
    SubscriptionGroupConfig,
    close_admins,
    with_admin,
)
from tests.console.operation.live_cluster import LiveCluster, next_millisecond, wait_for
from tests.e2e.test_newcomer import PATIENCE_MS
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GROUP, BROKER = "nightly-export", "broker-a"  # it reads for the demo's first seconds


def admin_of(product: Product) -> tuple[BlockingMQAdmin, str]:
    admin = with_admin(Connection(product.namesrv))
    addr = admin.cluster_info().broker_addr_table[BROKER].master_addr
    assert addr is not None
    return admin, addr


def offsets(product: Product) -> dict[tuple[str, int], int]:
    """Return what the group has on the broker, once it has no member."""
    admin, addr = admin_of(product)
    wait_for(lambda: admin.consumer_connection(addr, GROUP) is None, "a group without a member", every_s=0.5)
    table = admin.all_consumer_offsets(addr).offset_table.items()
    return {
        (topic, at): offset for (topic, group), own in table if group == GROUP for at, offset in own.items()
    }


def rounds(page: Page, product: Product) -> int:
    page.goto(f"{product.url}/clusters")
    cells = page.get_by_role("row", name=re.compile("^local")).get_by_role("cell")
    return int(cells.nth(3).inner_text().replace(",", ""))


def test_offsets_that_a_broker_lost_are_restored(page: Page, product: Product) -> None:
    before = offsets(product)
    number = rounds(page, product)
    wait_for(lambda: rounds(page, product) > number + 1, "a round that read them all", every_s=1)
    admin, addr = admin_of(product)
    admin.delete_subscription_group(addr, GROUP, clean_offset=True)
    admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name=GROUP))
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


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    """Six messages in two clusters, one after another; archive is at 4 of the old one, and at 1 of the new one."""
    attempt = free_port()  # the product keeps the clusters of an attempt that failed, and their names
    names = (f"old-site-{attempt}", f"new-site-{attempt}")
    brokers = [
        BrokerProcess(tmp_path / name, brokerName="broker-a", brokerClusterName=name).start()
        for name in names
    ]
    clusters = old, new = LiveCluster(brokers[0], names[0]), LiveCluster(brokers[1], names[1])
    for each in clusters:
        each.create_topic("invoices", queues=1)
        each.create_group("archive")
    for number in range(6):
        for each in clusters:
            each.send("invoices", 0, [b"%d" % number])
        next_millisecond()
    old.commit("archive", "invoices", 0, 4)
    new.commit("archive", "invoices", 0, 1)
    yield clusters
    close_admins()
    for broker in brokers:
        broker.stop()


def test_a_group_is_cloned_to_another_cluster_by_time_and_undone(
    page: Page,
    product: Product,
    mirrored: tuple[LiveCluster, LiveCluster],
    picture: Callable[[Page, str], None],
) -> None:
    old, new = mirrored
    for each in mirrored:
        page.goto(f"{product.url}/clusters")
        page.get_by_label("Name", exact=True).fill(each.name)
        page.get_by_label("Name server address").fill(each.broker.namesrv)
        page.get_by_role("button", name="Add cluster").click()
        expect(page.get_by_text(f"{each.name} was added.")).to_be_visible()
    page.goto(f"{product.url}/c/{old.name}/groups")
    page.get_by_role("link", name="archive", exact=True).click(timeout=PATIENCE_MS)
    page.get_by_text("Reset, skip, restore…").click()
    page.get_by_role("link", name="Import or clone offsets…").click()
    page.get_by_role("link", name=new.name, exact=True).click()
    expect(page).to_have_url(re.compile(f"/c/{new.name}/groups/archive/offset-import"))
    expect(page.get_by_label("Group of another cluster")).to_have_value(f"{old.name}/archive")
    picture(page, "clone-form")
    page.locator("#clone").get_by_role("button", name="Make plan…").click()
    expect(page.get_by_text(f"Unread by archive in {old.name}")).to_be_visible()
    assert new.committed("archive", "invoices") == {0: 1}, "nothing is changed by a plan"
    picture(page, "clone-plan")
    page.locator("#apply").click()
    expect(page.locator("body")).to_contain_text("1 queue is at its target", timeout=PATIENCE_MS)
    assert (old.committed("archive", "invoices"), new.committed("archive", "invoices")) == ({0: 4}, {0: 4})
    picture(page, "clone-job")
    page.get_by_role("button", name="Undo this change").first.click()
    page.locator("#apply").click()
    expect(page.locator("body")).to_contain_text("1 queue is at its target", timeout=PATIENCE_MS)
    assert new.committed("archive", "invoices") == {0: 1}
