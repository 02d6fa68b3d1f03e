from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.body import fastjson
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 1)
# Written by Java (protocol section 3.2); both directions.
TABLE = [
    pytest.param({"a": 1, "b": [True, None, 2.5, "x"]}, b'{"a":1,"b":[true,null,2.5,"x"]}', id="plain"),
    pytest.param({}, b"{}", id="empty object"),
    pytest.param({"t": [], "u": {}}, b'{"t":[],"u":{}}', id="empty inside"),
    pytest.param(
        {"offsetTable": {QUEUE: 13, MessageQueue("T", "broker-a", 0): 12}},
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:13,'
        b'{"brokerName":"broker-a","queueId":0,"topic":"T"}:12}}',
        id="queue keys",
    ),
    pytest.param(
        {"consumerTable": {"cid2": {QUEUE: 13}}, "messageQueueTable": {}},
        b'{"consumerTable":{"cid2":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:13}},"messageQueueTable":{}}',
        id="queue keys inside",
    ),
    pytest.param(
        {"text": 'tab\t "quoted" / 标签 \x01'},
        '{"text":"tab\\t \\"quoted\\" / 标签 \\u0001"}'.encode(),
        id="text",
    ),
]


@pytest.mark.parametrize(("value", "data"), TABLE)
def test_it_writes_as_java_does(value: Any, data: bytes) -> None:
    assert fastjson.dumps(value) == data


@pytest.mark.parametrize(("value", "data"), TABLE)
def test_it_reads_what_java_writes(value: Any, data: bytes) -> None:
    assert fastjson.loads(data) == value


def test_it_writes_number_keys_bare() -> None:
    assert fastjson.dumps({0: "10.0.0.1:10911", 1: "b"}) == b'{0:"10.0.0.1:10911",1:"b"}'


@pytest.mark.parametrize(
    "data",
    [
        b'{"offsetTable":{"T@g":{0:12,1:13},"U@g":{}},"dataVersion":{"counter":1}}',
        b'{"t":{0:"a:1",1:{2:"b"}}, "u":[1,2]}',
        b'{"t":{0:"x,1:y"},"u":1}',  # a text that looks like a key
        b'{"t":{0:"{1:2}"}}',
        rb'{"t":{0:"a\",5:b"}}',
        b"{'a':1,2:3}",
        b'{0:1,"r":{"$ref":"$.0"}}',
        b'{{"brokerName":"b","queueId":0,"topic":"T"}:{0:1}}',
        b"{0:99999999999999999999}",
    ],
)
def test_it_reads_number_keys_in_bulk_as_one_by_one(data: bytes) -> None:
    assert fastjson.loads(data) == fastjson._Parser(data.decode()).document()


@pytest.mark.parametrize("data", [b"{0:1,}", b"{0:1 1:2}", b'{0:"\xff"}', b"{,0:1}"])
def test_it_refuses_number_keys_that_are_no_body(data: bytes) -> None:
    with pytest.raises(BodyError):
        fastjson.loads(data)


def test_it_sorts_names() -> None:
    assert fastjson.dumps({"b": 1, "a": {"d": 2, "c": 3}}) == b'{"a":{"c":3,"d":2},"b":1}'


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{0:"a",-1:"b","2":"c"}', {"0": "a", "-1": "b", "2": "c"}),
        (b"{'single':'it\\'s'}", {"single": "it's"}),
        (
            b" [ 1 , -2 , 3.5 , 1e3 , true , false , null , { } , [ ] , {0 : 1} ] ",
            [1, -2, 3.5, 1000.0, True, False, None, {}, [], {"0": 1}],
        ),
        (b'{{"a":1,"b":"x"}:2}', {(("a", "1"), ("b", "x")): 2}),
        (b"{[1,2]:3}", {("1", "2"): 3}),
        (b"{true:1,null:2,1.5:3}", {"true": 1, "null": 2, "1.5": 3}),
        (b"{123456789012345678901234567890:1}", {"123456789012345678901234567890": 1}),
    ],
)
def test_it_reads_what_fastjson_tolerates(data: bytes, value: Any) -> None:
    assert fastjson.loads(data) == value


def test_it_reads_a_queue_key_whatever_the_order_of_its_fields() -> None:
    data = b'{{"topic":"T","brokerName":"broker-a","queueId":1}:5}'
    assert fastjson.loads(data) == {QUEUE: 5}


def test_it_resolves_references() -> None:
    """Shared instances, as 315 has them."""
    data = b'{"statsDay":{"avgpt":0.0,"sum":7},"statsHour":{"$ref":"$.statsDay"},"list":[{"a":1},{"$ref":"$.list[0]"}]}'
    assert fastjson.loads(data) == {
        "statsDay": {"avgpt": 0.0, "sum": 7},
        "statsHour": {"avgpt": 0.0, "sum": 7},
        "list": [{"a": 1}, {"a": 1}],
    }


