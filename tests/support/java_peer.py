"""The official Java client as a peer: built once by Maven, run in a JVM that peers share, read line by line."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support import maven
from tests.support.broker_process import BrokerProcess
from tests.support.maven import once
from tests.support.peer_process import Peer, PeerProcess
from tests.support.scratch import common_folder

PROJECT = Path(__file__).parent.parent / "peers" / "java"
RELEASES = ("5.3.3", "4.9.7")
# A JVM of seconds: compiled by the quick compiler only, and only what runs often (an eighth less CPU).
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=3")
# The client and the tools always log into `logs` of the home folder.
HOME = common_folder() / "tidemark-java-peer"
# 4.9.7's mqadmin ends without it.
NO_LOG = "<configuration/>"


def build(release: str) -> str:
    """Class path of the peer against one release; Maven runs only when sources changed."""
    target = PROJECT / "target" / release
    # The JVM archives no classes of a folder.
    packed = target / "peer.zip"
    class_path = f"{packed}:{target / 'jars'}/*"

    def pack() -> None:
        shutil.make_archive(str(packed.with_suffix("")), "zip", target / "classes")
        _keep_classes(class_path)

    once(target / "built", [maven.build(release)], pack)
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


def archived(class_path: str) -> list[str]:
    """Options of a JVM that maps the archive; one that finds it unfit starts without and says nothing."""
    return [f"-XX:SharedArchiveFile={_class_archive(class_path)}", "-Xlog:disable"]


class Jvm(PeerProcess):
    """A JVM in which any number of peers live: the start costs more than most of them."""

    def __init__(self, class_path: str, properties: Sequence[str] = (), archive: str = "") -> None:
        """`properties` are of the JVM, as `name=value`; `archive`: an option to write one, instead of reading it."""
        super().__init__(
            ["java", "-Xmx256m", *SHORT_LIFE, "-Drocketmq.client.logUseSlf4j=true"]
            # What it would log would be lines of a peer.
            + ([archive, "-Xlog:disable"] if archive else archived(class_path))
            + [f"-Duser.home={HOME}", *(f"-D{each}" for each in properties)]
            + ["-cp", class_path, "tidemark.peer.Peer"]
        )


_shared: dict[str, Jvm] = {}  # by class path


def _shared_jvm(class_path: str) -> Jvm:
    jvm = _shared.get(class_path)
    if jvm is not None and jvm.has_failed and jvm.is_idle:
        jvm.kill()
    if jvm is None or jvm.has_failed or not jvm.is_running:
        (HOME / "conf").mkdir(parents=True, exist_ok=True)
        (HOME / "conf" / "logback_tools.xml").write_text(NO_LOG)
        jvm = _shared[class_path] = Jvm(class_path, [f"rocketmq.home.dir={HOME}"])
    return jvm


class JavaPeer(Peer):
    """A running peer of the Java client."""

    def __init__(self, class_path: str, arguments: Sequence[str], jvm: Jvm | None = None) -> None:
        """Begin it in `jvm`; without one in the JVM that peers of the class path share."""
        super().__init__(jvm or _shared_jvm(class_path), arguments)


def mqadmin(class_path: str, *commands: str, jvm: Jvm | None = None) -> list[str]:
    """Run commands of mqadmin; return what it wrote to each."""
    peer = JavaPeer(class_path, ["tools", "--lines", ";;".join(commands)], jvm)
    assert peer.finish() == 0, peer.lines
    written = [[line[2] for line in peer.lines if line[:2] == ["OUT", str(i)]] for i in range(len(commands))]
    return ["\n".join(each) for each in written]
