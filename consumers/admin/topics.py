"""MQAdmin's calls about topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brokerd.remoting.body.group import (
    GroupList,
)
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.body.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList, TopicStatsTable
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, RemotingError, error_for
from consumers.admin.calls import AdminCalls, checked, outcome


class TopicAdmin(AdminCalls):
    """Calls about topics, at name servers and brokers."""

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

    async def all_topic_config(self, addr: str) -> TopicConfigSerializeWrapper:
        """Return every topic's configuration. GET_ALL_TOPIC_CONFIG (21)."""
        body = await self._ask_body(addr, RequestCode.GET_ALL_TOPIC_CONFIG)
        return TopicConfigSerializeWrapper.from_body(body)

    async def topic_config(self, addr: str, topic: str) -> TopicConfig:
        """GET_TOPIC_CONFIG (351), or from GET_ALL_TOPIC_CONFIG where 351 is unknown (4.x).

        Raises TopicNotExist.
        """
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
        """Create the topic on this broker, or change its queues and permission.

        UPDATE_AND_CREATE_TOPIC (17).

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

        DELETE_TOPIC_IN_BROKER (215).
        """
        await self._ask(addr, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    async def topic_consumed_by(self, addr: str, topic: str) -> list[str]:
        """Return groups that subscribe to the topic or have offsets in it, sorted.

        QUERY_TOPIC_CONSUME_BY_WHO (300).
        """
        body = await self._ask_body(addr, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        return sorted(GroupList.from_body(body).group_list)

    async def topic_stats(self, addr: str, topic: str) -> TopicStatsTable:
        """Return min and max offset and last write per queue.

        Raises TopicNotExist (17). GET_TOPIC_STATS_INFO (202).
        """
        body = await self._ask_body(addr, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        return TopicStatsTable.from_body(body)

    async def topic_stats_many(
        self, addr: str, topics: Iterable[str]
    ) -> dict[str, TopicStatsTable | Exception]:
        """Return `topic_stats` of many topics, pipelined on one connection.

        Each topic has its table or its error.
        """
        bodies = await self.topic_stats_bodies(addr, topics)
        return {name: _topic_stats_outcome(body) for name, body in bodies.items()}

    async def topic_stats_bodies(self, addr: str, topics: Iterable[str]) -> dict[str, bytes | Exception]:
        """Return the same as the broker sent them, to be read later: `TopicStatsTable`s."""
        names = list(topics)
        requests = [
            RemotingCommand.request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": name}) for name in names
        ]
        answers = await self._remoting.invoke_many(addr, requests, self.timeout_ms)
        return {name: outcome(answer, _body) for name, answer in zip(names, answers, strict=True)}


def changed_attributes(former: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Return attributes as request 17 carries them: `+key=value` for new and changed ones, `-key` for those to go."""
    added = [f"+{key}={value}" for key, value in wanted.items() if former.get(key) != value]
    return ",".join([*added, *(f"-{key}" for key in former if key not in wanted)])


def _body(answer: RemotingCommand) -> bytes:
    return checked(answer).body


def _topic_stats_outcome(body: bytes | Exception) -> TopicStatsTable | Exception:
    if isinstance(body, Exception):
        return body
    try:
        return TopicStatsTable.from_body(body)
    except RemotingError as error:
        return error
