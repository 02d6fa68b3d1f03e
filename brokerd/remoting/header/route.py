"""The headers of the name server's requests (protocol section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class PutKVConfigRequestHeader(HeaderFields):
    """PUT_KV_CONFIG (100)."""

    namespace: str = of("namespace", "s")
    key: str = of("key", "s")
    value: str = of("value", "s")


@dataclass(slots=True)
class KVConfigRequestHeader(HeaderFields):
    """GET_KV_CONFIG (101), DELETE_KV_CONFIG (102)."""

    namespace: str = of("namespace", "s")
    key: str = of("key", "s")


@dataclass(slots=True)
class GetKVListRequestHeader(HeaderFields):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str = of("namespace", "s")


@dataclass(slots=True)
class RegisterBrokerRequestHeader(HeaderFields):
    """REGISTER_BROKER (103). Brokers before version 5 do not send `enable_acting_master`."""

    broker_name: str = of("brokerName", "s")
    broker_addr: str = of("brokerAddr", "s")
    cluster_name: str = of("clusterName", "s")
    broker_id: int = of("brokerId", "l")
    ha_server_addr: str | None = of("haServerAddr", "s", None)
    compressed: bool | None = of("compressed", "b", None)
    body_crc32: int | None = of("bodyCrc32", "l", None)
    heartbeat_timeout_millis: int | None = of("heartbeatTimeoutMillis", "l", None)
    enable_acting_master: bool | None = of("enableActingMaster", "b", None)


@dataclass(slots=True)
class BrokerRequestHeader(HeaderFields):
    """UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322), BROKER_HEARTBEAT (904)."""

    broker_name: str = of("brokerName", "s")
    broker_addr: str = of("brokerAddr", "s")
    cluster_name: str | None = of("clusterName", "s", None)
    broker_id: int | None = of("brokerId", "l", None)


@dataclass(slots=True)
class GetBrokerMemberGroupRequestHeader(HeaderFields):
    """GET_BROKER_MEMBER_GROUP (901)."""

    cluster_name: str = of("clusterName", "s")
    broker_name: str = of("brokerName", "s")


@dataclass(slots=True)
class GetRouteInfoRequestHeader(HeaderFields):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str = of("topic", "s")
    accept_standard_json_only: bool | None = of("acceptStandardJsonOnly", "b", None)


@dataclass(slots=True)
class BrokerNameRequestHeader(HeaderFields):
    """WIPE_WRITE_PERM_OF_BROKER (205), ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str = of("brokerName", "s")


@dataclass(slots=True)
class DeleteTopicRequestHeader(HeaderFields):
    """DELETE_TOPIC_IN_NAMESRV (216): of one cluster's brokers, or of all."""

    topic: str = of("topic", "s")
    cluster_name: str | None = of("clusterName", "s", None)


@dataclass(slots=True)
class GetTopicsByClusterRequestHeader(HeaderFields):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str = of("cluster", "s")
