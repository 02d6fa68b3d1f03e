"""The whole product against the truth: every message and commit on two brokers is known, and so is every fault.

Live rows, REST, `/metrics`, charts and report rows are within one interval of it or say unknown for exactly that time.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoDbBlocker

from console.access import services as access_services
from tests.support import migrated
from tests.support.broker_process import BrokerProcess
from tests.support.known_traffic import KnownQueue, KnownTraffic, now_ms
from tests.support.product import Product, in_databases_of

INTERVAL_MS = 5_000
# What was consumed in the interval of a move counts as skipped too: 20 a second, for two rounds on a busy machine.
CONSUMED_IN_A_MOVE = 2 * 20 * INTERVAL_MS // 1_000
DEADLINE_MS = 4_000  # what a silent broker costs the round in which it falls silent
SLACK_MS = 3_000  # two busy cores
FROZEN_S = 55
LOOK_EVERY_S = 2.0  # twice or more in each round
FIRST = "broker-a"  # what the embedded broker is called
TOPIC, GROUP = "truth", "truth-group"
AGAIN, AGAIN_GROUP = "again", "again-group"  # a topic that is deleted under load and created again, twice
STALE_S = 12  # a member that commits where it stood in the topic's earlier life
METRICS_END_MS = 30_000  # after the last round, as the operators' guide promises
TOPIC_LAG = "rocketmq_consumergroup_group_topic_sum_lag"
QUEUE_LAG = "rocketmq_consumergroup_group_lag"
UNKNOWN_CODE = 12
pytestmark = pytest.mark.timeout(1_200)  # the story takes seven minutes


@dataclass(frozen=True, slots=True)
class Look:
    """What REST and `/metrics` said between two moments; `again`: the queue of the topic that is made again."""

    before_ms: int
    after_ms: int
    group: dict[str, Any]
    queues: list[dict[str, Any]]
    again: list[dict[str, Any]]
    scraped: str


class Onlooker:
    """Asks REST every two seconds, as a script would, and scrapes `/metrics`.

    A busy machine takes longer: tests want two fifths of the looks of a quiet one.
    """

    def __init__(self, product: Product, key: str) -> None:
        self.http = httpx.Client(base_url=f"{product.url}/api/v1", headers={"Authorization": f"Bearer {key}"})
        self.metrics_url = f"{product.url}/metrics"
        self.looks: list[Look] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._keep_looking, daemon=True)
        self.thread.start()

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.http.get(path, params=parameters, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.http.post(path, json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def close(self) -> None:
        self.stopping.set()
        self.thread.join(30)
        self.http.close()

    def _keep_looking(self) -> None:
        took_s = 0.0
        while not self.stopping.wait(max(0.0, LOOK_EVERY_S - took_s)):
            began_s, before_ms = time.monotonic(), now_ms()
            try:
                group = self.get(f"/clusters/local/groups/{GROUP}")
                queues = self.get(f"/clusters/local/groups/{GROUP}/queues", topic=TOPIC)["results"]
                again = self.get(f"/clusters/local/groups/{AGAIN_GROUP}/queues", topic=AGAIN)["results"]
                scraped = self.http.get(self.metrics_url, timeout=30).raise_for_status().text
            except httpx.HTTPStatusError:
                continue  # the groups are not known yet
            finally:
                took_s = time.monotonic() - began_s
            self.looks.append(Look(before_ms, now_ms(), group, queues, again, scraped))


@dataclass(slots=True)
class Story:
    """What happened, and when."""

    traffic: KnownTraffic
    again: KnownTraffic
    onlooker: Onlooker
    product: Product
    silent: tuple[int, int] = (0, 0)
    no_worker: tuple[int, int] = (0, 0)
    stale: tuple[int, int] = (0, 0)
    skipped: int = 0
    rewound: int = 0


def pids_below(pid: int) -> list[int]:
    """Every process that a process started, and they."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in children for one in (int(child), *pids_below(int(child)))]


def worker_pids(product: Product) -> list[int]:
    assert product.process is not None
    found = []
    for pid in pids_below(product.process.pid):
        if b"console.workers" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return found


