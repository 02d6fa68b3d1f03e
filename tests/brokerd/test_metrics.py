"""Figures for Prometheus, read with Prometheus' own parser."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brokerd.config import BrokerConfig, ConfigError, NamesrvConfig, check
from brokerd.connections.server import PortTaken
from brokerd.remoting.codes import RequestCode
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RunningBroker, pull_fields, running

PROM = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}


async def fetched(
    broker: RunningBroker, request: bytes = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
) -> tuple[str, str]:
    """(status line, body)."""
    assert broker.controller.metrics is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.controller.metrics.port)
    writer.write(request)
    head, _, body = (await asyncio.wait_for(reader.read(), 30)).decode().partition("\r\n\r\n")
    writer.close()
    return head.split("\r\n")[0], body


def samples(text: str) -> dict[tuple[str, str, str], float]:
    """(name, topic, group) → value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            assert (each.labels["cluster"], each.labels["node_type"]) == ("DefaultCluster", "broker")
            found[each.name, each.labels.get("topic", ""), each.labels.get("consumer_group", "")] = each.value
    return found


async def test_it_serves_rocketmqs_figures(tmp_path: Path) -> None:
    async with running(tmp_path, **PROM, brokerName='a"b\\c') as broker:
        client = await filled(broker, "a", "b", "c")
        await broker.consumer("c1", "g", "T")
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        broker.broker.offsets.commit("g", "T", 0, 1, 0)
        status, text = await fetched(broker)
        assert status == "HTTP/1.1 200 OK"
        assert 'node_id="a\\"b\\\\c"' in text
        found = samples(text)
        assert found["rocketmq_messages_in_total", "T", ""] == 3
        assert found["rocketmq_messages_out_total", "T", "g"] == 3
        assert found["rocketmq_throughput_out_total", "T", "g"] == len(pulled.body)
        assert found["rocketmq_throughput_in_total", "T", ""] > 0
        assert found["rocketmq_consumer_lag_messages", "T", "g"] == 2
        assert found["rocketmq_consumer_connections", "", "g"] == 1
        assert found["rocketmq_broker_permission", "", ""] == 6
        assert found["rocketmq_topic_number", "", ""] == len(broker.broker.topics.topics)
        assert found["rocketmq_storage_size", "", ""] == broker.broker.store.commit_log_max_offset


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET /", "404 Not Found"),
        (b"POST /metrics", "405 Method Not Allowed"),
        (b"nonsense", "404 Not Found"),
    ],
)
async def test_it_serves_nothing_else(tmp_path: Path, line: bytes, status: str) -> None:
    async with running(tmp_path, **PROM) as broker:
        assert (await fetched(broker, line + b" HTTP/1.1\r\n\r\n"))[0] == f"HTTP/1.1 {status}"


async def test_it_closes_on_a_request_that_is_too_long(tmp_path: Path) -> None:
    async with running(tmp_path, **PROM) as broker:
        assert await fetched(broker, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 10_000) == ("", "")
        assert (await fetched(broker))[0] == "HTTP/1.1 200 OK"


async def test_it_is_off_unless_set_and_names_a_taken_port(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert broker.controller.metrics is None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(PortTaken, match=f"port {port} \\(metricsPromExporterPort\\) is taken"):
            async with running(tmp_path, metricsExporterType="PROM", metricsPromExporterPort=port):
                pass


def test_it_refuses_exporters_it_does_not_have() -> None:
    with pytest.raises(ConfigError, match="metricsExporterType=OTLP_GRPC: takes DISABLE or PROM"):
        check(BrokerConfig(metrics_exporter_type="OTLP_GRPC"), NamesrvConfig())
