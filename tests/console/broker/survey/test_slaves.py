"""Slaves of a broker: what the survey says of them, and what the console shows while one serves for its master."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from console.broker import findings, selectors
from console.broker.models import BrokerSurvey
from console.broker.survey.connections import Replica, as_kept
from console.broker.survey.slaves import Link, slaves
from console.brokers.mqadmin import MessageQueue, MQBrokerError, SubscriptionGroupConfig
from console.group.queue_history.readings import queue_history
from console.lag.models import BrokerRow, GroupRow, LagEvent
from console.lag.past import history_reads
from console.text import Text
from consumers import Message
from spark.lag.folds.rounds import rounds_of
from spark.lag.grid import grid_of
from tests.console.broker.conftest import NAME, Pair
from tests.console.operation.live_cluster import wait_for
from tests.support.broker_process import BrokerProcess

END = "commitLogMaxOffset"


def surveyed(broker_id: int, addr: str, end: int | None, **values: object) -> BrokerSurvey:
    runtime = {} if end is None else {END: str(end), "brokerVersionDesc": "V5_3_3"}
    return BrokerSurvey(broker_name="b", broker_id=broker_id, addr=addr, runtime=runtime, **values)


def connected(*found: tuple[str, int, bool]) -> object:
    return as_kept(
        [Replica(addr=addr, behind_bytes=behind, in_sync=good, bytes_per_s=7) for addr, behind, good in found]
    )


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([("/10.0.0.2:40001", 0, True)], (Link.IN_SYNC, 0, 7)),
        ([("10.0.0.2:40001", 300, False)], (Link.BEHIND, 300, 7)),
        ([("10.0.0.3:40001", 0, True)], (Link.APART, 100, None)),  # of another host
        ([], (Link.APART, 100, None)),
        (None, (Link.UNKNOWN, 100, None)),
    ],
)
def test_a_slave_is_the_connection_of_its_host(
    replicas: list[tuple[str, int, bool]] | None, expected: tuple[Link, int, int | None]
) -> None:
    kept = None if replicas is None else connected(*replicas)
    master = surveyed(0, "10.0.0.1:10911", 1_000, replicas=kept, replicas_reason=Text("refused"))
    (one,) = slaves(master, [surveyed(1, "10.0.0.2:10911", 900)])
    assert (one.link, one.behind_bytes, one.bytes_per_s) == expected
    assert one.reason == ("refused" if replicas is None else "")


def test_slaves_of_one_host_are_measured_by_their_own_logs() -> None:
    both = [surveyed(1, "10.0.0.2:10911", 1_000), surveyed(2, "10.0.0.2:10921", 400)]
    kept = connected(("10.0.0.2:40001", 0, True), ("10.0.0.2:40002", 600, False))
    found = slaves(surveyed(0, "10.0.0.1:10911", 1_000, replicas=kept), both)
    assert [(one.broker_id, one.link, one.behind_bytes) for one in found] == [
        (1, Link.UNKNOWN, 0),
        (2, Link.UNKNOWN, 600),
    ]


def test_a_silent_slave_has_no_distance() -> None:
    master = surveyed(0, "10.0.0.1:10911", 1_000, replicas=connected())
    (one,) = slaves(master, [surveyed(1, "10.0.0.2:10911", 900, runtime_reason=Text("no answer in time"))])
    assert (one.link, one.behind_bytes, one.reason) == (Link.SILENT, None, "no answer in time")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, None),
        ({"slaveReadEnable": "false"}, False),
        ({"slaveReadEnable": "true"}, True),
        ({"slaveReadEnable": "false", "namesrvListenPort": "9876"}, True),  # brokerd
    ],
)
def test_reads_without_the_master_depend_on_its_configuration(
    config: dict[str, str] | None, expected: bool | None
) -> None:
    (one,) = slaves(None, [surveyed(1, "10.0.0.2:10911", 900, config=config)])
    assert one.serves_reads is expected


@pytest.fixture
def slave(pair: Pair, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A slave of broker-b, in the routes."""
    process = BrokerProcess(
        tmp_path / "slave", brokerName="broker-b", namesrvAddr=pair.a.namesrv, brokerRole="SLAVE", brokerId=1
    ).start()
    wait_for(lambda: registered(pair) == [0, 1], "the slave in the routes", within_s=60)
    yield process
    process.stop()


def copied(pair: Pair, slave: BrokerProcess) -> tuple[int, int | None]:
    """The end of a queue and a committed offset, as the slave has them."""
    try:
        table = pair.admin.topic_stats(slave.address, "orders").offset_table
    except MQBrokerError:
        return 0, None
    end = max((each.max_offset for queue, each in table.items() if queue.queue_id == 0), default=0)
    offsets = pair.admin.all_consumer_offsets(slave.address).offset_table
    return end, offsets.get(("orders", "readers"), {}).get(0)


