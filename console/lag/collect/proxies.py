"""Find members that are connected through proxies of RocketMQ 5, which no broker lists.

A proxy beside the brokers (cluster mode) registers its clients with no broker. Proxies share them by messages of one
topic, a message for each heartbeat of a member, which gRPC clients send every 10 s and others every 30 s
(HeartbeatSyncer.java, HeartbeatSyncerData.java): its newest messages are the members. Clients of a proxy inside a
broker (local mode) are listed by that broker like any others.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from console.brokers.mqadmin import PROXY_TOPIC, BlockingMQAdmin, MQAdmin, MQBrokerError, ResponseCode
from console.lag.collect.version import version_name
from console.lag.rows.popped import CONSUME_POP

# One and a half of the longest interval between two heartbeats.
FRESH_MS = 45_000
# Of one broker and sweep: 1,000 members that send every 10 s make 4,500 in that time.
MESSAGES_MAX = 8_000
DEADLINE_MS = 4_000
UNREGISTER = "UNREGISTER"
# ChannelProtocolType of a gRPC client (RemoteChannelSerializer.java).
GRPC = "GRPC_V2"


class _Subscription(msgspec.Struct, rename="camel"):
    topic: str
    sub_string: str = "*"
    expression_type: str | None = "TAG"


class _Channel(msgspec.Struct, rename="camel"):
    """Of a client; `extend_attribute` of a gRPC client are its `_Settings`, once it has sent them; of others a list."""

    remote_proxy_ip: str = ""
    remote_address: str = ""
    type: str = ""
    extend_attribute: str = ""


class _UserAgent(msgspec.Struct, frozen=True):
    language: str = ""
    version: str = ""


class _Settings(msgspec.Struct, rename="camel"):
    user_agent: _UserAgent = _UserAgent()


class _Heartbeat(msgspec.Struct, rename="camel"):
    """A body of the topic; a proxy's id is `ADDRESS%PORT%PORT`."""

    heartbeat_type: str
    client_id: str
    group: str
    language: str | None = ""
    version: int = 0
    consume_type: str | None = None
    message_model: str | None = None
    local_proxy_id: str = ""
    subscription_data_set: list[_Subscription] | None = None
    channel_data: str = "{}"


class ProxyMember(NamedTuple):
    """A member as its proxy reports it; `subscription` is {topic: {"expression", "type"}}, `version` a release."""

    proxy: str
    address: str
    language: str
    version: str
    model: str
    consume_type: str
    subscription: Mapping[str, Mapping[str, str]]


Members = dict[tuple[str, str], ProxyMember]


def members_of(bodies: Iterable[bytes]) -> Members:
    """Return (group, client id) → member, from heartbeats in the order they were stored. Pure."""
    found: Members = {}
    for body in bodies:
        try:
            heartbeat = msgspec.json.decode(body, type=_Heartbeat)
            channel = msgspec.json.decode(heartbeat.channel_data or "{}", type=_Channel)
            settings = _settings(channel)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Written by something else, or by a release that we do not know.
            continue
        key = heartbeat.group, heartbeat.client_id
        if heartbeat.heartbeat_type == UNREGISTER:
            found.pop(key, None)
            continue
        found[key] = _member(heartbeat, channel, settings.user_agent)
    return found


def _settings(channel: _Channel) -> _Settings:
    if channel.type != GRPC or not channel.extend_attribute:
        return _Settings()
    return msgspec.json.decode(channel.extend_attribute, type=_Settings)


def _member(heartbeat: _Heartbeat, channel: _Channel, agent: _UserAgent) -> ProxyMember:
    # In the name of a gRPC client the proxy writes its own version and a consume type of remoting: all of them pop.
    is_grpc = channel.type == GRPC
    return ProxyMember(
        proxy=channel.remote_proxy_ip or heartbeat.local_proxy_id.partition("%")[0],
        address=channel.remote_address.removeprefix("/"),
        language=agent.language or heartbeat.language or "",
        version=agent.version if is_grpc else version_name(heartbeat.version),
        model=heartbeat.message_model or "",
        consume_type=CONSUME_POP if is_grpc else heartbeat.consume_type or "",
        subscription={
            one.topic: {"expression": one.sub_string, "type": one.expression_type or "TAG"}
            for one in heartbeat.subscription_data_set or ()
        },
    )


def read_members(admin: BlockingMQAdmin, brokers: Mapping[str, int]) -> Members | None:
    """Read the members behind proxies, None where that failed; `brokers` is address → the time by its clock."""
    calls = {addr: partial(_read, addr=addr, now_ms=now_ms) for addr, now_ms in brokers.items()}
    found: list[tuple[int, bytes]] = []
    for answer in admin.gather(calls, deadline_ms=DEADLINE_MS).values():
        if isinstance(answer, Exception):
            return None
        found += answer
    return members_of(body for _, body in sorted(found, key=lambda one: one[0]))


async def _read(admin: MQAdmin, *, addr: str, now_ms: int) -> Sequence[tuple[int, bytes]]:
    """Return (when it was stored, body) of the fresh messages of a broker."""
    try:
        table = (await admin.topic_stats(addr, PROXY_TOPIC)).offset_table
    except MQBrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return ()
        raise
    found: list[tuple[int, bytes]] = []
    for queue, offsets in table.items():
        if offsets.last_update_timestamp < now_ms - FRESH_MS:
            continue
        at = await admin.search_offset(addr, PROXY_TOPIC, queue.queue_id, now_ms - FRESH_MS)
        at = max(at, offsets.max_offset - MESSAGES_MAX)
        while at < offsets.max_offset:
            result = await admin.pull(addr, PROXY_TOPIC, queue.queue_id, at)
            if not result.messages:
                break
            found += [
                (one.store_timestamp_ms, one.decoded_body())
                for one in result.messages
                if one.store_timestamp_ms >= now_ms - FRESH_MS
            ]
            at = result.next_begin_offset
    return found
