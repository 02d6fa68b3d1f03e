"""Transactions of clients whose broker is killed: what each was answered, and what must be true after the start."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from enum import StrEnum

from brokerd.remoting.body.client import HeartbeatData, ProducerData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.message import Message
from tests.brokerd.running import RawClient, send_fields

GROUP = "producers"
PREPARED = "4"
ENDED_CHECKED_MAX = 40  # ends requested once more after each start
WAITS_SHARE = 0.3  # of the half messages: their producers decide after a kill, or never


class Decision(StrEnum):
    """The values of commitOrRollback."""

    COMMIT = "8"
    ROLLBACK = "12"


@dataclass(slots=True)
class Half:
    """A half message that was acknowledged."""

    name: str
    queue_offset: str
    commit_log_offset: str
    requested: Decision | None = None
    is_answered: bool = False


@dataclass(slots=True)
class TransactionLedger:
    """What the producers know."""

    halves: dict[str, Half] = field(default_factory=dict)

    async def produce(
        self, client: RawClient, message: Message, queue_id: int, chance: random.Random
    ) -> None:
        """Send a half message and end it, or an earlier one, or none."""
        name = message.properties["KEYS"]
        properties = {**message.properties, "PGROUP": GROUP, "TRAN_MSG": "true"}
        encoded = "".join(f"{key}\x01{value}\x02" for key, value in properties.items())
        fields = send_fields(message.topic, queue_id=queue_id, properties=encoded, f=PREPARED)
        fields["g"] = str(int(time.time() * 1000))
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, message.body)
        assert answer.code == 0, answer
        offset = decode_offset_message_id(answer.ext_fields["msgId"])[2]
        half = self.halves[name] = Half(name, answer.ext_fields["queueOffset"], str(offset))
        if chance.random() < WAITS_SHARE:
            return
        assert await self.end(client, half, chance.choice(list(Decision))) == 0

    async def end(self, client: RawClient, half: Half, decision: Decision) -> int:
        half.requested = decision
        fields = {
            "producerGroup": GROUP,
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.commit_log_offset,
            "commitOrRollback": decision,
            "fromTransactionCheck": "false",
        }
        answer = await client.ask(RequestCode.END_TRANSACTION, fields)
        half.is_answered = True
        return answer.code

    def check_visible(self, names: set[str]) -> None:
        for half in self.halves.values():
            is_visible = half.name in names
            if half.requested is not Decision.COMMIT:
                assert not is_visible, f"visible without a commit: {half}"
            elif half.is_answered:
                assert is_visible, f"a committed message is gone: {half}"

    async def settle(self, client: RawClient, names: set[str], chance: random.Random) -> None:
        """Find every transaction as the kill has left it: those that ended stay ended, the others go on."""
        ended = [half for half in self.halves.values() if half.is_answered]
        others = [half for half in self.halves.values() if not half.is_answered]
        for half in chance.sample(ended, min(ENDED_CHECKED_MAX, len(ended))):
            decision = half.requested
            assert await self.end(client, half, Decision.COMMIT) == 1, f"ended twice: {half}"
            half.requested = decision
        for half in others:
            if half.requested is Decision.COMMIT:
                expected = 1 if half.name in names else 0
                assert await self.end(client, half, Decision.COMMIT) == expected, half
            elif half.requested is Decision.ROLLBACK:
                assert await self.end(client, half, Decision.ROLLBACK) in (0, 1), half
            elif chance.random() < 0.5:
                assert await self.end(client, half, chance.choice(list(Decision))) == 0, f"lost: {half}"


async def register_producer(client: RawClient) -> None:
    """Join the group whose members the broker asks about half messages."""
    body = HeartbeatData(client_id="c1", producer_data_set=[ProducerData(group_name=GROUP)]).to_body()
    assert (await asyncio.wait_for(client.ask(RequestCode.HEART_BEAT, body=body), 10)).code == 0
