"""Frames that no client would send, from golden ones and every request code, on both ports of one broker.

After each round's frames a good request follows on the same connection: it is answered, or the connection was closed,
or the frames before it have swallowed it. Meanwhile the broker lives, a good client beside waits no longer than
GOOD_WAIT_MAX_MS, and memory and descriptors stay bounded.
"""

from __future__ import annotations

import functools
import json
import random
import struct
from pathlib import Path

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, SerializeType, decode_frame
from brokerd.remoting.connection import FRAME_BYTES_MAX
from brokerd.remoting.errors import RemotingCommandError
from tests.hard.tally import main
from tests.support.watched_broker import connect, read_answer, report, watched_broker

GOLDEN = Path(__file__).parent.parent / "golden" / "wire"
FRAMES_A_ROUND = 12
GOOD_WAIT_MAX_MS = 5_000  # on a machine that others use too; the benchmark measures what is usual
MEMORY_MIB_MAX, DESCRIPTORS_MAX = 400, 2_000
PROBE_OPAQUE = 0x5EED
# 25 would change what the good client may do.
CODES = [int(code) for code in RequestCode if code != RequestCode.UPDATE_BROKER_CONFIG]
NAMES = [
    "topic",
    "queueId",
    "queueOffset",
    "consumerGroup",
    "group",
    "a",
    "b",
    "e",
    "i",
    "msgId",
    "offset",
    "key",
]
NAMES += [
    "timestamp",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "maxMsgNums",
    "sysFlag",
    "subscription",
    "brokerAddr",
]
NAMES += [
    "producerGroup",
    "clientID",
    "namespace",
    "value",
    "groupName",
    "commitOffset",
    "commitLogOffset",
    "tranStateTableOffset",
    "commitOrRollback",
    "suspendTimeoutMillis",
]
VALUES = [
    "",
    "T",
    "T" * 300,
    "%RETRY%g",
    "g",
    "0",
    "-1",
    "7",
    "99999999999999999999",
    "1e3",
    "null",
    "true",
    "a\nb",
]
VALUES += ["SCHEDULE_TOPIC_XXXX", "../../etc", "TBW102", "\x00", "组", "||", "x" * 70_000]
HOSTILE = [
    "{}",
    "[]",
    "null",
    "1",
    '"',
    "{",
    "[" * 5_000,
    "1e999",
    "9" * 5_000,
    '{"$ref":"$"}',
    "{{}:1}",
    "{1:2}",
]
HOSTILE += [
    '"\\ud800"',
    "-0",
    '{"a":' * 200 + "1" + "}" * 200,
    "'" + "\\'" * 9_000 + "'",
    "true",
    '"\\u0000"',
]


@functools.cache
def golden_frames() -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.rglob("*.request.bin"))]


def made(rng: random.Random) -> bytes:
    """A request of any code with fields that fit or do not."""
    fields = {rng.choice(NAMES): rng.choice(VALUES) for _ in range(rng.randrange(12))}
    body = rng.choice([b"", rng.choice(HOSTILE).encode(), rng.randbytes(rng.randrange(300))])
    command = RemotingCommand.request(rng.choice(CODES), fields, body, oneway=rng.random() < 0.1)
    command.opaque = rng.randrange(1 << 31)
    command.serialize_type = rng.choice([SerializeType.JSON, SerializeType.ROCKETMQ])
    return command.encode()


def with_lengths(frame: bytes, rng: random.Random) -> bytes:
    """The frame's or its header's length changed a little, or to a limit."""
    length, header = struct.unpack(">iI", frame[:8])
    odd = [
        0,
        1,
        3,
        4,
        length - 1,
        length + 1,
        length + 200,
        FRAME_BYTES_MAX,
        FRAME_BYTES_MAX + 1,
        -1,
        2**31 - 1,
    ]
    if rng.random() < 0.5:
        return struct.pack(">iI", rng.choice(odd), header) + frame[8:]
    kind = rng.choice([header >> 24, rng.randrange(256)])
    return struct.pack(">iI", length, kind << 24 | max(0, rng.choice(odd)) & 0xFFFFFF) + frame[8:]


def with_bytes(frame: bytes, rng: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.choice([1, 2, 20])):
        data[rng.randrange(8, len(data)) if len(data) > 8 else 0] = rng.randrange(256)
    return bytes(data)


