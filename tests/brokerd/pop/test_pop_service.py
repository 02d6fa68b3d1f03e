"""The table of states in docs/reference/pop.md is what the broker does, and every state survives a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokerd.pop.checkpoint import Ack, Checkpoint
from brokerd.pop.revive_log import ReviveLog
from brokerd.pop.revive_state import GRACE_MS, ORPHAN_MS
from brokerd.remoting.message.names import REVIVE_GROUP
from brokerd.store.errors import ServiceNotAvailable
from tests.brokerd.pop.world import GROUP, INVISIBLE_MS, QUEUE, RETRY, REVIVE_QUEUE, TOPIC, PopWorld
from tests.brokerd.store.stores import STORE_HOST

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "pop.md"
DUE_MS = INVISIBLE_MS + GRACE_MS


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path)
    world.send(b"a", b"b", b"c")
    yield world
    world.close()


def rows() -> Iterator[tuple[str, str, str]]:
    """(state, event, next state) of the document's table."""
    for line in DOCUMENT.read_text().split("## What survives")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] not in ("state", "---"):
            yield cells[0], cells[1], cells[2]


def bring_into(world: PopWorld, state: str) -> Checkpoint:
    checkpoint = world.pop(0, 1)
    if state == "partly acknowledged":
        world.ack(checkpoint, 0)
    elif state == "acknowledged":
        world.ack(checkpoint, 0, 1)
    elif state == "revived":
        world.wait(DUE_MS)
    return checkpoint


def state_of(world: PopWorld) -> str:
    bodies, in_flight = world.retried_bodies, world.pops.in_flight[QUEUE]
    assert world.pops.waiting_count == (in_flight > 0)
    if in_flight:
        return "popped" if in_flight == 2 else "partly acknowledged"
    return {0: "acknowledged", 1: "rest revived", 2: "revived"}[len(bodies)]


EVENTS: dict[str, Callable[[PopWorld, Checkpoint], None]] = {
    "ack of some": lambda world, checkpoint: world.ack(checkpoint, 0),
    "ack of all": lambda world, checkpoint: world.ack(checkpoint, 0, 1),
    "time over": lambda world, _: world.wait(DUE_MS),
    "topic deleted": lambda world, _: world.pops.drop(topic=TOPIC),
}


@pytest.mark.parametrize(("state", "event", "following"), list(rows()), ids="-".join)
@pytest.mark.parametrize("end", ["goes on", "is killed", "is killed before and after"])
def test_states_follow_the_document_over_kills(
    world: PopWorld, state: str, event: str, following: str, end: str
) -> None:
    checkpoint = bring_into(world, state)
    assert state_of(world) == state
    if end == "is killed before and after":
        world.kill()
        assert state_of(world) == state
    EVENTS[event](world, checkpoint)
    assert state_of(world) == following
    if end != "goes on" and event != "topic deleted":
        world.kill()
        assert state_of(world) == following


def test_a_revived_message_is_javas(world: PopWorld) -> None:
    checkpoint = world.pop(1)
    world.wait(DUE_MS)
    (record,) = world.retried()
    assert (record.topic, record.queue_id, record.reconsume_times) == (RETRY, 0, 1)
    assert record.properties["1ST_POP_TIME"] == str(checkpoint.key.pop_time_ms)
    assert (record.tags, record.properties["UNIQ_KEY"], record.born_host) == ("red", "b", STORE_HOST)
    assert world.offsets.committed(GROUP, RETRY, 0) == 0
    config = world.topics.get(RETRY)
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)


def test_v2_names_the_retry_topic_unmistakably(tmp_path: Path) -> None:
    world = PopWorld(tmp_path)
    object.__setattr__(world.config.broker, "enable_retry_topic_v2", True)
    world.send(b"a")
    world.pop(0)
    world.wait(DUE_MS)
    assert world.store.max_offset("%RETRY%g+T", 0) == 1
    world.close()


def test_a_group_that_was_deleted_gets_nothing_again(world: PopWorld) -> None:
    world.pop(0)
    world.groups.delete(GROUP, world.now_ms)
    world.wait(DUE_MS)
    assert (world.retried_bodies, world.pops.waiting_count) == ([], 0)


