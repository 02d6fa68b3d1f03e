"""The newcomer's story of the README, in a real browser on the whole product: nothing is mocked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Route, WebSocket, expect

from tests.e2e.browser import PASSWORD
from tests.support import java_peer
from tests.support.java_peer import JavaPeer
from tests.support.product import Product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Picture = Callable[[Page, str], None]
# A verification watches until clients read on; a dead letter takes about a minute to appear.
PATIENCE_MS = 90_000


def group_row(page: Page, group: str):  # type: ignore[no-untyped-def]
    return page.locator(f'tbody tr[data-key="{group}"]')


def test_it_keeps_strangers_out(browser: Browser, product: Product, signed_in: object) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{product.url}/c/local/groups")
    expect(page).to_have_url(re.compile("/sign-in"))
    page.goto(product.sign_in_url)  # used up by the newcomer
    expect(page.locator("body")).to_contain_text(re.compile("used|expired|no longer", re.I))
    context.close()


def test_it_signs_in_with_the_password(browser: Browser, product: Product, signed_in: object) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{product.url}/sign-in")
    page.get_by_label("User").or_(page.get_by_label("Name")).first.fill("admin")
    page.get_by_label("Password").fill("wrong password 123")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/c/local/"))
    context.close()


def test_it_shows_lag_moving_without_a_reload(page: Page, product: Product, picture: Picture) -> None:
    page.goto(f"{product.url}/c/local/groups")
    for group in ("analytics", "billing", "ledger", "notifier"):
        expect(group_row(page, group)).to_be_visible()
        page.reload() if group == "analytics" else None
    lag = group_row(page, "analytics").locator('[data-field="lag"]')
    page.evaluate("window.stayedOnThisPage = true")
    before = lag.inner_text()
    expect(lag).not_to_have_text(before)
    assert page.evaluate("window.stayedOnThisPage") is True
    picture(page, "groups")


def test_it_keeps_an_idle_page_live(page: Page, product: Product) -> None:
    """A socket must outlive the 5 s after which a Redis client's default would close it."""
    sockets: list[WebSocket] = []
    page.on("websocket", lambda socket: sockets.append(socket))
    page.goto(f"{product.url}/c/local/topics")
    page.wait_for_timeout(8_000)
    assert len(sockets) == 1
    assert not sockets[0].is_closed()


def plan_offset_change(page: Page, product: Product, group: str, target: str) -> None:
    # A product that has just started has not read the group yet.
    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, group)).to_be_visible()
    page.goto(f"{product.url}/c/local/groups/{group}")
    page.get_by_role("link", name="Change offsets").click()
    page.locator("label.choice", has_text=target).first.click()
    page.get_by_role("button", name="Make plan").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))


def apply_plan(page: Page, group: str) -> None:
    confirm = page.get_by_label("Name of the group")
    if confirm.count():
        expect(page.locator("#apply")).to_be_disabled()
        confirm.fill(group)
    page.get_by_label("Reason (recorded in the audit)").fill("browser story")
    page.locator("#apply").click()
    expect(page).to_have_url(re.compile(r"/operations/job-"))


def test_it_resets_an_offset_watches_it_verify_and_undoes_it(
    page: Page, product: Product, picture: Picture
) -> None:
    plan_offset_change(page, product, "analytics", "Latest")
    expect(page.locator("body")).to_contain_text("nothing has been changed yet")
    picture(page, "plan")
    apply_plan(page, "analytics")
    expect(page.locator("body")).to_contain_text("at their targets", timeout=PATIENCE_MS)
    picture(page, "applied")
    page.get_by_role("button", name="Undo this change").first.click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    expect(page.locator("body")).to_contain_text("undo of")
    apply_plan(page, "analytics")
    expect(page.locator("body")).to_contain_text("at their targets", timeout=PATIENCE_MS)
    page.goto(f"{product.url}/c/local/operations")
    expect(page.locator("table").first).to_contain_text("analytics")


def test_it_replays_dead_letters_to_the_failed_group_with_a_pause(
    page: Page, product: Product, picture: Picture
) -> None:
    page.goto(f"{product.url}/c/local/dead-letters/notifier")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while page.locator("#sample tbody tr:not(.detail)").count() < 6 and time.monotonic() < deadline:
        page.wait_for_timeout(2_000)
        page.reload()
    expect(page.locator("body")).to_contain_text("Original topic")
    page.get_by_label("Rate").fill("1")
    page.get_by_role("button", name="Plan the replay").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))
    apply_plan(page, "notifier")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    picture(page, "replay-paused")
    page.get_by_role("button", name="Resume").click()
    rate = page.locator("#rate")
    rate.evaluate(
        "(slider) => { slider.value = slider.max; slider.dispatchEvent(new Event('change', {bubbles: true})) }"
    )
    expect(page.locator("body")).to_contain_text("Done", timeout=PATIENCE_MS)
    figures = [
        int(text.replace(",", "")) for text in page.locator(".sum").first.locator("b").all_inner_texts()
    ]
    matched, sent, skipped, failed, left = figures
    assert matched >= 5
    assert matched == sent + skipped + failed + left
    assert left == 0
    assert failed == 0
    picture(page, "replay-done")


