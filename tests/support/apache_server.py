"""The server that scenarios of clients run against: brokerd, or a broker of Apache's in its place.

`TIDEMARK_PEER_SERVER=apache` chooses Apache 5.3.3, `apache-4.9.7` the older one; `python -m tests.peers.side_by_side`
and `python -m tests.peers.our_client` run them. The scenarios of one release of the client share one cluster of
Apache's: their topics and groups have names of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from consumers import RemotingClientConfig
from tests.support.apache_cluster import OLD_RELEASE, RELEASE, ApacheCluster
from tests.support.broker_process import BrokerProcess

SERVER_VARIABLE = "TIDEMARK_PEER_SERVER"
BROKERD, APACHE, OLD_APACHE = "brokerd", "apache", f"apache-{OLD_RELEASE}"
APACHE_RELEASES: Mapping[str, str] = {APACHE: RELEASE, OLD_APACHE: OLD_RELEASE}
# What any scenario needs. Half messages that have ended count as open until an op message names them, which waits 3 s
# for others by default: scenarios check each second or two.
SETTINGS: Mapping[str, str | int] = {
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 2_000,
    "transactionOpBatchInterval": 200,
    "recallMessageEnable": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    # Each thread of Apache's that stores messages keeps a direct buffer of this size: with 4 MiB those of all scenarios
    # are more than the JVM of tests has.
    "maxMessageSize": 1 << 20,
}


class ApacheServer:
    """A name server and one broker of Apache's, with what scenarios use of a BrokerProcess.

    `settings`: of the broker; `release`: another one than this run's; `properties`: of both JVMs; `client`: how to
    reach them, where they take no plain or unsigned requests; `plain_acl`: the broker's accounts.
    """

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str | int] = SETTINGS,
        release: str = "",
        properties: Sequence[str] = (),
        client: RemotingClientConfig | None = None,
        plain_acl: str = "",
    ) -> None:
        self._cluster = ApacheCluster(
            data,
            ["broker-a"],
            settings,
            release=release or APACHE_RELEASES[server_kind()],
            properties=properties,
            client=client,
        )
        broker = self._cluster.brokers[0]
        self.namesrv, self.address, self.port = self._cluster.namesrv, broker.address, broker.port
        self.plain_acl = broker.folder / "conf" / "plain_acl.yml"
        if plain_acl:
            self.plain_acl.write_text(plain_acl)

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


def server_kind() -> str:
    """Return which server scenarios of this run meet."""
    kind = os.environ.get(SERVER_VARIABLE, BROKERD)
    kinds = (BROKERD, *APACHE_RELEASES)
    assert kind in kinds, f"{SERVER_VARIABLE}={kind}: takes {', '.join(kinds)}"
    return kind


def is_by_hand() -> bool:
    """Return whether a command runs the scenarios, all of them: the suite takes samples of some."""
    return SERVER_VARIABLE in os.environ


def is_apache() -> bool:
    """Return whether scenarios of this run meet a broker of Apache's."""
    return server_kind() != BROKERD
