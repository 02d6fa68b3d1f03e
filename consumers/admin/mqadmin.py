"""MQAdmin: every call the console makes to name servers and brokers, of 4.x and 5.x, ours and Apache's.

Calls with an `addr` go to that broker; the others to the name servers. Every call raises
    MQBrokerError       the broker answered with another code than success (subclasses per code, `retriable`)
    BrokerUnavailable   it cannot be reached, or the connection broke
    RemotingTimeout     no answer within `timeout_ms`
    RemotingError       the answer is not what the protocol allows
Request and answer forms: protocol sections 3 and 5. An MQAdmin belongs to the event loop it is used in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.assignment import (
    AssignmentBody,
    MessageRequestModeWrapper,
    SetMessageRequestModeRequestBody,
)
from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerListBody,
    ConsumerRunningInfo,
    ProducerConnection,
    SubscriptionData,
)
from brokerd.remoting.body.group import (
    GroupForbidden,
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from brokerd.remoting.body.route import ClusterInfo, TopicRouteData
from brokerd.remoting.body.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList, TopicStatsTable
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, RemotingError, error_for
from brokerd.remoting.header.headers import OffsetResponseHeader
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord, decode_record, decode_records
from consumers.admin.brokers import BrokerAdmin, checked
from consumers.admin.group_refusals import GroupRefusals, group_refusals
from consumers.client.capability import parse_capabilities
from consumers.client.remoting_client import NEVER_S, PIPELINE_WINDOW, RemotingClient
from consumers.client.route import NameServers
from consumers.client.subscription import check_body
from consumers.clock import system_clock
from consumers.config import INVOKE_TIMEOUT_MS, RemotingClientConfig
from consumers.consumer.pull_result import PullResult, pull_request, pull_result
from consumers.errors import MQClientError
from consumers.producer.send_result import SendResult, send_request, send_result

# MixAll.TOOLS_CONSUMER_GROUP: every broker has this group, so that browsing creates none.
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
# MixAll.CLIENT_INNER_PRODUCER_GROUP
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
# Long.MAX_VALUE: no upper bound of a time range
END_OF_TIME_MS = 2**63 - 1
# A relayed request (307, 223, 309) waits for a client behind the broker, which allows it 5 to 10 s.
RELAY_TIMEOUT_MS = 12_000


class MQAdmin(BrokerAdmin):
    """`async with MQAdmin(["127.0.0.1:9876"]) as admin:`. Calls may run at once; those to one broker are
    pipelined."""

    def __init__(
        self,
        namesrv_addrs: str | Sequence[str],
        timeout_ms: int = INVOKE_TIMEOUT_MS,
        config: RemotingClientConfig | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self._remoting = RemotingClient(config)
        self._name_servers = NameServers(self._remoting, namesrv_addrs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._remoting.close()

    @property
    def namesrv_addrs(self) -> list[str]:
        return list(self._name_servers.addrs)

    # Cluster and routes: name servers

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, their brokers and addresses. GET_BROKER_CLUSTER_INFO (106)."""
        return ClusterInfo.from_body(await self._ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO))

    async def topic_list(self) -> list[str]:
        """Return all topic names, sorted, system topics included. GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
        body = await self._ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.from_body(body).topic_list)

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Return which brokers hold the topic. Raises TopicNotExist (17). GET_ROUTEINFO_BY_TOPIC (105)."""
        return await self._name_servers.topic_route(topic, self.timeout_ms)

    async def delete_topic_in_namesrv(self, topic: str) -> None:
        """Delete the topic's route on every name server. DELETE_TOPIC_IN_NAMESRV (216)."""
        for addr in self._name_servers.addrs:
            await self._ask(addr, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})

    # Whole tables of a broker

    async def all_topic_config(self, addr: str) -> TopicConfigSerializeWrapper:
        """Return every topic's configuration. GET_ALL_TOPIC_CONFIG (21)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_TOPIC_CONFIG)
        return TopicConfigSerializeWrapper.from_body(body)

    async def all_subscription_groups(self, addr: str) -> SubscriptionGroupWrapper:
        """Return every group's configuration. GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return SubscriptionGroupWrapper.from_body(body)

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

    # Topics of a broker

    async def topic_stats(self, addr: str, topic: str) -> TopicStatsTable:
        """Return min and max offset and last write per queue. Raises TopicNotExist (17). GET_TOPIC_STATS_INFO
        (202)."""
        body = await self._ask_body(addr, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        return TopicStatsTable.from_body(body)

    async def topic_stats_many(
        self, addr: str, topics: Iterable[str]
    ) -> dict[str, TopicStatsTable | Exception]:
        """`topic_stats` of many topics, pipelined on one connection; each topic has its table or its
        error."""
        bodies = await self.topic_stats_bodies(addr, topics)
        return {name: _topic_stats_outcome(body) for name, body in bodies.items()}

    async def topic_stats_bodies(self, addr: str, topics: Iterable[str]) -> dict[str, bytes | Exception]:
        """Return the same as the broker sent them, to be read later: `TopicStatsTable`s."""
        names = list(topics)
        requests = [
            RemotingCommand.request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": name}) for name in names
        ]
        answers = await self._remoting.invoke_many(addr, requests, self.timeout_ms)
        return {name: _body_outcome(answer) for name, answer in zip(names, answers, strict=True)}

    async def topic_config(self, addr: str, topic: str) -> TopicConfig:
        """GET_TOPIC_CONFIG (351), or from GET_ALL_TOPIC_CONFIG where 351 is unknown (4.x). Raises
        TopicNotExist."""
        try:
            body = await self._ask_body(addr, RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
        except MQBrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            config = (await self.all_topic_config(addr)).topic_config_table.get(topic)
            if config is None:
                raise error_for(
                    ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker, topic: {topic}"
                ) from None
            return config
        return TopicConfig.from_body(body)

    async def create_topic(
        self, addr: str, config: TopicConfig, former_attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic on this broker, or change its queues and permission. UPDATE_AND_CREATE_TOPIC
        (17).

        ``former_attributes`` of a topic that exists: only differences are sent, since 5.x refuses a word
        about an attribute that may not change, even if it stays as it is.
        """
        fields = {
            "topic": config.topic_name,
            "defaultTopic": "TBW102",
            "readQueueNums": str(config.read_queue_nums),
            "writeQueueNums": str(config.write_queue_nums),
            "perm": str(int(config.perm)),
            "topicFilterType": str(config.topic_filter_type),
            "topicSysFlag": str(config.topic_sys_flag),
            "order": "true" if config.order else "false",
            "attributes": changed_attributes(former_attributes or {}, config.attributes),
            "force": "false",
        }
        await self._ask(addr, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    async def delete_topic(self, addr: str, topic: str) -> None:
        """Delete the topic on this broker; `delete_topic_in_namesrv` removes its route.
        DELETE_TOPIC_IN_BROKER (215)."""
        await self._ask(addr, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    async def topic_consumed_by(self, addr: str, topic: str) -> list[str]:
        """Return groups that subscribe to the topic or have offsets in it, sorted. QUERY_TOPIC_CONSUME_BY_WHO
        (300)."""
        body = await self._ask_body(addr, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        return sorted(GroupList.from_body(body).group_list)

    # Groups and clients

    async def create_subscription_group(self, addr: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a group. UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200)."""
        await self._ask(addr, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_body())

    async def delete_subscription_group(self, addr: str, group: str, *, clean_offset: bool = False) -> None:
        """DELETE_SUBSCRIPTIONGROUP (207); with `clean_offset` its committed offsets go too."""
        fields = {"groupName": group, "cleanOffset": "true" if clean_offset else "false"}
        await self._ask(addr, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    async def group_refusals(self, addr: str) -> GroupRefusals:
        """What this broker refuses which groups, out of its table of all groups, whose settings are not built: of
        10,000 groups they are most of the cost. GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return group_refusals(fastjson.loads(body))

    async def group_forbidden(
        self, addr: str, group: str, topic: str, *, readable: bool | None = None
    ) -> GroupForbidden:
        """Whether the group may read the topic on this broker; with `readable` allow or forbid it first. Code 3 before
        5.0. Java drops all topics of a group when one is allowed again. UPDATE_AND_GET_GROUP_FORBIDDEN (353)."""
        fields = {"group": group, "topic": topic}
        if readable is not None:
            fields["readable"] = str(readable).lower()
        body = await self._ask_body(addr, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)
        return GroupForbidden.from_body(body)

    async def consume_stats(self, addr: str, group: str, topic: str | None = None) -> ConsumeStats:
        """Return offsets of the group on this broker. An unstored offset reads 0 here: `all_consumer_offsets` shows
        them
        apart. GET_CONSUME_STATS (208)."""
        fields = {"consumerGroup": group} | ({"topic": topic} if topic else {})
        return ConsumeStats.from_body(await self._ask_body(addr, RequestCode.GET_CONSUME_STATS, fields))

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
        timeout_ms = max(self.timeout_ms, RELAY_TIMEOUT_MS)
        response = await self._invoke(
            addr, RequestCode.GET_CONSUMER_RUNNING_INFO, fields, timeout_ms=timeout_ms
        )
        return ConsumerRunningInfo.from_body(checked(response).body)

    async def consumer_status(
        self, addr: str, group: str, topic: str, client_addr: str = ""
    ) -> GetConsumerStatusBody:
        """Return offsets as the members have them. INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223)."""
        fields = {"topic": topic, "group": group, "clientAddr": client_addr}
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        response = await self._invoke(addr, code, fields, timeout_ms=max(self.timeout_ms, RELAY_TIMEOUT_MS))
        return GetConsumerStatusBody.from_body(checked(response).body)

    async def consumer_ids(self, addr: str, group: str) -> list[str]:
        """Return client ids of the members, sorted; empty when no member is online (1). GET_CONSUMER_LIST_BY_GROUP
        (38)."""
        response = await self._invoke(addr, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        if response.code == ResponseCode.SYSTEM_ERROR:
            return []
        return sorted(ConsumerListBody.from_body(checked(response).body).consumer_id_list)

    async def consume_message_directly(
        self, addr: str, group: str, client_id: str, offset_message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Let one member consume one stored message now; nothing is committed. CONSUME_MESSAGE_DIRECTLY
        (309)."""
        fields = {"consumerGroup": group, "clientId": client_id, "msgId": offset_message_id}
        timeout_ms = max(self.timeout_ms, RELAY_TIMEOUT_MS)
        response = await self._invoke(
            addr, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, timeout_ms=timeout_ms
        )
        return ConsumeMessageDirectlyResult.from_body(checked(response).body)

    # Offsets

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
        SEARCH_OFFSET_BY_TIMESTAMP (29)."""
        fields = {"timestamp": str(timestamp_ms)}
        return await self._ask_offset(addr, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic, queue_id, fields)

    # Messages

    async def view_message(self, addr: str, commit_log_offset: int) -> MessageRecord:
        """Return the message at this place of the commit log. Raises MQBrokerError 1 if none. VIEW_MESSAGE_BY_ID
        (33)."""
        fields = {"offset": str(commit_log_offset)}
        return decode_record(memoryview(await self._ask_body(addr, RequestCode.VIEW_MESSAGE_BY_ID, fields)))

    async def query_message(
        self,
        addr: str,
        topic: str,
        key: str,
        max_num: int = 64,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
        unique_key: bool = False,
    ) -> list[MessageRecord]:
        """Return messages with this key (or this unique key), oldest first; hash collisions are removed.
        QUERY_MESSAGE (12)."""
        fields = {
            "topic": topic,
            "key": key,
            "maxNum": str(max_num),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": "true" if unique_key else "false",
        }
        response = await self._invoke(addr, RequestCode.QUERY_MESSAGE, fields)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        records = decode_records(checked(response).body)
        if unique_key:
            return [record for record in records if record.message_id == key]
        return [record for record in records if record.topic == topic and key in record.keys.split()]

    async def check_filter(
        self,
        addr: str,
        topic: str,
        expression: str,
        expression_type: str = "SQL92",
        *,
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> None:
        """Check whether the broker can read this filter; a pull with one it cannot read gives every message.

        Raises MQBrokerError: 23 for an invalid expression, 1 where the broker filters by tags only.
        CHECK_CLIENT_CONFIG (46).
        """
        subscription = SubscriptionData(topic=topic, sub_string=expression, expression_type=expression_type)
        body = check_body(group, group, subscription)
        await self._ask(addr, RequestCode.CHECK_CLIENT_CONFIG, body=body)

    async def pull(
        self,
        addr: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_num: int = 32,
        subscription: str = "*",
        *,
        expression_type: str = "TAG",
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> PullResult:
        """Read messages without being a member of a group; answers at once. PULL_MESSAGE (11)."""
        request = pull_request(
            MessageQueue(topic, "", queue_id),
            group,
            offset,
            max_num,
            subscription=subscription,
            expression_type=expression_type,
        )
        return pull_result(await self._remoting.invoke(addr, request, self.timeout_ms))

    async def send(
        self, addr: str, message: Message, *, queue_id: int, producer_group: str = INNER_PRODUCER_GROUP
    ) -> SendResult:
        """Send one message to this queue of this broker, once: no retry, so no duplicate. SEND_MESSAGE_V2
        (310)."""
        request = self._send_request(message, queue_id, producer_group)
        return send_result(await self._remoting.invoke(addr, request, self.timeout_ms), message, "")

    async def send_many(
        self,
        addr: str,
        messages: Sequence[tuple[Message, int]],
        *,
        producer_group: str = INNER_PRODUCER_GROUP,
        window: int = PIPELINE_WINDOW,
    ) -> list[SendResult | Exception]:
        """Send (message, queue id) pairs, pipelined, `window` of them unanswered at a time, each once; each
        has its result or its error in its place.

        brokerd stores them in this order; Apache's broker, which works in several threads, in any.
        After RemotingTimeout or BrokerUnavailable that message may be stored or not.
        """
        requests = [self._send_request(message, queue_id, producer_group) for message, queue_id in messages]
        answers = await self._remoting.invoke_many(addr, requests, self.timeout_ms, window=window)
        return [
            _send_outcome(answer, message) for (message, _), answer in zip(messages, answers, strict=True)
        ]

    # Rebalancing; the first two are extensions of brokerd

    async def capabilities(self, addr: str) -> frozenset[str]:
        """Return the names of the extensions this broker has; empty for Apache's. TIDEMARK_GET_CAPABILITIES (75002)."""
        response = await self._invoke(addr, RequestCode.TIDEMARK_GET_CAPABILITIES)
        if response.code != ResponseCode.SUCCESS:
            return frozenset()
        return parse_capabilities(response)

    async def put_assignment(
        self,
        addr: str,
        group: str,
        topic: str,
        assignment: Mapping[str, Sequence[MessageQueue]],
        version: int,
    ) -> None:
        """Store who reads which queue (client id → queues); members are notified. TIDEMARK_PUT_ASSIGNMENT
        (75001)."""
        queues_of = {client_id: list(queues) for client_id, queues in assignment.items()}
        body = AssignmentBody(group=group, topic=topic, assignments=queues_of, version=version)
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
        """What was set by 401: topic → group → mode; who is not in it has the broker's default. Code 3 before 5.0.
        GET_ALL_MESSAGE_REQUEST_MODE (402)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        return MessageRequestModeWrapper.from_body(body).message_request_mode_map

    # inside

    async def _ask_namesrv(self, code: int) -> bytes:
        return checked(await self._name_servers.invoke(code, timeout_ms=self.timeout_ms)).body

    async def _ask_offset(
        self, addr: str, code: int, topic: str, queue_id: int, more: Mapping[str, str] | None = None
    ) -> int:
        fields = {"topic": topic, "queueId": str(queue_id), **(more or {})}
        response = await self._ask(addr, code, fields)
        return OffsetResponseHeader.from_ext_fields(response.ext_fields).offset

    def _send_request(self, message: Message, queue_id: int, producer_group: str) -> RemotingCommand:
        return send_request(
            message,
            message.body,
            queue_id=queue_id,
            broker_name="",
            producer_group=producer_group,
            sys_flag=0,
            born_timestamp_ms=system_clock(),
        )


def changed_attributes(former: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Return attributes as request 17 carries them: `+key=value` for new and changed ones, `-key` for those to go."""
    added = [f"+{key}={value}" for key, value in wanted.items() if former.get(key) != value]
    return ",".join([*added, *(f"-{key}" for key in former if key not in wanted)])


def _body_outcome(answer: RemotingCommand | MQClientError) -> bytes | Exception:
    if isinstance(answer, MQClientError):
        return answer
    try:
        return checked(answer).body
    except MQBrokerError as error:
        return error


def _topic_stats_outcome(body: bytes | Exception) -> TopicStatsTable | Exception:
    if isinstance(body, Exception):
        return body
    try:
        return TopicStatsTable.from_body(body)
    except RemotingError as error:
        return error


def _send_outcome(answer: RemotingCommand | MQClientError, message: Message) -> SendResult | Exception:
    if isinstance(answer, MQClientError):
        return answer
    try:
        return send_result(answer, message, "")
    except MQBrokerError as error:
        return error