def frozen(pids: list[int], seconds: float, meanwhile: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """Stop processes for a while; when they stood."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    began_ms = now_ms()
    meanwhile()
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    return began_ms, now_ms()


def make_token() -> str:
    owner = access_services.ensure_first_person()
    return access_services.create_token(owner=owner, name="onlooker", scopes=["VIEW", "REPORT"])[1]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Iterator[Story]:
    """Seven minutes: steady, burst, stall, a silent broker, no worker, skip, rewind, idle; beside it a topic that is
    made again twice.
    """
    folder = tmp_path_factory.mktemp("truth")
    migrated.copy_to(folder / "var")
    with ExitStack() as last:
        product = Product(folder / "var", "--no-demo", METRICS_QUEUES="true").start()
        last.callback(product.stop)
        second = BrokerProcess(folder / "second", brokerName="second", namesrvAddr=product.namesrv).start()
        last.callback(second.stop)
        first = {FIRST: f"127.0.0.1:{product.broker_port}"}
        brokers = first | {"second": second.address}
        traffic = KnownTraffic(product.namesrv, brokers, TOPIC, GROUP, queues=2).start()
        last.callback(traffic.close)
        again = KnownTraffic(product.namesrv, first, AGAIN, AGAIN_GROUP, queues=1).start()
        last.callback(again.close)
        onlooker = Onlooker(product, in_databases_of(product, django_db_blocker, make_token))
        last.callback(onlooker.close)
        told = Story(traffic, again, onlooker, product)
        play(told, second)
        yield told


def play(told: Story, second: BrokerProcess) -> None:
    traffic, again = told.traffic, told.again
    here, there = traffic.queue(FIRST, 0), traffic.queue("second", 0)
    slow = traffic.queue(FIRST, 1)
    for queue in (here, slow, there):
        queue.rate, queue.keep = 8.0, 3
    for queue in again.queues:
        queue.rate, queue.keep = 10.0, 40
    time.sleep(25)
    # a burst that drains at 100 a second
    here.keep, here.reads = None, 100.0
    traffic.burst(here, 1_500)
    # a stall of one queue meanwhile
    slow.keep = None
    time.sleep(15)
    made_ms = now_ms()
    again.make_again(stale=True)
    time.sleep(STALE_S)
    again.notice()
    told.stale = made_ms, now_ms()
    time.sleep(18)
    slow.keep, here.keep = 3, 3
    time.sleep(10)
    for queue in traffic.queues:
        queue.is_away = queue.broker_name == "second"
    time.sleep(2)
    assert second.process is not None
    told.silent = frozen([second.process.pid], FROZEN_S)
    for queue in traffic.queues:
        queue.is_away = False
    time.sleep(20)
    told.no_worker = frozen(worker_pids(told.product), FROZEN_S, again.make_again)
    time.sleep(20)
    # behind, it shows how fast it is; then another tool moves it ahead past 8,000 messages, and back
    slow.keep, slow.reads = None, 20.0
    traffic.burst(slow, 9_000)
    time.sleep(75)
    slow.reads = 0.0
    time.sleep(1)
    told.skipped = slow.produced - slow.offset
    traffic.set_offset(slow, slow.produced)
    time.sleep(20)
    told.rewound = 200
    traffic.set_offset(slow, slow.offset - told.rewound)
    time.sleep(20)
    slow.keep = 3
    for queue in (*traffic.queues, *again.queues):
        queue.rate = 0.0
    again.queues[0].keep = 0
    time.sleep(30)


def of_queue(told: Story, row: Mapping[str, Any]) -> KnownQueue:
    """Return the queue that a row of REST, or the labels of a sample, are about."""
    traffic = told.again if row["topic"] == AGAIN else told.traffic
    return traffic.queue(row.get("broker_name") or row["broker"], int(row["queue_id"]))


def wrong_figures(queue: KnownQueue, row: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield each figure of a live row that was not true when the row was read."""
    read_ms = row["read_at_ms"]
    least, most = queue.lag_between(read_ms - 1_500, read_ms + 500)
    if not least <= row["lag"] <= most:
        yield queue.broker_name, queue.queue_id, read_ms, "lag", row["lag"], least, most
    least, most = queue.time_lag_between(read_ms - 1_500, read_ms + 500)
    is_enough = row["time_lag_lower_bound"] or row["time_lag_ms"] >= least - INTERVAL_MS
    if not is_enough or row["time_lag_ms"] > most + INTERVAL_MS:
        yield queue.broker_name, queue.queue_id, read_ms, "age", row["time_lag_ms"], least, most


def test_every_live_figure_is_true_or_unknown(story: Story) -> None:
    """Lag exactly, its age within one interval; a lower bound is one."""
    rows = [row for look in story.onlooker.looks for row in look.queues if row["status"] != "UNKNOWN"]
    wrong = [one for row in rows for one in wrong_figures(of_queue(story, row), row)]
    assert not wrong, wrong[:10]
    assert len(rows) > 150


def test_a_silent_broker_is_unknown_for_exactly_that_time(story: Story) -> None:
    began_ms, ended_ms = story.silent
    late_ms = INTERVAL_MS + DEADLINE_MS + SLACK_MS
    inside = [x for x in story.onlooker.looks if began_ms + late_ms < x.before_ms and x.after_ms < ended_ms]
    assert len(inside) > 8
    for look in inside:
        known = {row["broker_name"]: row["status"] == "UNKNOWN" for row in look.queues}
        assert known == {FIRST: False, "second": True}
        assert look.group["status"] == "UNKNOWN" and look.group["partial"] and look.group["lag_lower_bound"]
    no_worker = story.no_worker[0]
    after = [x for x in story.onlooker.looks if ended_ms + late_ms < x.before_ms < no_worker]
    assert after
    assert not any(row["status"] == "UNKNOWN" for look in after for row in look.queues)


def test_without_workers_no_figure_reads_as_present(story: Story) -> None:
    """Rows that no worker keeps up are unknown after the time that pages allow, until there is one again."""
    began_ms, ended_ms = story.no_worker
    stale = [x for x in story.onlooker.looks if began_ms + 30_000 < x.before_ms and x.after_ms < ended_ms]
    assert len(stale) > 5
    assert {look.group["status"] for look in stale} == {"UNKNOWN"}
    assert {row["status"] for look in stale for row in look.queues} == {"UNKNOWN"}


def test_a_topic_that_is_made_again_under_load_begins_anew(story: Story) -> None:
    """No lag of its earlier life, none below zero: true, or for exactly that time unknown or contradictory."""
    late_ms = INTERVAL_MS + SLACK_MS
    (stale_ms, noticed_ms), (no_worker_ms, back_ms) = story.stale, story.no_worker
    rows = [(look, row) for look in story.onlooker.looks for row in look.again]
    wrong = []
    for look, row in rows:
        known = row["lag"] is not None
        is_silent = no_worker_ms < look.after_ms and look.before_ms < back_ms + 2 * late_ms
        if known:
            wrong += wrong_figures(of_queue(story, row), row)
            if stale_ms + late_ms < look.before_ms and look.after_ms < noticed_ms:
                wrong.append((look.before_ms - stale_ms, "known while its offset is beyond max", row))
        elif not is_silent and not stale_ms <= look.after_ms <= noticed_ms + late_ms:
            wrong.append((look.before_ms - noticed_ms, "unknown", row))
        elif row["status"] not in ("UNKNOWN", "INVALID", "NEVER_COMMITTED"):
            wrong.append((look.before_ms - stale_ms, "unknown without a word for it", row))
    assert not wrong, wrong[:10]
    words = {row["status"] for look, row in rows if look.before_ms > noticed_ms + late_ms}
    assert words <= {"OK", "UNKNOWN", "NEVER_COMMITTED"}
    assert len(rows) > 50
    assert story.again.queues[0].base > 1_000


class Scrape:
    """Samples of the cluster in one answer of `/metrics`, as Prometheus reads them."""

    def __init__(self, text: str) -> None:
        self.families = {
            family.name: [one for one in family.samples if one.labels.get("cluster") == "local"]
            for family in text_string_to_metric_families(text)
        }

    def named(self, name: str, **labels: str) -> list[Any]:
        return [one for one in self.families[name] if labels.items() <= one.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        (found,) = self.named(name, **labels)
        return float(found.value)


scrape = cache(Scrape)  # two tests read every one


def wrong_samples(story: Story, look: Look, found: Scrape) -> Iterator[tuple[Any, ...]]:
    """Yield each lag and offset that was not true within one interval before the round that it is of, and now."""
    round_ms = look.before_ms - 1_000 * found.value("tidemark_collector_round_age_seconds")
    span = int(round_ms) - INTERVAL_MS, look.after_ms
    for one in found.families[QUEUE_LAG]:
        least, most = of_queue(story, one.labels).lag_between(*span)
        if not least <= one.value <= most:
            yield look.before_ms, one, least, most
    for one in found.named("rocketmq_queue_latest_offset", topic=TOPIC):
        known = of_queue(story, one.labels).maximum.between(*span)
        if not min(known) <= one.value <= max(known):
            yield look.before_ms, one, min(known), max(known)
    for one in found.named(TOPIC_LAG, topic=TOPIC):
        both = [queue.lag_between(*span) for queue in story.traffic.queues]
        least, most = sum(low for low, _ in both), sum(high for _, high in both)
        is_bound = found.value("tidemark_group_topic_lag_is_lower_bound", topic=TOPIC)
        if one.value > most or (one.value < least and not is_bound):
            yield look.before_ms, one, least, most


def test_every_metric_is_true(story: Story) -> None:
    wrong, seen = [], 0
    for look in story.onlooker.looks:
        found = scrape(look.scraped)
        wrong += wrong_samples(story, look, found)
        seen += len(found.families[QUEUE_LAG])
    assert not wrong, wrong[:10]
    assert seen > 200


def test_metrics_of_what_is_unknown_are_absent_for_exactly_that_time(story: Story) -> None:
    (began_ms, ended_ms), (no_worker_ms, back_ms) = story.silent, story.no_worker
    late_ms = INTERVAL_MS + DEADLINE_MS + SLACK_MS
    seen = {"silent": 0, "answering": 0, "stale": 0, "current": 0}
    for look in story.onlooker.looks:
        found = scrape(look.scraped)
        brokers = {one.labels["broker"] for one in found.named(QUEUE_LAG, topic=TOPIC)}
        if began_ms + late_ms < look.before_ms and look.after_ms < ended_ms:
            seen["silent"] += 1
            assert brokers == {FIRST}
            assert found.value("tidemark_group_topic_status", topic=TOPIC) == UNKNOWN_CODE
            assert found.value("tidemark_group_topic_lag_is_lower_bound", topic=TOPIC) == 1
            assert found.value("tidemark_broker_up", broker="second") == 0
        elif ended_ms + late_ms < look.before_ms and look.after_ms < no_worker_ms:
            seen["answering"] += 1
            assert brokers == {FIRST, "second"}
            assert found.value("tidemark_group_topic_status", topic=TOPIC) != UNKNOWN_CODE
            assert found.value("tidemark_group_topic_lag_is_lower_bound", topic=TOPIC) == 0
        elif no_worker_ms + METRICS_END_MS < look.before_ms and look.after_ms < back_ms:
            seen["stale"] += 1
            named = {name for name, samples in found.families.items() if samples}
            assert {name for name in named if not name.startswith("tidemark_collector_")} == set()
            assert found.value("tidemark_collector_current") == 0
        elif back_ms + late_ms < look.before_ms:
            seen["current"] += 1
            assert brokers == {FIRST, "second"}
            assert found.value("tidemark_collector_current") == 1
    assert all(count > least for count, least in zip(seen.values(), (8, 0, 5, 25), strict=True)), seen


def test_no_set_offset_is_a_rate(story: Story) -> None:
    """8,000 messages passed by in a second are no consumption: the queues read 8 or 20 a second, or the burst's 100."""
    rates = [look.group["out_rate"] for look in story.onlooker.looks if look.group["out_rate"] is not None]
    last = [
        look.group["out_rate"]
        for look in story.onlooker.looks
        if look.before_ms > story.no_worker[1] + 30_000 and look.group["out_rate"] is not None
    ]
    assert max(rates) < 160
    assert last and max(last) < 60


def chart(story: Story) -> dict[str, Any]:
    looks = story.onlooker.looks
    found: dict[str, Any] = story.onlooker.get(
        f"/clusters/local/groups/{GROUP}/lag",
        from_ms=looks[0].before_ms - 60_000,
        to_ms=looks[-1].after_ms,
        points=2_000,
    )
    return found


def test_every_point_of_the_chart_is_true_or_a_gap(story: Story) -> None:
    found, wrong, seen = chart(story), [], 0
    for at_ms, lag, is_bound in zip(found["times"], found["lag"], found["lower_bound"], strict=True):
        if lag is None:
            continue
        seen += 1
        # a round reads its last broker a deadline after it began at the latest
        both = [queue.lag_between(at_ms - 1_000, at_ms + DEADLINE_MS) for queue in story.traffic.queues]
        least, most = sum(one[0] for one in both), sum(one[1] for one in both)
        if lag > most or (lag < least and not is_bound):
            wrong.append((at_ms, lag, is_bound, least, most))
    assert not wrong, wrong[:10]
    assert seen > 20
    for (began_ms, ended_ms), is_gap in ((story.silent, False), (story.no_worker, True)):
        inside = [
            (lag, is_bound)
            for at_ms, lag, is_bound in zip(found["times"], found["lag"], found["lower_bound"], strict=True)
            if began_ms < at_ms < ended_ms - INTERVAL_MS
        ]
        assert all(lag is None or (is_bound and not is_gap) for lag, is_bound in inside), inside


def test_what_came_and_what_was_read_is_summed_over_gaps(story: Story) -> None:
    """Both ends of the silence are known, so the sums are: a skip is no consumption, a rewind takes nothing back."""
    found = chart(story)
    known = [at_ms for at_ms, lag in zip(found["times"], found["lag"], strict=True) if lag is not None]
    # from the first look on in which every queue of both brokers was read
    whole = next(
        look.queues
        for look in story.onlooker.looks
        if len(look.queues) == len(story.traffic.queues)
        and all(row["status"] != "UNKNOWN" for row in look.queues)
    )
    began_ms = max(row["read_at_ms"] for row in whole)
    flow = story.onlooker.get(
        f"/clusters/local/groups/{GROUP}/throughput",
        from_ms=known[0] - known[0] % 60_000,
        to_ms=known[-1] + 1,
        points=2_000,
    )
    queues = story.traffic.queues
    produced = sum(
        one.produced - max(one.maximum.between(began_ms - 1_000, began_ms + DEADLINE_MS)) for one in queues
    )
    first = sum(one.produced for one in queues)
    assert produced <= sum(x or 0 for x in flow["produced"]) <= first
    consumed = sum(one.consumed for one in queues)
    early = sum(max(one.committed.between(began_ms - 1_000, began_ms + DEADLINE_MS)) for one in queues)
    least = consumed - early - CONSUMED_IN_A_MOVE
    assert least <= sum(x or 0 for x in flow["committed"]) <= consumed


def report_rows(story: Story, group: str, topic: str) -> list[dict[str, Any]]:
    found = story.onlooker.get("/clusters/local/reports/lag_hour/rows", group=group, grain="topic")["results"]
    return [row for row in found if row["topic"] == topic]


def test_the_report_says_what_the_live_page_said(story: Story) -> None:
    looks, onlooker = story.onlooker.looks, story.onlooker
    run = onlooker.post(
        "/clusters/local/reports/lag_hour/runs", {"from_ms": looks[0].before_ms, "to_ms": now_ms()}
    )
    deadline = time.monotonic() + 600  # Spark starts beside everything else that is tested
    while run["state"] in ("QUEUED", "RUNNING") and time.monotonic() < deadline:
        time.sleep(1)
        run = onlooker.get(f"/report-runs/{run['id']}")
    assert run["state"] == "SUCCEEDED", run
    rows = report_rows(story, GROUP, TOPIC)
    queues = story.traffic.queues
    assert 0 <= sum(row["skipped"] for row in rows) - story.skipped <= CONSUMED_IN_A_MOVE
    assert sum(row["rewinds"] for row in rows) == 1
    consumed = sum(one.consumed for one in queues)
    assert 0.9 * consumed < sum(row["consumed"] for row in rows) <= consumed
    # a story across a full hour has two rows, of which one may know no unknown time
    unknown_ms = sum(row["status_ms"].get("UNKNOWN", 0) for row in rows)
    silent_ms = story.silent[1] - story.silent[0]
    # without a worker the last figures hold for four intervals
    no_worker_ms = story.no_worker[1] - story.no_worker[0] - 4 * INTERVAL_MS
    assert abs(unknown_ms - silent_ms - no_worker_ms) < 3 * INTERVAL_MS + 2 * DEADLINE_MS
    # nothing of the earlier lives of the topic that was made again is read, produced or taken back
    rows = report_rows(story, AGAIN_GROUP, AGAIN)
    queue = story.again.queues[0]
    assert 0.7 * queue.consumed < sum(row["consumed"] for row in rows) <= queue.consumed
    assert 0.7 * queue.produced < sum(row["produced"] for row in rows) <= queue.produced
    assert {(row["skipped"], row["rewinds"]) for row in rows} == {(0, 0)}
