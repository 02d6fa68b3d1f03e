from __future__ import annotations

import json
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand, SerializeType, decode_frame
from brokerd.remoting.errors import RemotingCommandError

# Protocol section 1.4, written by Java: code 34, version 479, opaque 1, remark "hi", ext {k: v}, body {}.
BINARY = bytes.fromhex(
    "00000025 0100001f 0022 00 01df 00000001 00000000 00000002 6869 00000008 0001 6b 00000001 76 7b7d"
)
BINARY_COMMAND = RemotingCommand(34, "JAVA", 479, 1, 0, "hi", {"k": "v"}, b"{}", SerializeType.ROCKETMQ)
# Protocol section 1.2, written by Java.
JSON_HEADER = (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
JSON_COMMAND = RemotingCommand(105, "JAVA", 479, 7, 0, None, {"topic": "T"})
TABLE = [
    pytest.param(BINARY_COMMAND, BINARY, id="binary"),
    pytest.param(
        JSON_COMMAND, struct.pack(">iI", 4 + len(JSON_HEADER), len(JSON_HEADER)) + JSON_HEADER, id="json"
    ),
]


def frame(header: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    """A frame without its length."""
    return struct.pack(">I", serialize_type << 24 | len(header)) + header + body


@pytest.mark.parametrize(("command", "data"), TABLE)
def test_it_encodes(command: RemotingCommand, data: bytes) -> None:
    assert command.encode() == data


@pytest.mark.parametrize(("command", "data"), TABLE)
def test_it_decodes(command: RemotingCommand, data: bytes) -> None:
    assert decode_frame(data[4:]) == command
    assert decode_frame(memoryview(data)[4:]) == command


def test_it_answers_with_the_opaque_and_the_form_of_the_request() -> None:
    request = RemotingCommand(10, opaque=-5, serialize_type=SerializeType.ROCKETMQ)
    response = request.response(ResponseCode.TOPIC_NOT_EXIST, "no", {"a": "b"}, b"x")
    assert response == RemotingCommand(17, "JAVA", 479, -5, 1, "no", {"a": "b"}, b"x", SerializeType.ROCKETMQ)
    assert response.is_response and not response.is_oneway
    assert not request.is_response


def test_it_marks_oneway_requests() -> None:
    request = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, {"topic": "T"}, oneway=True)
    assert request == RemotingCommand(15, "PYTHON", 479, 0, 2, None, {"topic": "T"})
    assert request.is_oneway and not request.is_response


def test_it_always_writes_an_ext_fields_object_and_only_text_in_it() -> None:
    """Java's client fails on a send's answer without the object, Go's on a value that is no text."""
    response = RemotingCommand(10).response(0)
    assert json.loads(response.encode()[8:])["extFields"] == {}


def test_it_sends_codes_that_do_not_fit_16_bits_with_a_json_header() -> None:
    command = RemotingCommand(75001, serialize_type=SerializeType.ROCKETMQ)
    assert command.encode()[4] == SerializeType.JSON
    assert decode_frame(command.encode()[4:]).code == 75001


def test_it_reads_what_java_tolerates() -> None:
    header = (
        b' { "code" : 11 , "extFields" : {"queueId": 3, "order": true, "empty": null, "rate": 1.5,'
        b'"huge":123456789012345678901234567890,"list":[1,{"\xc3\xa9":18446744073709551616}]},'
        b' "flag":0,"language":9,"opaque":-1,"unknown":[{}],"version":"317"} '
    )
    command = decode_frame(frame(header, b"body"))
    assert command.ext_fields == {
        "queueId": "3",
        "order": "true",
        "rate": "1.5",
        "huge": "123456789012345678901234567890",
        "list": '[1,{"é":18446744073709551616}]',
    }
    assert (command.code, command.language, command.opaque, command.version) == (11, "GO", -1, 317)
    assert command.body == b"body"


@pytest.mark.parametrize(
    ("language", "name"),
    [(b'"RUST"', "RUST"), (b"3", "PYTHON"), (b"77", "OTHER"), (b"null", "OTHER"), (b"{}", "OTHER")],
)
def test_it_reads_languages_by_name_and_by_number(language: bytes, name: str) -> None:
    assert decode_frame(frame(b'{"code":34,"language":' + language + b"}")).language == name


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no room"),
        (b"\x00\x00\x00", "no room"),
        (struct.pack(">I", 5) + b"{}", "header of 5 bytes in a frame of 6"),
        (frame(b""), "JSON header"),
        (frame(b"[]"), "JSON header"),
        (frame(b'{"opaque":1}'), "code"),
        (frame(b'{"code":34'), "JSON header"),
        (frame(b'{"code":34}x'), "trailing"),
        (frame(b'{"code":"abc"}'), "JSON header"),
        (frame(b'{"code":2147483648}'), "32-bit"),
        (frame(b'{"code":1,"opaque":-2147483649}'), "32-bit"),
        (frame(b'{"code":1,"flag":99999999999999999999}'), "32-bit"),
        (frame(b'{"code":1,"extFields":{"a":"\xff"}}'), "JSON header"),
        (frame(b'{"code":1,"extFields":{"a":"\\ud800"}}'), "JSON header"),
        (frame(b'{"code":1,"extFields":[]}'), "JSON header"),
        (frame(b'{"code":1,"extFields":{"a":' + b"9" * 5000 + b"}}"), "JSON header"),
        (frame(b'{"code":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "JSON header"),
        (frame(BINARY[8:-2], serialize_type=2), "serialize type 2"),
        (b"\x16\x03\x01\x02" + bytes(1000), "header of 196866 bytes"),
        (frame(b"\x00" * 12, serialize_type=1), "binary header"),
        (frame(BINARY[8:21] + b"\xff\xff\xff\xff" + bytes(4), serialize_type=1), "-1 bytes"),
        (frame(BINARY[8:21] + b"\x7f\xff\xff\xff" + bytes(4), serialize_type=1), "2147483647 bytes"),
        (frame(BINARY[8:21] + bytes(4) + b"\x00\x00\x00\x03\x00\x09k", serialize_type=1), "key of 9 bytes"),
        (frame(BINARY[8:21] + bytes(4) + b"\x00\x00\x00\x03\xff\xffk", serialize_type=1), "key of -1 bytes"),
        (frame(BINARY[8:21] + bytes(4) + b"\x00\x00\x00\x01\x00", serialize_type=1), "binary header"),
        (frame(BINARY[8:21] + b"\x00\x00\x00\x01\xff" + bytes(4), serialize_type=1), "binary header"),
    ],
)
def test_it_refuses_malformed_frames(data: bytes, reason: str) -> None:
    with pytest.raises(RemotingCommandError, match=reason):
        decode_frame(data)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(
        RemotingCommand,
        code=st.integers(-(2**15), 2**15 - 1),
        language=st.sampled_from(["JAVA", "PYTHON", "GO", "NODE_JS"]),
        version=st.integers(0, 2**15 - 1),
        opaque=INT32,
        flag=INT32,
        remark=st.none() | TEXT.filter(bool),
        ext_fields=st.dictionaries(TEXT.filter(bool), TEXT, max_size=6),
        body=st.binary(max_size=50),
        serialize_type=st.sampled_from(SerializeType),
    )
)
def test_it_decodes_whatever_it_encodes(command: RemotingCommand) -> None:
    data = command.encode()
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode_frame(data[4:]) == command


@given(st.binary(max_size=300), st.sampled_from([0, 1, 2, 255]))
@example(b'{"code":1,"extFields":{"a":{"b":[1]}}}', 0)
def test_it_raises_nothing_but_the_documented_error(data: bytes, serialize_type: int) -> None:
    for header_length in (len(data), len(data) // 2, len(data) + 1):
        frame_bytes = struct.pack(">I", serialize_type << 24 | header_length) + data
        try:
            command = decode_frame(frame_bytes)
        except RemotingCommandError:
            continue
        assert decode_frame(command.encode()[4:]) == command


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["code", "language", "version", "opaque", "flag", "remark", "extFields", "other"]),
        JSON_VALUES | st.integers(0, 400) | st.dictionaries(TEXT, JSON_VALUES, max_size=4),
        max_size=8,
    )
)
def test_it_raises_nothing_else_for_any_json(header: dict[str, object]) -> None:
    try:
        command = decode_frame(frame(json.dumps(header).encode()))
    except RemotingCommandError:
        return
    assert decode_frame(command.encode()[4:]).ext_fields == command.ext_fields
    assert all(isinstance(value, str) for value in command.ext_fields.values())
