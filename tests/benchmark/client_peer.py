"""Our client as a process that tests.benchmark.client_cost measures: the twin of tests/peers/java/…/Cost.java.

Reads lines as Peer.java does, `number cost --mode MODE --option value …`, one at a time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence

from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageRecord,
    Producer,
    ProducerConfig,
    PullConsumer,
    PullConsumerConfig,
    PushConsumer,
    PushConsumerConfig,
    SendResult,
)

BATCH = 20
TAIL_S = 120


async def send(options: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU and the wall-clock seconds that the sends took."""
    mode, topic, count = options["mode"], options["topic"], int(options["count"])
    body = b"x" * int(options["size"])
    config = ProducerConfig(send_timeout_ms=30_000)
    async with Producer("cost-producer", options["namesrv"], config) as producer:
        await producer.send(Message(topic, body, {"KEYS": "first"}))
        began_cpu_s, began_s = time.process_time(), time.monotonic()
        numbers = iter(range(count))

        async def send_share() -> None:
            for number in numbers:
                await producer.send(Message(topic, body, {"KEYS": f"k{number}"}))

        if mode == "sync":
            await asyncio.gather(*(send_share() for _ in range(int(options["threads"]))))
        elif mode == "async":
            await send_async(producer, topic, body, count)
        elif mode == "batch":
            for start in range(0, count, BATCH):
                batch = [Message(topic, body, {"KEYS": f"k{start + n}"}) for n in range(BATCH)]
                await producer.send_batch(batch)
        else:
            for number in numbers:
                await producer.send_oneway(Message(topic, body, {"KEYS": f"k{number}"}))
            await producer.send(Message(topic, body, {"KEYS": "last"}))  # behind them on the connection
        return time.process_time() - began_cpu_s, time.monotonic() - began_s


async def send_async(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Keep no future: the answer is counted, as Java's callback does it."""
    left, done = total, asyncio.Event()

    def count(sent: asyncio.Future[SendResult]) -> None:
        nonlocal left
        sent.result()
        left -= 1
        if not left:
            done.set()

    for number in range(total):
        sent = await producer.send_async(Message(topic, body, {"KEYS": f"k{number}"}))
        sent.add_done_callback(count)
    await done.wait()


async def push(options: Mapping[str, str]) -> tuple[float, float]:
    count, seen, done = int(options["count"]), 0, asyncio.Event()

    async def handle(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        nonlocal seen
        seen += len(messages)
        if seen >= count:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    topics = {options["topic"]: "*"}
    began_cpu_s, began_s = time.process_time(), time.monotonic()
    async with PushConsumer(options["group"], options["namesrv"], handle, topics, config=config):
        async with asyncio.timeout(TAIL_S):
            await done.wait()
        return time.process_time() - began_cpu_s, time.monotonic() - began_s


async def pull(options: Mapping[str, str]) -> tuple[float, float]:
    count, seen = int(options["count"]), 0
    config = PullConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    topics = {options["topic"]: "*"}
    began_cpu_s, began_s = time.process_time(), time.monotonic()
    async with PullConsumer(options["group"], options["namesrv"], topics, config=config) as consumer:
        while seen < count:
            seen += len(await consumer.poll())
        return time.process_time() - began_cpu_s, time.monotonic() - began_s


def main() -> None:
    loop_factory = None
    if "--uvloop" in sys.argv:
        import uvloop

        loop_factory = uvloop.new_event_loop
    for line in sys.stdin:
        number, _, *words = line.rstrip("\n").split("\t")
        options = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
        run = {"push": push, "pull": pull}.get(options["mode"], send)
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            cpu_s, wall_s = runner.run(run(options))
        print(number, "COST", round(cpu_s * 1e6), round(wall_s * 1e3), sep="\t", flush=True)
        print(number, "END", 0, sep="\t", flush=True)


if __name__ == "__main__":
    main()
