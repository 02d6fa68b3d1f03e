"""A cluster of both generations: broker-a with accounts of 4.x, broker-b with users of 5.x; the console signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.signature import AccessKeys
from console.brokers.mqadmin import BlockingMQAdmin, Connection, close_admins, with_admin
from console.cluster.models import Cluster
from console.cluster.sealed import seal
from console.lag import services as lag_services
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import wait_for
from tests.support.broker_process import BrokerProcess

NAME, ADMIN, SECRET = "guarded", "rocketmq2", "12345678"  # noqa: S105 - of tests
ALICE_SECRET = "alice-secret"  # noqa: S105 - of tests
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: [192.0.2.7]
accounts:
- accessKey: {ADMIN}
  secretKey: {SECRET}
  admin: true
- accessKey: alice-key
  secretKey: {ALICE_SECRET}
  defaultGroupPerm: SUB
  topicPerms: [orders=PUB|SUB, closed=DENY]
  groupPerms: [billing=SUB]
"""
USERS: dict[str, str] = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": f'{{"username":"{ADMIN}","password":"{SECRET}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{ADMIN}","secretKey":"{SECRET}"}}',
}


@dataclass
class Guarded:
    """Cluster ``guarded``: broker-a (4.x, with the name server's role) and broker-b (5.x)."""

    a: BrokerProcess
    b: BrokerProcess
    actor: User

    @property
    def cluster(self) -> Cluster:
        return Cluster.objects.get()

    @property
    def addrs(self) -> Mapping[str, str]:
        return {"broker-a": self.a.address, "broker-b": self.b.address}

    def collect(self) -> None:
        """Run a round, which records the brokers that answer."""
        assert lag_services.collect(NAME, now_ms=lag_services.system_now_ms()) is not None

    def signed_as(self, name: str, secret: str) -> BlockingMQAdmin:
        """Return a client that signs with other keys than the console."""
        return with_admin(Connection(self.a.namesrv, keys=AccessKeys(name, secret), cluster=f"as-{name}"))

    def sign_as(self, name: str, secret: str) -> None:
        """Have the console sign as this one from now on."""
        Cluster.objects.update(access_key=name, secret_key_sealed=seal(secret))

    def make_topic(self, broker: str, topic: str, name: str = ADMIN, secret: str = SECRET) -> None:
        self.signed_as(name, secret).create_topic(self.addrs[broker], TopicConfig(topic, 1, 1, 6))

    def plan(self, kind: str, params: Mapping[str, Any]) -> Plan:
        return operation_services.create_plan(kind, NAME, "*", params, self.actor)

    def apply(self, plan: Plan) -> Job:
        """Run the plan's job to its end."""
        job = operation_services.apply_plan(plan.id, self.actor, plan.confirm_text)
        for _ in range(20):  # slices
            runner.run(job.id, "worker-1")
            job = operation_selectors.job(job.id)
            if job.is_final:
                break
        return job

    def undo(self, plan: Plan) -> Plan:
        return operation_services.undo(plan.id, self.actor)


@pytest.fixture
def guarded(
    tmp_path: Path, redis_url: str, settings: Settings, request: pytest.FixtureRequest
) -> Iterator[Guarded]:
    request.node.add_marker(pytest.mark.django_db(databases=["default", "metrics"]))
    request.getfixturevalue("db")
    settings.DATA_DIR = tmp_path / "data"
    settings.HISTORY_URL = f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    a = BrokerProcess(tmp_path / "a", rocketmqHome=str(tmp_path), aclEnable="true").start()
    b = BrokerProcess(tmp_path / "b", brokerName="broker-b", namesrvAddr=a.namesrv, **USERS).start()
    Cluster.objects.create(
        name=NAME, namesrv_addrs=a.namesrv, access_key=ADMIN, secret_key_sealed=seal(SECRET)
    )
    made = Guarded(a, b, User.objects.create_user("root", is_superuser=True))
    admin = with_admin(made.cluster.connection)
    wait_for(lambda: len(admin.cluster_info().broker_addr_table) == 2, "broker-b in the routes", within_s=30)
    yield made
    for process in (b, a):
        process.stop()
    lag_services.collectors.clear()
    close_admins()
