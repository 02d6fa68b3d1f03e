"""What goes to a retry topic: the message as it was, with one more attempt."""

from __future__ import annotations

from pathlib import Path

from brokerd.pop.checkpoint import Checkpoint, CheckpointKey, GroupQueue
from brokerd.pop.revive_state import GRACE_MS
from brokerd.remoting.message.record import decode_record
from brokerd.store.light_store import LightMessageStore
from brokerd.store.message_store import MessageStore
from brokerd.tables.topic_config import topic_config
from tests.brokerd.pop.world import GROUP, INVISIBLE_MS, RETRY, REVIVE_QUEUE, PopWorld
from tests.brokerd.store.stores import put, small_config
from tests.brokerd.store.test_light_store import LIGHT, naming


def test_a_message_that_fails_again_stays_in_its_retry_topic(tmp_path: Path) -> None:
    world = PopWorld(tmp_path)
    world.send(b"a")
    first = world.pop(0)
    world.wait(INVISIBLE_MS + GRACE_MS)
    key = first.key._replace(topic=RETRY, pop_time_ms=world.now_ms, start_offset=0)
    again = type(first)(key, INVISIBLE_MS, (0,))
    world.pops.put_checkpoint(1, again, world.now_ms)
    world.store.dispatch_pending()
    assert world.pops.in_flight == {GroupQueue(RETRY, "g", 0): 1}
    world.wait(INVISIBLE_MS + GRACE_MS)
    records = world.retried()
    assert [(record.reconsume_times, record.body) for record in records] == [(1, b"a"), (2, b"a")]
    assert {record.properties["1ST_POP_TIME"] for record in records} == {str(first.key.pop_time_ms)}
    world.close()


class LightWorld(PopWorld):
    def make_store(self) -> MessageStore:
        return LightMessageStore(
            small_config(self.root / "store", mapped_file_size_commit_log=65_536, **LIGHT)
        )


def test_a_message_of_a_light_queue_comes_back_under_its_number_there(tmp_path: Path) -> None:
    """The record is its topic's: of the numbers 0 and 1 in the light queue it has 1 and 2."""
    world = LightWorld(tmp_path)
    put(world.store, b"other", topic="T")
    for body in (b"a", b"b"):
        put(world.store, body, topic="T", properties=naming("l"))
    world.store.dispatch_pending()
    queue, retry = "%LMQ%l", f"%RETRY%{GROUP}_%LMQ%l"
    world.topics.put(topic_config(queue, 1, 6), world.now_ms)
    key = CheckpointKey(queue, GROUP, 0, 0, world.now_ms, "broker-a")
    world.pops.put_checkpoint(REVIVE_QUEUE, Checkpoint(key, INVISIBLE_MS, (0, 1)), world.now_ms)
    world.store.dispatch_pending()
    world.wait(INVISIBLE_MS + GRACE_MS)
    views = [world.store.look_message(*unit[:2]) for unit in world.store.units(retry, 0, 0, 32)]
    records = [decode_record(view) for view in views if view is not None]
    assert [(record.body, record.reconsume_times) for record in records] == [(b"a", 1), (b"b", 1)]
    assert world.store.max_offset(queue, 0) == 2, "it is in its light queue once"
    world.close()
