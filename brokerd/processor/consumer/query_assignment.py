"""Requests of server-side rebalancing: QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401) and our extensions.

Source: semantics §8.4, protocol §6.5 (`QueryAssignmentProcessor.java`), docs/wire-extensions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from brokerd.clients.consumer_manager import BROADCASTING
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.processor.client.client_notify import notify_group
from brokerd.remoting.body.assignment import (
    AssignmentBody,
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import Permission, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.names import LIGHT_QUEUE_ID, RETRY_TOPIC_PREFIX, is_light
from brokerd.remoting.message.queue import MessageQueue
from brokerd.tables.assignment import SERVER_STRATEGIES, Assignment, MessageRequestMode, pop_queues

PULL, POP = "PULL", "POP"
TOPICS_REMEMBERED = 64  # with 100,000 queues at most
# What GET_CAPABILITIES (75002) lists; Apache brokers answer it with code 3.
CAPABILITIES = ("assignment", "pop")


def query_assignment(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """Answer which queues one member is to consume, once the topic's route is known (it may be remote)."""
    request = QueryAssignmentRequestBody.from_request(command.body)

    async def answer() -> None:
        route = await broker.topic_route(request.topic)
        channel.send(command.response(ResponseCode.SUCCESS, body=assignment_body(broker, request, route)))

    broker.spawn(answer())
    return None


def subscribe_queues(topic: str, route: TopicRouteData | None) -> tuple[MessageQueue, ...]:
    """Return the readable queues in order; the same object for all members that request it within a moment."""
    if route is None:
        return ()
    readable = [queue for queue in route.queue_datas if queue.perm & Permission.READ]
    return queues_of(topic, tuple(sorted((queue.broker_name, queue.read_queue_nums) for queue in readable)))


@lru_cache(maxsize=TOPICS_REMEMBERED)
def queues_of(topic: str, brokers: tuple[tuple[str, int], ...]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, name, queue_id) for name, count in brokers for queue_id in range(count))


def assignment_body(
    broker: Broker, request: QueryAssignmentRequestBody, route: TopicRouteData | None
) -> bytes:
    """Return the answer's body; `{}` (no assignment) keeps the member's queues as they are."""
    topic, group = request.topic, request.consumer_group
    queues = subscribe_queues(topic, route)
    if is_light(topic) and broker.topics.get(topic) is not None:
        queues = (MessageQueue(topic, broker.broker_name, LIGHT_QUEUE_ID),)  # it has no route
    mode = broker.assignments.mode(topic, group)
    owned: Sequence[MessageQueue] | None
    if request.message_model == BROADCASTING:
        owned = queues or None
    else:
        info = broker.consumers.get(group)
        client_ids = info.client_ids() if info is not None else []
        client_id, strategy = request.client_id, request.strategy_name
        if mode.mode == POP:
            owned = pop_queues(queues, client_ids, client_id, strategy, mode.pop_share_queue_num)
        else:
            has_canary = broker.assignments.has_canary(topic, group)
            versions = info.versions() if info is not None and has_canary else {}
            owned = broker.assignments.query(topic, group, client_id, strategy, queues, client_ids, versions)
    if owned is None:
        return b"{}"
    return QueryAssignmentResponseBody(
        message_queue_assignments=[
            MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in owned
        ]
    ).to_body()


def set_message_request_mode(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> Saved:
    request = SetMessageRequestModeRequestBody.from_request(command.body)
    topic, group = request.topic, request.consumer_group
    if topic.startswith(RETRY_TOPIC_PREFIX):
        raise error_for(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.get(topic) is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if broker.groups.get(group) is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
    if request.mode not in (PULL, POP):
        raise error_for(ResponseCode.INVALID_PARAMETER, f"mode={request.mode}: takes {PULL} or {POP}")
    broker.assignments.set_mode(topic, group, MessageRequestMode(request.mode, request.pop_share_queue_num))
    return Saved(command.response(ResponseCode.SUCCESS))


def get_all_message_request_mode(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return command.response(ResponseCode.SUCCESS, body=broker.assignments.modes_body())


def put_assignment(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """TIDEMARK_PUT_ASSIGNMENT (75001): store what the console computed; notify the members when it changes."""
    request = AssignmentBody.from_request(command.body)
    topic, group = request.topic, request.group
    if broker.topics.get(topic) is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if broker.groups.get(group) is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
    queues_of = {client_id: tuple(sorted(queues)) for client_id, queues in request.assignments.items()}
    owned = [queue for queues in queues_of.values() for queue in queues]
    if len(set(owned)) != len(owned) or any(queue.topic != topic for queue in owned):
        raise error_for(
            ResponseCode.INVALID_PARAMETER, "a queue is assigned twice, or belongs to another topic"
        )
    try:
        placement = request.placement.to_placement() if request.placement is not None else None
    except ValueError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, f"placement: {error}") from None
    changed = broker.assignments.put(topic, group, Assignment(request.version, queues_of, placement))
    info = broker.consumers.get(group)
    if changed and info is not None:
        notify_group(broker, info)
    return Saved(command.response(ResponseCode.SUCCESS, ext_fields={"changed": str(changed).lower()}))


def get_capabilities(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """TIDEMARK_GET_CAPABILITIES (75002)."""
    return command.response(
        ResponseCode.SUCCESS,
        ext_fields={
            "product": "tidemark-brokerd",
            "capabilities": ",".join(CAPABILITIES),
            "strategies": ",".join(SERVER_STRATEGIES),
        },
    )


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.QUERY_ASSIGNMENT: query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_message_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: get_all_message_request_mode,
    RequestCode.TIDEMARK_PUT_ASSIGNMENT: put_assignment,
    RequestCode.TIDEMARK_GET_CAPABILITIES: get_capabilities,
}
