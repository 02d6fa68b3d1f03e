"""Bodies of the name server: routes, clusters, registration (protocol section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.body.topic import TopicConfigSerializeWrapper

MASTER_ID = 0


@dataclass(slots=True)
class BrokerData(JsonBody):
    """A broker and its copies: {broker id: address}, 0 the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)


@dataclass(slots=True)
class QueueData(JsonBody):
    """How many queues of a topic a broker has. `perm` is a sum of Permission."""

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


@dataclass(slots=True)
class TopicRouteData(JsonBody):
    """105."""

    broker_datas: list[BrokerData] = field(default_factory=list)
    queue_datas: list[QueueData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None

    def to_body(self, *, standard_json: bool = False) -> bytes:
        """With `standard_json` broker ids are quoted, as clients from 4.9.4 on request (protocol section 5.2)."""
        value = self.to_value()
        if standard_json:
            for broker in value["brokerDatas"]:
                broker["brokerAddrs"] = {
                    str(key): addr for key, addr in sorted(broker["brokerAddrs"].items())
                }
        return fastjson.dumps(value)


@dataclass(slots=True)
class ClusterInfo(JsonBody):
    """106."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class RegisterBrokerBody(JsonBody):
    """103."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)
