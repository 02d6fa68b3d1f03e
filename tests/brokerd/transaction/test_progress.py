from __future__ import annotations

from pathlib import Path

from brokerd.remoting.message.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from tests.brokerd.transaction.world import COMMIT, TransactionWorld


def saved(world: TransactionWorld) -> tuple[int | None, int | None]:
    committed = world.offsets.committed
    return committed(TRANSACTION_GROUP, HALF_TOPIC, 0), committed(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)


def test_it_stops_at_the_first_message_that_waits(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    assert saved(world) == (None, None), "a broker without transactions writes nothing"
    first, second, third = (world.send(f"k{i}") for i in range(3))
    world.end(first, COMMIT)
    world.end(third, COMMIT)
    world.wait(3_000)
    assert saved(world) == (1, 0)
    world.end(second, COMMIT)
    world.wait(3_000)
    assert saved(world) == (3, 3)
    world.close()


def test_it_is_saved_when_the_log_is_on_the_disk(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    world.end(world.send(), COMMIT)
    for _ in range(5):
        world.now_ms += 1_000
        world.service.tick(world.now_ms, world.now_ms)
        world.store.dispatch_pending()
    assert saved(world) == (None, None)
    world.store.flush()
    world.wait(2_000)
    assert saved(world) == (1, 1)
    world.close()


def test_a_stop_saves_all_of_it(tmp_path: Path) -> None:
    world = TransactionWorld(tmp_path)
    world.end(world.send("k0"), COMMIT)
    place = world.send("k1")
    world.restart()
    assert saved(world) == (1, 0), "its op message may be about a later one, for all that a stop has read"
    assert len(world.service.waiting) == 1
    world.end(place, COMMIT)
    world.restart()
    assert saved(world) == (2, 2)
    world.close()


def test_op_messages_before_a_waiting_one_are_kept(tmp_path: Path) -> None:
    """They are about half messages behind it, which a start reads again."""
    world = TransactionWorld(tmp_path)
    world.send("k0", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    for i in range(1, 5):
        world.end(world.send(f"k{i}"), COMMIT)
    world.wait(60_000)
    assert saved(world) == (None, None), "nothing is done with from the start on"
    world.restart()
    assert list(world.service.waiting._first_offsets) == [0]
    world.close()
