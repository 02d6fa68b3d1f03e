"""The theme switch: it holds over pages and reloads."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_it_switches_between_light_and_dark(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/")
    light = background(page)
    page.get_by_role("button", name="Theme").click()
    dark = background(page)
    assert dark != light
    page.goto(f"{product.url}/c/local/topics")
    assert background(page) == dark
    page.get_by_role("button", name="Theme").click()
    assert background(page) == light
