from __future__ import annotations

import zlib

import pytest

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.broker import BrokerStatsData, KVTable
from brokerd.remoting.body.client import (
    CheckClientRequestBody,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerListBody,
    ConsumerRunningInfo,
    HeartbeatData,
    ProducerConnection,
    ProducerTableInfo,
)
from brokerd.remoting.body.consume_queue import QueryConsumeQueueResponseBody
from brokerd.remoting.body.group import GroupList, SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from brokerd.remoting.body.route import ClusterInfo, RegisterBrokerBody, TopicRouteData
from brokerd.remoting.body.topic import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicStatsTable,
)
from brokerd.remoting.command import SerializeType, decode_frame
from brokerd.remoting.connection import RemotingConnection
from brokerd.remoting.message.batch import decode_batch
from brokerd.remoting.message.record import decode_records
from tests.brokerd.remoting.golden_frames import GoldenFrame, frames_of, golden_frames

REQUEST_BODIES: dict[int, type[JsonBody]] = {
    18: CreateTopicListRequestBody,
    34: HeartbeatData,
    41: LockBatchRequestBody,
    42: UnlockBatchRequestBody,
    46: CheckClientRequestBody,
    200: SubscriptionGroupConfig,
    220: ResetOffsetBody,
    400: QueryAssignmentRequestBody,
    401: SetMessageRequestModeRequestBody,
}
RESPONSE_BODIES: dict[int, type[JsonBody]] = {
    21: TopicConfigSerializeWrapper,
    28: KVTable,
    38: ConsumerListBody,
    41: LockBatchResponseBody,
    43: ConsumerOffsetWrapper,
    105: TopicRouteData,
    106: ClusterInfo,
    201: SubscriptionGroupWrapper,
    202: TopicStatsTable,
    203: ConsumerConnection,
    204: ProducerConnection,
    206: TopicList,
    208: ConsumeStats,
    221: GetConsumerStatusBody,
    222: ResetOffsetBody,
    223: GetConsumerStatusBody,
    224: TopicList,
    300: GroupList,
    303: QueryConsumeTimeSpanBody,
    305: TopicList,
    307: ConsumerRunningInfo,
    309: ConsumeMessageDirectlyResult,
    315: BrokerStatsData,
    308: QueryCorrectionOffsetBody,
    317: ConsumeStatsList,
    321: QueryConsumeQueueResponseBody,
    328: ProducerTableInfo,
    343: TopicList,
    351: TopicConfig,
    352: SubscriptionGroupConfig,
    400: QueryAssignmentResponseBody,
}
# Members of captured bodies that our bodies leave out, and why that is right.
LEFT_OUT = {
    "groupTopicMap",  # 43 of 5.3.3: derived from offsetTable
    "mappingDataVersion",  # static topics: brokerd has none
    "topicQueueMappingDetailMap",
    "mappingDetail",
    "consumeTimeStampStr",  # display text of a time that stands beside it
    "maxTimeStampStr",
    "minTimeStampStr",
}


def test_it_has_every_code_of_the_spine_from_both_releases() -> None:
    codes = {(frame.version, frame.code) for frame in golden_frames() if frame.is_request}
    needed = {10, 11, 12, 14, 15, 17, 18, 21, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 40, 41, 42, 43, 46}
    needed |= {103, 104, 105, 106, 200, 201, 202, 203, 204, 205, 206, 207, 208, 215, 216, 220, 221, 222, 223}
    needed |= {224, 300, 303, 307, 309, 310, 317, 320, 323, 343, 351, 352, 361, 400, 401, 37, 39}
    assert len(needed) == 60
    assert {(version, code) for version in ("4.9.7", "5.3.3") for code in needed} - codes == set()


def test_it_decodes_every_header() -> None:
    assert len(golden_frames()) == 1046
    for frame in golden_frames():
        command, header = frame.command(), frame.header
        assert command.code == header["code"], frame.name
        assert command.opaque == header["opaque"], frame.name
        assert command.flag == header["flag"], frame.name
        assert command.version == header["version"], frame.name
        assert command.language == header["language"], frame.name
        assert command.ext_fields == (header.get("extFields") or {}), frame.name
        assert (command.remark or "") == (header.get("remark") or ""), frame.name
        assert len(command.body) == frame.manifest["body_length"], frame.name
        assert command.is_response != frame.is_request, frame.name
        assert command.is_oneway == frame.manifest["oneway"], frame.name
        assert command.serialize_type == SerializeType[frame.manifest["serialize"].upper()], frame.name


def test_it_encodes_what_decodes_to_the_same() -> None:
    for frame in golden_frames():
        command = frame.command()
        assert decode_frame(command.encode()[4:]) == command, frame.name


