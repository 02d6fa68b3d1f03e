"""Chromium of the machine, driven by Playwright; shared by the stories and by `render_pages`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

from tests.support.product import Product

PASSWORD = "correct horse battery staple"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def launch(playwright: Playwright) -> Browser:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "Chromium is missing: apt-get install chromium (make test does it when run as root)"
    return playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)


def sign_in_first_time(product: Product, browser: Browser) -> Path:
    """Follow the one-time link as the newcomer does, set a password; the session as a storage-state file."""
    state = product.data.parent / "browser-state.json"
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(product.sign_in_url)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    page.wait_for_url("**/c/local/**")
    context.storage_state(path=state)
    context.close()
    return state
