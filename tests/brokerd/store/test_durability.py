"""kill -9 in the middle of writes, in a real process: nothing acknowledged is lost, nothing half is read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.brokerd.store.stores import bodies, kill, open_store, put_all

ROOT = Path(__file__).parent.parent.parent.parent
WRITER = """
import sys
from pathlib import Path
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST, open_store, put

store = open_store(Path(sys.argv[1]), flush_disk_type=sys.argv[2], mapped_file_size_commit_log=65536)
number = int(sys.argv[3])
acknowledge = sys.stdout.buffer
while True:
    for _ in range(4):
        put(store, b"%d - " % number + bytes(number * 37 % 900), properties=b"KEYS\\x01k%d\\x02" % number)
        number += 1
    batch = [(b"%d %d " % (number + i, number), b"TAGS\\x01batch\\x02", 0) for i in range(3)]
    store.put_messages("TopicTest", 0, batch, born_timestamp_ms=1, born_host=BORN_HOST, store_host=STORE_HOST,
                       now_ms=NOW_MS)
    number += 3
    if sys.argv[2] == "SYNC_FLUSH":
        store.flush()
    store.dispatch_pending()
    acknowledge.write(b"%d\\n" % number)  # all below it are acknowledged
    acknowledge.flush()
"""
OPENER = """
import os, sys
from pathlib import Path
from tests.brokerd.store.stores import open_store
open_store(Path(sys.argv[1]))
os.kill(os.getpid(), 9)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def acknowledged_by(writer: subprocess.Popen[bytes], kill_after_s: float) -> int:
    """Let the writer write for a while, kill it; the number below which it acknowledged everything."""
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(kill_after_s)
    writer.send_signal(signal.SIGKILL)
    lines = (first + writer.stdout.read()).split(b"\n")
    writer.wait(10)
    writer.stdout.close()
    return int(lines[-2])


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_it_loses_nothing_acknowledged_when_killed(tmp_path: Path, flush_disk_type: str) -> None:
    chance = random.Random(7)
    present = 0
    for _ in range(6):
        writer = start(WRITER, str(tmp_path), flush_disk_type, str(present))
        acknowledged = acknowledged_by(writer, chance.uniform(0.01, 0.15))
        assert acknowledged > present
        store = open_store(tmp_path, flush_disk_type=flush_disk_type, mapped_file_size_commit_log=65536)
        words = [body.split(b" ")[:2] for body in bodies(store)]
        assert [int(number) for number, _ in words] == list(range(len(words)))  # in order, none twice or half
        assert len(words) >= acknowledged
        batches = Counter(batch for _, batch in words if batch != b"-")
        assert set(batches.values()) == {3}  # a batch is there whole or not at all
        last_single = max(int(number) for number, batch in words if batch == b"-")
        found = store.query_by_key("TopicTest", f"k{last_single}", 9, 0, 2**62)
        assert len(found.commit_log_offsets) == 1
        present = len(words)
        kill(store)


def test_it_opens_a_store_killed_again_and_again_while_opening(tmp_path: Path) -> None:
    """Recovery itself may be killed; it must not lose what the first crash left."""
    store = open_store(tmp_path)
    sent = [b"%d " % number for number in range(200)]
    put_all(store, sent)
    kill(store)
    for _ in range(3):
        opener = start(OPENER, str(tmp_path))
        assert opener.wait(30) == -9
        assert opener.stdout is not None
        opener.stdout.close()
    again = open_store(tmp_path)
    assert bodies(again) == sent
    again.close(1)
