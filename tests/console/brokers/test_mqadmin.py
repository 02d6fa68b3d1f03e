"""The blocking door to brokers, against a real brokerd."""

import inspect
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    Connection,
    Message,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
    TopicConfig,
    close_admins,
    split_addrs,
    with_admin,
)
from tests.support.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_admins()


def test_it_has_every_call_of_the_admin() -> None:
    calls = {
        name
        for name, member in inspect.getmembers(MQAdmin, inspect.iscoroutinefunction)
        if not name.startswith("_") and name != "close"
    }
    assert calls - set(dir(BlockingMQAdmin)) == set()


def test_it_keeps_name_and_description_of_a_call() -> None:
    assert BlockingMQAdmin.topic_list.__doc__ == MQAdmin.topic_list.__doc__


@pytest.mark.parametrize(
    ("text", "addrs"),
    [
        ("a:9876", ["a:9876"]),
        ("a:9876;b:9876", ["a:9876", "b:9876"]),
        (" a:9876, b:9876 ;", ["a:9876", "b:9876"]),
        ("", []),
    ],
)
def test_it_splits_addresses_as_rocketmq_writes_them(text: str, addrs: list[str]) -> None:
    assert split_addrs(text) == addrs


def test_it_asks_a_broker(brokerd: BrokerProcess) -> None:
    admin = with_admin(Connection(brokerd.namesrv))
    info = admin.cluster_info()
    assert [list(broker.broker_addrs.values()) for broker in info.broker_addr_table.values()] == [
        [brokerd.address]
    ]
    admin.create_topic(
        brokerd.address, TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)
    )
    sent = admin.send(brokerd.address, Message("orders", b"4711", {}), queue_id=1, producer_group="test")
    assert sent.queue_offset == 0
    assert admin.max_offset(brokerd.address, "orders", 1) == 1
    assert admin.query_consumer_offset(brokerd.address, "billing", "orders", 1) is None


def test_it_shares_one_admin_between_callers(brokerd: BrokerProcess) -> None:
    admin = with_admin(Connection(brokerd.namesrv))
    assert with_admin(Connection(f" {brokerd.namesrv};")) is admin
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: with_admin(Connection(brokerd.namesrv)).topic_list(), range(64)))
    assert all(answer == answers[0] for answer in answers)
    assert [thread.name for thread in threading.enumerate()].count("mqadmin") == 1


def test_it_raises_what_the_broker_answers(brokerd: BrokerProcess) -> None:
    with pytest.raises(MQBrokerError) as refused:
        with_admin(Connection(brokerd.namesrv)).topic_route("nobody-made-this")
    assert refused.value.code == 17


def test_it_raises_for_an_address_where_nobody_is() -> None:
    with pytest.raises(BrokerUnavailable):
        with_admin(Connection("127.0.0.1:1")).cluster_info()


def test_it_gathers_answers_and_errors_under_one_deadline(brokerd: BrokerProcess) -> None:
    with socket.socket() as deaf:  # takes the connection and never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        silent = f"127.0.0.1:{deaf.getsockname()[1]}"
        addrs = {"good": brokerd.address, "nobody": "127.0.0.1:1", "silent": silent}
        answers = with_admin(Connection(brokerd.namesrv)).gather(  # returns at all: one of them never answers
            {name: lambda admin, addr=addr: admin.runtime_info(addr) for name, addr in addrs.items()}, 3_000
        )
    assert isinstance(answers["good"], dict)
    assert isinstance(answers["nobody"], BrokerUnavailable)
    assert isinstance(answers["silent"], RemotingTimeout)


def test_it_refuses_a_blocking_call_in_its_own_loop(brokerd: BrokerProcess) -> None:
    admin = with_admin(Connection(brokerd.namesrv))

    async def inside(_: MQAdmin) -> list[str]:
        return admin.topic_list()

    with pytest.raises(RuntimeError, match="inside the event loop"):
        admin.run(inside)


def test_it_works_in_a_forked_child(brokerd: BrokerProcess) -> None:
    """Celery's prefork pool forks after imports, perhaps after calls: the child needs a loop of its own."""
    expected = with_admin(Connection(brokerd.namesrv)).topic_list()
    child = os.fork()
    if child == 0:
        os._exit(0 if with_admin(Connection(brokerd.namesrv)).topic_list() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_it_finds_a_broker_again_that_came_back(brokerd: BrokerProcess) -> None:
    admin = with_admin(Connection(brokerd.namesrv))
    admin.topic_list()
    brokerd.kill()
    with pytest.raises((BrokerUnavailable, RemotingTimeout)):
        admin.topic_list()
    brokerd.start()
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.topic_list()
            break
        except (BrokerUnavailable, RemotingTimeout):
            assert time.monotonic() < deadline
            time.sleep(0.05)
