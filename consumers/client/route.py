"""Routes: which brokers hold which queues of a topic, as the name servers report it.

Pure functions turn a TopicRouteData into the queues to write to and to read from, and into addresses
(protocol 5.5; MQClientInstance.topicRouteData2TopicPublishInfo). NameServers requests it from the name servers, one
after another.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import Permission, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.remoting_client import RemotingClient
from consumers.config import InvalidClientConfig
from consumers.errors import BrokerUnavailable, RemotingTimeout

logger = logging.getLogger(__name__)

MASTER_ID = 0


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return queues a producer may write to: the broker is writable and its master is known."""
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    return sorted(
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in route.queue_datas
        if queue.perm & Permission.WRITE and queue.broker_name in masters
        for queue_id in range(queue.write_queue_nums)
    )


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return queues a consumer may read, in the order that every member of a group must agree on."""
    return sorted(
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in route.queue_datas
        if queue.perm & Permission.READ
        for queue_id in range(queue.read_queue_nums)
    )


def broker_addrs(routes: Sequence[TopicRouteData]) -> dict[str, dict[int, str]]:
    """Broker name → broker id → address over all routes; a later route wins."""
    addrs: dict[str, dict[int, str]] = {}
    for route in routes:
        for broker in route.broker_datas:
            addrs[broker.broker_name] = dict(broker.broker_addrs)
    return addrs


def choose_addr(
    addrs: Mapping[int, str], broker_id: int = MASTER_ID, *, only_this: bool = False
) -> str | None:
    """Return the address of this broker id, else of the next slave, else of any member.

    With `only_this` there is no else (semantics 9.12).
    """
    if broker_id in addrs:
        return addrs[broker_id]
    if only_this or not addrs:
        return None
    if broker_id != MASTER_ID and broker_id + 1 in addrs:
        return addrs[broker_id + 1]
    return addrs[min(addrs)]


def split_addrs(namesrv_addrs: str | Sequence[str]) -> list[str]:
    """ "a:9876;b:9876" or a list → list. Raises InvalidClientConfig when it is empty."""
    parts = namesrv_addrs.replace(",", ";").split(";") if isinstance(namesrv_addrs, str) else namesrv_addrs
    addrs = [part.strip() for part in parts if part.strip()]
    if not addrs:
        raise InvalidClientConfig("at least one name server address is needed")
    return addrs


class NameServers:
    """The name servers of one cluster.

    A call stays with the one that answered last and moves on when it fails.
    """

    def __init__(self, remoting: RemotingClient, namesrv_addrs: str | Sequence[str]) -> None:
        self.addrs = split_addrs(namesrv_addrs)
        self._remoting = remoting
        self._current = 0

    async def invoke(
        self, code: int, ext_fields: Mapping[str, str] | None = None, timeout_ms: int | None = None
    ) -> RemotingCommand:
        """Return the first answer that any name server gives, whatever its code.

        Raises the last BrokerUnavailable or RemotingTimeout when none answers.
        """
        error: BrokerUnavailable | RemotingTimeout | None = None
        for step in range(len(self.addrs)):
            index = (self._current + step) % len(self.addrs)
            command = RemotingCommand.request(code, dict(ext_fields or {}))
            try:
                response = await self._remoting.invoke(self.addrs[index], command, timeout_ms)
            except (BrokerUnavailable, RemotingTimeout) as failure:
                error = failure
                continue
            self._current = index
            return response
        assert error is not None
        raise error

    async def topic_route(self, topic: str, timeout_ms: int | None = None) -> TopicRouteData:
        """GET_ROUTEINFO_BY_TOPIC (105). Raises TopicNotExist (17), and as `invoke`."""
        ext_fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        response = await self.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields, timeout_ms)
        if response.code != ResponseCode.SUCCESS or not response.body:
            raise error_for(response.code, response.remark)
        return TopicRouteData.from_body(response.body)
