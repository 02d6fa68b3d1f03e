"""A whole broker inside the test's event loop, and a raw client that speaks frames over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from brokerd.config import AclConfig, BrokerConfig, LiveConfig, NamesrvConfig, TlsConfig, build
from brokerd.connections.tls import TlsContexts
from brokerd.controller import BrokerController
from brokerd.remoting.body.client import ConsumerData, HeartbeatData, SubscriptionData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, SerializeType
from brokerd.remoting.connection import RemotingConnection
from brokerd.store.store_config import MessageStoreConfig

ANSWER_WITHIN_S = 30


class RawClient:
    """One connection: `ask` waits for the answer with its opaque, `pushed` for a request of the broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = RemotingConnection()
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._pushed: asyncio.Queue[RemotingCommand] = asyncio.Queue()
        self.received: list[RemotingCommand] = []  # answers and requests, in order of arrival
        self._opaque = 0
        self.is_closed = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, address: str, tls: ssl.SSLContext | None = None) -> RawClient:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=tls))

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                for command in self._frames.receive_data(data):
                    self.received.append(command)
                    if not command.is_response:
                        self._pushed.put_nowait(command)
                    elif command.opaque in self._waiting:
                        self._waiting.pop(command.opaque).set_result(command)
        self.is_closed.set()

    def send(self, command: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        self._opaque += 1
        command.opaque = self._opaque
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = future
        self._writer.write(command.encode())
        return future

    async def ask(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 479,
        binary: bool = False,
    ) -> RemotingCommand:
        command = RemotingCommand.request(code, fields, body)
        command.version = version
        command.serialize_type = SerializeType.ROCKETMQ if binary else SerializeType.JSON
        return await asyncio.wait_for(self.send(command), ANSWER_WITHIN_S)

    async def pushed(self) -> RemotingCommand:
        return await asyncio.wait_for(self._pushed.get(), ANSWER_WITHIN_S)

    def respond(self, command: RemotingCommand) -> None:
        self._writer.write(command.encode())

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()


def send_fields(topic: str, *, queue_id: int = 0, properties: str = "", **fields: str) -> dict[str, str]:
    """Header fields of SEND_MESSAGE_V2."""
    return {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        **fields,
    }


def pull_fields(
    group: str, topic: str, offset: int, *, queue_id: int = 0, flags: int = 4, **fields: str
) -> dict[str, str]:
    """Header fields of PULL_MESSAGE; flag 4 brings the subscription along."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        **fields,
    }


def heartbeat(client_id: str, group: str, *topics: str, tags: str = "*", version: int = 1) -> bytes:
    """A consumer's heartbeat that subscribes to `topics`."""
    return HeartbeatData(
        client_id=client_id,
        consumer_data_set=[
            ConsumerData(
                group_name=group,
                subscription_data_set=[
                    SubscriptionData(topic=topic, sub_string=tags, sub_version=version) for topic in topics
                ],
            )
        ],
    ).to_body()


class RunningBroker:
    """Started by `running`; `client()` opens connections that are closed with it."""

    def __init__(self, controller: BrokerController) -> None:
        self.controller = controller
        self.broker = controller.broker
        self._clients: list[RawClient] = []

    async def client(self, tls: ssl.SSLContext | None = None) -> RawClient:
        self._clients.append(await RawClient.connect(self.controller.address, tls))
        return self._clients[-1]

    async def namesrv_client(self, tls: ssl.SSLContext | None = None) -> RawClient:
        self._clients.append(await RawClient.connect(self.controller.namesrv_address, tls))
        return self._clients[-1]

    async def consumer(self, client_id: str, group: str, *topics: str, version: int = 479) -> RawClient:
        """A connected member of a group."""
        client = await self.client()
        answer = await client.ask(
            RequestCode.HEART_BEAT, body=heartbeat(client_id, group, *topics), version=version
        )
        assert answer.code == 0
        return client

    async def stop(self) -> None:
        for client in self._clients:
            await client.close()
        await self.controller.stop()


@asynccontextmanager
async def running(root: Path, **settings: str) -> AsyncIterator[RunningBroker]:
    """A broker on free ports with its store in `root`; settings by RocketMQ's keys."""
    properties = {
        "listenPort": "0",
        "namesrvListenPort": "0",
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "storePathRootDir": str(root),
        "rocketmqHome": str(root),
        "mappedFileSizeCommitLog": str(1024 * 1024),
        "maxHashSlotNum": "1000",
        "maxIndexNum": "4000",
        **settings,
    }
    live = LiveConfig(
        build(BrokerConfig, properties), build(NamesrvConfig, properties), build(AclConfig, properties)
    )
    tls = TlsContexts(build(TlsConfig, properties))
    controller = BrokerController(live, build(MessageStoreConfig, properties), tls)
    try:
        await controller.start()
    except OSError:
        await controller.stop()
        raise
    broker = RunningBroker(controller)
    try:
        yield broker
    finally:
        await broker.stop()
