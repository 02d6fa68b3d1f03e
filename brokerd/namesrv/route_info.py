"""The name server's tables: clusters, brokers and which broker holds how many queues of a topic.

Source: protocol §5 (`RouteInfoManager.java`). A broker counts as alive while it registers at least every 120 s and its
connection stays open; this process' own broker registers directly, without a connection, and never expires.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokerd.connections.channel import Channel
from brokerd.remoting.body.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from brokerd.remoting.body.topic import DataVersion, TopicConfig, TopicQueueMappingInfo
from brokerd.remoting.codes import Permission
from brokerd.remoting.message.names import SYSTEM_TOPICS

logger = logging.getLogger(__name__)

BROKER_EXPIRED_MS = 120_000  # DEFAULT_BROKER_CHANNEL_EXPIRED_TIME
MASTER_ID = 0
BROKERS_MAX = 10_000
TOPICS_MAX = 1_000_000


@dataclass(slots=True)
class BrokerIdentity:
    """How a broker introduces itself."""

    cluster: str
    broker_name: str
    broker_addr: str
    broker_id: int = MASTER_ID
    ha_server_addr: str = ""


@dataclass(slots=True)
class LiveBroker:
    identity: BrokerIdentity
    channel: Channel | None  # None: the broker in this process
    last_update_ms: int
    timeout_ms: int
    data_version: DataVersion | None


class RouteInfoManager:
    """The route table. Single-threaded: the event loop."""

    def __init__(self) -> None:
        self.queues_of: dict[str, dict[str, QueueData]] = {}  # topic → broker name → its queues
        self.brokers: dict[str, BrokerData] = {}  # broker name → addresses
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}  # static topic → broker name → its
        self._topics_of: dict[str, set[str]] = {}  # broker name → topics with queues there
        self._live: dict[str, LiveBroker] = {}  # broker address → registration

    def register_broker(
        self,
        identity: BrokerIdentity,
        topics: Iterable[TopicConfig],
        data_version: DataVersion | None,
        channel: Channel | None,
        now_ms: int,
        timeout_ms: int = BROKER_EXPIRED_MS,
        *,
        acts_as_master: bool = False,
        mappings: Mapping[str, TopicQueueMappingInfo] | None = None,
    ) -> tuple[str, str]:
        """Take in a full or partial registration; returns (master's address, its HA address) for a slave.

        A registration that repeats the one before changes no route: what WIPE_WRITE_PERM_OF_BROKER took
        away stays away until one of its topics changes or it starts anew (RouteInfoManager.registerBroker).
        Topics are the master's; with `acts_as_master` those of the lowest slave when there is no master.
        `mappings`: of those among them that are static.
        Raises OverflowError beyond BROKERS_MAX or TOPICS_MAX.
        """
        addr = identity.broker_addr
        before = self._live.get(addr)
        if addr not in self._live:
            if len(self._live) >= BROKERS_MAX:
                raise OverflowError(f"{BROKERS_MAX} brokers are registered already")
            logger.info("broker registered broker=%s address=%s", identity.broker_name, addr)
        known = self.brokers.get(identity.broker_name)
        addrs = dict(known.broker_addrs) if known is not None else {}
        addrs = {i: a for i, a in addrs.items() if a != addr or i == identity.broker_id}
        addrs[identity.broker_id] = addr
        self.brokers[identity.broker_name] = BrokerData(
            cluster=identity.cluster, broker_name=identity.broker_name, broker_addrs=addrs
        )
        self._live[addr] = LiveBroker(identity, channel, now_ms, timeout_ms, data_version)
        if identity.broker_id == MASTER_ID or (acts_as_master and identity.broker_id == min(addrs)):
            is_same = before is not None and data_version is not None and before.data_version == data_version
            known_topics = self._topics_of.get(identity.broker_name, set())
            for config in topics:
                if not is_same or config.topic_name not in known_topics:
                    self.put_topic(identity.broker_name, config, (mappings or {}).get(config.topic_name))
        if identity.broker_id == MASTER_ID:
            return "", ""
        master = self._live.get(addrs.get(MASTER_ID, ""))
        return (master.identity.broker_addr, master.identity.ha_server_addr) if master else ("", "")

    def put_topic(
        self, broker_name: str, config: TopicConfig, mapping: TopicQueueMappingInfo | None = None
    ) -> None:
        if config.topic_name not in self.queues_of and len(self.queues_of) >= TOPICS_MAX:
            raise OverflowError(f"{TOPICS_MAX} topics are registered already")
        self._topics_of.setdefault(broker_name, set()).add(config.topic_name)
        self.queues_of.setdefault(config.topic_name, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )
        if mapping is not None:
            self._mappings.setdefault(config.topic_name, {})[broker_name] = mapping
        else:
            self._drop_mapping(config.topic_name, broker_name)

    def _drop_mapping(self, topic: str, broker_name: str) -> None:
        mappings = self._mappings.get(topic, {})
        mappings.pop(broker_name, None)
        if not mappings:
            self._mappings.pop(topic, None)

    def unregister_broker(self, broker_name: str, broker_addr: str, reason: str) -> None:
        """Remove one address; the name goes with its last address, and its queues with the name."""
        if self._live.pop(broker_addr, None) is not None:
            logger.info("broker gone broker=%s address=%s: %s", broker_name, broker_addr, reason)
        data = self.brokers.get(broker_name)
        if data is None:
            return
        addrs = {i: a for i, a in data.broker_addrs.items() if a != broker_addr}
        if addrs:
            self.brokers[broker_name] = dataclasses.replace(data, broker_addrs=addrs)
            return
        del self.brokers[broker_name]
        for topic in self._topics_of.pop(broker_name, set()):
            self.delete_topic(topic, {broker_name})

    def delete_topic(self, topic: str, broker_names: set[str] | None = None) -> None:
        """Drop a topic on all brokers, or on some."""
        queues = self.queues_of.get(topic)
        if queues is None:
            return
        for name in list(queues):
            if broker_names is None or name in broker_names:
                del queues[name]
                self._topics_of.get(name, set()).discard(topic)
                self._drop_mapping(topic, name)
        if not queues:
            del self.queues_of[topic]

    def channel_closed(self, channel: Channel) -> None:
        for live in [live for live in self._live.values() if live.channel is channel]:
            self.unregister_broker(
                live.identity.broker_name, live.identity.broker_addr, "its connection closed"
            )

    def drop_expired(self, now_ms: int) -> None:
        for live in list(self._live.values()):
            if live.channel is not None and now_ms - live.last_update_ms > live.timeout_ms:
                self.unregister_broker(
                    live.identity.broker_name, live.identity.broker_addr, f"silent for {live.timeout_ms} ms"
                )

    def keep_alive(self, broker_addr: str, now_ms: int) -> DataVersion | None:
        """Record a sign of life (322, 904); returns the version of what the broker registered last."""
        live = self._live.get(broker_addr)
        if live is None:
            return None
        live.last_update_ms = now_ms
        return live.data_version

    def route(self, topic: str) -> TopicRouteData | None:
        queues = self.queues_of.get(topic)
        if not queues:
            return None
        brokers = [self.brokers[name] for name in queues if name in self.brokers]
        if not brokers:
            return None
        mappings = self._mappings.get(topic)
        return TopicRouteData(
            broker_datas=brokers,
            queue_datas=list(queues.values()),
            topic_queue_mapping_by_broker=dict(mappings) if mappings else None,
        )

    def cluster_info(self) -> ClusterInfo:
        clusters: dict[str, list[str]] = {}
        for name, data in sorted(self.brokers.items()):
            clusters.setdefault(data.cluster, []).append(name)
        return ClusterInfo(broker_addr_table=dict(self.brokers), cluster_addr_table=clusters)

    def topics(self) -> list[str]:
        return list(self.queues_of)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = {name for name, data in self.brokers.items() if data.cluster == cluster}
        return [topic for topic, queues in self.queues_of.items() if names & set(queues)]

    def system_topics(self) -> list[str]:
        """Return system topics, clusters and brokers by name (304)."""
        clusters = {data.cluster for data in self.brokers.values()}
        return sorted(set(SYSTEM_TOPICS) | clusters | set(self.brokers))

    def set_write_perm(self, broker_name: str, *, writable: bool) -> int:
        """WIPE (205) or ADD (327) the write permission of a broker on all topics; returns how many topics."""
        topics = self._topics_of.get(broker_name, set())
        for topic in topics:
            queues = self.queues_of[topic]
            data = queues[broker_name]
            perm = int(Permission.READ | Permission.WRITE) if writable else data.perm & ~int(Permission.WRITE)
            queues[broker_name] = dataclasses.replace(data, perm=perm)
        return len(topics)
