"""A cluster on a real brokerd and a person who may replay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console.brokers.mqadmin import close_admins
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    yield LiveCluster(brokerd).register()
    close_admins()
