"""The command line: a broker, a name server (`namesrv`), or work on a store (`check`, `repair`).

`python -m brokerd -c broker.conf --set listenPort=10911` starts a broker, `python -m brokerd namesrv` a name
server.

Exit codes: 0 stopped by a signal, 2 a setting is wrong, 3 a port is taken, 4 the store, or a file of settings that
were changed while running, cannot be opened.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import uvloop

from brokerd import store_commands
from brokerd.config import (
    AclConfig,
    BrokerConfig,
    ConfigError,
    LiveConfig,
    NamesrvConfig,
    NamesrvProcessConfig,
    TlsConfig,
    build,
    check,
    check_acl,
    check_port,
    check_role,
    read_properties,
    unknown_keys,
)
from brokerd.connections.server import PortTaken
from brokerd.connections.tls import TlsContexts
from brokerd.controller import BrokerController
from brokerd.log_lines import OneLineFormatter
from brokerd.name_server import NameServerController
from brokerd.store.errors import StoreError
from brokerd.store.store_config import MessageStoreConfig
from brokerd.system_limits import raise_file_limit
from brokerd.tables.changed_properties import CHANGED_PROPERTIES, ChangedProperties
from brokerd.tables.config_manager import TableUnreadable

logger = logging.getLogger("brokerd")

EXIT_CONFIG, EXIT_PORT, EXIT_STORE = 2, 3, 4


@dataclass(frozen=True, slots=True)
class Settings:
    live: LiveConfig
    store: MessageStoreConfig
    tls: TlsContexts


class Daemon(Protocol):
    """A broker or a name server."""

    async def start(self) -> None: ...

    @property
    def ready(self) -> str: ...

    async def stop(self) -> None: ...


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    if arguments and arguments[0] in store_commands.COMMANDS:
        return store_commands.main(arguments)
    is_name_server = bool(arguments) and arguments[0] == "namesrv"
    options = parse_arguments(arguments[1:] if is_name_server else arguments)
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=options.log_level.upper(), handlers=[log])
    try:
        if is_name_server:
            files, build_daemon = name_server_settings(options.config, options.set, environ)
        else:
            files, build_daemon = broker_settings(options.config, options.set, environ)
    except (ConfigError, OSError) as error:
        return fail(EXIT_CONFIG, str(error))
    except TableUnreadable as error:  # what operators changed while running was lost
        return fail(EXIT_STORE, str(error))
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(build_daemon, files))


def broker_settings(
    config_file: Path | None, assignments: Sequence[str], environ: Mapping[str, str]
) -> tuple[Path, Callable[[], Daemon]]:
    """Return the folder of a broker and how it is built, once the event loop runs. Raises as read_settings."""
    settings = read_settings(config_file, assignments, environ)
    return settings.store.store_path_root_dir, lambda: BrokerController(
        settings.live, settings.store, settings.tls
    )


def name_server_settings(
    config_file: Path | None, assignments: Sequence[str], environ: Mapping[str, str]
) -> tuple[Path, Callable[[], Daemon]]:
    """The same for a name server, with its file of key-value settings. Raises ConfigError or OSError."""
    properties, given = read_given(config_file, assignments)
    merged = {**properties, **given}
    data = environ.get("TIDEMARK_DATA") or "~"
    merged.setdefault("kvConfigPath", str(Path(data) / "namesrv" / "kvConfig.json"))
    warn_of_unknown(merged, NamesrvConfig, NamesrvProcessConfig, TlsConfig)
    process = build(NamesrvProcessConfig, merged)
    changed = ChangedProperties(process.changed_path).properties
    config = build(NamesrvConfig, {**properties, **changed, **given})
    check_port("listenPort", process.listen_port)
    tls = TlsContexts(build(TlsConfig, merged))
    return process.kv_config_path, lambda: NameServerController(config, process, tls)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m brokerd",
        description="A RocketMQ-compatible broker with the name server's role; `python -m brokerd namesrv` is a "
        "name server only.",
        epilog="Commands for a stopped store: python -m brokerd check --help, python -m brokerd repair --help.",
    )
    parser.add_argument(
        "-c", "--config", type=Path, metavar="FILE", help="property file with RocketMQ's keys"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; may be repeated"
    )
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"], help="default: info"
    )
    return parser.parse_args(arguments)


def read_settings(
    config_file: Path | None, assignments: Sequence[str], environ: Mapping[str, str]
) -> Settings:
    """File, `tls.config.file`, what operators changed while running, `--set`. Raises ConfigError or OSError."""
    properties, given = read_given(config_file, assignments)
    root = given.get("storePathRootDir") or properties.get("storePathRootDir") or default_root(environ)
    merged = {
        **properties,
        **ChangedProperties(Path(root).expanduser() / CHANGED_PROPERTIES).properties,
        **given,
        "storePathRootDir": root,
    }
    warn_of_unknown(merged, BrokerConfig, NamesrvConfig, MessageStoreConfig, TlsConfig, AclConfig)
    merged["rocketmqHome"] = merged.get("rocketmqHome") or environ.get("ROCKETMQ_HOME") or root
    live = LiveConfig(build(BrokerConfig, merged), build(NamesrvConfig, merged), build(AclConfig, merged))
    check(live.broker, live.namesrv)
    check_acl(live.acl)
    store = build(MessageStoreConfig, merged)
    check_role(live.broker, is_slave=store.is_slave)
    return Settings(live, store, TlsContexts(build(TlsConfig, merged)))


def read_given(config_file: Path | None, assignments: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the files set and what `--set` does. Raises ConfigError or OSError."""
    properties = read_file(config_file) if config_file is not None else {}
    given: dict[str, str] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {assignment}: takes key=value")
        given[key.strip()] = value.strip()
    if tls_file := given.get("tls.config.file") or properties.get("tls.config.file"):
        properties |= read_file(Path(tls_file).expanduser())
    return properties, given


def warn_of_unknown(properties: Mapping[str, str], *config_classes: type) -> None:
    for key in unknown_keys(properties, *config_classes):
        logger.warning("setting %s has no effect: unknown to this broker", key)  # its value may be a password


def read_file(path: Path) -> dict[str, str]:
    try:
        return read_properties(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def default_root(environ: Mapping[str, str]) -> str:
    data = environ.get("TIDEMARK_DATA")
    return str(Path(data) / "store") if data else "~/store"


async def run(build_daemon: Callable[[], Daemon], files: Path) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. `files`: what its refusal to start is about."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    daemon = build_daemon()
    # What a start makes stays: looking for garbage in it takes a tenth of a start with 10,000 queues, and later
    # collections pass over it.
    gc.disable()
    try:
        await daemon.start()
    except PortTaken as error:
        return fail(EXIT_PORT, error.strerror or str(error))
    except ConfigError as error:  # of access control: its tables and files are read here
        return fail(EXIT_CONFIG, str(error))
    except (StoreError, TableUnreadable, OSError) as error:
        return fail(EXIT_STORE, f"{files}: {error}")
    else:
        gc.freeze()
        gc.enable()
        sys.stdout.write(f"brokerd ready {daemon.ready}\n")
        sys.stdout.flush()
        await stopping.wait()
        logger.info("stopping")
        return 0
    finally:
        await daemon.stop()


def fail(code: int, reason: str) -> int:
    sys.stderr.write(f"brokerd: {reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
