"""Commands for shells: `produce` sends lines, `consume` and `tail` print messages as NDJSON (a JSON object a line).

What `consume` and `tail` print, `produce --ndjson` sends. Each returns the exit code of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

import msgspec

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty, TimerProperty
from brokerd.remoting.message.record import MessageRecord
from consumers.client.subscription import ALL_TAGS, SQL92, TAG
from consumers.config import (
    ClientConfig,
    CompressionType,
    ConsumeFromWhere,
    InvalidClientConfig,
    ProducerConfig,
    PullConsumerConfig,
)
from consumers.consumer.pull_consumer import PullConsumer
from consumers.errors import ClientClosed, MQBrokerError, MQClientError
from consumers.producer.producer import Producer
from consumers.producer.send_result import SendResult

OK, FAILED, INTERRUPTED = 0, 1, 130
PRODUCER_GROUP = "consumers-produce"
# What brokers and clients add to a message; the rest is the sender's.
OWN_PROPERTIES = frozenset(
    str(value)
    for names in (MessageProperty, TimerProperty)
    for name, value in vars(names).items()
    if name.isupper()
)
LINE_BYTES_MAX = 16 * 1024 * 1024  # a message of 4 MiB in base64 with its properties
CHUNK_BYTES = 65_536


class InvalidLine(MQClientError, ValueError):
    """A line of the input is no message; nothing behind it is sent."""


class Line(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A message as NDJSON. Where and when it was stored is printed, and passed over in the input."""

    topic: str = ""
    tags: str = ""
    keys: str | list[str] = ""
    properties: dict[str, str] = {}
    # A body that is no UTF-8 is `bodyBase64`.
    body: str | msgspec.UnsetType = msgspec.UNSET
    body_base64: bytes | msgspec.UnsetType = msgspec.UNSET
    sharding_key: str | msgspec.UnsetType = msgspec.UNSET
    queue_id: int = 0
    queue_offset: int = 0
    message_id: str = ""
    born_timestamp: int = 0
    store_timestamp: int = 0
    store_host: str = ""
    reconsume_times: int = 0


