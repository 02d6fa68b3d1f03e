"""Damage a store's files and open it: a torn tail is cut, damage is refused or kept from consumers, again and again.

A round takes one of the faults:

* power: every sector of every file has its content of the last sync or of the end, by chance. Nothing that was
  flushed may be missing, the start may not be refused, every key and tag must be found;
* batch: a process killed inside the append of a batch;
* flip, zero, truncate, delete: at a random place of a random file, after a clean stop or a crash. The start is refused
  (twice, with the same words, changing nothing) or serves; what it serves is what was sent; when something is missing,
  `check` says so; after `repair` everything is served that lies outside the damage.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

from brokerd import store_commands
from brokerd.remoting.message.java_hash import tags_code
from brokerd.store.errors import StoreError
from brokerd.store.log.record import read_record
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.stores import (
    BORN_HOST,
    NOW_MS,
    STORE_HOST,
    body_of,
    flush_everything,
    kill,
    put,
    settle,
    small_config,
)
from tests.hard.tally import main

SECTOR_BYTES = 512
LOG_BYTES = 8192
SIZES = {"mapped_file_size_commit_log": LOG_BYTES, "mapped_file_size_consume_queue": 400, "max_index_num": 40}
SETTINGS = ["--set", "maxHashSlotNum=8", "--set", "maxIndexNum=40"]
QUEUES = [("Orders", 0), ("Orders", 1), ("Events", 0), ("%RETRY%g", 0)]
STAGE_MESSAGES_MAX = 60
SHAPES = 12  # different stores; each is made once in a run
EVER = (0, 2**62)
REPORTS: list[str] = []
BATCH = 5


@dataclass(frozen=True, slots=True)
class Sent:
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size_bytes: int
    body: bytes
    key: str
    tag: str


@dataclass(slots=True)
class Shape:
    """A store at three times: all synced; the log synced once more; killed (or closed)."""

    folder: Path
    sent: list[Sent] = field(default_factory=list)
    flushed: int = 0  # log offset of the second sync
    batch_start: int = -1  # of a batch at the very end

    def at(self, name: str) -> Path:
        return self.folder / name


class Writer:
    """Fills a store and remembers what it sent."""

    def __init__(self, shape: Shape, chance: random.Random) -> None:
        self.shape, self._chance = shape, chance
        self.store = open_at(shape.at("live"))

    def stage(self) -> None:
        for _ in range(self._chance.randrange(STAGE_MESSAGES_MAX)):
            topic, queue_id = self._chance.choice(QUEUES)
            if self._chance.random() < 0.15 and not topic.startswith("%"):
                self.batch(topic, queue_id)
            else:
                number = len(self.shape.sent)
                body, properties, key, tag = self.message(number)
                result = put(self.store, body, topic, queue_id, properties, NOW_MS + number)
                self.note(topic, queue_id, result, body, key, tag)
            settle(self.store)

    def message(self, number: int) -> tuple[bytes, bytes, str, str]:
        body = b"%d " % number + self._chance.randbytes(self._chance.choice([0, 10, 200, 900]))
        key, tag = f"key{number}", f"tag{number % 2}"
        return body, f"KEYS\x01{key}\x02TAGS\x01{tag}\x02".encode(), key, tag

    def batch(self, topic: str, queue_id: int) -> None:
        first = len(self.shape.sent)
        messages = [self.message(first + number) for number in range(BATCH)]
        self.shape.batch_start = self.store.commit_log_max_offset
        result = self.store.put_messages(
            topic,
            queue_id,
            [(body, properties, 0) for body, properties, _, _ in messages],
            born_timestamp_ms=NOW_MS,
            born_host=BORN_HOST,
            store_host=STORE_HOST,
            now_ms=NOW_MS + first,
        )
        starts = result.commit_log_offsets
        self.shape.batch_start = starts[0]
        ends = [*starts[1:], starts[0] + result.size_bytes]
        for number, (body, _, key, tag) in enumerate(messages):
            size, queue_offset = ends[number] - starts[number], result.queue_offset + number
            self.shape.sent.append(Sent(topic, queue_id, queue_offset, starts[number], size, body, key, tag))

    def note(self, topic: str, queue_id: int, result: object, body: bytes, key: str, tag: str) -> None:
        offset, queue_offset = result.commit_log_offset, result.queue_offset  # type: ignore[attr-defined]
        size = result.size_bytes  # type: ignore[attr-defined]
        self.shape.sent.append(Sent(topic, queue_id, queue_offset, offset, size, body, key, tag))

    def deleted_topic(self) -> None:
        """A topic whose records stay in the log, and one of its name that lives."""
        for number in range(self._chance.randrange(1, 12)):
            put(
                self.store, b"dead", "Events", self._chance.randrange(2), b"KEYS\x01dead\x02", NOW_MS + number
            )
        settle(self.store)
        self.store.drop_topic("Events")
        self.store.remove_dropped()


def open_at(root: Path) -> MessageStore:
    store = MessageStore(small_config(root, **SIZES))
    store.open(NOW_MS)
    return store


@cache
def shapes_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="damage-store-"))


@cache
def shape(number: int) -> Shape:
    chance = random.Random(number)
    made = Shape(shapes_folder() / str(number))
    writer = Writer(made, chance)
    if number % 2:
        writer.deleted_topic()
    for name in ("synced", "log synced", "killed"):
        writer.stage()
        if name == "synced":
            flush_everything(writer.store)
        elif name == "log synced":
            made.flushed = writer.store.flush()
        else:
            writer.batch("Orders", 1)
            settle(writer.store)
        shutil.copytree(made.at("live"), made.at(name))
    writer.store.close(NOW_MS)
    shutil.copytree(made.at("live"), made.at("clean"))
    return made


def run_round(seed: int) -> str:
    chance = random.Random(seed)
    made = shape(chance.randrange(SHAPES))
    root = Path(tempfile.mkdtemp(prefix="damage-", dir=shapes_folder())) / "store"
    try:
        with without_syncs():
            fault = chance.choice([power, batch, flip, zero, truncate, delete])
            return fault(made, root, chance)
    finally:
        gc.collect()  # stores that were killed or refused keep their files open until then
        shutil.rmtree(root.parent)


@contextlib.contextmanager
def without_syncs() -> Iterator[None]:
    """Rounds make their own power failures; waiting for the disk would only cost time."""
    with (
        mock.patch("os.fsync", lambda descriptor: None),
        mock.patch("os.fdatasync", lambda descriptor: None),
        mock.patch("brokerd.store.files.mapped_file.sync_pages", lambda *arguments: None),
    ):
        yield


# Faults that may not cost anything that was flushed


def power(made: Shape, root: Path, chance: random.Random) -> str:
    """The disk holds each sector as of its last sync or as of the end."""
    shutil.copytree(made.at("killed"), root)
    lost = chance.choice([0.02, 0.3, 0.9])
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if not path.is_file() or name.name in ("lock", "abort") or name.suffix == ".json":
            continue
        synced = made.at("log synced" if name.parts[0] == "commitlog" else "synced") / name
        if name.name == "checkpoint":
            shutil.copy(made.at(chance.choice(["synced", "log synced", "killed"])) / name, path)
            continue
        new = path.read_bytes()
        # A file that was there but had no size yet reads as zeros, as one that was not there.
        old = (synced.read_bytes() if synced.exists() else b"").ljust(len(new), b"\0")
        sectors = [
            (old if chance.random() < lost else new)[start : start + SECTOR_BYTES]
            for start in range(0, len(new), SECTOR_BYTES)
        ]
        path.write_bytes(b"".join(sectors))
    end = serve_prefix(made, root)
    assert end >= made.flushed
    return "power: cut" if end < log_end(made) else "power: whole"


def batch(made: Shape, root: Path, chance: random.Random) -> str:
    """Killed inside the append: size and magic of the first record are written last."""
    shutil.copytree(made.at("killed"), root)
    start = made.batch_start - made.batch_start % LOG_BYTES
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(made.batch_start - start)
        file.write(bytes(chance.choice([8, 8, 8, 4, 60])))
    assert serve_prefix(made, root) == made.batch_start
    return "batch: cut"


def serve_prefix(made: Shape, root: Path) -> int:
    """Open twice (the second time after another kill); everything before the log's end is served and found."""
    ends = []
    for _ in range(2):
        store = open_at(root)
        ends.append(store.commit_log_max_offset)
        expected = [each for each in made.sent if each.log_offset < ends[-1]]
        assert served(store) == {key_of(each): each.body for each in expected}
        assert_found(store, expected)
        assert sorted(store.topics()) == sorted({each.topic for each in expected})
        kill(store)
    assert ends[0] == ends[1]
    store = open_at(root)
    by_queue = {(each.topic, each.queue_id): each.queue_offset + 1 for each in expected}
    for topic, queue_id in QUEUES:
        assert put(store, b"new", topic, queue_id).queue_offset == by_queue.get((topic, queue_id), 0)
    settle(store)
    store.close(NOW_MS)
    assert command("check", root) == 0
    return ends[0]


