"""The broker's side of other name servers: registration with all of them, requests for a topic's route.

Source: protocol §5.3 (`BrokerOuterAPI.java`). One connection per name server is kept open: it is what the name
server judges the broker's life by. Registration is always complete (idempotent), every 30 s and soon after every
change of a topic.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence

from brokerd.connections.link import UNANSWERED, RemotingLink
from brokerd.namesrv.route_info import BrokerIdentity
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand

logger = logging.getLogger(__name__)

UNREGISTER_TIMEOUT_S = 0.5
CHANGE_DELAY_S = 0.05  # topics created in a row are registered together
RETRY_MS = 5_000  # with a name server that did not take it


class NameServerLink(RemotingLink):
    """One name server."""

    is_failing = False  # so that a name server that is away is logged once


class Registration:
    """This broker at name servers elsewhere."""

    def __init__(
        self,
        addresses: Sequence[str],
        identity: Callable[[], BrokerIdentity],
        topics: Callable[[], bytes],
        tls: ssl.SSLContext | None = None,
        on_master: Callable[[str, str], None] = lambda master, ha_server: None,
    ) -> None:
        """`on_master(address, address for slaves)`: what name servers answer a slave, time and again."""
        self._on_master = on_master
        self._links = [NameServerLink(address, tls) for address in addresses]
        self._identity = identity
        self._topics = topics  # as GET_ALL_TOPIC_CONFIG answers them
        self._changed = asyncio.Event()
        self._is_leaving = False

    def topics_changed(self) -> None:
        self._changed.set()

    async def register_all(self) -> int:
        """Register everywhere; returns how many name servers took it. Failures are logged, once each."""
        if self._is_leaving:
            return 0
        return sum(await asyncio.gather(*(self._register(link) for link in self._links)))

    async def _register(self, link: NameServerLink) -> bool:
        body = b'{"filterServerList":[],"topicConfigSerializeWrapper":%b}' % self._topics()
        fields = {**self._fields(), "compressed": "false", "bodyCrc32": "0", "enableActingMaster": "false"}
        request = RemotingCommand.request(RequestCode.REGISTER_BROKER, fields, body)
        try:
            response = await link.ask(request)
        except UNANSWERED as error:
            self._log_failure(link, f"{type(error).__name__}: {error}")
            return False
        if response.code != ResponseCode.SUCCESS:
            self._log_failure(link, f"code {response.code}: {response.remark}")
            return False
        if link.is_failing:
            logger.info("registered again name_server=%s", link.address)
        link.is_failing = False
        if master := response.ext_fields.get("masterAddr"):
            self._on_master(master, response.ext_fields.get("haServerAddr", ""))
        return True

    @staticmethod
    def _log_failure(link: NameServerLink, reason: str) -> None:
        if not link.is_failing:
            logger.warning("not registered name_server=%s: %s; trying again", link.address, reason)
        link.is_failing = True

    def _fields(self) -> dict[str, str]:
        identity = self._identity()
        return {
            "brokerName": identity.broker_name,
            "brokerAddr": identity.broker_addr,
            "clusterName": identity.cluster,
            "brokerId": str(identity.broker_id),
            "haServerAddr": identity.ha_server_addr,
        }

    async def run(self, period_ms: int) -> None:
        """Register now, then every period and after every change, until cancelled."""
        while True:
            taken = await self.register_all()
            pause_ms = period_ms if taken == len(self._links) else min(period_ms, RETRY_MS)
            try:
                await asyncio.wait_for(self._changed.wait(), pause_ms / 1000)
                await asyncio.sleep(CHANGE_DELAY_S)
            except TimeoutError:
                pass
            self._changed.clear()

    async def unregister_all(self) -> None:
        """Best effort, at the broker's stop: a name server that is away must not delay it."""
        self._is_leaving = True
        await asyncio.gather(*(self._unregister(link) for link in self._links if not link.is_failing))

    async def _unregister(self, link: NameServerLink) -> None:
        request = RemotingCommand.request(RequestCode.UNREGISTER_BROKER, self._fields())
        try:
            await link.ask(request, UNREGISTER_TIMEOUT_S)
        except UNANSWERED as error:
            logger.info("not unregistered name_server=%s: %s", link.address, error)
        link.close()

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return a topic's route from the first name server that answers; None when none has it."""
        for link in self._links:
            request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            try:
                response = await link.ask(request)
            except UNANSWERED as error:
                logger.info("no route name_server=%s topic=%s: %s", link.address, topic, error)
                continue
            if response.code == ResponseCode.SUCCESS:
                return TopicRouteData.from_body(response.body)
            return None
        return None
