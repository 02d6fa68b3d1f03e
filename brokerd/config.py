"""Settings of the broker and of the name server: RocketMQ's key names, a default and a reason for each.

A `broker.conf` is a Java property file (`key=value`, `#` comments). `read_properties` parses it and `build` turns
it into a frozen dataclass whose fields carry their key as metadata, so the store's settings are read the same way.
Source of names and defaults: `BrokerConfig.java`, `NettyServerConfig.java`, `NamesrvConfig.java`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Config = TypeVar("Config")

HIDDEN = "******"  # in place of a secret
VIP_PORT_DISTANCE = 2  # below listenPort (MixAll.brokerVIPChannel)
CONNECTIONS_MAX = 20_000  # one file descriptor each; far above what one Python process serves well


class ConfigError(ValueError):
    """A setting that cannot be used; the text names the key, the value and what would be right."""


def setting(key: str, default: Any) -> Any:
    return field(default=default, metadata={"key": key})


def secret(key: str) -> Any:
    """Declare a text that no log line shows."""
    return field(default="", repr=False, metadata={"key": key})


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The broker's name, addresses and limits. Times in milliseconds unless the name has another unit."""

    broker_cluster_name: str = setting("brokerClusterName", "DefaultCluster")
    broker_name: str = setting("brokerName", "broker-a")
    broker_id: int = setting("brokerId", 0)  # 0 is the master, brokerRole=SLAVE has another one
    # The address given to clients and stored in every message; "" means the first address of this host.
    broker_ip1: str = setting("brokerIP1", "")
    broker_ip2: str = setting("brokerIP2", "")  # given to slaves; "": brokerIP1
    bind_address: str = setting("bindAddress", "0.0.0.0")
    listen_port: int = setting("listenPort", 10911)  # 0: any free port, printed in the ready line
    # Ours: listen on listenPort - 2 too, where clients with VIP channel connect (Java: always).
    vip_port_enable: bool = setting("vipPortEnable", False)
    # PROM: figures for Prometheus on a port of their own, without TLS and access control.
    metrics_exporter_type: str = setting("metricsExporterType", "DISABLE")
    metrics_prom_exporter_host: str = setting("metricsPromExporterHost", "")  # "" means bindAddress
    metrics_prom_exporter_port: int = setting("metricsPromExporterPort", 5557)
    # Name servers to register with, `host:port;host:port`; "" means this process is the name server too.
    namesrv_addr: str = setting("namesrvAddr", "")
    broker_permission: int = setting("brokerPermission", 6)
    region_id: str = setting("regionId", "DefaultRegion")
    trace_on: bool = setting("traceOn", True)

    auto_create_topic_enable: bool = setting("autoCreateTopicEnable", True)
    auto_create_subscription_group: bool = setting("autoCreateSubscriptionGroup", True)
    default_topic_queue_nums: int = setting("defaultTopicQueueNums", 8)
    cluster_topic_enable: bool = setting("clusterTopicEnable", True)
    broker_topic_enable: bool = setting("brokerTopicEnable", True)
    trace_topic_enable: bool = setting("traceTopicEnable", False)
    msg_trace_topic_name: str = setting("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC")

    start_accept_send_request_time_stamp: int = setting("startAcceptSendRequestTimeStamp", 0)
    reject_transaction_message: bool = setting("rejectTransactionMessage", False)
    store_reply_message_enable: bool = setting("storeReplyMessageEnable", True)  # in <cluster>_REPLY_TOPIC
    transaction_time_out: int = setting("transactionTimeOut", 6_000)  # before the first check
    transaction_check_max: int = setting("transactionCheckMax", 15)
    transaction_check_interval: int = setting("transactionCheckInterval", 30_000)
    timer_wheel_enable: bool = setting("timerWheelEnable", True)
    timer_max_delay_sec: int = setting("timerMaxDelaySec", 259_200)  # three days
    recall_message_enable: bool = setting("recallMessageEnable", False)
    default_query_max_num: int = setting("defaultQueryMaxNum", 32)

    long_polling_enable: bool = setting("longPollingEnable", True)
    short_polling_time_mills: int = setting("shortPollingTimeMills", 1_000)
    lite_pull_message_enable: bool = setting("litePullMessageEnable", True)
    slave_read_enable: bool = setting("slaveReadEnable", False)  # suggest a slave for old messages
    enable_property_filter: bool = setting("enablePropertyFilter", False)
    notify_consumer_ids_changed_enable: bool = setting("notifyConsumerIdsChangedEnable", True)
    use_server_side_reset_offset: bool = setting("useServerSideResetOffset", True)

    pop_from_retry_probability: int = setting(
        "popFromRetryProbability", 20
    )  # of pops that read it first, percent
    enable_retry_topic_v2: bool = setting("enableRetryTopicV2", False)  # %RETRY%group+topic, not group_topic
    retrieve_message_from_pop_retry_topic_v1: bool = setting("retrieveMessageFromPopRetryTopicV1", True)
    pop_response_return_actual_retry_topic: bool = setting("popResponseReturnActualRetryTopic", False)
    init_pop_offset_by_check_msg_in_mem: bool = setting("initPopOffsetByCheckMsgInMem", True)

    flush_consumer_offset_interval: int = setting("flushConsumerOffsetInterval", 5_000)
    flush_delay_offset_interval: int = setting("flushDelayOffsetInterval", 10_000)
    register_name_server_period: int = setting("registerNameServerPeriod", 30_000)
    channel_expired_timeout: int = setting("channelExpiredTimeout", 120_000)
    server_channel_max_idle_time_seconds: int = setting("serverChannelMaxIdleTimeSeconds", 120)
    server_max_connections: int = setting("serverMaxConnections", CONNECTIONS_MAX)  # ours; Java has none


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """The name server's role, in a broker's process (off when namesrvAddr names another one) or in its own."""

    namesrv_listen_port: int = setting("namesrvListenPort", 9876)
    scan_not_active_broker_interval: int = setting("scanNotActiveBrokerInterval", 5_000)
    enable_all_topic_list: bool = setting("enableAllTopicList", True)  # 206
    enable_topic_list: bool = setting("enableTopicList", True)  # 224, 311-313
    order_message_enable: bool = setting("orderMessageEnable", False)
    return_order_topic_config_to_broker: bool = setting("returnOrderTopicConfigToBroker", True)


