"""The official Java client as a peer: built once by Maven, run in a JVM that peers share, read line by line."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.maven import build_once
from tests.support.peer_process import Peer, PeerProcess
from tests.support.scratch import common_folder

PROJECT = Path(__file__).parent.parent / "peers" / "java"
RELEASES = ("5.3.3", "4.9.7")
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


class Jvm(PeerProcess):
    """A JVM in which any number of peers live: the start costs more than most of them."""

    def __init__(self, class_path: str, properties: Sequence[str] = (), archive: str = "") -> None:
        """`properties` are of the JVM, as `name=value`; `archive`: its option, otherwise the one to read from."""
        archive = archive or f"-XX:SharedArchiveFile={_class_archive(class_path)}"
        super().__init__(
            ["java", "-Xmx256m", *SHORT_LIFE, "-Drocketmq.client.logUseSlf4j=true"]
            # A JVM that finds the archive unfit starts without; what it says of that would be a line of a peer.
            + [archive, "-Xlog:disable", f"-Duser.home={HOME}", *(f"-D{each}" for each in properties)]
            + ["-cp", class_path, "tidemark.peer.Peer"]
        )


_shared: dict[str, Jvm] = {}  # by class path


def _shared_jvm(class_path: str) -> Jvm:
    jvm = _shared.get(class_path)
    if jvm is not None and jvm.has_failed and jvm.is_idle:
        jvm.kill()
    if jvm is None or jvm.has_failed or not jvm.is_running:
        jvm = _shared[class_path] = Jvm(class_path)
    return jvm


class JavaPeer(Peer):
    """A running peer of the Java client."""

    def __init__(self, class_path: str, arguments: Sequence[str], jvm: Jvm | None = None) -> None:
        """Begin it in `jvm`; without one in the JVM that peers of the class path share."""
        super().__init__(jvm or _shared_jvm(class_path), arguments)
