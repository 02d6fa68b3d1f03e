"""What history keeps of rounds against a real brokerd: what the rows say, and what was not read said so."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from console.lag import services
from console.lag.history.log import HistoryLog, file_location, wal_folder
from console.lag.models import BrokerRow, GroupMembers, HistoryFile, QueueSheet, TopicQueueSheet
from spark.lag.codes import ABSENT, STATUS_OF, SampleFlag
from spark.lag.history import chunk, wal
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.console.lag.conftest import CollectedCluster
from tests.support import sample_queues
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("history in files; rows are written as in test_edge_cases"),
]
DAY_MS = 24 * 3_600_000
QUEUE_0, QUEUE_1 = HeadKey("orders", "broker-a", 0), HeadKey("orders", "broker-a", 1)
BILLING_0, BILLING_1 = CommitKey("billing", *QUEUE_0), CommitKey("billing", *QUEUE_1)


class Said(NamedTuple):
    """What a round says of a group's queue."""

    status: str
    committed: int
    time_lag_ms: int
    flags: int = 0


@pytest.fixture
def orders(collected: CollectedCluster) -> CollectedCluster:
    """Topic orders: 10 messages in queue 0, 4 in queue 1; billing committed 7 and 4."""
    collected.make_topic("orders")
    collected.make_group("billing")
    collected.send("orders", 10, 0)
    collected.send("orders", 4, 1)
    collected.commit("billing", "orders", 7, 0)
    collected.commit("billing", "orders", 4, 1)
    return collected


def logged() -> list[Snapshot]:
    """Return every round of the log, as a reader without anything in memory finds it."""
    paths = sorted(wal_folder("local").glob("*.wal"))
    return [one for path in paths for one in wal.read_segment(path.read_bytes()).snapshots]


def word(code: int) -> str:
    return "ABSENT" if code == ABSENT else STATUS_OF[code].value


def commits(one: Snapshot) -> dict[CommitKey, Said]:
    columns = (one.status.tolist(), one.committed.tolist(), one.time_lag_ms.tolist(), one.flags.tolist())
    said = [Said(word(status), *rest) for status, *rest in zip(*columns, strict=True)]
    return dict(zip(one.commit_keys, said, strict=True))


def heads(one: Snapshot) -> dict[HeadKey, tuple[str, int, int]]:
    columns = zip(one.head_status.tolist(), one.min_offset.tolist(), one.max_offset.tolist(), strict=True)
    said = [(word(status), low, high) for status, low, high in columns]
    return {key: own for key, own in zip(one.head_keys, said, strict=True) if key.topic == "orders"}


def test_the_log_says_what_the_rows_say(orders: CollectedCluster) -> None:
    GroupMembers.objects.create(cluster="local", group="billing", clients=1, read_at_ms=orders.now_ms)
    orders.collect()
    orders.send("orders", 5, 0)
    orders.collect()
    orders.collect(step_ms=5_900)
    rows = {row.queue_id: row for row in sample_queues.find(group="billing", topic="orders")}
    said = commits(logged()[-1])
    assert said[BILLING_1] == ("OK", 4, 0, 0)
    assert (said[BILLING_0].status, said[BILLING_0].committed) == (rows[0].status, 7)
    lag_ms = rows[0].time_lag_ms
    assert lag_ms is not None and 0 <= said[BILLING_0].time_lag_ms - lag_ms < 100
    assert bool(said[BILLING_0].flags & SampleFlag.TIME_LAG_BOUND) == rows[0].time_lag_lower_bound
    assert heads(logged()[-1]) == {QUEUE_0: ("OK", 0, 15), QUEUE_1: ("OK", 0, 4)}


def test_a_silent_broker_is_written_as_unknown_in_every_round(orders: CollectedCluster) -> None:
    orders.collect()
    known = len(logged()[-1].commit_keys), len(logged()[-1].head_keys)
    orders.broker.stop()
    for _ in range(3):
        orders.collect()
    for one in logged()[1:]:
        assert commits(one)[BILLING_0] == ("UNKNOWN", 7, -1, 0)
        assert commits(one)[BILLING_1] == ("UNKNOWN", 4, -1, 0)
        assert heads(one) == {QUEUE_0: ("UNKNOWN", 0, 10), QUEUE_1: ("UNKNOWN", 0, 4)}
        assert (len(one.commit_keys), len(one.head_keys)) == known
    orders.broker.start()
    orders.collect_until_answered(1)
    assert commits(logged()[-1])[BILLING_0].status != "UNKNOWN"
    assert heads(logged()[-1])[QUEUE_0] == ("OK", 0, 10)


