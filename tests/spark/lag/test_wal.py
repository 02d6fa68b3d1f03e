"""Segments of the history log: literal bytes, round trips, and a crash at every byte."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import wal
from spark.lag.snapshot import BrokerRead, CommitKey, HeadKey, Snapshot

ORDERS_0 = HeadKey("orders", "broker-a", 0)
ORDERS_1 = HeadKey("orders", "broker-a", 1)
BILLING_0 = CommitKey("billing", "orders", "broker-a", 0)
BILLING_1 = CommitKey("billing", "orders", "broker-a", 1)
AUDIT_9 = CommitKey("audit", "events", "broker-b", 9)


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


SNAPSHOTS = [
    Snapshot(
        1_700_000_000_000,
        1,
        [BrokerRead("broker-a", True, 1_700_000_000_010, 1_700_000_000_030, 25)],
        [ORDERS_0, ORDERS_1],
        array(100, 200),
        array(0, 10),
        [BILLING_1, BILLING_0],
        array(150, 99),
        array(-1, 100),
    ),
    Snapshot(
        1_700_000_005_000,
        2,
        [BrokerRead("broker-a", False, 0, 0, 3000, "connection refused")],
    ),
    Snapshot(
        1_700_000_010_000,
        3,
        [BrokerRead("broker-a", True, 1_700_000_010_010, 1_700_000_010_030, 25)],
        [ORDERS_1, ORDERS_0],
        array(2**62, 90),
        array(10, 0),
        [BILLING_0, AUDIT_9],
        array(12, 7),
        array(-1, -1),
    ),
]


def segment_bytes(snapshots: list[Snapshot]) -> tuple[bytes, list[int]]:
    """Return a segment and the position where each frame ends."""
    data = wal.encode_header("local", 1_700_000_000_000)
    state = wal.SegmentState(position=len(data))
    ends = []
    for snapshot in snapshots:
        data += wal.encode_frame(state, snapshot)
        ends.append(len(data))
        assert state.position == len(data)
    return data, ends


IMAGE, ENDS = segment_bytes(SNAPSHOTS)


def test_it_writes_the_documented_segment_header() -> None:
    header = wal.encode_header("local", 1_700_000_000_000)
    assert header[:-4].hex() == (
        b"TMLAGWAL".hex() + "0300" + "0500" + (1_700_000_000_000).to_bytes(8, "little").hex() + b"local".hex()
    )
    assert header[-4:] == zlib.crc32(header[:-4]).to_bytes(4, "little")
    assert wal.decode_header(header) == ("local", 1_700_000_000_000, 29)


def test_it_reads_what_it_wrote() -> None:
    segment = wal.read_segment(IMAGE)
    assert (segment.cluster, segment.started_at_ms, segment.damaged) == ("local", 1_700_000_000_000, False)
    assert [s.number for s in segment.snapshots] == [1, 2, 3]
    assert segment.snapshots[0].brokers == SNAPSHOTS[0].brokers
    assert segment.snapshots[0].heads() == {ORDERS_0: (0, 100), ORDERS_1: (10, 200)}
    assert segment.snapshots[0].commits() == {BILLING_0: 99, BILLING_1: 150}
    assert segment.snapshots[1].heads() == {}
    assert segment.snapshots[1].brokers[0].error == "connection refused"
    assert segment.snapshots[2].heads() == {ORDERS_0: (0, 90), ORDERS_1: (10, 2**62)}
    assert segment.snapshots[2].commits() == {BILLING_0: 12, AUDIT_9: 7}
    assert segment.snapshots[2].pulled.tolist() == [-1, -1]


@pytest.mark.parametrize("cut", range(len(IMAGE) + 1))
def test_it_keeps_a_clean_prefix_of_a_log_cut_anywhere(cut: int) -> None:
    if cut < 29:
        with pytest.raises(wal.WalError):
            wal.read_segment(IMAGE[:cut])
        return
    segment = wal.read_segment(IMAGE[:cut])
    whole = sum(end <= cut for end in ENDS)
    assert [s.number for s in segment.snapshots] == [1, 2, 3][:whole]
    assert segment.state.position == ([29, *ENDS][whole])
    assert not segment.damaged


@pytest.mark.parametrize("position", range(29, len(IMAGE)))
def test_it_never_returns_a_frame_with_a_flipped_bit(position: int) -> None:
    damaged = bytearray(IMAGE)
    damaged[position] ^= 0x10
    segment = wal.read_segment(bytes(damaged))
    whole = sum(end <= position for end in ENDS)
    assert [s.number for s in segment.snapshots] == [1, 2, 3][:whole]
    assert segment.damaged == (position < ENDS[1])  # a whole frame follows the bad one


@pytest.mark.parametrize("cut", [30, *ENDS[:2], ENDS[0] + 40])
def test_it_goes_on_after_a_torn_tail(cut: int) -> None:
    segment = wal.read_segment(IMAGE[:cut])
    data = IMAGE[: segment.state.position]
    for snapshot in SNAPSHOTS[len(segment.snapshots) :]:
        data += wal.encode_frame(segment.state, snapshot)
    assert data == IMAGE


def test_it_reads_only_what_was_appended() -> None:
    segment = wal.read_segment(IMAGE[: ENDS[0]])
    rest = wal.read_frames(IMAGE[ENDS[0] :], segment.state, base=ENDS[0])
    assert [s.number for s in rest] == [2, 3]
    assert rest[1].commits() == {BILLING_0: 12, AUDIT_9: 7}
    assert segment.state.position == len(IMAGE)


def test_who_writes_and_reads_by_turns_changes_no_round_that_was_given() -> None:
    """A writer keeps a round's numbers to compare the next one with; reading another's rounds must not move them."""
    writer, reader = wal.SegmentState(), wal.SegmentState()
    data = wal.encode_header("local", 1)
    writer.position = reader.position = len(data)
    heads, commits = [ORDERS_0, ORDERS_1], [BILLING_0, BILLING_1]
    given = [
        Snapshot(at, at, [], heads, array(9 * at, 5), array(at, 0), commits, array(at, 4 * at), array(-1, at))
        for at in range(1, 7)
    ]
    copies = [(one.max_offset.copy(), one.committed.copy()) for one in given]
    for number, one in enumerate(given):
        data += wal.encode_frame(writer, one)
        (read,) = wal.read_frames(data, reader)
        assert read.commits() == one.commits() and read.heads() == one.heads()
        writer, reader = reader, writer
        assert all(
            np.array_equal(one.max_offset, high) and np.array_equal(one.committed, done)
            for one, (high, done) in zip(given[: number + 1], copies, strict=False)
        )


def test_the_next_segment_takes_its_names_over() -> None:
    first, second = SNAPSHOTS[0], replace(SNAPSHOTS[0], ts_ms=1_700_000_300_000, number=4)
    state = wal.SegmentState()
    data = [wal.encode_header("local", 0) + wal.encode_frame(state, first)]
    state = state.successor()
    data.append(wal.encode_header("local", 1) + wal.encode_frame(state, second))
    more = replace(SNAPSHOTS[2], ts_ms=1_700_000_305_000)
    data[1] += wal.encode_frame(state, more)
    before = wal.read_segment(data[0])
    after = wal.read_segment(data[1], before.state)
    assert [one.number for one in after.snapshots] == [4, 3]
    assert after.snapshots[0].head_keys is before.snapshots[0].head_keys
    assert after.snapshots[0].commits() == second.commits()
    assert after.snapshots[1].commits() == more.commits()
    again = wal.read_segment(data[1], before.state)  # what the segment added is not in the one before
    assert [one.commits() for one in again.snapshots] == [second.commits(), more.commits()]
    alone = wal.read_segment(data[1])
    assert [one.heads() for one in alone.snapshots] == [second.heads(), more.heads()]


def begun_ahead() -> tuple[bytes, list[int]]:
    """Return a segment that begins with the names of the segment before, and where its beginning and frames end."""
    before = wal.SegmentState()
    wal.encode_frame(before, SNAPSHOTS[0])
    state = before.successor()
    data = wal.encode_beginning(state, "local", 1_700_000_300_000, SNAPSHOTS[0])
    ends = [len(data)]
    for snapshot in SNAPSHOTS:
        data += wal.encode_frame(state, snapshot)
        ends.append(len(data))
    assert state.position == len(data)
    return data, ends


AHEAD, AHEAD_ENDS = begun_ahead()


def test_a_segment_may_begin_with_names_that_are_no_round() -> None:
    alone = wal.read_segment(AHEAD)
    assert [one.number for one in alone.snapshots] == [1, 2, 3]
    assert [one.heads() for one in alone.snapshots] == [one.heads() for one in SNAPSHOTS]
    assert [one.commits() for one in alone.snapshots] == [one.commits() for one in SNAPSHOTS]
    assert alone.snapshots[0].brokers == SNAPSHOTS[0].brokers
    before = wal.read_segment(IMAGE[: ENDS[0]])
    after = wal.read_segment(AHEAD, before.state)
    assert after.snapshots[0].head_keys is before.snapshots[0].head_keys
    assert [one.commits() for one in after.snapshots] == [one.commits() for one in SNAPSHOTS]
    assert AHEAD_ENDS[1] - AHEAD_ENDS[0] < ENDS[0] - 29  # the round itself names nothing


@pytest.mark.parametrize("cut", range(29, len(AHEAD) + 1))
def test_it_goes_on_behind_names_cut_anywhere(cut: int) -> None:
    segment = wal.read_segment(AHEAD[:cut])
    whole = sum(end <= cut for end in AHEAD_ENDS)
    assert [s.number for s in segment.snapshots] == [1, 2, 3][: max(0, whole - 1)]
    assert segment.state.position == [29, *AHEAD_ENDS][whole]
    assert not segment.damaged
    data = AHEAD[: segment.state.position] + wal.encode_frame(segment.state, SNAPSHOTS[2])
    found = wal.read_segment(data)
    assert found.snapshots[-1].commits() == SNAPSHOTS[2].commits()
    assert found.snapshots[-1].heads() == SNAPSHOTS[2].heads()


@pytest.mark.parametrize("position", range(29, AHEAD_ENDS[0]))
def test_it_reads_nothing_behind_damaged_names(position: int) -> None:
    damaged = bytearray(AHEAD)
    damaged[position] ^= 0x10
    segment = wal.read_segment(bytes(damaged))
    assert (segment.snapshots, segment.damaged) == ([], True)


def test_it_reads_a_segment_of_the_version_before() -> None:
    old = bytearray(IMAGE)
    old[8] = 2
    old[25:29] = zlib.crc32(bytes(old[:25])).to_bytes(4, "little")
    assert [one.number for one in wal.read_segment(bytes(old)).snapshots] == [1, 2, 3]


@pytest.mark.parametrize("data", [b"", b"PAR1" + bytes(60), IMAGE[:8] + b"\x01" + IMAGE[9:]])
def test_it_refuses_what_is_not_a_segment(data: bytes) -> None:
    with pytest.raises(wal.WalError):
        wal.read_segment(data)


KEYS = st.builds(
    CommitKey,
    st.sampled_from("gh"),
    st.sampled_from("tu"),
    st.just("b"),
    st.integers(0, 3),
    st.integers(0, 1),
)
OFFSETS = st.integers(-1, 2**62)
ROUNDS = st.lists(
    st.dictionaries(KEYS, st.tuples(OFFSETS, OFFSETS, OFFSETS, OFFSETS), max_size=8), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(ROUNDS)
def test_it_round_trips_any_rounds(rounds: list[dict[CommitKey, tuple[int, int, int, int]]]) -> None:
    snapshots = []
    for number, seen in enumerate(rounds):
        heads = {key.head: values for key, values in seen.items()}
        snapshots.append(
            Snapshot(
                1000 * number,
                number,
                (),
                list(heads),
                array(*[v[0] for v in heads.values()]),
                array(*[v[1] for v in heads.values()]),
                list(seen),
                array(*[v[2] for v in seen.values()]),
                array(*[v[3] for v in seen.values()]),
            )
        )
    decoded = wal.read_segment(segment_bytes(snapshots)[0]).snapshots
    assert [s.heads() for s in decoded] == [s.heads() for s in snapshots]
    assert [s.commits() for s in decoded] == [s.commits() for s in snapshots]
    for ours, theirs in zip(snapshots, decoded, strict=True):
        pulled = dict(zip(ours.commit_keys, ours.pulled.tolist(), strict=True))
        assert dict(zip(theirs.commit_keys, theirs.pulled.tolist(), strict=True)) == pulled


def test_it_spends_few_bytes_on_a_quiet_round() -> None:
    heads = [HeadKey("orders", "broker-a", q) for q in range(10_000)]
    offsets = np.arange(10_000, dtype=np.int64) * 7
    state = wal.SegmentState()
    first = Snapshot(1, 1, (), heads, offsets, offsets * 0, [], array(), array())
    wal.encode_frame(state, first)
    rng = np.random.default_rng(7)
    second = Snapshot(2, 2, (), heads, offsets + rng.poisson(40, 10_000), offsets * 0, [], array(), array())
    assert len(wal.encode_frame(state, second)) < 10_000
    assert len(wal.encode_frame(state, second)) < 200
