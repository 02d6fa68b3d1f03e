"""A cluster on a real brokerd and a person who may change offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from console.brokers.mqadmin import close_admins
from console.lag import services as lag_services
from tests.console.group.lost_offsets import LISTED, RETRY, TEN
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    yield LiveCluster(brokerd).register()
    close_admins()


@pytest.fixture
def live_old(tmp_path: Path, db: None) -> Iterator[LiveCluster]:
    """A broker that tells members by 220, as 4.x does."""
    process = BrokerProcess(tmp_path / "old", useServerSideResetOffset="false").start()
    yield LiveCluster(process).register()
    close_admins()
    process.stop()


@pytest.fixture
def own(tmp_path: Path, db: None, settings: Settings) -> Iterator[LiveCluster]:
    """A broker that a test may stop; billing is at 7 and 10 of orders, at 1 of its retry topic; one round."""
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    process = BrokerProcess(tmp_path / "store", brokerName="broker-a").start()
    live = LiveCluster(process).register()
    for topic, queues in (("orders", 2), (RETRY, 1)):
        live.create_topic(topic, queues=queues)
        for queue_id in range(queues):
            live.send(topic, queue_id, TEN)
    live.create_group("billing")
    for topic, queue_id, offset in LISTED:
        live.commit("billing", topic, queue_id, offset)
    yield live
    close_admins()
    process.stop()
    lag_services.collectors.clear()
