"""Chromium of the machine, driven by Playwright; shared by the stories, by `render_pages` and by tests of scripts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

from tests.support.product import Product

PASSWORD = "correct horse battery staple"
# The first that is installed. The shell is the same engine without windows to draw: a third of the CPU time.
COMMANDS = ("chromium-headless-shell", "chromium", "google-chrome")
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
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, COMMANDS)), None)
    assert chromium, (
        f"Chromium is missing: apt-get install {COMMANDS[0]} (make test does it when run as root)"
    )
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
