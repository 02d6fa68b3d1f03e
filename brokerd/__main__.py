"""The command line: `python -m brokerd -c broker.conf --set listenPort=10911`, and `check` and `repair` of a store.

Exit codes of the broker: 0 stopped by a signal, 2 a setting is wrong, 3 a port is taken, 4 the store cannot be opened.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from brokerd import store_commands
from brokerd.config import (
    BrokerConfig,
    ConfigError,
    LiveConfig,
    NamesrvConfig,
    TlsConfig,
    build,
    check,
    read_properties,
    unknown_keys,
)
from brokerd.connections.tls import TlsContexts
from brokerd.controller import BrokerController, PortTaken
from brokerd.log_lines import OneLineFormatter
from brokerd.store.errors import StoreError
from brokerd.store.store_config import MessageStoreConfig
from brokerd.system_limits import raise_file_limit
from brokerd.tables.changed_properties import ChangedProperties
from brokerd.tables.config_manager import TableUnreadable

logger = logging.getLogger("brokerd")

EXIT_CONFIG, EXIT_PORT, EXIT_STORE = 2, 3, 4


@dataclass(frozen=True, slots=True)
class Settings:
    live: LiveConfig
    store: MessageStoreConfig
    tls: TlsContexts


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    if arguments and arguments[0] in store_commands.COMMANDS:
        return store_commands.main(arguments)
    options = parse_arguments(arguments)
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=options.log_level.upper(), handlers=[log])
    try:
        settings = read_settings(options.config, options.set, environ)
    except (ConfigError, OSError) as error:
        return fail(EXIT_CONFIG, str(error))
    except TableUnreadable as error:  # what operators changed while running was lost
        return fail(EXIT_STORE, str(error))
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m brokerd",
        description="A RocketMQ-compatible broker with the name server's role.",
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
    properties = read_file(config_file) if config_file is not None else {}
    given: dict[str, str] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {assignment}: takes key=value")
        given[key.strip()] = value.strip()
    if tls_file := given.get("tls.config.file") or properties.get("tls.config.file"):
        properties |= read_file(Path(tls_file).expanduser())
    root = given.get("storePathRootDir") or properties.get("storePathRootDir") or default_root(environ)
    merged = {
        **properties,
        **ChangedProperties(Path(root).expanduser()).properties,
        **given,
        "storePathRootDir": root,
    }
    for key in unknown_keys(merged, BrokerConfig, NamesrvConfig, MessageStoreConfig, TlsConfig):
        logger.warning("setting %s has no effect: unknown to this broker", key)  # its value may be a password
    live = LiveConfig(build(BrokerConfig, merged), build(NamesrvConfig, merged))
    check(live.broker, live.namesrv)
    return Settings(live, build(MessageStoreConfig, merged), TlsContexts(build(TlsConfig, merged)))


def read_file(path: Path) -> dict[str, str]:
    try:
        return read_properties(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def default_root(environ: Mapping[str, str]) -> str:
    data = environ.get("TIDEMARK_DATA")
    return str(Path(data) / "store") if data else "~/store"


async def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    controller = BrokerController(settings.live, settings.store, settings.tls)
    try:
        await controller.start()
    except PortTaken as error:
        return fail(EXIT_PORT, error.strerror or str(error))
    except (StoreError, TableUnreadable, OSError) as error:
        return fail(EXIT_STORE, f"{settings.store.store_path_root_dir}: {error}")
    else:
        ready = f"brokerd ready broker={controller.address} namesrv={controller.namesrv_address}\n"
        sys.stdout.write(ready)
        sys.stdout.flush()
        await stopping.wait()
        logger.info("stopping")
        return 0
    finally:
        await controller.stop()


def fail(code: int, reason: str) -> int:
    sys.stderr.write(f"brokerd: {reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
