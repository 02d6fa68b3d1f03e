"""MQAdmin's calls about groups, their members, and who reads which queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.assignment import (
    AssignmentBody,
    MessageRequestModeWrapper,
    PlacementBody,
    SetMessageRequestModeRequestBody,
)
from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerListBody,
    ConsumerRunningInfo,
    ProducerConnection,
)
from brokerd.remoting.body.group import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement
from consumers.admin.calls import AdminCalls, checked
from consumers.admin.group_refusals import GroupRefusals, group_refusals


class GroupAdmin(AdminCalls):
    """Calls about groups and their members."""

    async def all_subscription_groups(self, addr: str) -> SubscriptionGroupWrapper:
        """Return every group's configuration. GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return SubscriptionGroupWrapper.from_body(body)

    async def create_subscription_group(self, addr: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a group. UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200)."""
        await self._ask(addr, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_body())

    async def delete_subscription_group(self, addr: str, group: str, *, clean_offset: bool = False) -> None:
        """DELETE_SUBSCRIPTIONGROUP (207); with `clean_offset` its committed offsets go too."""
        fields = {"groupName": group, "cleanOffset": "true" if clean_offset else "false"}
        await self._ask(addr, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    async def group_refusals(self, addr: str) -> GroupRefusals:
        """Return what this broker refuses which groups, out of its table of all groups.

        Their settings are not built: of 10,000 groups they are most of the cost.
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).
        """
        body = await self._ask_body(addr, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return group_refusals(fastjson.loads(body))

    async def group_forbidden(
        self, addr: str, group: str, topic: str, *, readable: bool | None = None
    ) -> GroupForbidden:
        """Whether the group may read the topic on this broker; with `readable` allow or forbid it first.

        Code 3 before 5.0. Java drops all topics of a group when one is allowed again.
        UPDATE_AND_GET_GROUP_FORBIDDEN (353).
        """
        fields = {"group": group, "topic": topic}
        if readable is not None:
            fields["readable"] = str(readable).lower()
        body = await self._ask_body(addr, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)
        return GroupForbidden.from_body(body)

    async def consumer_connection(self, addr: str, group: str) -> ConsumerConnection | None:
        """Return members and subscriptions; None when no member is online (206). GET_CONSUMER_CONNECTION_LIST (203)."""
        fields = {"consumerGroup": group}
        response = await self._invoke(addr, RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
        if response.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        return ConsumerConnection.from_body(checked(response).body)

    async def producer_connection(
        self, addr: str, producer_group: str, topic: str
    ) -> ProducerConnection | None:
        """Return members of a producer group; None when it is unknown (1). GET_PRODUCER_CONNECTION_LIST (204)."""
        fields = {"producerGroup": producer_group, "topic": topic}
        response = await self._invoke(addr, RequestCode.GET_PRODUCER_CONNECTION_LIST, fields)
        if response.code == ResponseCode.SYSTEM_ERROR:
            return None
        return ProducerConnection.from_body(checked(response).body)

    async def consumer_running_info(
        self, addr: str, group: str, client_id: str, *, jstack: bool = False
    ) -> ConsumerRunningInfo:
        """Return what a member reports, relayed by the broker; with ``jstack`` its threads too, where it can.

        GET_CONSUMER_RUNNING_INFO (307).
        """
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": str(jstack).lower()}
        return ConsumerRunningInfo.from_body(
            await self._relayed(addr, RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        )

    async def consumer_ids(self, addr: str, group: str) -> list[str]:
        """Return client ids of the members, sorted; empty when no member is online (1).

        GET_CONSUMER_LIST_BY_GROUP (38).
        """
        response = await self._invoke(addr, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        if response.code == ResponseCode.SYSTEM_ERROR:
            return []
        return sorted(ConsumerListBody.from_body(checked(response).body).consumer_id_list)

    async def consume_message_directly(
        self, addr: str, group: str, client_id: str, offset_message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Let one member consume one stored message now; nothing is committed.

        CONSUME_MESSAGE_DIRECTLY (309).
        """
        fields = {"consumerGroup": group, "clientId": client_id, "msgId": offset_message_id}
        return ConsumeMessageDirectlyResult.from_body(
            await self._relayed(addr, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
        )

    async def put_assignment(
        self,
        addr: str,
        group: str,
        topic: str,
        assignment: Mapping[str, Sequence[MessageQueue]],
        version: int,
        placement: Placement | None = None,
    ) -> None:
        """Store who reads which queue (client id → queues); members are notified.

        `placement`: what it was computed by, for when members change. TIDEMARK_PUT_ASSIGNMENT (75001).
        """
        queues_of = {client_id: list(queues) for client_id, queues in assignment.items()}
        body = AssignmentBody(group=group, topic=topic, assignments=queues_of, version=version)
        if placement:
            body.placement = PlacementBody.of(placement)
        await self._ask(addr, RequestCode.TIDEMARK_PUT_ASSIGNMENT, body=body.to_body())

    async def set_message_request_mode(
        self, addr: str, topic: str, group: str, mode: str, pop_share_queue_num: int = 0
    ) -> None:
        """Set whether server-side assignment makes members PULL or POP. SET_MESSAGE_REQUEST_MODE (401)."""
        body = SetMessageRequestModeRequestBody(topic, group, mode, pop_share_queue_num)
        await self._ask(addr, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.to_body())

    async def message_request_modes(
        self, addr: str
    ) -> dict[str, dict[str, SetMessageRequestModeRequestBody]]:
        """What was set by 401: topic → group → mode; who is not in it has the broker's default.

        Code 3 before 5.0. GET_ALL_MESSAGE_REQUEST_MODE (402).
        """
        body = await self._ask_body(addr, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        return MessageRequestModeWrapper.from_body(body).message_request_mode_map
