from __future__ import annotations

from pathlib import Path

from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.remoting.message.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, SysFlag
from brokerd.timer.timer_message import Parking
from brokerd.transaction.half_store import HalfStore
from tests.brokerd.store.stores import BORN_HOST, STORE_HOST, open_store, put
from tests.brokerd.transaction.world import COMMIT, TOPIC, TransactionWorld

PARKING = Parking(LiveConfig(BrokerConfig(), NamesrvConfig()), 18, 1_000)


def test_a_committed_message_is_as_javas(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send("k1")
    assert world.end(place, COMMIT) == 0
    (message,), (half,) = world.records(TOPIC), world.records(HALF_TOPIC)
    assert (message.sys_flag, message.prepared_transaction_offset) == (
        SysFlag.TRANSACTION_COMMIT, place.commit_log_offset
    )  # fmt: skip
    assert (half.sys_flag, half.prepared_transaction_offset) == (0, 0)
    assert message.properties == half.properties
    assert (message.body, message.flag, message.tags) == (b"body of k1", 7, "red")
    assert (message.born_timestamp_ms, message.born_host) == (half.born_timestamp_ms, BORN_HOST)
    (op,) = world.records(OP_HALF_TOPIC)
    assert (op.body, op.tags, op.born_host) == (b"0", "d", STORE_HOST)
    world.close()


def test_a_delay_counts_from_the_commit_on(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send(DELAY="2")
    world.wait(3_000)
    assert world.end(place, COMMIT) == 0
    assert world.visible() == []
    (offset, size, due_ms), *_ = world.store.units(SCHEDULE_TOPIC, 1, 0, 1)
    assert due_ms == world.now_ms + 5_000
    world.close()


def test_a_time_waits_from_the_commit_on(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send(TIMER_DELAY_SEC="5")
    world.wait(3_000)
    assert world.end(place, COMMIT) == 0
    assert world.visible() == []
    (waiting,) = world.records(TIMER_TOPIC)
    assert int(waiting.properties["TIMER_OUT_MS"]) == (world.now_ms + 4_999) // 1000 * 1000
    assert (waiting.properties["REAL_TOPIC"], waiting.sys_flag) == (TOPIC, SysFlag.TRANSACTION_COMMIT)
    world.close()


def test_it_takes_only_half_messages_for_half_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    halves = HalfStore(store, STORE_HOST, PARKING)
    result = put(store, topic="Other")
    assert halves.half_at(result.commit_log_offset) is None
    assert halves.half_at(result.commit_log_offset + 7) is None
    assert halves.half_at(10**9) is None
    assert halves.discarded_at(result.commit_log_offset) is None
    store.close(0)


def test_it_passes_over_what_is_damaged(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    places = [world.send(f"k{i}") for i in range(3)]
    view = world.store.look_message(places[1].commit_log_offset)
    assert view is not None
    world.store.flush()
    mapped = world.store._log.files.find(places[1].commit_log_offset)
    assert mapped is not None
    mapped.map[places[1].commit_log_offset + 90] ^= 0xFF  # in the body
    halves = HalfStore(world.store, STORE_HOST, PARKING)
    assert [half.unique_key for half in halves.halves(0, 3)] == ["k0", "k2"]
    assert halves.half(1) is None
    assert [half.unique_key for half in halves.halves(0, 3, {0})] == ["k2"]
    world.close()
