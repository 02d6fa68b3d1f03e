"""What a POP group received and acknowledged, and that kills of the broker take nothing of the rest."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from brokerd.remoting.codes import RequestCode
from tests.brokerd.popping import PoppedMessage, messages_of, pop_fields
from tests.brokerd.running import RawClient

GROUP, TOPIC = "pops", "Orders"
INVISIBLE_MS = 300
DRAINED_WITHIN_S = 60


@dataclass(slots=True)
class PopLedger:
    """Names of messages that were acknowledged, by answers of the broker."""

    acknowledged: set[str] = field(default_factory=set)
    # Acknowledged by requests that the kill left without their answer: they may come again, or not.
    unanswered: set[str] = field(default_factory=set)

    async def consume(self, client: RawClient, chance: random.Random) -> None:
        """Pop until the connection breaks; two of three messages are acknowledged."""
        while not client.is_closed.is_set():
            for message in await pop_some(client):
                if chance.random() < 0.67:
                    await self._acknowledge(client, message)

    async def _acknowledge(self, client: RawClient, message: PoppedMessage) -> None:
        name = name_of(message)
        self.unanswered.add(name)
        answer = await client.ask(RequestCode.ACK_MESSAGE, message.ack_fields(GROUP))
        assert answer.code == 0, answer
        self.unanswered.discard(name)
        self.acknowledged.add(name)

    async def drain(self, client: RawClient, sent: set[str]) -> None:
        """Whatever was sent and is not acknowledged comes, at once or when its time is over."""
        missing = sent - self.acknowledged - self.unanswered
        deadline = time.monotonic() + DRAINED_WITHIN_S
        while missing:
            assert time.monotonic() < deadline, f"{len(missing)} messages do not come: {sorted(missing)[:5]}"
            for message in await pop_some(client):
                await self._acknowledge(client, message)
                missing.discard(name_of(message))


async def pop_some(client: RawClient) -> list[PoppedMessage]:
    fields = pop_fields(GROUP, TOPIC, invisibleTime=str(INVISIBLE_MS), pollTime="1000")
    answer = await client.ask(RequestCode.POP_MESSAGE, fields)
    assert answer.code in (0, 17, 210), answer  # 17: no message has made the topic yet
    return messages_of(answer) if answer.code == 0 else []


def name_of(message: PoppedMessage) -> str:
    return message.body.split(b" ")[0].decode()
