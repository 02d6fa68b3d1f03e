"""A standalone Spark cluster of separate processes: a master, and workers that know nothing of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

DEPLOY = "org.apache.spark.deploy"
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 120


@contextmanager
def running_master(folder: Path) -> Iterator[str]:
    """A master without a worker; yields its address."""
    with _running([f"{DEPLOY}.master.Master"], folder, folder / "master.log") as process:
        yield _said(folder / "master.log", r"Starting Spark master at (spark://\S+)", process)


@contextmanager
def running_worker(master: str, folder: Path, name: str, cores: int = 2) -> Iterator[subprocess.Popen[str]]:
    """A worker with a work folder of its own."""
    log = folder / f"{name}.log"
    options = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / name), master]
    with _running([f"{DEPLOY}.worker.Worker"], folder, log, *options) as process:
        _said(log, r"(Successfully registered) with master", process)
        yield process


@contextmanager
def _running(command: list[str], folder: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "SPARK", "PYSPARK"))
    }
    environ = {
        **kept,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [
        str(SPARK_HOME / "bin" / "spark-class"),
        *command,
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        *options,
    ]
    with log.open("w+") as said:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=said, stderr=said, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _said(log: Path, pattern: str, process: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(pattern, log.read_text())
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never said {pattern}: {log.read_text()[-2_000:]}")
