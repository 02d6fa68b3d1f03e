"""The official Java client as a peer: built once by Maven, run in a JVM that peers share, read line by line."""

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
STOP_S = 15
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
        jvm = Jvm(class_path, archive=f"-XX:ArchiveClassesAtExit={archive}")
        where = ("--namesrv", broker.namesrv, "--topic", "Classes")
        try:
            assert JavaPeer(class_path, ["produce", *where, "--count", "1"], jvm).finish() == 0
            consume = ["consume", *where, "--group", "classes", "--expect", "1", "--seconds", "60"]
            assert JavaPeer(class_path, consume, jvm).finish() == 0
            jvm.end()
        finally:
            jvm.kill()
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


class Jvm:
    """A JVM in which any number of peers live: the start costs more than most of them."""

    def __init__(self, class_path: str, properties: Sequence[str] = (), archive: str = "") -> None:
        """`properties` are of the JVM, as `name=value`; `archive`: its option, otherwise the one to read from."""
        archive = archive or f"-XX:SharedArchiveFile={_class_archive(class_path)}"
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", *SHORT_LIFE, "-Drocketmq.client.logUseSlf4j=true"]
            # A JVM that finds the archive unfit starts without; what it says of that would be a line of a peer.
            + [archive, "-Xlog:disable", f"-Duser.home={HOME}", *(f"-D{each}" for each in properties)]
            + ["-cp", class_path, "tidemark.peer.Peer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: list[list[list[str]]] = []  # by the number of their peer
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Whether a peer of it failed: a client of 4.9 goes on in threads of its own."""
        return any(lines and lines[-1] == ["END", "1"] for lines in self._lines)

    @property
    def is_idle(self) -> bool:
        return all(lines and lines[-1][0] == "END" for lines in self._lines)

    def begin(self, arguments: Sequence[str]) -> tuple[int, list[list[str]]]:
        """Begin a peer; return its number and the list its lines go to."""
        number, lines = len(self._lines), list[list[str]]()
        self._lines.append(lines)
        self.write(str(number), *arguments)
        return number, lines

    def write(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            number, *columns = line.rstrip("\n").split("\t")
            if columns and number.isdecimal():  # the client of 4.9 logs here too
                self._lines[int(number)].append(columns)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(5)

    def end(self) -> None:
        """End it in order, which writes its archive of classes if it is to."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


_shared: dict[str, Jvm] = {}  # by class path


def _shared_jvm(class_path: str) -> Jvm:
    jvm = _shared.get(class_path)
    if jvm is not None and jvm.has_failed and jvm.is_idle:
        jvm.kill()
    if jvm is None or jvm.has_failed or not jvm.is_running:
        jvm = _shared[class_path] = Jvm(class_path)
    return jvm


class JavaPeer:
    """A running peer. Its lines are collected by a thread; `wait_for` watches them."""

    def __init__(self, class_path: str, arguments: Sequence[str], jvm: Jvm | None = None) -> None:
        """Begin it in `jvm`; without one in the JVM that peers of the class path share."""
        self._jvm = jvm or _shared_jvm(class_path)
        self._number, self.lines = self._jvm.begin(arguments)

    @property
    def code(self) -> int | None:
        """0 after an orderly end; None while it runs."""
        if self.lines and self.lines[-1][0] == "END":
            return int(self.lines[-1][1])
        return None if self._jvm.is_running else 1

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
            if self.code is not None and not condition(self):
                raise AssertionError(f"peer ended ({self.code}) before {what}: {self.lines[-5:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {patience_s} s; last lines: {self.lines[-5:]}")
            time.sleep(0.05)

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        """Wait until it ends; return its code."""
        self.wait_for(lambda peer: peer.code is not None, "end", patience_s)
        assert self.code is not None
        return self.code

    def stop(self) -> None:
        """End it in order if it runs still; one that does not, or failed, takes its JVM with it."""
        if self.code is None:
            self._jvm.write(str(self._number), "stop")
            deadline = time.monotonic() + STOP_S
            while self.code is None and time.monotonic() < deadline:
                time.sleep(0.05)
        if self.code != 0:
            self._jvm.kill()  # threads that are left behind would go on under its name
