from __future__ import annotations

import asyncio
import time
from pathlib import Path

from brokerd.loop_delay import Delays, LoopDelay
from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import running


def test_a_long_delay_counts_for_the_looks_it_kept_from_happening() -> None:
    delay = LoopDelay()
    for _ in range(95):
        delay.note(0.001)
    assert delay.delays() == Delays(1.0, 1.0, 1.0)
    delay.note(0.1)  # five looks: 100, 80, 60, 40 and 20 ms
    assert delay.delays() == Delays(1.0, 100.0, 100.0)
    assert [round(each, 2) for each in sorted(delay._samples)[-5:]] == [0.02, 0.04, 0.06, 0.08, 0.1]


def test_it_forgets_what_is_older_than_a_minute() -> None:
    delay = LoopDelay()
    delay.note(3.0)
    for _ in range(3_000):
        delay.note(0.0)
    assert delay.delays() == Delays(0.0, 0.0, 0.0)


async def test_the_runtime_table_tells_a_blocked_loop(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await asyncio.sleep(0.1)
        time.sleep(0.3)  # the broker runs in this very loop
        await asyncio.sleep(0.1)
        table = KVTable.from_body((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert 250 < float(table["loopDelayMax"]) < 2_000
        assert float(table["loopDelay50"]) <= float(table["loopDelay99"]) <= float(table["loopDelayMax"])
