"""`python -m brokerd check` and `repair`: what they say, what they keep, and that the store opens afterwards."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from brokerd import store_commands
from brokerd.store.errors import StoreError
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.recovery.test_opening import contents, log_file, overwrite, record_starts
from tests.brokerd.store.stores import (
    NOW_MS,
    bodies,
    open_store,
    put,
    put_all,
    settle,
    small_config,
    unpack_golden,
)

EVER = (0, 2**62)
# What a broker's configuration file would say beside the sizes of log and queue files, which are those of the files.
SETTINGS = ["--set", "maxHashSlotNum=8", "--set", "maxIndexNum=64"]


def run(command: str, root: Path, *arguments: str) -> int:
    return store_commands.main([command, "--store", str(root), *SETTINGS, *arguments])


def filled(root: Path, count: int = 30, body_bytes: int = 300) -> list[bytes]:
    """A cleanly closed store of one queue over several log and index files."""
    store = open_store(root)
    sent = [b"m%d " % number + bytes(body_bytes) for number in range(count)]
    for number, body in enumerate(sent):
        put(store, body, properties=b"KEYS\x01k%d all\x02" % number)
    settle(store)
    store.close(NOW_MS)
    return sent


def starts_of(root: Path) -> list[int]:
    store = open_store(root)
    queue = store.table.queues["TopicTest", 0]
    starts = [queue.unit(number)[0] for number in range(queue.max_offset)]
    store.close(NOW_MS)
    return starts


def reopened(root: Path) -> MessageStore:
    store = MessageStore(small_config(root))
    store.open(NOW_MS)
    return store


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_sound_store_has_no_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: str) -> None:
    filled(tmp_path)
    if stop == "crash":
        (tmp_path / "abort").touch()
    before = contents(tmp_path)
    assert run("check", tmp_path) == 0
    assert run("repair", tmp_path, "--apply") == 0
    assert contents(tmp_path) == before
    assert "The store is sound." in capsys.readouterr().out


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "4.9.7-unclean", "5.3.3-unclean"])
def test_a_java_brokers_store_has_no_faults(tmp_path: Path, version: str) -> None:
    root = unpack_golden(version, tmp_path / "store")
    settings = ["--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=200"]
    assert store_commands.main(["check", "--store", str(root), *settings]) == 0


def test_a_damaged_record_is_filled_and_everything_else_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = filled(tmp_path)
    start = starts_of(tmp_path)[29]
    overwrite(log_file(tmp_path, start - start % 4096), start % 4096 + 100, b"X")
    before = contents(tmp_path)
    with pytest.raises(StoreError):
        reopened(tmp_path)
    assert run("check", tmp_path) == 1
    assert "body CRC is not" in capsys.readouterr().out
    assert run("repair", tmp_path) == 1
    assert contents(tmp_path) == before, "without --apply nothing is changed"
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    assert bodies(store) == sent[:29]
    assert put_all(store, [b"new"])[0].queue_offset == 30, "the offset of the lost message is not used again"
    assert bodies(store) == [*sent[:29], b"new"]
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


@pytest.mark.parametrize("number", [0, 1, 7, 14, 28])
@pytest.mark.parametrize("length", [1, 40, 1000])
def test_what_a_repair_replaces_is_kept(tmp_path: Path, number: int, length: int) -> None:
    sent = filled(tmp_path)
    starts = starts_of(tmp_path)
    start = starts[number]
    damage = random.Random(number).randbytes(length)
    path = log_file(tmp_path, start - start % 4096)
    length = min(length, 4096 - start % 4096)
    overwrite(path, start % 4096, damage[:length])
    assert run("repair", tmp_path, "--apply") == 0
    (side,) = tmp_path.glob("repair-*")
    copies = b"".join(copy.read_bytes() for copy in sorted((side / "commitlog").iterdir()))
    assert damage[:length] in copies
    store = reopened(tmp_path)
    left = bodies(store)
    lost = [body for body in sent if body not in left]
    assert left == [body for body in sent if body in left]
    assert 1 <= len(lost) <= 1 + length // 300 + 1
    for body in left:
        word = body.split(b" ")[0].decode().replace("m", "k")
        assert len(store.query_by_key("TopicTest", word, 9, *EVER).commit_log_offsets) == 1
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


@pytest.mark.parametrize(
    "damage", ["short", "short to nothing", "long", "middle missing", "last missing", "zero tail"]
)
def test_files_of_the_log_get_their_shape_back(tmp_path: Path, damage: str) -> None:
    sent = filled(tmp_path)
    files = sorted((tmp_path / "commitlog").iterdir())
    path = files[1] if damage in ("long", "middle missing", "short to nothing") else files[-1]
    if "missing" in damage:
        path.unlink()
    elif damage == "zero tail":
        path.write_bytes(bytes(4096))
    else:
        size = {"short": 700, "short to nothing": 0, "long": 5000}[damage]
        path.write_bytes(path.read_bytes().ljust(5000, b"Z")[:size])
    with pytest.raises(StoreError):
        reopened(tmp_path)
    assert run("check", tmp_path) == 1
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    left = bodies(store)
    assert left == [body for body in sent if body in left]
    assert len(left) >= (30 if damage == "long" else 19)
    assert put_all(store, [b"new"])[0].queue_offset == 30
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_record_whose_properties_were_cut_is_part_of_the_hole(tmp_path: Path, stop: str) -> None:
    sent = filled(tmp_path)
    start = starts_of(tmp_path)[14]
    if stop == "crash":
        (tmp_path / "abort").touch()
    path = log_file(tmp_path, start - start % 4096)
    os.truncate(path, path.read_bytes().index(b"k14 all\x02") + 5)
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    left = bodies(store)
    assert left[:14] == sent[:14]
    assert sent[14] not in left
    assert left[14:] == sent[30 - len(left[14:]) :]
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


def test_an_index_that_was_not_compared_is_built_anew(tmp_path: Path) -> None:
    """A changed key has no checksum, and after a crash the index is not compared."""
    filled(tmp_path)
    starts = starts_of(tmp_path)
    (tmp_path / "abort").touch()
    path = log_file(tmp_path, starts[5] - starts[5] % 4096)
    overwrite(path, path.read_bytes().index(b"k5 all"), b"kX")
    overwrite(log_file(tmp_path, starts[20] - starts[20] % 4096), starts[20] % 4096 + 100, b"X")
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    assert len(store.query_by_key("TopicTest", "kX", 9, *EVER).commit_log_offsets) == 1
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


@pytest.mark.parametrize("damage", ["unit", "file deleted", "file short", "queue deleted", "file zeroed"])
def test_queues_are_compared_with_the_log(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = filled(tmp_path)
    path = tmp_path / "consumequeue" / "TopicTest" / "0" / f"{200:020d}"
    if damage == "unit":
        overwrite(path, 3 * 20 + 12, b"tags")
    elif damage == "file deleted":
        path.unlink()
    elif damage == "file short":
        path.write_bytes(bytes(7))
    elif damage == "file zeroed":
        path.write_bytes(bytes(200))
    else:
        shutil.rmtree(path.parent)
    assert run("check", tmp_path) == 1
    assert "consumequeue/TopicTest/0" in capsys.readouterr().out
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    assert bodies(store) == sent
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


@pytest.mark.parametrize("position", [20, 36, 41, 60, 80, 100, 200, 900])
def test_the_index_is_compared_with_the_log(tmp_path: Path, position: int) -> None:
    filled(tmp_path)
    path = sorted((tmp_path / "index").iterdir())[0]
    data = path.read_bytes()
    path.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
    is_harmless = position in (20, 80)  # the header's begin offset, entry 0: nothing is looked up by them
    assert run("check", tmp_path) == (0 if is_harmless else 1)
    assert run("repair", tmp_path, "--apply") == 0
    store = reopened(tmp_path)
    for number in range(30):
        assert len(store.query_by_key("TopicTest", f"k{number}", 9, *EVER).commit_log_offsets) == 1
    assert len(store.query_by_key("TopicTest", "all", 64, *EVER).commit_log_offsets) == 30
    store.close(NOW_MS)
    assert run("check", tmp_path) == 0


def test_a_running_brokers_store_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(tmp_path)
    put(store)
    assert run("check", tmp_path) == 4
    assert "another broker runs on this store" in capsys.readouterr().err
    store.close(NOW_MS)


def test_the_command_line_leads_there(tmp_path: Path) -> None:
    crashed = open_store(tmp_path)
    put_all(crashed, [b"a", b"b"])
    crashed.close(NOW_MS)
    overwrite(log_file(tmp_path), record_starts(tmp_path)[1] + 88, b"X")
    command = [sys.executable, "-m", "brokerd", "check", "--store", str(tmp_path), *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"python -m brokerd repair --store {tmp_path}" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "brokerd", "check", "--store", str(tmp_path / "no")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (4, "")
