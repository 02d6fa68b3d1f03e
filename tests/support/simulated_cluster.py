"""A large cluster in one process: a name server and some brokers that speak the remoting protocol and hold
nothing.

`python -m tests.support.simulated_cluster --brokers 8 --topics 10000 --groups 10000` prints one JSON line with
its addresses and serves until its standard input ends. A line "silence 3" or "speak 3" there makes broker 3
swallow its requests, or answer again; "leave 3" and "return 3" take it out of the name server and cut its connections,
as a broker that died long ago, and bring it back. `SimulatedCluster` runs it for tests and benchmarks.

Everything follows from the layout and a broker's round, which begins when the broker is asked for all
committed offsets (43): the same questions get the same answers, and every round's answers differ. All queues of a
topic on a broker stand alike. The large answers are made once and only their numbers filled in, so that whoever
measures the asking does not measure this.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import TracebackType
from typing import Self, cast

from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.body.client import Connection, ConsumerConnection, SubscriptionData
from brokerd.remoting.body.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.body.offset import ConsumerOffsetWrapper, ConsumeStats, OffsetWrapper
from brokerd.remoting.body.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from brokerd.remoting.body.topic import (
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection
from brokerd.remoting.message.queue import MessageQueue

CLUSTER = "Simulated"
BROKERS_PER_TOPIC = 2  # so that a silent broker leaves a part of a sum known
BASE_OFFSET = 1_000_000
SPEEDS = 17  # topic i takes i % SPEEDS messages a round in each queue, so one of 17 is idle
READY_WITHIN_S = 60
BLANK = 7_777_777_777_777_777_777  # stands where a number of an answer is filled in


@dataclass(frozen=True)
class Layout:
    """Which topic lies where and who consumes it. Topic i is read by every group j with j % topics == i."""

    brokers: int
    topics: int
    groups: int
    queues: int = 1  # of a topic on each of its brokers

    @staticmethod
    def topic(number: int) -> str:
        return f"orders-{number:05d}"

    @staticmethod
    def group(number: int) -> str:
        return f"orders-{number:05d}-service"

    @staticmethod
    def broker(number: int) -> str:
        return f"broker-{number}"

    def brokers_of(self, topic: int) -> list[int]:
        return [(topic + step) % self.brokers for step in range(min(BROKERS_PER_TOPIC, self.brokers))]

    def topics_on(self, broker: int) -> Iterator[int]:
        return (topic for topic in range(self.topics) if broker in self.brokers_of(topic))

    def groups_on(self, broker: int) -> Iterator[int]:
        return (group for group in range(self.groups) if broker in self.brokers_of(group % self.topics))

    @staticmethod
    def max_offset(topic: int, round_number: int) -> int:
        return BASE_OFFSET + topic % SPEEDS * round_number

    def committed(self, group: int, round_number: int) -> int:
        """One group of ten falls behind, one of fifty stands still, the others keep up within a round."""
        if group % 50 == 7:
            return BASE_OFFSET
        if group % 10 == 3:
            return self.max_offset(group % self.topics, round_number // 2)
        return self.max_offset(group % self.topics, max(0, round_number - group % 2))

    @staticmethod
    def is_online(group: int) -> bool:
        return group % 50 != 7


class Broker:
    """What one simulated broker answers. Caller: its connections, in one event loop."""

    def __init__(self, layout: Layout, number: int, addrs: list[str]) -> None:
        self.layout, self.number, self.name = layout, number, layout.broker(number)
        self.addrs = addrs
        self.round_number = 0
        self.is_silent = self.is_gone = False
        self.set_by_hand: dict[tuple[str, str], dict[int, int]] = {}  # (topic, group) → queue → offset
        self.topic_numbers = {layout.topic(topic): topic for topic in layout.topics_on(number)}
        # in the order of what consumes what, as Java prints its tables
        by_key = sorted(
            layout.groups_on(number),
            key=lambda group: f"{layout.topic(group % layout.topics)}@{layout.group(group)}",
        )
        self.group_numbers = {layout.group(group): group for group in by_key}
        self.stats_forms: dict[int, bytes] = {}
        self.handlers: Mapping[int, Callable[[Mapping[str, str]], bytes | None]] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_consumer_offsets,
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_ALL_TOPIC_CONFIG: lambda _: self.topic_table,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda _: self.group_table,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connection,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_consumer_offset,
        }

    @property
    def addr(self) -> str:
        return self.addrs[self.number]

    def all_consumer_offsets(self, _: Mapping[str, str]) -> bytes:
        self.round_number += 1
        committed = (
            self.layout.committed(group, self.round_number)
            for group in self.group_numbers.values()
            for _ in range(self.layout.queues)
        )
        body = self.offsets_form % tuple(committed)
        if not self.set_by_hand:
            return body
        table = ConsumerOffsetWrapper.from_body(body)
        for key, offsets in self.set_by_hand.items():
            table.offset_table[key] |= offsets
        return table.to_body()

    def update_consumer_offset(self, fields: Mapping[str, str]) -> bytes:
        key = fields["topic"], fields["consumerGroup"]
        self.set_by_hand.setdefault(key, {})[int(fields["queueId"])] = int(fields["commitOffset"])
        return b""

    @cached_property
    def offsets_form(self) -> bytes:
        queues = dict.fromkeys(range(self.layout.queues), BLANK)
        table = {
            (self.layout.topic(group % self.layout.topics), name): queues
            for name, group in self.group_numbers.items()
        }
        return form_of(ConsumerOffsetWrapper(offset_table=table).to_body())

    def topic_stats(self, fields: Mapping[str, str]) -> bytes | None:
        topic = self.topic_numbers.get(fields["topic"])
        if topic is None:
            return None
        if topic not in self.stats_forms:
            offset = TopicOffset(BASE_OFFSET - 1_000, BLANK, 1)
            queues = (MessageQueue(fields["topic"], self.name, queue) for queue in range(self.layout.queues))
            self.stats_forms[topic] = form_of(TopicStatsTable(dict.fromkeys(queues, offset)).to_body())
        high = self.layout.max_offset(topic, self.round_number)
        return self.stats_forms[topic] % ((high,) * self.layout.queues)

    def runtime_info(self, _: Mapping[str, str]) -> bytes:
        rate = f"{100 + self.number}.0"
        table = {
            "brokerVersionDesc": "V5_3_3",
            "putTps": f"{rate} {rate} {rate}",
            "getTransferredTps": f"{rate} {rate} {rate}",
            "commitLogDiskRatio": "0.41",
        }
        return KVTable(table).to_body()

    @cached_property
    def topic_table(self) -> bytes:
        queues = self.layout.queues
        configs = {name: TopicConfig(name, queues, queues) for name in self.topic_numbers}
        return TopicConfigSerializeWrapper(configs).to_body()

    @cached_property
    def group_table(self) -> bytes:
        configs = {name: SubscriptionGroupConfig(name) for name in self.group_numbers}
        return SubscriptionGroupWrapper(configs).to_body()

    def consume_stats(self, fields: Mapping[str, str]) -> bytes | None:
        group = self.group_numbers.get(fields["consumerGroup"])
        if group is None:
            return None
        topic = group % self.layout.topics
        committed = self.layout.committed(group, self.round_number)
        wrapper = OffsetWrapper(self.layout.max_offset(topic, self.round_number), committed, committed, 1)
        queues = (
            MessageQueue(self.layout.topic(topic), self.name, queue) for queue in range(self.layout.queues)
        )
        return ConsumeStats(dict.fromkeys(queues, wrapper)).to_body()

    def consumer_connection(self, fields: Mapping[str, str]) -> bytes | None:
        group = self.group_numbers.get(fields["consumerGroup"])
        if group is None or not self.layout.is_online(group):
            return None
        topic = self.layout.topic(group % self.layout.topics)
        return ConsumerConnection(
            connection_set=[Connection(f"10.0.0.{group % 250}@{group}", "10.0.0.1:5000", "JAVA", 477)],
            subscription_table={topic: SubscriptionData(topic=topic, sub_string="*")},
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
        ).to_body()

    def answer(self, command: RemotingCommand) -> RemotingCommand | None:
        """None: swallowed, because the broker is silent."""
        if self.is_silent:
            return None
        handler = self.handlers.get(command.code)
        if handler is None:
            return command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not simulated")
        body = handler(command.ext_fields)
        if body is None:
            code = (
                ResponseCode.CONSUMER_NOT_ONLINE
                if command.code == RequestCode.GET_CONSUMER_CONNECTION_LIST
                else ResponseCode.TOPIC_NOT_EXIST
            )
            return command.response(code, "nothing of that name here")
        return command.response(ResponseCode.SUCCESS, body=body)


def form_of(body: bytes) -> bytes:
    """Return a body whose blanks are to be filled in with `%`."""
    return body.replace(b"%", b"%%").replace(str(BLANK).encode(), b"%d")


class NameServer:
    """What the simulated name server answers: all brokers that are there, all topics, a route."""

    def __init__(self, layout: Layout, addrs: list[str], servers: Sequence[Broker]) -> None:
        self.layout, self.addrs, self.servers = layout, addrs, servers

    def _data(self, number: int) -> BrokerData:
        return BrokerData(CLUSTER, self.layout.broker(number), {0: self.addrs[number]})

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        numbers = [broker.number for broker in self.servers if not broker.is_gone]
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            names = [self.layout.broker(number) for number in numbers]
            table = {name: self._data(number) for number, name in enumerate(names)}
            return command.response(ResponseCode.SUCCESS, body=ClusterInfo(table, {CLUSTER: names}).to_body())
        if command.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            names = [self.layout.topic(topic) for topic in range(self.layout.topics)]
            return command.response(ResponseCode.SUCCESS, body=TopicList(names).to_body())
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(command)
        return command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not simulated")

    def _route(self, command: RemotingCommand) -> RemotingCommand:
        number = command.ext_fields.get("topic", "").removeprefix("orders-")
        if not number.isdigit() or int(number) >= self.layout.topics:
            return command.response(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")
        brokers = [one for one in self.layout.brokers_of(int(number)) if not self.servers[one].is_gone]
        if not brokers:
            return command.response(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")
        route = TopicRouteData(
            [self._data(broker) for broker in brokers],
            [
                QueueData(self.layout.broker(broker), self.layout.queues, self.layout.queues, 6)
                for broker in brokers
            ],
        )
        return command.response(ResponseCode.SUCCESS, body=route.to_body())


class Peer(asyncio.Protocol):
    """One connection to a simulated server."""

    def __init__(
        self, answer: Callable[[RemotingCommand], RemotingCommand | None], broker: Broker | None = None
    ) -> None:
        self.answer, self.broker = answer, broker
        self.frames = RemotingConnection()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.broker is not None and self.broker.is_gone:
            self.transport.abort()
            return
        answers = (self.answer(command) for command in self.frames.receive_data(data))
        self.transport.write(b"".join(one.encode() for one in answers if one is not None))


async def serve(layout: Layout) -> None:
    """Listen on free ports, say where, and obey standard input until it ends."""
    loop = asyncio.get_running_loop()
    addrs = [""] * layout.brokers
    brokers = [Broker(layout, number, addrs) for number in range(layout.brokers)]
    for broker in brokers:
        server = await loop.create_server(partial(Peer, broker.answer, broker), "127.0.0.1", 0)
        addrs[broker.number] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    answer = NameServer(layout, addrs, brokers).answer
    namesrv = await loop.create_server(partial(Peer, answer), "127.0.0.1", 0)
    place = f"127.0.0.1:{namesrv.sockets[0].getsockname()[1]}"
    sys.stdout.write(json.dumps({"namesrv": place, "brokers": addrs}) + "\n")
    sys.stdout.flush()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, number = line.split()
        broker = brokers[int(number)]
        broker.is_silent, broker.is_gone = word == "silence", word == "leave"
        sys.stdout.write("done\n")
        sys.stdout.flush()


class SimulatedCluster:
    """The simulation as a process of its own; use it in a `with`."""

    def __init__(
        self, *, brokers: int = 8, topics: int = 10_000, groups: int = 10_000, queues: int = 1
    ) -> None:
        self.layout = Layout(brokers, topics, groups, queues)
        self.namesrv = ""
        self.brokers: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        sizes = (
            ("brokers", self.layout.brokers),
            ("topics", self.layout.topics),
            ("groups", self.layout.groups),
            ("queues", self.layout.queues),
        )
        options = [item for name, number in sizes for item in (f"--{name}", str(number))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.simulated_cluster", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(self._read())
        self.namesrv, self.brokers = told["namesrv"], told["brokers"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.communicate(timeout=READY_WITHIN_S)  # the end of its input ends it

    @property
    def pid(self) -> int:
        """The process that answers for all brokers."""
        assert self._process is not None
        return self._process.pid

    def silence(self, broker: int) -> None:
        """Let a broker take requests and answer none, as one that hangs does."""
        self._tell(f"silence {broker}")

    def speak(self, broker: int) -> None:
        """Let it answer again; what it swallowed stays unanswered."""
        self._tell(f"speak {broker}")

    def leave(self, broker: int) -> None:
        """Let a broker be dead for so long that the name server dropped it."""
        self._tell(f"leave {broker}")

    def come_back(self, broker: int) -> None:
        """Let it be there again."""
        self._tell(f"return {broker}")

    def _tell(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        assert self._read() == "done\n"

    def _read(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        return self._process.stdout.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description="serve a simulated cluster until standard input ends")
    for name, number in (("brokers", 8), ("topics", 10_000), ("groups", 10_000), ("queues", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    asyncio.run(serve(Layout(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
