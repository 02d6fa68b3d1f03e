"""Lists and rounds of a cluster of 8 brokers, 10,000 topics and 10,000 groups that speak the protocol.

    python -m tests.benchmark.lists [--brokers 8] [--topics 10000] [--groups 10000] [--rounds 6] [--profile FILE]

Prints JSON. `round`: collection rounds by their parts, in s; every queue has another age and most topics
other figures. `rows_write_s` (rows of groups, topics and brokers, and the sheets of queues) is what "one
round's update of all rows" costs as it comes; `update_all_s` the same where every figure of every row
differs, in one transaction with its commit, beside `naive`: the rows through model objects and
`bulk_create(update_conflicts=True)`, and one publication for each row. `lists`: whole pages as Django answers
them, middleware and templates included, over every order, first, middle and last page, and a search typed
letter by letter, beside `naive`: all rows of the list read and sorted in Python. `one_silent`: the same with
one broker of the cluster that takes requests and never answers.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from tests.support.redis_process import RedisProcess
from tests.support.simulated_cluster import SimulatedCluster

WORD = "orders-04711"  # typed letter by letter
PAGES_PER_ORDER = 3
WARM_UP = 5
INTERVAL_MS = 5_000


class Clock:
    """Sums of what wrapped functions took, and the time of the rounds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.now_ms = time.time_ns() // 1_000_000 // INTERVAL_MS * INTERVAL_MS

    def wrap(self, owner: Any, name: str, label: str) -> None:
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds[label] = self.seconds.get(label, 0.0) + time.perf_counter() - started

        setattr(owner, name, timed)

    def take(self) -> dict[str, float]:
        taken, self.seconds = self.seconds, {}
        return {label: round(seconds, 3) for label, seconds in taken.items()}


def instrument() -> Clock:
    """Watch the parts of a round."""
    from console.lag import services
    from console.lag.collect import collector
    from console.lag.history.log import HistoryLog
    from console.lag.round import broker_reads
    from console.lag.rows import group_rows, queue_rows, topic_rows
    from console.lag.rows.row_store import RowStore
    from console.lag.rows.sheets import SheetStore
    from console.live import hub as live

    clock = Clock()
    for owner, name, label in (
        (broker_reads, "read_brokers", "ask_s"),
        (collector, "snapshot_of", "snapshot_s"),
        (HistoryLog, "append", "history_s"),
        (collector, "series_of", "series_s"),
        (collector, "columns_of", "columns_s"),
        (queue_rows, "queue_table", "make_queue_rows_s"),
        (topic_rows, "topic_queue_table", "make_topic_queue_rows_s"),
        (topic_rows, "topic_rows", "make_topic_rows_s"),
        (group_rows, "group_rows", "make_group_rows_s"),
        (RowStore, "replace", "rows_write_s"),
        (SheetStore, "replace", "rows_write_s"),
        (services, "_knowledge", "knowledge_s"),
        (services, "_publish", "publish_s"),
        (live, "publish", "publish_redis_s"),
    ):
        clock.wrap(owner, name, label)
    return clock


def rounds(clock: Clock, count: int, profile: str = "") -> list[dict[str, Any]]:
    """Run rounds as the worker does; the first fills everything and is told apart."""
    from console.lag import services

    found = []
    for number in range(count):
        clock.now_ms += INTERVAL_MS
        profiler = cProfile.Profile() if profile and number == count - 1 else None
        cpu, started = time.process_time(), time.perf_counter()
        if profiler:
            done = profiler.runcall(services.collect, "big", now_ms=clock.now_ms)
            profiler.dump_stats(profile)
        else:
            done = services.collect("big", now_ms=clock.now_ms)
        assert done is not None
        found.append(
            {
                "all_s": round(time.perf_counter() - started, 3),
                "cpu_s": round(time.process_time() - cpu, 3),
                "rpcs": done.rpcs,
                "series": done.series,
                "brokers": f"{done.brokers_answered}/{done.brokers_total}",
                **clock.take(),
            }
        )
    return found


