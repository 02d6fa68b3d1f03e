"""The operator's browser: Debian's Chromium on the whole running product, signed in once for all stories."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.product import Product

PASSWORD = "correct horse battery staple"
# A form that was refused is answered 422 with its reasons: Chromium notes that as a failed resource.
REFUSED = "status of 422"
SCREENSHOTS = Path(__file__).parent / "screenshots"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    data = Path(tempfile.mkdtemp(prefix="tm-e2e-")) / "var"
    running = Product(data).start()
    yield running
    running.stop()
    shutil.rmtree(data.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "Chromium is missing: apt-get install chromium (make test does it when run as root)"
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield instance
        instance.close()


@pytest.fixture(scope="session")
def signed_in(product: Product, browser: Browser) -> Path:
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


@pytest.fixture()
def context(browser: Browser, signed_in: Path) -> Iterator[BrowserContext]:
    instance = browser.new_context(storage_state=signed_in, viewport={"width": 1440, "height": 900})
    yield instance
    instance.close()


@pytest.fixture()
def page(context: BrowserContext, product: Product) -> Iterator[Page]:
    """A page whose console errors and failed requests fail the test."""
    problems: list[str] = []
    tab = context.new_page()
    tab.on(
        "console", lambda m: problems.append(m.text) if m.type == "error" and REFUSED not in m.text else None
    )
    tab.on("pageerror", lambda e: problems.append(str(e)))
    yield tab
    assert problems == []


@pytest.fixture()
def picture() -> Callable[[Page, str], None]:
    """Keep a screenshot under tests/e2e/screenshots (git-ignored) for whoever wants to look."""

    def take(page: Page, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return take