# Faults at any place


def flip(made: Shape, root: Path, chance: random.Random) -> str:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice([1, 1, 3])):
            data[written_place(data, chance)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)

    return anywhere("flip", made, root, chance, change)


def zero(made: Shape, root: Path, chance: random.Random) -> str:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        start = written_place(data, chance)
        length = chance.choice([1, 20, 100, 512, 5000])
        data[start : start + length] = bytes(len(data[start : start + length]))
        path.write_bytes(data)

    return anywhere("zero", made, root, chance, change)


def truncate(made: Shape, root: Path, chance: random.Random) -> str:
    return anywhere(
        "truncate", made, root, chance, lambda path: os.truncate(path, chance.randrange(path.stat().st_size))
    )


def delete(made: Shape, root: Path, chance: random.Random) -> str:
    return anywhere("delete", made, root, chance, lambda path: path.unlink())


def written_place(data: bytearray, chance: random.Random) -> int:
    """Anywhere in what was written, mostly."""
    end = len(data.rstrip(b"\0")) or len(data)
    return chance.randrange(end if chance.random() < 0.9 else len(data))


def anywhere(
    kind: str, made: Shape, root: Path, chance: random.Random, change: Callable[[Path], None]
) -> str:
    state = chance.choice(["clean", "killed"])
    shutil.copytree(made.at(state), root)
    paths = [path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size]
    folders = sorted({path.relative_to(root).parts[0] for path in paths})
    folder = chance.choice(["commitlog", "commitlog", *folders])
    path = chance.choice([path for path in paths if path.relative_to(root).parts[0] == folder])
    change(path)
    if has_unprotected_damage(made, root):
        return unprotected(made, root, kind, state)
    # Without its list of deleted topics a rebuild from the log may bring them back.
    dead = path.name == "deletedtopics.json"
    first = attempt(made, root, dead=dead)
    if isinstance(first, str):
        before = contents(root)
        assert attempt(made, root, dead=dead) == first
        assert contents(root) == before
        assert command("check", root) == 1, first
        repaired(made, root, dead=dead)
        return f"{kind} {state}: refused"
    missing = [each for each in made.sent if not first.get(key_of(each))]
    has_faults = command("check", root) == 1
    if missing:
        assert has_faults or is_tail(made, missing, state) or is_head(made, root, missing), missing[:2]
    if has_faults:
        repaired(made, root, dead=dead)
    outcome = (
        "served, check names it" if has_faults else "served without head or tail" if missing else "served all"
    )
    return f"{kind} {state}: {outcome}"