class SentLine(msgspec.Struct, rename="camel"):
    """Where a message was stored, as NDJSON."""

    status: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message of the input, and the key whose messages stay in order."""

    message: Message
    sharding_key: str | None


# Arguments


def add_produce(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "bodies", nargs="*", metavar="BODY", help="bodies; without any: standard input, a message a line"
    )
    command.add_argument("--topic", default="", help="topic; NDJSON lines may name their own")
    command.add_argument(
        "--ndjson",
        action="store_true",
        help="lines are JSON objects: topic, tags, keys, properties, shardingKey, body or bodyBase64",
    )
    command.add_argument("--tags", default="", help="tag of each message")
    command.add_argument("--keys", default="", help="keys of each message, separated by spaces")
    command.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="property; may be repeated"
    )
    command.add_argument("--sharding-key", metavar="KEY", help="messages of one key stay in order")
    command.add_argument("--group", default=PRODUCER_GROUP, help="producer group (default: %(default)s)")
    command.add_argument(
        "--compress",
        choices=[kind.value.lower() for kind in CompressionType],
        default="zlib",
        help="for bodies of 4,096 bytes and more (default: zlib)",
    )
    command.add_argument("--quiet", action="store_true", help="print nothing for a message that is stored")


def add_reading(command: argparse.ArgumentParser) -> None:
    """Add what `consume` and `tail` share."""
    command.add_argument(
        "--topic",
        action="append",
        required=True,
        metavar="TOPIC[:TAGS]",
        help="topic and tags; may be repeated",
    )
    command.add_argument("--sql", metavar="EXPRESSION", help="SQL92 filter of properties, instead of tags")
    command.add_argument(
        "--from",
        dest="from_where",
        default="last",
        metavar="WHERE",
        help="first, last, or a time such as 2026-03-12T08:00+01:00 (default: last)",
    )
    command.add_argument("--count", type=int, default=0, help="end after so many messages")
    command.add_argument(
        "--idle", type=float, default=0, metavar="SECONDS", help="end when none came so long"
    )
    command.add_argument(
        "--body-only", action="store_true", help="print bodies, a line each, instead of JSON"
    )


# produce


async def produce(
    arguments: argparse.Namespace, client: ClientConfig, stop: asyncio.Event, output: BinaryIO
) -> int:
    """Send what the arguments or standard input have; the first failure ends it. Raises as Producer.send."""
    properties = _properties_of(arguments)
    kind = CompressionType(arguments.compress.upper())
    config = ProducerConfig(client=client, compress_type=kind)
    async with Producer(arguments.group, arguments.namesrv, config) as producer:
        sends: set[asyncio.Task[None]] = set()
        errors: list[MQClientError | MQBrokerError | ValueError] = []

        async def finish(number: int, sending: asyncio.Future[SendResult]) -> None:
            try:
                result = await sending
            except (MQClientError, MQBrokerError, ValueError) as error:
                errors.append(InvalidLine(f"message {number}: {error}"))
                return
            if not arguments.quiet:
                _write(output, [_result_line(result)])

        number, is_stopped = 0, False
        try:
            async for line in _until(stop, _lines(arguments.bodies)):
                number += 1
                outgoing = _outgoing(line, number, arguments, properties)
                sending = await producer.send_async(outgoing.message, sharding_key=outgoing.sharding_key)
                task = asyncio.create_task(finish(number, sending))
                sends.add(task)
                task.add_done_callback(sends.discard)
                if number == 1 or outgoing.sharding_key is not None:
                    # In order: Apache's brokers store what comes together in any order. And sends overtake each other
                    # while the first one looks for the broker and connects.
                    await task
                if errors:
                    break
            else:
                is_stopped = stop.is_set()
        finally:
            # Messages before a line that is no message are sent, and their results printed.
            await asyncio.gather(*sends)
        if errors:
            raise errors[0]
    return INTERRUPTED if is_stopped else OK


def _properties_of(arguments: argparse.Namespace) -> dict[str, str]:
    properties = {}
    for each in arguments.property:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise InvalidClientConfig(f"--property {each!r} is not NAME=VALUE")
        properties[name] = value
    for name, value in ((MessageProperty.TAGS, arguments.tags), (MessageProperty.KEYS, arguments.keys)):
        if value:
            properties[name] = value
    return properties


def _outgoing(
    data: bytes, number: int, arguments: argparse.Namespace, properties: Mapping[str, str]
) -> Outgoing:
    """Raise InvalidLine."""
    if not arguments.ndjson:
        return Outgoing(
            Message(_topic(arguments.topic, number), data, dict(properties)), arguments.sharding_key
        )
    try:
        line = msgspec.json.decode(data, type=Line)
    except msgspec.DecodeError as error:
        raise InvalidLine(f"line {number} is no message: {error}") from None
    if isinstance(line.body, str):
        body = line.body.encode()
    elif isinstance(line.body_base64, bytes):
        body = line.body_base64
    else:
        raise InvalidLine(f"line {number} has neither body nor bodyBase64")
    keys = line.keys if isinstance(line.keys, str) else " ".join(line.keys)
    named = {MessageProperty.TAGS: line.tags, MessageProperty.KEYS: keys}
    own = line.properties | {name: text for name, text in named.items() if text}
    sharding_key = line.sharding_key if isinstance(line.sharding_key, str) else arguments.sharding_key
    topic = _topic(line.topic or arguments.topic, number)
    return Outgoing(Message(topic, body, {**properties, **own}), sharding_key)


def _topic(topic: str, number: int) -> str:
    if not topic:
        raise InvalidLine(f"line {number} names no topic: add it, or give --topic")
    return topic


async def _lines(bodies: Sequence[str]) -> AsyncIterator[bytes]:
    """The bodies, or the lines of standard input without empty ones."""
    for body in bodies:
        yield body.encode()
    if bodies:
        return
    rest = b""
    async for chunk in _chunks(sys.stdin.fileno()):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line.removesuffix(b"\r")
        if len(rest) > LINE_BYTES_MAX:
            raise InvalidLine(f"a line has more than {LINE_BYTES_MAX} bytes")
    if rest.strip():
        yield rest.removesuffix(b"\r")


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Read in a thread of its own: files cannot be waited for, and a blocked read must not hold up the end."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=8)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while True:
                chunk = os.read(descriptor, CHUNK_BYTES)
                asyncio.run_coroutine_threadsafe(queue.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, daemon=True).start()
    while chunk := await queue.get():
        yield chunk


async def _until(stop: asyncio.Event, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines, to their end or until `stop`."""
    stopping = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            coming = asyncio.ensure_future(anext(lines, None))
            await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            line = coming.result()
            if line is None:
                return
            yield line
    finally:
        stopping.cancel()


def _result_line(result: SendResult) -> bytes:
    queue = result.queue
    line = SentLine(
        result.status.value,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        result.queue_offset,
        result.message_id,
    )
    return msgspec.json.encode(line)


# consume and tail


