"""A fake cluster with one queue to be popped, and members that pop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from brokerd.remoting.body.assignment import MessageQueueAssignment, QueryAssignmentResponseBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers import ConsumeStatus, PushConsumer, PushConsumerConfig, RebalanceMode
from consumers.clock import system_clock
from tests.consumers.fake_cluster import FakeCluster, route_to
from tests.support.plain_record import encode_record

QUEUE = MessageQueue("orders", "broker-a", -1)
CONFIG = PushConsumerConfig(rebalance_mode=RebalanceMode.SERVER, pull_delay_when_exception_ms=50)
HELD_MS = 30


class Popped:
    """The answers to pops: one after the other, then none until `pollTime` is over."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.waiting: list[Callable[[RemotingCommand], RemotingCommand]] = []
        cluster.routes["orders"] = route_to(cluster.broker.addr)
        body = QueryAssignmentResponseBody([MessageQueueAssignment(QUEUE, "POP")]).to_body()
        cluster.broker.answers |= {
            RequestCode.QUERY_ASSIGNMENT: lambda command: command.response(0, body=body),
            RequestCode.POP_MESSAGE: self._pop,
            RequestCode.ACK_MESSAGE: lambda command: command.response(0),
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: lambda command: command.response(0),
        }

    def give(self, *records: MessageRecord, age_ms: int = 0) -> None:
        def answer(command: RemotingCommand) -> RemotingCommand:
            fields = {
                "popTime": str(system_clock() - age_ms),
                "invisibleTime": command.ext_fields["invisibleTime"],
                "reviveQid": "3",
                "restNum": "0",
                "startOffsetInfo": "0 2 7",
                "msgOffsetInfo": "0 2 " + ",".join(str(one.queue_offset) for one in records),
            }
            return command.response(
                0, ext_fields=fields, body=b"".join(encode_record(one) for one in records)
            )

        self.waiting.append(answer)

    def sent(self, code: int) -> list[RemotingCommand]:
        return [command for command in self.cluster.broker.received if command.code == code]

    async def _pop(self, command: RemotingCommand) -> RemotingCommand:
        if self.waiting:
            return self.waiting.pop(0)(command)
        await asyncio.sleep(HELD_MS / 1000)
        return command.response(ResponseCode.POLLING_TIMEOUT)


@pytest.fixture
def popped(cluster: FakeCluster) -> Popped:
    return Popped(cluster)


@pytest.fixture
async def started(cluster: FakeCluster) -> AsyncIterator[Callable[..., Awaitable[list[bytes]]]]:
    """Start a member that gives its messages to `seen`."""
    consumers = []

    async def start(expression: str = "*", status: ConsumeStatus = ConsumeStatus.CONSUME_SUCCESS):
        seen: list[bytes] = []

        async def note(messages, context):
            seen.extend(message.body for message in messages)
            return status

        addr = cluster.broker.addr
        consumers.append(PushConsumer("billing", addr, note, {"orders": expression}, config=CONFIG))
        await consumers[-1].start()
        return seen

    yield start
    for consumer in consumers:
        await consumer.close()
