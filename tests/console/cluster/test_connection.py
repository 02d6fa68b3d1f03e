"""Connections of clusters: TLS and keys as they are stored, used, replaced and never shown again."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import socket
import ssl
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection as database
from django.test import Client
from pytest_django import Settings

from console.access.models import AuditEvent
from console.brokers.connection import AccessKeys, Connection, Tls
from console.brokers.mqadmin import BrokerUnavailable, MQAdmin, with_admin
from console.cluster import diagnosis, services
from console.cluster.connection_change import ConnectionChange
from console.cluster.diagnosis import Fault
from console.cluster.errors import ConnectionRefused, ConnectionSettingInvalid
from console.cluster.models import Cluster
from tests.console.cluster.conftest import TlsBroker
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

SECRET, TOKEN = "secret-of-shop-71", "token-of-shop-72"  # noqa: S105 - of a test
KEYS = ConnectionChange(access_key="shop", secret_key=SECRET, security_token=TOKEN)


@pytest.fixture(autouse=True)
def no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PROBES_A_MINUTE_MAX", 10_000)


@pytest.fixture
def alice() -> User:
    return User.objects.create_superuser("alice")


def by_tls(broker: TlsBroker) -> ConnectionChange:
    return ConnectionChange(
        uses_tls=True,
        tls_ca=broker.ca,
        tls_certificate=broker.client.certificate.read_text(),
        tls_key=broker.client.key.read_text(),
    )


def faults(connection: Connection) -> dict[str, Fault]:
    return {finding.addr: finding.fault for finding in services.check_connection(connection)}


def test_a_cluster_is_reached_by_tls_with_keys(tls_broker: TlsBroker, alice: User) -> None:
    change = by_tls(tls_broker)
    added = services.add_cluster("staging", tls_broker.namesrv, alice, connection=change)
    stored = Cluster.objects.get(pk=added.pk)
    assert with_admin(stored.connection).topic_list()
    assert services.check_connection(stored.connection) == ()


def test_secrets_are_stored_encrypted_and_shown_nowhere(brokerd: BrokerProcess, alice: User) -> None:
    services.add_cluster("staging", brokerd.namesrv, alice, connection=KEYS)
    cluster = Cluster.objects.get()
    assert cluster.connection.keys == AccessKeys("shop", SECRET, TOKEN)
    with database.cursor() as cursor:
        cursor.execute("SELECT * FROM cluster_cluster")
        row = repr(cursor.fetchall())
    assert cluster.secret_key_sealed in row
    shown = [
        repr(cluster.connection),
        repr(KEYS),
        json.dumps([event.after for event in AuditEvent.objects.all()]),
    ]
    browser = Client()
    browser.force_login(alice)
    for path in (
        "/clusters",
        f"/admin/cluster/cluster/{cluster.pk}/change/",
        "/c/staging/",
        "/api/v1/clusters",
        "/api/v1/clusters/staging",
        "/api/v1/audit",
    ):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        shown.append(answer.content.decode())
    for text in (row, *shown):
        assert SECRET not in text
        assert TOKEN not in text
    assert not [text for text in shown if cluster.secret_key_sealed in text]
    assert AuditEvent.objects.get(verb="add cluster").after["secret_key"] == "stored"


def test_another_secret_key_of_the_console_is_explained(
    brokerd: BrokerProcess, alice: User, settings: Settings
) -> None:
    services.add_cluster("staging", brokerd.namesrv, alice, connection=KEYS)
    settings.SECRET_KEY = "another"  # noqa: S105 - of a test
    admin = with_admin(Cluster.objects.get().connection)
    with pytest.raises(BrokerUnavailable, match="stored with another SECRET_KEY and cannot be read"):
        admin.topic_list()
    answers = admin.gather({"one": MQAdmin.topic_list}, 1_000)
    assert isinstance(answers["one"], BrokerUnavailable)
    services.change_cluster("staging", alice, connection=KEYS)
    assert with_admin(Cluster.objects.get().connection).topic_list()


def test_a_change_takes_the_place_of_connections_in_use(brokerd: BrokerProcess, alice: User) -> None:
    """The holder of an admin goes on with the new keys; the former connection is closed behind its last call."""
    services.add_cluster("staging", brokerd.namesrv, alice, connection=KEYS)
    admin = with_admin(Cluster.objects.get().connection)
    admin.topic_list()
    former = admin._client
    services.change_cluster(
        "staging",
        alice,
        connection=ConnectionChange(secret_key="another-secret-73"),  # noqa: S106
    )

    assert with_admin(Cluster.objects.get().connection) is admin
    assert admin._client is not former
    assert admin.topic_list()
    admin.run(_settled)
    assert former._closing is not None
    assert former._closing.done()
    event = AuditEvent.objects.get(verb="change cluster")
    assert (event.before, event.after) == ({"secret_key": "stored"}, {"secret_key": "replaced"})


async def _settled(admin: MQAdmin) -> None:
    await admin.topic_list()


def test_a_call_under_way_ends_with_the_settings_it_began_with(brokerd: BrokerProcess) -> None:
    admin = with_admin(Connection(brokerd.namesrv, cluster="staging"))
    former = admin._client

    async def reconnected_within(used: MQAdmin) -> bool:
        admin.reconnect(Connection(brokerd.namesrv, keys=AccessKeys("shop", SECRET), cluster="staging"))
        before = await used.topic_list()
        return bool(before) and former._closing is None

    assert admin.run(reconnected_within)
    admin.run(_settled)
    assert former._closing is not None


def test_each_fault_of_a_connection_is_named(
    tls_broker: TlsBroker, brokerd: BrokerProcess, tmp_path: Path
) -> None:
    addr, other = tls_broker.namesrv, Authority(tmp_path, "other")
    pair = tls_broker.client.certificate.read_text(), tls_broker.client.key.read_text()
    localhost = addr.replace("127.0.0.1", "localhost")
    unknown = Tls(other.certificate.read_text(), True, *pair)
    of_host = Tls(tls_broker.ca, True, *pair)
    assert faults(Connection(addr, of_host)) == {}
    assert faults(Connection(addr)) == {addr: Fault.TLS_REQUIRED}
    assert faults(Connection(addr, unknown)) == {addr: Fault.CERTIFICATE_UNKNOWN}
    assert faults(Connection(addr, Tls(tls_broker.ca))) == {addr: Fault.CLIENT_CERTIFICATE_REFUSED}
    assert faults(Connection(localhost, of_host)) == {localhost: Fault.CERTIFICATE_OF_ANOTHER_HOST}
    assert faults(Connection(brokerd.namesrv, of_host)) == {brokerd.namesrv: Fault.TLS_NOT_OFFERED}
    assert faults(Connection("127.0.0.1:1", of_host)) == {"127.0.0.1:1": Fault.UNREACHABLE}


def test_a_broker_out_of_reach_behind_a_good_name_server(brokerd: BrokerProcess, tmp_path: Path) -> None:
    """It registers an address that is not its own, as one in a container does; then it hangs."""
    elsewhere = BrokerProcess(
        tmp_path / "elsewhere",
        namesrvAddr=brokerd.namesrv,
        brokerName="elsewhere",
        brokerIP1="127.0.0.2",
        bindAddress="127.0.0.1",
    ).start()
    wrong = f"127.0.0.2:{elsewhere.port}"
    try:
        registered(brokerd, "elsewhere")
        (finding,) = services.check_connection(Connection(brokerd.namesrv))
        assert (finding.addr, finding.fault) == (wrong, Fault.UNREACHABLE)
        assert "Connection refused" in finding.text
        assert f"{wrong}, a broker that the name server lists, cannot be reached" in finding.text
        assert "brokerIP1" in finding.text
    finally:
        elsewhere.stop()


def test_a_broker_that_hangs_behind_a_good_name_server(
    brokerd: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "PROBE_DEADLINE_MS", 1_000)
    hanging = BrokerProcess(tmp_path / "hanging", namesrvAddr=brokerd.namesrv, brokerName="hanging").start()
    assert hanging.process is not None
    try:
        registered(brokerd, "hanging")
        hanging.process.send_signal(signal.SIGSTOP)
        (finding,) = services.check_connection(Connection(brokerd.namesrv))
        assert (finding.addr, finding.fault) == (hanging.address, Fault.SILENT)
        assert finding.text.endswith("did not answer within 1 s. Is it overloaded or stopped?")
    finally:
        hanging.process.send_signal(signal.SIGCONT)
        hanging.stop()


def registered(name_server: BrokerProcess, broker: str) -> None:
    """Wait until the name server lists the broker: it registers behind its start."""
    admin, deadline = with_admin(Connection(name_server.namesrv)), time.monotonic() + 30
    while broker not in admin.cluster_info().broker_addr_table:
        assert time.monotonic() < deadline, f"{broker} has not registered"
        time.sleep(0.02)


@pytest.mark.parametrize("fault", sorted(diagnosis.WORDS))
def test_what_to_do_about_a_fault_of_settings_is_said(fault: Fault) -> None:
    said = diagnosis.WORDS[fault]("a:1", "why")
    assert re.search(r"\b(Enter|Switch|switch|Renew) ", said)
    assert said.endswith(".")


def test_an_expired_certificate_is_named(tmp_path: Path) -> None:
    """No brokerd starts with one."""
    authority = Authority(tmp_path)
    expired = authority.issue("expired", from_days=-9, to_days=-1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(expired.certificate, expired.key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        addr = f"127.0.0.1:{server.getsockname()[1]}"
        serving = threading.Thread(target=refused_handshake, args=(server, context))
        serving.start()
        assert faults(Connection(addr, Tls(authority.certificate.read_text()))) == {
            addr: Fault.CERTIFICATE_EXPIRED
        }
        serving.join()


def refused_handshake(server: socket.socket, context: ssl.SSLContext) -> None:
    with server.accept()[0] as accepted, contextlib.suppress(OSError):
        context.wrap_socket(accepted, server_side=True)


def test_settings_that_are_refused_are_not_stored(tls_broker: TlsBroker, alice: User) -> None:
    with pytest.raises(ConnectionRefused, match="It may require TLS: switch TLS on"):
        services.add_cluster("staging", tls_broker.namesrv, alice, connection=KEYS)
    assert not Cluster.objects.exists()
    event = AuditEvent.objects.get()
    assert event.verb == "cluster not added"
    assert SECRET not in json.dumps(event.after)


@pytest.mark.parametrize(
    ("change", "field", "why"),
    [
        (ConnectionChange(access_key="shop"), "secret_key", "secret key of the access key shop"),
        (ConnectionChange(secret_key=SECRET), "access_key", "are set together"),
        (ConnectionChange(security_token=TOKEN), "access_key", "needs an access key"),
        (ConnectionChange(tls_ca="nothing"), "tls_ca", "not a PEM certificate"),
        (ConnectionChange(tls_key="nothing"), "tls_certificate", "certificate of this key"),
        (ConnectionChange(tls_certificate="nothing"), "tls_certificate", "not a PEM certificate"),
        (ConnectionChange(access_key="a" * 256, secret_key=SECRET), "access_key", "At most 255"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    alice: User, change: ConnectionChange, field: str, why: str
) -> None:
    with pytest.raises(ConnectionSettingInvalid, match=why) as refused:
        services.add_cluster("staging", "127.0.0.1:1", alice, connection=change)
    assert refused.value.field == field


def test_a_key_of_another_certificate_is_named(tls_broker: TlsBroker, alice: User, tmp_path: Path) -> None:
    key = Authority(tmp_path, "other").issue("client").key.read_text()
    change = ConnectionChange(**{**asdict(by_tls(tls_broker)), "tls_key": key})
    with pytest.raises(ConnectionSettingInvalid, match="does not belong to the certificate") as refused:
        services.add_cluster("staging", tls_broker.namesrv, alice, connection=change)
    assert refused.value.field == "tls_key"


def test_removing_an_access_key_removes_its_secrets(brokerd: BrokerProcess, alice: User) -> None:
    services.add_cluster("staging", brokerd.namesrv, alice, connection=KEYS)
    services.change_cluster("staging", alice, connection=ConnectionChange(access_key=""))
    cluster = Cluster.objects.get()
    assert cluster.connection.keys is None
    assert (cluster.secret_key_sealed, cluster.security_token_sealed) == ("", "")
    event = AuditEvent.objects.get(verb="change cluster")
    assert event.before == {"access_key": "shop", "secret_key": "stored", "security_token": "stored"}
    assert event.after == {"access_key": "", "secret_key": "", "security_token": ""}


def test_the_command_reads_secrets_from_files(tls_broker: TlsBroker, tmp_path: Path) -> None:
    ca, secret = tmp_path / "ca.pem", tmp_path / "secret"
    ca.write_text(tls_broker.ca)
    secret.write_text(f"{SECRET}\n")
    client = tls_broker.client
    options = [
        "--tls",
        "--tls-ca",
        str(ca),
        "--tls-certificate",
        str(client.certificate),
        "--tls-key",
        str(client.key),
    ]
    keys = ["--access-key", "shop", "--secret-key-file", str(secret)]
    assert run("add", "staging", tls_broker.namesrv, *options, *keys) == "staging added\n"
    assert Cluster.objects.get().connection.keys == AccessKeys("shop", SECRET)
    assert "every name server and broker answered" in run("test", "staging")
    assert run("set", "staging", "--clear-keys") == "staging changed: access_key\n"
    assert Cluster.objects.get().connection.keys is None
    with pytest.raises(CommandError, match="It may require TLS"):
        run("set", "staging", "--no-tls")
    secret.write_text("\n")
    with pytest.raises(CommandError, match="its first line is empty"):
        run("set", "staging", *keys)


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("clusters", *words, stdout=out)
    return out.getvalue()


def test_no_key_of_a_client_stays_in_a_file(
    tls_broker: TlsBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads it from one: that one is encrypted, and gone afterwards."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client, written = tls_broker.client, watched_files(monkeypatch)
    tls = Tls(tls_broker.ca, True, client.certificate.read_text(), client.key.read_text())
    Connection("x:1", tls).client_config()
    assert [b"ENCRYPTED PRIVATE KEY" in data for data in written] == [True]
    assert list(tmp_path.iterdir()) == []


def watched_files(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    written: list[bytes] = []
    write = Path.write_bytes

    def recorded(self: Path, data: bytes) -> int:
        written.append(data)
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", recorded)
    return written