@contextmanager
def world(simulated: SimulatedCluster) -> Iterator[Any]:
    """The console on databases, a Redis and a history of its own; gives a signed-in test client."""
    folder = Path(tempfile.mkdtemp(prefix="tm-", dir="/tmp"))
    redis = RedisProcess(folder).start()
    os.environ.update(
        DJANGO_SETTINGS_MODULE="console.settings",
        TIDEMARK_DATA=str(folder),
        REDIS_URL=redis.url,
        ALLOWED_HOSTS="testserver,127.0.0.1",
        LOG_LEVEL="ERROR",
    )
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from console.brokers.mqadmin import close_admins
    from console.cluster.models import Cluster

    try:
        call_command("migrate", verbosity=0)
        call_command("migrate", database="metrics", verbosity=0)
        Cluster.objects.create(name="big", namesrv_addrs=simulated.namesrv)
        client = Client()
        client.force_login(User.objects.create_superuser("admin"))
        yield client
    finally:
        close_admins()
        redis.kill()
        shutil.rmtree(folder, ignore_errors=True)


def addresses(kind: str, sorts: Sequence[str], pages: int) -> list[str]:
    """Every order both ways on the first, a middle and the last page; a word typed letter by letter."""
    found = [
        f"/c/big/{kind}?sort={sort}&dir={direction}&page={page}"
        for sort in sorts
        for direction in ("asc", "desc")
        for page in (1, max(1, pages // 2), pages)[:PAGES_PER_ORDER]
    ]
    return found + [f"/c/big/{kind}?q={WORD[:length]}" for length in range(1, len(WORD) + 1)]


def spread(call: Callable[[str], None], every: Sequence[str]) -> dict[str, Any]:
    """Milliseconds of one call for each address: median, p95, worst, and which was worst."""
    for address in every[:WARM_UP]:
        call(address)
    took = []
    for address in every:
        started = time.perf_counter()
        call(address)
        took.append((time.perf_counter() - started) * 1000)
    worst = max(range(len(took)), key=took.__getitem__)
    return {
        "requests": len(took),
        "p50_ms": round(statistics.median(took), 1),
        "p95_ms": round(statistics.quantiles(took, n=20)[-1], 1),
        "max_ms": round(took[worst], 1),
        "worst": every[worst],
    }


def lists(client: Any, layout: Any) -> dict[str, Any]:
    """Pages of groups and topics, the palette's search, and what reads queues: rows opened, a topic's, a broker's."""
    from console.group.group_list import GROUPS
    from console.topic.topic_list import TOPICS

    gc.collect()
    gc.freeze()  # the collector's rows are in another process than the pages: looking through them is no page's time

    def get(address: str) -> None:
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)

    per_page = 50
    found = {
        "groups": spread(get, addresses("groups", GROUPS.sorts, -(-layout.groups // per_page))),
        "topics": spread(get, addresses("topics", TOPICS.sorts, -(-layout.topics // per_page))),
        "jump": spread(get, [f"/c/big/jump?q={WORD[:length]}" for length in range(1, len(WORD) + 1)] * 5),
    }
    some = range(0, min(layout.groups, layout.topics), 97)
    found["group_opened"] = spread(get, [f"/c/big/groups/{layout.group(at)}?part=row" for at in some])
    found["topic_opened"] = spread(get, [f"/c/big/topics/{layout.topic(at)}?part=row" for at in some])
    found["groups_of_topic"] = spread(get, [f"/c/big/topics/{layout.topic(at)}?tab=groups" for at in some])
    found["topics_of_broker"] = spread(get, [f"/c/big/brokers/broker-{at}?tab=topics" for at in range(8)] * 3)
    found["naive"] = {
        "groups": spread(_naive_groups, [f"lag {number}" for number in range(10)]),
    }
    return found


def _naive_groups(_: str) -> None:
    """What a list without paging in the database does: read all rows, sort them, cut a page."""
    from console.lag.models import GroupRow

    rows = list(GroupRow.objects.filter(cluster="big"))
    sorted(rows, key=lambda row: (row.lag is None, -(row.lag or 0), row.group))[:50]


def update_all(times: int = 3) -> list[dict[str, float]]:
    """Replace all rows and sheets by such that differ in every number, as a round does."""
    from django.db import transaction

    from console.lag import services
    from console.lag.database_router import METRICS

    collector = services.collectors.get("big", INTERVAL_MS, time.time_ns() // 1_000_000)
    found = []
    for _ in range(times):
        groups, topics = (
            {key: _other(row) for key, row in one.rows.items()}
            for one in (collector.groups, collector.topics)
        )
        queues, topic_queues = (
            _other_columns(one.rows) for one in (collector.queues, collector.topic_queues)
        )
        started = time.perf_counter()
        parts = {}
        with transaction.atomic(using=METRICS):
            for name, store, rows in (
                ("groups_s", collector.groups, groups),
                ("topics_s", collector.topics, topics),
                ("queues_s", collector.queues, queues),
                ("topic_queues_s", collector.topic_queues, topic_queues),
            ):
                began = time.perf_counter()
                store.replace(rows)  # type: ignore[attr-defined]
                parts[name] = round(time.perf_counter() - began, 3)
        found.append({"update_all_s": round(time.perf_counter() - started, 3), **parts})
    return found


def _other(row: dict[str, Any]) -> dict[str, Any]:
    """A row with other numbers, an hour of a trend and other figures of its topics."""
    changed = {name: value + 1 if type(value) in (int, float) else value for name, value in row.items()}
    if "topics" in row:
        changed["topics"] = [{**one, "lag": (one["lag"] or 0) + 1} for one in row["topics"]]
    newest = int(row["trend"][-1] or 0) if row["trend"] else 0
    return changed | {"trend": [newest + at for at in range(1, 61)]}


def _other_columns(rows: Any) -> Any:
    from console.lag.round.columns import NULL
    from console.lag.round.keyed_columns import KeyedColumns

    return KeyedColumns(
        rows.keys,
        {
            name: column + (column != NULL) if column.dtype.kind in "if" else column
            for name, column in rows.columns.items()
        },
    )


def naive_update() -> dict[str, float]:
    """All rows of groups and topics once more, through model objects, and one publication for each."""
    from django.db import transaction

    from console.lag.database_router import METRICS
    from console.lag.models import GroupRow, TopicRow
    from console.live import hub as live

    found = {}
    started = time.perf_counter()
    with transaction.atomic(using=METRICS):
        for model, key in ((GroupRow, "group"), (TopicRow, "topic")):
            rows = list(model.objects.filter(cluster="big"))
            for row in rows:
                row.pk = None
            fields = [
                one.name for one in model._meta.concrete_fields if one.name not in ("id", "cluster", key)
            ]
            model.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=["cluster", key],
                update_fields=fields,
                batch_size=500,
            )
    found["rows_write_s"] = round(time.perf_counter() - started, 3)
    started = time.perf_counter()
    for row in GroupRow.objects.filter(cluster="big"):
        live.publish("naive", {row.group: row.as_row()}, now_ms=1)
    found["publish_s"] = round(time.perf_counter() - started, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, number in (("brokers", 8), ("topics", 10_000), ("groups", 10_000), ("rounds", 6)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--profile", default="", help="cProfile file of the last full round")
    options = parser.parse_args()
    sizes = {"brokers": options.brokers, "topics": options.topics, "groups": options.groups}
    with SimulatedCluster(**sizes) as simulated, world(simulated) as client:
        clock = instrument()
        first, *rest = rounds(clock, options.rounds, options.profile)
        result: dict[str, Any] = {"sizes": sizes, "first_round": first, "round": rest}
        result["lists"] = lists(client, simulated.layout)
        result["update_all"] = update_all()
        result["naive"] = naive_update()
        clock.take()
        simulated.silence(3)
        result["one_silent"] = {"round": rounds(clock, 3), "lists": lists(client, simulated.layout)}
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
