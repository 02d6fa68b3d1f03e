"""MQAdmin's calls about a broker as a whole and about single name servers.

A name server is called by its address here, not "whichever answers": that is how their tables are compared, and
how a broker loses its write permission on every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from brokerd.remoting.body.broker import (
    BrokerReplicasInfo,
    DelayOffsetWrapper,
    EpochEntryCache,
    HARuntimeInfo,
    KVTable,
    ReplicasInfo,
    TimerMetricsWrapper,
)
from brokerd.remoting.body.client import (
    ProducerInfo,
    ProducerTableInfo,
)
from brokerd.remoting.body.route import ClusterInfo, TopicRouteData
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from consumers.admin.calls import AdminCalls, checked, outcome
from consumers.client.capability import parse_capabilities


class BrokerAdmin(AdminCalls):
    """Calls about a broker as a whole, and about single name servers."""

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, their brokers and addresses. GET_BROKER_CLUSTER_INFO (106)."""
        return ClusterInfo.from_body(await self._ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO))

    async def capabilities(self, addr: str) -> frozenset[str]:
        """Return the names of the extensions this broker has; empty for Apache's. TIDEMARK_GET_CAPABILITIES (75002)."""
        response = await self._invoke(addr, RequestCode.TIDEMARK_GET_CAPABILITIES)
        if response.code != ResponseCode.SUCCESS:
            return frozenset()
        return parse_capabilities(response)

    async def runtime_info(self, addr: str) -> dict[str, str]:
        """Return the broker's statistics, as texts. GET_BROKER_RUNTIME_INFO (28)."""
        return KVTable.from_body(await self._ask_body(addr, RequestCode.GET_BROKER_RUNTIME_INFO)).table

    async def broker_config(self, addr: str) -> dict[str, str]:
        """Return the broker's configuration in effect. GET_BROKER_CONFIG (26)."""
        return parse_properties((await self._ask_body(addr, RequestCode.GET_BROKER_CONFIG)).decode())

    async def update_broker_config(self, addr: str, values: Mapping[str, str]) -> None:
        """Change configuration keys of a running broker. UPDATE_BROKER_CONFIG (25)."""
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        await self._ask(addr, RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())

    async def producers(self, addr: str) -> dict[str, list[ProducerInfo]]:
        """Connected producers by group; code 3 before 4.9.4. GET_ALL_PRODUCER_INFO (328)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_PRODUCER_INFO)
        return ProducerTableInfo.from_body(body).data if body else {}

    async def ha_status(self, addr: str) -> HARuntimeInfo:
        """Return how far the slaves of a master are; code 3 before 5.0. GET_BROKER_HA_STATUS (907)."""
        return HARuntimeInfo.from_body(await self._ask_body(addr, RequestCode.GET_BROKER_HA_STATUS))

    async def broker_epochs(self, addr: str) -> EpochEntryCache:
        """Return the epochs of a controller-managed broker; others refuse. GET_BROKER_EPOCH_CACHE (1007)."""
        return EpochEntryCache.from_body(await self._ask_body(addr, RequestCode.GET_BROKER_EPOCH_CACHE))

    async def replicas_of(self, controller_addr: str, broker_name: str) -> ReplicasInfo | None:
        """Return master and replicas of a broker name as its controllers have them, None for one they do not know.

        Any controller returns the leader (CONTROLLER_GET_METADATA_INFO, 1005), which has them
        (CONTROLLER_GET_SYNC_STATE_DATA, 1006).
        """
        found = await self._ask(controller_addr, RequestCode.CONTROLLER_GET_METADATA_INFO)
        leader = found.ext_fields.get("controllerLeaderAddress") or controller_addr
        body = json.dumps([broker_name]).encode()
        answer = await self._ask(leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
        return BrokerReplicasInfo.from_body(answer.body).replicas_info_table.get(broker_name)

    async def delay_offsets(self, addr: str) -> dict[int, int]:
        """How far each delay level has delivered: level → offset in SCHEDULE_TOPIC_XXXX.

        A level may be missing that never delivered. GET_ALL_DELAY_OFFSET (45).
        """
        body = await self._ask_body(addr, RequestCode.GET_ALL_DELAY_OFFSET)
        return DelayOffsetWrapper.from_body(body).offset_table

    async def timer_counts(self, addr: str) -> dict[str, int]:
        """Return messages in the timer wheel by the topic they are for; code 3 before 5.0. GET_TIMER_METRICS (61)."""
        body = await self._ask_body(addr, RequestCode.GET_TIMER_METRICS)
        return {topic: one.count for topic, one in TimerMetricsWrapper.from_body(body).timing_count.items()}

    async def cluster_info_of(self, namesrv_addr: str) -> ClusterInfo:
        """Return the brokers registered with this name server. GET_BROKER_CLUSTER_INFO (106)."""
        return ClusterInfo.from_body(await self._ask_body(namesrv_addr, RequestCode.GET_BROKER_CLUSTER_INFO))

    async def topic_list_of(self, namesrv_addr: str) -> list[str]:
        """Return the topics registered with this name server, sorted. GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
        body = await self._ask_body(namesrv_addr, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.from_body(body).topic_list)

    async def topic_routes_of(
        self, namesrv_addr: str, topics: Iterable[str]
    ) -> dict[str, TopicRouteData | Exception]:
        """Return routes of many topics from one name server, pipelined; each topic has its route or its error."""
        names = list(topics)
        requests = [
            RemotingCommand.request(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name, "acceptStandardJsonOnly": "true"}
            )
            for name in names
        ]
        answers = await self._remoting.invoke_many(namesrv_addr, requests, self.timeout_ms)
        return {name: outcome(answer, _route) for name, answer in zip(names, answers, strict=True)}

    async def namesrv_config(self, namesrv_addr: str) -> dict[str, str]:
        """Return the name server's configuration in effect. GET_NAMESRV_CONFIG (319)."""
        return parse_properties((await self._ask_body(namesrv_addr, RequestCode.GET_NAMESRV_CONFIG)).decode())

    async def wipe_write_perm(self, namesrv_addr: str, broker_name: str) -> int:
        """Offer this broker to no producer; returns how many topics lost it. WIPE_WRITE_PERM_OF_BROKER (205).

        It holds until the broker starts anew; a topic that changes on the broker gets its permission back.
        """
        fields = {"brokerName": broker_name}
        response = await self._ask(namesrv_addr, RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields)
        return int(response.ext_fields.get("wipeTopicCount", 0))

    async def add_write_perm(self, namesrv_addr: str, broker_name: str) -> int:
        """Offer it again: every topic reads 6 (read, write); returns how many.

        ADD_WRITE_PERM_OF_BROKER (327).
        """
        fields = {"brokerName": broker_name}
        response = await self._ask(namesrv_addr, RequestCode.ADD_WRITE_PERM_OF_BROKER, fields)
        return int(response.ext_fields.get("addTopicCount", 0))


def parse_properties(text: str) -> dict[str, str]:
    """Parse lines `key=value` of a Java properties text; comments and empty lines are skipped."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _route(answer: RemotingCommand) -> TopicRouteData:
    return TopicRouteData.from_body(checked(answer).body)
