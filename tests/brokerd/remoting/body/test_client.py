from __future__ import annotations

from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    HeartbeatData,
    ProcessQueueInfo,
)
from brokerd.remoting.message.queue import MessageQueue

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def test_it_reads_what_go_clients_send() -> None:
    """Tag hashes as text, results as ordinals, `dropped` for `droped`."""
    heartbeat = HeartbeatData.from_body(
        b'{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"G","subscriptionDataSet":'
        b'[{"topic":"T","subString":"a","codeSet":["97"],"tagsSet":["a"],"subVersion":"1700000000000"}]}]}'
    )
    assert heartbeat.consumer_data_set[0].subscription_data_set[0].code_set == [97]
    assert heartbeat.consumer_data_set[0].subscription_data_set[0].sub_version == 1_700_000_000_000
    assert (
        ConsumeMessageDirectlyResult.from_body(b'{"consumeResult":4}').consume_result == "CR_THROW_EXCEPTION"
    )
    info = ConsumerRunningInfo.from_body(
        b'{"mqTable":{{"topic":"T","brokerName":"broker-a","queueId":1}:{"commitOffset":3,"dropped":true}}}'
    )
    assert info.mq_table == {Q1: ProcessQueueInfo(commit_offset=3, dropped=True)}
    assert b'"droped":true' in info.to_body()
