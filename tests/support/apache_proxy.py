"""A proxy of RocketMQ 5 in front of an Apache cluster (cluster mode), and members that reach the cluster through it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support import maven
from tests.support.apache_cluster import SMALL_JVM, ApacheCluster, Jvm, accepts
from tests.support.ports import free_port

PROJECT = Path(__file__).parent.parent / "peers" / "proxy"


def build() -> tuple[str, str]:
    """Class paths of the proxy and of the gRPC client; Maven runs only when their project changed.

    The client's jar has classes of the proxy's protocol too, over a gRPC of its own: the proxy must not see it.
    """
    target = PROJECT / "target"
    sources = [PROJECT / "pom.xml", PROJECT / "GrpcPeer.java"]
    maven.once(target / "built", sources, lambda: maven.compile_project(PROJECT))
    (client,) = target.glob("jars/rocketmq-client-java-*.jar")
    others = sorted(set(target.glob("jars/*.jar")) - {client})
    return ":".join(map(str, others)), ":".join(map(str, (target / "classes", client, *others)))


class ApacheProxy(Jvm):
    """A proxy beside the brokers: gRPC on one port, remoting on another."""

    def __init__(self, folder: Path, cluster: ApacheCluster) -> None:
        # Not SMALL_JVM itself: started once by hand, it has no archive of its classes.
        jvm = list(SMALL_JVM)
        super().__init__(folder, build()[0], "org.apache.rocketmq.proxy.ProxyStartup", {}, jvm)
        self.grpc_port, self.remoting_port = free_port(), free_port()
        settings = folder / "conf" / "rmq-proxy.json"
        settings.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": "apache",
                    "namesrvAddr": cluster.namesrv,
                    "localServeAddr": "127.0.0.1",
                    "grpcServerPort": self.grpc_port,
                    "remotingListenPort": self.remoting_port,
                }
            )
        )
        self._program[-2:] = ["-pc", str(settings), "-pm", "cluster"]

    @property
    def remoting(self) -> str:
        """What a remoting client has for its name server."""
        return f"127.0.0.1:{self.remoting_port}"

    def serves(self) -> bool:
        """Whether both ports listen; fails when the process has ended."""
        self.require_running()
        return accepts(self.grpc_port) and accepts(self.remoting_port)


class GrpcMember:
    """A push consumer of the official gRPC client (rocketmq-client-java)."""

    def __init__(self, proxy: ApacheProxy, topic: str, group: str, tag: str = "*") -> None:
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Duser.home={proxy.folder}"]
        command += ["-cp", build()[1], "GrpcPeer", f"127.0.0.1:{proxy.grpc_port}", topic, group, tag]
        self.log = proxy.folder / f"member-{group}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
            )

    def has_consumed(self) -> bool:
        """Whether it has received a message; fails when the process has ended."""
        text = self.log.read_text(errors="replace")
        assert self.process.poll() is None, text[-2000:]
        return "CONSUMED" in text

    def close(self) -> None:
        """End it in order: it unregisters from its proxy."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
