"""MQAdmin: every call the console makes to name servers and brokers, of 4.x and 5.x, ours and Apache's.

Calls with an `addr` go to that broker; the others to the name servers. Every call raises
    MQBrokerError       the broker answered with another code than success (subclasses per code, `retriable`)
    BrokerUnavailable   it cannot be reached, or the connection broke
    RemotingTimeout     no answer within `timeout_ms`
    RemotingError       the answer is not what the protocol allows
Request and answer forms: protocol sections 3 and 5. Topics and groups are the brokers' names, with the prefix of their
namespace if they have one, as of Java's DefaultMQAdminExt; `Namespace.wrap` adds it. An MQAdmin belongs to the event
loop it is used in.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from consumers.admin.acl import AclAdmin
from consumers.admin.brokers import BrokerAdmin
from consumers.admin.groups import GroupAdmin
from consumers.admin.messages import MessageAdmin
from consumers.admin.offsets import OffsetAdmin
from consumers.admin.topics import TopicAdmin
from consumers.client.remoting_client import RemotingClient
from consumers.client.route import NameServers
from consumers.config import INVOKE_TIMEOUT_MS, RemotingClientConfig


class MQAdmin(TopicAdmin, GroupAdmin, OffsetAdmin, MessageAdmin, BrokerAdmin, AclAdmin):
    """`async with MQAdmin(["127.0.0.1:9876"]) as admin:`.

    Calls may run at once; those to one broker are pipelined.
    """

    def __init__(
        self,
        namesrv_addrs: str | Sequence[str],
        timeout_ms: int = INVOKE_TIMEOUT_MS,
        config: RemotingClientConfig | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self._remoting = RemotingClient(config)
        self._name_servers = NameServers(self._remoting, namesrv_addrs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._remoting.close()

    @property
    def namesrv_addrs(self) -> list[str]:
        return list(self._name_servers.addrs)
