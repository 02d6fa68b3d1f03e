"""A disk that fills while messages come: acknowledged ones stay, the broker lives, and goes on once there is room.

The disk is a tmpfs or, where loop devices may be made, an ext4 of a few MiB, mounted in a namespace of its own so that
nothing of it is left behind. Where neither is allowed the round fails and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from tests.brokerd.running import RawClient, pull_fields, send_fields
from tests.hard.tally import main
from tests.support.broker_process import BrokerProcess

OWN_MOUNTS = "TIDEMARK_TEST_OWN_MOUNTS"  # set in the namespace
MIB = 1 << 20
TOPICS, QUEUES = 3, 4
REFUSALS_ENOUGH = 60
GOES_ON_WITHIN_S = 10  # the broker looks every second whether there is room again
ROOM_ENOUGH = 5 * MIB  # for two files of the log, or a new file of each kind
REFUSED = (1, 14)  # SYSTEM_ERROR, SERVICE_NOT_AVAILABLE


@contextmanager
def small_disk(rng: random.Random, folder: Path) -> Iterator[tuple[Path, str]]:
    """A mounted file system of 12 to 20 MiB, and its kind."""
    size, mounted = rng.randint(12, 20) * MIB, folder / "disk"
    mounted.mkdir()
    if rng.random() < 0.5 and os.geteuid() == 0 and make_ext4(folder / "image", size, mounted):
        kind = "ext4"
    else:
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mounted))
        kind = "tmpfs"
    try:
        yield mounted, kind
    finally:
        run("umount", "-l", str(mounted))


def make_ext4(image: Path, size_bytes: int, mounted: Path) -> bool:
    with image.open("wb") as file:
        file.truncate(size_bytes)
    try:
        run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))
        run("mount", "-o", "loop", str(image), str(mounted))
    except (FileNotFoundError, AssertionError):
        return False
    return True


def run(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"


@dataclass
class Load:
    """What was sent, and which of it the broker acknowledged: {(topic, queue id): {queue offset: body}}."""

    rng: random.Random
    acknowledged: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    sent: int = 0
    refused: list[str] = field(default_factory=list)

    async def send(self, client: RawClient) -> bool:
        """One message; False when it was refused with a reason."""
        self.sent += 1
        topic, queue_id = f"T{self.rng.randrange(TOPICS)}", self.rng.randrange(QUEUES)
        body = b"%d " % self.sent + bytes(self.rng.choice((10, 500, 3_000, 20_000)))
        properties = f"UNIQ_KEY\x01{self.sent:032X}\x02KEYS\x01k{self.sent % 50}\x02TAGS\x01t\x02"
        fields = send_fields(topic, queue_id=queue_id, properties=properties)
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
        if answer.code == 0:
            offset = int(answer.ext_fields["queueOffset"])
            known = self.acknowledged.setdefault((topic, queue_id), {})
            assert offset not in known, f"offset {offset} of {topic}/{queue_id} was given twice"
            known[offset] = body
            return True
        assert answer.code in REFUSED and answer.remark, (answer.code, answer.remark)
        self.refused.append(answer.remark)
        return False

    async def check(self, client: RawClient, *, is_full: bool = False) -> None:
        """Pull every queue: each acknowledged message lies at its offset.

        While the disk is full the end of a queue may be missing: its messages are in the log, its file has no room.
        """
        for (topic, queue_id), expected in self.acknowledged.items():
            found: dict[int, bytes] = {}
            offset = 0
            while True:
                fields = pull_fields("g", topic, offset, queue_id=queue_id)
                answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
                if answer.code != 0:
                    break
                for record in decode_records(answer.body, check_crc=True):
                    found[record.queue_offset] = record.body
                offset = int(answer.ext_fields["nextBeginOffset"])
            known = {each: expected[each] for each in expected if each in found} if is_full else expected
            lost = [each for each, body in known.items() if found.get(each) != body]
            assert not lost, (
                f"{topic}/{queue_id} lost offsets {lost[:5]} of {len(expected)}, pull ended {answer}"
            )


@asynccontextmanager
async def connected(broker: BrokerProcess) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(broker.address)
    try:
        yield client
    finally:
        await client.close()


def alive(broker: BrokerProcess) -> None:
    assert broker.process is not None
    assert broker.process.poll() is None, (
        f"brokerd ended: {broker.process.returncode}\n{broker.output()[-1500:]}"
    )


def fill(path: Path, rng: random.Random) -> None:
    """Take what is left, up to some pages at random, so that the disk is full at any step of the broker's."""
    stat = os.statvfs(path.parent)
    leave = rng.choice((0, 0, 1, 3, 40)) * stat.f_bsize
    room = max(0, stat.f_bavail * stat.f_bsize - leave)
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(descriptor, 0, max(1, room))
        finally:
            os.close(descriptor)


