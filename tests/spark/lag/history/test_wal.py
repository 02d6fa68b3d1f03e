"""Segments of the history log: literal bytes, round trips, and a crash at every byte."""

import zlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.history import wal
from spark.lag.history.wal_group import GroupReader
from spark.lag.snapshot import BrokerRead, CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import judged

ORDERS_0 = HeadKey("orders", "broker-a", 0)
ORDERS_1 = HeadKey("orders", "broker-a", 1)
BILLING_0 = CommitKey("billing", "orders", "broker-a", 0)
BILLING_1 = CommitKey("billing", "orders", "broker-a", 1)
AUDIT_9 = CommitKey("audit", "events", "broker-b", 9)


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def codes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint8)


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
        array(-1, 4_201),
        codes(12, 2),
        codes(0, 3),
        codes(1, 1),
        array(1_600_000_000_000, -1),
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
        array(100, 0),
        codes(6, 1),
        codes(32, 0),
        codes(1, 12),
        array(-1, 1_600_000_000_000),
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
        b"TMLAGLOG".hex() + "0100" + "0500" + (1_700_000_000_000).to_bytes(8, "little").hex() + b"local".hex()
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
    assert [told(one) for one in segment.snapshots] == [
        {
            BILLING_1: (-1, 12, 0),
            BILLING_0: (4_300, 2, 3),
            ORDERS_0: (1, 1_600_000_000_000),
            ORDERS_1: (1, -1),
        },
        {},
        {BILLING_0: (100, 6, 32), AUDIT_9: (0, 1, 0), ORDERS_0: (12, 1_600_000_000_000), ORDERS_1: (1, -1)},
    ]


def told(one: Snapshot) -> dict[CommitKey | HeadKey, tuple[int, ...]]:
    """Return what a round says of each series beside its offsets."""
    commits = zip(one.time_lag_ms.tolist(), one.status.tolist(), one.flags.tolist(), strict=True)
    heads = zip(one.head_status.tolist(), one.oldest_ms.tolist(), strict=True)
    return {
        **dict(zip(one.commit_keys, commits, strict=True)),
        **dict(zip(one.head_keys, heads, strict=True)),
    }


def test_it_writes_the_documented_frame() -> None:
    """Two queues and a group's one: max 100 and 300, min 0, OK, no oldest; then the second one 5 more, and a stall."""
    heads, commits = [ORDERS_0, ORDERS_1], [BILLING_0]
    state = wal.SegmentState()
    first = Snapshot(7, 1, [], heads, array(100, 300), array(0, 0), commits, array(99), array(-1))
    wal.encode_frame(state, first)
    second = replace(first, number=2, max_offset=array(100, 305), time_lag_ms=array(61_000), status=codes(4))
    frame = wal.encode_frame(state, second)
    magic, payload_bytes, names_bytes, _, ts_ms = wal.FRAME_HEADER.unpack_from(frame)
    assert (magic, payload_bytes, names_bytes, ts_ms) == (b"LFRM", len(frame) - 24, 0, 7)
    head = b'{"number":2,"brokers":[]}'
    unchanged = bytes(4)
    assert wal.decompressed(frame[24:]) == (
        len(head).to_bytes(4, "little") + head
        # the queues: both present; of the second one max + 5, a byte-plane of zigzag 10; min, status, oldest as before
        + b"\3" + b"\3\0\0\0" + b"\2" + b"\1" + b"\x0a" + unchanged * 3
        # the group's: offsets as before; time lag 610 tenths from -1, zigzag 1222; status 4 from 12, zigzag 15
        + b"\1" + unchanged * 2 + b"\4\0\0\0" + b"\1" + b"\2" + b"\xc6\x04" + b"\3\0\0\0" + b"\1\1\x0f" + unchanged
    )  # fmt: skip


def frame_of(
    head: wal.FrameHead, numbers: bytes, names: wal.FrameNames, ts_ms: int, later: bytes = b""
) -> bytes:
    """Return a frame written by hand."""
    body = msgspec.json.encode(head).replace(b"{", b"{" + later, 1)
    data = (len(body).to_bytes(4, "little") + body + numbers, msgspec.json.encode(names))
    body, named = (zstandard.ZstdCompressor().compress(one) for one in data)
    checked = wal.FRAME_CHECKED.pack(len(named) + len(body), len(named), ts_ms)
    crc = zlib.crc32(named + body, zlib.crc32(checked))
    return wal.FRAME_HEADER.pack(b"LFRM", len(named) + len(body), len(named), crc, ts_ms) + named + body


def column(*zigzag: int) -> bytes:
    """Return a column of changes of one byte each, of the first series."""
    bits = (1 << len(zigzag)) - 1
    return (2 + len(zigzag)).to_bytes(4, "little") + bytes([bits, 1, *zigzag]) if zigzag else bytes(4)


def later_segment() -> bytes:
    """Return a segment of a later version, whose frames have a column more, of another encoding, and other fields."""
    columns = (*wal.COMMIT_COLUMNS[:2], "owner", *wal.COMMIT_COLUMNS[2:])
    head = wal.FrameHead(1, [], wal.HEAD_COLUMNS, columns)
    numbers = b"\1" + column(200) + column() + column(2) + column() + b"\1" + column(10) + column()
    numbers += b"\5\0\0\0alice" + column(20) + column(8) + column()
    names = wal.FrameNames([ORDERS_0], [("billing", 0)])
    head_bytes = bytearray(wal.encode_header("local", 3))
    head_bytes[8] = 9
    head_bytes[-4:] = zlib.crc32(bytes(head_bytes[:-4])).to_bytes(4, "little")
    return bytes(head_bytes) + frame_of(head, numbers, names, 5, later=b'"host":"a",')


