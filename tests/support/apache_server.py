"""The server that scenarios of the Java client run against: brokerd, or Apache's broker in its place.

`TIDEMARK_PEER_SERVER=apache` chooses Apache 5.3.3; `python -m tests.peers.side_by_side` runs both.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.apache_cluster import ApacheCluster
from tests.support.broker_process import BrokerProcess

SERVER_VARIABLE = "TIDEMARK_PEER_SERVER"
BROKERD, APACHE = "brokerd", "apache"


class ApacheServer:
    """A name server and one broker of Apache 5.3.3, with what scenarios use of a BrokerProcess."""

    def __init__(self, data: Path, **settings: str | int) -> None:
        data.mkdir()
        self._cluster = ApacheCluster(data, names=("broker-a",), changes=settings)
        self.namesrv = self._cluster.namesrv
        self.address = self._cluster.brokers[0].address

    def start(self) -> ApacheServer:
        if self._cluster.name_server.is_running:
            self._cluster.start_brokers()
        else:
            self._cluster.__enter__()
        return self

    def kill(self) -> None:
        """Kill the broker; its name server goes on."""
        self._cluster.brokers[0].kill()

    def stop(self) -> None:
        self._cluster.kill()


Server = BrokerProcess | ApacheServer


def server(data: Path, **settings: str | int) -> Server:
    """Return the server of this run; `start` starts it."""
    kind = os.environ.get(SERVER_VARIABLE, BROKERD)
    assert kind in (BROKERD, APACHE), f"{SERVER_VARIABLE}={kind}: takes {BROKERD} or {APACHE}"
    return BrokerProcess(data, **settings) if kind == BROKERD else ApacheServer(data, **settings)