def has_unprotected_damage(made: Shape, root: Path) -> bool:
    """RocketMQ's records have a checksum of the body only: a changed header, topic or property stays a record."""
    for each in made.sent:
        name = f"{each.log_offset - each.log_offset % LOG_BYTES:020d}"
        path, position = root / "commitlog" / name, each.log_offset % LOG_BYTES
        if path.exists() and not is_intact(made, root, each):
            with contextlib.suppress(StoreError):
                record = read_record(memoryview(path.read_bytes()), position, each.log_offset)
                if record is not None:
                    return True
    return False


def unprotected(made: Shape, root: Path, kind: str, state: str) -> str:
    """Nothing can know what the record said; but no body may be wrong, and a refusal stays one."""
    sent = {each.body for each in made.sent} | {b"dead"}
    outcomes = []
    for _ in range(2):
        store = MessageStore(small_config(root, **SIZES))
        try:
            store.open(NOW_MS)
            assert {body_of(view) for view in views(store)} <= sent
            outcomes.append("served")
        except StoreError:
            outcomes.append("refused")
        store.close(NOW_MS)
    assert outcomes[0] == outcomes[1]
    return f"{kind} {state}: unprotected bytes, {outcomes[0]}"


def views(store: MessageStore) -> Iterator[memoryview]:
    for topic in store.topics():
        for queue_id in store.table.queue_ids(topic):
            offset = store.min_offset(topic, queue_id)
            while offset < store.max_offset(topic, queue_id):
                result = store.get_message(topic, queue_id, offset, 32)
                yield from result.views
                offset = max(result.next_begin_offset, offset + 1)


