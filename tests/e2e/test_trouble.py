"""The operator's stories of a bad night: another operator, a dead worker, a silent broker, a dead letter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import DjangoDbBlocker

from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageRecord,
    Producer,
    PushConsumer,
    PushConsumerConfig,
)
from tests.e2e.browser import PASSWORD
from tests.e2e.test_newcomer import PATIENCE_MS, apply_plan, plan_offset_change
from tests.support.product import Product, in_databases_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Picture = Callable[[Page, str], None]
SECOND_BROKER = "broker-b"
# One a second, and as many as the sample shows: the replay is under way when the worker is killed.
LETTERS = 20


def make_maria() -> None:
    if not User.objects.filter(username="maria").exists():
        hashed = PBKDF2PasswordHasher().encode(
            PASSWORD, "salt"
        )  # the hasher of tests is not that of the product
        User.objects.create(username="maria", password=hashed, is_staff=True, is_superuser=True)


@pytest.fixture
def other(product: Product, browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[Page]:
    """The browser of a second operator, maria."""
    in_databases_of(product, django_db_blocker, make_maria)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{product.url}/sign-in")
    page.get_by_label("Name").fill("maria")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    # Checking a password is slow by intention, and slower on a busy machine.
    expect(page).to_have_url(re.compile("/c/local/"))
    yield page
    context.close()


def test_the_plan_of_one_operator_is_refused_after_the_change_of_another(
    context: BrowserContext, other: Page, product: Product, picture: Picture
) -> None:
    """Earliest is planned; the other applies Latest; Earliest would replay what its page never showed."""
    page = context.new_page()
    plan_offset_change(page, product, "analytics", "Earliest")
    operations = context.new_page()
    operations.goto(f"{product.url}/c/local/operations")
    plan_offset_change(other, product, "analytics", "Latest")
    apply_plan(other, "analytics")
    expect(other.locator("body")).to_contain_text("at their targets", timeout=PATIENCE_MS)
    job = other.url.rsplit("/", 1)[1]
    expect(operations.locator("tbody")).to_contain_text(job)
    operations.close()
    try_to_apply(page, "analytics")
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("Nothing was changed.")
    expect(refusal).to_contain_text(re.compile(rf"of analytics were moved at .* by maria \({job}\)"))
    picture(page, "drift")
    assert page.locator("main button:visible, main a.btn:visible").all_inner_texts() == ["Make a new plan"]
    page.get_by_role("button", name="Make a new plan").click()
    expect(page.locator("body")).to_contain_text("nothing has been changed yet")
    page.get_by_role("button", name="Discard plan").click()


def test_a_plan_that_was_applied_is_open_in_no_tab(
    page: Page, context: BrowserContext, product: Product
) -> None:
    """Neither in a second one, nor in the first one after Back."""
    plan_offset_change(page, product, "billing", "Latest")
    second = context.new_page()
    second.goto(page.url)
    expect(second.locator("#apply")).to_be_visible()
    apply_plan(page, "billing")
    expect(second.locator("main")).to_contain_text("This plan was applied")
    assert second.locator("#apply").count() == 0
    page.go_back()
    expect(page.locator("main")).to_contain_text("This plan was applied")
    assert page.locator("#apply").count() == 0


def test_an_open_page_says_that_its_session_ended(other: Page, product: Product) -> None:
    other.goto(f"{product.url}/c/local/groups")
    live = other.locator("[data-do=live]")
    expect(live).to_contain_text("Live")
    other.context.clear_cookies()
    for _ in ("pause", "connect again"):
        live.click()
    expect(other.locator("#not-live")).to_contain_text("Your session ended at")


# Before the page's scripts run it is as it was before a broker was known to be silent, under the round that says so.
WITHOUT_BANNER = """document.addEventListener("readystatechange", () => {
  const banner = document.getElementById("silent-brokers");
  if (banner) banner.hidden = true;
}, { once: true })"""


# Where everything stands across and down; a table that is rendered again may give a cell more room.
PLACES = """() =>
  [...document.querySelectorAll("main :is(h1, .stats, .card, .tabs, .dt--steady thead th)")].map((one) =>
    [one.tagName, Math.round(one.getBoundingClientRect().left),
     Math.round(one.getBoundingClientRect().top + scrollY)])"""


def moved(page: Page, before: list[list[Any]]) -> list[Any]:
    return [
        (page.url, old, new)
        for old, new in zip(before, page.evaluate(PLACES), strict=True)
        if abs(old[1] - new[1]) > 1 or abs(old[2] - new[2]) > 1
    ]


def try_to_apply(page: Page, group: str) -> None:
    """Confirm a plan that will be refused: the page stays."""
    if page.locator("#confirm").count():
        page.locator("#confirm").fill(group)
    page.locator("#why").fill("browser story")
    page.locator("#apply").click()
    page.wait_for_url("**/apply")


def worker_pid(product: Product) -> int | None:
    """The parent of beat and the pools of workers: a child of the supervisor; None between two of them."""
    assert product.process is not None
    listing = ["ps", "--ppid", str(product.process.pid), "-o", "pid=,args="]
    children = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line for line in children if "console.workers" in line]
    return int(found[0].split()[0]) if found else None


async def write_dead_letters(namesrv: str, topic: str, group: str, count: int) -> None:
    """Send messages that a member of the group fails, each a dead letter at once."""
    left = asyncio.Semaphore(0)

    async def fail(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level_when_next_consume = -1
        for _ in messages:
            left.release()
        return ConsumeStatus.RECONSUME_LATER

    config = PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET, consume_message_batch_max_size=1
    )
    async with Producer("browser-stories", namesrv) as producer:
        for number in range(count):
            await producer.send(Message(topic, b"{}", {"KEYS": f"r-{number}"}))
        async with PushConsumer(group, namesrv, fail, {topic: "*"}, config=config), asyncio.timeout(60):
            for _ in range(count):
                await left.acquire()


@pytest.fixture
def refunder(product: Product, signed_in: Path) -> str:
    """A group with dead letters that nobody has replayed, not a first try of the story either."""
    group = f"refunder-{time.time_ns()}"
    letters = write_dead_letters(product.namesrv, f"{group}-topic", group, LETTERS)
    # The browser's own event loop runs in this thread.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, letters).result()
    return group


def plan_slow_replay(page: Page, product: Product, group: str) -> None:
    """A replay of one letter a second."""
    page.goto(f"{product.url}/c/local/dead-letters/{group}")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while page.locator("#sample tbody tr:not(.detail)").count() < LETTERS and time.monotonic() < deadline:
        page.wait_for_timeout(2_000)
        page.reload()
    page.locator("#plan-rate").fill("1")
    page.get_by_role("button", name="Plan the replay").click()
    expect(page).to_have_url(re.compile(r"/plans/op-"))


def test_a_replay_survives_a_killed_worker(
    page: Page, product: Product, refunder: str, picture: Picture
) -> None:
    """The page says that no worker has it, and promises no time; then another one goes on."""
    plan_slow_replay(page, product, refunder)
    apply_plan(page, refunder)
    operations = page.context.new_page()
    operations.goto(f"{product.url}/c/local/operations")
    listed = operations.locator("tbody tr", has_text=page.url.rsplit("/", 1)[1])
    figures = page.locator(".sum").first.locator("b")
    expect(figures.nth(1)).not_to_have_text("0")
    expect(page.locator("body")).to_contain_text("done in about")
    killed = worker_pid(product)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    expect(page.locator("body")).to_contain_text("No worker is running this job")
    assert "done in about" not in page.locator("main").inner_text()
    expect(page.locator(".timeline .is-now")).to_contain_text("Waiting for a worker")
    expect(page.locator("h1 .badge")).to_have_text("Waiting for a worker")
    expect(listed).to_contain_text("Waiting for a worker")
    operations.close()
    picture(page, "replay-without-worker")
    shown = counts(page)
    # The ledger beside it counts the same letters.
    page.goto(f"{product.url}/c/local/dead-letters/{refunder}")
    assert counts(page) == shown
    expect(page.locator("#ledger .seg a", has_text="Sent")).to_have_text(re.compile(rf"\s{shown[1]:,}$"))
    page.go_back()
    expect(page.locator("body")).not_to_contain_text("No worker is running this job", timeout=PATIENCE_MS)
    assert worker_pid(product) != killed
    # One a second takes long; on a slow machine the replay may be over, and the slider gone, by now.
    page.locator("#rate").evaluate_all(
        "sliders => sliders.forEach(slider => {"
        " slider.value = slider.max; slider.dispatchEvent(new Event('change', {bubbles: true})) })"
    )
    expect(page.locator("body")).to_contain_text("Done", timeout=2 * PATIENCE_MS)
    matched, sent, skipped, failed, left = counts(page)
    assert matched == sent == LETTERS
    assert (skipped, failed, left) == (0, 0, 0)
    picture(page, "replay-after-kill")


def counts(page: Page) -> list[int]:
    """Matched, sent, skipped, failed, to go, as a replay shows them."""
    shown = page.locator(".sum").first.locator("b").all_inner_texts()
    return [int(text.replace(",", "")) for text in shown]


def wait_until_it_is_known(page: Page, product: Product, broker_name: str) -> None:
    """Of a product that has just started, until it has read the group's lag at the broker, and the broker's survey."""
    page.goto(f"{product.url}/c/local/groups/analytics")
    lag = page.locator(f'tr[data-key$="/{broker_name}/0"] [data-field=lag]').first
    deadline = time.monotonic() + PATIENCE_MS / 1000
    # The demo comes to the second broker some time after the first, and a page adds no queues of a topic that grows.
    while not lag.count() and time.monotonic() < deadline:
        page.wait_for_timeout(1_000)
        page.reload()
    expect(lag).to_have_text(re.compile(r"^[\d,]+$"))
    page.goto(f"{product.url}/c/local/brokers")
    row = page.locator("tr", has_text=broker_name)
    expect(row.locator("[data-why='the first survey is not done yet']")).to_have_count(0, timeout=PATIENCE_MS)


def test_a_silent_broker_is_told_everywhere_and_forgotten_when_it_is_back(
    context: BrowserContext, product: Product, picture: Picture
) -> None:
    """Stopped from the overview: figures have their age, a plan is refused and recorded, then all is as before."""
    page = context.new_page()
    wait_until_it_is_known(page, product, SECOND_BROKER)
    plan_offset_change(page, product, "analytics", "Earliest")
    overview = context.new_page()
    overview.goto(f"{product.url}/c/local/")
    group = context.new_page()
    group.goto(f"{product.url}/c/local/groups/analytics")
    brokers = context.new_page()
    brokers.goto(f"{product.url}/c/local/brokers")
    broker = context.new_page()
    broker.goto(f"{product.url}/c/local/brokers/{SECOND_BROKER}")
    watched = context.new_page()
    watched.goto(f"{product.url}/c/local/")
    drawn = [(one, one.evaluate(PLACES)) for one in (watched, group, brokers, broker)]
    overview.get_by_role("button", name=f"Stop {SECOND_BROKER}").click()
    silent = group.locator("#silent-brokers")
    try:
        expect(silent).to_contain_text(f"{SECOND_BROKER} has not answered since", timeout=PATIENCE_MS)
        expect(group.locator(".live")).to_contain_text("Live, partial")
        lag = group.locator(f'tr[data-key$="/{SECOND_BROKER}/0"] [data-field=lag]').first
        expect(lag).to_contain_text(re.compile(r"^[\d,]+as of \d\d:\d\d:\d\d$"))
        # A page that was read while the round ended, and names it, is made anew too.
        torn = context.new_page()
        torn.add_init_script(WITHOUT_BANNER)
        torn.goto(f"{product.url}/c/local/groups/analytics")
        expect(torn.locator("#silent-brokers")).to_be_visible()
        torn.close()
        # The list was open when the broker fell silent.
        expect(brokers.locator("tr", has_text=SECOND_BROKER)).to_contain_text("last reported: ")
        expect(broker.locator("h1 .badge")).to_have_text("Unknown")
        expect(broker.locator("main")).to_contain_text(f"{SECOND_BROKER} has not answered since")
        for one, places in drawn:
            assert moved(one, places) == []
        picture(group, "silent-broker")
        try_to_apply(page, "analytics")
        expect(page.get_by_role("alert")).to_contain_text(
            re.compile(rf"{SECOND_BROKER}.* UTC\. Nothing was changed\.")
        )
        activity = context.new_page()
        activity.goto(f"{product.url}/activity")
        refused = activity.locator("tbody tr", has_text="Refused to apply offset change: analytics").first
        expect(refused).to_contain_text(SECOND_BROKER)
        picture(activity, "refused-in-activity")
    finally:
        overview.goto(f"{product.url}/c/local/")
        overview.get_by_role("button", name=f"Start {SECOND_BROKER}").click()
    expect(overview.get_by_role("button", name=f"Stop {SECOND_BROKER}")).to_be_visible()
    wait_until_it_listens(product.second_broker_port)
    # The pages follow the next round without a reload.
    expect(silent).to_be_hidden()
    expect(group.locator(".live")).not_to_contain_text("partial")
    expect(broker.locator("h1 .badge")).to_have_text("OK")
    expect(broker.locator("#silent-broker.is-late")).to_have_count(0)
    for one, places in drawn:
        assert moved(one, places) == []
    # The list that took the place of the old one is live too.
    read = brokers.locator("tr", has_text=SECOND_BROKER).locator("time").last
    expect(read).not_to_have_attribute("data-at", read.get_attribute("data-at") or "")
    expect(page.locator("main")).to_contain_text("All brokers answer again")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#apply")).to_be_visible()


# Before the page's scripts run: a page is stale after three seconds without a round.
ROUNDS_OF_A_SECOND = """document.addEventListener("readystatechange", () => {
  document.documentElement.dataset.interval = "1";
}, { once: true })"""


def test_an_open_page_names_the_database_that_is_away(context: BrowserContext, product: Product) -> None:
    """No round comes over an open socket, and the console answers 503."""
    page = context.new_page()
    page.add_init_script(ROUNDS_OF_A_SECOND)
    page.route_web_socket("**/ws/live", lambda socket: None)
    page.route("**/jump?q=a", lambda route: route.fulfill(status=503))
    page.goto(f"{product.url}/c/local/operations")
    expect(page.locator("#not-live")).to_contain_text("The console’s database has not answered since")


def wait_until_it_listens(port: int) -> None:
    """Return once a broker accepts connections."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"no broker listens on {port}")


def test_a_dead_letter_leads_to_its_message_and_back(page: Page, product: Product, picture: Picture) -> None:
    page.goto(f"{product.url}/c/local/dead-letters/notifier")
    page.locator("#sample tbody tr:not(.detail) a").first.click()
    story = page.locator(".life__events li")
    expect(story.first).to_contain_text("stored in")
    expect(story).to_contain_text(["stored in", "dead letter"])
    told = story.all_inner_texts()
    expect(page.locator(".life")).to_contain_text(re.compile(r"\d+ tr(y|ies) failed"))
    picture(page, "story-of-a-dead-letter")
    story.first.get_by_role("link").click()
    expect(page.locator(".crumbs")).not_to_contain_text("%DLQ%")
    assert page.locator(".life__events li").all_inner_texts() == told
    picture(page, "story-of-its-message")
