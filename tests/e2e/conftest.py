"""The operator's browser: Debian's Chromium on the whole running product, signed in once for all stories."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.browser import launch, sign_in_first_time
from tests.support import migrated
from tests.support.product import Product

# A round of the collector takes 5 s; on a machine that runs all tests at once a page, a worker or Chromium may be late
# by a few of them. How soon is measured elsewhere; here it is only that it comes.
A_FEW_ROUNDS_MS = 30_000
# A form that was refused is answered 422 with its reasons: Chromium notes that as a failed resource.
REFUSED = "status of 422"
SCREENSHOTS = Path(__file__).parent / "screenshots"


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    data = Path(tempfile.mkdtemp(prefix="tm-e2e-")) / "var"
    migrated.copy_to(data)
    running = Product(data).start()
    yield running
    running.stop()
    shutil.rmtree(data.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=A_FEW_ROUNDS_MS)
    with sync_playwright() as playwright:
        instance = launch(playwright)
        yield instance
        instance.close()


@pytest.fixture(scope="session")
def signed_in(product: Product, browser: Browser) -> Path:
    return sign_in_first_time(product, browser)


@pytest.fixture()
def context(browser: Browser, signed_in: Path) -> Iterator[BrowserContext]:
    # The pulse beside "Live" never ends: without a graphics card each of its frames is drawn by the CPU.
    instance = browser.new_context(
        storage_state=signed_in, viewport={"width": 1440, "height": 900}, reduced_motion="reduce"
    )
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
    """Keep a screenshot under tests/e2e/screenshots (git-ignored), with TIDEMARK_PICTURES=1."""

    def take(page: Page, name: str) -> None:
        if not os.environ.get("TIDEMARK_PICTURES"):
            return
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return take