def test_it_writes_binary_frames_as_java_does() -> None:
    """Binary headers have one form only: the bytes must be the same.

    But for signed sends: there Java writes the fields twice, once fast and once out of the map that was signed.
    """
    frames = [frame for frame in golden_frames() if frame.manifest["serialize"] == "rocketmq"]
    twice = [
        f for f in frames if f.code in (310, 320) and f.is_request and "Signature" in f.command().ext_fields
    ]
    assert (len(frames), len(twice)) == (241, 6)
    for frame in frames:
        assert (frame.command().encode() == frame.data) == (frame not in twice), frame.name


def test_it_cuts_a_stream_of_all_frames_wherever_it_is_torn() -> None:
    frames = golden_frames()
    stream = b"".join(frame.data for frame in frames)
    connection = RemotingConnection()
    commands = []
    for start in range(0, len(stream), 1009):
        commands += connection.receive_data(stream[start : start + 1009])
    assert commands == [frame.command() for frame in frames]
    assert connection.buffered_bytes == 0


@pytest.mark.parametrize("code", sorted(REQUEST_BODIES))
def test_it_reads_request_bodies(code: int) -> None:
    frames = [frame for frame in frames_of(code, is_request=True) if is_object(frame)]
    assert frames
    for frame in frames:
        check_body(REQUEST_BODIES[code], frame)


@pytest.mark.parametrize("code", sorted(RESPONSE_BODIES))
def test_it_reads_response_bodies(code: int) -> None:
    frames = [frame for frame in frames_of(code, is_request=False) if is_object(frame)]
    assert frames
    for frame in frames:
        check_body(RESPONSE_BODIES[code], frame)


def is_object(frame: GoldenFrame) -> bool:
    return frame.command().body[:1] == b"{"


def check_body(body_class: type[JsonBody], frame: GoldenFrame) -> None:
    """What Java wrote is read, and what we write of it says the same but for what is left out on purpose."""
    raw = frame.command().body
    body = body_class.from_body(raw)
    assert body_class.from_body(body.to_body()) == body, frame.name
    theirs, ours = fastjson.loads(raw), fastjson.loads(body.to_body())
    assert missing_members(theirs, ours) <= LEFT_OUT, frame.name


def missing_members(theirs: object, ours: object) -> set[str]:
    """The names of members that are in one and not, or with another value, in the other."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        found: set[str] = set()
        for key, value in theirs.items():
            if key not in ours:
                found.add(str(key))
            else:
                found |= missing_members(value, ours[key])
        return found
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return {f"{len(theirs)} items, not {len(ours)}"}
        return set().union(*(missing_members(a, b) for a, b in zip(theirs, ours, strict=True)))
    return set() if theirs == ours else {f"{theirs!r} is {ours!r}"}


def test_it_reads_registrations_plain_and_compressed() -> None:
    plain = [frame.command() for frame in frames_of(103, is_request=True)]
    bodies = [c.body for c in plain if c.ext_fields.get("compressed") != "true" and c.body]
    assert bodies
    topics = set()
    for raw in bodies:
        wrapper = RegisterBrokerBody.from_body(raw).topic_config_serialize_wrapper
        topics |= set(wrapper.topic_config_table)
    assert "TBW102" in topics


def test_it_reads_every_record_and_its_checksum() -> None:
    compressed, records_seen = set(), 0
    for frame in frames_of(11, 12, 33, 361, is_request=False):
        for record in decode_records(frame.command().body, check_crc=True):
            records_seen += 1
            assert record.body_crc == zlib.crc32(record.body) & 0x7FFFFFFF, frame.name
            body = record.decoded_body()
            if record.sys_flag & 1:
                compressed.add(record.sys_flag & 0x700)
                assert len(body) > len(record.body), frame.name
            else:
                assert body == record.body, frame.name
    assert records_seen == 53
    assert compressed == {0x100, 0x200}


def test_it_names_records_as_the_broker_did() -> None:
    """The answer to a send names the message by its offset id; the pulled record must have one of the same form."""
    record = decode_records(frames_of(33, is_request=False)[0].command().body)[0]
    assert record.offset_message_id[:16] == "7F00000100007CA7"  # 127.0.0.1:31911, the captured broker
    assert len(record.offset_message_id) == 32


def test_it_reads_every_batch() -> None:
    counts = []
    for frame in frames_of(320, is_request=True):
        command = frame.command()
        messages = decode_batch(command.body, command.ext_fields["b"])
        assert all(message.body for message in messages), frame.name
        counts.append(len(messages))
    assert set(counts) >= {3}
    assert len(counts) == 16
