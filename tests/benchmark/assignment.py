"""How long a change of members takes until queues are divided anew by a server-side assignment, on a real brokerd.

    python -m tests.benchmark.assignment [--changes 6] [--queues 16] [--java]

Prints JSON. Milliseconds from a client's start, orderly end or death (SIGKILL of its process) until every queue is
held by exactly one living client, and none of them holds too many; clients run with their default intervals. With one
worker, with two at once, and with none, when brokers divide by themselves. ``overlap_ms``: the longest time in which a
queue was held by two of the clients in this process at once, sampled every 5 ms. ``back``: what three runs of a worker
that was away did, which nobody needed: assignments sent to brokers, and queues that moved. ``answers``: of what the
broker answered to all members while two workers ran without a pause, how often a queue was in two answers, or in none.

With ``--java`` the clients are push consumers of the official Java client 5.3.3 with client-side rebalance off; what
they hold is what they report (307), asked for every 20 ms; only the changes of members are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import django

from brokerd.remoting.body.client import ConsumerRunningInfo
from consumers import MQAdmin
from tests.support import java_peer
from tests.support.broker_process import BrokerProcess
from tests.support.java_peer import JavaPeer

GROUP, TOPIC, CLUSTER = "billing", "orders", "test"
WORKER_PAUSE_S = 5.0  # of the product's beat
SAMPLE_S = 0.005
ASKED_EVERY_S = 0.02
SETTLED_WITHIN_S = 100.0  # three JVMs on two busy cores
ANSWERS_A_MOMENT = 20
KILLED = ("consume", "--group", GROUP, "--topic", TOPIC)


def work(pause_s: float, ends: Any) -> None:
    """Be a worker: assign all that is due, over and over."""
    django.setup()
    from console.lag.services import system_now_ms
    from console.rebalance import services

    while not ends.wait(pause_s):
        services.rebalance_due(CLUSTER, system_now_ms())


@contextlib.contextmanager
def workers(count: int, pause_s: float = WORKER_PAUSE_S) -> Iterator[None]:
    """Run so many workers, each a process."""
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    running = [context.Process(target=work, args=(pause_s, ends)) for _ in range(count)]
    for each in running:
        each.start()
    try:
        yield
    finally:
        ends.set()
        for each in running:
            each.join(30)


class Members:
    """Clients of this process, and what they hold, sampled."""

    def __init__(self, broker: BrokerProcess, queues: int) -> None:
        from tests.console.lag.running_consumers import RunningConsumers

        self.broker, self.queues = broker, queues
        self.running = RunningConsumers(broker.namesrv)
        self.overlap_ms = 0.0
        self._since: float | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def held(self) -> dict[str, list[int]]:
        """Return which queues each client reads."""
        return {
            each.client.client_id: sorted(
                one.queue_id for one in each.running_info().mq_table if one.topic == TOPIC
            )
            for each in list(self.running.consumers)
        }

    def _sample(self) -> None:
        while not self._ends.wait(SAMPLE_S):
            counted = Counter(queue for share in self.held().values() for queue in share)
            if any(count > 1 for count in counted.values()):
                self._since = self._since or time.monotonic()
                self.overlap_ms = max(self.overlap_ms, (time.monotonic() - self._since) * 1000)
            else:
                self._since = None

    def answers(self) -> list[list[Any]]:
        """Return what the broker answers to each member now."""

        async def asked() -> list[list[Any]]:
            found = []
            for each in list(self.running.consumers):
                route = await each.client.route(TOPIC)
                allocation = await each.rebalancer._query_assignment(TOPIC, route)
                found.append(list(allocation.pull) if allocation is not None else [])
            return found

        return asyncio.run_coroutine_threadsafe(asked(), self.running.loop).result(30)

    def start(self) -> None:
        from consumers import ConsumeFromWhere, PushConsumerConfig

        config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        self.running.start(GROUP, {TOPIC: "*"}, config=config)

    def stop_one(self) -> None:
        self.running.stop(self.running.consumers[0])

    @contextlib.contextmanager
    def one_more(self) -> Iterator[subprocess.Popen[Any]]:
        """Run a member in a process of its own, which may be killed."""
        command = [sys.executable, "-m", "consumers", *KILLED, "--namesrv", self.broker.namesrv]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.settled_ms(time.monotonic(), others=1)
        yield process
        process.wait()

    def settled_ms(self, began: float, others: int = 0) -> float:
        """Wait until all queues but those of ``others`` are held once and evenly; return the time since ``began``."""
        while True:
            shares = [len(share) for share in self.held().values()]
            members = len(shares) + others
            low, high = self.queues // members, -(-self.queues // members)
            whole = sum(shares)
            missing = self.queues - whole
            is_whole = missing == 0 if not others else low * others <= missing <= high * others
            if is_whole and all(low <= share <= high for share in shares):
                return (time.monotonic() - began) * 1000
            assert time.monotonic() - began < SETTLED_WITHIN_S, (shares, others)
            time.sleep(SAMPLE_S)

    def close(self) -> None:
        self._ends.set()
        self._thread.join(5)
        self.running.close()


class JavaMembers:
    """Clients of the official Java client, and what they report."""

    overlap_ms: float | None = None  # reports are not made at the same moment

    def __init__(self, broker: BrokerProcess, queues: int) -> None:
        from console.brokers.mqadmin import Connection, with_admin

        self.broker, self.queues = broker, queues
        self.admin = with_admin(Connection(broker.namesrv))
        self.class_path = java_peer.build("5.3.3")
        self.peers: list[JavaPeer] = []
        self.names = itertools.count()
        self.count = 0

    def _peer(self, jvm: java_peer.Jvm | None = None) -> JavaPeer:
        where = ("--namesrv", self.broker.namesrv, "--topic", TOPIC, "--group", GROUP)
        how = ("--broker-assigns", "true", "--instance", f"m{next(self.names)}", "--seconds", "3000")
        self.count += 1
        return JavaPeer(self.class_path, ["consume", *where, *how], jvm)

    def start(self) -> None:
        self.peers.append(self._peer())

    def stop_one(self) -> None:
        self.count -= 1
        self.peers.pop(0).stop()

    @contextlib.contextmanager
    def one_more(self) -> Iterator[subprocess.Popen[Any]]:
        """Run a member in a JVM of its own, which may be killed."""
        jvm = java_peer.Jvm(self.class_path)
        self._peer(jvm)
        self.settled_ms(time.monotonic())
        self.count -= 1
        yield jvm.process
        jvm.kill()

    def held(self) -> list[list[int]]:
        """Return the queues that each member reports; none while one does not answer."""
        found = self.admin.consumer_connection(self.broker.address, GROUP)
        calls = {
            one.client_id: partial(_running, addr=self.broker.address, client_id=one.client_id)
            for one in (found.connection_set if found else ())
        }
        reports = self.admin.gather(calls, deadline_ms=5_000).values()
        known = [each for each in reports if not isinstance(each, Exception)]
        if len(known) < len(reports):  # one has just died
            return []
        return [[queue.queue_id for queue in each.mq_table if queue.topic == TOPIC] for each in known]

    def settled_ms(self, began: float) -> float:
        """Wait until all queues are held once and evenly by so many members; return the time since ``began``."""
        low, high = self.queues // self.count, -(-self.queues // self.count)
        while True:
            held = self.held()
            is_even = len(held) == self.count and all(low <= len(share) <= high for share in held)
            if is_even and sorted(itertools.chain(*held)) == list(range(self.queues)):
                return (time.monotonic() - began) * 1000
            assert time.monotonic() - began < SETTLED_WITHIN_S, (held, [each.lines for each in self.peers])
            time.sleep(ASKED_EVERY_S)

    def close(self) -> None:
        for each in self.peers:
            each.stop()


async def _running(admin: MQAdmin, *, addr: str, client_id: str) -> ConsumerRunningInfo:
    return await admin.consumer_running_info(addr, GROUP, client_id)


def measured(members: Members | JavaMembers, changes: int) -> dict[str, Any]:
    """Join, leave and die so often, from three clients on; return the figures."""
    if members.overlap_ms is not None:
        members.overlap_ms = 0.0
    found: dict[str, list[float]] = {"join": [], "leave": [], "death": []}
    for _ in range(changes):
        began = time.monotonic()
        members.start()
        found["join"].append(members.settled_ms(began))
        began = time.monotonic()
        members.stop_one()
        found["leave"].append(members.settled_ms(began))
        with members.one_more() as victim:
            began = time.monotonic()
            victim.kill()
            found["death"].append(members.settled_ms(began))
    figures: dict[str, Any] = {
        name: {"median_ms": round(statistics.median(each)), "max_ms": round(max(each)), "n": len(each)}
        for name, each in found.items()
    }
    return figures if members.overlap_ms is None else figures | {"overlap_ms": round(members.overlap_ms)}


def back_after_absence(members: Members) -> dict[str, int]:
    """Let three runs of a worker follow changes that brokers divided by themselves."""
    from console.lag.services import system_now_ms
    from console.rebalance import services
    from console.rebalance.models import ServerSideGroup

    members.start()
    members.settled_ms(time.monotonic())
    before, version = members.held(), ServerSideGroup.objects.get().version
    sent = 0
    for _ in range(3):
        services.rebalance_due(CLUSTER, system_now_ms())
        now = ServerSideGroup.objects.get().version
        sent += now != version
        version = now
    time.sleep(2)
    after = members.held()
    moved = sum(len(set(share) - set(after.get(client, ()))) for client, share in before.items())
    return {"runs": 3, "assignments_sent": sent, "queues_moved": moved}


def answers(members: Members, changes: int) -> dict[str, int]:
    """Ask the broker what each member may read, in settled moments between changes of members."""
    found = {"moments": 0, "in_two_answers": 0, "in_none": 0}
    for number in range(2 * changes):
        members.stop_one() if number % 2 else members.start()
        members.settled_ms(time.monotonic())
        for _ in range(ANSWERS_A_MOMENT):
            counted = Counter(queue for share in members.answers() for queue in share)
            found["moments"] += 1
            found["in_two_answers"] += sum(count > 1 for count in counted.values())
            found["in_none"] += members.queues - len(counted)
    return found


def prepared(broker: BrokerProcess, queues: int) -> None:
    """Make the topic, its group and the console's database, and put the group into server-side mode."""
    from django.core.management import call_command

    from console.cluster.models import Cluster
    from console.rebalance.models import ServerSideGroup
    from tests.console.operation.live_cluster import LiveCluster

    call_command("migrate", verbosity=0)
    call_command("migrate", database="metrics", verbosity=0)
    Cluster.objects.create(name=CLUSTER, namesrv_addrs=broker.namesrv)
    live = LiveCluster(broker, CLUSTER)
    live.create_topic(TOPIC, queues=queues)
    live.create_group(GROUP)
    ServerSideGroup.objects.create(cluster=CLUSTER, group=GROUP, topic=TOPIC, strategy="AVG", created_at_ms=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=6, help="joins, leaves and deaths of each part")
    parser.add_argument("--queues", type=int, default=16)
    parser.add_argument("--java", action="store_true", help="members of the official Java client")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "TIDEMARK_DATA": folder,
            "SECRET_KEY": "only-for-a-benchmark",
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "LOG_LEVEL": "ERROR",
        }
        django.setup()
        broker = BrokerProcess(Path(folder) / "store", brokerName="broker-a").start()
        members: Members | JavaMembers | None = None
        try:
            prepared(broker, options.queues)
            members = (JavaMembers if options.java else Members)(broker, options.queues)
            for _ in range(3):
                members.start()
            members.settled_ms(time.monotonic())
            result: dict[str, Any] = {"queues": options.queues, "load": os.getloadavg()[0]}
            for words, count in (("one worker", 1), ("two workers", 2), ("no worker", 0)):
                with workers(count):
                    result[words] = measured(members, options.changes)
            if isinstance(members, Members):
                result["back"] = back_after_absence(members)
                with workers(2, pause_s=0.05):
                    result["answers"] = answers(members, options.changes)
        finally:
            if members is not None:
                members.close()
            broker.stop()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
