"""A real brokerd on free ports that a test may stop, kill and start again on the same data."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.support.forks import ForkedProgram, forked_broker
from tests.support.ports import free_port

READY_WITHIN_S = 60  # a second where nothing else runs


class BrokerProcess:
    """brokerd with small store files, in a process of its own. The ports stay the same over restarts."""

    # The first message readies the pages of two log files, of 4 MiB and more for the longest message, and of an
    # index: 10 MB that the kernel clears and writes, not 52.
    SIZES: ClassVar = {"mappedFileSizeCommitLog": 5 << 20, "maxHashSlotNum": 10_000, "maxIndexNum": 40_000}

    def __init__(self, data: Path, **settings: str | int) -> None:
        self.data = data
        self.port = free_port()
        self.namesrv_port = free_port()
        self.ha_port = free_port()  # not the one behind listenPort: another process may have it
        self.settings: dict[str, str | int] = {
            "listenPort": self.port,
            "namesrvListenPort": self.namesrv_port,
            "haListenPort": self.ha_port,
            "brokerIP1": "127.0.0.1",
            "storePathRootDir": str(data),
            **self.SIZES,
            # Nearly full disks are not what these tests are about: a broker refuses messages there.
            "diskMaxUsedSpaceRatio": 100,
            "diskSpaceCleanForciblyRatio": 100,
            "diskSpaceWarningLevelRatio": 100,
            **settings,
        }
        self.process: subprocess.Popen[bytes] | ForkedProgram | None = None
        self.log = data.parent / f"{data.name}.log"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> BrokerProcess:
        arguments = [item for key, value in self.settings.items() for item in ("--set", f"{key}={value}")]
        ready_before = self.output().count("brokerd ready")
        self.process = self.launch(arguments)
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"brokerd ended with {self.process.returncode}: {self.output()[-2000:]}")
            if self.output().count("brokerd ready") > ready_before:
                return self
            time.sleep(0.005)
        raise AssertionError(f"brokerd not ready within {READY_WITHIN_S} s: {self.output()[-2000:]}")

    def launch(self, arguments: Sequence[str]) -> subprocess.Popen[bytes] | ForkedProgram:
        return forked_broker(arguments, self.log)

    def output(self) -> str:
        """Everything it printed, over all its runs."""
        return self.log.read_text() if self.log.exists() else ""

    def kill(self) -> None:
        """Kill the process, as a power cut would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class NameServerProcess(BrokerProcess):
    """`python -m brokerd namesrv`: a name server without a broker. `data` is its folder."""

    def __init__(self, data: Path, **settings: str | int) -> None:
        super().__init__(data)
        data.mkdir(exist_ok=True)
        self.settings = {
            "listenPort": self.namesrv_port,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": str(data / "kvConfig.json"),
            **settings,
        }

    def launch(self, arguments: Sequence[str]) -> subprocess.Popen[bytes] | ForkedProgram:
        return super().launch(["namesrv", *arguments])


class CommandBroker(BrokerProcess):
    """`python -m brokerd` itself: for tests of the command, and for what is measured of its process."""

    SIZES: ClassVar = {"mappedFileSizeCommitLog": 16 << 20}

    def launch(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "brokerd", *arguments], stdout=log, stderr=subprocess.STDOUT
            )
