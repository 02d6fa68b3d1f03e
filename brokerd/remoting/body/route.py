"""Bodies of the name server: routes, clusters, registration (protocol section 5)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Self, TypeVar

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.body.topic import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicQueueMappingInfo,
)
from brokerd.remoting.errors import BodyError

T = TypeVar("T")

MASTER_ID = 0
INFLATED_BYTES_MAX = 32 * 1024 * 1024  # 300,000 topics


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
    """105. `topic_queue_mapping_by_broker`: of a static topic, by broker name."""

    broker_datas: list[BrokerData] = field(default_factory=list)
    queue_datas: list[QueueData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def to_body(self, *, standard_json: bool = False) -> bytes:
        """With `standard_json` numbers as keys are quoted, as clients from 4.9.4 on request (protocol section 5.2)."""
        value = self.to_value()
        if standard_json:
            for broker in value["brokerDatas"]:
                broker["brokerAddrs"] = quoted(broker["brokerAddrs"])
            for mapping in value.get("topicQueueMappingByBroker", {}).values():
                mapping["currIdMap"] = quoted(mapping["currIdMap"])
        return fastjson.dumps(value)


def quoted(numbered: dict[int, T]) -> dict[str, T]:
    """Return a member whose keys are numbers as every reader of JSON takes it."""
    return {str(key): value for key, value in sorted(numbered.items())}


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

    @classmethod
    def from_compressed(cls, body: bytes) -> Self:
        """Parse the form of compressed=true (protocol section 5.3). Raises BodyError.

        From version 5 on queues of static topics follow the filter servers.
        """
        data = _inflated(body)
        position = 0

        def number() -> int:
            nonlocal position
            if position + 4 > len(data):
                raise BodyError(f"registration ends at byte {len(data)}, inside a length")
            position += 4
            return int.from_bytes(data[position - 4 : position], "big")

        def text() -> bytes:
            nonlocal position
            length = number()
            if position + length > len(data):
                raise BodyError(f"registration ends at byte {len(data)}, inside {length} bytes at {position}")
            position += length
            return data[position - length : position]

        version = DataVersion.from_request(text())
        topics = [_topic_config(text()) for _ in range(number())]
        servers = [str(server) for server in fastjson.loads_request(text())]
        mapping_count = number() if position < len(data) else 0
        mappings = [TopicQueueMappingInfo.from_request(text()) for _ in range(mapping_count)]
        table = TopicConfigSerializeWrapper(
            {topic.topic_name: topic for topic in topics},
            version,
            topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
        )
        return cls(table, servers)


def _inflated(body: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise BodyError(f"registration is not compressed by zlib: {error}") from None
    if not inflate.eof:
        what = f"of more than {INFLATED_BYTES_MAX} bytes" if inflate.unconsumed_tail else "that ends early"
        raise BodyError(f"compressed registration {what}")
    return data


def _topic_config(text: bytes) -> TopicConfig:
    """`name read write perm filterType {attributes}`, as `TopicConfig.java` encodes it; attributes are of no route."""
    try:
        name, read, write, perm, filter_type = text.decode().split(" ", 5)[:5]
        return TopicConfig(name, int(read), int(write), int(perm), filter_type)
    except ValueError:
        raise BodyError(f"registration has the topic {text[:100]!r}") from None


@dataclass(slots=True)
class BrokerMemberGroup(JsonBody):
    """Of 901: a broker and its copies."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class GetBrokerMemberGroupResponseBody(JsonBody):
    """901."""

    broker_member_group: BrokerMemberGroup = field(default_factory=BrokerMemberGroup)
