"""POP requests of a raw client: what they carry, and what is read of their answers."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.clock import wall_ms
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.running import RawClient


def pop_fields(group: str, topic: str, **fields: str) -> dict[str, str]:
    """Header fields of POP_MESSAGE that answers at once."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "60000",
        "pollTime": "0",
        "bornTime": str(wall_ms()),
        "initMode": "0",
        "expType": "TAG",
        "exp": "*",
        "order": "false",
        **fields,
    }


@dataclass(frozen=True)
class PoppedMessage:
    """A popped message with the handle that the client makes."""

    record: MessageRecord
    handle: str

    @property
    def body(self) -> bytes:
        return self.record.body

    def ack_fields(self, group: str) -> dict[str, str]:
        parts = self.handle.split(" ")
        topic = self.record.topic
        topic = {"0": topic, "1": f"%RETRY%{group}_{topic}", "2": f"%RETRY%{group}+{topic}"}[parts[4]]
        return {
            "consumerGroup": group,
            "topic": topic,
            "queueId": parts[6],
            "offset": str(self.record.queue_offset),
            "extraInfo": self.handle,
        }


def messages_of(answer: RemotingCommand) -> list[PoppedMessage]:
    """Make the handles as Java's client does."""
    ext = answer.ext_fields
    starts = {}
    for entry in filter(None, ext.get("startOffsetInfo", "").split(";")):
        retry, queue_id, start = entry.split(" ")
        starts[retry, int(queue_id)] = start
    listed = [
        (retry, int(queue_id), int(offset))
        for entry in filter(None, ext.get("msgOffsetInfo", "").split(";"))
        for retry, queue_id, offsets in [entry.split(" ")]
        for offset in offsets.split(",")
    ]
    found = []
    for record in decode_records(answer.body, check_crc=True):
        handle = record.properties.get("POP_CK")
        if handle is None:
            assert ("0", record.queue_id, record.queue_offset) in listed
            handle = (
                f"{starts['0', record.queue_id]} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0"
                f" broker-a {record.queue_id} {record.queue_offset}"
            )
        found.append(PoppedMessage(record, handle))
    assert len(found) == len(listed)
    return found


async def pop(client: RawClient, group: str, topic: str, **fields: str) -> list[PoppedMessage]:
    """Pop and return what was found."""
    answer = await client.ask(RequestCode.POP_MESSAGE, pop_fields(group, topic, **fields))
    assert answer.code in (0, 210), (answer.code, answer.remark)
    return messages_of(answer) if answer.code == 0 else []


async def ack(client: RawClient, group: str, *messages: PoppedMessage) -> None:
    for message in messages:
        answer = await client.ask(RequestCode.ACK_MESSAGE, message.ack_fields(group))
        assert answer.code == 0, answer.remark