@dataclass(frozen=True, slots=True)
class NamesrvProcessConfig:
    """The port and the file of a name server that is a process of its own."""

    listen_port: int = setting("listenPort", 9876)  # 0: any free port, printed in the ready line
    bind_address: str = setting("bindAddress", "0.0.0.0")
    kv_config_path: Path = setting(
        "kvConfigPath", Path("kvConfig.json")
    )  # $TIDEMARK_DATA/namesrv, else ~/namesrv
    server_channel_max_idle_time_seconds: int = setting("serverChannelMaxIdleTimeSeconds", 120)
    server_max_connections: int = setting("serverMaxConnections", CONNECTIONS_MAX)

    @property
    def changed_path(self) -> Path:
        """Return the file of what operators changed while it ran (318)."""
        return self.kv_config_path.parent / "namesrv.properties"


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS on the listening ports (TlsSystemConfig); offered where a certificate is set. Paths name PEM files."""

    server_mode: str = setting("tls.server.mode", "permissive")
    server_cert_path: str = setting("tls.server.certPath", "")  # with the chain behind it
    server_key_path: str = setting("tls.server.keyPath", "")
    server_key_password: str = secret("tls.server.keyPassword")
    server_need_client_auth: str = setting("tls.server.need.client.auth", "none")
    server_auth_client: bool = setting("tls.server.authClient", False)
    server_trust_cert_path: str = setting("tls.server.trustCertPath", "")
    enable: bool = setting("tls.enable", False)  # towards name servers elsewhere, by the keys below
    client_auth_server: bool = setting("tls.client.authServer", True)  # Java: false
    client_trust_cert_path: str = setting("tls.client.trustCertPath", "")
    client_cert_path: str = setting("tls.client.certPath", "")
    client_key_path: str = setting("tls.client.keyPath", "")
    client_key_password: str = secret("tls.client.keyPassword")
    config_file: str = setting("tls.config.file", "")  # a property file with the keys above


@dataclass(frozen=True, slots=True)
class AclConfig:
    """Access control of 4.x (BrokerConfig.aclEnable) and of 5.x (AuthConfig); docs/reference/acl.md."""

    acl_enable: bool = setting("aclEnable", False)
    rocketmq_home: str = setting("rocketmqHome", "")  # of conf/plain_acl.yml; "" is storePathRootDir
    authentication_enabled: bool = setting("authenticationEnabled", False)
    authorization_enabled: bool = setting("authorizationEnabled", False)
    # {"username":…,"password":…}: made at a start where it does not exist.
    init_authentication_user: str = secret("initAuthenticationUser")
    # {"accessKey":…,"secretKey":…}: the same, of brokers and tools.
    inner_client_authentication_credentials: str = secret("innerClientAuthenticationCredentials")
    authentication_whitelist: str = setting(
        "authenticationWhitelist", ""
    )  # request codes that are not checked
    authorization_whitelist: str = setting("authorizationWhitelist", "")
    # Classes of Java: those it ships are what this broker does.
    authentication_provider: str = setting("authenticationProvider", "")
    authentication_metadata_provider: str = setting("authenticationMetadataProvider", "")
    authentication_strategy: str = setting("authenticationStrategy", "")
    authorization_provider: str = setting("authorizationProvider", "")
    authorization_metadata_provider: str = setting("authorizationMetadataProvider", "")
    authorization_strategy: str = setting("authorizationStrategy", "")


@dataclass(slots=True)
class LiveConfig:
    """The settings in force. `broker` is replaced as a whole when an operator changes a hot key (25)."""

    broker: BrokerConfig
    namesrv: NamesrvConfig
    acl: AclConfig = field(default_factory=AclConfig)


# What UPDATE_BROKER_CONFIG (25) may change while the broker runs: read from the config at every use.
HOT_KEYS = frozenset(
    {
        "brokerPermission",
        "regionId",
        "traceOn",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "defaultTopicQueueNums",
        "startAcceptSendRequestTimeStamp",
        "rejectTransactionMessage",
        "storeReplyMessageEnable",
        "transactionTimeOut",
        "transactionCheckMax",
        "transactionCheckInterval",
        "timerMaxDelaySec",
        "recallMessageEnable",
        "defaultQueryMaxNum",
        "longPollingEnable",
        "shortPollingTimeMills",
        "litePullMessageEnable",
        "slaveReadEnable",
        "enablePropertyFilter",
        "notifyConsumerIdsChangedEnable",
        "useServerSideResetOffset",
        "popFromRetryProbability",
        "enableRetryTopicV2",
        "retrieveMessageFromPopRetryTopicV1",
        "popResponseReturnActualRetryTopic",
        "initPopOffsetByCheckMsgInMem",
        "channelExpiredTimeout",
    }
)

# What UPDATE_NAMESRV_CONFIG (318) may change.
NAMESRV_HOT_KEYS = frozenset(
    {"enableAllTopicList", "enableTopicList", "orderMessageEnable", "returnOrderTopicConfigToBroker"}
)


def read_properties(text: str) -> dict[str, str]:
    """Parse a Java property file: `key=value` or `key:value`, `#` and `!` comments, `\\` at a line's end joins.

    Raises ConfigError for a line that holds no key and value.
    """
    properties: dict[str, str] = {}
    joined = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = joined + raw.strip()
        joined = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            joined = line[:-1]
            continue
        positions = [p for p in (line.find("="), line.find(":")) if p > 0]
        if not positions:
            raise ConfigError(f"line {number}: {line!r} is not key=value")
        key, value = line[: min(positions)], line[min(positions) + 1 :]
        properties[key.strip()] = value.strip()
    return properties


def keys_of(config_class: type[Any]) -> dict[str, str]:
    """Return RocketMQ's key → field name of a settings class."""
    return {f.metadata["key"]: f.name for f in dataclasses.fields(config_class) if "key" in f.metadata}


