"""The broker as a whole: builds every part, starts them in order, stops them in reverse.

Start: 1. take the ports; 2. open the store (recovery); 3. load the tables; 4. register; 5. accept; 6. timed work.
Stop, as Java: 1. unregister, so that no client is sent here; 2. read no more requests and answer those that were read;
3. close connections; 4. stop timed work; 5. save tables and offsets; 6. close the store.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from brokerd.acl.access_control import AccessControl
from brokerd.background import (
    DELETE_FILES_FIRST_MS,
    DELETE_FILES_MS,
    FLUSH_MS,
    SAMPLE_MS,
    SCAN_MS,
    TICK_MS,
    Background,
    ClientScan,
    OffsetSaver,
    StoreUpkeep,
)
from brokerd.broker_stats import BrokerStats
from brokerd.clients.consumer_manager import ConsumerManager
from brokerd.clients.producer_manager import ProducerManager
from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.clients.queue_lock import QueueLockManager
from brokerd.clock import steady_ms, wall_ms
from brokerd.cold_reads import ColdReads
from brokerd.config import (
    VIP_PORT_DISTANCE,
    LiveConfig,
    NamesrvProcessConfig,
    TlsConfig,
    name_server_addresses,
    replaced,
)
from brokerd.connections.server import Connection, PortTaken, RemotingServer, own_address
from brokerd.connections.tls import TlsContexts
from brokerd.ha.ha_client import HaClient
from brokerd.ha.ha_service import HaService
from brokerd.ha.slave_synchronize import SlaveSynchronize, SlaveTables
from brokerd.loop_delay import LoopDelay
from brokerd.metrics import MetricsServer
from brokerd.name_server import NameServerRole
from brokerd.namesrv.registration import Registration
from brokerd.namesrv.route_info import BrokerIdentity, RouteInfoManager
from brokerd.pop.pop_service import PopService
from brokerd.processor.broker import Broker
from brokerd.processor.client.client_notify import ChangeNotifier
from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.guard import GuardedHotPath, guarded
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.processor.hot_path import HotPath, SlavePath
from brokerd.processor.send.send_message import Sender
from brokerd.processor.slave import handlers_of_slave
from brokerd.queue_files import QueueFiles
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.body.topic import TopicConfig
from brokerd.schedule_message import ScheduleMessageService
from brokerd.store.light_store import LightMessageStore
from brokerd.store.message_store import MessageStore
from brokerd.store.store_config import MessageStoreConfig
from brokerd.system_limits import system_limits
from brokerd.tables.assignment import AssignmentManager
from brokerd.tables.changed_properties import CHANGED_PROPERTIES, ChangedProperties
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.table_file import TableWriter
from brokerd.tables.topic_config import TopicConfigManager
from brokerd.timer.slave_timer import SlaveTimer
from brokerd.timer.timer_service import TimerMessageService
from brokerd.transaction.transaction_service import TransactionService

logger = logging.getLogger(__name__)

DRAIN_WITHIN_S, DRAIN_STEP_S = 5.0, 0.005  # a flush takes milliseconds, on a sick disk seconds
CLOSE_WITHIN_S = 2.0  # for peers to read their last answers
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ACL_LOOK_MS = 1_000  # Java: 5 s; two or three stats
# Every kind of timed work has at most one thread under way, so have long look-ups; on a slow disk none waits for
# the others.
THREADS_MAX = 16


class BrokerController:
    """One broker process. `start`, then `stop`."""

    def __init__(
        self, config: LiveConfig, store_config: MessageStoreConfig, tls: TlsContexts | None = None
    ) -> None:
        self._config = config
        self._tls = tls or TlsContexts(TlsConfig())
        self._store_config = store_config
        self._config_dir = store_config.store_path_root_dir / "config"
        self._background = Background()
        self._tables = TableWriter()
        self._loop_delay = LoopDelay()
        self._limits = system_limits(config.broker.server_max_connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._hold = PullRequestHoldService()
        self._cold_reads = ColdReads()
        store_class = LightMessageStore if store_config.has_light_queues else MessageStore
        self.store = store_class(store_config, self._hold)
        self._queue_files = QueueFiles(self.store)
        self._registration: Registration | None = None
        self._ha_service = HaService(self.store)
        self._on_master: Callable[[str, str], None] = lambda master, ha_server: None
        self.metrics: MetricsServer | None = None  # with metricsExporterType=PROM
        self._name_server: NameServerRole | None = None  # unless namesrvAddr names others
        self._servers: list[RemotingServer] = []

    async def start(self) -> None:
        """Raise PortTaken, TableUnreadable, StoreError or OSError; `stop` then stops what was started."""
        now_ms = wall_ms()
        if self._store_config.enable_lmq != self._store_config.enable_multi_dispatch:
            logger.warning("light queues are off: they take both enableLmq=true and enableMultiDispatch=true")
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS_MAX, "background"))
        self._changed = ChangedProperties(self._store_config.store_path_root_dir / CHANGED_PROPERTIES)
        await self._take_ports()
        # The tables first: one that cannot be read refuses the start before the store is touched.
        broker = self._build_broker(now_ms)
        if self._name_server is not None:
            self._name_server.load()
        self.store.table.is_in_batches = broker.topics.is_in_batches
        report = self.store.open(now_ms)
        logger.info("store opened %s", report)
        self.store.table.limit(self._limits.queues_max, self._limits.reason)
        self._config_dir.mkdir(parents=True, exist_ok=True)
        self.broker = broker
        broker.topics.adopt(self.store.queue_counts(), now_ms)
        if not report.clean_shutdown:
            broker.offsets.fit(self.store.max_offset, now_ms)
        self._connect_parts()
        # Until here no request waits for a file.
        self.store.table.makes_files_in_thread = True
        if self._store_config.is_slave:
            self._follow_master()
        self._register(now_ms)
        self._saver = OffsetSaver(self.broker.offsets, self.broker.schedule)
        for server in self._servers:
            await server.start_serving()
        await self._ha_service.start_serving()
        await self._serve_metrics()
        self._start_background()

    async def _serve_metrics(self) -> None:
        settings = self._config.broker
        if settings.metrics_exporter_type == "PROM":
            self.metrics = MetricsServer(self.broker)
            host = settings.metrics_prom_exporter_host or settings.bind_address
            await self.metrics.start(host, settings.metrics_prom_exporter_port)

    async def _take_ports(self) -> None:
        settings, namesrv = self._config.broker, self._config.namesrv
        self._broker_server = await self._bind(
            "listenPort", settings.listen_port, self._process, self._closed
        )
        if settings.vip_port_enable:
            vip_port = self._broker_server.port - VIP_PORT_DISTANCE
            await self._bind("listenPort or vipPortEnable", vip_port, self._process, self._closed)
        if not self._store_config.is_slave:
            await self._bind_ha(settings.bind_address)
        if not settings.namesrv_addr:
            process = NamesrvProcessConfig(
                listen_port=namesrv.namesrv_listen_port,
                bind_address=settings.bind_address,
                kv_config_path=self._config_dir / "kvConfig.json",
                server_channel_max_idle_time_seconds=settings.server_channel_max_idle_time_seconds,
                server_max_connections=settings.server_max_connections,
            )
            self._name_server = NameServerRole(namesrv, process, self._tables, self._change_namesrv)
            self._namesrv_server = await self._bind(
                "namesrvListenPort",
                namesrv.namesrv_listen_port,
                self._name_server.process,
                self._name_server.routes.channel_closed,
            )

    async def _bind_ha(self, host: str) -> None:
        """Take the port for slaves. Raises PortTaken for one that was set; without the default one there are none."""
        wanted, listening = self._store_config.ha_listen_port, self._broker_server.port
        is_any = self._config.broker.listen_port == 0 and not wanted
        port = 0 if is_any else wanted or listening + 1
        try:
            await self._ha_service.bind(host, port)
        except (OSError, OverflowError) as error:
            if wanted:
                raise PortTaken(
                    errno.EADDRINUSE, f"port {port} (haListenPort) cannot be taken: {error}: set haListenPort"
                ) from error
            logger.warning("no slave can follow: port %d cannot be taken: %s; set haListenPort", port, error)

    async def _bind(
        self,
        key: str,
        port: int,
        process: Callable[[bytes, Connection], tuple[int, list[bytes]]],
        on_close: Callable[[Connection], None],
    ) -> RemotingServer:
        settings = self._config.broker
        server = RemotingServer(
            key,
            process,
            on_close,
            self._limits.connections_max,
            settings.server_channel_max_idle_time_seconds * 1000,
            self._tls,
        )
        await server.bind(settings.bind_address, port)
        self._servers.append(server)
        return server

    def _process(self, data: bytes, peer: Connection) -> tuple[int, list[bytes]]:
        return self._dispatcher.process(data, peer)

    def _build_broker(self, now_ms: int) -> Broker:
        config, folder, store_config = self._config, self._config_dir, self._store_config
        delay_levels_ms = store_config.delay_levels_ms
        timer = SlaveTimer if store_config.is_slave else TimerMessageService
        light = {"has_light_queues": store_config.has_light_queues}
        topics = TopicConfigManager(folder / "topics.json", config, len(delay_levels_ms), now_ms, **light)
        offsets = ConsumerOffsetManager(folder / "consumerOffset.json", now_ms, **light)
        producers = ProducerManager()
        groups = SubscriptionGroupManager(folder / "subscriptionGroup.json", config, now_ms, **light)
        return Broker(
            config=config,
            store=self.store,
            topics=topics,
            groups=groups,
            offsets=offsets,
            consumers=ConsumerManager(),
            producers=producers,
            locks=QueueLockManager(),
            hold=self._hold,
            schedule=ScheduleMessageService(folder / "delayOffset.json", delay_levels_ms),
            timer=timer(
                store_config.store_path_root_dir,
                store_config.mapped_file_size_timer_log,
                store_config.timer_precision_ms,
                store_config.timer_roll_window_slot,
            ),
            transactions=TransactionService(
                config, lambda: self.store.config.file_reserved_time_h * HOUR_MS, topics, offsets, producers
            ),
            pops=PopService(config, folder / "consumerOrderInfo.json", topics, groups, offsets, self._hold),
            cold_reads=self._cold_reads,
            queue_files=self._queue_files,
            assignments=AssignmentManager(folder),
            stats=BrokerStats(config.broker.broker_cluster_name, steady_ms()),
            store_host=(self.broker_ip(), self._broker_server.port),
            spawn=self._spawn,
            later=self._later,
            topic_route=self._topic_route,
            change_properties=self._changed.change,
            tables=self._tables,
            loop_delay=self._loop_delay,
            access=AccessControl(config.acl, folder, config.broker.broker_cluster_name, self._tables),
        )

    def _change_namesrv(self, properties: Mapping[str, str]) -> None:
        self._config.namesrv = replaced(self._config.namesrv, properties)
        self._changed.change(properties)

    def broker_ip(self) -> str:
        """Return the address given to clients: brokerIP1, else the one listened on, else this host's."""
        settings = self._config.broker
        return settings.broker_ip1 or own_address(settings.bind_address)

    def _connect_parts(self) -> None:
        broker = self.broker
        sender = Sender(broker)
        broker.sender, broker.ha, broker.slaves = sender, self._ha_service, self._ha_service
        access = broker.access
        handlers = BROKER_HANDLERS
        self._hot_path = GuardedHotPath(broker, sender, access) if access.is_on else HotPath(broker, sender)
        if self._store_config.is_slave:
            handlers = handlers_of_slave(handlers)
            self._hot_path = SlavePath(broker, sender)
        handlers = guarded(handlers, access.check) if access.is_on else handlers
        self._dispatcher = Dispatcher(broker, handlers, self._hot_path)
        broker.consumers.on_change = ChangeNotifier(broker).group_changed
        self._hold.soon = asyncio.get_running_loop().call_soon
        broker.schedule.start(self.store, self._cold_reads.begin, self._queue_files.begin)
        broker.transactions.start(
            self.store,
            broker.store_host,
            sender.parking,
            wall_ms(),
            steady_ms(),
            self._cold_reads.begin,
            self._queue_files.begin,
        )
        broker.pops.start(
            self.store, broker.store_host, wall_ms(), self._cold_reads.begin, self._queue_files.begin
        )
        if self._has_timer:
            broker.timer.start(self.store, self._hot_path.after_put, self._cold_reads, self._queue_files)
        assignments = broker.assignments
        for file in (
            broker.topics.file, broker.groups.file, *broker.offsets.files, assignments.modes_file,
            assignments.assignments_file, broker.pops.order_file, self._changed.file,
        ):  # fmt: skip
            self._tables.add(file)
        try:
            broker.topics.file.write_now()
        except OSError as error:  # a full disk must not keep consumers from what is stored
            logger.error("%s is not saved: %s; trying again", broker.topics.file.path, error)  # noqa: TRY400
            broker.topics.file.changed()
        self._tables.start()

    @property
    def _has_timer(self) -> bool:
        return self._config.broker.timer_wheel_enable

    def _follow_master(self) -> None:
        """Build what a slave follows its master with; it runs once a name server answers who that is."""
        broker, store_config = self.broker, self._store_config
        client = HaClient(self.store, self._hot_path.after_put, self._queue_files.make)
        timer = broker.timer if isinstance(broker.timer, SlaveTimer) and self._has_timer else None
        tables = SlaveTables(
            broker.topics, broker.groups, broker.offsets, broker.schedule, broker.assignments, timer
        )
        synchronize = SlaveSynchronize(
            tables,
            lambda: client.is_following,
            self._drop_topic,
            self._tls.client,
            broker.access.auth.inner_client,
        )
        client.on_news = synchronize.soon

        def on_master(master: str, ha_server: str) -> None:
            synchronize.follow(master)
            client.address = store_config.ha_master_address or ha_server

        self._on_master, broker.ha = on_master, client
        self._background.keep_running("following the master", client.run)
        self._background.keep_running("tables of the master", synchronize.run)
        if timer is not None:
            self._background.keep_running("timer of the master", partial(synchronize.run_timer, timer))

    def _drop_topic(self, topic: str) -> None:
        self.store.drop_topic(topic)
        self._spawn(self._queue_files.remove_dropped())

    def _register(self, now_ms: int) -> None:
        """Make the route known: in this process at once, at other name servers in the background."""
        broker, settings = self.broker, self._config.broker
        if self._name_server is None:
            self._registration = Registration(
                name_server_addresses(settings.namesrv_addr),
                self._identity,
                broker.topics.registration,
                self._tls.client,
                self._on_master,
            )
            broker.topics.on_change = lambda _: self._topics_changed_elsewhere()
            register = partial(self._registration.run, settings.register_name_server_period)
            self._background.keep_running("registration", register)
            return
        topics, routes = broker.topics, self._name_server.routes
        routes.register_broker(
            self._identity(),
            map(topics.registered, topics.topics.values()),
            topics.data_version,
            None,
            steady_ms(),
        )

        def topics_changed_here(configs: list[TopicConfig]) -> None:
            for config in configs:
                routes.put_topic(broker.broker_name, topics.registered(config))

        topics.on_change = topics_changed_here
        topics.on_delete = lambda topic: routes.delete_topic(topic, {broker.broker_name})

    def _identity(self) -> BrokerIdentity:
        settings, broker = self._config.broker, self.broker
        host, port = broker.store_host
        return BrokerIdentity(
            settings.broker_cluster_name,
            settings.broker_name,
            broker.address,
            settings.broker_id,
            f"{settings.broker_ip2 or host}:{self._ha_service.port or port + 1}",
        )

    def _topics_changed_elsewhere(self) -> None:
        if self._registration is not None:
            self._registration.topics_changed()

    async def _topic_route(self, topic: str) -> TopicRouteData | None:
        if self._registration is not None:
            return await self._registration.route(topic)
        return self.routes.route(topic)

    @property
    def routes(self) -> RouteInfoManager:
        """The routes of the name server in this process."""
        assert self._name_server is not None
        return self._name_server.routes

    def _start_background(self) -> None:
        broker, settings = self.broker, self._config.broker
        upkeep = StoreUpkeep(
            self.store,
            broker.schedule,
            broker.transactions,
            broker.pops,
            self._hold,
            self._hot_path.after_put,
        )
        scan = ClientScan(self._config, broker.consumers, broker.producers, broker.locks, self._close_idle)
        self._loop_delay.start()
        self._background.keep_running("writing of tables", self._tables.run)
        every = self._background.every
        every("delivery of delayed messages and held pulls", TICK_MS, upkeep.tick)
        # Two loops: the log must not wait until thousands of queues are flushed.
        if self._has_timer:
            self._background.keep_running("delivery of timer messages", broker.timer.run)
            every("saving of the timer", self._store_config.timer_flush_interval_ms, broker.timer.save)
        every("flush of the commit log", FLUSH_MS, upkeep.flush_log)
        every("flush of consume queues and index", FLUSH_MS, upkeep.flush_queues)
        every("statistics", SAMPLE_MS, self._sample, first_ms=0)
        every("saving offsets", settings.flush_consumer_offset_interval, self._saver.save)
        every("scan of clients", SCAN_MS, scan.scan)
        if broker.access.is_on:
            every("look at account files", ACL_LOOK_MS, broker.access.look)
            every("log of refusals", MINUTE_MS, broker.access.log_anew)
        every("look at TLS files", SCAN_MS, self._tls.refresh)
        every(
            "deletion of expired files", DELETE_FILES_MS, upkeep.delete_expired_files, DELETE_FILES_FIRST_MS
        )
        if self._name_server is not None:
            every("scan of brokers", self._name_server.scan_interval_ms, self._name_server.drop_expired)

    def _sample(self) -> None:
        self.broker.stats.sample(steady_ms(), wall_ms())

    def _close_idle(self, now_ms: int) -> None:
        for server in self._servers:
            server.close_idle(now_ms)

    def _closed(self, connection: Connection) -> None:
        self.broker.consumers.channel_closed(connection)
        self.broker.producers.channel_closed(connection)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("background work failed", exc_info=task.exception())

    @staticmethod
    def _later(delay_ms: int, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    @property
    def ready(self) -> str:
        return f"broker={self.address} namesrv={self.namesrv_address}"

    @property
    def address(self) -> str:
        return self.broker.address

    @property
    def namesrv_address(self) -> str:
        if self._name_server is None:
            return self._config.broker.namesrv_addr
        return f"{self.broker.store_host[0]}:{self._namesrv_server.port}"

    async def stop(self) -> None:
        """Graceful and quick; safe after a start that failed half-way."""
        if self._registration is not None:
            await self._registration.unregister_all()
        elif self._name_server is not None and hasattr(self, "broker"):
            self._name_server.routes.unregister_broker(
                self.broker.broker_name, self.broker.address, "it stops"
            )
        if self.metrics is not None:
            self.metrics.stop()
        for server in self._servers:
            server.stop_reading()
        await self._drain()
        await self._ha_service.stop()
        await asyncio.gather(*(server.stop(CLOSE_WITHIN_S) for server in self._servers))
        self._loop_delay.stop()
        await self._background.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Threads that still save or flush must not finish after what follows.
        if hasattr(self, "_hot_path"):
            self._hot_path.close()
        self._cold_reads.close()
        self._queue_files.close()
        await asyncio.get_running_loop().shutdown_default_executor()
        if hasattr(self, "_saver"):
            if not self._store_config.is_slave:  # a slave's are its master's
                self.broker.transactions.save_last(wall_ms())
                self.broker.pops.save_last(wall_ms())
            self.broker.timer.save_last()
            self._saver.save_now()
        self._tables.close()
        self.store.close(wall_ms())

    async def _drain(self) -> None:
        """Wait for the answers of what was read: those that wait for a flush, or for a table to be saved."""
        if not hasattr(self, "_hot_path"):
            return
        await self._tables.drain()
        deadline = time.monotonic() + DRAIN_WITHIN_S
        while (self._hot_path.is_holding or self._dispatcher.is_waiting) and time.monotonic() < deadline:  # noqa: ASYNC110  once, at the stop
            await asyncio.sleep(DRAIN_STEP_S)
