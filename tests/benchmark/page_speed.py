"""Speed as an operator feels it, in Chromium.

    python -m tests.benchmark.page_speed [--only pages tables] [--page REGEX] [--groups 10000] [--seconds 20]

Prints a line for each page, chart and table as it goes (stderr), at the end JSON with what misses its goal. `pages`, of
the demo, every page of `make pages`: the processor's time of the server (`server_time.py`); `paint_bytes`: the page,
style sheets and scripts that its first paint waits for, as they come over the wire to an empty cache; `html_bytes`: the
page alone, unpacked; `answer_ms` and `paint_ms`: the browser's time until the last byte and the first contentful paint.
`next_page`: from a click on the navigation to the first paint of the next page, as it comes and after `HOVER_MS` of
hovering, which fetches it ahead. `layout_shift` while figures change: see `layout_shift.py`. `charts`: one redraw of
every chart of `CHARTS`, in ms of the page's thread. `tables` of so many rows and `big_pages` of the same clusters,
served by a process of this command: the server's time of each page; with 50 and with 100 rows on the page all of a
sort (`sort_ms`; by the clock `sort_paint_ms`, from click to paint, and `sort_task_ms`, its longest task) and each frame
(`frame_ms`) while it is scrolled, in ms of the page's thread, which a busy machine lengthens less than the clock's;
`empty`: a page without a table, scrolled as far in the same run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import to_builtins
from playwright.sync_api import Browser, BrowserContext, CDPSession, Locator, Page, sync_playwright

from brokerd.remoting.allocate import assign_server_side
from brokerd.remoting.message.queue import MessageQueue
from tests.benchmark import layout_shift, server_time
from tests.benchmark.lists import world
from tests.e2e import render_pages
from tests.e2e.browser import launch, sign_in_first_time
from tests.support.product import Product
from tests.support.simulated_cluster import Layout, SimulatedCluster

GOALS = {
    "server_ms": 150,
    "paint_bytes": 60_000,
    "html_bytes": 60_000,
    "redraw_ms": 4,
    "frame_ms": 16,  # p95
    "long_frame_ms": 50,  # none: what the Long Tasks API calls one
    "sort_paint_ms": 200,  # what Interaction to Next Paint calls good
}
PARTS = ("pages", "next_page", "charts", "layout_shift", "tables", "big_pages")
OF_CLUSTERS = {"tables", "big_pages"}
CHARTS = ("overview", "topic", "group", "broker")  # pages of layout_shift.PAGES
JUDGED = 500  # clients: the most whose queues the overview judges
VISITS = 3
WARM_UP_S = 45
SORTS, SETTLE_MS = 5, 250
ROWS_ON_PAGE = (50, 100)  # what operators see, and the most that they may choose
ROUNDS_MAX, ROUND_MS = 8, 5_000
HOVER_MS = 600  # Chromium fetches after 200 ms on a link
TIMING = """() => {
  const [visit] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  const awaited = performance.getEntriesByType("resource").filter((one) => one.renderBlockingStatus === "blocking");
  return { answer: visit.responseEnd - visit.requestStart, html: visit.decodedBodySize,
           bytes: [visit, ...awaited].reduce((sum, one) => sum + one.encodedBodySize, 0),
           ahead: visit.deliveryType, paint: (paint?.startTime ?? NaN) - visit.activationStart };
}"""
NEXT_PAGE_MS = 20_000
REDRAWS = 60
REDRAW = """(canvas, redraws) => {
  const box = canvas.getBoundingClientRect(), read = () => canvas.getContext("2d").getImageData(0, 0, 1, 1);
  for (let i = 0; i < redraws / 2; i++) {
    canvas.dispatchEvent(new PointerEvent("pointermove", {
      clientX: box.left + (box.width * (i + 0.5) * 2) / redraws, clientY: box.top + box.height / 2 }));
    read();
    canvas.dispatchEvent(new PointerEvent("pointerleave"));
    read();
  }
}"""
# From the click on a head to the frame after the one in which other rows stand in the table, and the longest task.
ARM_SORT = """() => {
  window.longest = 0;
  window.watching ??= new PerformanceObserver((tasks) => {
    for (const task of tasks.getEntries()) window.longest = Math.max(window.longest, task.duration);
  });
  window.watching.observe({ type: "longtask" });
  window.sorted = new Promise((done) => addEventListener("click", ({ timeStamp }) => {
    const before = document.querySelector("[data-rows]");
    new MutationObserver((_, watch) => {
      const rows = document.querySelector("[data-rows]");
      if (!rows || rows === before) return;
      watch.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - timeStamp)));
    }).observe(document.getElementById("main"), { childList: true, subtree: true });
  }, { once: true, capture: true }));
}"""
SCROLL_PX, FRAMES_MAX = 100, 200
SCROLL = """async (pixels) => {
  scrollBy(0, pixels);
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  return scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
}"""
EMPTY = '<!doctype html><body style="margin: 0; height: 8000px">'


@dataclass(frozen=True)
class Cluster:
    """Sizes of a simulated cluster, its pages with a long table, and others, by name; `clients` of its first group."""

    sizes: dict[str, int]
    tables: dict[str, str]
    pages: dict[str, str]
    clients: int = 0


def clusters_of(rows: int) -> list[Cluster]:
    """Clusters with pages whose tables have so many rows."""
    topic, group = Layout.topic(3), Layout.group(3)
    alone = Layout.topic(0), Layout.group(0)
    lists = {
        "topics": "topics",
        "groups": "groups",
        "rebalanced groups": "rebalance",
        "topics of a broker": "brokers/broker-0?tab=topics",
    }
    others = {
        "overview": "",
        "group": f"groups/{group}",
        "group, clients": f"groups/{group}?tab=clients",
        "group, offsets": f"groups/{group}/offsets",
        "group, rebalance": f"rebalance/{group}",
        "topic": f"topics/{topic}",
        "brokers": "brokers",
        "broker": "brokers/broker-0",
        "broker, runtime": "brokers/broker-0?tab=runtime",
        "broker, drain": "brokers/broker-0?tab=drain",
        "dead letters": "dead-letters",
        "operations": "operations",
        "reports": "reports",
        "palette": "jump?q=orders-0",
        "fleet": "/fleet",
        "clusters": "/clusters",
    }
    queues = {"queues of a group": f"groups/{alone[1]}", "queues of a topic": f"topics/{alone[0]}"}
    readers = {"groups of a topic": f"topics/{alone[0]}?tab=groups"}
    many = {
        "owners of many clients": f"rebalance/{alone[1]}",
        "owners of many clients, now": f"rebalance/{alone[1]}?part=now",
        "group of many clients": f"groups/{alone[1]}",
        "many clients": f"groups/{alone[1]}?tab=clients",
        "overview of many clients": "",
    }
    judged = {"overview, owners judged": "", "owners of many queues": f"rebalance/{alone[1]}"}
    return [
        Cluster({"brokers": 8, "topics": rows, "groups": rows}, lists, others),
        Cluster({"brokers": 2, "topics": 1, "groups": 1, "queues": rows // 2}, queues, {}),
        Cluster({"brokers": 2, "topics": 1, "groups": rows}, readers, {}),
        Cluster({"brokers": 2, "topics": 1, "groups": 1, "queues": rows // 2}, {}, many, rows),
        Cluster({"brokers": 2, "topics": 1, "groups": 1, "queues": rows // 2}, {}, judged, JUDGED),
    ]


def named(paths: Mapping[str, str], wanted: re.Pattern[str]) -> dict[str, str]:
    return {name: path for name, path in paths.items() if wanted.search(name)}


def address(path: str) -> str:
    return path if path.startswith("/") else f"/c/big/{path}"


def rounded(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {
        "median": round(statistics.median(ordered), 1),
        "p95": round(p95, 1),
        "max": round(ordered[-1], 1),
    }


def timing(page: Page) -> dict[str, Any]:
    """How the page in sight was loaded, once its first paint is known."""
    for _ in range(100):
        found: dict[str, Any] = page.evaluate(TIMING)
        if found["paint"] == found["paint"] and found["paint"] is not None:
            return found
        page.wait_for_timeout(20)
    return found


def report(name: str, **figures: object) -> None:
    """Print a line about what was just measured."""
    words = "  ".join(f"{key} {value}" for key, value in figures.items())
    print(f"{name:<24} {words}", file=sys.stderr, flush=True)


def first_paints(
    context: BrowserContext, url: str, wanted: re.Pattern[str], data: Path | None
) -> dict[str, Any]:
    """Pages of a product; without its data folder the server's own time is left out."""
    page, results = context.new_page(), {}
    with contextlib.redirect_stdout(sys.stderr):
        addresses = render_pages.addresses(page, url, wanted)
    server = server_time.of_product(data, addresses) if data else {}
    for name, path in addresses.items():
        visits = []
        for _ in range(VISITS):
            page.goto(url + path)
            visits.append(timing(page))
        results[name] = {
            "server_ms": server[name]["cpu_ms"] if server else None,
            "server_worst_ms": server[name]["worst_ms"] if server else None,
            "answer_ms": round(statistics.median(visit["answer"] for visit in visits), 1),
            "paint_bytes": max(visit["bytes"] for visit in visits),
            "html_bytes": max(visit["html"] for visit in visits),
            "paint_ms": round(statistics.median(visit["paint"] for visit in visits), 1),
        }
        report(name, **results[name])
    page.close()
    return results