@pytest.mark.parametrize("path", ["$", "..", "@", "$.nowhere", "$.a.b.c", "$.list[9]", "", "$.r"])
def test_it_reads_references_to_nothing_as_null(path: str) -> None:
    data = json.dumps({"a": {"x": 1}, "list": [1], "r": {"$ref": path}}).encode()
    assert fastjson.loads(data)["r"] is None


def test_it_resolves_references_in_the_place_of_keys() -> None:
    queue = b'{"brokerName":"broker-a","queueId":1,"topic":"T"}'
    data = b'{"mq":' + queue + b',"table":{{"$ref":"$.mq"}:1}}'
    assert fastjson.loads(data)["table"] == {QUEUE: 1}


def test_it_leaves_out_entries_whose_key_refers_to_nothing() -> None:
    """fastjson prints some key references as `$.table.null`: the rest of the body must still be read."""
    queue = b'{"brokerName":"broker-a","queueId":1,"topic":"T"}'
    data = b'{"table":{' + queue + b':1,{"$ref":"$.table.null"}:2},"more":3}'
    assert fastjson.loads(data) == {"table": {QUEUE: 1}, "more": 3}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"{1",
        b"{1:",
        b"{1:2",
        b"{1:2,",
        b"{1:2,}",
        b"{1 2}",
        b"[1 2]",
        b"[1,",
        b"{1:2}x",
        b"{1:'x}",
        b'{1:"x}',
        b"{1:nul}",
        b"{1:-}",
        b'{1:"\xff"}',
        b'{1:"\\ud800"}',
        b"{1:" + b"9" * 5000 + b"}",
        b"[" * 2000,
        b"{1:" * 100_000,
        b'{"a":' * 2000 + b'{"$ref":"$"}' + b"}" * 2000,
        b'{"a":' * 100 + b'{"$ref":"$"}' + b"}" * 100,
    ],
)
def test_it_refuses_what_is_no_body(data: bytes) -> None:
    with pytest.raises(BodyError):
        fastjson.loads(data)


def test_it_does_not_blow_up_on_references_to_references() -> None:
    parts = ['"a0":{"x":1}'] + [
        f'"a{n}":[{{"$ref":"$.a{n - 1}"}},{{"$ref":"$.a{n - 1}"}}]' for n in range(1, 60)
    ]
    value = fastjson.loads(("{" + ",".join(parts) + "}").encode())
    assert value["a1"] == [{"x": 1}, {"x": 1}]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
QUEUES = st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 9))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT.filter(lambda key: key != "$ref"), inner, max_size=4)
        | st.dictionaries(QUEUES, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_it_reads_back_what_it_writes(value: Any) -> None:
    assert fastjson.loads(fastjson.dumps(value)) == value


@given(st.dictionaries(st.integers(), TEXT, max_size=4))
def test_it_reads_number_keys_back_as_text(value: dict[int, str]) -> None:
    assert fastjson.loads(fastjson.dumps(value)) == {str(key): text for key, text in value.items()}


@given(st.text("{}[]:,\"'\\0123456789-.eE truefalsn$r\n", max_size=60))
def test_it_raises_nothing_but_the_documented_error(text: str) -> None:
    with contextlib.suppress(BodyError):
        fastjson.loads(text.encode())


@given(st.binary(max_size=60))
def test_it_raises_nothing_else_for_any_bytes(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        fastjson.loads(data)


def test_a_request_in_the_dialect_has_a_limit() -> None:
    small, large = b"{'a':[%s1]}" % (b"1," * 10_000), b"{'a':[%s1]}" % (b"1," * 20_000)
    assert len(fastjson.loads_request(small)["a"]) == 10_001
    with pytest.raises(BodyError, match="body of 40009 bytes is not strict JSON .* up to 32768 bytes"):
        fastjson.loads_request(large)
    assert len(fastjson.loads_request(large.replace(b"'", b'"'))["a"]) == 20_001
    assert len(fastjson.loads_request(large, 65_536)["a"]) == 20_001


def test_a_request_has_few_references() -> None:
    body = b'{"a":{"b":1},"c":[%s1]}' % (b'{"$ref":"$.a"},' * 17)
    with pytest.raises(BodyError, match="17 references, at most 16"):
        fastjson.loads_request(body)
    few = body.replace(b'{"$ref":"$.a"},', b"", 1)
    assert fastjson.loads_request(few)["c"] == [{"b": 1}] * 16 + [1]
