"""A brokerd that takes only TLS connections, and certificates for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from console.brokers.mqadmin import close_admins
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority, Issued


@dataclass(frozen=True, slots=True)
class TlsBroker:
    """A brokerd that enforces TLS and verifies clients, and what reaches it."""

    process: BrokerProcess
    authority: Authority
    client: Issued

    @property
    def namesrv(self) -> str:
        return self.process.namesrv

    @property
    def ca(self) -> str:
        return self.authority.certificate.read_text()


@pytest.fixture(scope="package")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    settings = {
        **authority.issue("server").server_settings,
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(authority.certificate),
    }
    process = BrokerProcess(folder / "store", **settings).start()
    yield TlsBroker(process, authority, authority.issue("client"))
    close_admins()
    process.stop()
