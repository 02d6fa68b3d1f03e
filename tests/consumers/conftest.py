from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.consumers.fake_broker import FakeBroker
from tests.consumers.fake_cluster import FakeCluster
from tests.support.broker_process import BrokerProcess


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One fake that is name server and broker at once."""
    async with FakeBroker() as broker:
        yield FakeCluster(broker)


@pytest.fixture
def brokerd(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A real brokerd of its own for one test."""
    process = BrokerProcess(tmp_path / "store").start()
    yield process
    process.stop()