def spliced(frame: bytes, rng: random.Random) -> bytes:
    """One frame's header with another one's body, lengths right."""
    try:
        command, other = decode_frame(frame[4:]), decode_frame(rng.choice(golden_frames())[4:])
    except RemotingCommandError:
        return frame
    command.body = other.body
    return command.encode()


def with_json(frame: bytes, rng: random.Random) -> bytes:
    """A value of the body, or of the header's fields, replaced by something hostile; lengths right."""
    try:
        command = decode_frame(frame[4:])
    except RemotingCommandError:
        return frame
    if command.ext_fields and rng.random() < 0.5:
        command.ext_fields[rng.choice(sorted(command.ext_fields))] = rng.choice(VALUES + HOSTILE)
        return command.encode()
    try:
        body = json.loads(command.body)
    except (ValueError, RecursionError):
        body = {}
    text, target = json.dumps(body), rng.choice(HOSTILE)
    if isinstance(body, dict) and body:
        name = rng.choice(sorted(body))
        value = json.dumps(body[name])
        text = text.replace(f"{json.dumps(name)}: {value}", f"{json.dumps(name)}: {target}", 1)
    command.body = rng.choice([text, text.replace('"', "'"), target]).encode()
    return command.encode()


def grown(frame: bytes, rng: random.Random) -> bytes:
    """A body of up to 2 MiB: many times the same, in strict JSON or in the dialect."""
    try:
        command = decode_frame(frame[4:])
    except RemotingCommandError:
        return frame
    piece = rng.choice([command.body.decode("latin-1") or "{}", *HOSTILE])
    count = rng.choice([2_000, 200_000, 2_000_000]) // len(piece) + 1
    head = rng.choice(['{"clientID":"c","consumerDataSet":[', '{"mqSet":[', '{"topicConfigList":[', "["])
    text = f"{head}{','.join([piece] * count)}]" + "}" * (head != "[")
    command.body = rng.choice([text, text, text.replace('"', "'")]).encode()
    command.code = rng.choice([command.code, int(RequestCode.HEART_BEAT), rng.choice(CODES)])
    return command.encode()


def cut(frame: bytes, rng: random.Random) -> bytes:
    return frame[: rng.randrange(len(frame))]


MUTATIONS = [with_lengths, with_bytes, with_bytes, spliced, with_json, with_json, with_json, grown, cut]


def probe() -> bytes:
    command = RemotingCommand.request(RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})
    command.opaque = PROBE_OPAQUE
    return command.encode()


def swallows_probe(data: bytes) -> bool:
    """Whether `data` ends inside a frame, by its lengths: what follows belongs to it."""
    position = 0
    while len(data) - position >= 4:
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not 4 <= length <= FRAME_BYTES_MAX:
            return False  # the connection is closed for it
        position += 4 + length
    return position != len(data)


def outcome_on(port: int, data: bytes, rng: random.Random) -> str:
    with connect(port) as peer:
        try:
            for start in range(0, len(data), step := rng.choice([len(data) + 1, 1_000, 100_000])):
                peer.sendall(data[start : start + step])
            if swallows_probe(data):
                return "incomplete"
            peer.sendall(probe())
            while True:
                answer = read_answer(peer)
                if answer.is_response and answer.opaque == PROBE_OPAQUE:
                    return "answered"
        except (ConnectionError, BrokenPipeError):
            return "closed"


def run_round(seed: int) -> str:
    rng, broker = random.Random(seed), watched_broker()
    frames = []
    for _ in range(FRAMES_A_ROUND):
        frame = rng.choice(golden_frames()) if rng.random() < 0.6 else made(rng)
        frames.append(frame if rng.random() < 0.1 else rng.choice(MUTATIONS)(frame, rng))
        if rng.random() < 0.5:  # most frames behind a malformed one would be read by no one
            break
    process = broker.process
    port = process.port if rng.random() < 0.8 else process.namesrv_port
    outcome = outcome_on(port, b"".join(frames), rng)
    waited_ms = broker.send_good()
    assert waited_ms < GOOD_WAIT_MAX_MS, f"the good client waited {waited_ms:.0f} ms"
    assert broker.memory_mib < MEMORY_MIB_MAX, f"{broker.memory_mib:.0f} MiB"
    assert "Traceback" not in (output := broker.new_output()), output[-2000:]
    assert broker.descriptors < DESCRIPTORS_MAX, f"{broker.descriptors} descriptors"
    return outcome


if __name__ == "__main__":
    import atexit

    watched_broker()
    atexit.register(report)
    main("fuzz_frames", run_round, rounds=4_000)
