"""The name server's requests: registration, routes, cluster information, key-value settings.

Source: protocol §5.1 (`ClientRequestProcessor.java`, `DefaultRequestProcessor.java`).
"""

from __future__ import annotations

import zlib

from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel
from brokerd.namesrv.kv_config import ORDER_TOPIC_CONFIG
from brokerd.namesrv.route_info import BROKER_EXPIRED_MS, BrokerIdentity
from brokerd.processor.broker import NameServer, NamesrvHandler, Saved
from brokerd.remoting.body import fastjson
from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.body.route import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponseBody,
    RegisterBrokerBody,
)
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.route import (
    BrokerNameRequestHeader,
    BrokerRequestHeader,
    DeleteTopicRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetKVListRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    KVConfigRequestHeader,
    PutKVConfigRequestHeader,
    RegisterBrokerRequestHeader,
)

REGISTRATION_DIALECT_BYTES_MAX = 128 * 1024  # about 800 topics; Apache's brokers send strict JSON
ZLIB_FIRST_BYTE = 0x78  # JSON begins with a brace
STANDARD_JSON_VERSION = 401  # V4_9_4: from there on clients read quoted numeric keys
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def register_broker(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """REGISTER_BROKER (103), in JSON or compressed; without a body the broker has no topic of its own."""
    header = RegisterBrokerRequestHeader.from_ext_fields(command.ext_fields)
    if header.body_crc32 and header.body_crc32 not in (
        zlib.crc32(command.body),
        zlib.crc32(command.body) & 0x7FFFFFFF,
    ):
        raise error_for(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    wrapper = registration_of(
        command, is_compressed=header.compressed or False
    ).topic_config_serialize_wrapper
    ha_addr, master_addr = server.routes.register_broker(
        BrokerIdentity(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addr=header.broker_addr,
            broker_id=header.broker_id,
            ha_server_addr=header.ha_server_addr or "",
        ),
        wrapper.topic_config_table.values(),
        wrapper.data_version,
        channel,
        steady_ms(),
        header.heartbeat_timeout_millis or BROKER_EXPIRED_MS,
        # Brokers before version 5 do not send it.
        acts_as_master=header.enable_acting_master is not None,
        mappings=wrapper.topic_queue_mapping_info_map,
    )[::-1]
    ext_fields = {"haServerAddr": ha_addr, "masterAddr": master_addr}
    is_returned = server.config.return_order_topic_config_to_broker
    order_conf = server.kv_config.namespace(ORDER_TOPIC_CONFIG) if is_returned else None
    return command.response(
        ResponseCode.SUCCESS,
        ext_fields={key: value for key, value in ext_fields.items() if value},
        body=KVTable(table=dict(order_conf)).to_body() if order_conf else b"",
    )


def registration_of(command: RemotingCommand, *, is_compressed: bool) -> RegisterBrokerBody:
    if not command.body:
        return RegisterBrokerBody()
    # Brokers of 5.x with compressedRegister=true compress the body and announce that they did not.
    if is_compressed or command.body[0] == ZLIB_FIRST_BYTE:
        return RegisterBrokerBody.from_compressed(bytes(command.body))
    registration = fastjson.loads_request(command.body, REGISTRATION_DIALECT_BYTES_MAX)
    return RegisterBrokerBody.from_value(registration)


def broker_heartbeat(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """BROKER_HEARTBEAT (904): keep a registration alive; as in Java an unknown broker is no error."""
    server.routes.keep_alive(BrokerRequestHeader.from_ext_fields(command.ext_fields).broker_addr, steady_ms())
    return command.response(ResponseCode.SUCCESS)


def get_broker_member_group(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_BROKER_MEMBER_GROUP (901)."""
    header = GetBrokerMemberGroupRequestHeader.from_ext_fields(command.ext_fields)
    data = server.routes.brokers.get(header.broker_name)
    addrs = data.broker_addrs if data else {}
    group = BrokerMemberGroup(header.cluster_name, header.broker_name, addrs)
    return command.response(ResponseCode.SUCCESS, body=GetBrokerMemberGroupResponseBody(group).to_body())


def unregister_broker(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = BrokerRequestHeader.from_ext_fields(command.ext_fields)
    server.routes.unregister_broker(header.broker_name, header.broker_addr, "it unregistered")
    return command.response(ResponseCode.SUCCESS)


def query_data_version(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_DATA_VERSION (322): answer a broker whether it must register fully."""
    header = BrokerRequestHeader.from_ext_fields(command.ext_fields)
    version = server.routes.keep_alive(header.broker_addr, steady_ms())
    if version is None:
        return command.response(ResponseCode.SUCCESS, ext_fields={"changed": "true"})
    body = version.to_body()
    changed = body != command.body
    return command.response(ResponseCode.SUCCESS, ext_fields={"changed": str(changed).lower()}, body=body)


def get_route_info(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = GetRouteInfoRequestHeader.from_ext_fields(command.ext_fields)
    topic = header.topic
    route = server.routes.route(topic)
    if route is None:
        raise error_for(
            ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}{FAQ}"
        )
    if server.config.order_message_enable:
        route.order_topic_conf = server.kv_config.get(ORDER_TOPIC_CONFIG, topic)
    standard = command.version >= STANDARD_JSON_VERSION or header.accept_standard_json_only or False
    return command.response(ResponseCode.SUCCESS, body=route.to_body(standard_json=standard))


def get_cluster_info(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return command.response(ResponseCode.SUCCESS, body=server.routes.cluster_info().to_body())


def topic_list(command: RemotingCommand, topics: list[str]) -> RemotingCommand:
    return command.response(ResponseCode.SUCCESS, body=TopicList(topic_list=topics).to_body())


def refuse_lists_when_disabled(server: NameServer) -> None:
    """Raise SYSTEM_ERROR while `enableTopicList` is off: it is for all lists but that of all topics (206)."""
    if not server.config.enable_topic_list:
        raise error_for(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")


def get_all_topics(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    if not server.config.enable_all_topic_list:
        raise error_for(ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false")
    return topic_list(command, server.routes.topics())


def get_topics_by_cluster(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    refuse_lists_when_disabled(server)
    header = GetTopicsByClusterRequestHeader.from_ext_fields(command.ext_fields)
    return topic_list(command, server.routes.topics_of_cluster(header.cluster))


def get_system_topics(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return topic_list(command, server.routes.system_topics())


def wipe_write_perm(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = BrokerNameRequestHeader.from_ext_fields(command.ext_fields)
    count = server.routes.set_write_perm(header.broker_name, writable=False)
    return command.response(ResponseCode.SUCCESS, ext_fields={"wipeTopicCount": str(count)})


def add_write_perm(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = BrokerNameRequestHeader.from_ext_fields(command.ext_fields)
    count = server.routes.set_write_perm(header.broker_name, writable=True)
    return command.response(ResponseCode.SUCCESS, ext_fields={"addTopicCount": str(count)})


def delete_topic(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """DELETE_TOPIC_IN_NAMESRV (216); with clusterName only that cluster's brokers lose it."""
    header = DeleteTopicRequestHeader.from_ext_fields(command.ext_fields)
    cluster, names = header.cluster_name, None
    if cluster:
        names = {name for name, data in server.routes.brokers.items() if data.cluster == cluster}
    server.routes.delete_topic(header.topic, names)
    return command.response(ResponseCode.SUCCESS)


def put_kv_config(server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    header = PutKVConfigRequestHeader.from_ext_fields(command.ext_fields)
    server.kv_config.put(header.namespace, header.key, header.value)
    return Saved(command.response(ResponseCode.SUCCESS))


def get_kv_config(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = KVConfigRequestHeader.from_ext_fields(command.ext_fields)
    value = server.kv_config.get(header.namespace, header.key)
    if value is None:
        raise error_for(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}"
        )
    return command.response(ResponseCode.SUCCESS, ext_fields={"value": value})


def delete_kv_config(server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    header = KVConfigRequestHeader.from_ext_fields(command.ext_fields)
    server.kv_config.delete(header.namespace, header.key)
    return Saved(command.response(ResponseCode.SUCCESS))


def get_kv_list(
    server: NameServer, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    namespace = GetKVListRequestHeader.from_ext_fields(command.ext_fields).namespace
    table = server.kv_config.namespace(namespace)
    if not table:
        raise error_for(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return command.response(ResponseCode.SUCCESS, body=KVTable(table=dict(table)).to_body())


HANDLERS: dict[int, NamesrvHandler] = {
    RequestCode.PUT_KV_CONFIG: put_kv_config,
    RequestCode.GET_KV_CONFIG: get_kv_config,
    RequestCode.DELETE_KV_CONFIG: delete_kv_config,
    RequestCode.GET_KVLIST_BY_NAMESPACE: get_kv_list,
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.BROKER_HEARTBEAT: broker_heartbeat,
    RequestCode.GET_BROKER_MEMBER_GROUP: get_broker_member_group,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route_info,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topics,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_perm,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
}
