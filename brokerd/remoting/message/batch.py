"""Several messages in one request body (protocol section 4.2)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.properties import PROPERTIES_BYTES_MAX, decode_properties, encode_properties

BATCH_HEAD = struct.Struct(">iiiii")  # size, magic 0, crc 0, flag, body length


def encode_batch(messages: Sequence[Message]) -> bytes:
    """Return the body of SEND_BATCH_MESSAGE (protocol section 4.2). Raises BodyError when properties are too long."""
    pieces = []
    for message in messages:
        properties = encode_properties(message.properties)
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise BodyError(
                f"properties of {len(properties)} bytes; at most {PROPERTIES_BYTES_MAX} are allowed"
            )
        size = BATCH_HEAD.size + len(message.body) + 2 + len(properties)
        pieces += [
            BATCH_HEAD.pack(size, 0, 0, message.flag, len(message.body)),
            message.body,
            len(properties).to_bytes(2, "big"),
            properties,
        ]
    return b"".join(pieces)


def decode_batch(data: bytes, topic: str = "") -> list[Message]:
    """Return the messages of a batch body; it names no topic, the request does. Raises BodyError."""
    messages = []
    position = 0
    while position < len(data):
        if len(data) - position < BATCH_HEAD.size:
            raise BodyError(f"batch ends inside a message at {position}")
        size, _, _, flag, body_length = BATCH_HEAD.unpack_from(data, position)
        body_end = position + BATCH_HEAD.size + body_length
        if body_length < 0 or body_end + 2 > len(data):
            raise BodyError(f"batch message of {body_length} body bytes at {position} of {len(data)}")
        properties_length = int.from_bytes(data[body_end : body_end + 2], "big", signed=True)
        end = body_end + 2 + properties_length
        if properties_length < 0 or end > len(data) or size != end - position:
            raise BodyError(f"batch message of {size} bytes at {position} holds {end - position}")
        body = data[position + BATCH_HEAD.size : body_end]
        messages.append(Message(topic, body, decode_properties(data[body_end + 2 : end]), flag))
        position = end
    return messages
