"""Checks, store swaps with Apache's brokers, and random schedules against a plain model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.remoting.message.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from brokerd.remoting.message.record import decode_record
from brokerd.store.errors import ServiceNotAvailable
from brokerd.store.message_store import MessageStore
from brokerd.timer.timer_message import Parking
from brokerd.transaction import waiting_halves
from brokerd.transaction.half_store import HalfStore
from tests.brokerd.store.stores import NOW_MS, golden_config, put, unpack_golden
from tests.brokerd.transaction.world import (
    CHECK_MAX,
    COMMIT,
    INTERVAL_MS,
    ROLLBACK,
    TOPIC,
    Place,
    TransactionWorld,
    place_of,
)


def test_a_check_shows_the_message_and_the_place_of_its_copy(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    first = world.send("k1", KEYS="order-1")
    (check,) = world.wait()
    assert place_of(check) == world.newest() != first
    assert (check.ext_fields["msgId"], check.ext_fields["transactionId"]) == ("k1", "k1")
    assert (check.ext_fields["topic"], check.ext_fields["bname"]) == (HALF_TOPIC, "broker-a")
    record = decode_record(check.body, check_crc=True)
    assert (record.topic, record.queue_id, record.body, record.keys) == ("Paid", 0, b"body of k1", "order-1")
    assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert record.offset_message_id == check.ext_fields["offsetMsgId"]
    assert check.is_oneway
    assert world.end(place_of(check), COMMIT, from_check=True) == 0
    assert world.visible() == ["k1"]
    world.close()


def test_its_own_immunity_puts_off_the_check_and_then_forbids_other_ends(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    immune, other = world.send("k1", CHECK_IMMUNITY_TIME_IN_SECONDS="100"), world.send("k2")
    assert [check.ext_fields["msgId"] for check in world.wait(90_000)] == ["k2"] * 3
    assert [record.queue_offset for record in world.records(HALF_TOPIC)][:2] == [0, 1]
    assert len(world.records(HALF_TOPIC)) == 5, "the immune one stays where it is"
    world.now_ms += 20_000
    assert world.end(immune, COMMIT) == 604
    checks = [check for check in world.wait() if check.ext_fields["msgId"] == "k1"]
    assert world.end(place_of(checks[0]), ROLLBACK, from_check=True) == 0
    assert world.visible() == []
    assert other
    world.close()


def test_it_checks_many_in_several_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.transaction.transaction_service.CHECKS_A_TICK", 4)
    world = TransactionWorld(tmp_path)
    for i in range(10):
        world.send(f"k{i}")
    world.wait(INTERVAL_MS - 1_000)
    assert [len(world.wait(1_000)) for _ in range(4)] == [4, 4, 2, 0]
    world.close()


def test_it_tries_again_while_the_store_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send("k1")
    world.send("k2")
    put = world.store.put_message

    def full_for_op_messages(topic: str, *arguments: object, **fields: object) -> object:
        if topic == OP_HALF_TOPIC:
            raise ServiceNotAvailable("the disk is full")
        return put(topic, *arguments, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "put_message", full_for_op_messages)
    assert world.end(place, COMMIT) == 0, "the message itself is stored"
    assert world.end(place, COMMIT) == 1, "and is not stored twice"
    assert world.records(OP_HALF_TOPIC) == []
    monkeypatch.undo()
    world.wait(2_000)
    assert [op.body for op in world.records(OP_HALF_TOPIC)] == [b"0"]
    world.kill()
    assert world.visible() == ["k1"]
    assert len(world.service.waiting) == 1
    world.close()


class Killed(BaseException):
    """Stands for the end of the process."""


def killed_before_an_op_message(
    world: TransactionWorld, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
) -> None:
    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(HalfStore, "put_op", die)
    with pytest.raises(Killed):
        act()
    monkeypatch.undo()
    world.kill()


@pytest.mark.parametrize("named", ["its only copy", "its first copy", "its newest copy"])
def test_a_kill_before_the_op_message_commits_once(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TransactionWorld(tmp_path)
    place, other = world.send("k1"), world.send("k2")
    if named != "its only copy":
        world.wait()
        (place,) = [place] if named == "its first copy" else [place_of(world.check_of("k1"))]
    killed_before_an_op_message(world, monkeypatch, lambda: world.end(place, COMMIT))
    assert (world.visible(), len(world.service.waiting)) == (["k1"], 1)
    assert world.end(place, COMMIT) == 1
    world.kill()
    assert [check.ext_fields["msgId"] for check in world.wait()] == ["k2"]
    world.kill()
    assert world.end(other, COMMIT) == 0
    world.kill()
    assert (world.visible(), len(world.service.waiting)) == (["k1", "k2"], 0)
    world.close()


def test_a_kill_before_the_op_message_gives_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = TransactionWorld(tmp_path)
    world.end(world.send("k0"), COMMIT)
    world.send("k1")
    world.wait(CHECK_MAX * INTERVAL_MS)
    killed_before_an_op_message(world, monkeypatch, world.wait)
    assert ([record.message_id for record in world.given_up()], len(world.service.waiting)) == (["k1"], 0)
    world.wait()
    world.kill()
    world.wait()
    assert [record.message_id for record in world.given_up()] == ["k1"]
    world.close()


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("checks", [1, 2])
def test_a_kill_between_a_copy_and_its_op_message_ends_once(
    checks: int, decision: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send("k1")
    world.wait((checks - 1) * INTERVAL_MS)
    killed_before_an_op_message(world, monkeypatch, world.wait)
    assert len(world.service.waiting) == 1
    assert world.end(place, decision) == 0
    world.kill()
    assert len(world.service.waiting) == 0
    assert world.end(place, COMMIT) == 1
    assert world.visible() == (["k1"] if decision == COMMIT else [])
    world.close()


def test_a_message_that_apaches_broker_gave_up_ends_no_other(tmp_path: Path) -> None:
    """It names no half message: 0, where another one may lie."""
    world = TransactionWorld(tmp_path)
    assert world.send("k1").commit_log_offset == 0
    put(world.store, b"another", topic=CHECK_MAX_TIME_TOPIC)
    world.store.dispatch_pending()
    world.kill()
    assert len(world.service.waiting) == 1
    world.close()


def test_a_power_cut_before_the_op_message_commits_once(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    place = world.send("k1")
    world.store.flush()
    assert world.end(place, COMMIT) == 0
    (op,) = world.records(OP_HALF_TOPIC)
    mapped = world.store._log.files.find(op.commit_log_offset)
    assert mapped is not None
    mapped.clear_from(op.commit_log_offset - mapped.start_offset)
    world.kill()
    assert world.visible() == ["k1"]
    assert world.end(place, COMMIT) == 1
    assert [op.body for op in world.records(OP_HALF_TOPIC)] == [b"0"]
    world.close()


def test_an_op_message_has_room_behind_its_message(tmp_path: Path) -> None:
    """On a full disk the one without the other would leave a transaction that is committed and waits."""
    world = TransactionWorld(tmp_path)
    places = [world.send(f"k{i}" + "x" * (i % 7)) for i in range(200)]  # their ends go over several files
    for place in places:
        world.end(place, COMMIT)
    file_size = world.store._log.file_size_bytes
    ends = [record.commit_log_offset + record.store_size_bytes for record in world.records(TOPIC)]
    assert [op.commit_log_offset for op in world.records(OP_HALF_TOPIC)] == ends
    assert len({end // file_size for end in ends}) > 5
    world.close()


def test_one_that_waits_for_long_goes_on_behind_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start reads from the first one that waits: months of others behind it would take minutes."""
    monkeypatch.setattr("brokerd.transaction.waiting_halves.BEHIND_MAX", 20)
    world = TransactionWorld(tmp_path)
    place = world.send("slow", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    read = []
    for number in range(5):
        for i in range(30):
            world.end(world.send(f"k{number}-{i}"), COMMIT)
        assert world.wait() == []
        world.kill()
        read.append(world.store.max_offset(HALF_TOPIC, 0) - world.service._progress.start().half_offset)
    assert max(read) <= 60, read
    assert world.visible()[:1] == ["k0-0"]
    assert len(world.service.waiting) == 1
    assert [check.ext_fields["msgId"] for check in world.wait(3_600_000)] == ["slow"] * CHECK_MAX
    assert world.end(place, COMMIT, from_check=True) == 1, "given up"
    world.close()


def test_a_message_that_expired_in_the_log_is_done_with(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    world.send("k1", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    queue = world.store.table.queues[HALF_TOPIC, 0]
    world.send("k2")
    queue.min_offset = 1
    world.wait(3_600_000 + INTERVAL_MS)
    assert [record.message_id for record in world.given_up()] == ["k2"]
    assert len(world.service.waiting) == 0
    world.close()


@pytest.mark.parametrize("version", ["4.9.7", "4.9.7-unclean", "5.3.3", "5.3.3-unclean"])
def test_it_goes_on_with_transactions_of_apaches_broker(version: str, tmp_path: Path) -> None:
    """Of three one was committed, one rolled back, and one is open (tests/golden/store)."""
    world = TransactionWorld(tmp_path)
    world.close()
    shutil.rmtree(tmp_path / "store")
    world.store = MessageStore(golden_config(unpack_golden(version, tmp_path / "store")))
    world.store.open(NOW_MS)
    parking = Parking(world.config, 18, 1_000)
    world.service.start(world.store, ("127.0.0.1", 10911), parking, world.now_ms, world.now_ms)
    waiting = list(world.service.waiting._first_offsets)
    halves = {record.queue_offset: record for record in world.records(HALF_TOPIC)}
    assert [halves[offset].keys for offset in waiting] == ["tx-pending"]
    pending = next(record for record in halves.values() if record.keys == "tx-pending")
    place = Place(pending.queue_offset, pending.commit_log_offset)
    before = world.store.max_offset("GoldenStore", int(pending.properties["REAL_QID"]))
    assert world.end(place, COMMIT, group="GoldenStoreTx") == 0
    assert world.store.max_offset("GoldenStore", int(pending.properties["REAL_QID"])) == before + 1
    world.store.close(NOW_MS)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.booleans(), st.integers(0, 3)),
        st.tuples(st.sampled_from(["commit", "rollback"]), st.integers(0, 30), st.integers(0, 3)),
        st.tuples(st.sampled_from(["wait", "kill", "restart"]), st.integers(1, 40), st.just(0)),
    ),
    max_size=40,
)


