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

from brokerd.namesrv.route_info import BrokerIdentity
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection
from brokerd.remoting.errors import RemotingError

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 3.0
UNREGISTER_TIMEOUT_S = 0.5
CHANGE_DELAY_S = 0.05  # topics created in a row are registered together
READ_BYTES = 65_536


class NameServerLink:
    """One name server. Requests are sent one after another."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self._tls = tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = RemotingConnection()
        self._lock = asyncio.Lock()
        self._opaque = 0
        self.is_failing = False  # so that a name server that is away is logged once

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        """Raise OSError, TimeoutError or RemotingError; the connection is then opened anew at the next call."""
        async with self._lock:
            try:
                return await asyncio.wait_for(self._ask(command), REQUEST_TIMEOUT_S)
            except (OSError, TimeoutError, RemotingError, EOFError):
                self.close()
                raise

    async def _ask(self, command: RemotingCommand) -> RemotingCommand:
        if self._writer is None:
            host, _, port = self.address.rpartition(":")
            self._frames = RemotingConnection()
            self._reader, self._writer = await asyncio.open_connection(host, int(port), ssl=self._tls)
        assert self._reader is not None
        self._opaque += 1
        command.opaque = self._opaque
        self._writer.write(command.encode())
        while True:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise ConnectionError(f"name server {self.address} closed the connection")
            for response in self._frames.receive_data(data):
                if response.is_response and response.opaque == command.opaque:
                    return response

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


class Registration:
    """This broker at name servers elsewhere."""

    def __init__(
        self,
        addresses: Sequence[str],
        identity: Callable[[], BrokerIdentity],
        topics: Callable[[], bytes],
        tls: ssl.SSLContext | None = None,
    ) -> None:
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
        except (OSError, TimeoutError, RemotingError) as error:
            self._log_failure(link, f"{type(error).__name__}: {error}")
            return False
        if response.code != ResponseCode.SUCCESS:
            self._log_failure(link, f"code {response.code}: {response.remark}")
            return False
        if link.is_failing:
            logger.info("registered again name_server=%s", link.address)
        link.is_failing = False
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
            await self.register_all()
            try:
                await asyncio.wait_for(self._changed.wait(), period_ms / 1000)
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
            await asyncio.wait_for(link.ask(request), UNREGISTER_TIMEOUT_S)
        except (OSError, TimeoutError, RemotingError) as error:
            logger.info("not unregistered name_server=%s: %s", link.address, error)
        link.close()

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return a topic's route from the first name server that answers; None when none has it."""
        for link in self._links:
            request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            try:
                response = await link.ask(request)
            except (OSError, TimeoutError, RemotingError) as error:
                logger.info("no route name_server=%s topic=%s: %s", link.address, topic, error)
                continue
            if response.code == ResponseCode.SUCCESS:
                return TopicRouteData.from_body(response.body)
            return None
        return None
