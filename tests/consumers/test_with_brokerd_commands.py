"""`python -m consumers` as a process against a real brokerd."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import TRANSACTION_GROUP, dead_letter_topic
from consumers import MQAdmin, MQBrokerError, Producer

ROOT = Path(__file__).parent.parent.parent
# All that the demo starts, as consumers/demo/traffic.py lists them.
GROUPS = {
    "billing",
    "notifier",
    "analytics",
    "ledger",
    "shipping",
    "stock-sync",
    "reminder-mailer",
    "nightly-export",
    "receipts",
    "fraud-check",
}


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "consumers", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def terminate(process: subprocess.Popen[str]) -> str:
    """What it printed."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    return output


async def lags(admin: MQAdmin, addr: str) -> dict[tuple[str, str], int]:
    offsets = (await admin.all_consumer_offsets(addr)).offset_table
    stats = await admin.topic_stats_many(addr, sorted({topic for topic, _ in offsets}))
    result = {}
    for (topic, group), committed in offsets.items():
        table = stats[topic]
        assert not isinstance(table, Exception)
        ends = {queue.queue_id: each.max_offset for queue, each in table.offset_table.items()}
        result[topic, group] = sum(ends[queue_id] - offset for queue_id, offset in committed.items())
    return result


async def dead_letters(admin: MQAdmin, addr: str) -> int:
    try:
        return await admin.max_offset(addr, dead_letter_topic("notifier"), 0)
    except MQBrokerError:
        return 0


async def eventually(condition, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if await condition():
            return True
        await asyncio.sleep(0.2)
    return False


async def test_it_makes_a_shop_with_lag_and_dead_letters(brokerd, tmp_path):
    process = start("demo", "--namesrv", brokerd.namesrv, "--speed", "3", cwd=tmp_path)
    try:
        async with MQAdmin(brokerd.namesrv) as admin:

            async def has_lag() -> bool:
                lag = await lags(admin, brokerd.address)
                groups = {group for topic, group in lag if not topic.startswith("%RETRY%")} - {
                    TRANSACTION_GROUP
                }
                return groups == GROUPS and lag["clicks", "analytics"] > 500

            async def has_dead_letters() -> bool:
                return await dead_letters(admin, brokerd.address) > 0

            assert await eventually(has_lag, 60)
            assert await eventually(has_dead_letters, 60)
            assert {"orders", "clicks", "payments"} <= set(await admin.topic_list())
    finally:
        output = terminate(process)
    assert process.returncode == 0, output
    assert "Traceback" not in output


async def test_it_runs_a_handler_of_the_user(brokerd, tmp_path):
    (tmp_path / "bill.py").write_text(
        "from consumers import ConsumeStatus\n"
        "def handle(messages, context):\n"
        "    with open('seen', 'ab') as file:\n"
        "        file.write(messages[0].body + b'\\n')\n"
        "    return ConsumeStatus.CONSUME_SUCCESS\n"
    )
    async with Producer("shop", brokerd.namesrv) as producer:
        await producer.send(Message("orders", b"paid order", {"TAGS": "paid"}))
        await producer.send(Message("orders", b"new order", {"TAGS": "created"}))
    arguments: Sequence[str] = ("--group", "billing", "--topic", "orders:paid", "--from", "first")
    process = start("run", "bill:handle", "--namesrv", brokerd.namesrv, *arguments, cwd=tmp_path)

    async def has_seen() -> bool:
        return (tmp_path / "seen").exists()

    try:
        assert await eventually(has_seen, 60)
    finally:
        output = terminate(process)
    assert process.returncode == 0, output
    assert (tmp_path / "seen").read_text() == "paid order\n"
