"""The whole product as its user starts it: `manage.py up` on free ports and a throw-away data folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from tests.support import migrated
from tests.support.ports import free_port

T = TypeVar("T")

ROOT = Path(__file__).parent.parent.parent
# A cold Django, Celery and brokerd on two busy cores; `make run` itself promises far less.
READY_WITHIN_S = 150


class Product:
    """A running `manage.py up`, with more settings in its environment. `sign_in_url` works once.

    Without `sample_week` the demo has no cluster of a generated week, which takes a minute of the processor.
    """

    def __init__(self, data: Path, *options: str, sample_week: bool = False, **settings: str) -> None:
        self.data = data
        if not sample_week:
            options = (*options, "--no-sample-week")
        self.port, self.broker_port, self.namesrv_port = free_port(), free_port(), free_port()
        self.second_broker_port = free_port()
        self.log = data.parent / f"{data.name}.log"
        self.options = options
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.sign_in_url = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    def start(self) -> Product:
        ports = ["--port", self.port, "--broker-port", self.broker_port, "--namesrv-port", self.namesrv_port]
        ports += ["--second-broker-port", self.second_broker_port]
        command = [sys.executable, "manage.py", "up", "--data", self.data, *ports, *self.options]
        said_before = len(self.output())
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                cwd=ROOT,
                env=os.environ | self.settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        pattern = re.compile(rf"{re.escape(self.url)}/sign-in/\S+")
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            found = pattern.search(self.output(), said_before)
            if found:
                self.sign_in_url = found.group(0)
                return self
            if self.process.poll() is not None:
                raise AssertionError(f"up ended with {self.process.returncode}:\n{self.output()[-4000:]}")
            time.sleep(0.1)
        raise AssertionError(f"no sign-in link within {READY_WITHIN_S} s:\n{self.output()[-4000:]}")

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self) -> None:
        """Ctrl-C, and wait until everything is gone."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)  # each process has its own limit, after which it is killed
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def in_databases_of(product: Product, blocker: DjangoDbBlocker, work: Callable[[], T]) -> T:
    """Do what a command of `manage.py` would do there: a new interpreter takes 5 s of CPU to import the console."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    # A thread's connections are its own.
    with blocker.unblock(), pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as thread:
        for alias, name in migrated.FILES.items():
            patch.setitem(connections.settings[alias], "NAME", product.data / name)
        return thread.submit(run).result()
