"""Server-side rebalancing: the broker's own division, the console's while it fits, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from brokerd.remoting.allocate import assign_server_side
from brokerd.remoting.body.assignment import (
    AssignmentBody,
    Pin,
    PlacementBody,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from brokerd.tables.assignment import AssignmentManager, MessageRequestMode, pop_queues
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import RawClient, running


def q(*ids: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", i) for i in ids]


async def assigned(client: RawClient, client_id: str, strategy: str = "AVG") -> list[int] | None:
    body = QueryAssignmentRequestBody(
        topic="T", consumer_group="g", client_id=client_id, strategy_name=strategy
    )
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=body.to_body())
    assert answer.code == 0
    found = QueryAssignmentResponseBody.from_body(answer.body).message_queue_assignments
    if found is None:
        return None
    assert {each.mode for each in found} <= {"PULL"}
    return [each.message_queue.queue_id for each in found]


async def put(client: RawClient, version: int, **queues: list[MessageQueue]) -> tuple[int, str]:
    body = AssignmentBody(group="g", topic="T", assignments=queues, version=version).to_body()
    answer = await client.ask(RequestCode.TIDEMARK_PUT_ASSIGNMENT, body=body)
    return answer.code, answer.ext_fields.get("changed", answer.remark or "")


async def test_it_divides_the_queues_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("a", "g", "T")
        await create(client, "T", 4)
        assert await assigned(client, "a") == [0, 1, 2, 3]
        await broker.consumer("b", "g", "T")
        assert (await assigned(client, "a"), await assigned(client, "b")) == ([0, 1], [2, 3])
        assert await assigned(client, "a", "AVG_BY_CIRCLE") == [0, 2]
        # Nothing to tell: the member keeps what it has.
        assert await assigned(client, "stranger") is None
        assert await assigned(client, "a", "CONSISTENT_HASH") is None


async def test_it_serves_the_consoles_assignment_while_it_fits(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = await broker.consumer("a", "g", "T")
        await first.pushed()
        second = await broker.consumer("b", "g", "T")
        for client in (first, second):
            await client.pushed()
        await create(first, "T", 4)
        assert await put(first, 1, a=q(3), b=q(0, 1, 2)) == (0, "true")
        for client in (first, second):
            assert (await client.pushed()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert (await assigned(first, "a"), await assigned(first, "b")) == ([3], [0, 1, 2])
        assert await put(first, 1, a=q(3), b=q(0, 1, 2)) == (0, "false")
        assert await put(first, 0, a=q(0, 1, 2, 3), b=[]) == (0, "false")
        # A member more than it was computed for: the broker divides, until the console catches up.
        await broker.consumer("c", "g", "T")
        assert await assigned(first, "a") == [0, 1]


async def test_it_keeps_assignments_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("a", "g", "T")
        await create(client, "T", 2)
        await put(client, 7, a=q(1, 0))
    async with running(tmp_path) as broker:
        stored = broker.broker.assignments.assignments[("T", "g")]
        assert (stored.version, dict(stored.queues_of)) == (7, {"a": tuple(q(0, 1))})


async def test_it_refuses_assignments_that_cannot_be(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("a", "g", "T")
        assert await put(client, 1, a=q(0)) == (17, "topic[T] not exist")
        await create(client, "T", 2)
        assert (await put(client, 1, a=q(0), b=q(0)))[0] == 29
        assert (await put(client, 1, a=[MessageQueue("Other", "broker-a", 0)]))[0] == 29
        for placement in (PlacementBody(weights={"a": 0}), PlacementBody(canary_version=479)):
            body = AssignmentBody("g", "T", {"a": q(0, 1)}, 1, placement).to_body()
            assert (await client.ask(RequestCode.TIDEMARK_PUT_ASSIGNMENT, body=body)).code == 29
        assert broker.broker.assignments.assignments == {}


async def test_a_drained_client_stays_drained_when_a_member_joins(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = await broker.consumer("a", "g", "T")
        await broker.consumer("b", "g", "T")
        await create(first, "T", 4)
        placement = PlacementBody(pins=[Pin(q(3)[0], "c")], drained=["a"])
        body = AssignmentBody("g", "T", {"a": [], "b": q(0, 1, 2, 3)}, 1, placement).to_body()
        assert (await first.ask(RequestCode.TIDEMARK_PUT_ASSIGNMENT, body=body)).code == 0
        # Computed for a and b, and no console is there: the pin counts as soon as its client is a member.
        await broker.consumer("c", "g", "T")
        shares = [await assigned(first, one) for one in ("a", "b", "c")]
        assert shares[0] == [] and sorted(shares[1] + shares[2]) == [0, 1, 2, 3]
        assert len(shares[1]) == 2 and 3 in shares[2]


async def test_it_takes_both_modes_and_refuses_others(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("a", "g", "T")
        await create(client, "T", 2)

        async def set_mode(mode: str, topic: str = "T") -> int:
            body = SetMessageRequestModeRequestBody(topic=topic, consumer_group="g", mode=mode).to_body()
            return (await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)).code

        assert [await set_mode("PULL"), await set_mode("X"), await set_mode("PULL", "%RETRY%g")] == [
            0,
            29,
            16,
        ]
        assert await set_mode("PULL", "Missing") == 17
        answer = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert b'"mode": "PULL"' in answer.body
        assert await set_mode("POP") == 0
    async with running(tmp_path) as broker:
        assert broker.broker.assignments.modes == {("T", "g"): MessageRequestMode("POP", 0)}


async def test_members_in_pop_mode_share_every_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("a", "g", "T")
        await create(client, "T", 2)
        broker.broker.assignments.set_mode("T", "g", MessageRequestMode("POP", 8))
        body = QueryAssignmentRequestBody(topic="T", consumer_group="g", client_id="a").to_body()
        answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=body)
        assert answer.body == (
            b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":-1,"topic":"T"},'
            b'"mode":"POP"}]}'
        )


@pytest.mark.parametrize(
    ("members", "share", "expected"),
    [
        (["a"], 1, [-1]),
        (["a", "b", "c"], 0, [-1]),
        (["a", "b", "c"], 2, [-1]),
        (["c", "b", "a", "d"], 1, [0, 1]),
        (["a", "b", "c", "d"], 2, [0, 1, 2]),
        (["a", "b", "c", "d", "e", "f"], 1, [0]),
        (["b", "c"], 0, None),
    ],
)
def test_few_members_share_a_queue_when_that_is_set(
    members: list[str], share: int, expected: list[int] | None
) -> None:
    """QueryAssignmentProcessor.allocate4Pop."""
    found = pop_queues(q(0, 1, 2, 3), members, "a", "AVG", share)
    assert (None if found is None else [queue.queue_id for queue in found]) == expected
    assert pop_queues(q(0), ["a"], "a", "CONSISTENT_HASH", 0) is None


async def test_it_tells_its_extensions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.TIDEMARK_GET_CAPABILITIES)
        assert answer.ext_fields["capabilities"] == "assignment,pop"


async def test_it_keeps_nothing_it_cannot_save(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("c1", "g", "T")
        await create(client, "T", queues=2)
        assert await put(client, 1, c1=q(0, 1)) == (0, "true")
        body = AssignmentBody(group="g", topic="T", assignments={"c1": q(1)}, version=4242).to_body()
        odd = body.replace(b"4242", b"9" * 30)  # a number that JSON cannot hold when it is saved
        assert odd != body
        assert (await client.ask(RequestCode.TIDEMARK_PUT_ASSIGNMENT, body=odd)).code == 1
        assert await put(client, 2, c1=q(0), c2=q(1)) == (0, "true")


def test_thousands_of_members_share_one_division(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    divided: list[int] = []

    def counted(queues: object, members: Sequence[str], strategy: str) -> dict[str, list[MessageQueue]]:
        divided.append(len(members))
        return assign_server_side(queues, members, strategy)  # type: ignore[arg-type]

    monkeypatch.setattr("brokerd.tables.assignment.assign_server_side", counted)
    manager = AssignmentManager(tmp_path)
    queues = [MessageQueue("T", "b", number) for number in range(4_000)]
    members = [f"c{number:04}" for number in range(2_000)]
    shares = [manager.query("T", "g", member, "AVG", queues, members) for member in members[:50]]
    assert shares == [queues[2 * number : 2 * number + 2] for number in range(50)]
    assert divided == [2_000]
    members.append("new")
    assert manager.query("T", "g", "new", "AVG", queues, members) == queues[-1:]
    assert manager.query("T", "g", "stranger", "AVG", queues, members) is None
    assert divided == [2_000, 2_001]
