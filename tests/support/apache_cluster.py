"""Apache RocketMQ itself, as released: one name server and two brokers in small JVMs on free ports.

All its files (store, logs, name server settings) are in one folder of the caller; none in the home folder. Fetched
once by Maven (`tests/peers/apache/pom.xml`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from consumers import BrokerUnavailable, MQAdmin, MQBrokerError, MQClientError, RemotingClientConfig
from tests.support import maven
from tests.support.broker_process import NameServerProcess
from tests.support.ports import free_port
from tests.support.timer_slack import timer_slack

PROJECT = Path(__file__).parent.parent / "peers" / "apache"
RELEASE, OLD_RELEASE = "5.3.3", "4.9.7"
# Three JVMs that start at once on two busy cores.
READY_WITHIN_S = 120
# Java 17 closes what RocketMQ opens by reflection (bin/runbroker.sh opens it too).
OPENED = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]
SMALL_JVM = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=3",
    "-XX:+UseSerialGC",
)
# A broker that does nothing wakes up a thousand times a second to look for work: the kernel may wake it up later.
SLACK_MS = 10
# The wheel of timed messages, 38 MB, is two fifths of a broker's start and most of each of its figures.
WITHOUT_TIMERS: Mapping[str, str | int] = {"timerWheelEnable": "false"}
# For measurements: the heap and collector of bin/runbroker.sh in small, both compilers.
FAST_JVM = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")


def build(release: str = RELEASE) -> str:
    """Class path of name server and broker; Maven runs only when the pom changed."""
    return f"{maven.build(release).parent / 'jars'}/*"


class ClassArchive:
    """The classes that a broker has loaded when it serves, as the JVM has them in memory: half of a start's CPU."""

    def __init__(self, class_path: str) -> None:
        target = Path(class_path).parent.parent  # of jars/*
        self._file, self._built = target / "classes.jsa", target / "built"

    @property
    def is_current(self) -> bool:
        return self._file.exists() and self._file.stat().st_mtime > self._built.stat().st_mtime

    @property
    def options(self) -> list[str]:
        """Use it, or record what it needs. A JVM that finds it unfit (another Java) starts without."""
        if self.is_current:
            return [f"-XX:SharedArchiveFile={self._file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return ["-XX:+RecordDynamicDumpInfo"]

    def keep(self, pid: int) -> None:
        """Archive the classes of a JVM that records them."""
        draft = self._file.with_suffix(f".{pid}")
        dump = ["jcmd", str(pid), "VM.cds", "dynamic_dump", str(draft)]
        subprocess.run(dump, check=True, timeout=READY_WITHIN_S, stdout=subprocess.DEVNULL)
        draft.replace(self._file)


class Jvm:
    """One RocketMQ process with a home of its own."""

    def __init__(
        self,
        folder: Path,
        class_path: str,
        main: str,
        settings: dict[str, str | int],
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        self.folder = folder
        self._jvm = [*jvm, *OPENED]
        # Measurements start as a cluster does.
        self._archive = ClassArchive(class_path) if jvm == SMALL_JVM else None
        # The last value of a property counts.
        self.properties = [
            # Otherwise each start makes a key and a certificate.
            "tls.server.mode=disabled",
            # No logs: nothing reads them, and to set up the files of fifty loggers is a tenth of a start.
            f"rmq.logback.configurationFile={folder / 'conf' / 'logback_broker.xml'}",
            f"user.home={folder}",
        ]
        self._program = ["-cp", class_path, main, "-c", str(folder / "conf.properties")]
        self.log = folder / "output.log"
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "conf").mkdir(parents=True)
        for name in ("namesrv", "broker"):
            # 4.9 does not start without them; their log is not needed.
            (folder / "conf" / f"logback_{name}.xml").write_text("<configuration/>")
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        (folder / "conf.properties").write_text("".join(lines))

    def change(self, settings: Mapping[str, str | int]) -> None:
        """Add settings for the next start, or others in place of those: the last value counts."""
        with (self.folder / "conf.properties").open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start without waiting."""
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.folder)}
        archived = self._archive.options if self._archive else []
        properties = [f"-D{each}" for each in self.properties]
        with self.log.open("ab") as log, timer_slack(SLACK_MS if self._archive else 0):
            self.process = subprocess.Popen(
                ["java", *self._jvm, *archived, *properties, *self._program],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def keep_classes(self) -> None:
        """Let the next JVMs map the classes that this one has loaded, unless there are such."""
        if self._archive is not None and not self._archive.is_current:
            assert self.process is not None
            self._archive.keep(self.process.pid)

    def require_running(self) -> None:
        if not self.is_running:
            code = None if self.process is None else self.process.returncode
            output = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
            raise AssertionError(f"{self.folder.name} ended with {code}: {output}")

    def kill(self) -> None:
        """Kill the process: an orderly stop of a broker takes 18 s."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class ApacheBroker(Jvm):
    """A master, unless its changes make it a slave. The port stays the same over restarts, and so does the store."""

    def __init__(
        self,
        folder: Path,
        class_path: str,
        name: str,
        namesrv: str,
        changes: Mapping[str, str | int],
        jvm: Sequence[str],
    ) -> None:
        self.name = name
        self.port = free_port(neighbours=(-2, 1))  # the VIP channel and HA
        settings: dict[str, str | int] = {
            "brokerClusterName": "apache",
            "brokerName": name,
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "namesrvAddr": namesrv,
            "listenPort": self.port,
            "haListenPort": self.port + 1,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "autoCreateTopicEnable": "true",
            "autoCreateSubscriptionGroup": "true",
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
            "mappedFileSizeCommitLog": 16 * 1024 * 1024,
            "mappedFileSizeConsumeQueue": 20 * 3_000,
            "mappedFileSizeTimerLog": 1_040_000,
            # Each flush reads the 38 MB of the wheel: once a second that is two thirds of what an idle broker works.
            "timerFlushIntervalMs": 60_000,
            # Until the first of these intervals is over, its thread does not wait but spins: by default for 3 s of CPU.
            "transactionMetricFlushInterval": 250,
            "maxHashSlotNum": 10_000,
            "maxIndexNum": 40_000,
            "flushConsumerOffsetInterval": 1_000,
            "useEpollNativeSelector": "false",
            # A slow or nearly full machine is not what these tests are about.
            "diskMaxUsedSpaceRatio": 95,
            "osPageCacheBusyTimeOutMills": 10_000,
            "waitTimeMillsInSendQueue": 10_000,
            **changes,
        }
        super().__init__(folder, class_path, "org.apache.rocketmq.broker.BrokerStartup", settings, jvm)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class OurNameServer:
    """One of ours in the place of a JVM."""

    def __init__(self, folder: Path, port: int) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._server = NameServerProcess(folder, listenPort=port)

    @property
    def is_running(self) -> bool:
        return self._server.process is not None and self._server.process.poll() is None

    def launch(self) -> None:
        self._server.start()

    def require_running(self) -> None:
        assert self.is_running, self._server.output()[-3000:]

    def kill(self) -> None:
        if self.is_running:
            self._server.kill()


class ApacheCluster:
    """`with ApacheCluster(folder) as cluster:` — name server, broker-a and broker-b.

    `names`: other brokers; `changes`: settings of all of them; `jvm`: SMALL_JVM for tests, FAST_JVM to measure;
    `release`: of both, as Maven Central has it. `more_namesrv`: where the brokers register too.
    `with_our_name_server`: for tests of the broker alone, as a fork of ours costs less than the start of a JVM.
    `with_controller`: the name server has one, which makes one of a name's brokers its master.
    `properties`: of all JVMs; `client`: how to reach them, where they take no plain or unsigned requests.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = ("broker-a", "broker-b"),
        changes: Mapping[str, str | int] | None = None,
        jvm: Sequence[str] = SMALL_JVM,
        release: str = RELEASE,
        more_namesrv: str = "",
        *,
        with_our_name_server: bool = False,
        with_controller: bool = False,
        properties: Sequence[str] = (),
        client: RemotingClientConfig | None = None,
    ) -> None:
        class_path = build(release)
        self._client = client
        controller: dict[str, str | int] = {}
        if with_controller:
            address = f"127.0.0.1:{free_port()}"
            controller = {
                "enableControllerInNamesrv": "true",
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": f"n0-{address}",
                "controllerDLegerSelfId": "n0",
                "controllerStorePath": str(folder / "namesrv" / "controller"),
                "mappedFileSize": 16 * 1024 * 1024,
            }
            changes = {
                "enableControllerMode": "true",
                "controllerAddr": address,
                "brokerId": -1,
                "brokerRole": "SLAVE",
                **(changes or {}),
            }
        self._class_path, self._changes = class_path, changes or {}
        self._jvm = jvm
        self.namesrv_port = free_port()
        self.name_server: Jvm | OurNameServer
        if with_our_name_server:
            self.name_server = OurNameServer(folder / "namesrv", self.namesrv_port)
        else:
            self.name_server = Jvm(
                folder / "namesrv",
                class_path,
                "org.apache.rocketmq.namesrv.NamesrvStartup",
                {"listenPort": self.namesrv_port, "bindAddress": "127.0.0.1", **controller},
                jvm,
            )
            self.name_server.properties += properties
        namesrv = f"{self.namesrv};{more_namesrv}" if more_namesrv else self.namesrv
        self.brokers = [
            ApacheBroker(folder / name, class_path, name, namesrv, changes or {}, jvm) for name in names
        ]
        for each in self.brokers:
            each.properties += properties

    def __enter__(self) -> ApacheCluster:
        try:
            self.name_server.launch()
            self._wait_for(lambda: accepts(self.namesrv_port), "a listening name server")
            self.start_brokers()
            self.brokers[0].keep_classes()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start_afresh(self) -> None:
        """Begin again, with the same addresses and empty stores."""
        self.kill()
        for broker in self.brokers:
            shutil.rmtree(broker.folder / "store", ignore_errors=True)
            broker.process = None  # not one that ended while the name server starts
        self.__enter__()

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def address(self) -> str:
        """Of the first broker, for what needs one."""
        return self.brokers[0].address

    @property
    def addrs(self) -> dict[str, str]:
        """Broker name → address."""
        return {broker.name: broker.address for broker in self.brokers}

    def start_brokers(self) -> None:
        """Start those that do not run; both serve afterwards."""
        stopped = [broker for broker in self.brokers if not broker.is_running]
        if not stopped:
            return
        for broker in stopped:
            broker.launch()
        self._wait_for(lambda: asyncio.run(self._all_serve()), "serving brokers")

    def slave(self, folder: Path, name: str, changes: Mapping[str, str | int] | None = None) -> ApacheBroker:
        """Return a slave of a broker, not started, with the cluster's settings; it serves reads."""
        settings = {
            "brokerRole": "SLAVE",
            "brokerId": self._changes.get("brokerId", 1),
            "slaveReadEnable": "true",
        }
        return ApacheBroker(
            folder,
            self._class_path,
            name,
            self.namesrv,
            {**self._changes, **settings, **(changes or {})},
            self._jvm,
        )

    def kill(self) -> None:
        for each in (*self.brokers, self.name_server):
            each.kill()

    def wait_for_figures(self) -> None:
        """Wait until all brokers return figures: in its first second one has no sample of them, and answers 1."""
        self._wait_for(lambda: asyncio.run(self._all_have_figures()), "brokers with figures")

    async def _all_have_figures(self) -> bool:
        async with MQAdmin([self.namesrv], config=self._client) as admin:
            try:
                for broker in self.brokers:
                    await admin.runtime_info(broker.address)
            except (BrokerUnavailable, MQBrokerError, MQClientError):
                return False
            return True

    async def _all_serve(self) -> bool:
        """Return whether all are registered and answer: a broker listens long before it is in the routes."""
        if not all(accepts(broker.port) for broker in self.brokers):
            return False
        async with MQAdmin([self.namesrv], config=self._client) as admin:
            try:
                known = (await admin.cluster_info()).broker_addr_table
                # Not its figures: those of a broker with a timer wheel take a quarter of a second of CPU.
                for broker in self.brokers:
                    await admin.broker_config(broker.address)
            except (BrokerUnavailable, MQBrokerError, MQClientError):
                return False
            return self.addrs.keys() <= known.keys()

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not condition():
            for each in (self.name_server, *(b for b in self.brokers if b.process is not None)):
                each.require_running()
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {READY_WITHIN_S} s")
            time.sleep(0.2)


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