def next_page(context: BrowserContext, url: str, hover_ms: int) -> dict[str, Any]:
    """From page to page, each clicked after `hover_ms` on its link; with 0 nothing is fetched ahead."""
    page, paints, ahead = context.new_page(), [], 0
    if not hover_ms:
        page.route("**/*.speculationrules", lambda route: route.abort())
    page.goto(f"{url}/c/local/")
    for name in ("Topics", "Groups", "Brokers", "Operations", "Reports", "Dead letters") * 2:
        link = page.get_by_role("navigation", name="Main").get_by_role("link", name=name)
        link.hover()
        page.wait_for_timeout(hover_ms)
        with page.expect_navigation(wait_until="load"):
            link.click()
        found = timing(page)
        paints.append(found["paint"])
        ahead += found["ahead"] == "navigational-prefetch"
    page.close()
    found = {"paint_ms": rounded(paints), "fetched_ahead": ahead, "of": len(paints)}
    report(f"next page, hover {hover_ms} ms", **found)
    return found


def busy_s(devtools: CDPSession) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def charts(context: BrowserContext, url: str) -> dict[str, float]:
    page, results = context.new_page(), {}
    for name in CHARTS:
        page.goto(url + layout_shift.PAGES[name])
        page.wait_for_timeout(2_000)
        devtools = thread_of(page)
        for canvas in page.locator("main canvas[tabindex]").all():
            before = busy_s(devtools)
            canvas.evaluate(REDRAW, REDRAWS)
            redraw_ms = (busy_s(devtools) - before) * 1000 / REDRAWS
            results[f"{name} {canvas.get_attribute('id')}"] = round(redraw_ms, 2)
            report(f"chart {name} {canvas.get_attribute('id')}", redraw_ms=round(redraw_ms, 2))
    page.close()
    return results


