"""A cluster on a real brokerd and a person who may change offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.brokers.mqadmin import close_admins
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
