"""What tests of the console on Apache RocketMQ need: topics over both brokers, messages, members, jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Connection,
    Message,
    MQBrokerError,
    SendResult,
    SubscriptionGroupConfig,
    TopicConfig,
    with_admin,
)
from console.lag import services as lag_services
from console.lag.collect import sweep
from console.lag.models import CollectorLease, Round
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import wait_for
from tests.support.apache_cluster import ApacheCluster

NAME = "apache"
Place = tuple[str, int]  # broker name, queue id


class ApacheWorld:
    """The session's Apache cluster under the name ``apache`` in the console's database of one test."""

    def __init__(self, cluster: ApacheCluster, actor: User) -> None:
        self.cluster = cluster
        self.actor = actor
        self.now_ms = lag_services.system_now_ms() // 5_000 * 5_000

    @property
    def admin(self) -> BlockingMQAdmin:
        return with_admin(Connection(self.cluster.namesrv))

    def create_topic(self, topic: str, queues: int = 2, perm: int = 6) -> None:
        """On both brokers, and known to the name server."""
        assert not self.routed(topic), f"another test has {topic} on this cluster"
        for addr in self.cluster.addrs.values():
            self.admin.create_topic(addr, TopicConfig(topic, queues, queues, perm))
        wait_for(lambda: self.routed(topic) == set(self.cluster.addrs), within_s=60)

    def routed(self, topic: str) -> set[str]:
        """Names of the brokers that hold the topic."""
        try:
            return {data.broker_name for data in self.admin.topic_route(topic).queue_datas}
        except MQBrokerError:
            return set()

    def create_group(self, group: str) -> None:
        for addr in self.cluster.addrs.values():
            self.admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name=group))

    def send(self, topic: str, place: Place, count: int, **properties: str) -> list[SendResult]:
        """Bodies are ``m0``, ``m1``, …"""
        batch = [(Message(topic, b"m%d" % number, dict(properties)), place[1]) for number in range(count)]
        results = self.admin.send_many(self.cluster.addrs[place[0]], batch)
        for result in results:
            assert isinstance(result, SendResult), result
        return [result for result in results if isinstance(result, SendResult)]

    def fill(self, topic: str, count: int) -> None:
        """``count`` messages in each of the two queues of both brokers."""
        for name in self.cluster.addrs:
            for queue_id in (0, 1):
                self.send(topic, (name, queue_id), count)

    def commit(self, group: str, topic: str, offsets: Mapping[Place, int]) -> None:
        for (name, queue_id), offset in offsets.items():
            self.admin.update_consumer_offset(self.cluster.addrs[name], group, topic, queue_id, offset)

    def committed(self, group: str, topic: str) -> dict[Place, int]:
        return {
            (name, queue_id): offset
            for name, addr in self.cluster.addrs.items()
            for queue_id, offset in self.admin.all_consumer_offsets(addr)
            .offset_table.get((topic, group), {})
            .items()
        }

    def end(self, topic: str) -> int:
        """Messages ever written to all queues of a topic."""
        total = 0
        for name in self.routed(topic):
            table = self.admin.topic_stats(self.cluster.addrs[name], topic).offset_table
            total += sum(each.max_offset for each in table.values())
        return total

    # What the console does in Celery

    def collect(self) -> Round:
        """Let the interval pass on the collector's clock and run a round."""
        self.now_ms += 5_000
        done = lag_services.collect(NAME, now_ms=self.now_ms)
        assert done is not None
        return done

    def sweep(self) -> int | None:
        """Ask the clients who they are."""
        CollectorLease.objects.filter(cluster=NAME).update(sweep_until_ms=0)
        return sweep.sweep_clients(NAME, now_ms=self.now_ms)

    def plan(self, kind: str, subject: str, params: Mapping[str, Any]) -> Plan:
        return operation_services.create_plan(kind, NAME, subject, params, self.actor)

    def apply(self, plan: Plan) -> Job:
        """Run the plan's job to its end."""
        job = operation_services.apply_plan(plan.id, self.actor, plan.confirm_text)
        runner.run(job.id, "worker-1")
        return operation_selectors.job(job.id)

    def undo(self, plan: Plan) -> Plan:
        return operation_services.undo(plan.id, self.actor)


def wait_for_places(world: ApacheWorld, group: str, topic: str, expected: Mapping[Place, int]) -> None:
    """Until the brokers report these committed offsets."""
    deadline = time.monotonic() + 60
    while (found := world.committed(group, topic)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def moves(plan: Plan) -> Sequence[tuple[str, int, int | None, int]]:
    return [(row["broker_name"], row["queue_id"], row["before"], row["after"]) for row in plan.diff]