def test_the_silent_broker_of_two_is_unknown_beside_the_other(
    orders: CollectedCluster, tmp_path: Path
) -> None:
    second = BrokerProcess(
        tmp_path / "second", brokerName="broker-b", namesrvAddr=orders.broker.namesrv
    ).start()
    orders.make_topic("orders", 1, addr=second.address)
    orders.make_group("billing", addr=second.address)
    orders.commit("billing", "orders", 0, addr=second.address)
    assert orders.collect().brokers_answered == 2
    second.stop()
    orders.collect()
    said = commits(logged()[-1])
    assert said[CommitKey("billing", "orders", "broker-b", 0)] == ("UNKNOWN", 0, -1, 0)
    assert said[BILLING_1].status == "OK"


@pytest.mark.parametrize("lost", ["nothing", "memory", "rows", "log"])
def test_series_are_known_after_a_restart_into_silence(orders: CollectedCluster, lost: str) -> None:
    orders.collect()
    orders.broker.stop()
    if lost != "nothing":
        services.collectors.clear()
    if lost == "rows":
        QueueSheet.objects.all().delete()
        TopicQueueSheet.objects.all().delete()
    if lost == "log":
        for path in wal_folder("local").glob("*.wal"):
            path.unlink()
    for _ in range(2):
        orders.collect()
    for one in logged()[-2:]:
        assert commits(one)[BILLING_0] == ("UNKNOWN", 7, -1, 0)
        assert heads(one) == {QUEUE_0: ("UNKNOWN", 0, 10), QUEUE_1: ("UNKNOWN", 0, 4)}


def test_another_process_goes_on_with_the_series(orders: CollectedCluster) -> None:
    orders.collect()
    first = services.collectors._by_cluster["local"]
    services.collectors._by_cluster.clear()
    orders.broker.stop()
    orders.collect()
    services.collectors._by_cluster["local"] = first
    orders.collect()
    assert [commits(one)[BILLING_0].status == "UNKNOWN" for one in logged()] == [False, True, True]


def test_a_long_time_later_the_log_still_says_which_series_there_were(orders: CollectedCluster) -> None:
    orders.collect()
    orders.broker.stop()
    services.collectors.clear()
    orders.collect(step_ms=5 * 3_600_000)
    assert commits(logged()[-1])[BILLING_0] == ("UNKNOWN", 7, -1, 0)