def test_it_browses_messages_newest_first_and_opens_one(
    page: Page, product: Product, picture: Picture
) -> None:
    page.goto(f"{product.url}/c/local/messages?topic=orders")
    rows = page.locator("table tbody tr")
    expect(rows.first).to_be_visible()
    assert rows.count() >= 10
    picture(page, "messages")
    rows.first.get_by_role("link").first.click()
    expect(page.locator("body")).to_contain_text("orderId")


def test_it_compares_two_messages_again_after_back(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/messages?topic=orders")
    boxes = page.locator("table tbody input[name=m]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    compare = page.locator("[data-compare]")
    compare.click()
    expect(page.get_by_role("heading", name="Two messages")).to_be_visible()
    page.go_back()
    expect(page.locator("table tbody input[name=m]:checked")).to_have_count(2)
    expect(compare).to_be_enabled()


def test_it_opens_the_report_that_spark_computed(page: Page, product: Product, picture: Picture) -> None:
    page.goto(f"{product.url}/c/local/reports")
    page.get_by_role("link", name="Hourly lag").click()
    page.get_by_text("Run now…").click()
    page.get_by_role("button", name="Run hourly lag").click()
    expect(page.locator("body")).to_contain_text("One run at a time")
    # The page shows the result by itself: nobody reloads it.
    expect(page.locator("table").first).to_contain_text("analytics", timeout=180_000)
    expect(page.locator("body")).to_contain_text("computed")
    picture(page, "report")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert "time_lag_p95_ms" in lines[0].split(",")
    assert any(",analytics," in line for line in lines[1:])


def test_it_serves_a_java_client_at_the_same_time(product: Product) -> None:
    class_path = java_peer.build("5.3.3")
    place = ["--namesrv", product.namesrv, "--topic", "FromJava", "--group", "java-readers"]
    producer = JavaPeer(class_path, ["produce", *place, "--count", "200"])
    consumer = JavaPeer(class_path, ["consume", *place, "--expect", "200", "--seconds", "120"])
    try:
        assert producer.finish() == 0
        consumer.wait_for(lambda peer: len({m.key for m in peer.consumed}) == 200, "200 messages")
    finally:
        producer.stop()
        consumer.stop()


def test_it_reads_well_on_a_phone_and_in_the_dark(
    browser: Browser, product: Product, signed_in: object
) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(
            storage_state=str(signed_in), viewport={"width": 390, "height": 800}, color_scheme=scheme
        )
        page = context.new_page()
        for path in ("groups", "groups/analytics", "topics", "dead-letters", "reports/lag_hour"):
            page.goto(f"{product.url}/c/local/{path}")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{path} is {width} px wide in {scheme}"
        context.close()


def test_it_jumps_by_keyboard(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/c/local/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(re.compile("/topics$"))
    page.keyboard.press("/")
    expect(page.get_by_label("Filter topics")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("body").click()
    page.keyboard.press("Control+k")
    page.keyboard.type("analytics")
    expect(page.locator("#palette [role=option]", has_text="analytics").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/groups/analytics"))


def test_an_open_search_that_found_no_name_finds_it_with_a_later_round(page: Page, product: Product) -> None:
    requested: list[str] = []

    def without_names(route: Route) -> None:
        requested.append(route.request.url)
        route.fulfill(json={"items": []}) if len(requested) == 1 else route.continue_()

    page.route("**/jump?q=*", without_names)
    page.goto(f"{product.url}/c/local/groups")
    expect(group_row(page, "analytics")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.insert_text("analytics")
    expect(page.locator("#palette li.head")).to_contain_text("No match")
    expect(page.locator("#palette [role=option]", has_text="analytics").first).to_be_visible()
    assert len(requested) == 2  # what was found is not searched again


def test_it_says_what_is_wrong_with_a_name_server_address(page: Page, product: Product) -> None:
    page.goto(f"{product.url}/clusters")
    page.get_by_label("Name", exact=True).fill("nowhere")
    page.get_by_label(re.compile("Name server")).fill("127.0.0.1:1")
    page.get_by_role("button", name=re.compile("Add")).click()
    expect(page.get_by_role("alert").first).to_contain_text(re.compile("127.0.0.1:1"))
    page.goto(f"{product.url}/clusters")
    expect(page.locator("body")).not_to_contain_text("nowhere")
