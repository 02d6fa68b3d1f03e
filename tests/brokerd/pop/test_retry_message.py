"""What goes to a retry topic: the message as it was, with one more attempt."""

from __future__ import annotations

from pathlib import Path

from brokerd.pop.checkpoint import GroupQueue
from brokerd.pop.revive_state import GRACE_MS
from tests.brokerd.pop.world import INVISIBLE_MS, RETRY, PopWorld


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