def test_offsets_are_handed_over_when_the_log_is_flushed(world: PopWorld) -> None:
    world.pop(0, 1)
    world.wait()
    assert world.offsets.committed(GROUP, TOPIC, 0) is None
    world.store.flush()
    world.wait(1_000)
    assert world.offsets.committed(GROUP, TOPIC, 0) == 2


def test_a_pop_of_few_bytes_does_not_wait_for_others_to_fill_the_pages(world: PopWorld) -> None:
    """Its group's offset would stay for ten seconds: the lag, and where a member starts that pulls again."""
    world.store.flush_log_if_due(world.now_ms)
    world.send(b"a")
    world.pop(0)
    committed = []
    for _ in range(4):
        world.wait(1_000)
        world.store.flush_log_if_due(world.now_ms)
        committed.append(world.offsets.committed(GROUP, TOPIC, 0))
    assert committed[-1] == 1, committed


def test_the_revive_offset_passes_what_is_done_with(world: PopWorld) -> None:
    first, second = world.pop(0), world.pop(1)
    topic = ReviveLog(world.store, "DefaultCluster", STORE_HOST).topic
    assert world.store.max_offset(topic, REVIVE_QUEUE) == 2
    world.ack(second, 1)
    world.restart()
    assert world.offsets.committed(REVIVE_GROUP, topic, REVIVE_QUEUE) is None
    world.ack(first, 0)
    world.restart()
    assert world.offsets.committed(REVIVE_GROUP, topic, REVIVE_QUEUE) == 3
    assert world.pops.waiting_count == 0


def test_a_full_disk_delays_a_revival(world: PopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.pop(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "_refusal", "the disk is full")
        with pytest.raises(ServiceNotAvailable):
            world.pop(2)
        world.wait(DUE_MS)
        assert world.retried_bodies == []
    world.wait(30_000)
    assert world.retried_bodies == [b"a", b"b"]


def test_records_that_others_put_are_read(world: PopWorld) -> None:
    """Apache's timer delivers a checkpoint after our acknowledgement of it, and records that are damaged."""
    log = ReviveLog(world.store, "DefaultCluster", STORE_HOST)
    checkpoint = world.pop(0, 1)
    world.ack(checkpoint, 0, 1)
    other = Checkpoint(checkpoint.key._replace(pop_time_ms=world.now_ms + 1), INVISIBLE_MS, (0, 1))
    world.pops.acknowledge(REVIVE_QUEUE, Ack(other.key, (0,)), other.revive_ms, world.now_ms)
    log.put_checkpoint(REVIVE_QUEUE, other, world.now_ms)
    log.put_ack(REVIVE_QUEUE, Ack(other.key._replace(topic="Unknown"), (1,)), 0, world.now_ms)
    world.store.dispatch_pending()
    world.wait()
    assert world.pops.in_flight[QUEUE] == 1
    world.kill()
    world.wait()
    assert world.pops.in_flight[QUEUE] == 1
    world.wait(DUE_MS)
    assert world.retried_bodies == [b"b"]
    world.wait(ORPHAN_MS + DUE_MS)
    assert sum(state.orphan_count for state in world.pops._states) == 0


def test_a_reset_counts_more_than_what_was_popped(world: PopWorld) -> None:
    world.pop(0, 1)
    assert world.pops.progress.next_offset(QUEUE) is None  # it has not begun
    world.offsets.commit(GROUP, TOPIC, 0, 0, world.now_ms)
    assert world.pops.progress.next_offset(QUEUE) == 2
    world.offsets.reset(GROUP, TOPIC, {0: 1}, world.now_ms)
    world.store.flush()
    world.wait(3_000)
    assert world.offsets.committed(GROUP, TOPIC, 0) == 1
    assert world.pops.take_reset(QUEUE, world.now_ms) == 1
    assert world.pops.progress.next_offset(QUEUE) == 1
    assert world.pops.take_reset(QUEUE, world.now_ms) is None


def test_messages_that_expired_are_passed_over(world: PopWorld) -> None:
    world.pop(0, 7)
    world.wait(DUE_MS)
    assert world.retried_bodies == [b"a"]
    assert world.pops.waiting_count == 0