def collected_id(pair: Pair) -> int | None:
    """The id of what a round read under the name of broker-b, None where nothing answered."""
    pair.collect()
    row = BrokerRow.objects.get(cluster=NAME, broker_name="broker-b")
    return row.broker_id if row.answered else None


def began_ms(pair: Pair) -> int:
    """Before the first round: each hour since 1970 would cost a look for its file."""
    return pair.now_ms - 3_600_000


def committed_of(pair: Pair) -> list[int | None]:
    """What the page of the queue's past lists; from another machine nothing moved."""
    queue = MessageQueue("orders", "broker-b", 0)
    rows = queue_history(NAME, "readers", queue, began_ms(pair), pair.now_ms + 1, 5_000, pair.now_ms + 1)
    assert {row.moved for row in rows} <= {0, None}
    return [row.committed_offset for row in rows]


def registered(pair: Pair) -> list[int]:
    return sorted(pair.admin.cluster_info().broker_addr_table["broker-b"].broker_addrs)


def view_of(name: str) -> selectors.BrokerView:
    view = selectors.broker(NAME, name)
    assert view is not None
    return view


def test_a_slave_is_read_while_its_master_is_gone(pair: Pair, slave: BrokerProcess, client: Client) -> None:
    pair.create_topic("orders")
    pair.admin.send_many(pair.b.address, [(Message("orders", b"m", {}), 0) for _ in range(10)])
    for addr in pair.addrs.values():
        pair.admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name="readers"))
        pair.admin.update_consumer_offset(addr, "readers", "orders", 0, 0)
    pair.admin.update_consumer_offset(pair.b.address, "readers", "orders", 0, 4)
    wait_for(lambda: copied(pair, slave) == (10, 4), "the copy", within_s=60)
    # A broker that is killed forgets what was committed in the last seconds.
    saved = pair.b.data / "config" / "consumerOffset.json"
    wait_for(lambda: saved.exists() and "orders@readers" in saved.read_text(), "saved offsets", within_s=60)
    pair.collect()
    pair.survey()
    view = view_of("broker-b")
    assert (view.role, view.has_master, view.state) == ("master, 1 slave", True, "serving")
    (one,) = view.slaves
    assert (one.broker_id, one.addr, one.link, one.behind_bytes, one.serves_reads) == (
        1,
        slave.address,
        Link.IN_SYNC,
        0,
        True,
    )
    client.force_login(pair.actor)
    assert slave.address in client.get(f"/c/{NAME}/brokers/broker-b").content.decode()

    pair.b.kill()
    # A slave has the committed offsets of its master's last seconds not yet.
    pair.admin.update_consumer_offset(slave.address, "readers", "orders", 0, 3)
    pair.collect()
    group = GroupRow.objects.get(cluster=NAME, group="readers")
    assert (group.lag, group.partial) == (0, True)
    wait_for(lambda: registered(pair) == [1], "the end of its registration", within_s=60)
    wait_for(lambda: collected_id(pair) == 1, "a round that reads the slave", within_s=60, every_s=0.2)
    pair.survey()
    group = GroupRow.objects.get(cluster=NAME, group="readers")
    assert (group.lag, group.partial, group.lag_lower_bound) == (7, False, False)
    assert group.status != "REWOUND"
    view = view_of("broker-b")
    assert (view.role, view.has_master, view.state) == ("slave 1", False, "without master")
    (found,) = findings.findings(view)
    assert (found.status, found.title) == ("STALLED", "broker-b has no master")
    assert slave.address in found.text and "Consumers read from it." in found.text
    for page in ("", "groups", "groups/readers", "brokers", "brokers/broker-b?tab=config", "topics"):
        text = client.get(f"/c/{NAME}/{page}").content.decode()
        assert "broker-b has had no master since" in text, page
    plan = pair.plan("offset_change", "readers", {"target": "latest"})
    assert "broker-b has no master now and holds 2 of" in plan.blocked

    pair.b.start()
    wait_for(lambda: registered(pair) == [0, 1], "its master in the routes", within_s=60)
    wait_for(lambda: collected_id(pair) == 0, "a round that reads it", within_s=60, every_s=0.2)
    group = GroupRow.objects.get(cluster=NAME, group="readers")
    assert (group.lag, group.partial) == (6, False)
    assert not pair.plan("offset_change", "readers", {"target": "latest"}).blocked
    assert not LagEvent.objects.filter(kind__in=("REWIND", "HEAD_REGRESSION", "RECREATED")).exists()
    past = rounds_of(grid_of(history_reads.load(NAME, "readers", began_ms(pair), pair.now_ms + 1), 5_000))
    assert (past.rewound.any(), past.moved.any(), past.consumed.sum()) == (False, False, 0)
    assert {3, 4} <= set(committed_of(pair))
