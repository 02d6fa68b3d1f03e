"""What of a stored message the timer reads, and messages that it cannot keep."""

from __future__ import annotations

from pathlib import Path

from brokerd.remoting.message.names import TIMER_TOPIC
from tests.brokerd.store.stores import NOW_MS, put
from tests.brokerd.timer.world import TimerWorld


def test_messages_it_cannot_keep_are_passed_over(tmp_path: Path) -> None:
    """Java's timer stops for ever at the first."""
    world = TimerWorld(tmp_path)
    for properties in (
        b"REAL_TOPIC\x01Later\x02REAL_QID\x010\x02",
        b"TIMER_OUT_MS\x01soon\x02REAL_TOPIC\x01Later\x02",
        b"TIMER_OUT_MS\x011\x02",
        b"TIMER_OUT_MS\x011\x02REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02",
        b"TIMER_OUT_MS\x011\x02REAL_TOPIC\x01Later\x02REAL_QID\x01-4\x02",
    ):
        put(world.store, topic=TIMER_TOPIC, properties=properties)
    world.store.dispatch_pending()
    world.send_in(1_000, "k")
    world.wait(3_000)
    assert world.delivered() == ["k"]
    assert (world.timer.queue_offset, world.waiting()) == (6, 0)
    world.stop()


def test_a_copy_too_long_for_its_new_properties_goes_without(tmp_path: Path) -> None:
    world = TimerWorld(tmp_path)
    world.send("k", TIMER_DELIVER_MS=str(NOW_MS + 1_000), long="x" * 32_620)
    world.wait(3_000)
    (message,) = world.records()
    assert "TIMER_DEQUEUE_MS" not in message.properties
    assert len(message.properties["long"]) == 32_620
    world.stop()
