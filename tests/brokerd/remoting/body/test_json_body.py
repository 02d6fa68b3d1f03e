from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.body.assignment import (
    AssignmentBody,
    LockBatchResponseBody,
    QueryAssignmentResponseBody,
)
from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerData,
    ConsumerRunningInfo,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    GetConsumerStatusBody,
    OffsetWrapper,
    ResetOffsetBody,
)
from brokerd.remoting.body.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from brokerd.remoting.body.topic import TopicConfig, TopicOffset, TopicStatsTable
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
# Written by Java (protocol sections 3.2, 5.2, 6.1); both directions.
TABLE: list[Any] = [
    pytest.param(
        ConsumeStats({Q1: OffsetWrapper(0, 0, 0, 0), Q0: OffsetWrapper(10, 5, 0, 0)}, 0.0),
        b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"brokerOffset":0,'
        b'"consumerOffset":0,"lastTimestamp":0,"pullOffset":0},{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
        b'{"brokerOffset":10,"consumerOffset":5,"lastTimestamp":0,"pullOffset":0}}}',
        id="ConsumeStats",
    ),
    pytest.param(
        TopicStatsTable({Q0: TopicOffset(0, 0, 0)}, 0.0),
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,'
        b'"minOffset":0}},"topicPutTps":0.0}',
        id="TopicStatsTable",
    ),
    pytest.param(
        ResetOffsetBody({Q1: 13, Q0: 12}),
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:13,'
        b'{"brokerName":"broker-a","queueId":0,"topic":"T"}:12}}',
        id="ResetOffsetBody",
    ),
    pytest.param(
        GetConsumerStatusBody({}, {"cid2": {Q1: 13}}),
        b'{"consumerTable":{"cid2":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:13}},"messageQueueTable":{}}',
        id="GetConsumerStatusBody",
    ),
    pytest.param(
        ClusterInfo(
            {"broker-a": BrokerData("C", "broker-a", {0: "1.1.1.1:10911", 1: "1.1.1.2:10911"})},
            {"C": ["broker-a"]},
        ),
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"1.1.1.1:10911",1:"1.1.1.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"C","enableActingMaster":false}},"clusterAddrTable":{"C":["broker-a"]}}',
        id="ClusterInfo",
    ),
    pytest.param(
        LockBatchResponseBody([Q0]),
        b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}',
        id="LockBatchResponseBody",
    ),
    pytest.param(
        ConsumeMessageDirectlyResult(),
        b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":0}',
        id="ConsumeMessageDirectlyResult",
    ),
    pytest.param(
        TopicRouteData(
            [BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911"})],
            [QueueData("broker-a", 4, 4, 6, 0)],
        ),
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}',
        id="TopicRouteData",
    ),
    pytest.param(
        HeartbeatData(
            "c1",
            [ProducerData("P")],
            [
                ConsumerData(
                    "G",
                    subscription_data_set=[
                        SubscriptionData("T", "a||b", ["a", "b"], [97, 98], sub_version=5)
                    ],
                )
            ],
        ),
        b'{"clientID":"c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":'
        b'"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":'
        b'false,"codeSet":[97,98],"expressionType":"TAG","subString":"a||b","subVersion":5,"tagsSet":["a","b"],'
        b'"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"P"}],'
        b'"withoutSub":false}',
        id="HeartbeatData",
    ),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
SHAPES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
CLASSES = [type(parameter.values[0]) for parameter in TABLE] + [
    ConsumerRunningInfo,
    ConsumerOffsetWrapper,
    AssignmentBody,
]


@pytest.mark.parametrize(("body", "data"), TABLE)
def test_it_writes_as_java_does(body: JsonBody, data: bytes) -> None:
    assert body.to_body() == data


@pytest.mark.parametrize(("body", "data"), TABLE)
def test_it_reads_what_java_writes(body: JsonBody, data: bytes) -> None:
    assert type(body).from_body(data) == body
    assert type(body).from_body(memoryview(data)) == body


