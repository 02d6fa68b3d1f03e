"""The archive of classes: used when it is there and nobody else could have put it there, and never in the way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark.process import class_archive
from spark.process.session import session_settings


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    monkeypatch.setenv("SPARK_LOCAL_CONNECT_DISCOVERY", str(folder / "note.json"))
    return folder


def test_it_is_used_once_it_is_there(notes: Path) -> None:
    file = class_archive.archive_file()
    assert file is not None and file.parent == notes
    assert class_archive.java_option() == ""
    file.touch()
    option = class_archive.java_option()
    assert option.startswith(f"-XX:SharedArchiveFile={file} ")
    assert option in session_settings(java_options=option)["spark.driver.extraJavaOptions"]
    assert "spark.driver.extraJavaOptions" not in session_settings(
        master="spark://spark:7077", java_options=option
    )


def test_it_is_not_used_where_others_can_write(notes: Path) -> None:
    notes.mkdir(mode=0o700)
    notes.chmod(0o777)
    assert class_archive.archive_file() is None
    assert class_archive.java_option() == ""


def test_it_is_not_used_without_a_folder(notes: Path) -> None:
    notes.write_text("a file where a folder is needed")
    assert class_archive.java_option() == ""


def test_a_broken_one_is_not_in_the_way(notes: Path) -> None:
    file = class_archive.archive_file()
    assert file is not None
    file.write_bytes(b"none")
    java = ["java", "-XX:TieredStopAtLevel=1", *class_archive.java_option().split(), "-version"]
    # The JVM would name the options of all tests.
    plain = {name: text for name, text in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    started = subprocess.run(java, capture_output=True, text=True, timeout=60, check=True, env=plain)
    assert (
        started.stdout == "" and started.stderr.count("\n") == 3
    )  # three lines of its version, nothing else