def build(config_class: type[Config], properties: Mapping[str, str], **values: Any) -> Config:
    """Build `config_class` from its properties; `values` override. Raises ConfigError naming the key."""
    types = get_type_hints(config_class)
    for key, name in keys_of(config_class).items():
        if key in properties and name not in values:
            values[name] = parse_value(key, properties[key], types[name])
    try:
        return config_class(**values)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def read_changes(
    body: bytes, hot_keys: frozenset[str], known: frozenset[str], changed_by: str
) -> dict[str, str]:
    """Parse what a request sets. Raises ConfigError naming every key that is unknown or fixed while this runs."""
    try:
        properties = read_properties(body.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"settings are not UTF-8: {error}") from error
    unknown = sorted(properties.keys() - known)
    fixed = sorted(properties.keys() & known - hot_keys)
    reasons = []
    if unknown:
        reasons.append(f"{', '.join(unknown)}: no setting that {changed_by} changes; check the spelling")
    if fixed:
        reasons.append(
            f"{', '.join(fixed)}: cannot be changed while the broker runs; put it in its configuration file"
        )
    if reasons:
        raise ConfigError("; ".join(reasons))
    return properties


def replaced(current: Config, properties: Mapping[str, str]) -> Config:
    """Return the settings with those of `properties` that are theirs. Raises ConfigError naming the key."""
    types = get_type_hints(type(current))
    values = {
        name: parse_value(key, properties[key], types[name])
        for key, name in keys_of(type(current)).items()
        if key in properties
    }
    try:
        return dataclasses.replace(current, **values)  # type: ignore[type-var]
    except ValueError as error:
        raise ConfigError(str(error)) from error


def parse_value(key: str, text: str, wanted: Any) -> Any:
    """Turn a property's text into its field's type; raises ConfigError naming key, value and what it takes."""
    if get_origin(wanted) in (Union, UnionType):
        wanted = next(t for t in get_args(wanted) if t is not type(None))
    if wanted is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}={text}: takes true or false")
        return text.lower() == "true"
    if wanted is int:
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"{key}={text}: takes a whole number") from None
    return Path(text).expanduser() if wanted is Path else text


