"""What every call of MQAdmin is made of: one request to one address, its answer or its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, RemotingError, error_for
from consumers.client.channel import NEVER_S
from consumers.client.remoting_client import RemotingClient
from consumers.client.route import NameServers
from consumers.errors import MQClientError

T = TypeVar("T")
# A relayed request (307, 223, 309) waits for a client behind the broker, which allows it 5 to 10 s.
RELAY_TIMEOUT_MS = 12_000


class AdminCalls:
    """Requests, for the calls that MQAdmin inherits."""

    timeout_ms: int
    _remoting: RemotingClient
    _name_servers: NameServers

    async def _invoke(
        self,
        addr: str,
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
        send_until_s: float = NEVER_S,
    ) -> RemotingCommand:
        command = RemotingCommand.request(code, ext_fields, body)
        timeout_ms = timeout_ms or self.timeout_ms
        return await self._remoting.invoke(addr, command, timeout_ms, send_until_s=send_until_s)

    async def _ask(
        self, addr: str, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        return checked(await self._invoke(addr, code, ext_fields, body))

    async def _ask_body(self, addr: str, code: int, ext_fields: dict[str, str] | None = None) -> bytes:
        return (await self._ask(addr, code, ext_fields)).body

    async def _relayed(self, addr: str, code: int, ext_fields: dict[str, str]) -> bytes:
        """Ask a client behind the broker; more time than for the broker itself."""
        timeout_ms = max(self.timeout_ms, RELAY_TIMEOUT_MS)
        return checked(await self._invoke(addr, code, ext_fields, timeout_ms=timeout_ms)).body

    async def _ask_namesrv(self, code: int) -> bytes:
        return checked(await self._name_servers.invoke(code, timeout_ms=self.timeout_ms)).body


def checked(response: RemotingCommand) -> RemotingCommand:
    """Return the response when it is a success. Raises MQBrokerError."""
    if response.code != ResponseCode.SUCCESS:
        raise error_for(response.code, response.remark)
    return response


def outcome(answer: RemotingCommand | MQClientError, read: Callable[[RemotingCommand], T]) -> T | Exception:
    """Read one answer of many; its error stands in its place."""
    if isinstance(answer, MQClientError):
        return answer
    try:
        return read(answer)
    except (MQBrokerError, RemotingError) as error:
        return error
