"""The reply to a request (`Producer.request`), made where the request is consumed (MessageUtil.java)."""

from __future__ import annotations

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import REPLY_TYPE, MessageProperty, reply_topic
from brokerd.remoting.message.record import MessageRecord

# What leads the reply to the request: its client, and the one that waits there.
CARRIED = (MessageProperty.CORRELATION_ID, MessageProperty.REPLY_TO_CLIENT, MessageProperty.REPLY_TTL)


def reply_to(request: MessageRecord, body: bytes) -> Message:
    """Return the message that, sent with any Producer, is the request's reply. Raises ValueError for no request."""
    properties = request.properties
    carried = {name: properties[name] for name in CARRIED if name in properties}
    cluster = properties.get(MessageProperty.CLUSTER)
    if MessageProperty.REPLY_TO_CLIENT not in carried or cluster is None:
        raise ValueError(f"message {request.message_id} of topic {request.topic} is not a request")
    return Message(reply_topic(cluster), body, {**carried, MessageProperty.MESSAGE_TYPE: REPLY_TYPE})
