"""Further ways of unmodified Java clients, 5.3.3 and 4.9.7, that `python -m tests.peers.side_by_side` runs.

Not in the suite: the same requests as in test_java_client.py, by other methods of the client.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from tests.peers.test_java_client import create_topic, expected, has_started, keys
from tests.peers.test_java_pop import committed
from tests.support.apache_cluster import OLD_RELEASE
from tests.support.apache_server import OLD_APACHE, Server, server_kind
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]
BEGINS = ("CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP")


@pytest.fixture
def pulls(release: str) -> None:
    """Pull consumers of 5.x send LITE_PULL_MESSAGE (361)."""
    if server_kind() == OLD_APACHE and release != OLD_RELEASE:
        pytest.skip("4.9.7 has no LITE_PULL_MESSAGE")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_it_accepts_every_way_of_sending(peer: Start, mode: str) -> None:
    producer = peer("produce", topic=f"Way-{mode}", count=400, mode=mode, threads=4, size=200)
    assert producer.finish() == 0
    assert not producer.failures()
    consumer = peer("consume", topic=f"Way-{mode}", group=f"ways-{mode}", expect=400, seconds=90)
    assert consumer.finish() == 0
    assert Counter(message.key for message in consumer.consumed) == dict.fromkeys(expected(400), 1)


def test_each_broadcasting_consumer_gets_everything_once(peer: Start, broker: Server) -> None:
    create_topic(broker, "News")
    # A group's offsets are in a file of the client's: another run of the same client goes on behind them.
    group = f"news-{time.time_ns()}"
    asked = {"topic": "News", "group": group, "model": "BROADCASTING", "seconds": 240}
    members = [peer("consume", **asked, instance=name) for name in ("first", "second")]
    for member in members:
        member.wait_for(has_started, "start of a consumer")
    assert peer("produce", topic="News", count=100).finish() == 0
    for member in members:
        member.wait_for(lambda p: len(keys(p)) >= 100, "100 messages")
    for member in members:
        member.stop()
        assert Counter(message.key for message in member.consumed) == dict.fromkeys(expected(100), 1)
    assert committed(broker, "News", group) == 0, "its offsets are the clients' own"


@pytest.mark.parametrize("begin", BEGINS)
def test_a_new_group_begins_where_it_says(peer: Start, broker: Server, begin: str) -> None:
    """In a topic whose first message the broker still has in memory, at its start whatever the client says."""
    topic, group = f"Begun-{begin}", f"begun-{begin}"
    create_topic(broker, topic)
    assert peer("produce", topic=topic, count=40).finish() == 0
    since = time.strftime("%Y%m%d%H%M%S", time.localtime(time.time() + 3_600))
    consumer = peer("consume", topic=topic, group=group, **{"from": begin}, since=since, seconds=240)
    consumer.wait_for(lambda p: keys(p) == expected(40), "all messages")
    consumer.stop()
    assert len(consumer.consumed) == 40


@pytest.mark.usefixtures("pulls")
def test_a_pull_consumer_assigns_commits_and_seeks(peer: Start, broker: Server) -> None:
    create_topic(broker, "Pulled", queues=2)
    assert peer("produce", topic="Pulled", count=100).finish() == 0
    asked = {
        "topic": "Pulled",
        "group": "pullers",
        "assign": "true",
        "expect": 100,
        "seek": 10,
        "seconds": 60,
    }
    puller = peer("pull", **asked, again=20)
    assert puller.finish() == 0, puller.lines[-3:]
    assert Counter(message.key for message in puller.consumed) == dict.fromkeys(expected(100), 1)
    commits = {line[1]: int(line[2]) for line in puller.lines if line[0] == "COMMITTED"}
    assert commits.keys() == {"0", "1"} and sum(commits.values()) == 100
    assert committed(broker, "Pulled", "pullers") == 100
    again = defaultdict(list)
    for line in puller.lines:
        if line[0] == "AGAIN":
            again[line[1]].append(int(line[2]))
    assert again and all(offsets[0] == 10 for offsets in again.values())


@pytest.mark.usefixtures("pulls")
def test_pull_consumers_of_a_group_share_the_queues(peer: Start, broker: Server) -> None:
    create_topic(broker, "Halved")
    asked = {"topic": "Halved", "group": "halves", "filter": "a", "seconds": 60}
    pullers = [peer("pull", **asked, instance=name) for name in ("one", "two")]
    for puller in pullers:
        puller.wait_for(has_started, "start of a consumer")
    # Four of a tag, then four of the other: both are in every queue.
    assert peer("produce", topic="Halved", count=200, tags="a,a,a,a,b,b,b,b").finish() == 0
    pullers[0].wait_for(lambda _: len(keys(*pullers)) >= 100, "100 messages")
    for puller in pullers:
        puller.stop()
    assert keys(*pullers) == {f"k{n}" for n in range(200) if n % 8 < 4}
    assert committed(broker, "Halved", "halves") >= 100
