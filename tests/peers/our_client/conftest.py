"""One broker for all scenarios of a run: brokerd, or a broker of Apache's (TIDEMARK_PEER_SERVER)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_server import SETTINGS, ApacheServer, Server, is_apache
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("shared")
    process = ApacheServer(folder) if is_apache() else BrokerProcess(folder / "store", **SETTINGS)
    yield process.start()
    process.stop()


@pytest.fixture
def broker(shared_broker: Server) -> Server:
    """In the place of one for each test: topics and groups have names of their own."""
    return shared_broker
