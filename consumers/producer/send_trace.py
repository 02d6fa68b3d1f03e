"""What a producer records about a send or the end of a transaction, as traces. Pure.

Source: SendMessageTraceHookImpl.java, EndTransactionTraceHookImpl.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from brokerd.remoting.header.headers import EndTransactionRequestHeader
from brokerd.remoting.message.names import DELAY_PROPERTIES, MessageProperty, SysFlag
from brokerd.remoting.message.trace import EndTransactionTrace, PubTrace, TracedMessageType
from consumers.producer.send_result import SendResult, SendStatus

# MixAll.DEFAULT_TRACE_REGION_ID
DEFAULT_REGION = "DefaultRegion"
# LocalTransactionState.java
STATES = {SysFlag.TRANSACTION_COMMIT: "COMMIT_MESSAGE", SysFlag.TRANSACTION_ROLLBACK: "ROLLBACK_MESSAGE"}
UNKNOWN_STATE = "UNKNOW"


class Traced(Protocol):
    """A message, or the record of one."""

    @property
    def topic(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...


def pub_trace(
    message: Traced,
    body_bytes: int,
    result: SendResult,
    answer: Mapping[str, str],
    *,
    group: str,
    addr: str,
    began_ms: int,
    ended_ms: int,
) -> PubTrace:
    """`answer`: the fields of the broker's answer. `body_bytes`: as sent, that is, compressed."""
    properties = message.properties
    return PubTrace(
        began_ms=began_ms,
        region=answer.get("MSG_REGION") or DEFAULT_REGION,
        group=group,
        topic=message.topic,
        message_id=properties.get(MessageProperty.UNIQ_KEY, result.message_id),
        tags=properties.get(MessageProperty.TAGS),
        keys=properties.get(MessageProperty.KEYS),
        store_host=addr,
        body_bytes=body_bytes,
        cost_ms=ended_ms - began_ms,
        message_type=_message_type(properties),
        offset_message_id=result.offset_message_id,
        is_success=result.status is SendStatus.SEND_OK,
    )


def end_transaction_trace(
    message: Traced, header: EndTransactionRequestHeader, group: str, addr: str, ended_ms: int
) -> EndTransactionTrace:
    properties = message.properties
    return EndTransactionTrace(
        ended_ms=ended_ms,
        region=properties.get(MessageProperty.MSG_REGION) or DEFAULT_REGION,
        group=group,
        topic=message.topic,
        message_id=header.msg_id or "",
        tags=properties.get(MessageProperty.TAGS),
        keys=properties.get(MessageProperty.KEYS),
        store_host=addr,
        message_type=TracedMessageType.TRANSACTION_COMMIT,
        transaction_id=header.transaction_id,
        state=STATES.get(header.commit_or_rollback, UNKNOWN_STATE),
        is_from_check=bool(header.from_transaction_check),
    )


def _message_type(properties: Mapping[str, str]) -> TracedMessageType:
    if properties.get(MessageProperty.TRANSACTION_PREPARED) == "true":
        return TracedMessageType.TRANSACTION_HALF
    if any(name in properties for name in DELAY_PROPERTIES):
        return TracedMessageType.DELAY
    return TracedMessageType.NORMAL
