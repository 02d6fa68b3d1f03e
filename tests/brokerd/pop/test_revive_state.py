"""What waits for acknowledgements, in random schedules, against a plain twin; and after a replay at every point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from brokerd.pop import revive_state
from brokerd.pop.checkpoint import Ack, Checkpoint, CheckpointKey
from brokerd.pop.revive_state import GRACE_MS, ORPHAN_MS, ReviveState

INVISIBLE_MS = (1_000, 5_000, 60_000)


def key_of(number: int) -> CheckpointKey:
    return CheckpointKey("T", "g", number % 2, number * 10, 1_000 * (number + 1), "b")


def checkpoint_of(number: int, count: int = 3) -> Checkpoint:
    key = key_of(number)
    offsets = tuple(key.start_offset + 2 * position for position in range(count))
    return Checkpoint(key, INVISIBLE_MS[number % 3], offsets)


@dataclass
class PlainTwin:
    """The same by a list of all records, looked through each time."""

    log: list[tuple[str, Checkpoint | Ack, int]] = field(default_factory=list)
    revived: set[CheckpointKey] = field(default_factory=set)

    def unacked(self, key: CheckpointKey) -> list[int]:
        found = [each for kind, each, _ in self.log if kind == "ck" and each.key == key]
        if not found or key in self.revived:
            return []
        assert isinstance(found[-1], Checkpoint)
        acked = {
            offset
            for kind, each, _ in self.log
            if kind == "ack" and each.key == key and isinstance(each, Ack)
            for offset in each.offsets
        }
        return [offset for offset in found[-1].offsets if offset not in acked]

    def due(self, now_ms: int) -> set[CheckpointKey]:
        return {
            each.key
            for kind, each, _ in self.log
            if isinstance(each, Checkpoint)
            and kind == "ck"
            and self.unacked(each.key)
            and each.revive_ms + GRACE_MS <= now_ms
        }


events = st.lists(
    st.one_of(
        st.tuples(st.just("ck"), st.integers(0, 7), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(0, 7), st.integers(0, 4)),
        st.tuples(st.just("time"), st.integers(0, 30_000), st.just(0)),
    ),
    max_size=40,
)


@given(events)
def test_it_agrees_with_its_twin_and_with_a_replay(schedule: list[tuple[str, int, int]]) -> None:
    twin, in_flight = PlainTwin(), Counter()
    state, now_ms = ReviveState(0, in_flight), 0
    records: list[Checkpoint | Ack] = []
    popped: set[int] = set()
    for kind, number, count in schedule:
        if kind == "time":
            now_ms += number
        elif kind == "ck" and number not in popped:
            popped.add(number)
            checkpoint = checkpoint_of(number, count)
            records.append(checkpoint)
            twin.log.append(("ck", checkpoint, now_ms))
            state.apply_checkpoint(checkpoint)
        elif kind == "ack":
            ack = Ack(key_of(number), (key_of(number).start_offset + 2 * count,))
            records.append(ack)
            twin.log.append(("ack", ack, now_ms))
            state.apply_ack(ack, now_ms + ORPHAN_MS)
        pay(state, records, twin.log, now_ms)
        due = state.take_due(now_ms, 100)
        assert {each.key for each in due} == twin.due(now_ms)
        for each in due:
            unacked = state.unacked_of(each.key)
            assert unacked == twin.unacked(each.key)
            ack = Ack(each.key, tuple(unacked))
            records.append(ack)
            twin.log.append(("ack", ack, now_ms))
            state.apply_ack(ack, now_ms)
            state.done(each.key)
        keys = [key_of(each) for each in range(8)]
        assert [state.unacked_of(each) for each in keys] == [twin.unacked(each) for each in keys]
        assert sum(in_flight.values()) == sum(len(twin.unacked(each)) for each in keys)
        replayed = ReviveState(state.progress + 1, Counter())
        for record in records[state.progress + 1 :]:
            if isinstance(record, Ack):
                replayed.apply_ack(record, now_ms + ORPHAN_MS)
            else:
                replayed.apply_checkpoint(record)
        pay(replayed, [], [], now_ms)
        assert [replayed.unacked_of(each) for each in keys] == [twin.unacked(each) for each in keys]


def pay(
    state: ReviveState,
    records: list[Checkpoint | Ack],
    log: list[tuple[str, Checkpoint | Ack, int]],
    now_ms: int,
) -> None:
    """Put what is owed, as a tick does."""
    for ack, _ in state.owed_acks():
        records.append(ack)
        log.append(("ack", ack, now_ms))
        state.apply_ack(ack, now_ms)
    assert state.owed_acks() == []


def test_acknowledgements_within_the_grace_count() -> None:
    state = ReviveState(0, Counter())
    checkpoint = checkpoint_of(0)
    state.apply_checkpoint(checkpoint)
    assert state.take_due(checkpoint.revive_ms + GRACE_MS - 1, 9) == []
    assert state.apply_ack(Ack(checkpoint.key, checkpoint.offsets), 0) == 3
    assert state.take_due(checkpoint.revive_ms + GRACE_MS, 9) == []
    assert (state.progress, len(state)) == (1, 0)


def test_a_checkpoint_read_late_waits_for_what_is_behind_it() -> None:
    state = ReviveState(0, Counter())
    checkpoint = checkpoint_of(0)
    late_ms = checkpoint.revive_ms + 3_600_000
    state.apply_checkpoint(checkpoint, late_ms)
    assert state.take_due(late_ms + GRACE_MS - 1, 9) == []
    assert state.take_due(late_ms + GRACE_MS, 9) == [checkpoint]


def test_an_acknowledgement_without_a_checkpoint_ends() -> None:
    state = ReviveState(5, Counter())
    state.apply_ack(Ack(key_of(1), (10,)), 100)
    assert (state.progress, state.orphan_count) == (4, 1)
    state.take_due(99, 9)
    assert state.orphan_count == 1
    state.take_due(100, 9)
    assert (state.progress, state.orphan_count) == (5, 0)


def test_what_could_not_be_put_is_due_again() -> None:
    state = ReviveState(0, Counter())
    checkpoint = checkpoint_of(0)
    state.apply_checkpoint(checkpoint)
    due_ms = checkpoint.revive_ms + GRACE_MS
    assert state.take_due(due_ms, 9) == [checkpoint]
    state.try_again(checkpoint.key, due_ms + 10)
    assert state.take_due(due_ms + 9, 9) == []
    assert state.take_due(due_ms + 10, 9) == [checkpoint]


def test_checkpoints_far_behind_move_to_the_end() -> None:
    state = ReviveState(0, Counter())
    old, last = checkpoint_of(2), checkpoint_of(5)
    state.apply_checkpoint(old)
    state.apply_ack(Ack(old.key, old.offsets[:1]), 0)
    for _ in range(revive_state.BEHIND_MAX + 2 * revive_state.BEHIND_FOR_EACH):
        state.pass_over()
    state.apply_checkpoint(last)
    (behind,) = state.far_behind()
    assert behind.unacked == list(old.offsets[1:])
    state.apply_checkpoint(behind)
    assert state.far_behind() == []
    assert state.progress == state.next_offset - 3
    assert state.take_due(old.revive_ms + GRACE_MS, 9)[0].unacked == list(old.offsets[1:])


def test_it_drops_what_waits_of_a_deleted_topic() -> None:
    in_flight = Counter()
    state = ReviveState(0, in_flight)
    state.apply_checkpoint(checkpoint_of(0))
    state.drop(topic="Other")
    assert len(state) == 1
    state.drop(topic="T")
    assert (len(state), state.progress, dict(in_flight)) == (0, 0, {})
