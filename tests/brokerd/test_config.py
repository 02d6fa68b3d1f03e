from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.config import (
    BrokerConfig,
    ConfigError,
    NamesrvConfig,
    build,
    check,
    check_role,
    name_server_addresses,
    read_properties,
    to_properties,
    unknown_keys,
)
from brokerd.store.store_config import MessageStoreConfig


def test_it_reads_a_java_property_file() -> None:
    text = "# a comment\n! another\n\nbrokerName = broker-b\nlistenPort:30911\nnamesrvAddr=a:9876;\\\n   b:9876\n"
    assert read_properties(text) == {
        "brokerName": "broker-b",
        "listenPort": "30911",
        "namesrvAddr": "a:9876;b:9876",
    }


def test_it_names_a_line_that_is_no_setting() -> None:
    with pytest.raises(ConfigError, match="line 2: 'nonsense' is not key=value"):
        read_properties("brokerName=x\nnonsense\n")


def test_it_builds_settings_by_rocketmqs_keys() -> None:
    config = build(BrokerConfig, {"listenPort": "30911", "autoCreateTopicEnable": "FALSE", "other": "1"})
    assert (config.listen_port, config.auto_create_topic_enable, config.broker_name) == (
        30911,
        False,
        "broker-a",
    )


def test_it_builds_the_stores_settings(tmp_path: Path) -> None:
    config = build(
        MessageStoreConfig, {"storePathRootDir": str(tmp_path), "storePathCommitLog": str(tmp_path / "log")}
    )
    assert (config.store_path_root_dir, config.commit_log_dir) == (tmp_path, tmp_path / "log")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("listenPort", "many", "listenPort=many: takes a whole number"),
        ("autoCreateTopicEnable", "yes", "autoCreateTopicEnable=yes: takes true or false"),
    ],
)
def test_it_names_key_and_value_of_a_bad_setting(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(BrokerConfig, {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [("transactionTimeOut", "-1"), ("transactionCheckMax", "0"), ("transactionCheckInterval", "0")],
)
def test_it_refuses_times_of_transactions_that_cannot_work(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}={value}: takes [01] or more"):
        check(build(BrokerConfig, {key: value}), NamesrvConfig())


def test_it_names_a_bad_setting_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="flushDiskType 'SOMETIMES': ASYNC_FLUSH or SYNC_FLUSH"):
        build(MessageStoreConfig, {"flushDiskType": "SOMETIMES"}, store_path_root_dir=tmp_path)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (BrokerConfig(listen_port=70_000), "listenPort=70000: takes a port"),
        (BrokerConfig(broker_name=""), "must not be empty"),
        (BrokerConfig(namesrv_addr="nowhere"), "'nowhere' is not host:port"),
        (BrokerConfig(default_topic_queue_nums=0), "defaultTopicQueueNums=0"),
    ],
)
def test_it_refuses_what_cannot_work(config: BrokerConfig, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(config, NamesrvConfig())


@pytest.mark.parametrize(
    ("config", "is_slave", "says"),
    [
        (BrokerConfig(broker_id=1, namesrv_addr="a:1"), False, "brokerId=1: a master has 0"),
        (BrokerConfig(namesrv_addr="a:1"), True, "brokerId=0: brokerRole=SLAVE takes 1 or more"),
        (BrokerConfig(broker_id=1), True, "namesrvAddr must name the master's name servers"),
    ],
)
def test_it_refuses_a_role_that_does_not_fit(config: BrokerConfig, is_slave: bool, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_role(config, is_slave=is_slave)
    check_role(BrokerConfig(broker_id=2, namesrv_addr="a:1"), is_slave=True)


def test_it_names_a_role_that_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="brokerRole=LEADER: takes ASYNC_MASTER, SYNC_MASTER, SLAVE"):
        build(MessageStoreConfig, {"brokerRole": "LEADER"}, store_path_root_dir=tmp_path)


def test_it_finds_unknown_keys() -> None:
    assert unknown_keys({"brokerNam": "x", "listenPort": "1"}, BrokerConfig, NamesrvConfig) == ["brokerNam"]


def test_it_splits_name_servers() -> None:
    assert name_server_addresses("a:1; b:2,c:3;") == ["a:1", "b:2", "c:3"]


def test_it_shows_every_setting_as_java_does() -> None:
    shown = to_properties(BrokerConfig(), NamesrvConfig())
    assert (shown["traceOn"], shown["listenPort"], shown["namesrvListenPort"]) == ("true", "10911", "9876")
