"""The unmodified Go client of RocketMQ (v2.1.2) uses brokerd as it uses Apache RocketMQ: `make go`.

Not among the tests of `make test`: it takes Go itself, 75 MB, and modules of Go's proxy. With
TIDEMARK_PEER_SERVER=apache the scenarios meet Apache 5.3.3. Left out for defects of the client: replies (it drops their
body), and its one-way sends carry no one-way flag, so that closing at once loses some on either broker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumers import MQAdmin, MQBrokerError
from tests.peers.test_java_client import create_topic, expected, has_started, keys
from tests.support import go_peer
from tests.support.apache_server import Server
from tests.support.go_peer import GoPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., GoPeer]


@pytest.fixture(scope="session")
def release() -> str:
    """Of Apache's broker, where this runs against one."""
    return "5.3.3"


@pytest.fixture(scope="session")
def program() -> Path:
    return go_peer.build()


@pytest.fixture()
def broker_settings() -> dict[str, str | int]:
    """It checks transactions soon."""
    return {"transactionTimeOut": 1_000, "transactionCheckInterval": 1_000}


@pytest.fixture()
def peer(program: Path, broker: Server, tmp_path: Path) -> Iterator[Start]:
    """Start a peer: peer("produce", topic="T", count=10)."""
    started: list[GoPeer] = []

    def start(command: str, **options: object) -> GoPeer:
        arguments = [command, "--namesrv", broker.namesrv]
        for name, value in options.items():
            arguments += ["--" + name.replace("_", "-"), str(value)]
        started.append(GoPeer(program, arguments, tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def wait_for_route(broker: Server, topic: str) -> None:
    """A consumer whose topic has none yet does not start."""

    async def wait() -> None:
        async with asyncio.timeout(60), MQAdmin([broker.namesrv]) as admin:
            while True:
                try:
                    await admin.topic_route(topic)
                    return
                except MQBrokerError:
                    await asyncio.sleep(0.1)

    asyncio.run(wait())


def test_two_consumers_of_a_group_share_the_queues(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoMany")
    consumers = [
        peer("consume", topic="GoMany", group="go-two", instance=name, seconds=240)
        for name in ("first", "second")
    ]
    for consumer in consumers:
        consumer.wait_for(has_started, "start of a consumer")
    producer = peer("produce", topic="GoMany", count=2_000, tags="a,b")
    assert producer.finish() == 0
    assert producer.failures() == []
    consumers[0].wait_for(lambda _: len(keys(*consumers)) >= 2_000, "2,000 messages")
    bodies = {message.key: message.body for each in consumers for message in each.consumed}
    assert bodies == {f"k{i}": f"body-{i} " for i in range(2_000)}


@pytest.mark.parametrize("mode", ["batch", "oneway", "async"])
def test_it_accepts_every_way_of_sending(peer: Start, mode: str) -> None:
    # A moment for the answers that its one-way sends get and do not expect.
    assert peer("produce", topic=f"Go-{mode}", count=200, mode=mode, size=200, linger=300).finish() == 0
    consumer = peer("consume", topic=f"Go-{mode}", group=f"go-{mode}", expect=200, seconds=90)
    assert consumer.finish() == 0
    assert keys(consumer) == expected(200)


def test_it_filters_by_tag_and_by_properties(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoSold")

    async def allow() -> None:
        async with MQAdmin([broker.namesrv]) as admin:
            await admin.update_broker_config(broker.address, {"enablePropertyFilter": "true"})

    asyncio.run(allow())
    assert peer("produce", topic="GoSold", count=300, tags="red,green,blue").finish() == 0
    tagged = peer("consume", topic="GoSold", group="go-tags", filter="green || blue", seconds=90)
    sql = "n BETWEEN 100 AND 149 AND TAGS <> 'red' OR n = 299"
    selected = peer("consume", topic="GoSold", group="go-sql", sql=sql, seconds=90)
    wanted = {f"k{n}" for n in [*range(100, 150), 299] if n % 3 or n == 299}
    tagged.wait_for(lambda p: len(keys(p)) >= 200, "200 green and blue messages")
    selected.wait_for(lambda p: keys(p) >= wanted, "the selected messages")
    time.sleep(1)  # a wrong one would come with the next pull
    assert Counter(m.tag for m in tagged.consumed) == {"green": 100, "blue": 100}
    assert sorted(m.key for m in selected.consumed) == sorted(wanted), "none else, none twice"


def test_it_reads_what_it_compressed(peer: Start) -> None:
    assert peer("produce", topic="GoLarge", count=5, size=20_000).finish() == 0
    consumer = peer("consume", topic="GoLarge", group="go-large", expect=5, seconds=90)
    assert consumer.finish() == 0
    assert [len(m.body) for m in consumer.consumed] == [20_000] * 5


def test_a_failing_message_is_tried_again_and_becomes_a_dead_letter(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoFails")
    consumer = peer(
        "consume",
        topic="GoFails",
        group="go-fails",
        fail_key="k3",
        max_reconsume=2,
        retry_level=1,
        seconds=240,
    )
    consumer.wait_for(has_started, "start of the consumer")
    assert peer("produce", topic="GoFails", count=5).finish() == 0
    consumer.wait_for(lambda p: sum(m.key == "k3" for m in p.consumed) >= 3, "the first try and two retries")
    assert [m.reconsume_times for m in consumer.consumed if m.key == "k3"] == [0, 1, 2]
    wait_for_route(broker, "%DLQ%go-fails")
    letters = peer("consume", topic="%DLQ%go-fails", group="go-letters", expect=1, seconds=120)
    assert letters.finish() == 0
    assert keys(letters) == {"k3"}


def test_an_orderly_consumer_gets_each_queue_in_order(peer: Start, broker: Server) -> None:
    """One: the client keeps its locks of queues that it loses, and a second waits a minute for them to expire."""
    create_topic(broker, "GoOrdered")
    consumer = peer("consume", topic="GoOrdered", group="go-orderly", orderly="true", expect=400, seconds=90)
    consumer.wait_for(has_started, "start of the consumer")
    assert peer("produce", topic="GoOrdered", count=400, mode="ordered").finish() == 0
    assert consumer.finish() == 0
    offsets = defaultdict(list)
    for message in consumer.consumed:
        offsets[message.queue_id].append(message.queue_offset)
    assert all(seen == sorted(seen) for seen in offsets.values())
    assert sum(map(len, offsets.values())) == 400


def test_transactions_end_as_their_producer_decides(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoPaid")
    consumer = peer("consume", topic="GoPaid", group="go-paid", seconds=240)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer(
        "transact",
        topic="GoPaid",
        count=6,
        decisions="commit,rollback,unknown",
        answers="unknown,unknown,commit,unknown,unknown,rollback",
        seconds=240,
    )
    consumer.wait_for(
        lambda p: keys(p) >= {"k0", "k2", "k3"}, "what was committed, and what a check committed"
    )
    producer.wait_for(
        lambda p: any(line[:2] == ["CHECKED", "k5"] for line in p.lines), "the check of another"
    )
    producer.stop()
    assert sorted(m.key for m in consumer.consumed) == ["k0", "k2", "k3"], "none rolled back, none twice"


def test_it_serves_delay_levels(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoLater")
    consumer = peer("consume", topic="GoLater", group="go-later", expect=3, seconds=120)
    consumer.wait_for(has_started, "start of the consumer")
    began_s = time.monotonic()
    assert peer("produce", topic="GoLater", count=3, delay=1).finish() == 0  # level 1 is 1 s
    assert consumer.finish() == 0
    assert time.monotonic() - began_s >= 1


def test_each_broadcasting_consumer_gets_everything_once(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoNews")
    assert peer("produce", topic="GoNews", count=10).finish() == 0
    asked = {"topic": "GoNews", "group": "go-news", "model": "BROADCASTING", "seconds": 90}
    for name in ("first", "second"):
        consumer = peer("consume", **asked, instance=name, expect=10)
        assert consumer.finish() == 0
        assert sorted(m.key for m in consumer.consumed) == sorted(expected(10))


def test_nothing_is_lost_over_a_kill_and_restart(peer: Start, broker: Server) -> None:
    create_topic(broker, "GoKilled")
    consumer = peer("consume", topic="GoKilled", group="go-survivors", seconds=300)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer("produce", topic="GoKilled", count=600, pause=5, retries=30, timeout=3_000)
    consumer.wait_for(lambda p: len(keys(p)) >= 100, "the first 100 messages")
    broker.kill()
    broker.start()
    assert producer.finish() == 0
    refused = {f"k{line[1]}" for line in producer.failures()}
    acknowledged = expected(600) - refused
    assert acknowledged
    consumer.wait_for(lambda p: acknowledged <= keys(p), "every acknowledged message")