async def consume(
    arguments: argparse.Namespace, client: ClientConfig, stop: asyncio.Event, output: BinaryIO
) -> int:
    """Print the group's messages and commit what is printed. Raises MQBrokerError, MQClientError."""
    consumer = PullConsumer(arguments.group, arguments.namesrv, config=_reading_config(arguments, client))
    async with consumer:
        for topic, expression in _subscriptions_of(arguments.topic).items():
            await consumer.queues(topic)  # a topic that does not exist would be waited for
            consumer.subscribe(topic, *_filter_of(arguments, expression))
        await _print_all(consumer, arguments, stop, output)
    return OK


async def tail(
    arguments: argparse.Namespace, client: ClientConfig, stop: asyncio.Event, output: BinaryIO
) -> int:
    """Print messages without a group: nothing is committed. Raises MQBrokerError, MQClientError."""
    subscriptions = _subscriptions_of(arguments.topic)
    expressions = set(subscriptions.values())
    if len(expressions) > 1:
        raise InvalidClientConfig("tail has one filter for all topics")
    async with PullConsumer(None, arguments.namesrv, config=_reading_config(arguments, client)) as consumer:
        queues = [queue for topic in subscriptions for queue in await consumer.queues(topic)]
        await consumer.assign(queues, *_filter_of(arguments, expressions.pop()))
        await _print_all(consumer, arguments, stop, output)
    return OK


def _subscriptions_of(topics: Sequence[str]) -> dict[str, str]:
    pairs = (topic.partition(":") for topic in topics)
    return {name: expression or ALL_TAGS for name, _, expression in pairs}


def _filter_of(arguments: argparse.Namespace, tags: str) -> tuple[str, str]:
    """(expression, its type)."""
    if arguments.sql is None:
        return tags, TAG
    if tags != ALL_TAGS:
        raise InvalidClientConfig("a topic is filtered by tags or by --sql, not by both")
    return arguments.sql, SQL92


def _reading_config(arguments: argparse.Namespace, client: ClientConfig) -> PullConsumerConfig:
    where, timestamp_ms = ConsumeFromWhere.TIMESTAMP, None
    if arguments.from_where == "first":
        where = ConsumeFromWhere.FIRST_OFFSET
    elif arguments.from_where == "last":
        where = ConsumeFromWhere.LAST_OFFSET
    else:
        try:
            moment = datetime.fromisoformat(arguments.from_where)
        except ValueError:
            reason = f"--from {arguments.from_where!r} is not first, last or a time such as 2026-03-12T08:00"
            raise InvalidClientConfig(reason) from None
        timestamp_ms = int(moment.timestamp() * 1000)
    return PullConsumerConfig(
        consume_from_where=where,
        consume_timestamp_ms=timestamp_ms,
        rebalance_interval_ms=1_000,
        client=client,
    )


async def _print_all(
    consumer: PullConsumer, arguments: argparse.Namespace, stop: asyncio.Event, output: BinaryIO
) -> None:
    """Print until --count, --idle or `stop`. A message is printed before the next poll commits it."""

    async def close() -> None:
        await stop.wait()
        await consumer.close()

    closing = asyncio.create_task(close())
    left = arguments.count or sys.maxsize
    idle_ms = int(arguments.idle * 1000)
    try:
        while left:
            batch = min(left, consumer.config.poll_batch_size)
            messages = await consumer.poll(idle_ms or None, batch)
            if not messages and idle_ms:
                return
            left -= len(messages)
            _write(
                output,
                [message.body if arguments.body_only else record_line(message) for message in messages],
            )
    except ClientClosed:
        await closing
    finally:
        closing.cancel()


def record_line(message: MessageRecord) -> bytes:
    """Return a message as a `Line`."""
    host, port = message.store_host
    line = Line(
        topic=message.topic,
        tags=message.tags,
        keys=message.keys,
        properties={k: value for k, value in message.properties.items() if k not in OWN_PROPERTIES},
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        message_id=message.message_id,
        born_timestamp=message.born_timestamp_ms,
        store_timestamp=message.store_timestamp_ms,
        store_host=f"{host}:{port}",
        reconsume_times=message.reconsume_times,
    )
    try:
        line.body = message.body.decode()
    except UnicodeDecodeError:
        line.body_base64 = message.body
    return msgspec.json.encode(line)


def _write(output: BinaryIO, lines: Sequence[bytes]) -> None:
    """Raise BrokenPipeError when the reader has gone."""
    if lines:
        output.write(b"\n".join(lines) + b"\n")
        output.flush()
