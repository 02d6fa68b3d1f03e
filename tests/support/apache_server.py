"""The server that scenarios of the Java client run against: brokerd, or Apache's broker in its place.

`TIDEMARK_PEER_SERVER=apache` chooses Apache 5.3.3; `python -m tests.peers.side_by_side` runs both. The scenarios of one
release of the client share one cluster of Apache's: their topics and groups have names of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.apache_cluster import ApacheCluster
from tests.support.broker_process import BrokerProcess

SERVER_VARIABLE = "TIDEMARK_PEER_SERVER"
BROKERD, APACHE = "brokerd", "apache"
# What any scenario needs. Half messages that have ended count as open until an op message names them, which waits 3 s
# for others by default: scenarios check each second or two.
SETTINGS: Mapping[str, str | int] = {
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 2_000,
    "transactionOpBatchInterval": 200,
    "recallMessageEnable": "true",
}


class ApacheServer:
    """A name server and one broker of Apache 5.3.3, with what scenarios use of a BrokerProcess."""

    def __init__(self, data: Path) -> None:
        self._cluster = ApacheCluster(data, names=("broker-a",), changes=SETTINGS)
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


def is_apache() -> bool:
    """Return whether scenarios of this run meet Apache's broker."""
    kind = os.environ.get(SERVER_VARIABLE, BROKERD)
    assert kind in (BROKERD, APACHE), f"{SERVER_VARIABLE}={kind}: takes {BROKERD} or {APACHE}"
    return kind == APACHE