def test_a_group_that_is_gone_ends_with_one_tombstone(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_subscription_group(orders.broker.address, "billing", clean_offset=True)
    for _ in range(5):
        orders.collect()
    said = [commits(one).get(BILLING_0) for one in logged()]
    assert [one and one.status for one in said[1:]] == ["UNKNOWN", "UNKNOWN", "ABSENT", None, None]
    assert heads(logged()[-1])[QUEUE_0] == ("OK", 0, 10)


def test_a_topic_that_is_gone_takes_its_series_along(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_topic(orders.broker.address, "orders")
    for _ in range(12):
        orders.collect()
    of_queue = [heads(one).get(QUEUE_0, ("",))[0] for one in logged()]
    of_group = [commits(one)[BILLING_0].status if BILLING_0 in commits(one) else "" for one in logged()]
    for words in (of_queue, of_group):
        assert words.count("ABSENT") == 1
        assert set(words[words.index("ABSENT") + 1 :]) == {""}


def test_a_topic_made_again_is_another_series(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_topic(orders.broker.address, "orders")
    orders.make_topic("orders")
    orders.send("orders", 2, 0)
    orders.commit("billing", "orders", 1, 0)
    orders.collect()
    said, now = commits(logged()[-1]), heads(logged()[-1])
    assert now[QUEUE_0] == ("ABSENT", 0, 10)
    assert now[QUEUE_0._replace(incarnation=1)] == ("OK", 0, 2)
    assert said[BILLING_0].status == "ABSENT"
    assert said[BILLING_0._replace(incarnation=1)].committed == 1
    orders.collect()
    assert QUEUE_0 not in heads(logged()[-1])
    services.collectors.clear()
    orders.collect()
    assert heads(logged()[-1])[QUEUE_0._replace(incarnation=1)] == ("OK", 0, 2)


def test_a_queue_without_a_committed_offset_is_a_series(orders: CollectedCluster) -> None:
    orders.make_group("half")
    orders.commit("half", "orders", 10, 0)
    orders.collect()
    orders.broker.stop()
    orders.collect()
    before, after = (commits(one)[CommitKey("half", *QUEUE_1)] for one in logged())
    assert before == ("NEVER_COMMITTED", -1, -1, 0)
    assert after == ("UNKNOWN", -1, -1, 0)


def test_a_forgotten_broker_takes_its_queues_along(orders: CollectedCluster) -> None:
    orders.collect()
    orders.broker.stop()
    orders.collect()
    services.collectors.clear()
    BrokerRow.objects.all().delete()  # no name server answers, and none lists it
    orders.collect()
    assert commits(logged()[-1])[BILLING_0].status == "UNKNOWN"
    orders.collect(step_ms=DAY_MS + 3_600_000)
    orders.collect()
    assert [commits(one).get(BILLING_0) for one in logged()[-2:]] == [("ABSENT", 7, -1, 0), None]
    assert heads(logged()[-1]) == {}
    assert sample_queues.find(group="billing") == []


def test_it_flags_what_was_set_and_what_is_paused(orders: CollectedCluster) -> None:
    orders.collect()
    orders.commit("billing", "orders", 2, 0)
    orders.collect()
    orders.collect()
    flags = [commits(one)[BILLING_0].flags for one in logged()]
    moved, pending = SampleFlag.MOVED, SampleFlag.RESET_PENDING
    assert [one & (moved | pending) for one in flags] == [0, moved | pending, pending]


def test_pop_members_that_hold_messages_make_bounds_of_lags(orders: CollectedCluster) -> None:
    GroupMembers.objects.create(
        cluster="local", group="billing", clients=1, consume_mode="POP", read_at_ms=orders.now_ms
    )
    orders.collect()
    assert commits(logged()[-1])[BILLING_1].flags == SampleFlag.LAG_BOUND | SampleFlag.TIME_LAG_BOUND


@pytest.mark.parametrize("before_ms", [100_000, 10_000], ids=["within a segment", "where a segment begins"])
def test_a_round_that_found_no_room_leaves_a_hole_and_the_rest_goes_on(
    orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch, before_ms: int
) -> None:
    orders.now_ms -= orders.now_ms % wal.SEGMENT_MS + before_ms
    orders.collect()

    def full(descriptor: int, data: bytes) -> int:
        real_write(descriptor, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    real_write = os.write
    orders.admin.delete_subscription_group(orders.broker.address, "billing", clean_offset=True)
    with monkeypatch.context() as patch:
        patch.setattr("console.lag.history.log.os.write", full)
        for _ in range(5):
            assert orders.collect().error == "history not written: No space left on device"
    assert sample_queues.find(group="billing") == []
    orders.collect()
    orders.collect()
    assert [one.number for one in logged()] == [1, 7, 8]
    assert [commits(one)[BILLING_0].status for one in logged()[1:2]] == ["ABSENT"]
    assert BILLING_0 not in commits(logged()[-1])


@pytest.fixture
def compacted(orders: CollectedCluster) -> Iterator[CollectedCluster]:
    """Three rounds, the second one of a silent broker, as an hour file."""
    orders.now_ms = orders.now_ms - orders.now_ms % 3_600_000 - 2 * 3_600_000
    orders.collect()
    orders.broker.stop()
    orders.collect()
    orders.broker.start()
    orders.collect_until_answered(1)
    services.compact_history(now_ms=orders.now_ms + 3_700_000)
    yield orders


def test_an_hour_file_says_what_the_log_said(compacted: CollectedCluster) -> None:
    (row,) = HistoryFile.objects.filter(kind="chunk_hour", state="live")
    samples = chunk.load_samples([file_location(row.path, row.kind)], row.ts_lo_ms, row.ts_hi_ms)
    place = dict(samples.slices())[SeriesKey(*BILLING_0)]
    rounds = logged()
    assert samples.t_ms[place].tolist() == [one.ts_ms for one in rounds]
    found = zip(
        samples.status[place].tolist(),
        samples.committed[place].tolist(),
        samples.time_lag_ms[place].tolist(),
        samples.flags[place].tolist(),
        strict=True,
    )
    assert [Said(word(status), *rest) for status, *rest in found] == [
        commits(one)[BILLING_0] for one in rounds
    ]
    assert "UNKNOWN" in {commits(one)[BILLING_0].status for one in rounds}


def test_the_log_gives_its_last_round_however_old_it_is(orders: CollectedCluster) -> None:
    orders.collect()
    log = HistoryLog("local")
    log.catch_up(orders.now_ms + DAY_MS)
    assert commits(log.last) == commits(logged()[-1])
