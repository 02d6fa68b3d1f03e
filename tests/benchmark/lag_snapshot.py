"""Collecting: `python -m tests.benchmark.lag_snapshot [--brokers 10] [--topics 1000] ...` prints JSON.

    G5   one look at a whole cluster of simulated brokers: time, CPU, gap between reading c and reading m per broker
    G14  what a look costs a real brokerd: its CPU, as a share of one core at a look every 5 s

The simulated brokers share one process: what it takes is in the seconds and gaps of G5, not in its CPU, and stands
beside it (`simulated_brokers_cpu_seconds`). The naive way beside G5 asks for each group's statistics (208).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.broker_process import CommandBroker
from tests.support.simulated_cluster import SimulatedCluster

ROUNDS = 30
INTERVAL_S = 5


Look = tuple[float, float, list[int], int]


def look(admin: Any, brokers: Any, number: int, known: dict[str, Any]) -> Look | None:
    """Return (seconds, CPU seconds, c-to-m gaps in ms, group queues read); None when a broker was late."""
    from console.lag.round import broker_reads
    from console.lag.round.broker_reads import Question

    question = Question(number=number, tables=False, known_topics=known)
    cpu, started = time.process_time(), time.perf_counter()
    answers = broker_reads.read_brokers(admin, brokers, question, deadline_ms=30_000)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    if not all(one.answered for one in answers):
        return None
    gaps = [one.max_answered_ms - one.read_committed_ms for one in answers]
    queues = sum(len(queues) for one in answers for queues in one.offsets.values())
    return seconds, cpu_seconds, gaps, queues


def full_cluster(brokers: int, topics: int, groups: int, queues: int) -> dict[str, Any]:
    from console.brokers.mqadmin import Connection, close_admins, with_admin
    from console.lag.round import broker_reads

    gc.disable()  # as `console.lag.services.collect` does for a round
    with SimulatedCluster(brokers=brokers, topics=topics, groups=groups, queues=queues) as cluster:
        admin = with_admin(Connection(cluster.namesrv))
        addresses, _ = broker_reads.find_brokers(admin)
        known = {one.broker_name: () for one in addresses}
        looks = [look(admin, addresses, number, known) for number in range(3)]
        answering = cpu_of(cluster.pid)
        looks = [look(admin, addresses, number, known) for number in range(3, ROUNDS)]
        answering = (cpu_of(cluster.pid) - answering) / len(looks)
        found = [one for one in looks if one is not None]
        addr = addresses[0].addr
        started = time.perf_counter()
        for number in range(100):
            admin.consume_stats(addr, f"orders-{number * brokers:05d}-service")
        naive_s = (time.perf_counter() - started) / 100 * found[0][3]
        close_admins()
    seconds = [one[0] for one in found]
    gaps = [gap for one in found for gap in one[2]]
    return {
        "brokers": brokers,
        "looks": len(looks),
        "looks_with_a_late_broker": len(looks) - len(found),
        "group_queues": found[0][3],
        "heads": 2 * topics * queues,
        "G5_seconds_p50": round(statistics.median(seconds), 3),
        "G5_seconds_p99": round(float(np.percentile(seconds, 99)), 3),
        "G5_goal_seconds_p99": 0.5,
        "G5_cpu_seconds_p50": round(statistics.median(one[1] for one in found), 3),
        "G5_goal_cpu_seconds": 0.25,
        "simulated_brokers_cpu_seconds": round(answering, 3),
        "G5_c_to_m_gap_ms_p99": round(float(np.percentile(gaps, 99)), 1),
        "G5_goal_gap_ms_p99": 100,
        "naive_208_for_each_group_seconds": round(naive_s, 1),
    }


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def broker_cost(topics: int, queues: int, groups: int) -> dict[str, Any]:
    """Looks at a brokerd with so many topics, queues and groups; its CPU per look."""
    from console.brokers.mqadmin import (
        Connection,
        SubscriptionGroupConfig,
        TopicConfig,
        close_admins,
        with_admin,
    )
    from console.lag.round import broker_reads

    with tempfile.TemporaryDirectory() as folder:
        broker = CommandBroker(Path(folder, "store")).start()
        assert broker.process is not None
        admin = with_admin(Connection(broker.namesrv))
        for group in range(groups):
            admin.create_subscription_group(
                broker.address, SubscriptionGroupConfig(group_name=f"group-{group:03d}")
            )
        for number in range(topics):
            name = f"topic-{number:03d}"
            config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            admin.create_topic(broker.address, config)
            for group in range(groups):
                for queue in range(queues):
                    admin.update_consumer_offset(broker.address, f"group-{group:03d}", name, queue, 0)
        addresses, _ = broker_reads.find_brokers(admin)
        look(admin, addresses, 1, {})
        idle_before, idle_at = cpu_of(broker.process.pid), time.perf_counter()
        time.sleep(3)
        idle = (cpu_of(broker.process.pid) - idle_before) / (time.perf_counter() - idle_at)
        before, started = cpu_of(broker.process.pid), time.perf_counter()
        for number in range(ROUNDS):
            look(admin, addresses, number * 6 + 1, {"broker-a": ()})
        spent = cpu_of(broker.process.pid) - before - idle * (time.perf_counter() - started)
        close_admins()
        broker.stop()
    share = spent / ROUNDS / INTERVAL_S
    return {
        "broker_topics": topics,
        "broker_group_queues": topics * queues * groups,
        "G14_broker_cpu_ms_per_look": round(spent / ROUNDS * 1000, 1),
        "G14_share_of_a_core_at_5s_pct": round(100 * share, 2),
        "G14_goal_pct": 0.5,
        "messages_read_from_the_commit_log": 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--queues", type=int, default=20, help="of a topic on each of its two brokers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        os.environ.update(TIDEMARK_DATA=data, DJANGO_SETTINGS_MODULE="console.settings")
        import django

        django.setup()
        found = full_cluster(arguments.brokers, arguments.topics, arguments.groups, arguments.queues)
        found |= broker_cost(topics=20, queues=20, groups=2)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
