from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brokerd.store.errors import StoreLocked
from brokerd.store.files.store_lock import AbortFile, StoreLock

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w+")
getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX, *([1, 0] if sys.argv[2] == "lockf" else []))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["lockf", "flock"])  # lockf on byte 0 is what Java's FileChannel.lock takes
def test_it_refuses_a_store_another_process_works_on(tmp_path: Path, how: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock"), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(StoreLocked, match="another broker runs on this store"):
        StoreLock(tmp_path).acquire()
    holder.stdin.close()
    holder.wait(10)
    holder.stdout.close()
    lock = StoreLock(tmp_path)
    lock.acquire()
    lock.release()


def test_it_refuses_a_second_store_in_the_same_process(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.acquire()
    with pytest.raises(StoreLocked):
        StoreLock(tmp_path).acquire()
    lock.release()
    lock.release()
    again = StoreLock(tmp_path)
    again.acquire()
    again.release()
    assert (tmp_path / "lock").read_text() == "lock"


def test_it_marks_an_open_store_with_the_process_id(tmp_path: Path) -> None:
    abort = AbortFile(tmp_path)
    assert not abort.exists
    abort.create()
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    abort.remove()
    abort.remove()
    assert not abort.exists
