"""Figures for Prometheus on a port of their own, under the names of RocketMQ 5 (`BrokerMetricsConstant.java`).

Off unless metricsExporterType=PROM. Made over several turns of the event loop: a broker may have 100,000 queues.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from brokerd.broker_stats import GROUP_GET_NUMS, GROUP_GET_SIZE, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE
from brokerd.connections.server import PortTaken
from brokerd.processor.broker import Broker
from brokerd.remoting.message.names import DLQ_TOPIC_PREFIX, RETRY_TOPIC_PREFIX, is_system_topic

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BYTES_MAX = 8 * 1024  # a scraper sends a few hundred
REQUEST_WITHIN_S = 10.0
LINES_A_TURN = 500  # 2 ms of the event loop
ANSWERS_MAX = 4  # at once
COUNTED = {
    TOPIC_PUT_NUMS: "rocketmq_messages_in_total",
    TOPIC_PUT_SIZE: "rocketmq_throughput_in_total",
    GROUP_GET_NUMS: "rocketmq_messages_out_total",
    GROUP_GET_SIZE: "rocketmq_throughput_out_total",
}


class Figure(NamedTuple):
    """One sample: a name of RocketMQ's, labels, a number."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def text_of(figure: Figure, common: str) -> str:
    labels = "".join(f',{name}="{escaped(value)}"' for name, value in figure.labels)
    return f"{figure.name}{{{common}{labels}}} {figure.value}\n"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def figures(broker: Broker) -> Iterator[Figure]:
    """Yield every sample, those of a name together. What is kept nowhere (message types, latencies) is left out."""
    store, settings = broker.store, broker.config.broker
    yield Figure("rocketmq_broker_permission", (), settings.broker_permission)
    yield Figure("rocketmq_topic_number", (), len(broker.topics.topics))
    yield Figure("rocketmq_consumer_group_number", (), len(broker.groups.groups))
    yield Figure(
        "rocketmq_producer_connections", (), sum(len(each) for each in broker.producers.groups.values())
    )
    for group in broker.groups.groups:
        info = broker.consumers.get(group)
        if info is not None:
            yield Figure("rocketmq_consumer_connections", (("consumer_group", group),), len(info.members))
    yield Figure("rocketmq_storage_size", (), store.commit_log_max_offset - store.commit_log_min_offset)
    flush_behind = store.commit_log_max_offset - store.flushed_offset
    yield Figure("rocketmq_storage_flush_behind_bytes", (), flush_behind)
    yield Figure("rocketmq_storage_dispatch_behind_bytes", (), store.dispatch_behind_bytes)
    for statistic, name in COUNTED.items():
        for (kept, key), item in list(broker.stats.items.items()):
            if kept == statistic:
                yield Figure(name, labels_of(key), item.value)
    for (topic, group), queues in list(broker.offsets.offsets.items()):
        behind = sum(
            max(0, store.max_offset(topic, queue_id) - offset) for queue_id, offset in list(queues.items())
        )
        yield Figure("rocketmq_consumer_lag_messages", labels_of(f"{topic}@{group}"), behind)


def labels_of(key: str) -> tuple[tuple[str, str], ...]:
    """Return the labels of `topic` or `topic@group`, as the exporter's."""
    topic, _, group = key.partition("@")
    labels = (("topic", topic), ("is_system", str(is_system_topic(topic)).lower()))
    if not group:
        return labels
    is_retry = topic.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX))
    return (*labels, ("consumer_group", group), ("is_retry", str(is_retry).lower()))


async def document(broker: Broker) -> bytes:
    """Return all figures in Prometheus' text format, made in pieces of LINES_A_TURN."""
    settings = broker.config.broker
    cluster, name = escaped(settings.broker_cluster_name), escaped(settings.broker_name)
    common = f'cluster="{cluster}",node_type="broker",node_id="{name}"'
    lines: list[str] = []
    rest, named = figures(broker), ""
    while piece := list(islice(rest, LINES_A_TURN)):
        for figure in piece:
            if figure.name != named:
                named = figure.name
                lines.append(f"# TYPE {named} {'counter' if named.endswith('_total') else 'gauge'}\n")
            lines.append(text_of(figure, common))
        await asyncio.sleep(0)
    return "".join(lines).encode()


class MetricsServer:
    """Answers GET /metrics and nothing else. Single-threaded: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._server: asyncio.Server | None = None
        self._answering = asyncio.Semaphore(ANSWERS_MAX)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Raise PortTaken or OSError."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                key = "metricsPromExporterPort"
                text = f"port {port} ({key}) is taken by another process: stop it or set {key}"
                raise PortTaken(error.errno, text) from error
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        logger.info("figures for Prometheus at http://%s:%d/metrics", host, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_WITHIN_S), self._answering:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.split(b"\r\n", 1)[0]))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            logger.info("a request for figures was not answered: %s", error or type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> bytes:
        method, _, rest = line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return response("404 Not Found", b"figures are at /metrics\n")
        if method != b"GET":
            return response("405 Method Not Allowed", b"takes GET\n")
        return response("200 OK", await document(self._broker))

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()


def response(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