def check_port(key: str, port: int) -> None:
    if not 0 <= port <= 65_535:
        raise ConfigError(f"{key}={port}: takes a port from 0 to 65535")


def check(config: BrokerConfig, namesrv: NamesrvConfig) -> None:
    """Refuse values that parse but cannot work; raises ConfigError."""
    check_port("listenPort", config.listen_port)
    check_port("metricsPromExporterPort", config.metrics_prom_exporter_port)
    if config.metrics_exporter_type not in ("DISABLE", "PROM"):
        raise ConfigError(f"metricsExporterType={config.metrics_exporter_type}: takes DISABLE or PROM")
    if config.vip_port_enable and 0 < config.listen_port <= VIP_PORT_DISTANCE:
        raise ConfigError(
            f"listenPort={config.listen_port}: vipPortEnable takes listenPort - 2, so a port from 3 on"
        )
    check_port("namesrvListenPort", namesrv.namesrv_listen_port)
    if not config.broker_name or not config.broker_cluster_name:
        raise ConfigError("brokerName and brokerClusterName must not be empty")
    if not config.region_id.isprintable():  # it is a property of every message
        raise ConfigError(f"regionId={config.region_id!r}: takes printable characters")
    if config.default_topic_queue_nums < 1:
        raise ConfigError(f"defaultTopicQueueNums={config.default_topic_queue_nums}: takes 1 or more")
    for key, number, least in (
        ("transactionTimeOut", config.transaction_time_out, 0),
        ("transactionCheckMax", config.transaction_check_max, 1),
        ("transactionCheckInterval", config.transaction_check_interval, 1),
        ("timerMaxDelaySec", config.timer_max_delay_sec, 0),
    ):
        if number < least:
            raise ConfigError(f"{key}={number}: takes {least} or more")
    for address in name_server_addresses(config.namesrv_addr):
        host, _, port_text = address.rpartition(":")
        if not host or not port_text.isdecimal():
            raise ConfigError(f"namesrvAddr={config.namesrv_addr}: {address!r} is not host:port")


APACHE_PACKAGE = "org.apache.rocketmq."


def check_acl(config: AclConfig) -> None:
    """Refuse settings of access control that would leave a hole; raises ConfigError."""
    if config.acl_enable and config.authentication_enabled:
        raise ConfigError(
            "aclEnable=true and authenticationEnabled=true: these are two generations of access control; set one"
        )
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled=true: rights of users that are not authenticated protect nothing; set "
            "authenticationEnabled=true too"
        )
    for key, name in keys_of(AclConfig).items():
        if key.endswith(("Provider", "Strategy")):
            value = getattr(config, name)
            if value and not value.startswith(APACHE_PACKAGE):
                raise ConfigError(f"{key}={value}: this broker has no classes of others; delete the line")
        elif key.endswith("Whitelist"):
            whitelist(key, getattr(config, name))


def whitelist(key: str, text: str) -> frozenset[int]:
    """Return the request codes of a list with commas. Raises ConfigError."""
    try:
        return frozenset(int(code) for code in text.split(",") if code.strip())
    except ValueError:
        raise ConfigError(f"{key}={text}: takes request codes with commas between, like 34,35") from None


def check_role(config: BrokerConfig, *, is_slave: bool) -> None:
    """Refuse a role that does not fit; raises ConfigError."""
    if is_slave and config.broker_id <= 0:
        raise ConfigError(f"brokerId={config.broker_id}: brokerRole=SLAVE takes 1 or more")
    if not is_slave and config.broker_id != 0:
        raise ConfigError(f"brokerId={config.broker_id}: a master has 0; a slave is set by brokerRole=SLAVE")
    if is_slave and not config.namesrv_addr:
        raise ConfigError("namesrvAddr must name the master's name servers with brokerRole=SLAVE")


def name_server_addresses(namesrv_addr: str) -> list[str]:
    """`a:9876;b:9876` → its addresses; a comma separates too."""
    return [a.strip() for a in namesrv_addr.replace(",", ";").split(";") if a.strip()]


def unknown_keys(properties: Mapping[str, str], *config_classes: type[Any]) -> list[str]:
    known = {key for config_class in config_classes for key in keys_of(config_class)}
    return sorted(key for key in properties if key not in known)


def to_properties(*configs: Any) -> dict[str, str]:
    """Return every setting as GET_BROKER_CONFIG (26) shows it; of a secret, only whether it is set."""
    shown: dict[str, str] = {}
    for config in configs:
        hidden = {f.name for f in dataclasses.fields(config) if not f.repr}
        for key, name in keys_of(type(config)).items():
            value = getattr(config, name)
            if value and name in hidden:
                value = HIDDEN
            shown[key] = (
                str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
            )
    return shown
