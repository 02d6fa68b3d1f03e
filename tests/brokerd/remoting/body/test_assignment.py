from __future__ import annotations

from brokerd.remoting.body.assignment import (
    AssignmentBody,
    QueryAssignmentResponseBody,
)
from brokerd.remoting.message.queue import MessageQueue

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def test_it_tells_no_assignment_from_an_empty_one() -> None:
    assert QueryAssignmentResponseBody.from_body(b"{}").message_queue_assignments is None
    assert (
        QueryAssignmentResponseBody.from_body(b'{"messageQueueAssignments":[]}').message_queue_assignments
        == []
    )
    assert QueryAssignmentResponseBody().to_body() == b"{}"


def test_it_reads_and_writes_our_own_assignment() -> None:
    body = AssignmentBody("G", "T", {"c1": [Q0, Q1], "c2": []}, 7)
    assert AssignmentBody.from_body(body.to_body()) == body
    assert body.to_body() == (
        b'{"assignments":{"c1":[{"brokerName":"broker-a","queueId":0,"topic":"T"},'
        b'{"brokerName":"broker-a","queueId":1,"topic":"T"}],"c2":[]},"group":"G","topic":"T","version":7}'
    )
