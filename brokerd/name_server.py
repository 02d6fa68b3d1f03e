"""The name server: its tables, its port and its timed work, beside a broker in its process or as a process of its own.

Source: `NamesrvController.java`. What it holds of brokers is in memory and comes back with their next registration;
its key-value settings are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerd.background import SCAN_MS, Background
from brokerd.clock import steady_ms
from brokerd.config import NamesrvConfig, NamesrvProcessConfig
from brokerd.connections.server import Connection, RemotingServer, own_address
from brokerd.connections.tls import TlsContexts
from brokerd.namesrv.kv_config import KvConfigManager
from brokerd.namesrv.route_info import RouteInfoManager
from brokerd.processor.broker import NameServer
from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.handlers import NAMESRV_HANDLERS
from brokerd.system_limits import system_limits
from brokerd.tables import config_manager
from brokerd.tables.changed_properties import ChangedProperties
from brokerd.tables.table_file import TableWriter

CLOSE_WITHIN_S = 2.0  # for peers to read their last answers


class NameServerRole:
    """The tables and the handlers over them. Single-threaded: the event loop."""

    def __init__(
        self,
        config: NamesrvConfig,
        process: NamesrvProcessConfig,
        tables: TableWriter,
        change_properties: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.routes = RouteInfoManager()
        self.kv_config = KvConfigManager(process.kv_config_path)
        self.scan_interval_ms = config.scan_not_active_broker_interval
        self._tables = tables
        name_server = NameServer(config, self.routes, self.kv_config, tables, process, change_properties)
        self._dispatcher = Dispatcher(name_server, NAMESRV_HANDLERS)

    def load(self) -> None:
        """Read the key-value settings. Raises TableUnreadable or OSError."""
        config_manager.load(self.kv_config.file.path, self.kv_config.load)
        self._tables.add(self.kv_config.file)

    def process(self, data: bytes, peer: Connection) -> tuple[int, list[bytes]]:
        return self._dispatcher.process(data, peer)

    def drop_expired(self) -> None:
        self.routes.drop_expired(steady_ms())


class NameServerController:
    """A process that is a name server only. `start`, then `stop`."""

    def __init__(self, config: NamesrvConfig, process: NamesrvProcessConfig, tls: TlsContexts) -> None:
        self._config = process
        self._tls = tls
        self._background = Background()
        self._tables = TableWriter()
        self._is_serving = False
        self._changed = ChangedProperties(process.changed_path)
        self._role = NameServerRole(config, process, self._tables, self._changed.change)
        self._server = RemotingServer(
            "listenPort",
            self._role.process,
            self._role.routes.channel_closed,
            system_limits(process.server_max_connections).connections_max,
            process.server_channel_max_idle_time_seconds * 1000,
            tls,
        )

    async def start(self) -> None:
        """Raise PortTaken, TableUnreadable or OSError; `stop` then stops what was started."""
        await self._server.bind(self._config.bind_address, self._config.listen_port)
        self._role.load()
        self._tables.add(self._changed.file)
        self._tables.start()
        self._background.keep_running("writing of tables", self._tables.run)
        self._background.every("scan of brokers", self._role.scan_interval_ms, self._role.drop_expired)
        self._background.every("scan of connections", SCAN_MS, lambda: self._server.close_idle(steady_ms()))
        self._background.every("look at TLS files", SCAN_MS, self._tls.refresh)
        await self._server.start_serving()
        self._is_serving = True

    @property
    def ready(self) -> str:
        return f"namesrv={own_address(self._config.bind_address)}:{self._server.port}"

    async def stop(self) -> None:
        """Graceful and quick; safe after a start that failed half-way."""
        self._server.stop_reading()
        if self._is_serving:
            await self._tables.drain()
        await self._server.stop(CLOSE_WITHIN_S)
        await self._background.stop()
        self._tables.close()
