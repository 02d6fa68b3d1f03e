"""Messages for a time, of clients whose broker is killed: each that was acknowledged comes once, unless recalled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import MessageRecord
from tests.brokerd.running import RawClient, send_fields

TOPIC = "Timed"
DELAY_MAX_MS = 2_500
RECALLED_SHARE = 0.2
WITHIN_S = 30


@dataclass(slots=True)
class TimerLedger:
    """What the producers know; times in ms."""

    due_ms: dict[str, int] = field(default_factory=dict)  # acknowledged
    recalls: dict[str, bool] = field(default_factory=dict)  # → whether it was answered with success

    async def produce(self, client: RawClient, name: str, message: Message, chance: random.Random) -> None:
        """Send a message for the next seconds, and sometimes take it back."""
        due_ms = time.time_ns() // 1_000_000 + chance.randrange(1, DELAY_MAX_MS)
        properties = {**message.properties, "TIMER_DELIVER_MS": str(due_ms)}
        encoded = "".join(f"{key}\x01{value}\x02" for key, value in properties.items())
        answer = await client.ask(
            RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC, properties=encoded), message.body
        )
        assert answer.code == 0, answer
        self.due_ms[name] = due_ms
        if chance.random() < RECALLED_SHARE and "recallHandle" in answer.ext_fields:
            self.recalls[name] = False
            fields = {"topic": TOPIC, "recallHandle": answer.ext_fields["recallHandle"]}
            recalled = await client.ask(RequestCode.RECALL_MESSAGE, fields)
            assert recalled.code in (0, 604), recalled  # 604: its time is over
            if recalled.code:
                del self.recalls[name]
            else:
                self.recalls[name] = True

    def check(self, records: Sequence[MessageRecord]) -> set[str]:
        """Compare what was delivered so far; return what is missing."""
        names = [record.body.split(b" ")[0].decode() for record in records]
        assert len(set(names)) == len(names), f"delivered twice: {sorted(names)}"
        wrong = [name for name in names if self.recalls.get(name)]
        assert not wrong, f"delivered although recalled: {wrong}"
        for name, record in zip(names, records, strict=True):
            due_ms = int(record.properties["TIMER_DELIVER_MS"])
            assert record.store_timestamp_ms >= due_ms, f"{name} was delivered early"
        return self.due_ms.keys() - self.recalls.keys() - set(names)

    @staticmethod
    async def pause(began_s: float, missing: set[str]) -> None:
        assert time.monotonic() - began_s < WITHIN_S, f"not delivered: {sorted(missing)}"
        await asyncio.sleep(0.2)
