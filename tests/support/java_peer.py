"""The official Java client as a peer: built once by Maven, run as a process, read line by line."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.maven import build_once
from tests.support.scratch import common_folder

PROJECT = Path(__file__).parent.parent / "peers" / "java"
RELEASES = ("5.3.3", "4.9.7")
# A JVM on two busy cores needs seconds to start; the messages themselves need a few more.
PATIENCE_S = 120
# A JVM of seconds: compiled by the quick compiler only, and only what runs often (an eighth less CPU).
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=3")
# The client and the tools always log into `logs` of the home folder.
HOME = common_folder() / "tidemark-java-peer"


def build(release: str) -> str:
    """Class path of the peer against one release; Maven runs only when sources changed."""
    target = PROJECT / "target" / release
    sources = [PROJECT / "pom.xml", *PROJECT.glob("src/**/*.java")]
    # The JVM archives no classes of a folder.
    packed = target / "peer.zip"
    class_path = f"{packed}:{target / 'jars'}/*"

    def pack() -> None:
        shutil.make_archive(str(packed.with_suffix("")), "zip", target / "classes")
        _keep_classes(class_path)

    build_once(PROJECT, target / "built", sources, f"-Drocketmq.version={release}", then=pack)
    return class_path


def _keep_classes(class_path: str) -> None:
    """Archive what a consumer has loaded: the start of a JVM that maps it takes a third less CPU."""
    archive = _class_archive(class_path)
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "store").start()
        where = ("--namesrv", broker.namesrv, "--topic", "Classes")
        try:
            assert JavaPeer(class_path, ["produce", *where, "--count", "1"]).finish() == 0
            consume = ["consume", *where, "--group", "classes", "--expect", "1", "--seconds", "60"]
            assert JavaPeer(class_path, consume, jvm=f"-XX:ArchiveClassesAtExit={archive}").finish() == 0
        finally:
            broker.stop()


def _class_archive(class_path: str) -> Path:
    return Path(class_path.partition(":")[0]).with_suffix(".jsa")


@dataclass(frozen=True, slots=True)
class Consumed:
    """One line of a consuming peer: one delivery of one message."""

    instance: str
    queue_id: int
    queue_offset: int
    reconsume_times: int
    key: str
    tag: str
    body: str


class JavaPeer:
    """A running peer. Its lines are collected by a thread; `wait_for` watches them."""

    def __init__(
        self,
        class_path: str,
        arguments: Sequence[str],
        main: str = "tidemark.peer.Peer",
        jvm: str = "",
        properties: Sequence[str] = (),
    ) -> None:
        """`properties` are of the JVM, as `name=value`."""
        self.lines: list[list[str]] = []
        jvm = jvm or f"-XX:SharedArchiveFile={_class_archive(class_path)}"
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", *SHORT_LIFE, "-Drocketmq.client.logUseSlf4j=true"]
            # A JVM that finds the archive unfit starts without; what it says of that would be a line of the peer.
            + [jvm, "-Xlog:disable", f"-Duser.home={HOME}", *(f"-D{each}" for each in properties)]
            + ["-cp", class_path, main, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n").split("\t"))

    @property
    def consumed(self) -> list[Consumed]:
        return [
            Consumed(line[1], int(line[2]), int(line[3]), int(line[4]), line[5], line[6], line[7])
            for line in list(self.lines)
            if line[0] == "M"
        ]

    def failures(self) -> list[list[str]]:
        return [line for line in self.lines if line[0] == "FAILED"]

    def wait_for(
        self, condition: Callable[[JavaPeer], bool], what: str, patience_s: float = PATIENCE_S
    ) -> None:
        deadline = time.monotonic() + patience_s
        while not condition(self):
            if self.process.poll() is not None:
                self._reader.join(5)
                if condition(self):
                    return
                raise AssertionError(
                    f"peer ended ({self.process.returncode}) before {what}: {self.lines[-5:]}"
                )
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {patience_s} s; last lines: {self.lines[-5:]}")
            time.sleep(0.05)

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        """Wait until it ends; return the exit code."""
        code = self.process.wait(patience_s)
        self._reader.join(5)
        return code

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
