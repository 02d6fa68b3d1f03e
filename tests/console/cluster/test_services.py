"""Adding and removing clusters, against a real brokerd and addresses where none is."""

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User

from console.access.models import AuditEvent
from console.brokers import mqadmin
from console.cluster import services
from console.cluster.errors import (
    ClusterIsEmbedded,
    ClusterNameInvalid,
    ClusterNameTaken,
    NameServerAddressInvalid,
    NameServerUnreachable,
    TooManyProbes,
)
from console.cluster.models import Cluster
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return User.objects.create_superuser("alice")


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_it_adds_a_cluster_that_answers(brokerd: BrokerProcess, alice: User) -> None:
    added = services.add_cluster("staging", f" {brokerd.namesrv} ;", alice, remote_addr="10.0.0.1")
    assert Cluster.objects.get() == added
    assert (added.namesrv_addrs, added.is_embedded, added.typed_confirm_messages) == (
        brokerd.namesrv,
        False,
        1000,
    )
    event = AuditEvent.objects.get()
    assert (event.actor, event.verb, event.cluster, event.remote_addr) == (
        "alice",
        "add cluster",
        "staging",
        "10.0.0.1",
    )
    assert event.after == {"namesrv_addrs": brokerd.namesrv, "brokers": ["broker-a"]}


def test_it_refuses_a_name_that_is_taken(brokerd: BrokerProcess, alice: User) -> None:
    services.add_cluster("staging", brokerd.namesrv, alice)
    with pytest.raises(ClusterNameTaken, match="A cluster staging exists already"):
        services.add_cluster("staging", brokerd.namesrv, alice)


@pytest.mark.parametrize("name", ["", "Staging", "a b", "a/b", "-a", "x" * 64, "a%2fb"])
def test_it_refuses_a_name_that_does_not_fit_an_address(alice: User, name: str) -> None:
    with pytest.raises(ClusterNameInvalid):
        services.add_cluster(name, "127.0.0.1:1", alice)


@pytest.mark.parametrize(
    ("addrs", "message"),
    [
        ("", "Enter the address of a name server"),
        (" ; ", "Enter the address of a name server"),
        ("localhost", "localhost is not host:port"),
        ("localhost:", "localhost: is not host:port"),
        (":9876", ":9876 is not host:port"),
        ("localhost:0", "localhost:0 is not host:port"),
        ("localhost:65536", "localhost:65536 is not host:port"),
        ("http://localhost:x", "http://localhost:x is not host:port"),
        (";".join(f"h{number}:1" for number in range(17)), "At most 16 name servers; 17 were given"),
    ],
)
def test_it_refuses_what_is_no_address(alice: User, addrs: str, message: str) -> None:
    with pytest.raises(NameServerAddressInvalid, match=message):
        services.add_cluster("staging", addrs, alice)
    assert not Cluster.objects.exists()


def test_it_says_that_nobody_is_there(alice: User) -> None:
    with pytest.raises(
        NameServerUnreachable,
        match=r"127.0.0.1:1: cannot connect: Connection refused. Check that this is the address",
    ):
        services.add_cluster("staging", "127.0.0.1:1", alice)


def test_it_says_that_nobody_knows_the_host(alice: User) -> None:
    with pytest.raises(NameServerUnreachable, match="no-such-host.invalid:9876: cannot connect"):
        services.add_cluster("staging", "no-such-host.invalid:9876", alice)


def test_it_says_that_the_server_does_not_answer(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PROBE_DEADLINE_MS", 1000)
    with (
        silent_server() as addr,
        pytest.raises(NameServerUnreachable, match=f"{addr} accepted the connection but did"),
    ):
        services.add_cluster("staging", addr, alice)


def test_it_adds_nothing_when_one_of_two_does_not_answer(brokerd: BrokerProcess, alice: User) -> None:
    with pytest.raises(NameServerUnreachable, match="127.0.0.1:1"):
        services.add_cluster("staging", f"{brokerd.namesrv};127.0.0.1:1", alice)
    assert not Cluster.objects.exists()
    assert [event.verb for event in AuditEvent.objects.all()] == ["cluster not added"]


def test_it_removes_a_cluster_and_writes_it_down(alice: User) -> None:
    Cluster.objects.create(name="staging", namesrv_addrs="a:1")
    services.remove_cluster("staging", alice)
    assert not Cluster.objects.exists()
    event = AuditEvent.objects.get()
    assert (event.verb, event.subject, event.before) == (
        "remove cluster",
        "staging",
        {"namesrv_addrs": "a:1"},
    )
    with pytest.raises(Cluster.DoesNotExist):
        services.remove_cluster("staging", alice)


def test_it_registers_the_embedded_cluster_once_and_follows_its_port(alice: User) -> None:
    assert services.register_embedded("127.0.0.1:9876").name == "local"
    moved = services.register_embedded("127.0.0.1:19876")
    assert [(one.name, one.namesrv_addrs, one.is_embedded) for one in Cluster.objects.all()] == [
        ("local", "127.0.0.1:19876", True)
    ]
    with pytest.raises(ClusterIsEmbedded):
        services.remove_cluster(moved.name, alice)


def test_it_leaves_somebody_elses_cluster_of_that_name_alone() -> None:
    Cluster.objects.create(name="local", namesrv_addrs="a:1")
    assert services.register_embedded("127.0.0.1:9876").name == "local-embedded"


def test_it_keeps_no_client_of_what_it_asked(
    brokerd: BrokerProcess, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept client and its connection for each typed address would be there until the process ends."""
    before = len(mqadmin._admins._by_name)
    services.add_cluster("staging", brokerd.namesrv, alice)
    monkeypatch.setattr(services, "PROBE_DEADLINE_MS", 300)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(NameServerUnreachable):
            services.add_cluster("other", f"127.0.0.1:{silent.getsockname()[1]}", alice)
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(10)
            while connection.recv(4096):
                pass  # the request; then the end, or a TimeoutError
    assert len(mqadmin._admins._by_name) == before


def test_all_name_servers_are_asked_at_once(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PROBE_DEADLINE_MS", 1_000)
    with contextlib.ExitStack() as stack:
        addrs = ";".join(stack.enter_context(silent_server()) for _ in range(16))
        started_s = time.monotonic()
        with pytest.raises(NameServerUnreachable):
            services.add_cluster("staging", addrs, alice)
    assert time.monotonic() - started_s < 10  # one after the other: 16


def test_addresses_are_tried_ten_times_a_minute(alice: User) -> None:
    for _ in range(10):
        with pytest.raises(NameServerUnreachable):
            services.add_cluster("staging", "127.0.0.1:1", alice, remote_addr="10.0.0.1")
    with pytest.raises(TooManyProbes) as refusal:
        services.add_cluster("staging", "127.0.0.1:1", alice)
    assert 55 <= refusal.value.retry_after_s <= 60
    tried = AuditEvent.objects.filter(verb="cluster not added")
    assert tried.count() == 10
    found = tried[0]
    assert (found.actor, found.subject, found.remote_addr) == ("alice", "staging", "10.0.0.1")
    assert found.after["namesrv_addrs"] == "127.0.0.1:1"


@pytest.mark.parametrize(
    "addr", ["169.254.169.254:80", "[fe80::1]:9876", "100.100.100.200:80", "[fd00:ec2::254]:80", "rebound:80"]
)
def test_addresses_of_machine_secrets_are_not_asked(
    alice: User, addr: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(services, "ask_once", None)  # a call would fail
    with pytest.raises(NameServerUnreachable, match="link-local or a cloud's metadata"):
        services.add_cluster("staging", f"10.0.0.1:9876;{addr}", alice)
