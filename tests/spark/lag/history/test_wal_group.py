"""One group's rounds out of a segment are what the whole segment tells of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.history import wal
from spark.lag.history.wal_group import GroupReader
from spark.lag.samples import SeriesKey, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history.test_chunk import as_dict
from tests.spark.lag.history.test_wal import AHEAD, AHEAD_ENDS, IMAGE
from tests.spark.lag.sample_history import judged

KEYS = st.builds(
    CommitKey,
    st.sampled_from(["g", "h", "i"]),
    st.sampled_from("tu"),
    st.just("b"),
    st.integers(0, 11),
    st.integers(0, 1),
)
OFFSETS = st.integers(-1, 300) | st.integers(-1, 2**62)
NUMBERS = st.tuples(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
# what each round reads of queues and of committed offsets: either may be there without the other
ROUNDS = st.lists(
    st.dictionaries(KEYS, st.tuples(NUMBERS, st.booleans()), max_size=30), min_size=1, max_size=7
)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def snapshot_of(number: int, seen: dict[CommitKey, tuple[tuple[int, ...], bool]]) -> Snapshot:
    heads = {key.head: values for key, (values, is_read) in seen.items() if is_read}
    return Snapshot(
        1_000 * number,
        number,
        (),
        list(heads),
        array([values[0] for values in heads.values()]),
        array([values[1] for values in heads.values()]),
        list(seen),
        array([values[2] for values, _ in seen.values()]),
        array([values[3] for values, _ in seen.values()]),
    )


def of_group(snapshots: list[Snapshot], group: str) -> dict[SeriesKey, dict[str, list[int]]]:
    return as_dict(from_snapshots(snapshots).select(lambda key: key.group == group))


@settings(max_examples=100, deadline=None)
@given(rounds=ROUNDS, begins=st.sets(st.integers(1, 6)), ahead=st.booleans(), chance=st.integers(0, 99))
def test_it_reads_what_the_whole_segments_tell(
    rounds: list[dict[CommitKey, tuple[tuple[int, ...], bool]]], begins: set[int], ahead: bool, chance: int
) -> None:
    state = wal.SegmentState()
    segments = [wal.encode_header("local", 0)]
    snapshots = [judged(snapshot_of(number, seen), chance) for number, seen in enumerate(rounds)]
    for number, snapshot in enumerate(snapshots):
        if number in begins:
            state = state.successor()
            segments.append(wal.encode_header("local", number))
            if ahead:
                segments[-1] = wal.encode_beginning(state, "local", number, snapshots[number - 1])
        segments[-1] += wal.encode_frame(state, snapshot)
    for group in "ghi":
        reader = GroupReader(group)
        found = [one for data in segments for one in reader.read(data)]
        assert [one.number for one in found] == list(range(len(snapshots)))
        assert of_group(found, group) == of_group(snapshots, group)
        assert not any(key.group != group for one in found for key in one.commit_keys)


def test_it_leaves_a_torn_tail_out() -> None:
    for cut in range(29, len(AHEAD) + 1):
        found = GroupReader("billing").read(AHEAD[:cut])
        assert [one.number for one in found] == [1, 2, 3][
            : max(0, sum(end <= cut for end in AHEAD_ENDS) - 1)
        ], cut


def test_it_refuses_what_is_no_segment_and_what_names_nothing() -> None:
    with pytest.raises(wal.WalError):
        GroupReader("billing").read(IMAGE[:20])
    assert [one.commit_keys for one in GroupReader("nobody").read(IMAGE)] == [[], [], []]


def test_it_reads_among_many_series() -> None:
    heads = [HeadKey("t", "b", number) for number in range(3_000)]
    commits = [CommitKey(f"g{number % 70}", *heads[number * 7 % 3_000]) for number in range(3_000)]
    rng = np.random.default_rng(3)
    high, done = rng.integers(10**6, 10**9, 3_000), rng.integers(0, 10**6, 3_000)
    state, data, snapshots = wal.SegmentState(), wal.encode_header("local", 0), []
    for number in range(5):
        high = high + rng.poisson(900, 3_000) * (rng.random(3_000) < 0.5)
        done = done + rng.poisson(70_000, 3_000) * (rng.random(3_000) < 0.3)
        snapshots.append(Snapshot(number, number, (), heads, high, high // 2, commits, done, done * 0 - 1))
        data += wal.encode_frame(state, snapshots[-1])
    assert of_group(GroupReader("g33").read(data), "g33") == of_group(snapshots, "g33")