def thread_of(page: Page) -> CDPSession:
    """Count the ticks of the page's own thread: what else the machine does is left out."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return devtools


def sort(page: Page, devtools: CDPSession, head: Locator) -> tuple[float, float, float]:
    """What a click on a head costs the page's thread; the clock's time until the other order is painted, and of the
    longest task, 0 where none took 50; in ms."""
    page.evaluate(ARM_SORT)
    before_s = busy_s(devtools)
    # a list that changes in place changes its address, which is a navigation too; a click of the mouse would have
    # Playwright look for the place, on the page's thread
    with page.expect_event("framenavigated", timeout=NEXT_PAGE_MS):
        head.evaluate("link => link.click()")
    in_place = page.evaluate("() => window.sorted ?? null")
    paint_ms = float(timing(page)["paint"] if in_place is None else in_place)
    page.wait_for_timeout(SETTLE_MS)
    return (busy_s(devtools) - before_s) * 1000, paint_ms, page.evaluate("() => window.longest ?? NaN")


def scroll(page: Page, devtools: CDPSession) -> list[float]:
    """Scroll to the end; what the page's thread did in each frame, in ms."""
    frames, at_end = [], False
    while not at_end and len(frames) < FRAMES_MAX:
        before_s = busy_s(devtools)
        at_end = page.evaluate(SCROLL, SCROLL_PX)
        frames.append((busy_s(devtools) - before_s) * 1000)
    return frames