async def fill_up(load: Load, broker: BrokerProcess, filler: Path) -> None:
    """Send until the broker refuses for good; the filler takes the disk's rest somewhere on the way."""
    fill_at = load.rng.randrange(0, 400)
    in_a_row = 0
    async with connected(broker) as client:
        while in_a_row < REFUSALS_ENOUGH:
            if load.sent == fill_at:
                fill(filler, load.rng)
            in_a_row = 0 if await load.send(client) else in_a_row + 1
        await load.check(client, is_full=True)
    alive(broker)


async def goes_on(load: Load, broker: BrokerProcess) -> bool:
    async with connected(broker) as client:
        for _ in range(GOES_ON_WITHIN_S * 10):
            if await load.send(client):
                return True
            await asyncio.sleep(0.1)
    return False


async def round_on(disk: Path, rng: random.Random) -> str:
    broker = BrokerProcess(
        disk,
        mappedFileSizeCommitLog=rng.choice((1, 2)) * MIB,
        mappedFileSizeConsumeQueue=rng.choice((20 * 100, 20 * 1024)),
        maxHashSlotNum=rng.choice((1_000, 300_000)),
        maxIndexNum=rng.choice((2_000, 20_000)),
        flushDiskType=rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH")),
        fileReservedTime=72,
        cleanFileForciblyEnable="false",
    )
    load, filler = Load(rng), disk / "filler"
    try:
        await asyncio.to_thread(broker.start)
        await fill_up(load, broker, filler)
        end = rng.choice(("room", "kill", "stop"))
        if end == "kill":
            broker.kill()
        elif end == "stop":
            await asyncio.to_thread(broker.stop)
        freed_bytes = filler.stat().st_size if filler.exists() else 0
        filler.unlink(missing_ok=True)
        if end != "room":
            await asyncio.to_thread(broker.start)
        went_on = await goes_on(load, broker) if freed_bytes else False
        assert went_on or freed_bytes < ROOM_ENOUGH, (
            f"{freed_bytes} bytes are free, and still: {load.refused[-1]}"
        )
        async with connected(broker) as client:
            await load.check(client)
        alive(broker)
        return f"{end}, {'goes on' if went_on else 'stays full'}"
    finally:
        broker.stop()


def run_round(seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, small_disk(rng, Path(name)) as (disk, kind):
        return f"{kind}: {asyncio.run(round_on(disk, rng))}"


def in_own_namespace(arguments: list[str], harness: str = "disk_full") -> list[str]:
    """The command that runs a harness where its mounts vanish with it."""
    flags = ["-m"] if os.geteuid() == 0 else ["-U", "-r", "-m"]
    return ["unshare", *flags, sys.executable, "-m", f"tests.hard.{harness}", *arguments]


def run_in_own_namespace(harness: str) -> NoReturn:
    """Run this harness there as a child: this process keeps the temporary folder of the run from being removed."""
    os.environ[OWN_MOUNTS] = "1"
    sys.exit(subprocess.run(in_own_namespace(sys.argv[1:], harness)).returncode)


if __name__ == "__main__":
    if OWN_MOUNTS not in os.environ:
        run_in_own_namespace("disk_full")
    main("disk_full", run_round, rounds=40)
