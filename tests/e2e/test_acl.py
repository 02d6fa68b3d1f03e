"""An operator makes a user in the browser and sees it on the broker; its password is never shown again."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product as pairs

import pytest
from playwright.sync_api import Page, expect

from brokerd.remoting.body.acl import UserInfo
from consumers.admin.mqadmin import MQAdmin
from tests.e2e.test_newcomer import PATIENCE_MS
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
PASSWORD = "bobs-own-secret-77"  # noqa: S105 - of tests

Picture = Callable[[Page, str], None]


def user_on_broker(product: Product, name: str) -> UserInfo | None:
    async def ask() -> UserInfo | None:
        async with MQAdmin(product.namesrv) as admin:
            return await admin.user(f"127.0.0.1:{product.broker_port}", name)

    # Playwright runs a loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(ask())).result()


def test_an_operator_makes_a_user_and_sees_it_on_the_broker(
    page: Page, product: Product, picture: Picture
) -> None:
    page.goto(f"{product.url}/c/local/brokers")
    page.get_by_role("link", name="Broker ACL").click()
    expect(page.locator("main")).to_contain_text("users and policies (5.x)")
    page.get_by_role("link", name="Create a user").click()
    page.get_by_label("User name").fill("bob")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Policies").fill("Topic:orders=Allow Pub, Sub\nGroup:*=Allow Sub from 192.0.2.0/24")
    looks(page, picture, "acl-form")
    page.get_by_role("button", name="Make plan…").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"), timeout=PATIENCE_MS)
    expect(page.locator("main")).to_contain_text("Topic:orders")
    assert PASSWORD not in page.content() and user_on_broker(product, "bob") is None
    looks(page, picture, "acl-plan")
    page.locator("#apply").click()
    expect(page).to_have_url(re.compile(r"/operations/job-"), timeout=PATIENCE_MS)
    expect(page.locator("main")).to_contain_text("Every broker reports the new state.", timeout=PATIENCE_MS)
    looks(page, picture, "acl-job")
    page.goto(f"{product.url}/c/local/acl")
    expect(page.locator("tbody", has_text="bob")).to_contain_text("Allow Pub, Sub")
    assert PASSWORD not in page.content()
    looks(page, picture, "acl")
    assert user_on_broker(product, "bob") == UserInfo("bob", PASSWORD, "Normal", "enable")


def looks(page: Page, picture: Picture, name: str) -> None:
    """Keep pictures of both themes and widths, where they are wanted."""
    if not os.environ.get("TIDEMARK_PICTURES"):
        return
    for theme, width in pairs(("light", "dark"), (1440, 390)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        picture(page, f"{name}-{theme}-{width}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})