def attempt(made: Shape, root: Path, *, dead: bool) -> str | dict[tuple[str, int, int], bool]:
    """The refusal's words, or what is served: whether each message is whole, found by its key and by its tag."""
    store = MessageStore(small_config(root, **SIZES))
    try:
        store.open(NOW_MS)
    except StoreError as error:
        store.close(NOW_MS)
        return str(error)
    by_key = {key_of(each): each for each in made.sent}
    bodies = served(store)
    if dead:
        bodies = {key: body for key, body in bodies.items() if body != b"dead"}
    for key, body in bodies.items():
        assert key in by_key and by_key[key].body == body, f"a wrong body is served: {key}"
    state = {key: is_found(store, by_key[key]) for key in bodies}
    store.close(NOW_MS)
    return state


def is_tail(made: Shape, missing: list[Sent], state: str) -> bool:
    """After a crash the log may be cut behind what was flushed."""
    first = min(each.log_offset for each in missing)
    return state == "killed" and first >= made.flushed


def is_head(made: Shape, root: Path, missing: list[Sent]) -> bool:
    """The first log file is gone: nobody can tell that from one that expired."""
    begin = min(int(path.name) for path in (root / "commitlog").iterdir())
    return all(each.log_offset < begin for each in missing)


def repaired(made: Shape, root: Path, *, dead: bool) -> None:
    """After repair the store opens, and serves every message whose bytes are there."""
    assert command("repair", root, "--apply") == 0
    intact = [each for each in made.sent if is_intact(made, root, each)]
    state = attempt(made, root, dead=dead)
    assert isinstance(state, dict), state
    lost = [each for each in intact if not state.get(key_of(each))]
    assert not lost, lost[:2]
    assert command("check", root) == 0, REPORTS[-1]


def is_intact(made: Shape, root: Path, message: Sent) -> bool:
    start = message.log_offset - message.log_offset % LOG_BYTES
    name = f"{start:020d}"
    path = root / "commitlog" / name
    if not path.exists():
        return False
    position = message.log_offset - start
    whole = (made.at("clean") / "commitlog" / name).read_bytes()[position : position + message.size_bytes]
    return path.read_bytes()[position : position + message.size_bytes] == whole


# Reading


def key_of(message: Sent) -> tuple[str, int, int]:
    return message.topic, message.queue_id, message.queue_offset


def log_end(made: Shape) -> int:
    return made.sent[-1].log_offset + made.sent[-1].size_bytes


def served(store: MessageStore, tag: str = "") -> dict[tuple[str, int, int], bytes]:
    """Every body by its place, as pulls bring them. No place may be served twice or out of order."""
    codes = frozenset((tags_code(tag.encode()),)) if tag else None
    found: dict[tuple[str, int, int], bytes] = {}
    for topic in store.topics():
        for queue_id in store.table.queue_ids(topic):
            offset, last = store.min_offset(topic, queue_id), -1
            while offset < store.max_offset(topic, queue_id):
                result = store.get_message(topic, queue_id, offset, 32, tags_codes=codes)
                for view in result.views:
                    queue_offset = int.from_bytes(view[20:28])
                    assert last < queue_offset, f"{topic} {queue_id} {queue_offset} after {last}"
                    found[topic, queue_id, queue_offset] = body_of(view)
                    last = queue_offset
                assert result.next_begin_offset > offset
                offset = result.next_begin_offset
    return found


def is_found(store: MessageStore, message: Sent) -> bool:
    """By key at its offset, and with its tag in its unit."""
    found = store.query_by_key(message.topic, message.key, 64, *EVER).commit_log_offsets
    queue = store.table.queues[message.topic, message.queue_id]
    unit = queue.unit(message.queue_offset)
    return message.log_offset in found and unit[2] == tags_code(message.tag.encode())


def assert_found(store: MessageStore, expected: list[Sent]) -> None:
    for message in expected:
        assert is_found(store, message), message
    for tag in ("tag0", "tag1"):
        assert served(store, tag) == {key_of(each): each.body for each in expected if each.tag == tag}


def command(name: str, root: Path, *arguments: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = store_commands.main([name, "--store", str(root), *SETTINGS, *arguments])
    assert code in (0, 1), out.getvalue()
    REPORTS.append(out.getvalue())
    return code


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


if __name__ == "__main__":
    main("damage_store", run_round, rounds=1_000)