def test_it_reads_the_columns_it_knows_of_a_later_version_and_goes_on() -> None:
    data = later_segment()
    segment = wal.read_segment(data)
    (one,) = segment.snapshots
    assert (one.heads(), one.commits()) == ({ORDERS_0: (0, 100)}, {BILLING_0: 5})
    assert told(one) == {BILLING_0: (1_000, 4, 0), ORDERS_0: (1, 0)}
    assert [told(own) for own in GroupReader("billing").read(data)] == [told(one)]
    more = wal.encode_frame(segment.state, SNAPSHOTS[0])  # of this version, behind it
    assert [told(own) for own in wal.read_segment(data + more).snapshots][1] == told(
        wal.read_segment(IMAGE).snapshots[0]
    )


def test_it_reads_a_frame_of_an_older_version_that_had_fewer_columns() -> None:
    head = wal.FrameHead(1, [], ("max_offset", "min_offset"), ("committed", "pulled"))
    numbers = b"\1" + column(200) + column() + b"\1" + column(10) + column(1)
    names = wal.FrameNames([ORDERS_0], [("billing", 0)])
    data = wal.encode_header("local", 3) + frame_of(head, numbers, names, 5)
    (one,) = wal.read_segment(data).snapshots
    assert (one.commits(), one.pulled.tolist()) == ({BILLING_0: 5}, [-1])
    assert told(one) == {BILLING_0: (-1, 12, 0), ORDERS_0: (1, -1)}
    assert [told(own) for own in GroupReader("billing").read(data)] == [told(one)]


@pytest.mark.parametrize(
    "numbers",
    [
        b"",
        b"\1" + column(200)[:-1],
        b"\1" + b"\7\0\0\0" + column(200)[4:],
        b"\1" + column(200) + column() + b"\1" + column(10) + column(1) + b"?",
        b"\1" + b"\3\0\0\0" + b"\1\0\1" + column() + b"\1" + column() * 2,
        b"\1" + b"\3\0\0\0" + b"\1\x09\1" + column() + b"\1" + column() * 2,
    ],
)
def test_it_refuses_columns_that_do_not_end_where_they_say(numbers: bytes) -> None:
    head = wal.FrameHead(1, [], ("max_offset", "min_offset"), ("committed", "pulled"))
    names = wal.FrameNames([ORDERS_0], [("billing", 0)])
    data = wal.encode_header("local", 3) + frame_of(head, numbers, names, 5)
    with pytest.raises(wal.WalError):
        wal.read_segment(data)
    with pytest.raises(wal.WalError):
        GroupReader("billing").read(data)


def test_it_keeps_a_clean_prefix_of_a_log_cut_anywhere() -> None:
    for cut in range(len(IMAGE) + 1):
        if cut < 29:
            with pytest.raises(wal.WalError):
                wal.read_segment(IMAGE[:cut])
            continue
        segment = wal.read_segment(IMAGE[:cut])
        whole = sum(end <= cut for end in ENDS)
        assert [s.number for s in segment.snapshots] == [1, 2, 3][:whole], cut
        assert segment.state.position == ([29, *ENDS][whole]), cut
        assert not segment.damaged, cut


def test_it_never_returns_a_frame_with_a_flipped_bit() -> None:
    for position in range(29, len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[position] ^= 0x10
        segment = wal.read_segment(bytes(damaged))
        whole = sum(end <= position for end in ENDS)
        assert [s.number for s in segment.snapshots] == [1, 2, 3][:whole], position
        assert segment.damaged == (position < ENDS[1]), position  # a whole frame follows the bad one


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


def test_it_goes_on_behind_names_cut_anywhere() -> None:
    for cut in range(29, len(AHEAD) + 1):
        segment = wal.read_segment(AHEAD[:cut])
        whole = sum(end <= cut for end in AHEAD_ENDS)
        assert [s.number for s in segment.snapshots] == [1, 2, 3][: max(0, whole - 1)], cut
        assert segment.state.position == [29, *AHEAD_ENDS][whole], cut
        assert not segment.damaged, cut
        data = AHEAD[: segment.state.position] + wal.encode_frame(segment.state, SNAPSHOTS[2])
        found = wal.read_segment(data)
        assert found.snapshots[-1].commits() == SNAPSHOTS[2].commits(), cut
        assert found.snapshots[-1].heads() == SNAPSHOTS[2].heads(), cut


def test_it_reads_nothing_behind_damaged_names() -> None:
    for position in range(29, AHEAD_ENDS[0]):
        damaged = bytearray(AHEAD)
        damaged[position] ^= 0x10
        segment = wal.read_segment(bytes(damaged))
        assert (segment.snapshots, segment.damaged) == ([], True), position


@pytest.mark.parametrize(
    "data", [b"", b"PAR1" + bytes(60), b"TMLAGWAL" + IMAGE[8:], IMAGE[:8] + b"\2" + IMAGE[9:]]
)
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
@given(ROUNDS, st.integers(0, 99))
def test_it_round_trips_any_rounds(
    rounds: list[dict[CommitKey, tuple[int, int, int, int]]], chance: int
) -> None:
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
    snapshots = [judged(one, chance) for one in snapshots]
    decoded = wal.read_segment(segment_bytes(snapshots)[0]).snapshots
    assert [told(one) for one in decoded] == [told(one) for one in snapshots]
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
