"""Where a consumer's progress is kept: at the broker (clustering) or in a file (broadcasting).

Semantics reference 9.9 (RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java). Both keep a table in memory
that the consume service updates and that is persisted every 5 s, when a queue is given up, and at the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from brokerd.remoting.body import fastjson
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.queue import MessageQueue
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)


class OffsetStoreCorrupt(MQClientError):
    """Neither the offset file nor its backup can be read; starting would consume everything again."""


class OffsetPort(Protocol):
    """What RemoteOffsetStore needs of a broker; the client instance has it."""

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the committed offset, or None if the broker has none. Raises MQBrokerError, MQClientError."""

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit without waiting for the broker's word. Raises MQClientError."""


class OffsetTable:
    """Offsets in memory. Caller: consume service and pull loop update, the owner persists."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Affects: what the next persist writes.

        `increase_only`: batches that finish out of order never go back.
        """
        if increase_only and self._offsets.get(queue, -1) >= offset:
            return
        self._offsets[queue] = offset

    def read_memory(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def remove_offset(self, queue: MessageQueue) -> None:
        """Drop the queue: another member has it now, or it is begun anew from the store."""
        self._offsets.pop(queue, None)

    def offsets(self, topic: str | None = None) -> dict[MessageQueue, int]:
        return {
            queue: self._offsets[queue] for queue in sorted(self._offsets) if topic in (None, queue.topic)
        }


class OffsetStore(Protocol):
    """What the push consumer needs of either store."""

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None: ...
    def read_memory(self, queue: MessageQueue) -> int | None: ...
    def remove_offset(self, queue: MessageQueue) -> None: ...
    def offsets(self, topic: str | None = None) -> dict[MessageQueue, int]: ...

    async def read_store(self, queue: MessageQueue) -> int | None:
        """Return the persisted offset, or None.

        Raises MQBrokerError or MQClientError when it cannot be known now.
        """

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets of these queues; what cannot be written is logged and tried again next time."""


class RemoteOffsetStore(OffsetTable):
    """Offsets kept by the brokers."""

    def __init__(self, group: str, port: OffsetPort) -> None:
        super().__init__()
        self._group = group
        self._port = port
        self._is_failing = False

    async def read_store(self, queue: MessageQueue) -> int | None:
        offset = await self._port.query_consumer_offset(self._group, queue)
        if offset is not None:
            self._offsets[queue] = offset
        return offset

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write every owned queue every time, changed or not.

        An operator's correction of an owned queue is meant to be overwritten (a reset goes through the broker), and a
        broker that lost its file gets the offsets again.
        """
        failed = 0
        for queue in queues:
            offset = self._offsets.get(queue)
            if offset is None:
                continue
            try:
                await self._port.update_consumer_offset(self._group, queue, offset)
            except (MQClientError, MQBrokerError) as error:
                failed += 1
                if not self._is_failing:
                    logger.warning(
                        "offset not persisted group=%s topic=%s queue_id=%d offset=%d: %s",
                        self._group,
                        queue.topic,
                        queue.queue_id,
                        offset,
                        error,
                    )
                self._is_failing = True
        if self._is_failing and not failed:
            logger.info("offsets persisted again group=%s", self._group)
            self._is_failing = False


class LocalFileOffsetStore(OffsetTable):
    """Offsets in a file, in the Java client's form, with a `.bak` of the one before.

    It is `<folder>/<client id>/<group>/offsets.json`.
    """

    def __init__(self, group: str, client_id: str, folder: str | Path) -> None:
        super().__init__()
        self.path = Path(folder).expanduser() / client_id / group / "offsets.json"
        self._backup = self.path.with_name("offsets.json.bak")
        self._stored: dict[MessageQueue, int] = {}
        self._writing = (
            asyncio.Lock()
        )  # the timed save, a rebalance and the end of the consumer save the same file

    def load(self) -> None:
        """Read the file, or its backup. Raises OffsetStoreCorrupt when one exists and neither can be read."""
        damaged: list[Path] = []
        for path in (self.path, self._backup):
            try:
                self._stored = _decode_offsets(path.read_bytes())
            except FileNotFoundError:
                continue
            except (ValueError, RemotingError) as error:
                logger.warning("offset file is damaged path=%s: %s", path, error)
                damaged.append(path)
                continue
            self._offsets.update(self._stored)
            return
        if damaged:
            raise OffsetStoreCorrupt(f"{self.path} and its backup cannot be read")

    async def read_store(self, queue: MessageQueue) -> int | None:
        return self._stored.get(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Written whole: temporary file, fsync, old one to `.bak`, rename.

        A crash leaves the old or the new one.
        """
        changed = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        if changed:
            # One that is cancelled leaves its write to go on: the next one waits until that is done.
            await asyncio.shield(self._write_after_others(changed))

    async def _write_after_others(self, changed: Mapping[MessageQueue, int]) -> None:
        async with self._writing:
            if changed.items() <= self._stored.items():
                return
            wanted = {**self._stored, **changed}
            await asyncio.to_thread(self._save, _encode_offsets(wanted))
            self._stored = wanted

    def _save(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name("offsets.json.tmp")
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            os.replace(self.path, self._backup)
        os.replace(temporary, self.path)


def _encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """OffsetSerializeWrapper: `{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:123}}`."""
    return fastjson.dumps({"offsetTable": dict(sorted(offsets.items()))})


def _decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    value = fastjson.loads(data)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict) or not all(isinstance(queue, MessageQueue) for queue in table):
        raise ValueError("no offsetTable keyed by queues")
    return {queue: int(offset) for queue, offset in table.items()}