def tables(context: BrowserContext, url: str, paths: Mapping[str, str]) -> dict[str, Any]:
    page, results = context.new_page(), {}
    page.set_content(EMPTY)
    empty = rounded(scroll(page, thread_of(page)))
    for name, path in paths.items():
        for rows in ROWS_ON_PAGE:
            named_rows = f"{name}, {rows} rows"
            results[named_rows] = table(page, f"{url}{address(path)}{'&' if '?' in path else '?'}rows={rows}")
            report(f"table of {named_rows}", **results[named_rows])
    page.close()
    return {name: {**figures, "empty": empty} for name, figures in results.items()}


def table(page: Page, url: str) -> dict[str, Any]:
    page.goto(url)
    page.locator("[data-rows] > tr").first.wait_for()
    page.wait_for_timeout(1_000)
    heads = page.locator("thead a[href*=sort]")
    sorts = [sort(page, thread_of(page), heads.nth(at)) for at in range(min(SORTS, heads.count()))]
    page.goto(url)
    page.wait_for_timeout(1_000)
    frames = scroll(page, thread_of(page))
    by_thread, by_clock, longest = zip(*sorts, strict=True) if sorts else ((), (), ())
    return {
        "rows_on_page": page.locator("[data-rows] > tr:not(.detail)").count(),
        "dom_nodes": page.evaluate("document.querySelectorAll('*').length"),
        "html_bytes": timing(page)["html"],
        "sort_ms": rounded(by_thread) if sorts else None,
        "sort_paint_ms": rounded(by_clock) if sorts else None,
        "sort_task_ms": rounded(longest) if sorts else None,
        "frames": len(frames),
        "frame_ms": rounded(frames),
    }


def collect_all(services: Any) -> None:
    """Run rounds until one has read every broker, which a busy machine may not within its deadline."""
    for at in range(ROUNDS_MAX):
        done = services.collect("big", now_ms=services.system_now_ms() + at * ROUND_MS)
        if done and done.brokers_answered == done.brokers_total:
            return
    raise AssertionError(f"no round of {ROUNDS_MAX} read every broker")


def fill_trends() -> None:
    """Give every row the line of a whole hour, which the few rounds of this command do not."""
    from console.lag.models import GroupRow, TopicRow

    hour = [1_000 + at * 7_919 % 4_000 for at in range(60)]
    for model in (GroupRow, TopicRow):
        model.objects.update(trend=hour)


