"""Owns the consumer groups' settings: retries, permissions; saved as config/subscriptionGroup.json.

Source: semantics §1.9, protocol §3.12 (`SubscriptionGroupManager.java`).
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

from brokerd import config_manager
from brokerd.config import LiveConfig
from brokerd.remoting.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from brokerd.remoting.message import is_system_group, validate_group
from brokerd.remoting.message_names import SYSTEM_GROUPS

logger = logging.getLogger(__name__)

GROUPS_MAX = 100_000  # auto-creation must not let a client with random names fill memory and disk


class SubscriptionGroupManager:
    """The group table. Single-threaded: the broker's event loop."""

    def __init__(self, path: Path, config: LiveConfig, now_ms: int) -> None:
        self._path = path
        self._config = config
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        loaded = config_manager.load(path, SubscriptionGroupWrapper.from_body)
        if loaded is not None:
            self.groups.update(loaded.subscription_group_table)
            self.data_version = loaded.data_version
        for name in sorted(SYSTEM_GROUPS):  # protocol §3.12
            self.groups.setdefault(name, SubscriptionGroupConfig(group_name=name))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self.groups.get(group)

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group's settings, made on first use when that is allowed and the name is valid; else None."""
        config = self.groups.get(group)
        if config is not None:
            return config
        if not (self._config.broker.auto_create_subscription_group or is_system_group(group)):
            return None
        if len(self.groups) >= GROUPS_MAX:
            logger.warning("group not created group=%s: %d groups exist already", group, GROUPS_MAX)
            return None
        try:
            validate_group(group)
        except ValueError as error:
            logger.warning("group not created group=%r: %s", group, error)
            return None
        logger.info("group created group=%s", group)
        return self.put(SubscriptionGroupConfig(group_name=group), now_ms)

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> SubscriptionGroupConfig:
        """Store new or changed settings and save. Raises OSError, and changes nothing, when it cannot be saved."""
        self._save({**self.groups, config.group_name: config}, now_ms)
        return config

    def delete(self, group: str, now_ms: int) -> bool:
        """False when there is no such group. Raises OSError as put."""
        if group not in self.groups:
            return False
        self._save({name: config for name, config in self.groups.items() if name != group}, now_ms)
        logger.info("group deleted group=%s", group)
        return True

    def _save(self, groups: dict[str, SubscriptionGroupConfig], now_ms: int) -> None:
        before, version = self.groups, self.data_version
        self.groups = groups
        self.data_version = dataclasses.replace(version, timestamp=now_ms, counter=version.counter + 1)
        try:
            self.persist()
        except (OSError, TypeError, ValueError, OverflowError):  # the disk's, or a number JSON cannot hold
            self.groups, self.data_version = before, version
            raise

    def wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            data_version=self.data_version, subscription_group_table=dict(self.groups)
        )

    def persist(self) -> None:
        config_manager.write_atomically(self._path, config_manager.indented(self.wrapper().to_body()))