class Model:
    """What a plain reading of RocketMQ's promise says of each transaction."""

    def __init__(self) -> None:
        self.copies: dict[str, list[Place]] = {}
        self.ended: dict[str, str] = {}

    def choose(self, number: int) -> str | None:
        return sorted(self.copies)[number % len(self.copies)] if self.copies else None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 2, waiting_halves.BEHIND_MAX]), STEPS)
def test_random_schedules_end_each_transaction_once(
    behind_max: int, steps: list[tuple[str, object, int]]
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.multiple(waiting_halves, BEHIND_MAX=behind_max, BEHIND_FOR_EACH=1),
    ):
        world, model = TransactionWorld(Path(folder)), Model()
        for step, (kind, argument, copy) in enumerate(steps):
            if kind == "send":
                immunity = {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(copy * 60)} if argument and copy else {}
                model.copies[f"k{step:02d}"] = [world.send(f"k{step:02d}", **immunity)]
            elif kind in ("commit", "rollback"):
                _end(world, model, kind, int(str(argument)), copy)
            elif kind == "wait":
                for check in world.wait(int(str(argument)) * 1_000):
                    model.copies[check.ext_fields["msgId"]].append(place_of(check))
                for record in world.given_up():
                    model.ended.setdefault(record.message_id, "given up")
                    assert int(record.properties["TRANSACTION_CHECK_TIMES"]) == CHECK_MAX
            elif kind == "kill":
                world.kill()
            else:
                world.restart()
            committed = sorted(key for key, how in model.ended.items() if how == "commit")
            assert sorted(world.visible()) == committed, "once each, and none of the others"
            assert len(world.service.waiting) == len(model.copies) - len(model.ended), "none lost"
        world.close()


def _end(world: TransactionWorld, model: Model, kind: str, number: int, copy: int) -> None:
    """By any of its copies, as a late or a repeated request would."""
    key = model.choose(number)
    if key is None:
        return
    place = model.copies[key][copy % len(model.copies[key])]
    code = world.end(place, COMMIT if kind == "commit" else ROLLBACK, from_check=True)
    assert code == (1 if key in model.ended else 0)
    model.ended.setdefault(key, kind)