def fill_clients(layout: Layout, count: int) -> None:
    """Give the first group so many clients, who divided its queues anew half an hour ago.

    Of each hundred, two did not answer, and one holds the queues of its neighbour too.
    """
    from console.lag.models import ClientRow, GroupMembers, QueueOwner
    from console.lag.services import system_now_ms

    now_ms, hour_ms, topic = system_now_ms(), 3_600_000, layout.topic(0)
    queues = [
        MessageQueue(topic, layout.broker(broker), queue)
        for broker in range(layout.brokers)
        for queue in range(layout.queues)
    ]
    shares = list(assign_server_side(queues, [f"10.0.0.1@{at:05}" for at in range(count)]).items())
    of_group = {"cluster": "big", "group": layout.group(0)}
    clients, owners = [], []
    for at, (client_id, share) in enumerate(shares):
        held = share + shares[at - 1][1] if at % 100 == 4 else share
        queues_of = None if at % 100 < 2 else [to_builtins(one) for one in held]
        clients.append(
            ClientRow(
                **of_group,
                client_id=client_id,
                language="JAVA",
                version="V5_3_3",
                queues=queues_of,
                subscription={topic: {"expression": "*", "type": "TAG"}},
                read_at_ms=now_ms,
            )
        )
        for holder, begun, ended in (
            (shares[at - 1][0], hour_ms, hour_ms // 2),
            (client_id, hour_ms // 2, None),
        ):
            owners += [
                QueueOwner(
                    **of_group,
                    **to_builtins(one),
                    client_id=holder,
                    from_ms=now_ms - begun,
                    to_ms=None if ended is None else now_ms - ended,
                )
                for one in share
            ]
    ClientRow.objects.bulk_create(clients, batch_size=500)
    QueueOwner.objects.bulk_create(owners, batch_size=500)
    GroupMembers.objects.create(
        **of_group, clients=count, model="CLUSTERING", topics=[topic], read_at_ms=now_ms
    )


@contextmanager
def served(client: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """The console of this process on a port, sockets included: its address and the cookie of the client's session."""
    from django.conf import settings

    # the demo's server too is uvicorn; a reader's socket is open, so that no page looks for one
    config = uvicorn.Config("console.asgi:application", port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.1)
    name = settings.SESSION_COOKIE_NAME
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", {"name": name, "value": client.cookies[name].value}
    server.should_exit = True
    thread.join()


def of_cluster(cluster: Cluster, parts: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # Django before Playwright: its event loop would make the databases refuse this thread.
    with SimulatedCluster(**cluster.sizes) as simulated, world(simulated) as client:
        from console.lag import services

        if cluster.clients:
            fill_clients(simulated.layout, cluster.clients)
        collect_all(services)
        fill_trends()
        if "big_pages" in parts:
            every = {name: address(path) for name, path in (cluster.tables | cluster.pages).items()}
            found["big_pages"] = server_time.of_paths(client, every)
            for name, figures in found["big_pages"].items():
                report(f"big page {name}", **figures)
        if "tables" in parts and cluster.tables:
            with served(client) as (url, cookie), sync_playwright() as playwright:
                browser = launch(playwright)
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                context.add_cookies([{**cookie, "url": url}])
                found["tables"] = tables(context, url, cluster.tables)
                browser.close()
    return found


def of_every_cluster(rows: int, wanted: re.Pattern[str], parts: Collection[str]) -> dict[str, Any]:
    """Tables and pages whose names match; each cluster has a process, for Django is set up once in one."""
    found: dict[str, Any] = {part: {} for part in OF_CLUSTERS.intersection(parts)}
    for cluster in clusters_of(rows):
        chosen = replace(cluster, tables=named(cluster.tables, wanted), pages=named(cluster.pages, wanted))
        if chosen.tables or (chosen.pages and "big_pages" in parts):
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                for part, figures in pool.submit(of_cluster, chosen, parts).result().items():
                    found[part] |= figures
    return found


def of_the_demo(asked: argparse.Namespace) -> dict[str, Any]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if asked.url:
            return measure(browser, asked.url, asked.state, asked, None)
        with tempfile.TemporaryDirectory(prefix="tidemark-speed-") as scratch:
            product = Product(Path(scratch) / "var").start()
            try:
                state = sign_in_first_time(product, browser)
                report("demo", warms_up_s=asked.warm_up)
                time.sleep(asked.warm_up)
                return measure(browser, product.url, state, asked, product.data)
            finally:
                product.stop()


def measure(
    browser: Browser, url: str, state: Path, asked: argparse.Namespace, data: Path | None
) -> dict[str, Any]:
    context = browser.new_context(storage_state=str(state), viewport={"width": 1440, "height": 900})
    found: dict[str, Any] = {}
    if "pages" in asked.only:
        found["pages"] = first_paints(context, url, asked.page, data)
    if "next_page" in asked.only:
        found["next_page"] = {
            "as_it_comes": next_page(context, url, 0),
            "hovered": next_page(context, url, HOVER_MS),
        }
    if "charts" in asked.only:
        found["charts"] = charts(context, url)
    context.close()
    if "layout_shift" in asked.only:
        found["layout_shift"] = {}
        for width in layout_shift.SIZES:
            found["layout_shift"] |= layout_shift.measure(browser, url, state, width, asked.seconds)
        for name, shifts in found["layout_shift"].items():
            report(f"layout shift {name}", **shifts)
    return found


def misses(found: dict[str, Any]) -> list[str]:
    """What misses its goal, as sentences."""
    missed = [
        f"{name}: {key} {page[key]} > {GOALS[key]}"
        for name, page in found.get("pages", {}).items()
        for key in ("server_ms", "paint_bytes", "html_bytes")
        if page[key] is not None and page[key] > GOALS[key]
    ]
    for name, page in found.get("big_pages", {}).items():
        for key, goal in (("cpu_ms", "server_ms"), ("html_bytes", "html_bytes")):
            if page[key] > GOALS[goal]:
                missed.append(f"big page {name}: {key} {page[key]} > {GOALS[goal]}")
    for name, chart in found.get("charts", {}).items():
        if chart >= GOALS["redraw_ms"]:
            missed.append(f"chart {name}: {chart} ms")
    for name, table in found.get("tables", {}).items():
        for figure, goal in (("p95", "frame_ms"), ("max", "long_frame_ms")):
            if table["frame_ms"][figure] > GOALS[goal]:
                missed.append(
                    f"table of {name}: {figure} of its frames {table['frame_ms'][figure]} > {GOALS[goal]}"
                )
        if table["sort_paint_ms"] and table["sort_paint_ms"]["median"] > GOALS["sort_paint_ms"]:
            missed.append(f"table of {name}: sorted after {table['sort_paint_ms']['median']} ms")
        if table["sort_task_ms"] and table["sort_task_ms"]["median"] > GOALS["long_frame_ms"]:
            missed.append(f"table of {name}: a task of its sort took {table['sort_task_ms']['median']} ms")
    for name, shifts in found.get("layout_shift", {}).items():
        if shifts["load"] >= layout_shift.LOAD_BELOW:
            missed.append(f"layout shift of {name} at load: {shifts['load']}")
        if shifts["live"] >= layout_shift.LIVE_BELOW and not shifts["may_move"]:
            missed.append(f"layout shift of {name} live: {shifts['live']} {shifts['live_moved'][:1]}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=10_000, help="rows of the tables")
    parser.add_argument("--seconds", type=float, default=20, help="of watching for layout shifts")
    parser.add_argument("--url", help="a product that runs already")
    parser.add_argument("--state", type=Path, help="the signed-in browser's storage state for --url")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts of the measurement")
    parser.add_argument(
        "--page",
        type=re.compile,
        default=re.compile(""),
        help="names of pages and tables, a regular expression",
    )
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, metavar="SECONDS", help="of demo traffic")
    asked = parser.parse_args()
    found = of_the_demo(asked) if set(asked.only) - OF_CLUSTERS else {}
    if OF_CLUSTERS.intersection(asked.only):
        found |= of_every_cluster(asked.groups, asked.page, asked.only)
    json.dump({"goals": GOALS, "missed": misses(found), **found}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if misses(found) else 0


if __name__ == "__main__":
    sys.exit(main())
