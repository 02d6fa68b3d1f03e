"""The fast way and the plain way give the same answers and the same records, for generated sends."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.remoting.body.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from brokerd.remoting.command import RemotingCommand, SerializeType, decode_frame
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import decode_record
from brokerd.remoting.signature import AccessKeys, sign
from brokerd.tables.topic_config import topic_config
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.processor.send.test_end_transaction import end_fields
from tests.brokerd.running import RunningBroker, pull_fields, running, send_fields

names = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=8)
properties = st.dictionaries(names.filter(bool), names.filter(bool), max_size=4)
known = st.fixed_dictionaries(
    {},
    optional={
        "TAGS": st.sampled_from(["a", "b", "中文"]),
        "KEYS": st.just("k1 k2"),
        "UNIQ_KEY": st.sampled_from(["ABC123", 'odd"key', "Ü"]),
        "DELAY": st.sampled_from(["0", "1", "99", "x"]),
        "WAIT": st.just("true"),
    },
)
ACCESS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"secret"}',
}
VOLATILE = {"opaque"}


def frame(code: int, fields: dict[str, str], body: bytes, *, flag: int = 0, code_first: bool = True) -> bytes:
    """As a Java client writes it; with another key first only the plain way understands it."""
    header: dict[str, object] = {
        "code": code,
        "extFields": fields,
        "flag": flag,
        "language": "JAVA",
        "opaque": 9,
        "version": 479,
    }
    if not code_first:
        header = {"language": "JAVA", **{k: v for k, v in header.items() if k != "language"}}
    data = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(data) + len(body), len(data)) + data + body


def outcome(process: object, data: bytes, store: object) -> tuple[object, list[object]]:
    """(answer without what must differ, the stored records without place and time)."""
    before = store.commit_log_max_offset  # type: ignore[attr-defined]
    channel = MemoryChannel()
    _, replies = process(data, channel)  # type: ignore[operator]
    answers = [decode_frame(reply[4:]) for reply in replies]
    fields = [{k: v for k, v in a.ext_fields.items() if k not in ("msgId", "queueOffset")} for a in answers]
    records, position = [], before
    while position < store.commit_log_max_offset:  # type: ignore[attr-defined]
        view = store.look_message(position)  # type: ignore[attr-defined]
        record = decode_record(view)
        records.append(
            (record.topic, record.queue_id, record.body, record.properties, record.flag, record.sys_flag)
        )
        position += len(view)
    for each in fields:
        if each.get("transactionId") and not records:
            each.pop("transactionId")
    return [(a.code, a.remark, f, a.body) for a, f in zip(answers, fields, strict=True)], records


def make_topics(broker: RunningBroker) -> None:
    """The answer of what makes a topic or a queue waits for their files: not what is compared here."""
    broker.broker.store.table.makes_files_in_thread = False
    for topic in ("T", "U", "%RETRY%g", "%DLQ%g"):
        broker.broker.topics.put(topic_config(topic, 4, 6), 0)


async def test_it_equals_the_plain_way(tmp_path: Path) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog="67108864") as broker:
        make_topics(broker)
        store = broker.broker.store
        fast = broker.controller._dispatcher.process

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            code=st.sampled_from([10, 310, 320]),
            props=properties,
            more=known,
            queue_id=st.sampled_from(["0", "3", "9", "-5", "x"]),
            flag=st.sampled_from([0, 2]),
            topic=st.sampled_from(["T", "U", "%RETRY%g", "bad topic", "TRANS_CHECK_MAX_TIME_TOPIC"]),
            body=st.binary(max_size=40),
            is_batch=st.sampled_from(["true", "false", "TRUE", None]),
        )
        def compare(
            code: int,
            props: dict[str, str],
            more: dict[str, str],
            queue_id: str,
            flag: int,
            topic: str,
            body: bytes,
            is_batch: str | None,
        ) -> None:
            if queue_id == "-5":
                queue_id = "0"  # a random queue differs by nature
            text = "".join(
                f"{k}\x01{v}\x02" for k, v in {**props, **more, "UNIQ_KEY": more.get("UNIQ_KEY", "K")}.items()
            )
            fields = send_fields(topic, queue_id=0, properties=text, e=queue_id)
            if is_batch is not None and code != 10:
                fields["m"] = is_batch
            if is_batch in ("true", "TRUE"):
                body = encode_batch([Message(topic, body, more), Message(topic, b"2", {})])
            if code == 10:
                long = [
                    "producerGroup",
                    "topic",
                    "defaultTopic",
                    "defaultTopicQueueNums",
                    "queueId",
                    "sysFlag",
                ]
                long += ["bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode"]
                fields = dict(zip(long, list(fields.values())[:11], strict=True))
            quick = outcome(fast, frame(code, fields, body, flag=flag), store)
            plain = outcome(fast, frame(code, fields, body, flag=flag, code_first=False), store)
            assert quick == plain

        compare()
        assert broker.broker.stats.broker_put.value > 50


def binary_frame(code: int, fields: dict[str, str], body: bytes, *, flag: int = 0) -> bytes:
    return RemotingCommand(
        code, "JAVA", opaque=9, flag=flag, ext_fields=fields, body=body, serialize_type=SerializeType.ROCKETMQ
    ).encode()


async def test_it_equals_the_plain_way_with_binary_headers(tmp_path: Path) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog="67108864") as broker:
        make_topics(broker)
        store, fast_path = broker.broker.store, broker.controller._hot_path
        fast = broker.controller._dispatcher.process
        taken = []

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            code=st.sampled_from([310, 320]),
            more=known,
            queue_id=st.sampled_from(["0", "3", "9", "x"]),
            flag=st.sampled_from([0, 2]),
            topic=st.sampled_from(["T", "%RETRY%g", "bad topic", "TRANS_CHECK_MAX_TIME_TOPIC"]),
            body=st.binary(max_size=40),
            is_batch=st.sampled_from(["true", "false", None]),
        )
        def compare(
            code: int,
            more: dict[str, str],
            queue_id: str,
            flag: int,
            topic: str,
            body: bytes,
            is_batch: str | None,
        ) -> None:
            text = "".join(f"{k}\x01{v}\x02" for k, v in {"UNIQ_KEY": "K", **more}.items())
            fields = send_fields(topic, properties=text, e=queue_id)
            if is_batch is not None:
                fields["m"] = is_batch
            if is_batch == "true":
                body = encode_batch([Message(topic, body, more), Message(topic, b"2", {})])
            data = binary_frame(code, fields, body, flag=flag)
            quick = outcome(fast, data, store)
            # A field that only a signed request has: the plain way takes it.
            plain = outcome(fast, binary_frame(code, {**fields, "AccessKey": "x"}, body, flag=flag), store)
            assert quick == plain
            taken.append(fast_path.try_frame(data, 0, len(data), MemoryChannel(), 1) is not None)
            fast_path.before_plain(code)

        compare()
        assert taken.count(True) > 20


async def test_it_answers_binary_requests_in_their_form(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        make_topics(broker)
        process = broker.controller._dispatcher.process
        for topic, code in (("T", 0), ("bad topic", 29)):
            _, replies = process(binary_frame(310, send_fields(topic), b"x"), MemoryChannel())
            answer = decode_frame(replies[0][4:])
            assert (answer.serialize_type, answer.code, answer.opaque) == (SerializeType.ROCKETMQ, code, 9)
            assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"


async def test_it_equals_the_plain_way_for_pulls(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.broker.store.table.makes_files_in_thread = False
        fast = broker.controller._dispatcher
        plain = Dispatcher(broker.broker, BROKER_HANDLERS)
        channel = MemoryChannel()
        for i in range(5):
            fast.process(frame(310, send_fields("T", properties=f"TAGS\x01t{i % 2}\x02"), b"x"), channel)
        for offset in (-1, 0, 3, 5, 9):
            for subscription in ("*", "t1", "none", "||"):
                fields = pull_fields("g", "T", offset, subscription=subscription)
                answers = [each.process(frame(11, fields, b""), channel)[1] for each in (fast, plain)]
                assert answers[0] == answers[1] != [[]]


@pytest.mark.parametrize(
    ("change", "records"),
    [
        ({}, 2),
        ({"commitOrRollback": "12"}, 1),
        ({"commitOrRollback": "08", "fromTransactionCheck": "TRUE"}, 2),
        ({"commitOrRollback": "0"}, 0),
        ({"commitOrRollback": "5"}, 0),
        ({"commitOrRollback": "x"}, 0),
        ({"producerGroup": "q"}, 0),
        ({"tranStateTableOffset": "99"}, 0),
        ({"commitLogOffset": "5"}, 0),
    ],
)
async def test_it_equals_the_plain_way_for_ends_of_transactions(
    tmp_path: Path, change: dict[str, str], records: int
) -> None:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01p\x02TAGS\x01a\x02UNIQ_KEY\x01K\x02"
    half = frame(310, send_fields("T", properties=properties, f="4"), b"x")
    async with running(tmp_path) as broker:
        make_topics(broker)
        process, store = broker.controller._dispatcher.process, broker.broker.store
        for flag in (0, 2):
            outcomes = []
            for code_first in (True, False):
                _, (sent,) = process(half, MemoryChannel())
                fields = {**end_fields(decode_frame(sent[4:]), "8", producerGroup="p"), **change}
                end = frame(37, fields, b"", flag=flag, code_first=code_first)
                answers, stored = outcome(process, end, store)
                # The op message names the half message, another one each time.
                outcomes.append((answers, [record[:2] + record[3:] for record in stored]))  # type: ignore[index]
            assert outcomes[0] == outcomes[1]
            assert len(outcomes[0][1]) == records


async def test_it_keeps_its_tag_codes(tmp_path: Path) -> None:
    """What the fast way puts into the consume queue is what a filter looks for."""
    async with running(tmp_path) as broker:
        broker.broker.store.table.makes_files_in_thread = False
        process, channel = broker.controller._dispatcher.process, MemoryChannel()
        for tag in ("TagA", "中文", "TagB"):
            process(frame(310, send_fields("T", properties=f"TAGS\x01{tag}\x02"), tag.encode()), channel)
        found = broker.broker.store.get_message("T", 0, 0, 32, tags_codes=frozenset({2598919, 646394}))
        assert [decode_record(view).body.decode() for view in found.views] == ["TagA", "中文"]


async def test_a_slave_refuses_in_every_form_alike(tmp_path: Path) -> None:
    async with running(tmp_path, brokerRole="SLAVE", brokerId="1") as broker:
        process = broker.controller._dispatcher.process
        answers = []
        for code in (310, 320):
            fields = send_fields("T")
            for data in (
                frame(code, fields, b"x"),
                frame(code, fields, b"x", code_first=False),
                binary_frame(code, fields, b"x"),
            ):
                _, replies = process(data, MemoryChannel())
                answers += [decode_frame(reply[4:]) for reply in replies]
        assert {(answer.code, answer.remark, len(answer.ext_fields)) for answer in answers} == {
            (2, "[REJECTREQUEST]this broker is a slave: send to its master", 0)
        }
        assert len(answers) == 6


def with_key(topic: str) -> dict[str, str]:
    return send_fields(topic, properties="UNIQ_KEY\x01K\x02")


def signed(fields: dict[str, str], body: bytes, keys: AccessKeys) -> dict[str, str]:
    command = RemotingCommand(310, ext_fields=fields, body=body)
    sign(command, keys)
    return command.ext_fields


async def test_signed_sends_go_the_fast_way_with_the_same_refusals(tmp_path: Path) -> None:
    async with running(tmp_path, **ACCESS) as broker:
        make_topics(broker)
        auth, store = broker.broker.access.auth, broker.broker.store
        auth.create_user(UserInfo("alice", "secret"))
        entry = PolicyEntryInfo("Topic:T", ["Pub"], None, "Allow")
        auth.put_acl(AclInfo("User:alice", [PolicyInfo("Custom", [entry])]))
        dispatcher, fast_path = broker.controller._dispatcher, broker.controller._hot_path
        alice, body = AccessKeys("alice", "secret"), b"x"
        allowed = signed(with_key("T"), body, alice)
        for fields, is_fast in (
            (allowed, True),
            ({**allowed, "e": "1"}, False),  # changed after it was signed
            ({**allowed, "Signature": ""}, False),
            (signed(with_key("U"), body, alice), False),
            (signed(with_key("T"), body, AccessKeys("alice", "guessed")), False),
            (signed(with_key("T"), body, AccessKeys("bob", "secret")), False),
            (with_key("T"), False),
        ):
            data = frame(310, fields, body)
            quick = outcome(dispatcher.process, data, store)
            plain = outcome(dispatcher.process, frame(310, fields, body, code_first=False), store)
            assert quick == plain
            assert quick[0][0][0] == (0 if is_fast else 16)  # type: ignore[index]
            reply = fast_path.try_frame(data, 0, len(data), MemoryChannel(), 1)
            assert (reply is not None) == is_fast
            fast_path.before_plain(310)
        # Whichever of two topics is read, it is the same one for the right and for the message.
        twice = frame(310, allowed, body).replace(b'"b":"T"', b'"b":"T","b":"U"')
        twice = struct.pack(">i", len(twice) - 4) + struct.pack(">I", len(twice) - 9) + twice[8:]
        (answer,), records = outcome(dispatcher.process, twice, store)  # type: ignore[misc]
        assert (answer[0], records) == (16, [])
