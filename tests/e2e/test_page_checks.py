"""The checks of `make pages` find what they are for; the pages an operator opens first pass them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e import contact_sheets
from tests.e2e.page_checks import Finding, Violation, axe_violations, by_page, layout_violations, table
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]
# The rest of the pages is for `make pages`.
PAGES = (
    "/c/local/",
    "/c/local/groups",
    "/c/local/groups/analytics",
    "/c/local/topics/orders",
    "/c/local/dead-letters",
    "/c/local/brokers",
)
FAULTY = """
<!doctype html><html lang="en"><title>Faulty</title><main>
  <h1>Faulty</h1>
  <style>.narrow { width: 40px; overflow: hidden; white-space: nowrap } .wide { width: 3000px }</style>
  <p class="narrow">cut off here</p>
  <p class="narrow" title="in full in its title">in full in its title</p>
  <table><tr><td><div class="narrow" style="overflow: visible">fits nowhere</div></td></tr></table>
  <p style="width: 9px; overflow-wrap: anywhere">one letter a line</p>
  <section class="card"><h2>Figures</h2></section>
  <section class="card"><h2>Figures</h2><p>12</p></section>
  <canvas width="20" height="20" role="img" aria-label="Lag"></canvas>
  <div class="wide">wide</div>
  <p style="color: #bbb; background: #fff">pale</p>
  <button></button>
</main></html>
"""


def test_every_check_finds_its_fault(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(FAULTY)
    found = sorted(violation.rule for violation in layout_violations(page))
    assert found == ["blank chart", "cut off", "empty card", "overflow", "squeezed", "stands out"]
    assert {"color-contrast", "button-name"} <= {violation.rule for violation in axe_violations(page)}
    page.set_content('<!doctype html><body style="margin: 0"><div style="height: calc(100vh + 1px)">')
    assert [violation.rule for violation in layout_violations(page)] == ["scroll bar"]
    page.close()


def test_findings_are_listed_by_page_without_accepted_ones() -> None:
    found = [
        Finding("group", "dark 390 en", Violation("overflow", "table", "wide")),
        Finding("group", "dark 390 en", Violation("overflow", "h1", "wide")),
        Finding("group", "light 390 en", Violation("overflow", "table", "wide")),
        Finding("message", "light 390 en", Violation("cut off", "td.preview", "cut")),
    ]
    assert by_page(found) == {"group": ["overflow (dark 390 en, light 390 en)"]}


def test_a_sheet_has_every_picture_of_its_page_and_its_findings(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    for look in ("light-1440-en", "light-390-zh-hans", "dark-1440-en"):
        page.set_content(f'<body style="background: {"#00f" if "dark" in look else "#f00"}">')
        page.screenshot(path=tmp_path / f"topic-groups-{look}.jpg")
    (tmp_path / "plan-send-not-made.jpg").write_bytes(b"no page")
    sheets = contact_sheets.sheets(tmp_path, {"topic-groups": ["overflow (dark 390 en)"]})
    contact_sheets.draw(tmp_path, sheets, browser)
    contact_sheets.write_index(tmp_path, sheets)
    assert list(sheets) == ["topic-groups"]
    assert [one.name for one in (tmp_path / "sheets").iterdir()] == ["topic-groups.jpg"]
    page.goto((tmp_path / "index.html").as_uri())
    pictures = page.locator("img").evaluate_all("all => all.map((one) => [one.title, one.width])")
    assert pictures == [
        ["topic-groups-light-1440-en.jpg", 480],
        ["topic-groups-light-390-zh-hans.jpg", 130],
        ["topic-groups-dark-1440-en.jpg", 480],
    ]
    assert page.locator("li").all_inner_texts() == ["overflow (dark 390 en)"]
    page.close()


def test_a_link_under_the_pointer_is_fetched_ahead(
    browser: Browser, signed_in: Path, product: Product
) -> None:
    context = browser.new_context(storage_state=signed_in)
    page = context.new_page()
    page.goto(f"{product.url}/c/local/")
    link = page.get_by_role("navigation", name="Main").get_by_role("link", name="Topics")
    with context.expect_event("request", lambda request: request.url.endswith("/c/local/topics")):
        link.hover()
    with page.expect_navigation():
        link.click()
    assert (
        page.evaluate("performance.getEntriesByType('navigation')[0].deliveryType") == "navigational-prefetch"
    )
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_an_operators_page_passes_them(path: str, page: Page, product: Product) -> None:
    page.goto(product.url + path)
    # A round fills an empty list.
    page.locator("form:has([data-renews]) ~ * .empty, .is-waiting").first.wait_for(state="detached")
    found = [*layout_violations(page), *axe_violations(page)]
    assert not table(Finding(path, "", violation) for violation in found)[0]