def test_it_quotes_broker_ids_in_standard_json() -> None:
    """Clients from 4.9.4 on are answered so (protocol section 5.2)."""
    route = TopicRouteData([BrokerData("C", "b", {1: "y:2", 0: "x:1"})], [])
    assert b'"brokerAddrs":{"0":"x:1","1":"y:2"}' in route.to_body(standard_json=True)
    assert TopicRouteData.from_body(route.to_body(standard_json=True)) == route
    assert route.broker_datas[0].master_addr == "x:1"
    assert BrokerData("C", "b", {1: "y:2"}).master_addr is None


def test_it_takes_null_and_unknown_members_for_absent() -> None:
    config = TopicConfig.from_body(b'{"topicName":"T","perm":null,"whatIsThis":[1],"order":"true"}')
    assert config == TopicConfig("T", order=True)


def test_it_reads_numbers_and_flags_as_text_where_text_is_due() -> None:
    assert KVTable.from_body(b'{"table":{"a":true,"b":false,"c":3,"d":1.5}}').table == {
        "a": "true",
        "b": "false",
        "c": "3",
        "d": "1.5",
    }


@pytest.mark.parametrize(
    ("body_class", "data"),
    [
        (TopicConfig, b""),
        (TopicConfig, b"[]"),
        (TopicConfig, b"1"),
        (TopicConfig, b'{"perm":"rw"}'),
        (TopicConfig, b'{"perm":1e999}'),
        (TopicConfig, b'{"topicName":{}}'),
        (TopicConfig, b'{"attributes":[]}'),
        (ConsumeStats, b'{"offsetTable":[]}'),
        (ConsumeStats, b'{"offsetTable":{"T":{}}}'),
        (ConsumeStats, b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}'),
        (ConsumeStats, b'{"consumeTps":"fast"}'),
        (LockBatchResponseBody, b'{"lockOKMQSet":[{"topic":"T"}]}'),
        (LockBatchResponseBody, b'{"lockOKMQSet":{}}'),
        (ResetOffsetBody, b'{"offsetTable":{"a":1}}'),
        (ResetOffsetBody, b'{"offsetTable":[{}]}'),
        (ResetOffsetBody, b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:"x"}}'),
        (ResetOffsetBody, b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:null}}'),
        (ConsumerOffsetWrapper, b'{"offsetTable":[]}'),
        (ConsumerOffsetWrapper, b'{"offsetTable":{"T@G":{"a":1}}}'),
        (ConsumerOffsetWrapper, b'{"offsetTable":{"T@G":{"1":1e999}}}'),
        (QueryAssignmentResponseBody, b'{"messageQueueAssignments":[{}]}'),
        (KVTable, b'{"table":{"a":[]}}'),
        (ConsumerConnection, b'{"connectionSet":[1]}'),
    ],
)
def test_it_refuses_bodies_of_another_shape(body_class: type[JsonBody], data: bytes) -> None:
    with pytest.raises(BodyError):
        body_class.from_body(data)


@given(st.data())
def test_it_raises_nothing_but_the_documented_error(data: st.DataObject) -> None:
    body_class = data.draw(st.sampled_from(CLASSES))
    members = data.draw(
        st.dictionaries(
            st.sampled_from(sorted(body_class().to_value()) + ["other"]),
            SHAPES
            | st.dictionaries(
                st.builds(MessageQueue, st.just("T"), st.just("b"), st.integers(0, 3)), SHAPES, max_size=2
            ),
            max_size=4,
        )
    )
    try:
        body_class.from_value(members)
    except BodyError:
        return


@pytest.mark.parametrize("number", [b"9223372036854775808", b'"-9223372036854775809"', b"1e999"])
def test_it_refuses_numbers_that_java_could_not_hold(number: bytes) -> None:
    with pytest.raises(BodyError, match=r"64 bits|infinite"):
        SubscriptionGroupConfig.from_body(b'{"groupName":"G","retryMaxTimes":' + number + b"}")
