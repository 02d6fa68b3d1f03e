"""A disk that really fails to take what is flushed: the store takes nothing more until a restart, and says so.

The store lies on an ext4 in a sparse image on a tmpfs that is smaller than the image: at a random moment the loop
device has no room for a block, the kernel reports EIO to one flush and calls the pages clean. Loop devices take root.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import RawClient, pull_fields, send_fields
from tests.hard.disk_full import MIB, OWN_MOUNTS, alive, connected, make_ext4, run, run_in_own_namespace
from tests.hard.tally import main
from tests.support.broker_process import BrokerProcess

IMAGE_BYTES = 64 * MIB
SENDS_MAX = 20_000
REASON = "could not be flushed"


@contextmanager
def failing_disk(rng: random.Random, folder: Path) -> Iterator[Path]:
    """A file system whose device fails once 12 to 24 MiB were written."""
    below, mounted = folder / "below", folder / "disk"
    below.mkdir()
    mounted.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={rng.randint(12, 24) * MIB}", "tmpfs", str(below))
    assert make_ext4(below / "image", IMAGE_BYTES, mounted), "no loop device may be used here"
    try:
        yield mounted
    finally:
        run("umount", "-l", str(mounted))
        run("umount", "-l", str(below))


async def send_until_refused(client: RawClient, rng: random.Random) -> int:
    """How many were acknowledged before the disk failed."""
    for count in range(SENDS_MAX):
        fields = send_fields("T", queue_id=rng.randrange(4))
        answer = await client.ask(
            RequestCode.SEND_MESSAGE_V2, fields, rng.randbytes(rng.choice((500, 20_000)))
        )
        if answer.code == 14 and "No space left" in answer.remark and REASON not in answer.remark:
            continue  # no room for a file; no flush failed yet
        if answer.code != 0:
            assert answer.code == 14 and (REASON in answer.remark or "Input/output error" in answer.remark), (
                answer
            )
            return count
    raise AssertionError(f"{SENDS_MAX} messages were taken, and the disk did not fail")


async def round_on(disk: Path, rng: random.Random) -> str:
    flush = rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH"))
    broker = BrokerProcess(disk / "store", mappedFileSizeCommitLog=MIB, flushDiskType=flush)
    broker.log = disk.parent / "log"
    try:
        await asyncio.to_thread(broker.start)
        async with connected(broker) as client:
            acknowledged = await send_until_refused(client, rng)
            assert acknowledged > 0
            await asyncio.sleep(1.5)  # flushes that would succeed now must not make it well
            for _ in range(3):
                assert await send_until_refused(client, rng) == 0, (
                    "taken although earlier messages may be lost"
                )
            runtime = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert REASON in KVTable.from_body(runtime.body).table["storeRefusal"]
            assert (await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))).code in (0, 19)
        alive(broker)
        assert broker.output().count("ERROR brokerd.store.flushing flush failed") == 1
        abort = (disk / "store" / "abort").read_text()
        assert "flush failed" in abort, (abort, broker.output()[-3000:])
        await asyncio.to_thread(broker.stop)
        assert (disk / "store" / "abort").exists(), "no stop after it counts as clean"
        return flush
    finally:
        broker.stop()


def run_round(seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, failing_disk(rng, Path(name)) as disk:
        return asyncio.run(round_on(disk, rng))


if __name__ == "__main__":
    if OWN_MOUNTS not in os.environ:
        run_in_own_namespace("failed_flush")
    main("failed_flush", run_round, rounds=20)
