"""A registered cluster on a real brokerd, with topics, messages and members, for tests of plans, replays and search."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Connection,
    MQBrokerError,
    SubscriptionGroupConfig,
    TopicConfig,
    with_admin,
)
from console.cluster.models import Cluster
from consumers import (
    BrokerUnavailable,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageRecord,
    PushConsumer,
    PushConsumerConfig,
)
from tests.support.broker_process import BrokerProcess

NAME = "test"


class LiveCluster:
    """brokerd under a name, ``test`` if not given, in the console's database."""

    def __init__(self, broker: BrokerProcess, name: str = NAME) -> None:
        self.broker = broker
        self.name = name

    def register(self) -> LiveCluster:
        """Make it known to the console under its name."""
        Cluster.objects.create(name=self.name, namesrv_addrs=self.broker.namesrv)
        return self

    def restart(self) -> None:
        """Start the broker again, and wait until the console's client reaches it: it pauses when it was refused."""
        self.broker.start()
        wait_for(self.answers, "the broker")

    def answers(self) -> bool:
        """Whether both the name server and the broker answer: the client counts refusals of each address."""
        try:
            return bool(self.admin.cluster_info() and self.admin.runtime_info(self.addr))
        except BrokerUnavailable:
            return False

    @property
    def admin(self) -> BlockingMQAdmin:
        return with_admin(Connection(self.broker.namesrv, cluster=self.name))

    @property
    def addr(self) -> str:
        return self.broker.address

    @property
    def broker_name(self) -> str:
        return next(iter(self.admin.cluster_info().broker_addr_table))

    def create_topic(self, topic: str, queues: int = 4, perm: int = 6) -> None:
        self.admin.create_topic(
            self.addr,
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm),
        )
        wait_for(lambda: self.has_route(topic), "the route of " + topic)

    def has_route(self, topic: str) -> bool:
        try:
            return bool(self.admin.topic_route(topic).queue_datas)
        except (MQBrokerError, BrokerUnavailable):  # not known yet, or just started
            return False

    def create_group(self, group: str, **settings: int | bool) -> None:
        self.admin.create_subscription_group(
            self.addr,
            SubscriptionGroupConfig(group_name=group, **settings),  # type: ignore[arg-type]
        )

    def send(self, topic: str, queue_id: int, bodies: Sequence[bytes], **properties: str) -> None:
        messages = [(Message(topic, body, dict(properties)), queue_id) for body in bodies]
        for result in self.admin.send_many(self.addr, messages):
            assert not isinstance(result, Exception), result

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.admin.update_consumer_offset(self.addr, group, topic, queue_id, offset)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        table = self.admin.all_consumer_offsets(self.addr).offset_table
        return dict(table.get((topic, group), {}))

    @contextlib.contextmanager
    def member(
        self,
        group: str,
        topic: str,
        handle: Callable[[MessageRecord], bool] | None = None,
        **settings: object,
    ) -> Iterator[list[MessageRecord]]:
        """A push consumer in a thread of its own; yields the list of messages it has been given.

        ``handle`` may block: handlers run in threads, so the member goes on answering the brokers meanwhile.
        """
        seen: list[MessageRecord] = []

        def handler(messages: Sequence[MessageRecord], context: object) -> ConsumeStatus:
            seen.extend(messages)
            good = all(handle(message) for message in messages) if handle else True
            return ConsumeStatus.CONSUME_SUCCESS if good else ConsumeStatus.RECONSUME_LATER

        async def serve(ready: threading.Event, stop: asyncio.Event) -> None:
            config = PushConsumerConfig(
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                **settings,  # type: ignore[arg-type]
            )
            async with PushConsumer(group, self.broker.namesrv, handler, {topic: "*"}, config=config):
                ready.set()
                await stop.wait()

        ready = threading.Event()
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(serve(ready, stop)), daemon=True)
        thread.start()
        assert ready.wait(60)
        try:
            yield seen
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()


def next_millisecond() -> None:
    """Store times are whole milliseconds: the next message has a later one."""
    now_ms = time.time_ns() // 1_000_000
    wait_for(lambda: time.time_ns() // 1_000_000 > now_ms)


def wait_for(
    condition: Callable[[], bool], what: str = "it", within_s: float = 60.0, every_s: float = 0.05
) -> None:
    """Poll until true; AssertionError after ``within_s``."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} is not there within {within_s} s"
        time.sleep(every_s)
