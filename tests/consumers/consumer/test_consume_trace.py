"""What consumers trace: on a real brokerd, and the rules for what a real one rarely shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.record import MessageRecord
from brokerd.remoting.message.trace import (
    SubAfterTrace,
    SubBeforeTrace,
    TracedOutcome,
    TraceRecord,
)
from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MQAdmin,
    Producer,
    PullConsumer,
    PullConsumerConfig,
    PushConsumer,
    PushConsumerConfig,
)
from consumers.consumer.consume_trace import ConsumeTracer
from tests.consumers.fake_broker import wait_until
from tests.consumers.records import record
from tests.consumers.traces import read_traces
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

FIRST = ConsumeFromWhere.FIRST_OFFSET
ANSWERS = {
    b"good": (TracedOutcome.SUCCESS, True),
    b"later": (TracedOutcome.FAILED, False),
    b"none": (TracedOutcome.RETURN_NULL, False),
    b"raises": (TracedOutcome.EXCEPTION, False),
}


async def create_topics(brokerd: BrokerProcess) -> None:
    async with MQAdmin(brokerd.namesrv) as admin:
        for topic in ("orders", "traces"):
            config = TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
            await admin.create_topic(brokerd.address, config)


async def send(brokerd: BrokerProcess) -> dict[str, bytes]:
    """The body of each message by its id."""
    async with Producer("shop", brokerd.namesrv) as producer:
        return {
            (await producer.send(Message("orders", body, {"KEYS": f"key-{body.decode()}"}))).message_id: body
            for body in ANSWERS
        }


async def test_each_try_of_a_push_consumer_is_traced_with_its_outcome(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd)
    bodies = await send(brokerd)
    seen: set[bytes] = set()

    async def handle(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        (message,) = messages
        seen.add(message.body)
        if message.body == b"raises":
            raise RuntimeError("refused")
        if message.body == b"none":
            return None  # type: ignore[return-value]  # what a careless handler does
        return ConsumeStatus.RECONSUME_LATER if message.body == b"later" else ConsumeStatus.CONSUME_SUCCESS

    config = PushConsumerConfig(consume_from_where=FIRST, enable_msg_trace=True, trace_topic="traces")
    async with PushConsumer("billing", brokerd.namesrv, handle, {"orders": "*"}, config=config):
        await wait_until(lambda: seen == set(bodies.values()))
    before, after = pairs(await read_traces(brokerd.namesrv, "traces"))
    assert {bodies[each.message_id]: each.keys for each in before} == {
        body: f"key-{body.decode()}" for body in ANSWERS
    }
    assert {(each.group, each.retries, each.region) for each in before} == {("billing", 0, "DefaultRegion")}
    assert {bodies[each.message_id]: (each.outcome, each.is_success) for each in after} == ANSWERS
    assert {each.group for each in after} == {"billing"}
    assert {(each.request_id, each.message_id) for each in before} == {
        (each.request_id, each.message_id) for each in after
    }
    assert len({each.request_id for each in before}) == len(ANSWERS)


async def test_what_a_pull_consumer_returns_is_traced_as_consumed(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd)
    bodies = await send(brokerd)
    config = PullConsumerConfig(consume_from_where=FIRST, enable_msg_trace=True, trace_topic="traces")
    polled = 0
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=config) as consumer:
        while polled < len(bodies):
            polled += len(await consumer.poll())
    before, after = pairs(await read_traces(brokerd.namesrv, "traces"))
    assert [bodies[each.message_id] for each in before] == list(ANSWERS)
    assert [(bodies[each.message_id], each.outcome, each.cost_ms, each.group) for each in after] == [
        (body, TracedOutcome.SUCCESS, 0, "audit") for body in ANSWERS
    ]


def pairs(records: Sequence[TraceRecord]) -> tuple[list[SubBeforeTrace], list[SubAfterTrace]]:
    before = [each for each in records if isinstance(each, SubBeforeTrace)]
    after = [each for each in records if isinstance(each, SubAfterTrace)]
    assert len(before) + len(after) == len(records)
    return before, after


class Kept:
    """In place of a dispatcher: keeps what would be sent."""

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def append(self, record: TraceRecord) -> None:
        self.records.append(record)


def after_call(
    outcome: TracedOutcome, elapsed_ms: int, messages: Sequence[MessageRecord]
) -> list[SubAfterTrace]:
    kept = Kept()
    tracer = ConsumeTracer(kept, "billing", lambda: "Q1", 1_000)
    request_id = tracer.before(messages, 5)
    tracer.after(
        request_id,
        messages,
        outcome,
        is_success=outcome is TracedOutcome.SUCCESS,
        ended_ms=9,
        elapsed_ms=elapsed_ms,
    )
    return pairs(kept.records)[1]


def test_a_call_that_took_too_long_is_traced_as_timed_out() -> None:
    outcomes = {
        (outcome, elapsed_ms): after_call(outcome, elapsed_ms, [record(0)])[0].outcome
        for outcome in (TracedOutcome.SUCCESS, TracedOutcome.FAILED, TracedOutcome.EXCEPTION)
        for elapsed_ms in (999, 1_000)
    }
    assert outcomes == {
        (TracedOutcome.SUCCESS, 999): TracedOutcome.SUCCESS,
        (TracedOutcome.SUCCESS, 1_000): TracedOutcome.TIME_OUT,
        (TracedOutcome.FAILED, 999): TracedOutcome.FAILED,
        (TracedOutcome.FAILED, 1_000): TracedOutcome.TIME_OUT,
        (TracedOutcome.EXCEPTION, 999): TracedOutcome.EXCEPTION,
        (TracedOutcome.EXCEPTION, 1_000): TracedOutcome.EXCEPTION,
    }


def test_a_batch_shares_its_time_and_leaves_out_what_wants_no_trace() -> None:
    messages = [record(0), record(1, properties={"TRACE_ON": "false"}), record(2)]
    traced = after_call(TracedOutcome.SUCCESS, 90, messages)
    assert [each.cost_ms for each in traced] == [30, 30]
    assert [each.message_id for each in traced] == [messages[0].message_id, messages[2].message_id]


async def test_the_example_of_the_documentation_runs(brokerd: BrokerProcess, capsys) -> None:
    await asyncio.wait_for(example("consumers.md", "Message trace")(brokerd.namesrv), 60)
    assert capsys.readouterr().out == "1 0 0\n2\n"
