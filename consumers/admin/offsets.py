"""MQAdmin's calls about offsets: committed by groups, and stored in queues."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.header.headers import OffsetResponseHeader
from consumers.admin.calls import AdminCalls, checked
from consumers.client.channel import NEVER_S


class OffsetAdmin(AdminCalls):
    """Calls about offsets."""

    async def all_consumer_offsets(self, addr: str) -> ConsumerOffsetWrapper:
        """Return every committed offset. GET_ALL_CONSUMER_OFFSET (43)."""
        return ConsumerOffsetWrapper.from_body(await self.all_consumer_offsets_body(addr))

    async def all_consumer_offsets_body(self, addr: str) -> bytes:
        """Return the same as the broker sent it, to be read later: a `ConsumerOffsetWrapper`."""
        return await self._ask_body(addr, RequestCode.GET_ALL_CONSUMER_OFFSET)

    async def broker_consume_stats(self, addr: str) -> ConsumeStatsList:
        """Return offsets and lag of all concurrent groups. GET_BROKER_CONSUME_STATS (317)."""
        fields = {"isOrder": "false"}
        return ConsumeStatsList.from_body(
            await self._ask_body(addr, RequestCode.GET_BROKER_CONSUME_STATS, fields)
        )

    async def consume_stats(self, addr: str, group: str, topic: str | None = None) -> ConsumeStats:
        """Return offsets of the group on this broker.

        An unstored offset reads 0 here: `all_consumer_offsets` shows them apart. GET_CONSUME_STATS (208).
        """
        fields = {"consumerGroup": group} | ({"topic": topic} if topic else {})
        return ConsumeStats.from_body(await self._ask_body(addr, RequestCode.GET_CONSUME_STATS, fields))

    async def consumer_status(
        self, addr: str, group: str, topic: str, client_addr: str = ""
    ) -> GetConsumerStatusBody:
        """Return offsets as the members have them. INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223)."""
        fields = {"topic": topic, "group": group, "clientAddr": client_addr}
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        return GetConsumerStatusBody.from_body(await self._relayed(addr, code, fields))

    async def query_consumer_offset(self, addr: str, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset; None without one (22). QUERY_CONSUMER_OFFSET (14)."""
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "setZeroIfNotFound": "false",
        }
        response = await self._invoke(addr, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return OffsetResponseHeader.from_ext_fields(checked(response).ext_fields).offset

    async def update_consumer_offset(
        self,
        addr: str,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        send_until_s: float = NEVER_S,
    ) -> None:
        """Store a committed offset as a member would. Members that are online overwrite it.

        After ``send_until_s`` of the monotonic clock nothing is sent. UPDATE_CONSUMER_OFFSET (15).
        """
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "commitOffset": str(offset),
        }
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        checked(await self._invoke(addr, code, fields, send_until_s=send_until_s))

    async def reset_offset(
        self,
        addr: str,
        group: str,
        topic: str,
        timestamp_ms: int,
        *,
        queue_id: int = -1,
        offset: int = -1,
        force: bool = True,
        send_until_s: float = NEVER_S,
    ) -> ResetOffsetBody:
        """Move the group on this broker to a time (-1: the end), or one queue to an offset (5.x).

        Members are notified. After ``send_until_s`` of the monotonic clock nothing is sent.
        Raises ConsumerNotOnline (206) where the broker cannot do it offline (4.x).
        INVOKE_BROKER_TO_RESET_OFFSET (222).
        """
        fields = {
            "topic": topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": "true" if force else "false",
            "queueId": str(queue_id),
            "offset": str(offset),
        }
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        response = await self._invoke(addr, code, fields, send_until_s=send_until_s)
        return ResetOffsetBody.from_body(checked(response).body)

    async def min_offset(self, addr: str, topic: str, queue_id: int) -> int:
        """Return the first offset still stored; 0 when empty. GET_MIN_OFFSET (31)."""
        return await self._ask_offset(addr, RequestCode.GET_MIN_OFFSET, topic, queue_id)

    async def max_offset(self, addr: str, topic: str, queue_id: int) -> int:
        """Return the offset the next message will get. GET_MAX_OFFSET (30)."""
        return await self._ask_offset(addr, RequestCode.GET_MAX_OFFSET, topic, queue_id)

    async def search_offset(self, addr: str, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the first offset stored at or after the time (5.1.1+; nearest before that).

        SEARCH_OFFSET_BY_TIMESTAMP (29).
        """
        fields = {"timestamp": str(timestamp_ms)}
        return await self._ask_offset(addr, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic, queue_id, fields)

    async def _ask_offset(
        self, addr: str, code: int, topic: str, queue_id: int, more: Mapping[str, str] | None = None
    ) -> int:
        fields = {"topic": topic, "queueId": str(queue_id), **(more or {})}
        response = await self._ask(addr, code, fields)
        return OffsetResponseHeader.from_ext_fields(response.ext_fields).offset
