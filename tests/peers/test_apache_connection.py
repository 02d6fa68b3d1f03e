"""The console reaches an Apache cluster that takes TLS and signed requests alone, and names what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from brokerd.remoting.body.topic import TopicConfig
from console.broker.acl.page import read_table
from console.brokers.mqadmin import BlockingMQAdmin, Message, MQBrokerError, close_admins, with_admin
from console.cluster import services
from console.cluster.connection_change import ConnectionChange
from console.cluster.diagnosis import Fault
from console.cluster.errors import ConnectionRefused
from console.cluster.models import Cluster
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Plan
from consumers import AccessKeys, RemotingClientConfig, tls_context
from tests.console.operation.live_cluster import wait_for
from tests.support.apache_cluster import OLD_RELEASE, RELEASE, WITHOUT_TIMERS, ApacheCluster
from tests.support.certificates import Authority

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(400),
    pytest.mark.django_db(databases=["default", "metrics"]),
]
ADMIN, SECRET = "rocketmq2", "12345678"  # noqa: S105 - of tests
PLAIN_ACL = f"""
accounts:
- accessKey: {ADMIN}
  secretKey: {SECRET}
  admin: true
"""
AUTH = "org.apache.rocketmq.auth"
SETTINGS: dict[str, dict[str, str | int]] = {
    OLD_RELEASE: {"aclEnable": "true"},
    RELEASE: {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": (
            f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{ADMIN}","password":"{SECRET}"}}',
        "innerClientAuthenticationCredentials": f'{{"accessKey":"{ADMIN}","secretKey":"{SECRET}"}}',
    },
}


@pytest.fixture(autouse=True)
def no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PROBES_A_MINUTE_MAX", 10_000)


@pytest.mark.parametrize("apache", [OLD_RELEASE, RELEASE])
def test_a_cluster_with_tls_and_keys_is_added_and_used(apache: str, tmp_path: Path, redis_url: str) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server")
    context = tls_context(authority.certificate, check_host_name=False)
    client = RemotingClientConfig(ssl_context=context, keys=AccessKeys(ADMIN, SECRET))
    cluster = ApacheCluster(
        tmp_path / "apache",
        ["broker-a"],
        {**SETTINGS[apache], **WITHOUT_TIMERS},
        release=apache,
        properties=authority.enforcing_properties(server),
        client=client,
    )
    (cluster.brokers[0].folder / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    try:
        with cluster:
            _uses(cluster, authority.certificate.read_text())
            _changes_who_may_use_it(cluster.brokers[0].address, apache)
    finally:
        close_admins()


def _uses(cluster: ApacheCluster, ca: str) -> None:
    alice = User.objects.create_superuser("alice")
    tls: dict[str, Any] = {"uses_tls": True, "tls_ca": ca, "tls_checks_host_name": False}
    with pytest.raises(ConnectionRefused, match="may require TLS"):
        services.add_cluster("apache", cluster.namesrv, alice)
    with pytest.raises(ConnectionRefused, match="requires an access key"):
        services.add_cluster("apache", cluster.namesrv, alice, connection=ConnectionChange(**tls))
    for change, why in (
        (ConnectionChange(access_key="nobody-here", secret_key=SECRET, **tls), "has no such access key"),
        (ConnectionChange(access_key=ADMIN, secret_key="wrong-secret", **tls), "refuses the signature"),
    ):
        with pytest.raises(ConnectionRefused, match=why):
            services.add_cluster("apache", cluster.namesrv, alice, connection=change)
    keys = ConnectionChange(access_key=ADMIN, secret_key=SECRET, **tls)
    services.add_cluster("apache", cluster.namesrv, alice, connection=keys)
    connection = Cluster.objects.get().connection
    admin = with_admin(connection)
    # 4.9.7 refuses it until its statistics have their first sample, a second after its start.
    wait_for(lambda: has_samples(admin, cluster.brokers[0].address))
    assert services.check_connection(connection) == ()
    admin.create_topic(
        cluster.brokers[0].address, TopicConfig("orders", read_queue_nums=2, write_queue_nums=2)
    )
    assert "orders" in admin.all_topic_config(cluster.brokers[0].address).topic_config_table
    unsigned = services.check_connection(replace(connection, keys=None))
    assert [each.fault for each in unsigned] == [Fault.KEY_REQUIRED]


def has_samples(admin: BlockingMQAdmin, addr: str) -> bool:
    try:
        return bool(admin.runtime_info(addr))
    except MQBrokerError:
        return False


OWN_SECRET = "bobs-own-secret-77"  # noqa: S105 - of tests
# By release: what an account or user is called in kinds of plans, and rights to send to orders in params and diffs.
ACCOUNT_OF = {
    OLD_RELEASE: (
        "account",
        {"topic_perms": {"orders": "PUB"}},
        {"topic_perms": {"orders": "DENY"}},
        "topic orders",
        "PUB",
    ),
    RELEASE: (
        "user",
        {"policies": {"Topic:orders": "Allow Pub"}},
        {"policies": {}},
        "Topic:orders",
        "Allow Pub",
    ),
}


def _done(plan: Plan) -> Plan:
    """Run the plan's job to its end, which must be good."""
    actor = User.objects.get()
    job = operation_services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    job.refresh_from_db()
    assert (job.state, job.error) == ("SUCCEEDED", ""), job.result
    return plan


def _changes_who_may_use_it(addr: str, apache: str) -> None:
    """Make, change, delete and restore bob-key; what it may do shows whether the broker knows it."""
    what, may_send, may_nothing, key, right = ACCOUNT_OF[apache]
    actor, connection = User.objects.get(), Cluster.objects.get().connection
    keys = AccessKeys("bob-key", OWN_SECRET)
    bob = with_admin(replace(connection, keys=keys, cluster="bob"))

    def plan(step: str, **params: Any) -> Plan:
        return operation_services.create_plan(
            f"acl_{what}_{step}", "apache", "*", {"name": "bob-key", **params}, actor
        )

    def rights() -> list[str]:
        found = {each.name: each for each in read_table(Cluster.objects.get()).of(what)}
        variants = found["bob-key"].variants if "bob-key" in found else ()
        return [str(one.value) for variant in variants for one in variant.rights if one.key == key]

    def sent() -> bool:
        try:
            bob.send(addr, Message("orders", b"x", {}), queue_id=0)
        except MQBrokerError:
            return False
        return True

    assert [holder.name for holder in read_table(Cluster.objects.get()).of(what)] == [ADMIN]
    assert not sent()
    _done(plan("create", secret=OWN_SECRET, **may_send))
    assert (rights(), sent()) == ([right], True)
    changed = _done(plan("change", **may_nothing))
    assert (rights(), sent()) == (["DENY"] if what == "account" else [], False)
    _done(operation_services.undo(changed.id, actor))
    assert (rights(), sent()) == ([right], True)
    deleted = _done(plan("delete"))
    assert (rights(), sent()) == ([], False)
    _done(operation_services.undo(deleted.id, actor))
    assert (rights(), sent()) == ([right], False)
    _done(plan("change", secret=OWN_SECRET))
    assert sent()
    if apache == OLD_RELEASE:
        white = {"addresses": ["192.0.2.7", "192.0.2.8"]}
        _done(operation_services.create_plan("acl_white_addresses", "apache", "*", white, actor))
        (line,) = read_table(Cluster.objects.get()).brokers
        assert line.white_addresses == "192.0.2.7, 192.0.2.8"
