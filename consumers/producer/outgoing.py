"""Messages on their way out: checked, with a unique key, compressed, packed into batches."""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
from collections.abc import Sequence

from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.compression import compress
from brokerd.remoting.message.ids import create_unique_key
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty, SysFlag
from consumers.client.client_instance import local_ip
from consumers.client.namespace import Namespace
from consumers.clock import Clock
from consumers.config import CompressionType, InvalidClientConfig, ProducerConfig
from consumers.errors import MQClientError

COMPRESSION_FLAGS = {
    CompressionType.ZLIB: SysFlag.COMPRESSION_ZLIB,
    CompressionType.LZ4: SysFlag.COMPRESSION_LZ4,
    CompressionType.ZSTD: SysFlag.COMPRESSION_ZSTD,
}


class MessageTooLarge(MQClientError, ValueError):
    """The body is larger than the brokers take; nothing was sent."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"message of {size_bytes} bytes, at most {limit_bytes} are allowed")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Outgoing:
    """What a producer does with each message before it is sent."""

    def __init__(self, config: ProducerConfig, namespace: Namespace, clock: Clock) -> None:
        self._config = config
        self._instance_id = namespace.name
        self._unique_keys = UniqueKeys(clock)

    def prepare(self, message: Message) -> None:
        """Check it and give it its unique key; a message that is sent again keeps the key it has.

        Raises ValueError for a message without a body, MessageTooLarge.
        """
        # Validators.checkMessage; Apache's broker answers an empty body with a NullPointerException.
        if not message.body:
            raise ValueError("the message has no body")
        if len(message.body) > self._config.max_message_bytes:
            raise MessageTooLarge(len(message.body), self._config.max_message_bytes)
        if self._instance_id:
            message.properties[MessageProperty.INSTANCE_ID] = self._instance_id
        if MessageProperty.UNIQ_KEY not in message.properties:
            message.properties[MessageProperty.UNIQ_KEY] = self._unique_keys.create()

    def compressed(self, body: bytes) -> tuple[bytes, int]:
        """(body to send, system flag)."""
        if len(body) < self._config.compress_body_over_bytes:
            return body, 0
        flag = COMPRESSION_FLAGS[self._config.compress_type]
        return compress(body, flag, self._config.compress_level), SysFlag.COMPRESSED | flag

    def batch(self, messages: Sequence[Message]) -> tuple[Message, bytes]:
        """(a message that carries topic and unique key for the header, the encoded batch).

        Raises InvalidClientConfig for an empty or mixed batch; else as `prepare`.
        """
        if not messages:
            raise InvalidClientConfig("a batch needs at least one message")
        topic = messages[0].topic
        for message in messages:
            if message.topic != topic:
                raise InvalidClientConfig(f"a batch has one topic, not {topic} and {message.topic}")
            if MessageProperty.DELAY in message.properties:
                raise InvalidClientConfig("a batch cannot be delayed")
            self.prepare(message)
        body = encode_batch(list(messages))
        if len(body) > self._config.max_message_bytes:
            raise MessageTooLarge(len(body), self._config.max_message_bytes)
        unique_key = messages[0].properties[MessageProperty.UNIQ_KEY]
        return Message(topic, body, {MessageProperty.UNIQ_KEY: unique_key}), body


class UniqueKeys:
    """Unique message ids of this process: its address and id, the time, a counter (store-format 4)."""

    def __init__(self, clock: Clock) -> None:
        self._ip = ipaddress.ip_address(local_ip()).packed
        self._pid = os.getpid()
        self._clock = clock
        self._counter = itertools.count(random.getrandbits(15))

    def create(self) -> str:
        return create_unique_key(self._ip, self._pid, next(self._counter) & 0xFFFF, self._clock())
