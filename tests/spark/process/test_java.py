"""Whether this machine can run Spark: every way in which Java can be missing has its own sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark.process.java import java_problem, java_version


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake_java(folder: Path, script: str) -> Path:
    path = folder / "java"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def test_it_names_the_package_when_there_is_no_java(bin_folder: Path) -> None:
    assert java_problem() == (
        "Spark reports need Java 17 or newer and there is none on this machine. On Debian: apt-get install "
        "openjdk-17-jre-headless; or set SPARK_REMOTE to a Spark Connect server."
    )


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_it_is_content_with_a_new_java(bin_folder: Path, version: str) -> None:
    fake_java(bin_folder, says(version))
    assert java_problem() is None


@pytest.mark.parametrize(("version", "word"), [("11.0.2", "Java 11"), ("1.8.0_402", "Java 8")])
def test_it_refuses_an_old_one(bin_folder: Path, version: str, word: str) -> None:
    path = fake_java(bin_folder, says(version))
    problem = java_problem()
    assert problem is not None and f"{path} is {word}. On Debian" in problem


def test_it_refuses_one_that_does_not_run_or_says_nothing(bin_folder: Path) -> None:
    path = fake_java(bin_folder, "exit 0")
    assert f"{path} does not say its version" in str(java_problem())
    path.write_text("\x00")
    assert f"{path} does not run" in str(java_problem())


def test_it_prefers_java_home(bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bin_folder, says("11.0.2"))
    home = tmp_path / "jdk" / "bin"
    home.mkdir(parents=True)
    fake_java(home, says("17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(home.parent))
    assert java_problem() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert "does not run" in str(java_problem())


def test_it_answers_as_a_process_without_loading_spark(bin_folder: Path) -> None:
    code = "import spark.process.java, sys; print(sorted(m for m in sys.modules if m.startswith(('pyspark', 'numpy'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    said = subprocess.run([sys.executable, "-m", "spark.process.java"], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("Spark reports need Java 17")


@pytest.mark.parametrize(("said", "version"), [('version "17.0.1"', 17), ('version "1.8.0"', 8), ("", None)])
def test_it_reads_versions(said: str, version: int | None) -> None:
    assert java_version(said) == version
